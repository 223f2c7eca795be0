"""Measures one case of the speed benchmark in a process of its own, so that its memory and its threads are its own.

A request comes in as a line of JSON, an answer goes out as one: the seconds of each run, and the peak of memory. All is
warmed on a small table of the same width before anything counts.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.core.process import peak_bytes, start_watching
from benchmarks.core.serve import serve
from benchmarks.interactions import N_TEST
from benchmarks.speed import cases, floor, parquet
from benchmarks.speed.profile import watched
from benchmarks.speed.systems import Shape, Trained, draw_interactions, draw_table, our_trainer, predictor, table_of, trainer

Answer = dict[str, Any]

WARM_ROWS = 20_000
# Runs are repeated while all of them together take no longer than this.
REPEAT_SECONDS = 100.0
# Runs of the same case that take no longer than this together are repeated on, for all systems alike: one that takes
# milliseconds is disturbed most by whatever else the machine does.
SHORT_SECONDS, MOST_SHORT = 5.0, 20
# Trees that predict are trained on so many rows at most: their shape matters, not what they have learnt.
PREDICTOR_ROWS = 100_000
N_SMALL_FITS, N_SMALL_WARM = 300, 50


def repeat(run: Callable[[], float], repeats: int) -> list[float]:
    """Seconds of each run, as the run says them; fewer runs where they are long, more where they are short."""
    runs: list[float] = []
    while len(runs) < repeats or (sum(runs) < SHORT_SECONDS and len(runs) < MOST_SHORT):
        if runs and sum(runs) * (1 + 1 / len(runs)) >= REPEAT_SECONDS:
            break
        runs.append(run())
    return runs


def timed(work: Callable[[], Any]) -> Callable[[], float]:
    """Work that says how long it took."""

    def run() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return run


class Fit:
    """Trains again and again; keeps seconds of parts of a fit, peaks of memory beyond ``held``, and the last model."""

    def __init__(self, train: Callable[[], Trained], held: int) -> None:
        self._train, self._held = train, held
        self.encoding: list[float] = []
        self.growing: list[float] = []
        self.peaks: list[int] = []
        self.model: Any = None

    def __call__(self) -> float:
        self.model = None
        # Takes longer than a small fit, so it comes before the clock starts.
        start_watching()
        start = time.perf_counter()
        trained = self._train()
        end = time.perf_counter()
        self.peaks.append(max(peak_bytes() - self._held, 0))
        self.model = trained.model
        if trained.encoded is not None:
            self.encoding.append(trained.encoded - start)
            self.growing.append(end - trained.encoded)
        return end - start


def fit(request: Answer, shape: Shape) -> Answer:
    """Train on a table in memory."""
    small = replace(shape, n_rows=min(shape.n_rows, WARM_ROWS), n_trees=min(shape.n_trees, 10))
    trainer(request["system"], *table_of(request["system"], small), small, request["threads"])()
    X, y = table_of(request["system"], shape)
    held = start_watching()
    run = Fit(trainer(request["system"], X, y, shape, request["threads"]), held)
    answer = {"runs": repeat(run, request["repeats"]), "peak_bytes": min(run.peaks), "table_bytes": X.nbytes + y.nbytes}
    if run.encoding:
        bins = int(run.model.forest_.domain.n_codes.max()) - 1  # one code is for missing values
        answer |= {"encoding": run.encoding, "growing": run.growing, "bins": bins}
    if request["system"] in cases.BY_DEFAULT:
        new, labels = draw_interactions(N_TEST, cases.SEED + 1)
        answer["accuracy"] = float((run.model.predict(new) == labels).mean())
    return answer


def serial_share(request: Answer, shape: Shape) -> Answer:
    """Train with all threads and with one, in turns, so that both find the machine alike."""
    table = table_of(request["system"], shape)
    with_all, with_one = (timed(trainer(request["system"], *table, shape, n)) for n in (request["threads"], 1))
    with_all()
    one_thread = []

    def run() -> float:
        one_thread.append(with_one())
        return with_all()

    return {"runs": repeat(run, request["repeats"]), "one_thread": one_thread}


def count(request: Answer, shape: Shape) -> Answer:
    """The bare pass over packed codes, once for each level."""
    X, y = draw_table(shape.n_rows, shape.n_features)
    packed = floor.pack(X, y)
    levels = floor.nodes_of(shape.n_rows, shape.depth, cases.SEED)
    run = floor.bare_pass(packed, levels, request["threads"])
    run()
    return {"runs": repeat(timed(run), request["repeats"]), "bins": floor.N_BINS}


def profile(request: Answer, shape: Shape) -> Answer:
    """Where the time of a fit goes."""
    X, y = draw_table(shape.n_rows, shape.n_features)
    train = trainer(request["system"], X, y, shape, request["threads"])
    train()
    parts = []

    def run() -> None:
        with watched() as seconds:
            train()
        parts.append(seconds)

    runs = repeat(timed(run), request["repeats"])
    return {"runs": runs, "parts": parts[runs.index(min(runs))]}


def predict(request: Answer, shape: Shape) -> Answer:
    """Shares of classes for all rows."""
    n_trained = min(shape.n_rows, PREDICTOR_ROWS)
    X, y = draw_table(shape.n_rows, shape.n_features)
    trained = replace(shape, n_rows=n_trained)
    model = trainer(request["system"], X[:n_trained], y[:n_trained], trained, request["threads"])().model
    predictor(request["system"], model, X[:WARM_ROWS], request["threads"])()
    held = start_watching()
    runs = repeat(timed(predictor(request["system"], model, X, request["threads"])), request["repeats"])
    return {"runs": runs, "peak_bytes": max(peak_bytes() - held, 0), "table_bytes": X.nbytes}


def small_fit(request: Answer, shape: Shape) -> Answer:
    """Many fits of a small table, after a while."""
    train = trainer(request["system"], *draw_table(shape.n_rows, shape.n_features), shape, request["threads"])
    runs = repeat(timed(train), N_SMALL_FITS + N_SMALL_WARM)
    return {"runs": runs[N_SMALL_WARM:]}


def file_fit(request: Answer, shape: Shape) -> Answer:
    """Train on a Parquet file that is read again and again; the peak is that of the whole process."""
    start_watching()
    run = our_trainer(request["system"], shape, request["threads"], request["path"])
    return {"runs": repeat(timed(run), request["repeats"]), "peak_bytes": peak_bytes(), "table_bytes": 0}


def write_file(request: Answer, shape: Shape) -> Answer:
    """Write the Parquet file of a case, so that the process that is measured does not hold what made it."""
    parquet.write(request["path"], shape.n_rows, shape.n_features)
    return {"runs": [0.0]}


ACTIONS: dict[str, Callable[[Answer, Shape], Answer]] = {
    "fit": fit,
    "serial share": serial_share,
    "count": count,
    "profile": profile,
    "predict": predict,
    "small fit": small_fit,
    "file fit": file_fit,
    "write file": write_file,
}


def answer(request: Answer) -> Answer:
    """Do what a request asks for."""
    return ACTIONS[request["action"]](request, Shape(**request["shape"]))


if __name__ == "__main__":
    serve(answer)
