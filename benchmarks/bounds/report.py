"""Makes the page on bounds from rows: what loose bounds cost, against before, regression, peers, cost, every table."""

from pathlib import Path

from benchmarks.bounds import cases, loosening
from benchmarks.bounds.cases import AUTO, BEFORE, EBM, FOREST
from benchmarks.bounds.figures import LEAST_SIGNAL, Figures
from benchmarks.bounds.goals import NEAR, hurdles, judged
from benchmarks.bounds.loosening import FEATURES, TARGET
from benchmarks.bounds.plots import plot_changes, plot_systems
from benchmarks.bounds.tables import (
    MUCH,
    answer,
    by_table,
    grid_shares,
    much_lost,
    peers,
    shifted_by_passes,
    since_before,
    times,
)
from benchmarks.core.page import Entries, could_not_run, folded, page_text, section, sections_shown, table_text, write_page
from benchmarks.core.results import finished, missing, read_rows
from benchmarks.peers.environment import PINS


def side_by_side(results: Path) -> Entries:
    """What bounds cost, as lines for printing."""
    figures = Figures(finished(read_rows(results, cases.QUESTION)).values())
    shown = {
        "Goals": judged(figures),
        "Accuracy (points)": _narrow(answer(figures, True)),
        "R², features": _narrow(answer(figures, False)),
        "R², target": _narrow(answer(figures, False, TARGET)),
    }
    return sections_shown({title: lines for title, lines in shown.items() if lines})


def _narrow(entries: Entries) -> Entries:
    """Entries without the columns for which a terminal has no room."""
    return [{head: cell for head, cell in entry.items() if head not in ("worst cell", "cells")} for entry in entries]


def write(results: Path, folder: Path, plots: bool = True) -> Path:
    """Write ``bounds.md`` and its plots into a folder, from the rows of a results file."""
    folder.mkdir(parents=True, exist_ok=True)
    every = read_rows(results, cases.QUESTION)
    figures = Figures(finished(every).values())
    text = [
        _introduction(figures),
        *section("What loose bounds cost", answer(figures, True), _ANSWER),
        *(_picture(plot_changes(figures, folder), "Change against bounds as given, by kind of bounds") if plots else []),
        *section("Goals", judged(figures), _GOALS.format(near=100 * NEAR)),
        *_not_reached(figures),
        *section("Numbers far from zero", shifted_by_passes(figures), _SHIFTED),
        *section("Against the state before", since_before(figures, True), _SINCE),
        *_regression(figures),
        *section("Peers with the same bounds", peers(figures), _peers_words()),
        *(_picture(plot_systems(figures, folder), "Mean accuracy by system and kind of bounds") if plots else []),
        *_cost(figures),
        *_tables(figures),
        *could_not_run(missing(every), "system", "variant"),
    ]
    return write_page(folder, "bounds.md", page_text(text))


def _picture(path: Path | None, words: str) -> list[str]:
    return [] if path is None else [f"![{words}]({path.name})\n"]


def _commits(figures: Figures, system: str) -> str:
    """The commits that rows of a system come from, the one with most rows first."""
    found = [row["commit"] for row in figures.rows if row["system"] == system and "commit" in row]
    return ", ".join(sorted(set(found), key=lambda commit: (-found.count(commit), commit))) or "none yet"


def _introduction(figures: Figures) -> str:
    cells = (*figures.cells(True), *figures.cells(False))
    kinds = [(AUTO, kind, FEATURES) for kind in loosening.KINDS]
    is_whole = all(len(figures.split_rows(cell, side)) == len(cases.SEEDS) for cell in cells for side in kinds)
    return _INTRODUCTION.format(
        n_rows=f"{len(figures.rows):,}",
        left="" if is_whole else _LEFT,
        n_splits=len(cases.SEEDS),
        stream=loosening.STREAM,
        seeds=", ".join(map(str, cases.SEEDS)),
        train=f"{loosening.MOST_TRAINING:,}",
        test=f"{loosening.MOST_TESTING:,}",
        shift=f"{loosening.SHIFT:,.0f}",
        bound=f"{loosening.SHIFT_BOUND:,.0f}",
        now=_commits(figures, AUTO),
        before=_commits(figures, BEFORE),
        base=cases.COMMIT_BEFORE,
    )


