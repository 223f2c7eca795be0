"""Draws the papers' tables: one panel for each data set, curves against a parameter."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.core.plots import Canvas, is_drawn
from benchmarks.papers.base import Cell, Table
from benchmarks.papers.lines import HEADS, UNITS, Line

NAMES = {"epsilon": "ε", "n_trees": "trees", "depth": "depth"}
# With more curves in a panel, only what is private and what is printed is drawn.
MOST_FULL_SERIES = 3
MOST_COLUMNS, WIDTH, HEIGHT = 3, 4.3, 3.1

Legend = dict[tuple[str, str], Any]  # by "series" or "column", and the name


def varying(cells: Iterable[Cell]) -> list[str]:
    """Parameters that tell the cells of a table apart, the budget first."""
    values: dict[str, set[Any]] = {}
    for cell in cells:
        for name, value in cell.parameters:
            values.setdefault(name, set()).add(value)
    order = ("epsilon", "n_trees", "depth")
    names = [name for name, found in values.items() if len(found) > 1]
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))


def parameters_shown(cell: Cell, names: Iterable[str]) -> str:
    given = dict(cell.parameters)
    shown = [f"{NAMES.get(name, name)} = {number(given[name])}" for name in names if name in given]
    return ", ".join(shown) if cell.epsilon is not None else ", ".join(["no privacy", *shown])


def number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# Line style and marker of each column.
STYLES = {
    "private": ("-", "o"),
    "auto": ("-.", "."),
    "published": ("--", "s"),
    "no privacy": (":", ""),
    "random forest": ((0, (1, 4)), ""),
    "extra trees": ((0, (4, 4)), ""),
}
# What does not depend on the system has a colour of its own.
COLOURS = {"auto": "black", "random forest": "grey", "extra trees": "grey"}


def plot(table: Table, lines: list[Line], folder: Path) -> Path | None:
    """All curves against ``table.x``; None without matplotlib or with a single point."""
    lines = [line for line in lines if table.x in dict(line.cell.parameters)]
    if len(_points(table, lines)) < 2 or not is_drawn():
        return None
    drawn = _panels(table, lines)
    # Panels of a data set in a row of their own.
    n_beside = len(drawn) // len({line.cell.dataset for line in lines})
    canvas = Canvas(len(drawn), n_beside if n_beside > 1 else MOST_COLUMNS)
    legend: Legend = {}
    for panel, (title, members) in zip(canvas.panels, drawn.items(), strict=True):
        _draw(panel, table, members, legend)
        panel.set(title=title, xlabel=NAMES.get(table.x, table.x), ylabel=f"{table.metric}, {UNITS[table.metric][2]}")
    # A legend as wide as the picture: its columns are as wide as the longest name.
    width = WIDTH * canvas.n_columns
    named = [(name, line) for (_, name), line in legend.items()]
    n_legend = max(1, int(width / (0.6 + 0.075 * max(len(name) for name, _ in named))))
    canvas.figure.set_size_inches(width, HEIGHT * canvas.n_rows + 0.2 * -(-len(named) // n_legend) + 0.3)
    return canvas.save(folder / f"papers-{table.name}.png", named, n_legend)


def _panels(table: Table, lines: list[Line]) -> dict[str, list[Line]]:
    """Lines by the title of their panel. A line without the parameter that tells panels apart is in all of its data set."""
    apart = table.panel or ""
    values = sorted({value for line in lines for name, value in line.cell.parameters if name == apart})
    panels: dict[str, list[Line]] = {}
    for dataset in dict.fromkeys(line.cell.dataset for line in lines):
        for value in reversed(values) if values == [False, True] else values or [None]:
            title = dataset if value is None else f"{dataset}, {NAMES.get(apart, apart)} = {number(value)}"
            panels[title] = [
                line
                for line in lines
                if line.cell.dataset == dataset and dict(line.cell.parameters).get(apart, value) == value
            ]
    return panels


def _draw(panel: Any, table: Table, lines: list[Line], legend: Legend) -> None:
    """Colours are systems with parameters, line styles are columns; both go into the legend once."""
    series: dict[str, list[Line]] = {}
    for line in lines:
        same = [other.cell for other in lines if other.cell.system == line.cell.system]
        names = [name for name in varying(same) if name not in (table.x, table.panel)]
        parts = (line.cell.system, parameters_shown(line.cell, names))
        series.setdefault(", ".join(part for part in parts if part), []).append(line)
    columns = list(STYLES) if len(series) <= MOST_FULL_SERIES else ["private", "published"]
    for title in series:
        n_before = sum(kind == "series" for kind, _ in legend)
        _remember(panel, legend, ("series", title), color=f"C{n_before}")
    for title, members in series.items():
        own = legend["series", title].get_color()  # the same in every panel
        for column in columns:
            curve = _curve(table, [(m, m.figures[column].mean) for m in members if column in m.figures])
            if curve:
                style, marker = STYLES[column]
                colour = COLOURS.get(column, own) if table.x == "epsilon" else own
                panel.plot(*zip(*curve, strict=True), linestyle=style, marker=marker, color=colour, markersize=4)
                shown = COLOURS.get(column, "grey")
                _remember(panel, legend, ("column", HEADS.get(column, column)), linestyle=style, marker=marker, color=shown)
        printed = _curve(table, [(m, m.value) for m in members if m.value is not None])
        if printed:
            panel.plot(*zip(*printed, strict=True), "x", color=own)
            _remember(panel, legend, ("column", "printed in the paper"), linestyle="", marker="x", color="grey")
    points = _points(table, lines)
    if table.x == "epsilon":
        panel.set_xscale("log")
    panel.set_xticks(points, [f"{point:g}" for point in points], fontsize="small")
    panel.minorticks_off()


def _remember(panel: Any, legend: Legend, name: tuple[str, str], **style: Any) -> None:
    if name not in legend:
        (legend[name],) = panel.plot([], [], **style)


def _points(table: Table, lines: list[Line]) -> list[float]:
    return sorted({dict(line.cell.parameters)[table.x] for line in lines})


def _curve(table: Table, values: list[tuple[Line, float]]) -> tuple[tuple[float, float], ...]:
    factor = UNITS[table.metric][0]
    return tuple(sorted((dict(line.cell.parameters)[table.x], factor * value) for line, value in values))
