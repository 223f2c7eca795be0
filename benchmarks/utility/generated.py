"""Tables drawn from known distributions: what a method can and cannot learn shows here without a data set's accidents.

Every family has public bounds and is drawn anew for each seed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dpforest.schema import Classes, Numeric, Schema

# Bounds of Gaussian features, in standard deviations of the usual one.
BOUND = 5.0

Drawn = tuple[np.ndarray, np.ndarray, float]  # features, class indices, bound of the features


@dataclass(frozen=True)
class Family:
    """How to draw a table, what it is about, and its number of classes."""

    draw: Callable[[np.random.Generator], Drawn]
    title: str
    n_classes: int = 2


def _weak_features(rng: np.random.Generator) -> Drawn:
    y = rng.integers(0, 2, 8_000)
    return rng.normal(size=(8_000, 30)) + 0.25 * y[:, None], y, BOUND


def _wider_class(rng: np.random.Generator) -> Drawn:
    y = rng.integers(0, 2, 8_000)
    return rng.normal(size=(8_000, 10)) * np.where(y == 1, 2.0, 1.0)[:, None], y, 2 * BOUND


def _exclusive_or(rng: np.random.Generator) -> Drawn:
    X = rng.uniform(-1, 1, (8_000, 10))
    return X, ((X[:, 0] > 0) != (X[:, 1] > 0)).astype(int), 1.0


def _irrelevant_features(rng: np.random.Generator) -> Drawn:
    y = rng.integers(0, 2, 8_000)
    X = rng.normal(size=(8_000, 204))
    X[:, :4] += y[:, None]
    return X, y, BOUND


def _rare_positives(rng: np.random.Generator) -> Drawn:
    y = (rng.random(20_000) < 0.01).astype(int)
    return rng.normal(size=(20_000, 10)) + 0.75 * y[:, None], y, BOUND


def _fifty_classes(rng: np.random.Generator) -> Drawn:
    centres = rng.normal(scale=1.5, size=(50, 20))
    y = rng.integers(0, 50, 20_000)
    return centres[y] + rng.normal(size=(20_000, 20)), y, 2 * BOUND


FAMILIES = {
    "weak_features": Family(_weak_features, "30 features, each shifted by a quarter of a standard deviation"),
    "wider_class": Family(_wider_class, "one class twice as wide as the other in each of 10 features"),
    "exclusive_or": Family(_exclusive_or, "exclusive or of two features beside 8 irrelevant ones"),
    "irrelevant_features": Family(_irrelevant_features, "4 useful features among 200 irrelevant ones"),
    "rare_positives": Family(_rare_positives, "1 % positives, 10 informative features"),
    "fifty_classes": Family(_fifty_classes, "50 classes around centres of their own in 20 dimensions", n_classes=50),
}


def generate(name: str, seed: int) -> tuple[pa.Table, pa.ChunkedArray, Schema]:
    """Features, target and schema of a family, the same for the same seed."""
    family = FAMILIES[name]
    rng = np.random.default_rng([list(FAMILIES).index(name), seed])
    X, y, bound = family.draw(rng)
    features = {f"x{index}": Numeric(-bound, bound) for index in range(X.shape[1])}
    table = pa.table({name: X[:, index] for index, name in enumerate(features)})
    return table, pa.chunked_array([y]), Schema(features, Classes(range(family.n_classes)))
