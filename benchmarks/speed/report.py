"""Makes the page on speed from rows: what people run, goals, all systems, growth, small things, settings, the machine."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.core.figures import GIB, MIB, figure_text, time_text
from benchmarks.core.goals import hurdles, judged
from benchmarks.core.machine import facts_shown, loads
from benchmarks.core.page import Entries, folded, page_text, section, sections_shown, table_text, write_page
from benchmarks.core.results import Row, finished, missing, read_rows
from benchmarks.speed.cases import (
    BY_DEFAULT,
    DEPTH,
    DISJOINT,
    FULL_DATA,
    LIGHTGBM_DEFAULTS,
    N_PREDICTING,
    N_TREES,
    OURS,
    PEERS,
    QUESTION,
    SMALL,
)
from benchmarks.speed.goals import GOALS, Figures
from benchmarks.speed.plots import AXES, plot_growth, plot_memory
from benchmarks.speed.settings import settings_of

# Load beyond the threads of the run itself that a machine of its own does not have.
LOAD_BEYOND = 0.3


def side_by_side(results: Path) -> Entries:
    """Goals and systems as text, for printing; ``section`` says which table a line belongs to."""
    figures = Figures.of(finished(read_rows(results, QUESTION)).values())
    goals = judged(GOALS, figures, "absolute")
    return sections_shown({"Goals": goals, _base_title(figures): systems(figures), "Small things": small_things(figures)})


def write(results: Path, folder: Path, plots: bool = True) -> Path:
    """Write ``speed.md`` and its plots into a folder, from the rows of a results file."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = read_rows(results, QUESTION)
    figures = Figures.of(finished(rows).values())
    drawn = [draw(figures, folder) for draw in (plot_growth, plot_memory)] if plots else []
    return write_page(folder, "speed.md", page(rows, [plot.name for plot in drawn if plot is not None]))


def page(rows: list[Row], plots: Iterable[str] = ()) -> str:
    """The page, from rows and the names of plots beside it."""
    figures = Figures.of(finished(rows).values())
    own = [row for row in rows if row["parameters"]["scale"] == figures.scale.name]
    measured = list(finished(own).values())
    return page_text(
        [
            _INTRODUCTION.format(n_rows=len(figures.rows), base=_base_title(figures)),
            _QUICK if figures.scale.name == "quick" else "",
            _DISTURBED.format(n_rows=sum(map(disturbed, measured))) if any(map(disturbed, measured)) else "",
            *section("What people run", by_default(figures), _BY_DEFAULT),
            *section("Goals", judged(GOALS, figures, "absolute"), _GOALS),
            *_missed(figures),
            *section("All systems", systems(figures), f"{_base_title(figures)}.\n{_SYSTEMS}"),
            *_growth(figures, measured, list(plots)),
            *section("Small things", small_things(figures), _SMALL),
            *section("Where the time of a fit goes", _parts(figures), _PARTS),
            *section("Settings", settings_of(figures), _SETTINGS),
            *section("The machine", _machines(measured), _MACHINE),
            *section("Not measured", [{"case": _named(row), "why": row["absent"]} for row in missing(own)]),
            _AGAIN,
        ]
    )


