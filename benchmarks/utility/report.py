"""Makes the page on utility from rows: who is ahead where, goals, plots, reliability, ablations, all figures."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.core.figures import Figure, shown_figure
from benchmarks.core.page import Entries, could_not_run, folded, page_text, section, table_text, write_page
from benchmarks.core.results import Row, finished, missing, read_rows
from benchmarks.peers.environment import PINS
from benchmarks.peers.settings import LARGE, LEFT_OUT, MOST_ROWS, PEERS
from benchmarks.utility import run as utility
from benchmarks.utility.figures import METRICS, MODES, NEAR, Cell, Figures, metrics_of
from benchmarks.utility.overview import left_out, panels, picture, write_pictures
from benchmarks.utility.plots import plot_metric, plot_reliability
from benchmarks.utility.run import ABLATED, ABLATION_EPSILONS, EPSILONS, QUESTION, Table
from benchmarks.utility.verdicts import comparison, verdicts

VERDICTS = ("above", "alike", "below")
COMPARED = ("accuracy", "auc", "r2")
# What is not private, and what it is called in tables.
REFERENCES = {
    utility.WITHOUT_NOISE: "auto at ε = ∞",
    "boosting": "boosting, no privacy",
    "random-forest": "forest, no privacy",
    "guess": "guess",
}
REGRESSION = "mean of the regression tables"


@dataclass(frozen=True)
class Goal:
    """What ``auto`` should reach on a table at the budgets of the benchmark, without and with δ."""

    table: str
    metric: str
    pure: tuple[float, ...]
    approximate: tuple[float, ...]


GOALS = (
    Goal("adult", "accuracy", (0.829, 0.842, 0.845, 0.848), (0.835, 0.847, 0.852, 0.853)),
    Goal("adult", "auc", (0.867, 0.894, 0.899, 0.903), (0.889, 0.904, 0.909, 0.911)),
    Goal("mushroom_complete", "accuracy", (0.935, 0.975, 0.985, 0.99), (0.945, 0.99, 0.993, 0.999)),
    Goal("nursery", "accuracy", (0.85, 0.87, 0.89, 0.92), (0.86, 0.90, 0.925, 0.95)),
    Goal("wall_following", "accuracy", (0.77, 0.81, 0.84, 0.885), (0.77, 0.81, 0.886, 0.913)),
    Goal("bank_additional", "auc", (0.867, 0.919, 0.925, 0.929), (0.909, 0.929, 0.933, 0.937)),
    Goal(REGRESSION, "r2", (0.15, 0.27, 0.36, 0.43), (0.155, 0.33, 0.43, 0.51)),
)


def side_by_side(results: Path) -> Entries:
    """Every cell as text, for printing."""
    figures = Figures.of(finished(read_rows(results)).values())
    return [entry for table in figures.tables() for entry in _lines(figures, table, metrics_of(table)[0])]


def write(results: Path, folder: Path) -> Path:
    """Write ``utility.md`` and its plots into a folder, from the rows of a results file."""
    folder.mkdir(parents=True, exist_ok=True)
    every = read_rows(results, QUESTION)
    done = finished(every)
    figures = Figures.of(done.values())
    text = [
        _INTRODUCTION.format(
            n_rows=len(done),
            n_splits=utility.N_SEEDS,
            stream=utility.STREAM,
            least=f"{utility.LEAST_SHARE:g}",
            recipes=", ".join(utility.RECIPES),
            n_rounds=utility.BOOSTING["max_iter"],
            penalty=utility.BOOSTING["l2_regularization"],
            n_trees=utility.FOREST["n_estimators"],
            n_leaf=utility.FOREST["min_samples_leaf"],
            n_drawn=f"{utility.MOST_FOREST_ROWS:,}",
        ),
        *_overview(figures, folder),
        *_summary(figures),
        *section("At ε = 1", comparison(figures), f"{_AT_ONE}{verdicts(figures)}\n"),
        *_goals(figures),
        *_plots(figures, folder),
        *_reliability(figures, folder),
        *_ablations(figures),
        *_behind(figures),
        *_details(figures),
        *_settings(),
        *could_not_run(missing(every), "system"),
    ]
    return write_page(folder, "utility.md", page_text(text))


_INTRODUCTION = """# Utility at a given budget

Made by `python -m benchmarks utility` from {n_rows} measured rows; nothing here is written by hand.

