"""The first benchmark: accuracy of the default recipe on adult, and what a small fit and an import cost."""

import math
import time
from collections.abc import Callable, Iterator
from itertools import product
from statistics import mean, median, stdev

import numpy as np

from benchmarks.core.trials import HeldOut
from benchmarks.papers.views import load_view
from benchmarks.speed import worker
from benchmarks.speed.cases import SMALL
from benchmarks.speed.fresh import IMPORTS, import_runs
from benchmarks.speed.systems import Shape
from dpforest.estimators import DPForestClassifier

N_SEEDS = 5
SPLIT = HeldOut(0.25)


def adult_accuracy(progress: Callable[[str], None]) -> Iterator[dict[str, object]]:
    """Mean accuracy and time of a fit over splits of 75/25, rows with missing values kept, fresh noise for each."""
    X, y, schema = load_view("adult")
    labels = np.asarray(y)
    for epsilon, delta in (*product((0.1, 0.5, 1.0, 2.0), (0.0, 1e-5)), (math.inf, 0.0)):
        accuracies, seconds = [], []
        for seed in range(N_SEEDS):
            progress(f"adult, epsilon {epsilon:g}, delta {delta:g}, split {seed + 1} of {N_SEEDS}")
            train, test = SPLIT.rows(labels, seed)
            start = time.perf_counter()
            model = DPForestClassifier(schema, epsilon=epsilon, delta=delta, n_jobs=-1).fit(X.take(train), labels[train])
            seconds.append(time.perf_counter() - start)
            accuracies.append(float((model.predict(X.take(test)) == labels[test]).mean()))
        value = f"{mean(accuracies):.4f} (sd {stdev(accuracies):.4f}), fit {median(seconds):.2f} s (median)"
        yield {"figure": f"adult, accuracy at epsilon = {epsilon:g}, delta = {delta:g}", "value": value}


def small_fit() -> Iterator[dict[str, object]]:
    """A warm fit of 100 rows x 5 features, one tree of depth 3."""
    runs = worker.small_fit({"system": "auto", "threads": 1}, Shape(**SMALL))["runs"]
    figure = f"warm fit, {SMALL['n_rows']} rows x {SMALL['n_features']} features, depth {SMALL['depth']}"
    yield {"figure": figure, "value": f"{1000 * median(runs):.2f} ms (median)"}


def import_time() -> Iterator[dict[str, object]]:
    """Wall time of imports in fresh processes, best of five."""
    for title, code in IMPORTS.items():
        yield {"figure": title, "value": f"{min(import_runs(code, 5)):.3f} s"}


def run(progress: Callable[[str], None]) -> Iterator[dict[str, object]]:
    """All figures, one row each."""
    yield from small_fit()
    yield from import_time()
    yield from adult_accuracy(progress)
