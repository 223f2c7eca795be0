"""How fast is it: training and prediction beside other libraries, how time and memory grow, what a fresh process costs.

One machine, the same tables, trees, depth, bins and threads for all. Every case of a full run has a process of its own; its
row has the seconds of each run, the peak of memory and the facts of the machine. The page is made from rows.
"""

import importlib.util
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.core.machine import load_average, machine, threads
from benchmarks.core.process import Worker
from benchmarks.core.results import Case, NotMeasured, Row, attempted, finished, read_rows, run_all
from benchmarks.speed import cases
from benchmarks.speed.cases import LIGHTGBM, LIGHTGBM_BY_TREE, LIGHTGBM_DEFAULTS, Scale, foreseen
from benchmarks.speed.fresh import IMPORTS, first_fit_runs, import_runs

# A cell of a growth curve that would take longer than this is left out.
MOST_SECONDS = 60.0
LIBRARIES = ("dpforest", "numpy", "numba", "scikit-learn", "lightgbm", "pyarrow")
# Systems that are another package's, and how to get it.
OPTIONAL = dict.fromkeys((LIGHTGBM, LIGHTGBM_BY_TREE, LIGHTGBM_DEFAULTS), "lightgbm")


@dataclass
class Run:
    """One run of the benchmark: what it knows already, and how it measures."""

    scale: Scale
    repeats: int
    known: list[Row]
    worker: Worker
    never_skipped: set[Case]
    load: float | None = field(default_factory=load_average)

    def measure(self, case: Case) -> Row:
        """One row: what was measured, or why not."""
        expected = None if case in self.never_skipped else foreseen(case, self.known)
        if expected is not None and expected > MOST_SECONDS:
            row = case.to_dict() | {"skipped": f"about {expected:.0f} s a run, judged by the next smaller cell"}
        else:
            row = case.to_dict() | {"repeats": self.repeats, "load_before_case": load_average()}
            row |= attempted(lambda: self._measured(case))
        row |= {"threads": threads(), "load_before_run": self.load, "machine": machine(*LIBRARIES)}
        self.known.append(row)
        return row

    def _measured(self, case: Case) -> Row:
        package = OPTIONAL.get(case.system)
        if package is not None and importlib.util.find_spec(package) is None:
            raise NotMeasured(f"{package} is not installed; pip install --editable '.[bench]' brings it.")
        shape = {name: value for name, value in case.parameters if name != "scale"}
        if case.variant == "import":
            imports = {title: import_runs(code, self.repeats) for title, code in IMPORTS.items()}
            return _summed(next(iter(imports.values()))) | {"imports": {title: min(runs) for title, runs in imports.items()}}
        if case.variant == "first fit":
            return _summed(first_fit_runs(self.repeats, recipe=case.system, seed=case.seed, **shape))
        request: Row = {"action": case.variant, "system": case.system, "shape": shape}
        request |= {"threads": threads(), "repeats": self.repeats}
        alone = not self.scale.one_process or case in cases.memory_cases(self.scale)
        if case.variant != "file fit":
            answer = self.worker.ask(request, alone)
        else:
            with tempfile.TemporaryDirectory(prefix="dpforest-speed-") as folder:
                request["path"] = str(Path(folder) / "big.parquet")
                self.worker.ask(request | {"action": "write file"}, alone)
                answer = self.worker.ask(request, alone)
        if not alone:
            # What earlier cases left behind in the process hides what this one needs.
            answer.pop("peak_bytes", None)
        return _summed(answer.pop("runs"), **answer)


def _summed(runs: list[float], **more: Any) -> Row:
    """Best and median of runs; of parts of a fit the best of each."""
    best = {name: min(more.pop(name)) for name in ("encoding", "growing", "one_thread") if name in more}
    kept = runs if len(runs) <= 20 else []
    figures = {"seconds": min(runs), "median": median(runs), "n_runs": len(runs), "runs": kept}
    return figures | best | more


def run(
    progress: Callable[[str], None],
    results: Path,
    scale: Scale,
    *,
    parts: Iterable[str] = (),
    repeats: int | None = None,
    parquet_rows: int | None = None,
) -> Iterator[Row]:
    """Measure what ``results`` does not have yet, one case after the other, and yield the new rows."""
    wanted = cases.wanted(scale, tuple(parts), parquet_rows)
    never_skipped = {*cases.goal_cases(scale), *cases.parquet_cases(scale, parquet_rows)}
    known = list(finished(read_rows(Path(results))).values())
    progress(f"{len(wanted)} cases")
    with Worker("benchmarks.speed.worker", threads()) as worker:
        one = Run(scale, repeats or scale.repeats, known, worker, never_skipped)
        yield from run_all(wanted, one.measure, Path(results), progress)