- **auto**: the default recipe, for δ = 0 and for δ = 10⁻⁵. The number of rows is not public: it pays for a noisy one.
- **best peer**: the best of several settings of diffprivlib and interpret's DP-EBM, listed below. It is chosen for every
  table, budget and metric by the mean over the very splits that are shown, without paying for the choice. Systems that
  are private with δ = 0 count in both modes, those that need δ > 0 in one.
- **recipes** of the catalogue with δ = 0: {recipes}.
- **no privacy**: scikit-learn's histogram gradient boosting, {n_rounds} rounds with an L2 penalty of {penalty:g},
  and its random forest, {n_trees} trees, at least {n_leaf} rows in a leaf, at most {n_drawn} rows drawn for a tree.
  **auto at ε = ∞**: the default recipe without noise. **guess**: the commonest class, or the mean.

All systems have the same rows, splits and public bounds. Splits are 75/25, for regression 90/10, {n_splits} of them, drawn
by `numpy.random.default_rng([{stream}, seed])`; `auto` was tuned on other splits ([how](../guide/default.md)). Noise is
fresh. Figures are means ± standard deviations over splits. Area under the curve with more than two classes is the mean of
each class against the rest. For the log-loss, shares are kept {least} away from 0 and 1. Predicted numbers are clipped to
the public bounds.

