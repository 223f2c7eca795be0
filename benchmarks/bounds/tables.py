"""The tables of the page on bounds, each made from measured rows."""

from collections.abc import Mapping
from statistics import mean, median

from benchmarks.bounds.cases import (
    AUTO,
    BEFORE,
    BOUNDED_KINDS,
    DELTAS,
    EBM,
    EPSILONS,
    FOREST,
    PEER_EPSILONS,
    PEER_TABLES,
    SMALL_FIT,
    TABLES,
    TIME,
    Table,
)
from benchmarks.bounds.figures import LEAST_SIGNAL, Cell, Change, Figures, Summary
from benchmarks.bounds.goals import APPROXIMATE, MODES, PURE, cell_text, clearly_below, kind_text
from benchmarks.bounds.loosening import AS_GIVEN, FEATURES, HUGE, KINDS, NONE, TARGET
from benchmarks.core.figures import Figure, figure_text, time_text
from benchmarks.core.page import Entries

RISING = tuple(sorted(EPSILONS))
LOOSE = tuple(kind for kind in KINDS if kind != AS_GIVEN)
# Whether a fit has signal, as the page says it.
SIGNAL = {True: f"≥ {LEAST_SIGNAL:,}", False: f"< {LEAST_SIGNAL:,}"}
# Losses from which on a cell is listed.
MUCH = {True: 0.03, False: 0.1}
# R² below this says only that a model is useless.
LEAST_R2 = -10


def change_text(value: float, error: float | None, has_classes: bool) -> str:
    """A change with its standard error, if there is one: in points of accuracy, or in R²."""
    if not has_classes and abs(value) > -LEAST_R2:
        return f"{value:+.0e}"
    factor, digits = (100, 2) if has_classes else (1, 3)
    spread = "" if error is None else f" ± {factor * error:.{digits}f}"
    return f"{factor * value:+.{digits}f}{spread}"


def cell_change(change: Change) -> str:
    """A change and where it is."""
    return f"{change_text(change.mean, change.error, change.cell.table.has_classes)} ({cell_text(change.cell)})"


def by_budget(changes: list[Change], has_classes: bool) -> dict[str, str]:
    """The mean over tables at each budget and over all, and the worst cell."""
    line = {}
    for epsilon in RISING:
        found = Summary.of(change for change in changes if change.cell.epsilon == epsilon)
        line[f"ε = {epsilon:g}"] = "-" if found is None else change_text(found.mean, found.error, has_classes)
    every = Summary.of(changes)
    if every is None:
        return line | {"all": "-", "worst cell": "-", "cells": "0"}
    worst = cell_change(every.worst)
    return line | {
        "all": change_text(every.mean, every.error, has_classes),
        "worst cell": worst,
        "cells": str(every.n_cells),
    }


def answer(figures: Figures, has_classes: bool, loosened: str = FEATURES) -> Entries:
    """What each kind of bounds changes against bounds as given, by mode, signal and budget."""
    entries = []
    for kind in LOOSE:
        changes = figures.loosening(kind, loosened, has_classes)
        for delta, mode in MODES.items():
            for has_signal, words in SIGNAL.items():
                own = [change for change in changes if change.cell.delta == delta and change.has_signal == has_signal]
                if own:
                    first = {"bounds": kind_text(kind), "mode": mode, "rows·ε": words}
                    entries.append(first | by_budget(own, has_classes))
    return entries


def since_before(figures: Figures, has_classes: bool, loosened: str = FEATURES) -> Entries:
    """What has changed since the state before, with bounds that it can take."""
    entries = []
    for kind in BOUNDED_KINDS:
        if loosened == TARGET and kind == AS_GIVEN:
            continue  # the same as for features
        changes = figures.since_before(kind, loosened, has_classes)
        for delta, mode in MODES.items():
            own = [change for change in changes if change.cell.delta == delta]
            if own:
                best = max(own, key=lambda change: change.mean)
                line = {"bounds": kind_text(kind), "mode": mode} | by_budget(own, has_classes)
                entries.append(line | {"best cell": cell_change(best)})
    return entries


def score_text(figure: Figure | None) -> str:
    """A mean score; of useless models only how useless they are."""
    if figure is None:
        return "-"
    return f"{figure.mean:.3f}" if figure.mean > LEAST_R2 else f"{figure.mean:.0e}"


def best_bold(found: dict[str, Figure | None]) -> dict[str, str]:
    """Mean scores as text; the best are bold, if there is something to compare."""
    means = {name: round(figure.mean, 3) for name, figure in found.items() if figure is not None}
    best = {name for name, value in means.items() if value == max(means.values())} if len(means) > 1 else set()
    return {name: f"**{score_text(figure)}**" if name in best else score_text(figure) for name, figure in found.items()}


