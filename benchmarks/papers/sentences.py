"""Whether what the papers say in words is true of what was measured."""

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from benchmarks.core.results import Row
from benchmarks.papers.base import Above, BestAbove, Between, Halves, LaterPeak, Peak, Pick, Rule, Table, Trend
from benchmarks.papers.lines import Line, base
from benchmarks.papers.run import printed

Tables = dict[str, list[Line]]  # the lines of every table by its name


class Reader:
    """Reads picks in one column of the lines of a table; picks that name another table are read there."""

    def __init__(self, tables: Tables, table: str, column: str) -> None:
        self.tables, self.table, self.column = tables, table, column

    def lines(self, pick: Pick) -> list[Line]:
        """The lines of a pick that have a figure in its column."""
        return [
            line
            for line in self.tables.get(pick.table or self.table, [])
            if line.cell.epsilon is not None
            and line.cell.system == pick.system
            and (not pick.datasets or line.cell.dataset in pick.datasets)
            and set(pick.parameters) <= set(line.cell.parameters)
            and (pick.column or self.column) in line.figures
        ]

    def value(self, line: Line, pick: Pick) -> float:
        return line.goodness(line.figures[pick.column or self.column].mean)

    def pairs(self, one: Pick, other: Pick) -> Iterator[tuple[Line, Line]]:
        """Lines of two picks that differ in nothing that both have, but in what the picks say; other tables, other views."""
        view = base if one.table != other.table else str
        said = {name for name, _ in (*one.parameters, *other.parameters)}
        for first in self.lines(one):
            for second in self.lines(other):
                given, against = dict(first.cell.parameters), dict(second.cell.parameters)
                common = given.keys() & against.keys() - said
                is_same = view(first.cell.dataset) == view(second.cell.dataset)
                if is_same and all(given[name] == against[name] for name in common):
                    yield first, second

    def curves(self, pick: Pick, along: str) -> list[list[tuple[Any, Line]]]:
        """Lines that differ in ``along`` only, by it; of two points or more."""
        curves: dict[Any, list[tuple[Any, Line]]] = {}
        for line in self.lines(pick):
            place = dict(line.cell.parameters).get(along)
            if place is not None:
                fixed = (line.cell.dataset, tuple(line.cell.without(along).items()))
                curves.setdefault(fixed, []).append((place, line))
        return [sorted(curve, key=lambda point: point[0]) for curve in curves.values() if len(curve) > 1]

    def peak(self, pick: Pick, curve: list[tuple[Any, Line]]) -> Any:
        return max(curve, key=lambda point: self.value(point[1], pick))[0]


@singledispatch
def places(rule: Rule, reader: Reader) -> list[bool]:
    """For each place where a sentence can be looked at, whether it holds there."""
    raise NotImplementedError


@places.register
def _(rule: Above, reader: Reader) -> list[bool]:
    leads = [reader.value(a, rule.one) - reader.value(b, rule.other) for a, b in reader.pairs(rule.one, rule.other)]
    return [sum(leads) > 0] if rule.on_average and leads else [lead > 0 for lead in leads]


@places.register
def _(rule: Halves, reader: Reader) -> list[bool]:
    found = []
    for one, other in reader.pairs(rule.one, rule.other):
        if (rule.reference.column or reader.column) in other.figures:
            reference = reader.value(other, rule.reference)
            lacking = reference - reader.value(other, rule.other)
            found.append(reference - reader.value(one, rule.one) <= lacking / 2)
    return found


@places.register
def _(rule: BestAbove, reader: Reader) -> list[bool]:
    best: list[dict[Any, float]] = []
    for picks in (rule.ones, rule.others):
        values: dict[Any, float] = {}
        for pick in picks:
            for line in reader.lines(pick):
                place = (line.cell.dataset, dict(line.cell.parameters)[rule.along])
                values[place] = max(values.get(place, float("-inf")), reader.value(line, pick))
        best.append(values)
    ones, others = best
    return [ones[place] > others[place] for place in ones if place in others]


@places.register
def _(rule: Trend, reader: Reader) -> list[bool]:
    found = []
    for curve in reader.curves(rule.one, rule.along):
        first, last = curve[0][1], curve[-1][1]
        if rule.of_spread:
            column = rule.one.column or reader.column
            begin, end = (line.figures[column].spread for line in (first, last))
        else:
            begin, end = reader.value(first, rule.one), reader.value(last, rule.one)
        if begin is not None and end is not None:
            found.append(end > begin if rule.up else end < begin)
    return found


@places.register
def _(rule: Peak, reader: Reader) -> list[bool]:
    curves = reader.curves(rule.one, rule.along)
    if rule.at:
        return [reader.peak(rule.one, curve) in rule.at for curve in curves]
    return [reader.peak(rule.one, curve) != curve[-1][0] for curve in curves]


@places.register
def _(rule: LaterPeak, reader: Reader) -> list[bool]:
    ones, others = (
        {curve[0][1].cell.dataset: reader.peak(pick, curve) for curve in reader.curves(pick, rule.along)}
        for pick in (rule.one, rule.other)
    )
    return [ones[dataset] > others[dataset] for dataset in ones if dataset in others]


@places.register
def _(rule: Between, reader: Reader) -> list[bool]:
    column = rule.one.column or reader.column
    return [rule.low <= line.figures[column].mean <= rule.high for line in reader.lines(rule.one)]


def said(table: Table, tables: Tables) -> list[dict[str, str]]:
    """The sentences of a table, each with the places where it holds as printed and privately."""
    entries = [_lead(row, tables[table.name]) for row in printed() if row["table"] == table.name]
    for sentence in table.sentences:
        found = {}
        for column in ("published", "private"):
            holds = places(sentence.rule, Reader(tables, table.name, column))
            found[column] = f"{sum(holds)} of {len(holds)}" if holds else "-"
        entries.append((sentence.source, sentence.says, found))
    return [
        {"where": where, "what it says": says, "holds as printed": found["published"], "holds privately": found["private"]}
        for entry in entries
        if entry is not None
        for where, says, found in (entry,)
        if set(found.values()) != {"-"}
    ]


def _lead(row: Row, lines: list[Line]) -> tuple[str, str, dict[str, str]] | None:
    """A printed difference between systems, and ours at each budget; both systems in the same column."""
    side, _, against = row["metric"].removeprefix("accuracy ").partition(" ")
    if side not in ("above", "below"):
        return None
    one = Pick(row["system"], (row["dataset"],), tuple(row["parameters"].items()))
    is_forest = against == "random-forest"
    other = Pick(row["system"] if is_forest else against, column="random forest" if is_forest else None)
    sign = 100 if side == "above" else -100
    found = {}
    for column in ("published", "private"):
        reader = Reader({"": lines}, "", column)
        leads = {a.cell.epsilon: reader.value(a, one) - reader.value(b, other) for a, b in reader.pairs(one, other)}
        found[column] = ", ".join(f"{sign * lead:.1f} at ε = {epsilon:g}" for epsilon, lead in leads.items()) or "-"
    says = f"{row['dataset']}: {row['printed_as']} lies {100 * row['value']:.0f} points {side} {against} ({row['note']})"
    return row["source"].removeprefix("read off the text, "), says, found
