"""Mean accuracy against the budget, over all real tables on which every system was measured: the picture of README.md.

It is drawn as text, so that the stored picture can be compared with what the rows say, to the last digit.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from xml.sax.saxutils import escape

from benchmarks.core.figures import Figure
from benchmarks.core.page import write_page
from benchmarks.core.results import Row
from benchmarks.utility.figures import APPROXIMATE, PURE, Figures
from benchmarks.utility.generated import FAMILIES
from benchmarks.utility.run import EPSILONS, N_SEEDS, Table

METRIC = "accuracy"
SAID_AT = 1.0
DP_EBM = "interpret DP-EBM"
NAME = "utility-overview-{theme}.svg"

Find = Callable[[Figures, str, float], list[Row]]  # the rows of a system on a table at a budget


def _auto(delta: float) -> Find:
    return lambda figures, table, epsilon: figures.rows(table, "auto", epsilon, delta)


def _best(delta: float, system: str | None) -> Find:
    """The rows of the best setting in hindsight, of one peer or of all that are private with this δ."""

    def find(figures: Figures, table: str, epsilon: float) -> list[Row]:
        best = figures.best_peer(table, METRIC, epsilon, delta, system)
        return [] if best is None else figures.peer_rows(table, best, epsilon)

    return find


@dataclass(frozen=True)
class Curve:
    """A private system: where its rows are, how it is drawn (filled: δ > 0), and which tasks it does."""

    title: str
    said: str
    find: Find
    shape: str
    is_filled: bool
    tasks: tuple[str, ...] = ("binary", "classes")


# All peers that are private with δ = 0 are models of diffprivlib.
CURVES = (
    Curve("dpforest, δ = 10⁻⁵", "dpforest", _auto(APPROXIMATE), "circle", True),
    Curve("dpforest, δ = 0", "dpforest with δ = 0", _auto(PURE), "circle", False),
    Curve("DP-EBM, δ = 10⁻⁵", "DP-EBM", _best(APPROXIMATE, DP_EBM), "square", True, tasks=("binary",)),
    Curve("diffprivlib, δ = 0", "diffprivlib", _best(PURE, None), "diamond", False),
)


@dataclass(frozen=True)
class Level:
    """What has no budget, and the dashes of its line."""

    title: str
    said: str
    dashes: str


LEVELS = {
    "boosting": Level("boosting, no privacy", "boosting without privacy", "9 5"),
    "guess": Level("guess", "guessing the commonest class", "2 5"),
}


@dataclass(frozen=True)
class Panel:
    """Means over tables of one task; the spread of a figure is that of the mean over splits."""

    title: str
    curves: dict[str, dict[float, Figure]]
    levels: dict[str, float]


def panels(figures: Figures) -> list[Panel]:
    """A panel for the tables with two classes and one for those with more."""
    found = []
    for task, words in (("binary", "two classes"), ("classes", "more classes")):
        tables = [table.name for table in _real(figures) if table.task == task and _is_complete(figures, table)]
        curves = [curve for curve in CURVES if task in curve.tasks]
        if tables:
            found.append(_panel(figures, f"{len(tables)} real tables with {words}", tables, curves))
    return found


def left_out(figures: Figures) -> list[str]:
    """The real tables that are in no panel, since some system was not measured on all of their splits."""
    return [table.name for table in _real(figures) if not _is_complete(figures, table)]


def _real(figures: Figures) -> list[Table]:
    """Tables with classes, but for those that the benchmark draws: how much their means say is up to whoever wrote them."""
    return [table for table in figures.tables() if table.task != "regression" and table.name not in FAMILIES]


def _is_complete(figures: Figures, table: Table) -> bool:
    return all(len(rows) == N_SEEDS for rows in _rows(figures, table))


def _rows(figures: Figures, table: Table) -> Iterator[list[Row]]:
    yield from (figures.rows(table.name, system) for system in LEVELS)
    for curve in CURVES:
        if table.task in curve.tasks:
            yield from (curve.find(figures, table.name, epsilon) for epsilon in EPSILONS)


def _panel(figures: Figures, title: str, names: list[str], curves: list[Curve]) -> Panel:
    return Panel(
        title,
        {curve.title: {e: _mean_over(curve.find(figures, name, e) for name in names) for e in EPSILONS} for curve in curves},
        {system: _mean_over(figures.rows(name, system) for name in names).mean for system in LEVELS},
    )


def _mean_over(tables: Iterator[list[Row]]) -> Figure:
    """The mean over tables, split by split."""
    by_split: dict[int, list[float]] = {}
    for row in (row for rows in tables for row in rows):
        by_split.setdefault(row["seed"], []).append(row["metrics"][METRIC])
    return Figure.of([mean(values) for values in by_split.values()])


def in_words(found: list[Panel]) -> str:
    """What the picture shows at one budget, as a sentence."""
    said = []
    for panel in found:
        values = {curve.said: panel.curves[curve.title][SAID_AT].mean for curve in CURVES if curve.title in panel.curves}
        values |= {LEVELS[system].said: level for system, level in panel.levels.items()}
        shares = [f"{name} on {100 * value:.1f} %" for name, value in values.items()]
        said.append(f"over {panel.title}, {', '.join(shares[:-1])} and {shares[-1]}")
    return f"How often new rows are predicted right, against ε. At ε = {SAID_AT:g}, {'; '.join(said)}."


def picture(found: list[Panel], folder: str = "") -> str:
    """The element that shows the picture for the reader's colours, from a page that sees its files in ``folder``."""
    light, dark = (f"{folder}{NAME.format(theme=theme)}" for theme in ("light", "dark"))
    return (
        f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{dark}">\n'
        f'  <img alt="{escape(in_words(found))}" src="{light}" width="760">\n</picture>'
    )


