"""Makes the page on engines from rows: goals that were set before they were measured, times, peaks of memory."""

from functools import partial
from pathlib import Path

from benchmarks.core import goals
from benchmarks.core.figures import figure_text, size_text, time_text
from benchmarks.core.goals import Goal, Reached
from benchmarks.core.machine import facts_shown, loads
from benchmarks.core.page import Entries, could_not_run, page_text, section, sections_shown, write_page
from benchmarks.core.results import Row, finished, missing, read_rows
from benchmarks.engines.cases import MEMORY, N_FEATURES, PEAKS, QUESTION, TIME, TIMES

GB = 1e9


def _reached(engine: str, what: str, n_rows: int, rows: list[Row]) -> Reached | None:
    """What an engine reached with so many rows, if that was measured."""
    found = [row for row in rows if (row["system"], row["variant"], row["parameters"]["n_rows"]) == (engine, what, n_rows)]
    if not found:
        return None
    row = found[-1]
    if what == MEMORY:
        return Reached(row["peak_bytes"] / GB, f"{row['dataset']}, in {time_text(row['seconds'])}")
    parts = f"{time_text(row['reading'])} of reading and {time_text(row['in_memory'])} in memory"
    return Reached(ratio(row), f"{row['dataset']}: {time_text(row['seconds'])} over {parts}")


def ratio(row: Row) -> float:
    """The time of a fit over that of one reading by the plain driver and a fit of the same rows in memory."""
    return float(row["seconds"] / (row["reading"] + row["in_memory"]))


GOALS: list[Goal[list[Row]]] = [
    *(Goal(f"{engine}, time", most, "x", partial(_reached, engine, TIME, n)) for engine, (n, most) in TIMES.items()),
    *(Goal(f"{engine}, memory", most, "GB", partial(_reached, engine, MEMORY, n)) for engine, (n, most) in PEAKS.items()),
]


def judged(rows: list[Row]) -> Entries:
    """Goals, what was reached, and whether that is enough."""
    return goals.judged(GOALS, rows, "from", signs=("at most", "at least"))


def times(rows: list[Row]) -> Entries:
    """Medians of all that was timed."""
    return [
        {
            "engine": row["system"],
            "rows": f"{row['parameters']['n_rows']:,}",
            "reading by the driver": time_text(row["reading"]),
            "fit in memory": time_text(row["in_memory"]),
            "fit": time_text(row["seconds"]),
            "fit over both": figure_text(ratio(row), "x"),
        }
        for row in rows
        if row["variant"] == TIME
    ]


def _measured(results: Path) -> list[Row]:
    return [*finished(read_rows(results, QUESTION)).values()]


def side_by_side(results: Path) -> Entries:
    """Goals and times as text, for printing; ``section`` says which table a line belongs to."""
    rows = _measured(results)
    return sections_shown({"Goals": judged(rows), "Times": times(rows)})


def write(results: Path, folder: Path) -> Path:
    """Write ``engines.md`` into a folder, from the rows of a results file."""
    return write_page(folder, "engines.md", page(read_rows(results, QUESTION)))


def page(every: list[Row]) -> str:
    """The page, from rows."""
    rows = [*finished(every).values()]
    return page_text(
        [
            _INTRODUCTION.format(n_rows=len(rows)),
            *section("Goals", judged(rows), _GOALS),
            *section("Times", times(rows), _TIMES),
            *section("The machine", _machine(rows)),
            *could_not_run(missing(every), "system", "variant"),
            _AGAIN,
        ]
    )


def _machine(rows: list[Row]) -> Entries:
    if not rows:
        return []
    facts, found = rows[-1]["machine"], loads(rows, "load_before_run")
    shown = facts_shown(facts, size_text(facts["memory_bytes"])) | {
        "load before a run": f"{min(found):.2f} to {max(found):.2f}" if found else "-",
        "rounds of a case, of which the median counts": str(max(row["repeats"] for row in rows)),
    }
    return [{"fact": name, "value": value} for name, value in shown.items()]


_INTRODUCTION = f"""# Engines

Made by `python -m benchmarks engines` from {{n_rows}} measured rows; nothing here is written by hand.

The default recipe (`auto`) as it plans by itself, ε = 1, fresh noise, on a table of {N_FEATURES} normal features of 32 bits
and two classes, whose number of rows is declared. Rows are scanned where they are, and the forest is trained here. Each case
has a process of its own.
"""
_GOALS = """Goals were set before they were measured. Time is that of a whole fit, with connecting and reading, over that of
one reading of the same columns into Arrow by the plain driver *and* a fit of the same rows from pyarrow in memory. Memory is
the peak of the trainer's process since it began, with Python and its libraries.
"""
_TIMES = """Below 1 a fit works while it reads, or keeps fewer rows than the driver, which keeps all. Dask has two
workers of one thread each; Spark is local with two threads, and was started before.
"""
_AGAIN = """## Again

```
pip install --editable '.[bench,dask,spark,sql]'  # in a clone
python -m benchmarks engines --results engines.jsonl --report docs/bench  # measure all, then write this page
python -m benchmarks engines --quick                                      # small tables, in about a minute
```

PostgreSQL is started from the programs of the operating system with a data folder that is thrown away; set
`DPFOREST_BENCH_POSTGRES` to the address of a server to use that one. Spark needs Java. The full run takes
25 GB in the folder for temporary files.
"""
