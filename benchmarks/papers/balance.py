"""Measures how evenly a tree divides its records, instead of how well it predicts."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.core.results import Case, Row
from benchmarks.core.trials import fit, run, spent_by
from dpforest.records.columns import read_columns
from dpforest.records.encoding import encode
from dpforest.schema import Schema

# Records by which a leaf is away from its even share, where tails are measured.
DISTANCES = (5, 10, 20, 40, 80)


def evenness(case: Case, X: Any, y: Any, schema: Schema, train: np.ndarray, test: np.ndarray) -> Row:
    """Metrics of a tree: mean share of the smaller child, and share of leaves that are ``t`` or more away from N/2^d."""
    del test
    parameters = dict(case.parameters)
    t = parameters.pop("t", DISTANCES[0])
    model = fit(replace(case, parameters=tuple(parameters.items())), X, y, schema, train)
    forest = model.forest_
    codes = encode(read_columns(X.take(train), schema), forest.domain)
    sizes = np.zeros(forest.n_nodes, dtype=np.int64)
    records, reached = np.arange(len(train)), np.zeros(len(train), dtype=np.int64)
    for _ in range(forest.depth + 1):
        np.add.at(sizes, reached, 1)
        moves = ~forest.is_leaf[reached]
        records, reached = records[moves], reached[moves]
        steps = forest.routes[forest.splits[reached], codes[forest.features[reached], records]]
        reached = forest.first_children[reached] + steps
    children = [sizes[forest.parents == node] for node in np.flatnonzero(~forest.is_leaf & (sizes > 1))]
    away = np.abs(sizes[forest.is_leaf] - len(train) / 2 ** parameters["depth"])
    smaller = float(np.mean([own.min() / own.sum() for own in children]))
    return {"metrics": {"smaller_child": smaller, "tail": float((away >= t).mean())}} | spent_by(model)


def tail_bound(epsilon: float, t: float, depth: int) -> float:
    """The tighter bound of Theorem 2 of 002 on the chance that a leaf is ``t`` or more records away from N/2^depth."""
    gamma, beta = 8 * (1 - 4.0**-depth) / 3, math.sqrt((math.sqrt(1 - 2 / math.e) + 1) / 2)
    exponential = max(2 * math.exp(-((epsilon * t) ** 2) / (4 * gamma)), 2 * math.exp(-epsilon * beta * t / 2))
    return min(1.0, gamma / (epsilon * t) ** 2, exponential)


measure = partial(run, measure=evenness)
