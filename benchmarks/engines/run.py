"""What an engine costs: the default recipe with its own plan, reading included, beside the same rows in memory.

Every case has a process of its own. The page is made from rows.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.core.machine import load_average, machine, threads
from benchmarks.core.process import Worker
from benchmarks.core.results import Case, Row, attempted, run_all
from benchmarks.engines import cases
from benchmarks.engines.cases import Scale
from benchmarks.engines.tables import Tables
from benchmarks.speed.run import LIBRARIES as SPEED_LIBRARIES

DRIVERS = ("duckdb", "adbc-driver-postgresql", "adbc-driver-sqlite", "dask", "distributed", "pyspark")
LIBRARIES = (*SPEED_LIBRARIES, *DRIVERS)


def measure(case: Case, tables: Tables, repeats: int, load: float | None = None) -> Row:
    """One row: what was measured, or why not; ``load`` is that of the machine before the run."""
    row = case.to_dict() | {"repeats": repeats, "load_before_run": load, "load_before_case": load_average()}
    row |= attempted(lambda: _measured(case, tables, repeats))
    return row | {"machine": machine(*LIBRARIES)}


def _measured(case: Case, tables: Tables, repeats: int) -> Row:
    shape = dict(case.parameters)
    request = {"engine": case.system, "what": case.variant, "repeats": repeats} | shape
    request |= {"address": tables.address(case.system, shape["n_rows"]), "folder": str(tables.parquet(shape["n_rows"]))}
    with Worker("benchmarks.engines.worker", shape["threads"]) as worker:
        answer = worker.ask(request)
    runs = answer.get("runs", [])
    medians = {part: median(run[part] for run in runs) for part in runs[0]} if runs else {}
    return answer | medians


def run(
    progress: Callable[[str], None],
    results: Path,
    scale: Scale,
    *,
    engines: Iterable[str] = (),
    rows: Iterable[int] = (),
    repeats: int | None = None,
) -> Iterator[Row]:
    """Measure what ``results`` does not have yet, one case after the other, and yield the new rows.

    ``rows`` are other numbers of rows than those of the scale.
    """
    scale = replace(scale, rows=tuple(rows) or scale.rows)
    wanted = cases.wanted(scale, threads(), tuple(engines))
    progress(f"{len(wanted)} cases")
    with tempfile.TemporaryDirectory(prefix="dpforest-engines-") as folder, ExitStack() as stack:
        tables, n_rounds, load = Tables(Path(folder), stack), repeats or scale.repeats, load_average()
        yield from run_all(wanted, lambda case: measure(case, tables, n_rounds, load), Path(results), progress)
