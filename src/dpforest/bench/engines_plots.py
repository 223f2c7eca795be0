"""The plot of the benchmark of engines: time against rows."""

import importlib
import importlib.util
import math
from pathlib import Path

from dpforest.bench.engines_cases import DASK, DUCKDB, DUCKDB_PARQUET, MEMORY, PARQUET, POSTGRESQL
from dpforest.bench.speed_plots import spread_out

# Colours that people tell apart however they see them, and a marker for those who print in grey.
STYLES = {
    MEMORY: ("#000000", "o"),
    PARQUET: ("#0072B2", "s"),
    DASK: ("#009E73", "^"),
    DUCKDB: ("#D55E00", "D"),
    DUCKDB_PARQUET: ("#CC79A7", "v"),
    POSTGRESQL: ("#56B4E9", "P"),
}
LEAST_GAP = 0.06  # of two names, as a share of the height


def plot_growth(curves: dict[str, list[tuple[int, float]]], path: Path) -> Path | None:
    """Seconds of a fit against rows; None without matplotlib or curves."""
    curves = {engine: points for engine, points in curves.items() if len(points) > 1}
    if not curves or importlib.util.find_spec("matplotlib") is None:
        return None
    # Loaded by name: it is an optional library.
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(8, 4.6), layout="constrained")
    panel = figure.subplots()
    for engine, points in curves.items():
        colour, marker = STYLES[engine]
        panel.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=5, linewidth=1.6)
    values = sorted({value for points in curves.values() for value, _ in points})
    panel.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds of a fit")
    panel.minorticks_off()
    panel.set_xticks(values, [f"{value:,}" for value in values])
    panel.grid(alpha=0.25)
    # Room for names at the right of the last point.
    first, last = math.log(values[0]), math.log(values[-1])
    panel.set_xlim(math.exp(first - 0.05 * (last - first)), math.exp(last + 0.45 * (last - first)))
    low, high = (math.log(edge) for edge in panel.get_ylim())
    heights = [(math.log(points[-1][1]) - low) / (high - low) for points in curves.values()]
    for (engine, points), height in zip(curves.items(), spread_out(heights, LEAST_GAP), strict=True):
        place = (points[-1][0], math.exp(low + height * (high - low)))
        panel.annotate(engine, place, xytext=(8, 0), textcoords="offset points", va="center", color=STYLES[engine][0])
    figure.suptitle("Time of a fit: one tree of depth 6 on all records")
    figure.savefig(path, dpi=110)
    return path
