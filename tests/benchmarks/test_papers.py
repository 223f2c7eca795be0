"""The papers' experiments: what is printed has a source, runs go on where they were, quotations are those of rows."""

import math
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from tests.benchmarks.small import BENCH, kept, toy

from benchmarks.core.results import Case, finished, read_rows, run_all
from benchmarks.core.trials import Folds, HeldOut, run
from benchmarks.papers import balance, views
from benchmarks.papers import report as papers_report
from benchmarks.papers import run as papers
from benchmarks.papers.base import DP_ERT
from benchmarks.papers.lines import is_printed_for
from benchmarks.papers.rules import Pick
from benchmarks.papers.run import QUESTIONS
from benchmarks.papers.sources import OUR_OWN, SHOWN
from dpforest import Bounded, Categorical, Classes, Schema
from dpforest.recipes import list_recipes

pytestmark = pytest.mark.slow

TABLES = [(question, table) for question in QUESTIONS for table in question.tables]
METRICS = {"accuracy", "error", "mse_range", "tail", "epsilon per query"}
METRICS |= {"accuracy above friedman-schuster-2010", "accuracy below random-forest"}
FACTS = {"seed", "paper", "source", "table", "dataset", "system", "printed_as", "parameters", "metric", "value"}
SOURCES = ("Table ", "Figure ", "read off the text, §", "caption of ", "Theorem ")
CASES = [Case.of("dpdf", "toy", "auto", "private", seed, epsilon=1.0) for seed in range(4)]


def small(name):
    """The toy of a benchmark's table."""
    return toy(0 if name.startswith(("parkinsons", "appliances", "nycflights")) else 2, 200)


def measured(case):
    return case.to_dict() | {"metrics": {"accuracy": 0.5}}


# What is printed


def test_every_printed_number_names_its_source_and_stands_beside_a_cell():
    tables = {table.name: table for _, table in TABLES}
    for row in papers.printed():
        assert set(row) >= FACTS
        assert row["seed"] in {"000", "001", "002", "003", "004"}
        assert row["source"].startswith(SOURCES)
        assert row["metric"] in METRICS
        assert math.isfinite(row["value"])
        assert row["table"] in {*tables, None}
        if row["table"] and row["metric"] == tables[row["table"]].metric:
            assert any(is_printed_for(row, cell, row["metric"]) for cell in tables[row["table"]].cells), row


# What is run


def test_the_quick_run_is_part_of_the_full_one():
    full = papers.all_cases(QUESTIONS, quick=False)
    assert set(papers.all_cases(QUESTIONS, quick=True)) <= set(full)
    assert len(set(full)) == len(full)
    for _, table in TABLES:
        assert set(table.quick) <= set(table.cells)
        assert set(table.published or ()) <= set(table.cells)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_cells_of_every_question_run_on_a_small_table(question, tmp_path):
    results = tmp_path / "rows.jsonl"
    rows = list(papers.run(lambda step: None, True, results, n_jobs=1, questions=(question,), load=small))
    assert [row["absent"] for row in rows if "absent" in row] == []
    assert len(rows) == len(papers.all_cases((question,), quick=True)) > 0
    assert {row["variant"] for row in rows} == {"private", "published", "no privacy"}
    for row in rows:
        assert all(0 <= value <= 1 for value in row["metrics"].values())
        assert ("auc" in row["metrics"]) == ("accuracy" in row["metrics"])  # the made-up classes are two
        if row["variant"] == "private":
            assert row["holds"]
            assert row["epsilon_spent"] == pytest.approx(row["parameters"]["epsilon"])
        elif row["variant"] == "no privacy" or row["system"] != DP_ERT:  # the one printed claim that is kept
            assert not row["holds"]
    page = papers_report.write(results, tmp_path / "page").read_text("utf-8")
    assert question.title in page
    assert "could not be run" not in page


