"""How fast is it: training and prediction beside other libraries, how time and memory grow, what a fresh process costs.

One machine, the same tables, trees, depth, bins and threads for all. Every case of a full run has a process of its own; its
row has the seconds of each run, the peak of memory and the facts of the machine. The page is made from rows.
"""

import importlib.util
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from dpforest.bench import speed_cases
from dpforest.bench.harness import Case, Row, finished, read_rows, run_all
from dpforest.bench.speed_cases import LIGHTGBM, LIGHTGBM_BY_TREE, Scale, foreseen
from dpforest.bench.speed_fresh import IMPORTS, first_fit_runs, import_runs
from dpforest.bench.speed_process import NotMeasured, Workers

# A cell of a growth curve that would take longer than this is left out.
MOST_SECONDS = 60.0
# Load from which on a machine is called busy.
BUSY = 0.5
LIBRARIES = ("dpforest", "numpy", "numba", "scikit-learn", "lightgbm", "pyarrow")
# Systems that are another package's, and how to get it.
OPTIONAL = {LIGHTGBM: "lightgbm", LIGHTGBM_BY_TREE: "lightgbm"}


def threads() -> int:
    """Cores that this process may use: all systems get so many threads."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def machine() -> dict[str, Any]:
    """Facts about where the rows come from."""
    versions = {}
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = "not installed"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def load_average() -> float | None:
    """Processes that wanted to run in the last minute: above 0 before a run, others disturb it."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


@dataclass
class Run:
    """One run of the benchmark: what it knows already, and how it measures."""

    scale: Scale
    repeats: int
    known: list[Row]
    workers: Workers
    never_skipped: set[Case]
    load: float | None = field(default_factory=load_average)

    def measure(self, case: Case) -> Row:
        """One row: what was measured, or why not."""
        expected = None if case in self.never_skipped else foreseen(case, self.known)
        if expected is not None and expected > MOST_SECONDS:
            row = case.to_dict() | {"skipped": f"about {expected:.0f} s a run, judged by the next smaller cell"}
        else:
            row = case.to_dict() | {"repeats": self.repeats, "load_before_case": load_average()}
            try:
                row |= self._measured(case)
            except Exception as error:  # one case that fails must not stop the others
                row |= {"absent": str(error)}
        row |= {"threads": threads(), "load_before_run": self.load, "machine": machine()}
        self.known.append(row)
        return row

    def _measured(self, case: Case) -> Row:
        package = OPTIONAL.get(case.system)
        if package is not None and importlib.util.find_spec(package) is None:
            raise NotMeasured(f"{package} is not installed; pip install 'dpforest[bench]' brings it.")
        shape = {name: value for name, value in case.parameters if name != "scale"}
        if case.variant == "import":
            imports = {title: import_runs(code, self.repeats) for title, code in IMPORTS.items()}
            return _summed(next(iter(imports.values()))) | {"imports": {title: min(runs) for title, runs in imports.items()}}
        if case.variant == "first fit":
            return _summed(first_fit_runs(self.repeats, recipe=case.system, seed=case.seed, **shape))
        request: Row = {"action": case.variant, "system": case.system, "shape": shape}
        request |= {"threads": threads(), "repeats": self.repeats}
        alone = not self.scale.one_process or case in speed_cases.memory_cases(self.scale)
        if case.variant != "file fit":
            answer = self.workers.ask(request, alone)
        else:
            with tempfile.TemporaryDirectory(prefix="dpforest-speed-") as folder:
                request["path"] = str(Path(folder) / "big.parquet")
                self.workers.ask(request | {"action": "write file"}, alone)
                answer = self.workers.ask(request, alone)
        if not alone:
            # What earlier cases left behind in the process hides what this one needs.
            answer.pop("peak_bytes", None)
        return _summed(answer.pop("runs"), **answer)


def _summed(runs: list[float], **more: Any) -> Row:
    """Best and median of runs; of parts of a fit the best of each."""
    best = {name: min(more.pop(name)) for name in ("encoding", "growing") if name in more}
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
    wanted = speed_cases.wanted(scale, tuple(parts), parquet_rows)
    never_skipped = {*speed_cases.goal_cases(scale), *speed_cases.parquet_cases(scale, parquet_rows)}
    known = list(finished(read_rows(Path(results))).values())
    progress(f"{len(wanted)} cases")
    with Workers(threads()) as workers:
        one = Run(scale, repeats or scale.repeats, known, workers, never_skipped)
        yield from run_all(wanted, one.measure, Path(results), progress)
