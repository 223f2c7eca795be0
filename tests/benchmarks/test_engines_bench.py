"""The benchmark of engines: every engine beside the same rows in memory, rows that say what they are, honest verdicts."""

from contextlib import ExitStack

import pytest
from tests.benchmarks.small import kept

from benchmarks.core.goals import OPEN
from benchmarks.core.machine import machine
from benchmarks.core.results import NotMeasured
from benchmarks.engines import cases, report, run, tables
from benchmarks.engines.cases import ENGINES, FULL, MEMORY, PARQUET, QUICK, SPARK, TIME

pytestmark = pytest.mark.slow

MACHINE = machine(*run.LIBRARIES)


def rows(share=1.0):
    """Rows as a run would keep them, each with this share of what its goal allows."""
    found = []
    for case in cases.wanted(FULL, 2):
        if case.variant == TIME:
            figures = {"reading": 1.0, "in_memory": 2.0, "seconds": 3 * share * cases.TIMES[case.system][1]}
        else:
            figures = {"seconds": 9.0, "peak_bytes": 1e9 * share * cases.PEAKS[case.system][1]}
        found.append(case.to_dict() | figures | {"repeats": 3, "load_before_run": 0.1, "machine": MACHINE})
    return found


def test_cases_are_those_of_the_goals_or_times_of_other_sizes():
    assert len(cases.wanted(FULL, 2)) == len(report.GOALS)
    quick = cases.wanted(QUICK, 2)
    assert {case.variant for case in quick} == {TIME}
    assert [case.system for case in quick] == [*ENGINES]
    assert {case.variant for case in cases.wanted(FULL, 2, (PARQUET,))} == {TIME, MEMORY}


def test_the_page_has_every_engine_and_what_could_not_be_run(tmp_path):
    absent = {name: value for name, value in rows()[-1].items() if name not in ("seconds", "peak_bytes")}
    page = report.write(kept([*rows()[:-1], absent | {"absent": "no server"}], tmp_path), tmp_path).read_text("utf-8")
    for said in (*(f"| {engine} |" for engine in ENGINES), "1.20x", "1.20 GB", "no server", OPEN):
        assert said in page


@pytest.mark.parametrize("engine", [pytest.param(engine, marks=pytest.mark.night) for engine in ENGINES])
def test_an_engine_is_measured_and_the_run_goes_on_where_it_ended(tmp_path, engine):
    results, steps = tmp_path / "engines.jsonl", []
    (row,) = run.run(steps.append, results, QUICK, engines=(engine,), rows=(300,))
    if row.get("absent", "").startswith("there is no"):
        pytest.skip(row["absent"])
    assert len(row["runs"]) == QUICK.repeats
    assert min(row["reading"], row["in_memory"], row["seconds"]) > 0
    assert not list(run.run(steps.append, results, QUICK, engines=(engine,), rows=(300,)))
    assert {line["section"] for line in report.side_by_side(results)} == {"Goals", "Times"}


def test_memory_is_the_peak_of_a_process_since_it_began(tmp_path):
    (case,) = [case for case in cases.wanted(FULL, 1, (PARQUET,)) if case.variant == MEMORY]
    small = cases.Case.of(case.question, "small", PARQUET, MEMORY, 1, n_rows=300, threads=1)
    with ExitStack() as stack:
        row = run.measure(small, tables.Tables(tmp_path, stack), 1)
    assert row["peak_bytes"] > 50_000_000


def test_spark_without_java_is_a_row_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(tables.shutil, "which", lambda name: None)
    with ExitStack() as stack, pytest.raises(NotMeasured, match="Java"):
        tables.Tables(tmp_path, stack).address(SPARK, 10)
