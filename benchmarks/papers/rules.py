"""When what a paper says in words is true of what was measured: picks of lines, and rules about their figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from benchmarks.papers.lines import Line

Tables = dict[str, "list[Line]"]  # the lines of every table by its name


def base(dataset: str) -> str:
    """The name of the benchmark table that a view is a part of."""
    return dataset.partition(":")[0]


@dataclass(frozen=True)
class Pick:
    """Lines of a system, with these parameters and on these data sets (none: on all of them).

    Without a ``column`` they are read in the column that is asked about; ``table`` names another table than the sentence's.
    """

    system: str
    datasets: tuple[str, ...] = ()
    parameters: tuple[tuple[str, Any], ...] = ()
    column: str | None = None
    table: str | None = None


def pick(system: str, *datasets: str, column: str | None = None, table: str | None = None, **parameters: Any) -> Pick:
    """A pick, with its parameters as keywords."""
    return Pick(system, datasets, tuple(parameters.items()), column, table)


class Reader:
    """Reads picks in one column of the lines of a table; picks that name another table are read there."""

    def __init__(self, tables: Tables, table: str, column: str) -> None:
        self.tables, self.table, self.column = tables, table, column

    def lines(self, pick: Pick) -> "list[Line]":
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

    def value(self, line: "Line", pick: Pick) -> float:
        return line.goodness(line.figures[pick.column or self.column].mean)

    def pairs(self, one: Pick, other: Pick) -> "Iterator[tuple[Line, Line]]":
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

    def curves(self, pick: Pick, along: str) -> "list[list[tuple[Any, Line]]]":
        """Groups of two or more lines that differ in the parameter ``along`` only, each in the order of its values."""
        curves: dict[Any, list[tuple[Any, Line]]] = {}
        for line in self.lines(pick):
            value = dict(line.cell.parameters).get(along)
            if value is not None:
                fixed = (line.cell.dataset, tuple(line.cell.without(along).items()))
                curves.setdefault(fixed, []).append((value, line))
        return [sorted(curve, key=lambda point: point[0]) for curve in curves.values() if len(curve) > 1]

    def peak(self, pick: Pick, curve: "list[tuple[Any, Line]]") -> Any:
        return max(curve, key=lambda point: self.value(point[1], pick))[0]


class Rule(Protocol):
    """Something that is true or not at each place where it can be looked at: a data set, a budget, a curve."""

    def places(self, reader: Reader) -> list[bool]: ...


@dataclass(frozen=True)
class Above:
    """``one`` is better than ``other`` wherever both were run alike; or on the mean of these places."""

    one: Pick
    other: Pick
    on_average: bool = False

    def places(self, reader: Reader) -> list[bool]:
        leads = [reader.value(a, self.one) - reader.value(b, self.other) for a, b in reader.pairs(self.one, self.other)]
        return [sum(leads) > 0] if self.on_average and leads else [lead > 0 for lead in leads]


@dataclass(frozen=True)
class Halves:
    """``one`` takes away at least half of what ``other`` lacks of ``reference``."""

    one: Pick
    other: Pick
    reference: Pick

    def places(self, reader: Reader) -> list[bool]:
        found = []
        for one, other in reader.pairs(self.one, self.other):
            if (self.reference.column or reader.column) in other.figures:
                reference = reader.value(other, self.reference)
                lacking = reference - reader.value(other, self.other)
                found.append(reference - reader.value(one, self.one) <= lacking / 2)
        return found


@dataclass(frozen=True)
class BestAbove:
    """At each value of ``along`` the best of ``ones`` is better than the best of ``others``."""

    ones: tuple[Pick, ...]
    others: tuple[Pick, ...]
    along: str

    def places(self, reader: Reader) -> list[bool]:
        best: list[dict[Any, float]] = []
        for picks in (self.ones, self.others):
            values: dict[Any, float] = {}
            for pick in picks:
                for line in reader.lines(pick):
                    place = (line.cell.dataset, dict(line.cell.parameters)[self.along])
                    values[place] = max(values.get(place, float("-inf")), reader.value(line, pick))
            best.append(values)
        ones, others = best
        return [ones[place] > others[place] for place in ones if place in others]


@dataclass(frozen=True)
class Trend:
    """Along a parameter every curve ends better than it began (``up``) or worse; of its figures or of their spread."""

    one: Pick
    along: str
    up: bool = True
    of_spread: bool = False

    def places(self, reader: Reader) -> list[bool]:
        found = []
        for curve in reader.curves(self.one, self.along):
            first, last = curve[0][1], curve[-1][1]
            if self.of_spread:
                column = self.one.column or reader.column
                begin, end = (line.figures[column].spread for line in (first, last))
            else:
                begin, end = reader.value(first, self.one), reader.value(last, self.one)
            if begin is not None and end is not None:
                found.append(end > begin if self.up else end < begin)
        return found


@dataclass(frozen=True)
class Peak:
    """Every curve is best at one of ``at``; without them, before its last point."""

    one: Pick
    along: str
    at: tuple[Any, ...] = ()

    def places(self, reader: Reader) -> list[bool]:
        curves = reader.curves(self.one, self.along)
        if self.at:
            return [reader.peak(self.one, curve) in self.at for curve in curves]
        return [reader.peak(self.one, curve) != curve[-1][0] for curve in curves]


@dataclass(frozen=True)
class LaterPeak:
    """Curves of ``one`` are best at larger values of ``along`` than those of ``other``."""

    one: Pick
    other: Pick
    along: str

    def places(self, reader: Reader) -> list[bool]:
        ones, others = (
            {curve[0][1].cell.dataset: reader.peak(pick, curve) for curve in reader.curves(pick, self.along)}
            for pick in (self.one, self.other)
        )
        return [ones[dataset] > others[dataset] for dataset in ones if dataset in others]


@dataclass(frozen=True)
class Between:
    """All figures of ``one`` lie between two numbers."""

    one: Pick
    low: float
    high: float

    def places(self, reader: Reader) -> list[bool]:
        column = self.one.column or reader.column
        return [self.low <= line.figures[column].mean <= self.high for line in reader.lines(self.one)]