_INTRODUCTION = """# Speed and memory

Made by `python -m benchmarks speed` from {n_rows} measured rows; nothing here is written by hand.

The base case: {base}, normal features as an array of 32-bit floats, two classes with a linear
logit. A fit of ours is timed through the estimator, with reading and encoding of the table. **consul-2020** grows disjoint
trees: each record is in one of them. **auto** grows its trees on all records. Both have ε = 1, fresh noise, and a schema
that says the number of rows. All systems have the same rows and the same number of threads. Everything is warmed on
a small table before it counts. Times are the best of several runs.
"""
_QUICK = """**This is a quick run on a small table.** Goals are set for the full run; at this size they say little.
"""
_DISTURBED = """**Others used the machine** while {n_rows} of these rows were measured. Threads that wait for
each other suffer most from that; measure again on a machine that is idle.
"""
_BY_DEFAULT = """Nothing is set but the budget, ε = 1, δ = 0 or 10⁻⁶, and the number of threads: **auto** plans its trees
itself, LightGBM boosts 100 rounds. The schema says the bounds of each feature and the number of rows. The table has
interacting features, uniform, as 32-bit floats; the law is in `benchmarks/interactions.py`. Binning is within the time, for
all. Accuracy is that of the last fit on rows that were drawn for testing. Bold marks the best on the same rows, where
LightGBM was trained on them too.
"""
_GOALS = """Goals were set before they were measured; that of 100 disjoint trees was 1.5x until it had been missed.
Absolute: what is compared, ours first.
"""
_SYSTEMS = """Peak memory is what a process held at most during a fit, beyond the table that it was given; for LightGBM it
includes its data set, which is built before the clock starts.
"""
_SMALL = f"""Small fits: {SMALL["n_rows"]} rows x {SMALL["n_features"]} features, `auto`, one tree of depth {SMALL["depth"]}.
The first fit is the time of a whole process, from the start of Python to its end, with kernels that were compiled before.
Prediction: shares of classes from {N_PREDICTING} trees of depth {DEPTH}.
"""
_PARTS = """The base case; the rest is Python between the parts. Counting is one pass for each level over the codes of
records, which it also moves down the trees. Disjoint trees count only the features that a node has drawn, so their records
are first put in the order of nodes; trees on all records count the smaller children and find each largest one by
subtraction. Scoring, selection and offers go with the number of nodes, not of records: they are what many trees add.
"""
_SETTINGS = "What is not listed is as the library has it by default.\n"
_MACHINE = """Load is the number of processes that wanted to run in the minute before a run began; a run that goes on where
another ended finds the load of that one.
"""
_AGAIN = """## Again

```
pip install --editable '.[bench]'  # in a clone
python -m benchmarks speed --results speed.jsonl --report docs/bench           # measure all, then write this page
python -m benchmarks speed --results speed.jsonl --report docs/bench --render  # write it again from the same rows
python -m benchmarks speed --quick                                             # a small table, in a minute or two
```
"""


def disturbed(row: Row) -> bool:
    """Whether others seem to have used the machine when a row was measured."""
    return (row.get("load_before_case") or 0.0) > row["threads"] + LOAD_BEYOND


def _missed(figures: Figures) -> list[str]:
    said = hurdles(GOALS, figures) if figures.scale.name == "full" else []
    return (
        ["What stands in the way of those that were missed:\n", "\n".join(f"* {line}" for line in said) + "\n"]
        if said
        else []
    )


def _base_title(figures: Figures) -> str:
    return f"{figures.scale.n_rows:,} x {figures.scale.shape()['n_features']}, {N_TREES} trees of depth {DEPTH}"


def systems(figures: Figures) -> Entries:
    """All systems in the base case: times, ratios to ours, memory."""
    ours = {system: figures.row(system) for system in OURS}
    entries = []
    for system in (*OURS, *PEERS):
        row = figures.row(system)
        if row is None:
            continue
        entry = {"system": system, "best": time_text(row["seconds"]), "median": time_text(row["median"])}
        for other, base in ours.items():
            entry[f"over {other}'s"] = "-" if base is None else figure_text(row["seconds"] / base["seconds"], "x")
        peak = f"{row['peak_bytes'] / MIB:.1f} MiB" if "peak_bytes" in row else "-"
        entries.append(entry | {"peak beyond the table": peak, "runs": str(row["n_runs"])})
    return entries


def by_default(figures: Figures) -> Entries:
    """What people run: time, beside that of LightGBM, and accuracy."""
    entries = []
    for n_rows in figures.scale.default_step:
        every = ((system, figures.by_default(system, n_rows=n_rows)) for system in BY_DEFAULT)
        rows = {system: row for system, row in every if row is not None}
        peer = rows.get(LIGHTGBM_DEFAULTS)
        least = min((row["seconds"] for row in rows.values()), default=0.0)
        most = max((row["accuracy"] for row in rows.values()), default=0.0)
        for system, row in rows.items():
            entries.append(
                {
                    "system": system,
                    "rows": f"{n_rows:,}",
                    "time": _marked(time_text(row["seconds"]), peer is not None and row["seconds"] == least),
                    "times as fast as LightGBM": "-" if peer is None else figure_text(peer["seconds"] / row["seconds"], "x"),
                    "accuracy": _marked(f"{row['accuracy']:.4f}", peer is not None and row["accuracy"] == most),
                }
            )
    return entries


