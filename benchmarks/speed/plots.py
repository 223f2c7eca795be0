"""Plots of the speed benchmark: how time and memory grow with rows, features, trees and depth."""

from pathlib import Path

from benchmarks.core.figures import MIB
from benchmarks.core.plots import Canvas, draw_growth, is_drawn
from benchmarks.speed.cases import BOOSTING, DISJOINT, FOREST, FULL_DATA, LIGHTGBM
from benchmarks.speed.goals import Figures

AXES = {"n_rows": "rows", "n_features": "features", "n_trees": "trees", "depth": "depth"}
# Colours that people tell apart however they see them, and a marker for those who print in grey.
STYLES = {
    DISJOINT: ("#0072B2", "o", "consul-2020 (disjoint)"),
    FULL_DATA: ("#D55E00", "s", "auto (all records)"),
    LIGHTGBM: ("#009E73", "^", "LightGBM rf"),
    BOOSTING: ("#CC79A7", "D", "histogram boosting"),
    FOREST: ("#56B4E9", "v", "random forest"),
}

Points = list[tuple[int, float]]


def curve(figures: Figures, system: str, axis: str, measure: str) -> Points:
    """Values of the axis with the seconds or bytes that were measured there."""
    found = ((value, figures.along(system, axis, value)) for value in figures.scale.axes[axis])
    return [(value, row[measure]) for value, row in found if row is not None and row.get(measure, 0) > 0]


def plot_growth(figures: Figures, folder: Path) -> Path | None:
    """Seconds of a fit along each axis; None without matplotlib or curves."""
    axes = [axis for axis in AXES if any(len(curve(figures, system, axis, "seconds")) > 1 for system in STYLES)]
    if not axes or not is_drawn():
        return None
    canvas = Canvas(len(axes), n_columns=2)
    canvas.figure.set_size_inches(12, 4.2 * canvas.n_rows + 0.4)
    for panel, axis in zip(canvas.panels, axes, strict=True):
        draw_growth(panel, {system: curve(figures, system, axis, "seconds") for system in STYLES}, STYLES, AXES[axis])
        panel.set_ylabel("seconds of a fit")
    shape = figures.scale.shape()
    base = f"{shape['n_rows']:,} rows, {shape['n_features']} features, {shape['n_trees']} trees, depth {shape['depth']}"
    canvas.figure.suptitle(f"Time of a fit; all else as in the base case: {base}")
    return canvas.save(folder / "speed-growth.png")


def plot_memory(figures: Figures, folder: Path) -> Path | None:
    """Peak memory beyond the table against rows."""
    curves = {
        system: [(value, peak / MIB) for value, peak in curve(figures, system, "n_rows", "peak_bytes")] for system in STYLES
    }
    if not any(len(points) > 1 for points in curves.values()) or not is_drawn():
        return None
    canvas = Canvas()
    canvas.figure.set_size_inches(7, 4.4)
    (panel,) = canvas.panels
    draw_growth(panel, curves, STYLES, AXES["n_rows"])
    panel.set_ylabel("MiB beyond the table")
    canvas.figure.suptitle("Peak memory of a fit")
    return canvas.save(folder / "speed-memory.png")
