"""How many buckets categories without a list should fall into: accuracy beside that of the public lists.

``python -m benchmarks.buckets``, with ``DPFOREST_DATA`` set, prints a line for each table and budget: mean accuracy over
splits of 75/25 ± its standard error, of the default recipe with fresh noise, first with the lists of the schema and then
with buckets only.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from statistics import mean, stdev
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.core.trials import HeldOut
from dpforest.datasets import load_dataset
from dpforest.estimators import DPForestClassifier
from dpforest.schema import Categorical, Classes, Numeric, Schema

TABLES = ("adult", "bank_additional", "nursery", "mushroom", "connect4", "credit_approval", "kddcup99_10pct")
MADE = {"10,000 towns": 10_000, "1,000,000 towns": 1_000_000}
BUCKETS = (32, 64, 128, 256)
BUDGETS = tuple(product((0.1, 1.0), (0.0, 1e-5)))
N_SEEDS = 5
SPLIT = HeldOut(0.25)


def made(n_towns: int, n_rows: int = 200_000) -> tuple[Any, Any, Schema]:
    """A table of people in towns, few of which are large; in every other town most people say yes."""
    rng = np.random.default_rng(n_towns)
    shares = 1 / np.arange(10, n_towns + 10)
    towns = rng.choice(n_towns, n_rows, p=shares / shares.sum())
    age = rng.integers(18, 90, n_rows)
    leaning = np.where(rng.random(n_towns) < 0.5, 0.8, 0.2)[towns] + (age > 50) * 0.1
    says = np.where(rng.random(n_rows) < leaning, "yes", "no")
    schema = Schema({"age": Numeric(18, 90, integer=True), "town": Categorical()}, Classes(["no", "yes"]))
    return pa.table({"age": age, "town": towns}), pa.chunked_array([says]), schema


def with_buckets(schema: Schema, n_buckets: int) -> Schema:
    """The schema without its lists of categories."""
    hashed = Categorical(buckets=n_buckets)
    features = {name: hashed if isinstance(part, Categorical) else part for name, part in schema.features.items()}
    return replace(schema, features=features)


def accuracies(X: Any, y: Any, schema: Schema, epsilon: float, delta: float) -> list[float]:
    labels, found = np.asarray(y), []
    for seed in range(N_SEEDS):
        train, test = SPLIT.rows(labels, seed)
        model = DPForestClassifier(schema, epsilon=epsilon, delta=delta, n_jobs=-1).fit(X.take(train), y.take(train))
        found.append(float((model.predict(X.take(test)) == labels[test]).mean()))
    return found


def lines(tables: list[str]) -> Iterator[str]:
    """The lines to print, for all tables or those that are named."""
    yield "table, epsilon, delta (accuracy ± its standard error) | list | " + " | ".join(f"{n} buckets" for n in BUCKETS)
    for name in tables or (*TABLES, *MADE):
        X, y, schema = made(MADE[name]) if name in MADE else load_dataset(name)
        for epsilon, delta in BUDGETS:
            schemas = [schema if name not in MADE else None, *(with_buckets(schema, n) for n in BUCKETS)]
            cells = ["-" if one is None else _cell(accuracies(X, y, one, epsilon, delta)) for one in schemas]
            yield f"{name}, {epsilon:g}, {delta:g} | " + " | ".join(cells)


def _cell(found: list[float]) -> str:
    return f"{mean(found):.3f} ± {stdev(found) / len(found) ** 0.5:.3f}"


if __name__ == "__main__":
    for line in lines(sys.argv[1:]):
        print(line, flush=True)
