"""A large table of interacting features: the default recipe with noise and without, beside ordinary boosting."""

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from dpforest.estimators import DPForestClassifier
from dpforest.schema import Classes, Numeric, Schema

N_FEATURES, N_TEST = 20, 200_000
BUDGETS = ((math.inf, 0.0), (1.0, 1e-6), (1.0, 0.0))
ROUNDS = 100


def draw(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Uniform features ``(n_rows, N_FEATURES)`` and classes, by log-odds of single features, pairs and a triple of them."""
    rng = np.random.default_rng([20, seed])
    X = rng.random((n_rows, N_FEATURES))
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-2 * (strength(X) - _middle())))).astype(int)


def strength(X: np.ndarray) -> np.ndarray:
    """What features add up to ``(n_rows,)``: single ones, pairs and a triple of them."""
    slopes = np.random.default_rng(1).normal(size=N_FEATURES)
    waves = 2 * np.sin(6 * X[:, 0]) * (X[:, 1] > 0.5)
    product = 1.5 * (X[:, 2] * X[:, 3] > 0.3)
    box = 2 * ((X[:, 4] > 0.3) & (X[:, 5] < 0.6) & (X[:, 6] > 0.2))
    valley = -6 * np.abs(X[:, 7] - 0.5) * (X[:, 8] < 0.7)
    return 0.6 * X @ slopes + waves + product + box + valley


def _middle() -> float:
    return float(np.median(strength(np.random.default_rng([20, 10**6]).random((100_000, N_FEATURES)))))


def run(progress: Callable[[str], None], n_rows: int) -> Iterator[dict[str, object]]:
    """Accuracy on the same test rows, and the time of a fit, of LightGBM and of the default at several budgets."""
    # Loaded by name: it is an optional library.
    lightgbm = import_module("lightgbm")
    X, y = draw(n_rows, 0)
    new, labels = draw(N_TEST, 1)
    schema = Schema({f"x{index}": Numeric(0, 1) for index in range(N_FEATURES)}, Classes([0, 1]))
    systems: dict[str, Callable[[], Any]] = {
        f"LightGBM, {ROUNDS} rounds": lambda: lightgbm.LGBMClassifier(n_estimators=ROUNDS, n_jobs=-1, verbose=-1)
    }
    for epsilon, delta in BUDGETS:
        name = f"auto, epsilon = {epsilon:g}, delta = {delta:g}"
        systems[name] = partial(DPForestClassifier, schema, epsilon, delta, n_jobs=-1)
    for name, make in systems.items():
        progress(f"{name}, {n_rows:,} rows")
        start = time.perf_counter()
        model = make().fit(X, y)
        seconds = time.perf_counter() - start
        yield {"system": name, "rows": n_rows, "accuracy": float((model.predict(new) == labels).mean()), "seconds": seconds}
