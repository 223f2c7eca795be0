"""Figures of the benchmark on bounds: how much a score changes on the same splits, by kind of bounds and by state."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, stdev

from benchmarks.bounds.cases import AUTO, BEFORE, DELTAS, EPSILONS, TABLES, Table
from benchmarks.bounds.loosening import AS_GIVEN, FEATURES, SHIFTED
from benchmarks.core.figures import Figure
from benchmarks.core.results import Row

# Goals speak of fits whose number of rows times epsilon is at least this.
LEAST_SIGNAL = 1000
Side = tuple[str, str, str]  # system, kind of bounds, and whose bounds they are


@dataclass(frozen=True)
class Cell:
    """A table at a budget."""

    table: Table
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Change:
    """By how much one side scores better than another in a cell, split by split: accuracy or R²."""

    cell: Cell
    values: tuple[float, ...]
    n_train: int

    @property
    def mean(self) -> float:
        return mean(self.values)

    @property
    def error(self) -> float | None:
        """The standard error of the mean; None if there is one split only."""
        return stdev(self.values) / math.sqrt(len(self.values)) if len(self.values) > 1 else None

    @property
    def has_signal(self) -> bool:
        return self.n_train * self.cell.epsilon >= LEAST_SIGNAL


@dataclass(frozen=True)
class Summary:
    """Several changes together: the mean over their cells, its standard error, and the worst and the best cell."""

    mean: float
    error: float | None
    worst: Change
    best: Change
    n_cells: int

    @classmethod
    def of(cls, changes: Iterable[Change]) -> "Summary | None":
        found = sorted(changes, key=lambda change: change.mean)
        if not found:
            return None
        errors = [change.error for change in found if change.error is not None]
        error = math.sqrt(sum(error**2 for error in errors)) / len(found) if len(errors) == len(found) else None
        return cls(mean(change.mean for change in found), error, found[0], found[-1], len(found))


class Figures:
    """Measured rows by what they are about."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        # By cell and side, then by settings, then by split.
        self._found: dict[tuple[Cell, Side], dict[str, dict[int, Row]]] = {}
        tables = {table.name: table for table in TABLES}
        for row in self.rows:
            settings = dict(row["parameters"])
            if "loosened" not in settings:
                continue  # a row about cost
            cell = Cell(tables[row["dataset"]], settings.pop("epsilon"), settings.pop("delta"))
            side = (row["system"], row["variant"], settings.pop("loosened"))
            tried = self._found.setdefault((cell, side), {})
            tried.setdefault(json.dumps(settings, sort_keys=True), {})[row["seed"]] = row

    def split_rows(self, cell: Cell, side: Side) -> dict[int, Row]:
        """The rows of a side in a cell by their split; of systems with settings those with the best mean score."""
        system, kind, loosened = side
        # With bounds as given it does not matter whose are not loosened.
        side = (system, kind, FEATURES if kind == AS_GIVEN else loosened)
        tried = list(self._found.get((cell, side), {}).values())
        most = max((len(rows) for rows in tried), default=0)
        full = [rows for rows in tried if len(rows) == most]
        return max(full, key=lambda rows: mean(row["score"] for row in rows.values()), default={})

    def figure(self, cell: Cell, side: Side, what: str = "score") -> Figure | None:
        """The mean score of a side in a cell, or that of the best constant guess."""
        values = [row[what] for row in self.split_rows(cell, side).values()]
        return Figure.of(values) if values else None

    def change(self, cell: Cell, side: Side, base: Side) -> Change | None:
        """By how much a side scores better than the base, on splits that have both."""
        own, other = self.split_rows(cell, side), self.split_rows(cell, base)
        seeds = sorted(set(own) & set(other))
        if not seeds:
            return None
        differences = tuple(own[seed]["score"] - other[seed]["score"] for seed in seeds)
        return Change(cell, differences, own[seeds[0]]["n_train"])

    def changes(self, side: Side, base: Side, has_classes: bool) -> list[Change]:
        """The changes in all cells of a task that have both sides."""
        found = [self.change(cell, side, base) for cell in self.cells(has_classes)]
        return [change for change in found if change is not None]

    def shifted(self, delta: float, passes: int) -> list[Change]:
        """What numbers far from zero change, on splits on which the fit made this many passes for the grid."""
        found = []
        for cell in (cell for cell in self.cells(True) if cell.delta == delta):
            own, base = (self.split_rows(cell, (AUTO, kind, FEATURES)) for kind in (SHIFTED, AS_GIVEN))
            seeds = [seed for seed in sorted(set(own) & set(base)) if own[seed]["passes"] == passes]
            if seeds:
                values = tuple(own[seed]["score"] - base[seed]["score"] for seed in seeds)
                found.append(Change(cell, values, own[seeds[0]]["n_train"]))
        return found

    def above_guess(self, side: Side, has_classes: bool) -> list[Change]:
        """By how much a side scores better than one class or the mean, in all cells of a task."""
        found = []
        for cell in self.cells(has_classes):
            if rows := self.split_rows(cell, side):
                values = tuple(row["score"] - row["guess"] for _, row in sorted(rows.items()))
                found.append(Change(cell, values, next(iter(rows.values()))["n_train"]))
        return found

    def cells(self, has_classes: bool) -> list[Cell]:
        """Cells in the order of tables, modes and budgets; not all of them need have rows."""
        own = [table for table in TABLES if table.has_classes == has_classes]
        return [Cell(table, epsilon, delta) for table in own for delta in DELTAS for epsilon in sorted(EPSILONS)]

    def loosening(self, kind: str, loosened: str, has_classes: bool) -> list[Change]:
        """What bounds of a kind change against bounds as given."""
        return self.changes((AUTO, kind, loosened), (AUTO, AS_GIVEN, FEATURES), has_classes)

    def since_before(self, kind: str, loosened: str, has_classes: bool) -> list[Change]:
        """What has changed since the state before, with bounds of a kind."""
        return self.changes((AUTO, kind, loosened), (BEFORE, kind, loosened), has_classes)

    def cost(self, variant: str) -> list[Row]:
        """The rows about cost of a variant."""
        return [row for row in self.rows if "loosened" not in row["parameters"] and row["variant"] == variant]
