"""What an engine costs: one tree on all records, trained in memory, from a file, in databases and on a cluster.

The same table, recipe, depth and threads for all. Every case has a process of its own; its row has the seconds of encoding
and of growing, the peak of memory of the trainer, and the bytes that reached it in each level. The page is made from rows.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from dpforest.bench import engines_cases, speed
from dpforest.bench.engines_cases import Scale
from dpforest.bench.engines_tables import Tables, tables
from dpforest.bench.harness import Case, Row, run_all
from dpforest.bench.speed_process import NotMeasured

LIBRARIES = ("duckdb", "ibis-framework", "psycopg", "dask", "distributed")


@lru_cache(maxsize=1)
def machine() -> dict[str, Any]:
    """Facts about where the rows come from."""
    versions = dict(speed.machine()["versions"])
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = "not installed"
    return speed.machine() | {"versions": versions}


@dataclass
class Run:
    """One run of the benchmark: where its tables are, and how often it measures."""

    tables: Tables
    repeats: int
    load: float | None

    def measure(self, case: Case) -> Row:
        """One row: what was measured, or why not."""
        row = case.to_dict() | {"repeats": self.repeats, "load_before_case": speed.load_average()}
        try:
            row |= self._measured(case)
        except Exception as error:  # one case that fails must not stop the others
            row |= {"absent": str(error) or type(error).__name__}
        return row | {"load_before_run": self.load, "machine": machine()}

    def _measured(self, case: Case) -> Row:
        shape = dict(case.parameters)
        place = self.tables.place(case.system, shape["n_rows"])
        answer = ask({"engine": case.system, "place": place, "repeats": self.repeats} | shape)
        runs = answer.pop("runs")
        best = min(runs, key=lambda run: run["seconds"])
        times = [run["seconds"] for run in runs]
        return best | {"median": median(times), "n_runs": len(runs), "runs": times} | answer


def ask(request: Row) -> Row:
    """What a fresh process says to a request."""
    environment = os.environ | {"OMP_NUM_THREADS": str(request["threads"])}
    program = [sys.executable, "-m", "dpforest.bench.engines_worker"]
    done = subprocess.run(program, input=json.dumps(request), capture_output=True, text=True, env=environment)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["without a word"]
        raise NotMeasured(f"the worker ended with code {done.returncode}: {last[0][:300]}")
    answer: Row = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


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
    wanted = engines_cases.wanted(scale, speed.threads(), tuple(engines))
    progress(f"{len(wanted)} cases")
    with tempfile.TemporaryDirectory(prefix="dpforest-engines-") as folder, tables(Path(folder)) as made:
        one = Run(made, repeats or scale.repeats, speed.load_average())
        yield from run_all(wanted, one.measure, Path(results), progress)
