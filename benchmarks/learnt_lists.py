"""What a learnt list of categories is worth: accuracy beside that of the public list and of buckets.

``python -m benchmarks.learnt_lists``, with ``DPFOREST_DATA`` set, prints a line for each table and epsilon: mean accuracy
over splits of 75/25 ± its standard error, of the default recipe with fresh noise.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.core.trials import HeldOut
from dpforest.datasets import load_dataset
from dpforest.estimators import DPForestClassifier
from dpforest.schema import Categorical, Classes, Numeric, Schema

TABLES = ("adult", "bank_additional", "nursery", "mushroom", "kddcup99_10pct", "towns")
EPSILONS, DELTA, N_SEEDS = (0.5, 1.0, 2.0), 1e-5, 5
SPLIT = HeldOut(0.25)
# None keeps the public lists.
WAYS = {"list": None, "buckets": Categorical(), "learnt": Categorical(learn=True)}


def towns(n_rows: int = 200_000, n_towns: int = 10_000) -> tuple[Any, Any, Schema]:
    """A table of people in towns, few of which are large; in every other town most people say yes. Nobody has a list."""
    rng = np.random.default_rng(n_towns)
    shares = 1 / np.arange(10, n_towns + 10)
    town, age = rng.choice(n_towns, n_rows, p=shares / shares.sum()), rng.integers(18, 90, n_rows)
    leaning = np.where(rng.random(n_towns) < 0.5, 0.8, 0.2)[town] + (age > 50) * 0.1
    says = np.where(rng.random(n_rows) < leaning, "yes", "no")
    schema = Schema({"age": Numeric(18, 90, integer=True), "town": Categorical()}, Classes(["no", "yes"]))
    return pa.table({"age": age, "town": town}), pa.chunked_array([says]), schema


def declared(schema: Schema, part: Categorical | None) -> Schema:
    """The schema with all its categorical columns declared as ``part``; as it is for None."""
    features = {name: part if part and isinstance(old, Categorical) else old for name, old in schema.features.items()}
    return replace(schema, features=features)


def accuracies(X: Any, y: Any, schema: Schema, epsilon: float) -> list[float]:
    """The accuracy on the held-out rows of each split."""
    labels, found = np.asarray(y), []
    for seed in range(N_SEEDS):
        train, test = SPLIT.rows(labels, seed)
        model = DPForestClassifier(schema, epsilon=epsilon, delta=DELTA, n_jobs=-1).fit(X.take(train), y.take(train))
        found.append(float((model.predict(X.take(test)) == labels[test]).mean()))
    return found


def lines(tables: list[str]) -> Iterator[str]:
    """The lines to print, for all tables or those that are named."""
    yield "table, epsilon (accuracy ± its standard error) | " + " | ".join(WAYS)
    for name in tables or TABLES:
        X, y, schema = towns() if name == "towns" else load_dataset(name)
        for epsilon in EPSILONS:
            ways = [part for part in WAYS.values() if part is not None or name != "towns"]
            cells = [_cell(accuracies(X, y, declared(schema, part), epsilon)) for part in ways]
            yield f"{name}, {epsilon:g} | " + " | ".join(["-"] * (len(WAYS) - len(ways)) + cells)


def _cell(found: list[float]) -> str:
    return f"{mean(found):.3f} ± {stdev(found) / len(found) ** 0.5:.3f}"


if __name__ == "__main__":
    for line in lines(sys.argv[1:]):
        print(line, flush=True)
