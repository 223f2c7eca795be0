"""The default recipe on large generated tables, on a secret sample and on all rows: accuracy and time."""

import math
import time
from collections.abc import Callable, Iterator
from statistics import mean, stdev

import numpy as np

from benchmarks.interactions import N_FEATURES, N_TEST, draw, strength
from dpforest.estimators import DPForestClassifier, DPForestRegressor
from dpforest.schema import Bounded, Classes, Numeric, Schema, Target

BUDGETS = ((1.0, 0.0), (1.0, 1e-6), (0.1, 0.0), (0.1, 1e-6))
N_CLASSES = 4
SAMPLES = {"sample": None, "all rows": {"sample_rows": 0}}


def _pair(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, Target]:
    return (*draw(n_rows, seed), Classes([0, 1]))


def _classes(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, Target]:
    """Classes are equal steps of the strength, with noise."""
    rng = np.random.default_rng([21, seed])
    X = rng.random((n_rows, N_FEATURES), dtype=np.float32)
    noisy = strength(X) + rng.logistic(scale=0.5, size=n_rows)
    return X, np.clip(np.floor(noisy + N_CLASSES / 2 - 1), 0, N_CLASSES - 1).astype(int), Classes(range(N_CLASSES))


def _number(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, Target]:
    rng = np.random.default_rng([22, seed])
    X = rng.random((n_rows, N_FEATURES), dtype=np.float32)
    return X, strength(X) + rng.normal(size=n_rows), Bounded(-20, 20)


TABLES = {"interactions": _pair, "four classes": _classes, "a number": _number}


def run(progress: Callable[[str], None], n_rows: int, n_repeats: int) -> Iterator[dict[str, object]]:
    """A line for each table and budget: scores (accuracy or R²) and times of fits on a sample and on all rows."""
    for table, draw_table in TABLES.items():
        X, y, target = draw_table(n_rows, 0)
        new, known, _ = draw_table(N_TEST, 1)
        schema = Schema({f"x{index}": Numeric(0, 1) for index in range(N_FEATURES)}, target)
        kind = DPForestClassifier if isinstance(target, Classes) else DPForestRegressor
        for epsilon, delta in BUDGETS:
            scores: dict[str, list[float]] = {name: [] for name in SAMPLES}
            seconds: dict[str, list[float]] = {name: [] for name in SAMPLES}
            for number in range(n_repeats):
                for name, parameters in SAMPLES.items():
                    progress(f"{table}, epsilon = {epsilon:g}, delta = {delta:g}, {name}, run {number + 1}")
                    start = time.perf_counter()
                    model = kind(schema, epsilon, delta, n_jobs=-1, recipe_params=parameters).fit(X, y)
                    seconds[name].append(time.perf_counter() - start)
                    scores[name].append(float(model.score(new, known)))
            sample, whole = scores.values()
            yield {
                "table": table,
                "rows": n_rows,
                "epsilon": epsilon,
                "delta": delta,
                "sample": mean(sample),
                "all rows": mean(whole),
                "difference": mean(sample) - mean(whole),
                "two standard errors": 2 * math.hypot(*(_error(values) for values in (sample, whole))),
                "sample, s": min(seconds["sample"]),
                "all rows, s": min(seconds["all rows"]),
            }


def _error(values: list[float]) -> float:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
