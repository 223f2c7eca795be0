"""The plot of the benchmark of engines: time against rows."""

from pathlib import Path

from benchmarks.core.plots import Canvas, Curves, draw_growth, is_drawn
from benchmarks.engines.cases import DASK, DUCKDB, DUCKDB_PARQUET, MEMORY, PARQUET, POSTGRESQL

# Colours that people tell apart however they see them, and a marker for those who print in grey.
STYLES = {
    MEMORY: ("#000000", "o", MEMORY),
    PARQUET: ("#0072B2", "s", PARQUET),
    DASK: ("#009E73", "^", DASK),
    DUCKDB: ("#D55E00", "D", DUCKDB),
    DUCKDB_PARQUET: ("#CC79A7", "v", DUCKDB_PARQUET),
    POSTGRESQL: ("#56B4E9", "P", POSTGRESQL),
}


def plot_growth(curves: Curves, path: Path) -> Path | None:
    """Seconds of a fit against rows; None without matplotlib or curves."""
    curves = {engine: points for engine, points in curves.items() if len(points) > 1}
    if not curves or not is_drawn():
        return None
    canvas = Canvas()
    canvas.figure.set_size_inches(8, 4.6)
    (panel,) = canvas.panels
    draw_growth(panel, curves, STYLES, "rows")
    panel.set_ylabel("seconds of a fit")
    canvas.figure.suptitle("Time of a fit: one tree of depth 6 on all records")
    return canvas.save(path)
