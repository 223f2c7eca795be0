"""Opened tables, and ways to look at the trees that printed algorithms make of them."""

from dataclasses import replace

import numpy as np
import pandas as pd

from dpforest import Categorical, Classes, Numeric, Schema, get_recipe
from dpforest.recipes.published.registry import get_published
from dpforest.records.base import Rows

LETTERS = ["a", "b", "c"]


def make_table(kind, n_classes, n_rows=400):
    rng = np.random.default_rng(7)
    labels = [f"class {index}" for index in range(n_classes)]
    target = rng.integers(0, n_classes, n_rows)
    columns, features = {}, {}
    if kind != "numeric":
        for name in ("x", "y"):
            kept = rng.random(n_rows) < 0.8
            columns[name] = np.where(kept, np.array(LETTERS)[target % 3], rng.choice(LETTERS, n_rows)).astype(object)
            features[name] = Categorical(LETTERS)
    if kind != "categorical":
        columns["u"], features["u"] = target + rng.normal(0, 0.4, n_rows), Numeric(-1, n_classes)
        columns["v"], features["v"] = rng.integers(0, 30, n_rows).astype(float), Numeric(0, 30, integer=True)
    if kind == "mixed":
        columns["x"][rng.random(n_rows) < 0.1] = None
        columns["y"][rng.random(n_rows) < 0.1] = "elsewhere"
        columns["u"][rng.random(n_rows) < 0.1] = np.nan
    return pd.DataFrame(columns), np.array(labels)[target], Schema(features, Classes(labels))


def rows_of(columns, target, features, n_classes=2):
    """An opened table."""
    named = {f"f{index}": feature for index, feature in enumerate(features)}
    schema = Schema(named, Classes([f"c{index}" for index in range(n_classes)]))
    arrays = [
        np.asarray(column, dtype=np.int64 if isinstance(feature, Categorical) else float)
        for column, feature in zip(columns, features, strict=True)
    ]
    return Rows(tuple(arrays), np.asarray(target, dtype=np.int64), schema)


def with_one_more(rows, record, label):
    columns = tuple(np.append(column, value) for column, value in zip(rows.columns, record, strict=True))
    return Rows(columns, np.append(rows.target, label), rows.schema)


def chances(scores, rate):
    weights = np.exp(rate * (scores - scores.max()))
    return weights / weights.sum()


def walk(node, values):
    """The leaf of one record."""
    while node.children:
        node = node.children[int(node.route(np.array([values[node.feature]]))[0])]
    return node


def paths(node, above=()):
    """The features on the way to each leaf."""
    if not node.children:
        return [above]
    return [path for child in node.children for path in paths(child, (*above, node.feature))]


def nodes_of(node):
    """A node and all below."""
    return [node, *(below for child in node.children for below in nodes_of(child))]


def train(name, rows, epsilon, seed=0, n_trees=1, depth=4):
    recipe = replace(get_recipe(name), n_trees=n_trees, depth=depth)
    return get_published(name).train(rows, epsilon, recipe, np.random.default_rng(seed))