_LEFT = """
**Not all cells are measured yet.** A - says where, and means are over what is there.
"""
_INTRODUCTION = """# Bounds that nobody knows

What does it cost if the bounds of numbers are too wide, or if there are none? Made by `python -m benchmarks bounds` from
{n_rows} measured rows; nothing here is written by hand.
{left}
- **as given**: the bounds of the schema. **x10**, **x1000**, **x10⁶**: the upper bound is so many times as large, and the
  lower one too if it is below 0. **±10⁹**: these bounds for every number. **none**: `Numeric()`, with its `integer`.
- **shifted**: {shift} is added to every number, and bounds are ±{bound}. What lies beyond is clipped, as ever: of *adult*
  a few values of `fnlwgt`.
- For regression bounds of features are loosened, and in a second set of rows those of the target only (`Bounded()`).

All fits are of `recipe="auto"` with fresh noise; the number of rows is not public. There are {n_splits} splits of 75/25,
drawn by `numpy.random.default_rng([{stream}, seed])` with the seeds {seeds}, on which nothing was tuned: tuning used
scikit-learn's `train_test_split` with `random_state` 100 to 216. Of large tables the first {train} rows of a split are for
training and {test} for testing. A change is taken on the same split; what follows ± is the standard error, from the spread
over splits. **rows·ε** is the number of rows for training times ε; a *cell* is a table at a budget.

Rows of `auto` were made with the library as of commit {now}. **before** is the last state that needed bounds, {base} (whose
library was last changed by {before}). To make rows again, or those that are not there:

    git worktree add ../before {base}
    DPFOREST_DATA=tables python -m benchmarks bounds --results docs/bench/bounds.jsonl --before ../before --report docs/bench

A run goes on where the last one ended; `--tables` and `--systems` choose, `--render` makes the page only.
"""
_ANSWER = "Classification: change of accuracy against bounds as given, in points, in the mean over tables.\n"
_GOALS = """Set before they were measured. Losses are against bounds as given, where rows·ε is enough; *little signal* is
where it is not. A cell is *below* a constant answer if it is so by more than {near:g} point, or hundredth of R².
"""
_SINCE = (
    "Classification: change of accuracy since the state before with the same bounds, in points, in the mean over tables.\n"
)
_SHIFTED = """Classification, shifted against as given, by the number of passes that the fit makes to find the numbers: none
where the signal is too small, else its zooms and one more.
"""


def _not_reached(figures: Figures) -> list[str]:
    lines = [f"- {line}\n" for line in hurdles(figures)]
    lost = much_lost(figures)
    text = ["## What it does not reach\n", "".join(lines)] if lines or lost else []
    if lost:
        limits = f"{100 * MUCH[True]:g} points, or {MUCH[False]:g} of R²"
        words = f"Losses of more than {limits}, beyond two standard errors, where rows·ε ≥ {LEAST_SIGNAL:,}: "
        text.append(folded(f"{words}{len(lost)} cells, the largest first", table_text(lost)))
    return text


def _regression(figures: Figures) -> list[str]:
    parts = [
        ("Bounds of features are loosened: change of R² against bounds as given.\n", answer(figures, False)),
        ("Bounds of the target are loosened, those of features are as given.\n", answer(figures, False, TARGET)),
        ("Against the state before, features.\n", since_before(figures, False)),
        ("Against the state before, target.\n", since_before(figures, False, TARGET)),
    ]
    text = [part for words, entries in parts if entries for part in (words, table_text(entries))]
    return ["## Regression\n", *text] if text else []


def _peers_words() -> str:
    return f"""Mean accuracy, for regression R², with bounds of features loosened for all alike; the best of each mode is
**bold**. Of each peer the better of {cases.N_PEER_SETTINGS} settings counts, in hindsight and without paying for the choice.
Only on these tables and budgets, to keep the run short. {FOREST} is private with δ = 0, {EBM} with δ = 10⁻⁵. They
have to be given bounds, so `auto` stands alone without any. Versions: {", ".join(PINS)}.
"""


def _cost(figures: Figures) -> list[str]:
    timed, shares = times(figures), grid_shares(figures)
    if not timed and not shares:
        return []
    text = ["## Cost\n"]
    if timed:
        text += ["Fits of both states in turns, in one run, one process each.\n", table_text(timed)]
    if shares:
        words = "All fits of the rows above: how many look for the grid, and what they spend on it.\n"
        text += [words, table_text(shares)]
    return text


def _tables(figures: Figures) -> list[str]:
    text = ["## Every table\n", "Mean accuracy, for regression R²; the best of each line is **bold**, before included.\n"]
    for table in cases.TABLES:
        for loosened in (FEATURES,) if table.has_classes else (FEATURES, TARGET):
            if entries := by_table(figures, table, loosened):
                which = (
                    ""
                    if table.has_classes
                    else f", bounds of the {loosened}"
                    if loosened == TARGET
                    else ", bounds of features"
                )
                text.append(folded(f"{table.name}{which}", table_text(entries)))
    return text if len(text) > 2 else []
