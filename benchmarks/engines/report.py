"""Makes the page on engines from rows: goals, all engines side by side, growth, bytes of each level, the cost model."""

from pathlib import Path

from benchmarks.core.figures import figure_text, size_text, time_text
from benchmarks.core.machine import facts_shown, loads
from benchmarks.core.page import Entries, page_text, section, sections_shown, write_page
from benchmarks.core.results import Row, finished, missing, read_rows
from benchmarks.engines.cases import BINS, DASK, DEPTH, ENGINES, MEMORY, N_FEATURES, QUESTION
from benchmarks.engines.costs import COUNT_BYTES, FAN_IN, GB, Cluster, Work, foreseen
from benchmarks.engines.goals import Figures, judged, shape_of
from benchmarks.engines.plots import plot_growth

# Columns for which a terminal has no room.
ON_THE_PAGE = ("encoding", "growing", "held before the fit")


def engines(figures: Figures) -> Entries:
    """Each engine on the largest table that it got."""
    entries = []
    for engine in ENGINES:
        for threads in range(1, figures.threads + 1):
            row = figures.largest(engine, threads)
            if row is None:
                continue
            ratio = figures.ratio(row)
            entries.append(
                {
                    "engine": engine,
                    "threads or workers": str(threads),
                    "rows": f"{shape_of(row)[0]:,}",
                    "encoding": time_text(row["encoding"]),
                    "growing": time_text(row["growing"]),
                    "fit": time_text(row["seconds"]),
                    "over memory": "-" if ratio is None else figure_text(ratio, "x"),
                    "peak of the trainer": size_text(row["peak_bytes"]),
                    "held before the fit": size_text(row["held_bytes"]),
                    "reach the trainer": size_text(sum(row["received"][1:])),
                }
            )
    return entries


def growth(figures: Figures) -> Entries:
    """Time of a fit, and per row, against the number of rows."""
    entries = []
    for engine in ENGINES:
        cells = {}
        for n_rows in figures.sizes:
            row = figures.row(engine, n_rows)
            cells[f"{n_rows:,} rows"] = (
                "-" if row is None else f"{time_text(row['seconds'])} ({1e9 * row['seconds'] / n_rows:.0f} ns a row)"
            )
        if any(cell != "-" for cell in cells.values()):
            entries.append({"engine": engine, **cells})
    return entries


def level_bytes(figures: Figures) -> Entries:
    """What reached the trainer in each level, beside the size of the public grid of counts."""
    work, entries = Work(1, n_features=N_FEATURES, n_codes=BINS + 1, depth=DEPTH), []
    levels = [size_text(work.level_bytes(level)) for level in range(DEPTH)]
    entries.append({"engine": "the public grid", "rows": "any", **_by_level([*levels, size_text(work.leaf_bytes)])})
    for row in sorted(figures.rows, key=lambda row: (ENGINES.index(row["system"]), *shape_of(row))):
        # The last level has its splits and the counts of leaves apart.
        if sum(row["received"]) and shape_of(row)[1] == figures.threads and len(row["received"]) == DEPTH + 2:
            cells = _by_level([size_text(n_bytes) for n_bytes in row["received"][1:]])
            entries.append({"engine": row["system"], "rows": f"{shape_of(row)[0]:,}", **cells})
    return entries if len(entries) > 1 else []


def _by_level(cells: list[str]) -> dict[str, str]:
    return {f"level {level}" if level < DEPTH else "leaves": cell for level, cell in enumerate(cells)}


def checked(figures: Figures) -> Entries:
    """The model beside what was measured: it is told the speed of one case, and foresees the others."""
    entries = []
    for engine in (MEMORY, DASK):
        base = figures.largest(engine)
        if base is None:
            continue
        n_rows, threads = shape_of(base)
        counts = _work(n_rows).counted_bytes / base["growing"] / threads
        for row in sorted((row for row in figures.rows if row["system"] == engine), key=shape_of):
            n_rows, threads = shape_of(row)
            seconds = _work(n_rows).seconds(Cluster(threads, counts=counts))["counting"]
            speed = _work(n_rows).counted_bytes / row["growing"] / threads / GB
            entries.append(
                {
                    "engine": engine,
                    "rows": f"{shape_of(row)[0]:,}",
                    "threads or workers": str(shape_of(row)[1]),
                    "growing, foreseen": "(told)" if row is base else time_text(seconds),
                    "growing, measured": time_text(row["growing"]),
                    "speed": f"{speed:.2f} GB/s each",
                    "reach the trainer, foreseen": size_text(_work(1).trainer_bytes) if engine == DASK else "0 B",
                    "measured": size_text(sum(row["received"][1:])),
                }
            )
    return entries


def _work(n_rows: int) -> Work:
    return Work(n_rows, n_features=N_FEATURES, n_codes=BINS + 1, depth=DEPTH)


def side_by_side(results: Path) -> Entries:
    """Goals and engines as text, for printing; ``section`` says which table a line belongs to."""
    figures = Figures(finished(read_rows(results, QUESTION)).values())
    short = [{name: text for name, text in line.items() if name not in ON_THE_PAGE} for line in engines(figures)]
    own = [{name: text for name, text in line.items() if name not in ON_THE_PAGE} for line in engines(figures.own_plan)]
    return sections_shown({"Goals": judged(figures), "Engines": short, "Own plan": own, "Growth": growth(figures)})