def test_parts_of_tables_are_those_of_the_papers(monkeypatch):
    X = pa.table({"native-country": ["United-States", "Cuba", None, "United-States"], "sex": ["a", "b", "a", None]})
    y = pa.chunked_array([["no", "yes", "no", "yes"]])
    features = {"native-country": Categorical(["Cuba", "United-States"]), "sex": Categorical(["a", "b"])}
    schema = Schema(features, Classes(["no", "yes"]))
    monkeypatch.setattr(views, "load_dataset", lambda name: (X, y, schema))
    views.load_view.cache_clear()
    try:
        us, target, us_schema = views.load_view("adult:us")
        assert us.to_pydict() == {"sex": ["a", None]}
        assert target.to_pylist() == ["no", "yes"]
        assert list(us_schema.features) == ["sex"]
        complete, target, _ = views.load_view("adult:complete")
        assert len(complete) == len(target) == 2
        assert len(views.load_view("adult:data")[0]) == 4
    finally:
        views.load_view.cache_clear()
    degrees = pa.chunked_array([["0", "3", "1"]])
    _, target, disease = views.VIEWS["disease"](X, degrees, schema)
    assert target.to_pylist() == ["no", "yes", "yes"]
    assert disease.target.labels == ("no", "yes")
    assert views.VIEWS["range"](X, pa.chunked_array([[2.0, 5.0]]), schema)[2].target == Bounded(2.0, 5.0)


# How it is run