def write_pictures(found: list[Panel], folder: Path) -> None:
    """Write the picture for light and for dark pages into a folder."""
    for theme, text in drawn(found).items():
        write_page(folder, NAME.format(theme=theme), text)


def drawn(found: list[Panel]) -> dict[str, str]:
    """The picture as SVG for each theme."""
    return {theme: _svg(found, colours) for theme, colours in THEMES.items()}


# The palette of Okabe and Ito, which colour-blind people can tell apart; shapes say the same. A picture for light pages has
# a ground of its own, in case it is shown on another.
THEMES = {
    "light": {
        "ground": "#ffffff", "text": "#1f2328", "faint": "#59636e", "grid": "#d8dee4",
        "circle": "#0072b2", "square": "#d55e00", "diamond": "#007a59",
    },
    "dark": {
        "ground": "none", "text": "#e6edf3", "faint": "#a5afba", "grid": "#3d444d",
        "circle": "#56b4e9", "square": "#f39b4c", "diamond": "#35c79b",
    },
}  # fmt: skip
WIDTH, HEIGHT = 760, 494
TITLE = "Share of new rows that are predicted right, mean over tables"
TOP, BOTTOM = 82, 380  # of a panel
LEFTS, PANEL_WIDTH = (58, 440), 304
STEP_ASIDE = 5  # between curves, so that no marker covers another
LEGEND_TOP, LEGEND_STEP, LEGEND_LEFTS = 450, 28, (58, 302, 540)


def _svg(found: list[Panel], colours: dict[str, str]) -> str:
    body = [piece for panel, left in zip(found, LEFTS, strict=False) for piece in _panel_pieces(panel, left, colours)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="16"',
            '  font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif">',
            f"<title>{escape(in_words(found))}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{colours["ground"]}"/>',
            _text(LEFTS[0], 26, TITLE, colours["text"], 'font-weight="600"'),
            *body,
            *_legend(colours),
            "</svg>\n",
        ]
    )


