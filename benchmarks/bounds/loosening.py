"""Tables whose bounds are looser than their schema says: ten times, a million times, none at all, or far from zero.

An earlier state of the library runs this too, so little of the library is imported, and nothing of the other benchmarks.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpforest.datasets import load_dataset
from dpforest.schema import Bounded, Classes, Numeric, Schema

AS_GIVEN, NONE, HUGE, SHIFTED = "as given", "none", "±1e9", "shifted"
FACTORS = {"x10": 1e1, "x1000": 1e3, "x1e6": 1e6}
KINDS = (AS_GIVEN, *FACTORS, HUGE, NONE, SHIFTED)
FEATURES, TARGET = "features", "target"  # whose bounds are loosened
HUGE_BOUND = 1e9
SHIFT, SHIFT_BOUND = 1e5, 1e6
STREAM, TEST_SHARE = 2026, 0.25  # of the splits
# Large tables are cut off after so many rows of the split, whatever they hold.
MOST_TRAINING, MOST_TESTING = 30_000, 20_000
Loaded = tuple[Any, np.ndarray, Schema]  # features, target, schema


def split_rows(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows for training and for testing."""
    order = np.random.default_rng([STREAM, seed]).permutation(len(y))
    n_test = round(TEST_SHARE * len(y))
    return order[n_test:][:MOST_TRAINING], order[:n_test][:MOST_TESTING]


def loosened_part(part: Any, kind: str) -> Any:
    """A numeric feature or a bounded target with other bounds; a factor moves the lower one only if that is below 0."""
    if kind == AS_GIVEN:
        return part
    if kind == NONE:
        return Numeric(integer=part.integer) if isinstance(part, Numeric) else Bounded(name=part.name)
    if kind in FACTORS:
        factor = FACTORS[kind]
        return replace(part, lower=part.lower * (factor if part.lower < 0 else 1), upper=part.upper * factor)
    bound = HUGE_BOUND if kind == HUGE else SHIFT_BOUND
    return replace(part, lower=-bound, upper=bound)


@lru_cache(maxsize=2)
def load(table: str, kind: str, loosened: str) -> Loaded:
    """Features, target as class indices or numbers, and a schema whose bounds of features or of the target are loosened."""
    X, y, schema = _stored(table)
    if loosened == TARGET:
        target = loosened_part(schema.target, kind)
        return X, y + (SHIFT if kind == SHIFTED else 0.0), replace(schema, target=target)
    numbers = {name: part for name, part in schema.features.items() if isinstance(part, Numeric)}
    if kind == SHIFTED:
        for name in numbers:
            moved = pc.add(X[name].cast(pa.float64()), SHIFT)
            X = X.set_column(X.schema.get_field_index(name), name, moved)
    loose = {name: loosened_part(part, kind) for name, part in numbers.items()}
    return X, y, replace(schema, features={**schema.features, **loose})


@lru_cache(maxsize=2)
def _stored(table: str) -> Loaded:
    """The table with labels by their index, so that all speak of the same classes. The number of rows is not public."""
    X, y, schema = load_dataset(table)
    schema = replace(schema, n_rows=None)
    if not isinstance(schema.target, Classes):
        return X, np.asarray(y, dtype=float), schema
    indices = {label: index for index, label in enumerate(schema.target.labels)}
    target = Classes(range(len(indices)), name=schema.target.name)
    return X, np.array([indices[label] for label in y.to_pylist()]), replace(schema, target=target)
