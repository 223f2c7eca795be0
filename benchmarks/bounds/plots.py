"""Plots of the benchmark on bounds: what each kind of bounds changes, and systems side by side as bounds get looser."""

from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.bounds.cases import AUTO, BEFORE, BOUNDED_KINDS, EBM, EPSILONS, FOREST, PEER_TABLES, TABLES
from benchmarks.bounds.figures import Cell, Figures, Summary
from benchmarks.bounds.goals import APPROXIMATE, MODES, PURE, kind_text
from benchmarks.bounds.loosening import AS_GIVEN, FEATURES, KINDS
from benchmarks.core.plots import Canvas, is_drawn

LOOSE = tuple(kind for kind in KINDS if kind != AS_GIVEN)
# By mode, the system, colour and marker of each line.
LINES = {
    PURE: ((AUTO, "C0", "o"), (BEFORE, "C1", "s"), (FOREST, "C2", "x")),
    APPROXIMATE: ((AUTO, "C0", "o"), (BEFORE, "C1", "s"), (EBM, "C3", "x")),
}
SHOWN_EPSILON = 1.0


def plot_changes(figures: Figures, folder: Path) -> Path | None:
    """Mean change of accuracy by kind of bounds, a colour for each budget and a panel for each mode; None without any."""
    changes = {kind: figures.loosening(kind, FEATURES, True) for kind in LOOSE}
    if not any(changes.values()) or not is_drawn():
        return None
    canvas = Canvas(len(MODES), len(MODES))
    canvas.figure.set_size_inches(10, 3.6)
    legend: dict[str, Any] = {}
    for panel, (delta, mode) in zip(canvas.panels, MODES.items(), strict=True):
        panel.axhline(0, color="grey", linewidth=1, linestyle=":")
        for colour, epsilon in enumerate(sorted(EPSILONS)):
            points = []
            for place, kind in enumerate(LOOSE):
                at_budget = (
                    change for change in changes[kind] if (change.cell.epsilon, change.cell.delta) == (epsilon, delta)
                )
                found = Summary.of(at_budget)
                points += (
                    [] if found is None else [(place + 0.08 * (colour - 1.5), 100 * found.mean, 100 * (found.error or 0.0))]
                )
            if points:
                style = {"color": f"C{colour}", "marker": "o", "linestyle": "none", "markersize": 4, "capsize": 2}
                legend[f"ε = {epsilon:g}"] = panel.errorbar(*zip(*points, strict=True), **style)
        panel.set_xticks(range(len(LOOSE)), [kind_text(kind) for kind in LOOSE])
        panel.set_title(mode, fontsize="medium")
        panel.set_ylabel("points of accuracy")
    canvas.figure.suptitle("Change against bounds as given, mean over tables with classes")
    return canvas.save(folder / "bounds-changes.png", list(legend.items()), n_columns=4)


def plot_systems(figures: Figures, folder: Path) -> Path | None:
    """Mean accuracy at one budget over tables that all systems of a mode can do, as bounds get looser; None without any."""
    curves = {delta: _curves(figures, delta) for delta in LINES}
    if not any(curves.values()) or not is_drawn():
        return None
    canvas = Canvas(len(LINES), len(LINES))
    canvas.figure.set_size_inches(10, 3.6)
    legend: dict[str, Any] = {}
    for panel, (delta, lines) in zip(canvas.panels, LINES.items(), strict=True):
        for system, colour, marker in lines:
            if values := curves[delta].get(system):
                (legend[system],) = panel.plot(range(len(values)), values, color=colour, marker=marker, linewidth=1.4)
        panel.set_xticks(range(len(BOUNDED_KINDS)), [kind_text(kind) for kind in BOUNDED_KINDS])
        panel.set_title(MODES[delta], fontsize="medium")
        panel.set_ylabel("accuracy")
    canvas.figure.suptitle(f"The same bounds for all, ε = {SHOWN_EPSILON:g}, mean over tables that all can do")
    return canvas.save(folder / "bounds-systems.png", list(legend.items()), n_columns=4)


def _curves(figures: Figures, delta: float) -> dict[str, list[float]]:
    """The mean accuracy of each system by kind of bounds, over tables on which all systems have all kinds."""
    systems = [system for system, *_ in LINES[delta]]
    found: dict[str, list[list[float]]] = {system: [] for system in systems}
    for table in (table for table in TABLES if table.name in PEER_TABLES and table.has_classes):
        cell = Cell(table, SHOWN_EPSILON, delta)
        scores = {s: [figures.figure(cell, (s, kind, FEATURES)) for kind in BOUNDED_KINDS] for s in systems}
        if all(figure is not None for own in scores.values() for figure in own):
            for system, own in scores.items():
                found[system].append([figure.mean for figure in own if figure is not None])
    return {system: [mean(values) for values in zip(*rows, strict=True)] for system, rows in found.items() if rows}
