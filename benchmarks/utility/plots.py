"""Plots of the utility benchmark: each metric against the budget, and how reliable the shares of classes are."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core.plots import Canvas, is_drawn
from benchmarks.utility.figures import APPROXIMATE, METRICS, MODES, PURE, Figures
from benchmarks.utility.run import EPSILONS, WITHOUT_NOISE, Table

N_COLUMNS = 4
# Below this R² a model is no use, and how far below says nothing.
LEAST_R2 = -0.25
# Name, mode and style of each curve against the budget.
CURVES = (
    ("auto", PURE, {"color": "C0", "marker": "o"}),
    ("auto", APPROXIMATE, {"color": "C1", "marker": "o"}),
    ("best peer", PURE, {"color": "C0", "marker": "x", "linestyle": "--"}),
    ("best peer", APPROXIMATE, {"color": "C1", "marker": "x", "linestyle": "--"}),
)
# Budgets of the reliability diagrams.
SHOWN = {0.1: "C0", 1.0: "C1"}
LINES = {
    WITHOUT_NOISE: ("auto, ε = ∞", {"color": "C2"}),
    "boosting": ("boosting, no privacy", {"color": "grey"}),
    "guess": ("guess", {"color": "grey", "linestyle": ":"}),
}


def plot_metric(figures: Figures, metric: str, tables: list[Table], folder: Path) -> Path | None:
    """One panel for each table; None without matplotlib or tables."""
    if not tables or not is_drawn():
        return None
    canvas = _canvas(len(tables))
    legend: dict[str, Any] = {}
    for panel, table in zip(canvas.panels, tables, strict=True):
        for name, delta, style in CURVES:
            points = _points(figures, name, metric, table.name, delta)
            if points:
                title = f"{name}, {MODES[delta]}"
                legend[title] = panel.errorbar(*np.transpose(points), capsize=2, linewidth=1.2, markersize=4, **style)
        for system, (title, style) in LINES.items():
            level = figures.figure(table.name, system, metric)
            if level is not None:
                legend[title] = panel.axhline(level.mean, linewidth=1, **style)
        panel.set(xscale="log", xlim=(0.8 * EPSILONS[0], 1.25 * EPSILONS[-1]))
        panel.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS], fontsize="small")
        panel.minorticks_off()
        panel.set_title(table.name, fontsize="medium")
        if metric == "r2":
            panel.set_ylim(LEAST_R2, 1.02)
    canvas.figure.suptitle(f"{METRICS[metric]} against ε")
    return canvas.save(folder / f"utility-{metric}.png", list(legend.items()))


def _points(figures: Figures, name: str, metric: str, table: str, delta: float) -> list[tuple[float, float, float]]:
    points = []
    for epsilon in EPSILONS:
        if name == "auto":
            figure = figures.figure(table, name, metric, epsilon, delta)
        else:
            best = figures.best_peer(table, metric, epsilon, delta)
            figure = None if best is None else best.figure
        # A bar of a point far below the panel would cross all of it.
        if figure is not None and not (metric == "r2" and figure.mean < LEAST_R2):
            points.append((epsilon, figure.mean, figure.spread or 0.0))
    return points


def plot_reliability(figures: Figures, tables: list[Table], folder: Path) -> Path | None:
    """How often the second class came true against the share that pure ``auto`` gave it; dots are as large as their bins."""
    tables = [table for table in tables if any(figures.reliability(table.name, epsilon, PURE) for epsilon in SHOWN)]
    if not tables or not is_drawn():
        return None
    canvas = _canvas(len(tables))
    legend: dict[str, Any] = {}
    for panel, table in zip(canvas.panels, tables, strict=True):
        (legend["as promised"],) = panel.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle=":")
        for epsilon, colour in SHOWN.items():
            bins = figures.reliability(table.name, epsilon, PURE)
            if bins is not None:
                sizes = 4 + 60 * bins.counts / bins.counts.sum()
                (legend[f"ε = {epsilon:g}"],) = panel.plot(bins.given, bins.came, color=colour, linewidth=1.2)
                panel.scatter(bins.given, bins.came, sizes, color=colour)
        panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        panel.set_title(table.name, fontsize="medium")
    canvas.figure.suptitle("How often the second class was right, against the share that it was given (δ = 0)")
    return canvas.save(folder / "utility-reliability.png", list(legend.items()))


def _canvas(n_panels: int) -> Canvas:
    canvas = Canvas(n_panels, N_COLUMNS)
    canvas.figure.set_size_inches(3.1 * canvas.n_columns + 0.6, 2.3 * canvas.n_rows + 1)
    return canvas
