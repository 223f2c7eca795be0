"""Small tables of every kind of column, whose target follows from their features."""

import numpy as np
import pandas as pd

from dpforest import Bounded, Categorical, Classes, Date, Numeric, Schema

KINDS = ["categorical", "numeric", "mixed", "undeclared"]
LETTERS = ["a", "b", "c"]


def make_table(kind, n_classes, n_rows=400):
    """Features of a kind, a target that follows from them, and its schema; without classes the target is a number."""
    rng = np.random.default_rng(7)
    target = rng.integers(0, n_classes or 4, n_rows)
    columns, features = {}, {}
    if kind != "numeric":
        for name in ("x", "y"):
            kept = rng.random(n_rows) < 0.8
            columns[name] = np.where(kept, np.array(LETTERS)[target % 3], rng.choice(LETTERS, n_rows)).astype(object)
            features[name] = Categorical() if kind == "undeclared" else Categorical(LETTERS)
    if kind != "categorical":
        columns["u"], features["u"] = target + rng.normal(0, 0.4, n_rows), Numeric(-1, n_classes or 4)
        columns["v"], features["v"] = rng.integers(0, 30, n_rows).astype(float), Numeric(0, 30, integer=True)
    if kind in ("mixed", "undeclared"):
        columns["x"][rng.random(n_rows) < 0.1] = None
        columns["y"][rng.random(n_rows) < 0.1] = "elsewhere"
        columns["u"][rng.random(n_rows) < 0.1] = np.nan
    if kind == "undeclared":
        features |= {"u": Numeric(), "v": Numeric(integer=True), "day": Date(), "time": Date(time=True)}
        columns["time"] = np.datetime64("2020-01-01", "s") + 86_400 * rng.integers(0, 900, n_rows)
        columns["day"] = columns["time"].astype("M8[D]").astype("M8[s]")
    labels = [f"class {index}" for index in range(n_classes or 0)]
    y = np.array(labels)[target] if n_classes else 10.0 * target - 10
    return pd.DataFrame(columns)[[*features]], y, Schema(features, Classes(labels) if n_classes else Bounded(-10, 30))
