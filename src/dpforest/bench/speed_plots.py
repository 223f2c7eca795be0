"""Plots of the speed benchmark: how time and memory grow with rows, features, trees and depth."""

import importlib
import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.isotonic import isotonic_regression

from dpforest.bench.speed_cases import BOOSTING, DISJOINT, FOREST, FULL_DATA, LIGHTGBM
from dpforest.bench.speed_goals import MIB, Figures

AXES = {"n_rows": "rows", "n_features": "features", "n_trees": "trees", "depth": "depth"}
# Colours that people tell apart however they see them, and a marker for those who print in grey.
STYLES = {
    DISJOINT: ("#0072B2", "o", "consul-2020 (disjoint)"),
    FULL_DATA: ("#D55E00", "s", "auto (all records)"),
    LIGHTGBM: ("#009E73", "^", "LightGBM rf"),
    BOOSTING: ("#CC79A7", "D", "histogram boosting"),
    FOREST: ("#56B4E9", "v", "random forest"),
}
# Least distance of two labels, as a share of the height of a panel.
LEAST_GAP = 0.065

Points = list[tuple[int, float]]


def curve(figures: Figures, system: str, axis: str, measure: str) -> Points:
    """Values of the axis with the seconds or bytes that were measured there."""
    found = ((value, figures.along(system, axis, value)) for value in figures.scale.axes[axis])
    return [(value, row[measure]) for value, row in found if row is not None and row.get(measure, 0) > 0]


def spread_out(heights: list[float], least: float) -> list[float]:
    """Heights in the same order, moved as little as possible so that none is closer than ``least`` to another."""
    if not heights:
        return []
    order = np.argsort(heights)
    steps = least * np.arange(len(heights))
    placed = np.empty(len(heights))
    placed[order] = isotonic_regression(np.asarray(heights)[order] - steps) + steps
    return placed.tolist()


def plot_growth(figures: Figures, folder: Path) -> Path | None:
    """Seconds of a fit along each axis; None without matplotlib or curves."""
    axes = [axis for axis in AXES if any(len(curve(figures, system, axis, "seconds")) > 1 for system in STYLES)]
    if not axes or (figure := _figure()) is None:
        return None
    n_rows = -(-len(axes) // 2)
    figure.set_size_inches(12, 4.2 * n_rows + 0.4)
    panels = figure.subplots(n_rows, 2, squeeze=False).ravel()
    for panel, axis in zip(panels, axes, strict=False):
        _draw(panel, {system: curve(figures, system, axis, "seconds") for system in STYLES}, axis)
        panel.set_ylabel("seconds of a fit")
    for panel in panels[len(axes) :]:
        panel.remove()
    shape = figures.scale.shape()
    base = f"{shape['n_rows']:,} rows, {shape['n_features']} features, {shape['n_trees']} trees, depth {shape['depth']}"
    figure.suptitle(f"Time of a fit; all else as in the base case: {base}")
    return _saved(figure, folder / "speed-growth.png")


def plot_memory(figures: Figures, folder: Path) -> Path | None:
    """Peak memory beyond the table against rows."""
    curves = {
        system: [(value, peak / MIB) for value, peak in curve(figures, system, "n_rows", "peak_bytes")] for system in STYLES
    }
    if not any(len(points) > 1 for points in curves.values()) or (figure := _figure()) is None:
        return None
    figure.set_size_inches(7, 4.4)
    panel = figure.subplots()
    _draw(panel, curves, "n_rows")
    panel.set_ylabel("MiB beyond the table")
    figure.suptitle("Peak memory of a fit")
    return _saved(figure, folder / "speed-memory.png")


def _draw(panel: Any, curves: dict[str, Points], axis: str) -> None:
    """Lines on logarithmic axes, each with its name at its end."""
    curves = {system: points for system, points in curves.items() if points}
    for system, points in curves.items():
        colour, marker, _ = STYLES[system]
        panel.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=5, linewidth=1.6)
    values = sorted({value for points in curves.values() for value, _ in points})
    panel.set(xscale="log", yscale="log", xlabel=AXES[axis])
    panel.minorticks_off()
    panel.margins(y=0.12)
    panel.set_xticks(values, [f"{value:,}" for value in values])
    panel.grid(alpha=0.25)
    # Room for names at the right of the last point.
    first, last = math.log(values[0]), math.log(values[-1])
    panel.set_xlim(math.exp(first - 0.05 * (last - first)), math.exp(last + 0.5 * max(last - first, 0.1)))
    for end in {points[-1][0] for points in curves.values()}:
        _name(panel, {system: points[-1] for system, points in curves.items() if points[-1][0] == end})


def _name(panel: Any, ends: dict[str, tuple[int, float]]) -> None:
    """Names of the lines that end at the same value."""
    low, high = (math.log(edge) for edge in panel.get_ylim())
    heights = [(math.log(height) - low) / (high - low) for _, height in ends.values()]
    for (system, (end, _)), height in zip(ends.items(), spread_out(heights, LEAST_GAP), strict=True):
        colour, _, name = STYLES[system]
        place = (end, math.exp(low + height * (high - low)))
        panel.annotate(
            name, place, xytext=(8, 0), textcoords="offset points", va="center", color=colour, fontsize="small"
        )  # fmt: skip


def _figure() -> Any:
    if importlib.util.find_spec("matplotlib") is None:
        return None
    # Loaded by name: it is an optional library.
    return importlib.import_module("matplotlib.figure").Figure(layout="constrained")


def _saved(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=110)
    return path
