"""The pages of figures are made of the rows that are kept, and those of searches compare what can be compared."""

import pytest
from tests.benchmarks.small import BENCH, kept

from benchmarks import accounting, search
from benchmarks.bounds import report as bounds
from benchmarks.core.results import read_rows


@pytest.mark.slow
@pytest.mark.parametrize("bench", [search, accounting, bounds], ids=lambda bench: bench.__name__)
def test_the_kept_page_is_what_its_rows_give(bench, tmp_path):
    name = bench.__name__.split(".")[1]
    page = bench.write(BENCH / f"{name}.jsonl", tmp_path, **{"plots": False} if bench is bounds else {})
    made, shown = (path.read_text("utf-8").split("\n\n") for path in (page, BENCH / f"{name}.md"))
    assert [part for part in made if part[:2] != "!["] == [part for part in shown if part[:2] != "!["]


def test_every_kept_row_has_spent_its_epsilon_and_no_more():
    rows = read_rows(BENCH / "search.jsonl")
    assert len(rows) == sum(len(search.keys(case, 10)) for case in search.CASES)
    assert all(0.98 * row["epsilon"] <= row["spent"] <= row["epsilon"] for row in rows)


def test_figures_compare_a_search_with_auto_on_the_same_splits(tmp_path):
    rows = [
        {"table": "adult", "system": system, "epsilon": 1.0, "seed": seed, "accuracy": accuracy, "seconds": 1.0}
        for system, seed, accuracy in (
            ("auto", 0, 0.8), ("auto", 1, 0.9), ("auto", 2, 0.1),
            ("search, shapes of auto", 0, 0.79), ("search, shapes of auto", 1, 0.87),
        )
    ]  # fmt: skip
    results = kept(rows, tmp_path)
    _, found = search.side_by_side(results)
    assert found["against auto"] == "-2.00 (sd 1.41, worst -3.00)"
    assert "not met" in search.write(results, tmp_path).read_text("utf-8")


def test_what_is_kept_is_not_measured_again(tmp_path, monkeypatch):
    measured = []
    monkeypatch.setattr(search, "load_view", lambda name: (None, [], None))

    def measure(X, y, schema, case, system, epsilon, seed):
        measured.append((system, epsilon, seed))
        return {"table": case.table, "delta": case.delta, "system": system, "epsilon": epsilon, "seed": seed}

    monkeypatch.setattr(search, "_measure", measure)
    for _ in range(2):
        list(search.run(lambda step: None, tmp_path / "rows.jsonl", 1))
    assert len(measured) == sum(len(search.keys(case, 1)) for case in search.CASES)
