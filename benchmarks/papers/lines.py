"""Lines of the papers' tables: what was measured and what is printed for a cell."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean

from benchmarks.core.figures import Figure
from benchmarks.core.results import Row, group
from benchmarks.papers.base import Cell, Question, Table
from benchmarks.papers.rules import base
from benchmarks.papers.run import cases_of, printed

COLUMNS = ("published", "private", "private at 2ε", "auto", "no privacy", "random forest", "extra trees")
HEADS = {
    "published": "as printed",
    "no privacy": "no privacy, same system",
    "random forest": "no privacy, random forest",
    "extra trees": "no privacy, extra trees",
}
# Factor, digits and unit in which a metric is shown.
UNITS = {
    "accuracy": (100, 1, "%"),
    "error": (100, 1, "%"),
    "auc": (100, 1, "%"),
    "smaller_child": (100, 1, "%"),
    "tail": (100, 2, "%"),
    "mse_range": (1000, 2, "10⁻³"),
}
MORE_IS_BETTER = ("accuracy", "auc", "smaller_child")
# A printed figure counts as reached within two points; a squared error within a tenth of it.
NEAR_POINTS, NEAR_SHARE = 0.02, 0.1

Groups = dict[str, list[Row]]  # rows of the same case on different splits


@dataclass(frozen=True)
class Line:
    """A cell with all that was measured and printed for it; ``guess`` is the figure of the best constant guess."""

    cell: Cell
    metric: str
    figures: dict[str, Figure]
    guess: Figure | None
    n_splits: int
    printed: Row | None
    least_charge: float | None

    @property
    def value(self) -> float | None:
        return None if self.printed is None else self.printed["value"]

    def gain(self, column: str) -> float:
        """By how much the figure is better than the printed one."""
        assert self.value is not None
        return self.goodness(self.figures[column].mean) - self.goodness(self.value)

    def is_reached(self, column: str) -> bool:
        """Whether a figure is better than printed, or within two points of it (a tenth for squared errors)."""
        assert self.value is not None
        return self.gain(column) >= -(NEAR_SHARE * self.value if self.metric == "mse_range" else NEAR_POINTS)

    def goodness(self, value: float) -> float:
        """A number that is larger for what is better."""
        return value if self.metric in MORE_IS_BETTER else -value


def lines_of(question: Question, table: Table, rows: Iterable[Row]) -> list[Line]:
    """The cells of a table that were run."""
    groups: Groups = {}
    for row in rows:
        groups.setdefault(group(row), []).append(row)
    said = [row for row in printed() if row["table"] == table.name]
    lines = (_line(question, table, cell, groups, said) for cell in table.cells)
    return [line for line in lines if line is not None]


def _line(question: Question, table: Table, cell: Cell, groups: Groups, said: list[Row]) -> Line | None:
    cases = cases_of(question, table, cell, seed=0)
    found = {column: groups[same] for column, case in cases.items() if (same := group(case.to_dict())) in groups}
    own = found.get("private" if cell.epsilon is not None else "no privacy") or found.get("published")
    if not own:
        return None
    charges = [row["epsilon_least_charge"] for row in own if "epsilon_least_charge" in row]
    guesses = [row["guess"][table.metric] for row in own if "guess" in row]
    return Line(
        cell=cell,
        metric=table.metric,
        figures={column: Figure.of([row["metrics"][table.metric] for row in same]) for column, same in found.items()},
        guess=Figure(mean(guesses), None, len(guesses)) if guesses else None,
        n_splits=len(own),
        printed=next((row for row in said if is_printed_for(row, cell, table.metric)), None),
        least_charge=min(charges, default=None),
    )


def is_printed_for(row: Row, cell: Cell, metric: str) -> bool:
    """Whether a printed row is about a cell: it names fewer parameters, but must have or lack privacy alike."""
    given = dict(cell.parameters)
    return (
        row["metric"] == metric
        and row["dataset"] == base(cell.dataset)
        and row["system"] == cell.system
        and ("epsilon" in row["parameters"]) == ("epsilon" in given)
        and all(given.get(name) == value for name, value in row["parameters"].items())
    )
