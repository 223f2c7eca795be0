"""Opened tables, and ways to look at the trees that printed algorithms make of them."""

import warnings
from dataclasses import replace

import numpy as np

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Schema, get_recipe
from dpforest.errors import LeakWarning
from dpforest.published.form import Rows, get_published


def fit(name, X, y, schema, **settings):
    """A model of the printed form."""
    kind = DPForestRegressor if isinstance(schema.target, Bounded) else DPForestClassifier
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)
        return kind(schema, recipe=name, variant="published", **settings).fit(X, y)


def rows_of(columns, target, features, n_classes=2):
    """An opened table; without classes its target is a number from 0 to 1."""
    named = features if isinstance(features, dict) else {f"f{index}": feature for index, feature in enumerate(features)}
    schema = Schema(named, Classes(range(n_classes)) if n_classes else Bounded(0, 1))
    arrays = [
        np.asarray(column, dtype=np.int64 if isinstance(feature, Categorical) else float)
        for column, feature in zip(columns, named.values(), strict=True)
    ]
    return Rows(tuple(arrays), np.asarray(target, dtype=np.int64 if n_classes else float), schema)


def with_one_more(rows, record, label):
    columns = tuple(np.append(column, value) for column, value in zip(rows.columns, record, strict=True))
    return Rows(columns, np.append(rows.target, label), rows.schema)


def chances(scores, rate):
    weights = np.exp(rate * (scores - scores.max()))
    return weights / weights.sum()


def walk(node, values):
    """The leaf of one record."""
    while node.children:
        node = node.children[int(node.split.route(np.array([values[node.split.feature]]))[0])]
    return node


def paths(node, above=()):
    """The features on the way to each leaf."""
    if not node.children:
        return [above]
    return [path for child in node.children for path in paths(child, (*above, node.split.feature))]


def depth_of(node):
    return max(map(len, paths(node)))


def nodes_of(node):
    """A node and all below."""
    return [node, *(below for child in node.children for below in nodes_of(child))]


def train(name, rows, epsilon, seed=0, n_trees=1, depth=4):
    recipe = replace(get_recipe(name), n_trees=n_trees, depth=depth)
    return get_published(name).train(rows, epsilon, recipe, np.random.default_rng(seed))


def are_split(name, rows, epsilon, n_seeds, depth=4):
    """Which answers there are to whether the root of a tree is split, over so many seeds."""
    return {bool(train(name, rows, epsilon, seed, depth=depth)[0].children) for seed in range(n_seeds)}