def peers(figures: Figures) -> Entries:
    """The library beside peers with the same bounds: the best of each mode is bold."""
    sides = {PURE: (AUTO, BEFORE, FOREST), APPROXIMATE: (AUTO, BEFORE, EBM)}
    entries = []
    for table in (table for table in TABLES if table.name in PEER_TABLES):
        for epsilon in sorted(PEER_EPSILONS):
            for kind in BOUNDED_KINDS:
                line = {"table": table.name, "ε": f"{epsilon:g}", "bounds": kind_text(kind)}
                shown = [line | _side_by_side(figures, table, epsilon, kind, sides)]
                if kind == HUGE:  # peers have to be given bounds, so without any it is alone
                    alone = {PURE: (AUTO,), APPROXIMATE: (AUTO,)}
                    shown.append(line | {"bounds": NONE} | _side_by_side(figures, table, epsilon, NONE, alone))
                entries += [entry for entry in shown if set(list(entry.values())[3:]) != {"-"}]
    heads = list(entries[0]) if entries else []
    return [{head: entry.get(head, "-") for head in heads} for entry in entries]


def _side_by_side(
    figures: Figures, table: Table, epsilon: float, kind: str, sides: Mapping[float, tuple[str, ...]]
) -> dict[str, str]:
    shown: dict[str, str] = {}
    for delta, systems in sides.items():
        cell = Cell(table, epsilon, delta)
        shown |= best_bold(
            {f"{system}, {MODES[delta]}": figures.figure(cell, (system, kind, FEATURES)) for system in systems}
        )
    return shown


def by_table(figures: Figures, table: Table, loosened: str) -> Entries:
    """All mean scores of the library on a table, the best of each line bold."""
    entries = []
    for delta in DELTAS:
        for epsilon in RISING:
            cell = Cell(table, epsilon, delta)
            found = {kind_text(kind): figures.figure(cell, (AUTO, kind, loosened)) for kind in KINDS}
            for kind in BOUNDED_KINDS:
                found[f"before, {kind_text(kind)}"] = figures.figure(cell, (BEFORE, kind, loosened))
            if any(found.values()):
                guess = score_text(figures.figure(cell, (AUTO, AS_GIVEN, FEATURES), "guess"))
                entries.append({"mode": MODES[delta], "ε": f"{epsilon:g}", **best_bold(found), "guess": guess})
    return entries


def grid_shares(figures: Figures) -> Entries:
    """How many fits look for the grid, the share of the budget that these spend on it, and their passes over the table."""
    entries = []
    for delta, mode in MODES.items():
        for epsilon in RISING:
            rows = [
                row
                for row in figures.rows
                if row["system"] == AUTO and (row["parameters"]["epsilon"], row["parameters"]["delta"]) == (epsilon, delta)
            ]
            spent = [row["shares"]["grid"] for row in rows if row["shares"].get("grid")]
            if rows:
                shares = f"{100 * mean(spent):.1f} % ({100 * max(spent):.1f} %)" if spent else "-"
                passes = max(row["passes"] for row in rows)
                line = {"mode": mode, "ε": f"{epsilon:g}", "fits": str(len(rows)), "that look": str(len(spent))}
                entries.append(line | {"share, mean (most)": shares, "passes, most": str(passes)})
    return entries


def times(figures: Figures) -> Entries:
    """Seconds of fits in turns: before, now, now without bounds; and of small fits."""
    entries = []
    for row in (*figures.cost(TIME), *figures.cost(SMALL_FIT)):
        for name, runs in row["runs"].items():
            base = row["runs"].get(BEFORE)
            budget = "" if row["variant"] == SMALL_FIT else f", ε = 1, {MODES[row['parameters']['delta']]}"
            entries.append(
                {
                    "fit": f"{row['dataset']}{budget}",
                    "state": name,
                    "median": time_text(median(runs)),
                    "best": time_text(min(runs)),
                    "over before, medians": "-" if base is None else figure_text(median(runs) / median(base), "x"),
                    "counting passes for the grid": str(row["passes"][name]) if "passes" in row else "-",
                    "runs": str(len(runs)),
                    "load of the machine before": "-" if row["load"] is None else f"{row['load']:g}",
                }
            )
    return entries


def much_lost(figures: Figures) -> Entries:
    """Cells with signal in which loose bounds cost clearly more than a little, the largest loss first."""
    found = []
    for has_classes, loosened in ((True, FEATURES), (False, FEATURES), (False, TARGET)):
        for kind in LOOSE:
            for change in clearly_below(figures.loosening(kind, loosened, has_classes)):
                if change.has_signal and change.mean < -MUCH[has_classes]:
                    found.append((change.mean, kind, loosened, change))
    return [
        {
            "table": change.cell.table.name,
            "bounds": f"{kind_text(kind)}{' of the target' if loosened == TARGET else ''}",
            "ε": f"{change.cell.epsilon:g}",
            "mode": MODES[change.cell.delta],
            "change": change_text(change.mean, change.error, change.cell.table.has_classes),
        }
        for _, kind, loosened, change in sorted(found, key=lambda entry: entry[0])
    ]


def shifted_by_passes(figures: Figures) -> Entries:
    """What numbers far from zero cost, by the number of passes that the fit made to find them: zooms, and one more."""
    entries = []
    for delta, mode in MODES.items():
        for passes in range(10):
            found = Summary.of(figures.shifted(delta, passes))
            if found is not None:
                change = change_text(found.mean, found.error, True)
                line = {"mode": mode, "passes": str(passes), "change": change, "worst cell": cell_change(found.worst)}
                entries.append(line | {"cells": str(found.n_cells)})
    return entries
