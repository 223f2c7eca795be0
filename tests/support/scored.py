"""Models without noise and tables to score them on, with missing targets and values that no list has."""

import math

import numpy as np
import pandas as pd
import pytest

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema

LABELS, CUTS = ("a", "b", "c"), (0.5, 0.75)
FEATURES = {"x": Numeric(0, 1), "z": Categorical(["u", "v"])}


def rows(seed, n_rows=3000):
    rng = np.random.default_rng(seed)
    return rng, pd.DataFrame({"x": rng.random(n_rows), "z": rng.choice(["u", "v", "w"], n_rows).astype(object)})


@pytest.fixture(scope="module")
def classifier():
    """Of three classes."""
    _, X = rows(1)
    y = np.where(X["x"] < 0.3, "a", np.where(X["z"] == "u", "b", "c")).astype(object)
    y[::7] = "b"
    y[::50] = None
    return DPForestClassifier(Schema(FEATURES, Classes(LABELS)), epsilon=math.inf).fit(X, y), X, y


def two(seed=3, n_rows=3000, epsilon=5.0, **parameters):
    """A model of two classes whose labels are drawn, and the table that it was fitted on."""
    rng, X = rows(seed, n_rows)
    y = np.where(rng.random(n_rows) < X["x"] ** 2, "b", "a").astype(object)
    y[::50] = None
    return DPForestClassifier(Schema(FEATURES, Classes(["a", "b"])), epsilon=epsilon, **parameters).fit(X, y), X, y


@pytest.fixture(scope="module")
def classifier_of_two():
    return two()


@pytest.fixture(scope="module")
def regressor():
    rng, X = rows(2)
    y = 10 * X["x"].to_numpy() + rng.normal(0, 1, len(X))
    y[::40] = np.nan
    return DPForestRegressor(Schema(FEATURES, Bounded(0, 10)), epsilon=math.inf).fit(X, y), X, y