def test_a_second_run_runs_nothing_but_what_was_absent_or_torn(tmp_path):
    results = tmp_path / "rows.jsonl"
    list(run_all(CASES, lambda case: case.to_dict() | {"absent": "not yet"}, results))
    assert len(list(run_all(CASES, measured, results, n_jobs=2))) == len(CASES)
    assert list(run_all(CASES, measured, results)) == []
    whole = results.read_bytes()
    for n_bytes in (0, 1, len(whole) // 2, len(whole) - 20, len(whole) - 1, len(whole)):
        results.write_bytes(whole[:n_bytes])
        assert len(read_rows(results)) == whole[:n_bytes].count(b"\n")
        list(run_all(CASES, measured, results))
        assert len(finished(read_rows(results))) == len(CASES)


def test_a_run_that_stops_keeps_what_it_has_and_a_failure_stops_none(tmp_path):
    results = tmp_path / "rows.jsonl"

    def stop(step):
        if step.startswith("2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_all(CASES, measured, results, stop))
    assert len(read_rows(results)) == 2
    assert len(list(run_all(CASES, measured, results))) == 2

    def broken(name):
        raise ZeroDivisionError("no rows")

    assert "ZeroDivisionError" in run(CASES[0], broken, Folds())["absent"]


@pytest.mark.parametrize("split", [Folds(10), HeldOut(0.25)])
def test_splits_are_fixed_by_the_seed_and_folds_are_stratified(split):
    target = np.repeat(["a", "b"], [300, 100])
    train, test = split.rows(target, 1)
    assert sorted([*train, *test]) == list(range(400))
    assert (split.rows(target, 1)[1] == test).all()
    assert sorted(split.rows(target, 2)[1]) != sorted(test)
    if isinstance(split, Folds):
        tests = [split.rows(target, seed)[1] for seed in range(10)]
        assert sorted(np.concatenate(tests)) == list(range(400))
        assert all((target[test] == "b").sum() == 10 for test in tests)


# What is quoted


def made_up(question, table, cell, accuracies):
    """Rows of all columns of a cell, one for each accuracy."""
    for seed, accuracy in enumerate(accuracies):
        for case in papers.cases_of(question, table, cell, seed).values():
            figures = {"accuracy": accuracy, "error": 1 - accuracy}
            yield case.to_dict() | {"metrics": figures, "guess": figures, "epsilon_least_charge": 0.1}


def table_of(name):
    return next(pair for pair in TABLES if pair[1].name == name)


def test_the_reading_page_quotes_what_was_measured():
    assert papers_report.misquoted((BENCH / "reading.md").read_text("utf-8"), BENCH / "papers.jsonl") == []


def test_a_wrong_quotation_is_found(tmp_path):
    question, table = table_of("linear-depth")
    results = kept(made_up(question, table, table.cells[0], (0.8, 0.9)), tmp_path)
    quotation = '[{}](papers.md#linear-depth "adult:us; dong-2022; depth = 4, d = 0, q = 1; {}")'
    for figure in ("85.0", "85"):
        assert papers_report.misquoted(quotation.format(figure, "private"), results) == []
    (wrong,) = papers_report.misquoted(quotation.format("86.0", "private"), results)
    assert "86.0 is quoted" in wrong
    assert "there is 85.0" in wrong
    assert "there is nothing" in papers_report.misquoted(quotation.format("85.0", "privately"), results)[0]


# Every table and figure of the sources

FIGURES = {"001": range(1, 8), "002": range(1, 8), "003": range(1, 8), "004": range(1, 7)}
FIGURES["000"] = ("2.1", "2.2", "3.1", "5.1", "5.2", "5.3", *(f"4.{number}" for number in range(1, 13)))
PRINTED = {"000": ("4.1", "5.1"), "001": (1,), "002": (1, 2), "003": (1,), "004": (1, 2, 3)}


def test_every_caption_is_run_or_says_why_not_and_every_recipe_is_measured():
    listed = [(shown.source, shown.number) for shown in SHOWN]
    figures = {(source, f"Figure {number}") for source, numbers in FIGURES.items() for number in numbers}
    assert {*listed} == figures | {(source, f"Table {number}") for source, numbers in PRINTED.items() for number in numbers}
    assert len(set(listed)) == len(listed)
    assert all(shown.tables or shown.why for shown in SHOWN)
    assert {name for shown in SHOWN for name in shown.tables} | set(OUR_OWN) == {table.name for _, table in TABLES}
    measured = {cell.system for _, table in TABLES for cell in table.cells} | {"auto"}
    assert {recipe["name"] for recipe in list_recipes()} <= measured


# How even splits are


def test_shares_of_children_and_sizes_of_leaves_are_counted(monkeypatch):
    # The root sends 6 records to the left, where a split sends 1 of them to the left; 4 records end on the right.
    first, second = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 0, 0, 0, 0]
    forest = SimpleNamespace(
        n_nodes=5,
        depth=2,
        domain=None,
        is_leaf=np.array([False, False, True, True, True]),
        parents=np.array([-1, 0, 0, 1, 1]),
        first_children=np.array([1, 3, -1, -1, -1]),
        features=np.array([0, 1, -1, -1, -1]),
        splits=np.array([0, 0, -1, -1, -1]),
        routes=np.array([[0, 1]]),
    )
    model = SimpleNamespace(forest_=forest, privacy_=SimpleNamespace(holds=False))
    asked = []
    monkeypatch.setattr(balance, "fit", lambda case, *rest: asked.append(case) or model)
    monkeypatch.setattr(balance, "encode", lambda columns, domain: np.array([first, second]))
    monkeypatch.setattr(balance, "read_columns", lambda X, schema: None)
    case = Case.of("diprime-balance", "toy", "consul-2020", "private", 0, depth=2, t=2)
    row = balance.evenness(case, pa.table({"x": range(10)}), None, None, np.arange(10), None)
    assert dict(asked[0].parameters) == {"depth": 2}  # t is not a parameter of the recipe
    assert row["metrics"]["smaller_child"] == pytest.approx((4 / 10 + 1 / 6) / 2)
    assert row["metrics"]["tail"] == pytest.approx(1 / 3)  # leaves of 4, 1 and 5 records, 2.5 on the mean
    assert not row["holds"]


def test_the_bound_on_tails_is_that_of_the_theorem():
    # By hand: gamma = 8/3 nearly, so 8/3 / (0.25 * 20)**2 by Chebyshev; far out the exponential bound is tighter.
    assert balance.tail_bound(0.25, 20, 10) == pytest.approx(8 / 3 / 25, rel=1e-5)
    assert balance.tail_bound(0.25, 80, 10) == pytest.approx(2 * math.exp(-0.25 * 0.8702 * 80 / 2), rel=1e-2)
    assert balance.tail_bound(0.25, 1, 10) == 1
    tails = [row for row in papers.printed() if row["metric"] == "tail"]
    assert [row["parameters"]["t"] for row in tails] == list(balance.DISTANCES)
    for row in tails:
        given = row["parameters"]
        bound = balance.tail_bound(given["epsilon"] * 0.5 / (2 * given["depth"]), given["t"], given["depth"])
        assert row["value"] == pytest.approx(bound, abs=1e-6)


# --- what the papers say in words: true of some rows, false of others, by the same column on both sides -----------------

BY_NAME = {table.name: table for _, table in TABLES}


def picks_of(rule):
    for part in fields(rule):
        value = getattr(rule, part.name)
        yield from (each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Pick))


@pytest.mark.parametrize("name", [name for name, table in BY_NAME.items() if table.sentences])
def test_every_sentence_is_about_cells_that_are_run(name):
    for sentence in BY_NAME[name].sentences:
        for chosen in picks_of(sentence.rule):
            cells = BY_NAME[chosen.table or name].cells
            found = [cell for cell in cells if cell.system == chosen.system and cell.epsilon is not None]
            assert set(chosen.datasets) <= {cell.dataset for cell in found}, sentence
            assert any(set(chosen.parameters) <= set(cell.parameters) for cell in found), sentence