Missing values are kept for `auto` and the recipes. For peers a missing category is a category of its own; rows with a
missing number are left out, from training and testing (column "left out").
"""


def _overview(figures: Figures, folder: Path) -> list[str]:
    found = panels(figures)
    if not found:
        return []
    write_pictures(found, folder)
    absent = left_out(figures)
    said = f"\nSome system was not measured on all splits of {', '.join(absent)}: left out too." if absent else ""
    return ["## In one picture\n", picture(found) + "\n", f"{_OVERVIEW}{said}\n"]


_OVERVIEW = """Every system in a panel has the same tables and splits. diffprivlib (the best of its forest, naive Bayes and
logistic regression) and DP-EBM have the setting that is the best in hindsight, for each table and budget; `auto` has one
default. DP-EBM is for two classes. A bar is the standard deviation over splits of the mean over tables. Generated tables
are left out: how much they weigh in a mean is up to whoever wrote them."""

_AT_ONE = """The better of best peer and `auto` in the same mode is in bold. An R² below 0 is worse than guessing the mean.
"""


def _summary(figures: Figures) -> list[str]:
    entries: Entries = []
    for metric in COMPARED:
        cells = list(figures.cells(metric))
        for delta, mode in MODES.items():
            own = [cell for cell in cells if cell.delta == delta]
            verdicts: dict[str, Counter[str]] = {
                "in hindsight": Counter(cell.verdict for cell in own),
                "on the other splits": Counter(cell.verdict_on_chosen for cell in own if cell.verdict_on_chosen),
            }
            entries += [
                {"metric": METRICS[metric], "mode": mode, "best setting": choice, **_counted(counts)}
                for choice, counts in verdicts.items()
                if counts
            ]
    return section("Who is ahead", entries, _AHEAD.format(near=100 * NEAR))


def _counted(counts: Counter[str]) -> dict[str, str]:
    return {"cells": str(counts.total())} | {_HEADS[verdict]: str(counts[verdict]) for verdict in VERDICTS}


_HEADS = {"above": "auto above the best peer", "alike": "alike", "below": "auto below the best peer"}
_AHEAD = """A cell is a table at a budget. Alike means that the two means are within {near:.1f} points. The best setting of
all peers is chosen in hindsight, by the splits that are shown, or for each split by the others, as somebody could who
may try all.
"""


def _goals(figures: Figures) -> list[str]:
    entries: Entries = []
    for goal in GOALS:
        for (delta, mode), values in zip(MODES.items(), (goal.pure, goal.approximate), strict=True):
            entry = {"table": goal.table, "metric": METRICS[goal.metric], "mode": mode}
            for epsilon, value in zip(EPSILONS, values, strict=True):
                got = _reached(figures, goal, epsilon, delta)
                entry[f"ε = {epsilon:g}"] = "-" if got is None else f"{got:.3f} ({got - value:+.3f})"
            entries.append(entry)
    said = "What `auto` reaches, in brackets how far it is above or below the goal that was set before.\n"
    return section("Goals", entries, said)


def _reached(figures: Figures, goal: Goal, epsilon: float, delta: float) -> float | None:
    regression = [table.name for table in utility.TABLES if table.task == "regression"]
    tables = regression if goal.table == REGRESSION else [goal.table]
    found = [figures.figure(table, "auto", goal.metric, epsilon, delta) for table in tables]
    means = [figure.mean for figure in found if figure is not None]
    return mean(means) if len(means) == len(tables) else None


def _plots(figures: Figures, folder: Path) -> list[str]:
    text = ["## Against the budget\n"]
    for metric in COMPARED:
        tables = [table for table in figures.tables() if metric in metrics_of(table)]
        if metric == "auc":
            tables = [table for table in tables if table.task == "binary"]
        if plot := plot_metric(figures, metric, tables, folder):
            text.append(f"![{METRICS[metric]} against ε]({plot.name})\n")
    return text if len(text) > 1 else []


def _reliability(figures: Figures, folder: Path) -> list[str]:
    entries: Entries = []
    for table in figures.tables():
        bins = {(mode, e): figures.reliability(table.name, e, delta) for delta, mode in MODES.items() for e in EPSILONS}
        if any(bins.values()):
            errors = {f"{mode}, ε = {e:g}": f"{found.error:.3f}" if found else "-" for (mode, e), found in bins.items()}
            entries.append({"table": table.name, **errors})
    if not entries:
        return []
    text = [
        "## Reliability\n",
        "Test rows in ten bins of the share that `auto` gives the second class of a binary table: how often that class was "
        "right. Below, the mean distance between both.\n",
    ]
    if plot := plot_reliability(figures, figures.tables(), folder):
        text.append(f"![How often the second class was right]({plot.name})\n")
    return [*text, folded("Mean distances", table_text(entries))]


def _ablations(figures: Figures) -> list[str]:
    columns = {(e, delta): f"ε = {e:g}, {mode}" for delta, mode in MODES.items() for e in ABLATION_EPSILONS}
    means: Entries = []
    single: Entries = []
    for metric in COMPARED:
        for name in figures.ablations():
            changes: dict[tuple[float, float], list[float]] = {column: [] for column in columns}
            for table in utility.TABLES:
                found = {column: _change(figures, table.name, name, metric, *column) for column in columns}
                for column, change in found.items():
                    changes[column] += [] if change is None else [change]
                if any(change is not None for change in found.values()):
                    single.append(
                        {"without": name, "metric": METRICS[metric], "table": table.name} | _points(columns, found)
                    )
            if any(changes.values()):
                averaged = {column: mean(values) if values else None for column, values in changes.items()}
                n_tables = str(max(len(values) for values in changes.values()))
                means.append({"without": name, "metric": METRICS[metric], "tables": n_tables} | _points(columns, averaged))
    if not means:
        return []
    return [
        "## What each part is worth\n",
        "`auto` with one part taken out or replaced: mean difference to `auto` in points; below zero the part helps. Plans "
        "that do not have the part are left as they are, with fresh noise: without δ nodes see all features and categories "
        "have no random subsets, so those cells show what is chance.\n",
        table_text(means),
        folded("By table", table_text(single)),
    ]


def _change(figures: Figures, table: str, name: str, metric: str, epsilon: float, delta: float) -> float | None:
    without = figures.figure(table, ABLATED + name, metric, epsilon, delta)
    auto = figures.figure(table, "auto", metric, epsilon, delta)
    return None if without is None or auto is None else without.mean - auto.mean


def _points(columns: dict[tuple[float, float], str], changes: dict[tuple[float, float], float | None]) -> dict[str, str]:
    return {
        title: "-" if changes[column] is None else f"{100 * (changes[column] or 0.0):+.2f}"
        for column, title in columns.items()
    }


def _behind(figures: Figures) -> list[str]:
    cells = [cell for metric in COMPARED for cell in figures.cells(metric) if cell.verdict == "below"]
    if not cells:
        return []
    entries = [_behind_entry(cell) for cell in sorted(cells, key=lambda cell: cell.lead)]
    return [
        "## Where the best peer is ahead\n",
        folded(f"{len(entries)} cells, the largest distance first", table_text(entries)),
    ]


def _behind_entry(cell: Cell) -> dict[str, str]:
    return {
        "table": cell.table.name,
        "metric": METRICS[cell.metric],
        "ε": f"{cell.epsilon:g}",
        "mode": MODES[cell.delta],
        "auto": shown_figure(cell.auto),
        "best peer": shown_figure(cell.best.figure),
        "which": _which(cell.best.system, cell.best.settings),
    }


def _which(system: str, settings: str) -> str:
    return f"{system} ({_said(json.loads(settings))})"


def _said(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "defaults"


def _lines(figures: Figures, table: Table, metric: str) -> Entries:
    """A line for each budget and mode at which something was measured."""
    entries: Entries = []
    for delta, mode in MODES.items():
        for epsilon in EPSILONS:
            auto = figures.figure(table.name, "auto", metric, epsilon, delta)
            best = figures.best_peer(table.name, metric, epsilon, delta)
            if auto is None and best is None:
                continue
            entries.append(
                {
                    "table": table.name,
                    "metric": METRICS[metric],
                    "mode": mode,
                    "ε": f"{epsilon:g}",
                    "auto": shown_figure(auto),
                    "best peer": shown_figure(best.figure if best else None),
                    "which": _which(best.system, best.settings) if best else "-",
                    **{title: shown_figure(figures.figure(table.name, name, metric)) for name, title in REFERENCES.items()},
                }
            )
    return entries


def _details(figures: Figures) -> list[str]:
    text = ["## All figures\n"]
    for table in figures.tables():
        parts = [*(_lines(figures, table, metric) for metric in metrics_of(table)), _by_system(figures, table)]
        text.append(folded(table.name, "\n".join(table_text(part) for part in parts if part)))
    return text


def _by_system(figures: Figures, table: Table) -> Entries:
    """Each system at its best setting by the first metric, with its rows and the seconds of a fit."""
    metric, entries = metrics_of(table)[0], []
    for system in figures.systems(table.name, "recipes"):
        for epsilon in EPSILONS:
            rows = figures.rows(table.name, system, epsilon, 0.0)
            entries += [_system_entry(system, "", epsilon, metric, rows)] if rows else []
    for system in figures.systems(table.name, "peers"):
        for epsilon in EPSILONS:
            best = figures.best_peer(table.name, metric, epsilon, utility.DELTA, system)
            if best is not None:
                entries.append(
                    _system_entry(system, best.settings, epsilon, metric, figures.peer_rows(table.name, best, epsilon))
                )
    for delta, mode in MODES.items():
        for epsilon in EPSILONS:
            rows = figures.rows(table.name, "auto", epsilon, delta)
            entries += [_system_entry(f"auto, {mode}", "", epsilon, metric, rows)] if rows else []
    return entries


def _system_entry(system: str, settings: str, epsilon: float, metric: str, rows: list[Row]) -> dict[str, str]:
    return {
        "system": _which(system, settings) if settings else system,
        "ε": f"{epsilon:g}",
        METRICS[metric]: shown_figure(Figure.of([row["metrics"][metric] for row in rows])),
        "seconds of a fit": f"{mean(row['seconds'] for row in rows):.2f}",
        "rows for training": str(rows[0]["n_train"]),
        "left out": str(rows[0].get("n_left_out", 0)),
    }


def _settings() -> list[str]:
    entries = [
        {
            "system": peer.system,
            "tasks": ", ".join(peer.tasks),
            "δ": f"{peer.delta:g}",
            "settings": "; ".join(_said(settings) for settings in peer.settings),
            "of these on large tables": f"the first {peer.n_settings_large}",
        }
        for peer in PEERS
    ]
    limits = [f"{system} on {table}: {n_rows:,} rows" for (table, system), n_rows in MOST_ROWS.items()]
    left = [f"{', '.join(names)} of {table}" for table, names in LEFT_OUT.items()]
    return [
        "## Settings of the peers\n",
        f"Versions: {', '.join(PINS)}. What is not listed has its default. Categories go in by their place for "
        "forests, as a column each for linear models and naive Bayes (form one-hot; ordinal: by their place), by name for "
        "DP-EBM; numbers are scaled to 0 .. 1 for linear models. Bounds, classes, norms and types come from the schema.\n",
        table_text(entries),
        f"Large tables: {', '.join(LARGE)}. Fewer rows for training: {'; '.join(limits)}. "
        f"Columns that nearly all rows lack and peers do not get: {'; '.join(left)}.\n",
    ]
