"""Goals for loose bounds, set before they were measured, and what was reached. Made from rows alone."""

from collections.abc import Callable, Iterable, Iterator
from statistics import median

from benchmarks.bounds.cases import AUTO, BEFORE, DELTAS, SMALL_FIT, TIME
from benchmarks.bounds.figures import Cell, Change, Figures, Summary
from benchmarks.bounds.loosening import AS_GIVEN, FEATURES, HUGE, NONE, SHIFTED, TARGET
from benchmarks.core import goals
from benchmarks.core.figures import figure_text, time_text
from benchmarks.core.goals import Goal, Reached
from benchmarks.core.page import Entries

PURE, APPROXIMATE = DELTAS
MODES = {PURE: "δ = 0", APPROXIMATE: "δ = 10⁻⁵"}
SHOWN = {"x1e6": "x10⁶", HUGE: "±10⁹"}
# Tables with amounts of money or durations, most of which are small and few very large.
SKEWED = ("adult", "bank_additional", "credit_default", "german_credit", "credit_approval")
# Within this of a constant answer, a point or a hundredth, a fit counts as no worse.
NEAR = 0.01
POINTS, HUNDREDTHS = "points", "hundredths"  # of accuracy, and of R²


def kind_text(kind: str) -> str:
    """A kind of bounds as pages say it."""
    return SHOWN.get(kind, kind)


def cell_text(cell: Cell) -> str:
    return f"{cell.table.name}, ε = {cell.epsilon:g}, {MODES[cell.delta]}"


def error_text(error: float | None) -> str:
    """A standard error in points or hundredths, as it stands after a figure; nothing if there is none."""
    return "" if error is None else f", ± {100 * error:.2g}"


def _together(found: Summary | None, sign: int = 1) -> Reached | None:
    """The mean of a summary, or minus it, in points or hundredths."""
    return None if found is None else Reached(sign * 100 * found.mean, f"{found.n_cells} cells{error_text(found.error)}")


def _loss(
    kind: str, delta: float, has_classes: bool, worst: bool = False, loosened: str = FEATURES
) -> Callable[[Figures], Reached | None]:
    """What a kind of bounds costs where there is signal: in the mean, or in the worst cell."""

    def reach(figures: Figures) -> Reached | None:
        changes = figures.loosening(kind, loosened, has_classes)
        found = Summary.of(change for change in changes if change.has_signal and change.cell.delta == delta)
        if found is None or not worst:
            return _together(found, -1)
        return Reached(-100 * found.worst.mean, f"{cell_text(found.worst.cell)}{error_text(found.worst.error)}")

    return reach


def clearly_below(changes: Iterable[Change]) -> list[Change]:
    """Changes that are below 0 by more than two standard errors."""
    return [change for change in changes if change.error is not None and change.mean < -2 * change.error]


def _below_guess(kind: str, has_classes: bool) -> Callable[[Figures], Reached | None]:
    """In how many cells without signal a fit is worse than one class or the mean, by more than ``NEAR``."""

    def weak(figures: Figures, of: str) -> list[Change]:
        return [change for change in figures.above_guess((AUTO, of, FEATURES), has_classes) if not change.has_signal]

    def n_below(changes: list[Change]) -> int:
        return sum(change.mean < -NEAR for change in changes)

    def reach(figures: Figures) -> Reached | None:
        own = weak(figures, kind)
        worst = min(own, key=lambda change: change.mean, default=None)
        if worst is None:
            return None
        tight, where = n_below(weak(figures, AS_GIVEN)), cell_text(worst.cell)
        unit = POINTS if has_classes else HUNDREDTHS
        beside = f"of {len(own)} cells; with bounds as given {tight}; worst {100 * worst.mean:+.2g} {unit} ({where})"
        return Reached(float(n_below(own)), beside)

    return reach


def _since_before(tables: tuple[str, ...] = ()) -> Callable[[Figures], Reached | None]:
    """What has changed with bounds as given, in points of accuracy; in all tables, or these."""

    def reach(figures: Figures) -> Reached | None:
        changes = figures.since_before(AS_GIVEN, FEATURES, True)
        return _together(Summary.of(change for change in changes if not tables or change.cell.table.name in tables))

    return reach


def _shifted(figures: Figures) -> Reached | None:
    """What numbers far from zero cost with a delta, at all budgets."""
    changes = figures.loosening(SHIFTED, FEATURES, True)
    return _together(Summary.of(change for change in changes if change.cell.delta == APPROXIMATE), -1)