def write(results: Path, folder: Path, plots: bool = True) -> Path:
    """Write ``engines.md`` and its plot into a folder, from the rows of a results file."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = read_rows(results, QUESTION)
    curves = growth_curves(Figures(finished(rows).values()))
    drawn = plot_growth(curves, folder / "engines-growth.png") if plots else None
    return write_page(folder, "engines.md", page(rows, None if drawn is None else drawn.name))


def growth_curves(figures: Figures) -> dict[str, list[tuple[int, float]]]:
    """Seconds of a fit against rows, for each engine."""
    found = {engine: [(n_rows, figures.row(engine, n_rows)) for n_rows in figures.sizes] for engine in ENGINES}
    return {engine: [(n, row["seconds"]) for n, row in points if row is not None] for engine, points in found.items()}


def page(rows: list[Row], plot: str | None = None) -> str:
    """The page, from rows and the name of the plot beside it."""
    figures = Figures(finished(rows).values())
    absent = [
        {"case": f"{row['system']}, {row['dataset']}, {row['parameters']['plan']}", "why": row["absent"]}
        for row in missing(rows)
    ]
    return page_text(
        [
            _INTRODUCTION.format(n_rows=len(figures.rows) + len(figures.own_plan.rows)),
            _QUICK if figures.scale == "quick" else "",
            *section("Goals", judged(figures), _GOALS),
            *section("Engines", engines(figures), _ENGINES),
            *section("What people run", engines(figures.own_plan), _OWN_PLAN),
            *section("Growth", growth(figures), f"![time against rows]({plot})\n" if plot else ""),
            *section("Bytes of each level", level_bytes(figures), _LEVELS),
            *section("Cost model", foreseen(), _MODEL),
            *section("The model beside what was measured", checked(figures), _CHECKED),
            *section("The machine", _machine(figures)),
            *section("Not measured", absent),
            _AGAIN,
        ]
    )


def _machine(figures: Figures) -> Entries:
    if not figures.rows:
        return []
    facts = figures.rows[-1]["machine"]
    found = loads(figures.rows, "load_before_case")
    shown = facts_shown(facts, size_text(facts["memory_bytes"])) | {
        "load before a case": f"{min(found):.2f} to {max(found):.2f}" if found else "-",
        "runs of a case, of which the best counts": str(max(row["n_runs"] for row in figures.rows)),
    }
    return [{"fact": name, "value": value} for name, value in shown.items()]


_INTRODUCTION = f"""# Engines

Made by `dpforest bench engines` from {{n_rows}} measured rows; nothing here is written by hand.

One tree of depth {DEPTH} on all records, splits by the max operator, ε = 1, fresh noise: {N_FEATURES} normal features
of 32 bits in {BINS} bins, two classes. Every engine gets the same table, the same recipe and the same number of threads
(Dask: workers of one thread each), and gives the same counts to the last unit. Each case has a process of its own.
"""
_QUICK = """**This is a quick run on small tables.** Goals are set for the full run; at this size they say little.
"""
_GOALS = "Goals were set before they were measured. Times are those of whole fits, with encoding.\n"
_ENGINES = """Each engine on the largest table that it got. The trainer is the process that runs the fit; DuckDB lives in it.
A database of its own may use the memory that DuckDB takes by default; for a Parquet file (row groups of 122,880 records) it
is limited to 40 MB and 40 MB for each thread, and works on disk beyond that. In memory the table is part of the peak. What
is held before the fit is Python with its libraries (and that table). What reaches the trainer is counted at
its connections, from the end of encoding on; for DuckDB it is the size of its results.
"""
_OWN_PLAN = """The default recipe (`auto`) on the same tables, as it plans by itself: a learnt grid, many small trees that
take turns on batches of the records, and beyond two and a half million rows a secret sample. The number of rows is declared.
"""
_LEVELS = """The grid has a cell for each node, code and class. A cluster sends the grid. A database sends groups that have
records, each as a row of a result; the trainer fills in the others.
"""
_USUAL = Cluster(1)
_MODEL = f"""A fit reads the table once to encode it, and then passes over codes of one byte a value: once for each level,
and once for the leaves. Trees that grow together share the passes. A full-data tree counts every record, so ten of them
count ten times as much; disjoint trees count every record once in all; sequential trees pass once for each level of
each tree.

* **Bytes of a level** are nodes x codes of all features x classes x {COUNT_BYTES}, where level d of a tree has 2^d nodes.
* **Each worker** adds up its own partitions first, then sends one such array. Arrays are added {FAN_IN} at a time in a
  tree, so all arrays together are sent once (workers x bytes) and **one array reaches the trainer**, whatever the number
  of rows.
* **Time** is table bytes / (workers x speed of reading) + counted codes / (workers x speed of counting) + rounds of the
  sum x arrays taken in a round x bytes / speed of the network.

Here: {N_FEATURES} features of 4 bytes with {BINS + 1} codes each, 2 classes, depth {DEPTH}; each worker reads
{_USUAL.reads / GB:g} GB/s, counts {_USUAL.counts / GB:g} GB/s of codes and sends {_USUAL.sends / GB:g} GB/s.
A worker must hold its share of the codes, or read them again in each pass.
"""
_CHECKED = """The model gets the speed of counting from the largest table with most threads, and foresees the others. What it
leaves out shows in small tables: the time that a level takes however few rows it has. It counts every record in every
level; in memory the largest child of a split is found by subtraction, so that speed is one of work that is partly saved.
What a cluster sends beyond the counts is what scheduler and client say to each other.
"""
_AGAIN = """## Again

```
pip install --editable '.[bench,dask,sql]'  # in a clone
dpforest bench engines --results engines.jsonl --report docs/bench  # measure all, then write this page
dpforest bench engines --quick                                      # small tables, in about a minute
```

PostgreSQL is started from the programs of the operating system with a data folder that is thrown away; set
`DPFOREST_BENCH_POSTGRES` to the address of a server to use that one.
"""
