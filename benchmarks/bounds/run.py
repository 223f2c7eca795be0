"""Runs the cases of the benchmark on bounds: this library, an earlier state of it, and other people's systems.

All have the same rows, splits and budgets, and fresh noise. Each fit of the library is made by a process that imports it
from the sources that are wanted, so that both states are measured alike.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bounds.cases import AUTO, BEFORE, SMALL_FIT, group_of
from benchmarks.bounds.loosening import AS_GIVEN, FEATURES, NONE, load, split_rows
from benchmarks.bounds.worker import guess, score
from benchmarks.core.machine import load_average
from benchmarks.core.process import ROOT, Worker
from benchmarks.core.results import Case, NotMeasured, Row, attempted, run_all
from benchmarks.peers import environment
from benchmarks.speed.cases import SMALL
from dpforest.errors import ParameterError
from dpforest.schema import Classes

SMALL_REQUEST = {"action": SMALL_FIT, "system": AUTO, "threads": 1, "shape": SMALL}


def run(
    progress: Callable[[str], None],
    results: Path,
    cases: Iterable[Case],
    *,
    before: Path | None = None,
    python: Path | None = None,
) -> Iterator[Row]:
    """Run what ``results`` does not have yet and yield the new rows.

    ``before`` is a folder with an earlier state of this repository, ``python`` that of the peers' environment; what needs
    one that is not there is left for another run.
    """
    sources = _sources(before)
    todo = [case for case in cases if _can_run(case, before, python)]
    yield from run_all(todo, partial(measure, sources=sources, python=python), Path(results), progress)


def _sources(before: Path | None) -> dict[str, Path]:
    """The sources that each state of the library is imported from."""
    if before is None:
        return {AUTO: ROOT / "src"}
    if not (before / "src" / "dpforest").is_dir():
        raise ParameterError(f"{before} has no folder src/dpforest. Name a clone or worktree of an earlier commit.")
    return {AUTO: ROOT / "src", BEFORE: before / "src"}


def _can_run(case: Case, before: Path | None, python: Path | None) -> bool:
    if group_of(case.system) == "peers":
        return python is not None
    return case.system == AUTO or before is not None


@lru_cache(maxsize=2)
def library(sources: Path) -> Worker:
    """The process that fits with the library of these sources."""
    return Worker("benchmarks.bounds.worker", 1, sources=sources)


def measure(case: Case, sources: dict[str, Path], python: Path | None) -> Row:
    """The row of one case."""

    def trial() -> Row:
        if case.system in (AUTO, BEFORE):
            return library(sources[case.system]).ask(request_of(case, case.variant))
        if group_of(case.system) == "peers":
            return _peer(case, python)
        return _small_fits(sources) if case.variant == SMALL_FIT else _times(case, sources)

    return case.to_dict() | attempted(trial)


def request_of(case: Case, kind: str) -> Row:
    """What a worker is asked for a case, with bounds of a kind."""
    known = dict(case.parameters)
    asked = {"epsilon": known["epsilon"], "delta": known["delta"], "loosened": known.get("loosened", FEATURES)}
    return {"table": case.dataset, "kind": kind, "seed": case.seed, **asked}


def _times(case: Case, sources: dict[str, Path]) -> Row:
    """Seconds of fits in turns: as before, now, and now without bounds. A first turn of each is not counted."""
    turns = {BEFORE: (BEFORE, AS_GIVEN), AUTO: (AUTO, AS_GIVEN), f"{AUTO}, {NONE}": (AUTO, NONE)}
    load_before, passes = load_average(), {}
    runs: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(dict(case.parameters)["n_runs"] + 1):
        for name, (system, kind) in turns.items():
            answer = library(sources[system]).ask(request_of(case, kind))
            passes[name] = answer["passes"]
            runs[name] += [answer["seconds"]] if number else []
    return {"runs": runs, "passes": passes, "load": load_before}


def _small_fits(sources: dict[str, Path]) -> Row:
    """Seconds of small fits as before and now, in turns of many fits."""
    load_before = load_average()
    runs: dict[str, list[float]] = {name: [] for name in sources}
    workers = {name: Worker("benchmarks.speed.worker", 1, sources=folder) for name, folder in sources.items()}
    try:
        for _ in range(2):
            for name, worker in workers.items():
                runs[name] += [round(seconds, 6) for seconds in worker.ask(SMALL_REQUEST)["runs"]]
    finally:
        for worker in workers.values():
            worker.end()
    return {"runs": runs, "load": load_before}


def _peer(case: Case, python: Path | None) -> Row:
    if python is None:
        raise NotMeasured("There is no environment for the peers.")
    settings = dict(case.parameters)
    X, y, schema = load(case.dataset, case.variant, settings.pop("loosened"))
    trainer = environment.trainer(python)

    def arrays() -> tuple[dict[str, Any], np.ndarray]:
        return environment.arrays_of(case.dataset, X, y, schema)

    path, train, test = trainer.data((case.dataset, case.variant, case.seed), arrays, *split_rows(y, case.seed))
    budget = {"epsilon": settings.pop("epsilon"), "delta": settings.pop("delta")}
    request = {"data": str(path), "system": case.system, "settings": settings, "max_rows": None, **budget}
    predictions, answer = trainer.train(request)
    has_classes = isinstance(schema.target, Classes)
    return {
        "score": score(predictions.argmax(axis=1) if has_classes else predictions, y[test], has_classes),
        "guess": score(guess(y[train], has_classes), y[test], has_classes),
        "seconds": answer["seconds"],
        "n_train": answer["n_train"],
        "n_test": len(test),
    }
