"""What the papers say in words: true of some rows, false of others, and read in the same column on both sides."""

from dataclasses import fields

import pytest

from benchmarks.core.figures import Figure
from benchmarks.papers.base import DIFFPID3, DPDF, Cell, Sentence, Table
from benchmarks.papers.lines import Line
from benchmarks.papers.rules import Above, BestAbove, Between, Halves, LaterPeak, Peak, Pick, Reader, Trend, pick
from benchmarks.papers.run import QUESTIONS
from benchmarks.papers.sentences import said

TABLES = {table.name: table for question in QUESTIONS for table in question.tables}


def line(system, dataset="toy", metric="accuracy", spread=0.1, figures=None, **parameters):
    shown = {column: Figure(value, spread, 3) for column, value in (figures or {}).items()}
    cell = Cell(dataset, system, tuple(parameters.items()))
    return Line(cell, metric, shown, None, 3, None, None)


def curve(system, values, along="epsilon", column="private", **fixed):
    fixed = fixed if along == "epsilon" else {"epsilon": 1.0} | fixed
    return [line(system, figures={column: value}, **{along: place}, **fixed) for place, value in enumerate(values, start=1)]


def holds(rule, lines, column="private"):
    return rule.places(Reader({"table": lines}, "table", column))


def picks_of(rule):
    for part in fields(rule):
        value = getattr(rule, part.name)
        yield from (each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Pick))


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.sentences])
def test_every_sentence_is_about_cells_that_are_run(name):
    for sentence in TABLES[name].sentences:
        for chosen in picks_of(sentence.rule):
            cells = TABLES[chosen.table or name].cells
            found = [cell for cell in cells if cell.system == chosen.system and cell.epsilon is not None]
            assert set(chosen.datasets) <= {cell.dataset for cell in found}, sentence
            assert any(set(chosen.parameters) <= set(cell.parameters) for cell in found), sentence


def test_systems_are_compared_at_the_same_place_and_column():
    lines = [*curve("a", (0.5, 0.8)), *curve("b", (0.7, 0.7)), *curve("b", (0.0,), column="published")]
    assert holds(Above(pick("a"), pick("b")), lines) == [False, True]
    assert holds(Above(pick("a"), pick("b")), lines, "published") == []  # a has no printed form
    assert holds(Above(pick("a"), pick("b"), on_average=True), lines) == [False]
    assert holds(Above(pick("a"), pick("b", epsilon=1)), lines) == [False, True]
    errors = {"a": 0.1, "b": 0.2}  # less is better
    lines = [line(name, metric="error", figures={"private": value}, epsilon=1) for name, value in errors.items()]
    assert holds(Above(pick("a"), pick("b")), lines) == [True]


def test_views_of_a_table_are_alike_only_in_different_tables():
    one = line("a", "adult:data", figures={"private": 0.9}, epsilon=1)
    other = line("b", "adult:complete", figures={"private": 0.8}, epsilon=1)
    reader = Reader({"one": [one], "other": [other]}, "one", "private")
    assert Above(pick("a"), pick("b", table="other")).places(reader) == [True]
    assert holds(Above(pick("a"), pick("b")), [one, other]) == []


def test_half_of_what_is_lacking_and_between():
    other = line("b", figures={"private": 0.7, "random forest": 0.9}, epsilon=1)
    rule = Halves(pick("a"), pick("b"), pick("b", column="random forest"))
    for value, is_half in ((0.8, True), (0.79, False)):
        assert holds(rule, [line("a", figures={"private": value}, epsilon=1), other]) == [is_half]
    assert holds(Between(pick("a"), 0.84, 0.97), curve("a", (0.83, 0.84, 0.98))) == [False, True, False]


def test_trends_and_peaks_of_curves():
    rising, falling = curve("a", (0.6, 0.9, 0.7)), curve("b", (0.9, 0.6))
    assert holds(Trend(pick("a"), "epsilon"), rising) == [True]
    assert holds(Trend(pick("b"), "epsilon"), falling) == [False]
    assert holds(Trend(pick("b"), "epsilon", up=False), falling) == [True]
    assert holds(Peak(pick("a"), "epsilon"), rising) == [True]
    assert holds(Peak(pick("a"), "epsilon", (3,)), rising) == [False]
    assert holds(Trend(pick("a"), "epsilon"), rising[:1]) == []  # one point is no curve
    wide = [line("a", figures={"private": 0.5}, spread=spread, epsilon=place) for place, spread in ((1, 0.3), (2, 0.1))]
    assert holds(Trend(pick("a"), "epsilon", up=False, of_spread=True), wide) == [True]


def test_later_peaks():
    lines = curve("a", (0.5, 0.6, 0.9), along="depth", part=False) + curve("a", (0.5, 0.9, 0.6), along="depth", part=True)
    assert holds(LaterPeak(pick("a", part=False), pick("a", part=True), "depth"), lines) == [True]
    assert holds(LaterPeak(pick("a", part=True), pick("a", part=False), "depth"), lines) == [False]


def test_the_best_of_some_against_the_best_of_others():
    lines = [line("a", figures={"private": value}, epsilon=1, depth=4, q=q) for q, value in enumerate((0.7, 0.9, 0.8))]
    assert holds(BestAbove((pick("a", q=0), pick("a", q=1)), (pick("a", q=2),), "depth"), lines) == [True]
    assert holds(BestAbove((pick("a", q=0),), (pick("a", q=2),), "depth"), lines) == [False]


def test_a_lead_is_of_the_printed_form_over_the_printed_form():
    """Published with published and private with private, not the printed form of one with the private form of another."""
    dpdf = line(DPDF, "nursery", figures={"published": 0.9, "private": 0.8}, epsilon=1.0, n_trees=1, depth=4)
    other = line(DIFFPID3, "nursery", figures={"published": 0.65, "private": 0.79}, epsilon=1.0, depth=4)
    table = TABLES["dpdf-accuracy"]
    (lead,) = (row for row in said(table, {table.name: [dpdf, other]}) if "25 points above" in row["what it says"])
    assert (lead["holds as printed"], lead["holds privately"]) == ("25.0 at ε = 1", "1.0 at ε = 1")


def test_a_sentence_that_cannot_be_looked_at_is_left_out():
    rule = Above(pick("a"), pick("b"))
    table = Table("t", "", "", cells=(), sentences=(Sentence("§1", "a is better", rule),))
    assert said(table, {"t": curve("a", (0.5,))}) == []
    (row,) = said(table, {"t": curve("a", (0.5, 0.6)) + curve("b", (0.4, 0.7))})
    assert row == {"where": "§1", "what it says": "a is better", "holds as printed": "-", "holds privately": "1 of 2"}
