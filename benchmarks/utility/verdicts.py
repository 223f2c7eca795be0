"""The default recipe beside the best peer at ε = 1: on how many tables it is ahead, and by how much on each."""

from collections import Counter

from benchmarks.core.figures import Figure
from benchmarks.core.page import Entries
from benchmarks.utility.figures import METRICS, MODES, NEAR, Figures, metrics_of
from benchmarks.utility.generated import FAMILIES
from benchmarks.utility.run import WITHOUT_NOISE

EPSILON = 1.0


def verdicts(figures: Figures) -> str:
    """On how many tables the default is above, like and below the best peer: a line for each mode, for people."""
    cells = [cell for metric in ("accuracy", "r2") for cell in figures.cells(metric) if cell.epsilon == EPSILON]
    said = []
    for delta, mode in MODES.items():
        own = [cell for cell in cells if cell.delta == delta]
        real = sum(cell.table.name not in FAMILIES for cell in own)
        found = Counter(cell.verdict for cell in own)
        said.append(
            f"With {mode}, `auto` is above the best peer on {found['above']} of {len(own)} tables ({real} real, "
            f"{len(own) - real} generated), within {100 * NEAR:g} points of it on {found['alike']}, and below it on "
            f"{found['below']}."
        )
    return "\n".join(said)


def comparison(figures: Figures) -> Entries:
    """The scores of each table, the better of best peer and default in bold."""
    entries: Entries = []
    for table in figures.tables():
        metric = metrics_of(table)[0]
        entry = {"table": table.name, "score": METRICS[metric], "guess": _mean(figures.figure(table.name, "guess", metric))}
        for delta, mode in MODES.items():
            best = figures.best_peer(table.name, metric, EPSILON, delta)
            own = figures.figure(table.name, "auto", metric, EPSILON, delta)
            heads = (f"best peer, {mode}", f"auto, {mode}")
            entry |= dict(zip(heads, _bold_best(best.figure if best else None, own), strict=True))
        for system, head in ((WITHOUT_NOISE, "auto, ε = ∞"), ("boosting", "boosting, no privacy")):
            entry[head] = _mean(figures.figure(table.name, system, metric))
        entries.append(entry)
    return entries


def _bold_best(*figures: Figure | None) -> list[str]:
    """Figures as they are printed, the best of them in bold; those that are printed alike tie."""
    printed = [_mean(figure) for figure in figures]
    measured = [figure for figure in figures if figure is not None]
    if len(measured) < 2:
        return printed
    best = _mean(max(measured, key=lambda figure: figure.mean))
    return [f"**{text}**" if text == best else text for text in printed]


def _mean(figure: Figure | None) -> str:
    """A share, or an R², which is below 0 where guessing the mean is better."""
    if figure is None:
        return "-"
    return f"{figure.mean:.3f}" if figure.mean > -0.001 else "below 0"
