"""Draws the pictures beside the pages. matplotlib is optional: without it nothing is drawn, and pages have tables only."""

import importlib
import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.isotonic import isotonic_regression

# Least distance of two labels, as a share of the height of a panel.
LEAST_GAP = 0.065

Curves = dict[str, list[tuple[int, float]]]
Styles = dict[str, tuple[str, str, str]]  # colour, marker and label of each curve


def is_drawn() -> bool:
    """Whether matplotlib is installed, so that plots can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


class Canvas:
    """A figure with as many panels as are asked for, in rows."""

    def __init__(self, n_panels: int = 1, n_columns: int = 1) -> None:
        self.n_columns = min(n_columns, n_panels)
        self.n_rows = -(-n_panels // self.n_columns)
        # Loaded by name: it is an optional library.
        self.figure = importlib.import_module("matplotlib.figure").Figure(layout="constrained")
        panels = self.figure.subplots(self.n_rows, self.n_columns, squeeze=False).ravel()
        self.panels = panels[:n_panels]
        for panel in panels[n_panels:]:
            panel.remove()

    def save(self, path: Path, legend: Sequence[tuple[str, Any]] = (), n_columns: int = 3) -> Path:
        """Write the picture, with names and their lines in a legend below where there are any."""
        if legend:
            names, lines = zip(*legend, strict=True)
            self.figure.legend(lines, names, loc="outside lower center", ncols=n_columns, fontsize="small")
        self.figure.savefig(path, dpi=110)
        return path


def draw_growth(panel: Any, curves: Curves, styles: Styles, axis: str) -> None:
    """Draw curves on logarithmic axes, each with its name at its end."""
    curves = {name: points for name, points in curves.items() if points}
    for name, points in curves.items():
        colour, marker, _ = styles[name]
        panel.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=5, linewidth=1.6)
    values = sorted({value for points in curves.values() for value, _ in points})
    panel.set(xscale="log", yscale="log", xlabel=axis)
    panel.minorticks_off()
    panel.margins(y=0.12)
    panel.set_xticks(values, [f"{value:,}" for value in values])
    panel.grid(alpha=0.25)
    # Room for names at the right of the last point.
    first, last = math.log(values[0]), math.log(values[-1])
    panel.set_xlim(math.exp(first - 0.05 * (last - first)), math.exp(last + 0.5 * max(last - first, 0.1)))
    for end in {points[-1][0] for points in curves.values()}:
        _name(panel, {name: points[-1] for name, points in curves.items() if points[-1][0] == end}, styles)


def _name(panel: Any, ends: dict[str, tuple[int, float]], styles: Styles) -> None:
    """Write the names of curves that end at the same value beside their ends, moved apart."""
    low, high = (math.log(edge) for edge in panel.get_ylim())
    heights = [(math.log(height) - low) / (high - low) for _, height in ends.values()]
    for (name, (end, _)), height in zip(ends.items(), spread_out(heights, LEAST_GAP), strict=True):
        colour, _, label = styles[name]
        at = (end, math.exp(low + height * (high - low)))
        panel.annotate(
            label, at, xytext=(8, 0), textcoords="offset points", va="center", color=colour, fontsize="small"
        )  # fmt: skip


def spread_out(heights: list[float], least: float) -> list[float]:
    """Heights in the same order, moved as little as possible so that none is closer than ``least`` to another."""
    if not heights:
        return []
    order = np.argsort(heights)
    steps = least * np.arange(len(heights))
    placed = np.empty(len(heights))
    placed[order] = isotonic_regression(np.asarray(heights)[order] - steps) + steps
    return placed.tolist()