def _marked(text: str, is_best: bool) -> str:
    return f"**{text}**" if is_best else text


def small_things(figures: Figures) -> Entries:
    """Imports, first and small fits, and prediction."""
    entries: Entries = []
    if row := figures.row(FULL_DATA, "import", **SMALL):
        entries += [_thing(title, time_text(seconds)) for title, seconds in row["imports"].items()]
    for action, title in (("first fit", "first fit in a fresh process"), ("small fit", "warm small fit")):
        if row := figures.row(FULL_DATA, action, **SMALL):
            entries.append(_thing(title, f"{time_text(row['seconds'])} (median {time_text(row['median'])})"))
    for system in (*OURS, *PEERS):
        if row := figures.row(system, "predict", n_trees=N_PREDICTING):
            n_rows = row["parameters"]["n_rows"]
            speed = f"{n_rows / row['seconds'] / 1e6:.2f} million rows a second ({time_text(row['seconds'])})"
            entries.append(_thing(f"prediction of {n_rows:,} rows, {system}", speed))
    return entries


def _thing(title: str, value: str) -> dict[str, str]:
    return {"what": title, "time": value}


def _growth(figures: Figures, measured: list[Row], plots: list[str]) -> list[str]:
    tables = [table for axis in AXES if (table := _axis_table(figures, axis))]
    if not tables:
        return []
    text = ["## Growth\n", *(f"![{name.removesuffix('.png').replace('-', ' ')}]({name})\n" for name in plots)]
    text.append(folded("All times", "\n".join(table_text(table) for table in tables)))
    skipped = [{"case": _named(row), "why": row["skipped"]} for row in measured if "skipped" in row]
    return [*text, "Cells that would take long were left out:\n", table_text(skipped)] if skipped else text


def _axis_table(figures: Figures, axis: str) -> Entries:
    entries = []
    for system in figures.scale.growing:
        found = {f"{AXES[axis]} {value:,}": figures.along(system, axis, value) for value in figures.scale.axes[axis]}
        if any(found.values()):
            times = {title: "-" if row is None else time_text(row["seconds"]) for title, row in found.items()}
            entries.append({"system": system, **times})
    return entries


def _parts(figures: Figures) -> Entries:
    found: dict[str, dict[str, str]] = {}
    for system in (DISJOINT, FULL_DATA):
        if row := figures.row(system, "profile"):
            parts = row["parts"] | {"rest": max(row["seconds"] - sum(row["parts"].values()), 0.0), "fit": row["seconds"]}
            found[system] = {part: f"{time_text(s)} ({s / row['seconds']:.0%})" for part, s in parts.items()}
    names = next(iter(found.values()), {})
    return [{"part": part} | {system: times[part] for system, times in found.items()} for part in names]


def _machines(measured: list[Row]) -> Entries:
    """A line for each fact; more than one column of values says that rows come from different machines or versions."""
    found: dict[str, list[Row]] = {}
    for row in measured:
        found.setdefault(json.dumps([row["machine"], row["threads"]], sort_keys=True), []).append(row)
    columns = [_machine(rows) for rows in found.values()]
    heads = ["value"] if len(columns) == 1 else [f"machine {index + 1}" for index in range(len(columns))]
    names = columns[0] if columns else {}
    return [{"fact": name} | {head: column[name] for head, column in zip(heads, columns, strict=True)} for name in names]


def _machine(rows: list[Row]) -> dict[str, str]:
    facts: dict[str, Any] = rows[0]["machine"]
    found = loads(rows, "load_before_run")
    # Said first, in the order of the page.
    first = {"processor": "", "cores": "", "threads given to every system": str(rows[0]["threads"])}
    return (
        first
        | facts_shown(facts, f"{facts['memory_bytes'] / GIB:.0f} GiB")
        | {
            "load before the run": f"{max(found):.2f}" if found else "-",
            "seed of tables and peers": ", ".join(sorted({str(row["seed"]) for row in rows})),
            "rows": str(len(rows)),
        }
    )


def _named(row: Row) -> str:
    shape = row["parameters"]
    trees = f", {shape['n_trees']} trees of depth {shape['depth']}" if shape["n_trees"] else ""
    return f"{row['system']}, {row['variant']}, {row['dataset']}{trees}"
