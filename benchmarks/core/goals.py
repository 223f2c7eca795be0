"""Goals that were set before they were measured, and what was reached."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from benchmarks.core.figures import figure_text, unit_text
from benchmarks.core.page import Entries

MET, MISSED, OPEN = "met", "missed", "not measured"
Figures = TypeVar("Figures")


@dataclass(frozen=True)
class Reached:
    """A figure and the absolute times or sizes that it comes from."""

    value: float
    beside: str


@dataclass(frozen=True)
class Goal(Generic[Figures]):
    """A goal that was set beforehand: a figure of at most ``limit``, or of at least that."""

    name: str
    limit: float
    unit: str
    reach: Callable[[Figures], Reached | None]
    at_least: bool = False
    hurdle: str = ""  # what stands in the way where it is missed

    def verdict(self, reached: Reached | None) -> str:
        if reached is None:
            return OPEN
        return MET if (reached.value >= self.limit if self.at_least else reached.value <= self.limit) else MISSED


def judged(
    goals: Iterable[Goal[Figures]], figures: Figures, beside: str, signs: tuple[str, str] = ("≤", "≥"), after: str = ""
) -> Entries:
    """The entries of a table of goals, each with what was reached and whether that is enough.

    ``beside`` is the head of the last column, ``signs`` say at most and at least, ``after`` follows a verdict.
    """
    entries = []
    for goal in goals:
        reached = goal.reach(figures)
        value, comes_from = ("-", "-") if reached is None else (figure_text(reached.value, goal.unit), reached.beside)
        entries.append(
            {
                "goal": goal.name,
                "wanted": f"{signs[goal.at_least]} {goal.limit:g}{unit_text(goal.unit)}",
                "reached": value,
                "verdict": goal.verdict(reached) + ("" if reached is None else after),
                beside: comes_from,
            }
        )
    return entries


def hurdles(goals: Iterable[Goal[Figures]], figures: Figures) -> list[str]:
    """What stands in the way of the goals that were missed, each said once."""
    missed = [goal for goal in goals if goal.hurdle and goal.verdict(goal.reach(figures)) == MISSED]
    said = {hurdle: [goal.name for goal in missed if goal.hurdle == hurdle] for hurdle in (goal.hurdle for goal in missed)}
    return [f"{'; '.join(names)}: {hurdle[0].lower()}{hurdle[1:]}" for hurdle, names in said.items()]
