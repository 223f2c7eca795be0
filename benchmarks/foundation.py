"""Figures of the base: accuracy of the default recipe on adult, and what a small fit and an import cost."""

import math
import time
from collections.abc import Callable, Iterator
from itertools import product
from statistics import mean, median, stdev

import numpy as np

from benchmarks.papers.views import load_view
from benchmarks.speed.fresh import IMPORTS, import_runs
from dpforest.estimators import DPForestClassifier
from dpforest.schema import Classes, Numeric, Schema

N_SEEDS = 5


def adult_accuracy(progress: Callable[[str], None]) -> Iterator[dict[str, object]]:
    """Mean accuracy and time of a fit over splits of 75/25, rows with missing values kept, fresh noise for each."""
    X, y, schema = load_view("adult")
    labels = np.asarray(y)
    for epsilon, delta in (*product((0.1, 0.5, 1.0, 2.0), (0.0, 1e-5)), (math.inf, 0.0)):
        accuracies, seconds = [], []
        for seed in range(N_SEEDS):
            progress(f"adult, epsilon {epsilon:g}, delta {delta:g}, split {seed + 1} of {N_SEEDS}")
            order = np.random.default_rng(seed).permutation(len(labels))
            train, test = order[len(order) // 4 :], order[: len(order) // 4]
            start = time.perf_counter()
            model = DPForestClassifier(schema, epsilon=epsilon, delta=delta, n_jobs=-1).fit(X.take(train), labels[train])
            seconds.append(time.perf_counter() - start)
            accuracies.append(float((model.predict(X.take(test)) == labels[test]).mean()))
        value = f"{mean(accuracies):.4f} (sd {stdev(accuracies):.4f}), fit {median(seconds):.2f} s (median)"
        yield {"figure": f"adult, accuracy at epsilon = {epsilon:g}, delta = {delta:g}", "value": value}


def small_fit() -> Iterator[dict[str, object]]:
    """A warm fit of 100 rows x 5 features, one tree of depth 3."""
    X = np.random.default_rng(0).random((100, 5))
    y = (X[:, 0] > 0.5).astype(int)
    schema = Schema({f"x{place}": Numeric(0, 1) for place in range(5)}, Classes([0, 1]))
    model = DPForestClassifier(schema, max_depth=3)
    times = []
    for _ in range(300):
        start = time.perf_counter()
        model.fit(X, y)
        times.append(1000 * (time.perf_counter() - start))
    yield {"figure": "warm fit, 100 rows x 5 features, depth 3", "value": f"{median(times[50:]):.2f} ms (median)"}


def import_time() -> Iterator[dict[str, object]]:
    """Wall time of imports in fresh processes, best of five."""
    for title, code in IMPORTS.items():
        yield {"figure": title, "value": f"{min(import_runs(code, 5)):.3f} s"}


def run(progress: Callable[[str], None]) -> Iterator[dict[str, object]]:
    """All figures, one row each."""
    yield from small_fit()
    yield from import_time()
    yield from adult_accuracy(progress)