def _time(delta: float, name: str) -> Callable[[Figures], Reached | None]:
    """The time of a fit over that of the state before, median by median."""

    def reach(figures: Figures) -> Reached | None:
        rows = [row["runs"] for row in figures.cost(TIME) if row["parameters"]["delta"] == delta]
        if not rows:
            return None
        new, old = median(rows[-1][name]), median(rows[-1][BEFORE])
        best = min(rows[-1][name]) / min(rows[-1][BEFORE])
        return Reached(new / old, f"{time_text(new)} over {time_text(old)}; the best runs {figure_text(best, 'x')}")

    return reach


def _passes(figures: Figures) -> Reached | None:
    found = [(row["passes"], row["dataset"]) for row in figures.rows if row["system"] == AUTO]
    return Reached(float(max(found)[0]), f"the most of {len(found):,} fits, on {max(found)[1]}") if found else None


def _small_fit(figures: Figures) -> Reached | None:
    rows = [row["runs"] for row in figures.cost(SMALL_FIT)]
    if not rows:
        return None
    own = rows[-1][AUTO]
    beside = f"before {time_text(median(rows[-1][BEFORE]))}; the best run {time_text(min(own))}; medians of {len(own)}"
    return Reached(1000 * median(own), beside)


FAR = (
    "Numbers far from zero for their spread need three zooms to be found. Where the signal pays for fewer, or for none, all "
    "records share a bin or two, as the table on passes below shows."
)
HARD = {
    PURE: "Without δ most fits find no grid, so each split is chosen among more cuts; a worst cell is also partly chance.",
    APPROXIMATE: "A worst cell of many is partly chance: it has few splits, and fresh noise on both sides.",
}
VARIED = (
    "Small tables vary most from fit to fit, and weigh as much as large ones; *Every table* shows which lose and which gain."
)
ZOOMS = "Large tables make three zooms and one choice of quarters, each a pass over the numeric columns."
WEAK = "Fits with next to no signal are noisy with any bounds; compare with the number for bounds as given."
BUSY = "Times are those of the machine as it was; its load stands under *Cost*."


def _loss_goals() -> Iterator[Goal[Figures]]:
    """No bounds, or huge ones, against bounds as given: accuracy in the mean and in the worst cell, and R²."""
    for kind in (NONE, HUGE):
        for delta, mode in MODES.items():
            name, hurdle = f"{kind_text(kind)}, {mode}", HARD[delta]
            yield Goal(f"{name}: loss, mean", 1, POINTS, _loss(kind, delta, True), hurdle=hurdle)
            yield Goal(f"{name}: loss, worst cell", 3, POINTS, _loss(kind, delta, True, worst=True), hurdle=hurdle)
    for loosened in (FEATURES, TARGET):
        for kind in (NONE, HUGE):
            for delta, mode in MODES.items():
                name = f"regression, {loosened}, {kind_text(kind)}, {mode}: loss of R², mean"
                yield Goal(name, 3, HUNDREDTHS, _loss(kind, delta, False, loosened=loosened))


def _guess_goals() -> Iterator[Goal[Figures]]:
    """Where there is little signal: not worse than a constant answer."""
    for has_classes, what in ((True, "below one class"), (False, "below the mean")):
        for kind in (NONE, HUGE):
            name = f"{kind_text(kind)}, little signal: {what}"
            yield Goal(name, 0, "cells", _below_guess(kind, has_classes), hurdle=WEAK)


def _cost_goals() -> Iterator[Goal[Figures]]:
    """Time and passes over the table."""
    for delta, mode in MODES.items():
        for state, words in ((AUTO, ""), (f"{AUTO}, {NONE}", ", without bounds")):
            yield Goal(f"fit on adult over before, {mode}{words}", 1.3, "x", _time(delta, state), hurdle=BUSY)
    yield Goal("more counting passes", 3, "passes", _passes, hurdle=ZOOMS)
    yield Goal("fit of 100 rows x 5 features", 2.2, "ms", _small_fit, hurdle=BUSY)


GOALS: tuple[Goal[Figures], ...] = (
    *_loss_goals(),
    *_guess_goals(),
    Goal("as given, against before: change, mean", -0.1, POINTS, _since_before(), True, VARIED),
    Goal("as given, against before, skewed tables: change, mean", 0, POINTS, _since_before(SKEWED), True, VARIED),
    Goal("shifted, δ = 10⁻⁵: loss, mean", 2, POINTS, _shifted, hurdle=FAR),
    *_cost_goals(),
)


def judged(figures: Figures) -> Entries:
    """The entries of the table of goals."""
    return goals.judged(GOALS, figures, "from")


def hurdles(figures: Figures) -> list[str]:
    """What stands in the way of the goals that were missed."""
    return goals.hurdles(GOALS, figures)
