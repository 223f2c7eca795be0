"""What an engine costs: one tree on all records, and what people run, in memory, from a file, in databases, on a cluster.

The same table, recipe, depth and threads for all. Every case has a process of its own; its row has the seconds of encoding
and of growing, the peak of memory of the trainer, and the bytes that reached it in each level. The page is made from rows.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.core.machine import load_average, machine, threads
from benchmarks.core.process import Worker
from benchmarks.core.results import Case, Row, attempted, run_all
from benchmarks.engines import cases
from benchmarks.engines.cases import Scale
from benchmarks.engines.tables import Tables, tables
from benchmarks.speed.run import LIBRARIES as SPEED_LIBRARIES

LIBRARIES = (*SPEED_LIBRARIES, "duckdb", "ibis-framework", "psycopg", "dask", "distributed")


@dataclass
class Run:
    """One run of the benchmark: where its tables are, and how often it measures."""

    tables: Tables
    repeats: int
    load: float | None

    def measure(self, case: Case) -> Row:
        """One row: what was measured, or why not."""
        row = case.to_dict() | {"repeats": self.repeats, "load_before_case": load_average()}
        row |= attempted(lambda: self._measured(case))
        return row | {"load_before_run": self.load, "machine": machine(*LIBRARIES)}

    def _measured(self, case: Case) -> Row:
        shape = dict(case.parameters)
        address = self.tables.address(case.system, shape["n_rows"])
        with Worker("benchmarks.engines.worker", shape["threads"]) as worker:
            answer = worker.ask({"engine": case.system, "address": address, "repeats": self.repeats} | shape)
        runs = answer.pop("runs")
        best = min(runs, key=lambda run: run["seconds"])
        times = [run["seconds"] for run in runs]
        return best | {"median": median(times), "n_runs": len(runs), "runs": times} | answer


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

    ``rows`` are other numbers of rows than those of the scale, from small to large.
    """
    scale = replace(scale, rows=tuple(rows) or scale.rows)
    wanted = cases.wanted(scale, threads(), tuple(engines))
    progress(f"{len(wanted)} cases")
    with tempfile.TemporaryDirectory(prefix="dpforest-engines-") as folder, tables(Path(folder)) as made:
        one = Run(made, repeats or scale.repeats, load_average())
        yield from run_all(wanted, one.measure, Path(results), progress)