def _panel_pieces(panel: Panel, left: float, colours: dict[str, str]) -> Iterator[str]:
    right = left + PANEL_WIDTH
    low, high = _range(panel)

    def x(epsilon: float, aside: float = 0.0) -> float:
        first, last = math.log(EPSILONS[0]), math.log(EPSILONS[-1])
        return left + 20 + (PANEL_WIDTH - 40) * (math.log(epsilon) - first) / (last - first) + aside

    def y(share: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (share - low) / (high - low)

    yield _text(left, TOP - 20, panel.title, colours["text"], 'font-size="15"')
    for tenth in range(round(10 * low), round(10 * high) + 1):
        yield _line((left, y(tenth / 10)), (right, y(tenth / 10)), colours["grid"], 1)
        yield _text(left - 8, y(tenth / 10) + 5, f"{10 * tenth} %", colours["faint"], 'text-anchor="end" font-size="14"')
    for epsilon in EPSILONS:
        yield _text(x(epsilon), BOTTOM + 20, f"{epsilon:g}", colours["faint"], 'text-anchor="middle" font-size="14"')
    words = "← more privacy · ε · less privacy →"
    yield _text((left + right) / 2, BOTTOM + 44, words, colours["text"], 'text-anchor="middle" font-size="14"')
    for system, level in panel.levels.items():
        yield _line((left, y(level)), (right, y(level)), colours["faint"], 2, LEVELS[system].dashes)
    for place, curve in enumerate(curve for curve in CURVES if curve.title in panel.curves):
        points, aside = panel.curves[curve.title], STEP_ASIDE * (place - (len(panel.curves) - 1) / 2)
        places = " ".join(f"{x(epsilon, aside):.1f},{y(figure.mean):.1f}" for epsilon, figure in points.items())
        yield f'<polyline points="{places}" fill="none" stroke="{colours[curve.shape]}" stroke-width="2.5"/>'
        for epsilon, figure in points.items():
            spread = figure.spread or 0.0
            ends = [(x(epsilon, aside), y(figure.mean + sign * spread)) for sign in (-1, 1)]
            yield _line(ends[0], ends[1], colours[curve.shape], 1.2)
            told = f"{curve.title}, ε = {epsilon:g}: {100 * figure.mean:.2f} %, standard deviation {100 * spread:.2f}"
            yield _marker(curve, x(epsilon, aside), y(figure.mean), colours, told)


def _range(panel: Panel) -> tuple[float, float]:
    """Whole tenths around everything that is drawn."""
    values = [figure.mean for points in panel.curves.values() for figure in points.values()] + [*panel.levels.values()]
    return math.floor(10 * min(values)) / 10, math.ceil(10 * max(values)) / 10


def _legend(colours: dict[str, str]) -> Iterator[str]:
    entries: list[Curve | Level] = [*CURVES, *LEVELS.values()]
    for place, entry in enumerate(entries):
        column, row = divmod(place, 2)
        left, middle = LEGEND_LEFTS[column], LEGEND_TOP + LEGEND_STEP * row
        ends = (left, middle), (left + 34, middle)
        if isinstance(entry, Curve):
            yield _line(*ends, colours[entry.shape], 2.5)
            yield _marker(entry, left + 17, middle, colours)
        else:
            yield _line(*ends, colours["faint"], 2, entry.dashes)
        yield _text(left + 44, middle + 5, entry.title, colours["text"], 'font-size="15"')


def _text(x: float, y: float, words: str, colour: str, more: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" {more}>{escape(words)}</text>'


def _line(begin: tuple[float, float], end: tuple[float, float], colour: str, width: float, dashes: str = "") -> str:
    (x1, y1), (x2, y2) = begin, end
    style = f' stroke-dasharray="{dashes}"' if dashes else ""
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} stroke="{colour}" stroke-width="{width:g}"{style}/>'


def _marker(curve: Curve, x: float, y: float, colours: dict[str, str], told: str = "") -> str:
    colour = colours[curve.shape]
    ground = colours["ground"] if colours["ground"] != "none" else "#0d1117"
    style = f'fill="{colour if curve.is_filled else ground}" stroke="{colour}" stroke-width="2"'
    turned = f' transform="rotate(45 {x:.1f} {y:.1f})"' if curve.shape == "diamond" else ""
    title = f"<title>{escape(told)}</title>" if told else ""
    if curve.shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {style}>{title}</circle>'
    return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" {style}{turned}>{title}</rect>'
