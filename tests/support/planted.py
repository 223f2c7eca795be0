"""Small forests made by hand, records to walk through them, and forests side by side."""

from dataclasses import fields, replace

import numpy as np
from tests.support import naive
from tests.support.encoded import random_table
from tests.support.strategies import TWO

from dpforest import Categorical, Classes, Numeric, Schema
from dpforest.forest.tree import Forest
from dpforest.parts.postprocess import plain_shares
from dpforest.parts.voting import Majority, MeanOfShares
from dpforest.records.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

TARGET = Classes(["no", "yes"])
DOMAIN = Domain.of(Schema({"x": Numeric(0, 2), "c": Categorical(["a"])}, TARGET), Grid(2))
# Codes of x: below 1, from 1 on, missing.
ROUTE_X, ROUTE_C = [0, 1, 1], [0, 1, 1]


def planted(*trees, variance=1.0):
    """A forest of nested trees, with sums of counts in its inner nodes."""
    return naive.plant(DOMAIN, TARGET, *trees, variance=variance).summed()


def voting(forest):
    """The forest with votes by the shares of its leaves."""
    forest = plain_shares(forest.summed())
    return replace(forest, votes=MeanOfShares().votes(forest))


def hand_made(n_trees=3, seed=0, schema=TWO):
    """A forest of different small trees that vote."""
    domain, rng = Domain.of(schema, Grid(6)), np.random.default_rng(seed)
    trees = []
    for index in range(n_trees):
        feature = int(rng.integers(domain.n_features))
        route = rng.integers(0, 2, size=domain.n_codes[feature]).tolist()
        trees.append((feature, [0, 1, *route[2:]], [[9, 1], [1, 9]] if index % 2 else [[2, 8], [7, 3]]))
    forest = plain_shares(naive.plant(domain, schema.target, *trees).summed())
    return replace(forest, votes=Majority().votes(forest))


def counter_of(n_rows, seed=6, schema=TWO):
    """A counter of the first records of a random table."""
    domain, codes, labels = random_table(schema, Grid(6), 2000, seed)
    return MemoryCounter(codes[:, :n_rows], labels[:n_rows], domain, schema.target)


def assert_same_forest(one, other):
    """Two forests have the same trees, counts and votes."""
    for field in fields(Forest):
        if field.name not in ("domain", "target"):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


def assert_sound(forest):
    """Numbered level by level, roots first, links agree."""
    assert forest.parents[: forest.n_trees].tolist() == [-1] * forest.n_trees
    assert forest.trees[: forest.n_trees].tolist() == list(range(forest.n_trees))
    assert (np.diff(forest.levels) >= 0).all()
    assert sorted(forest.splits[~forest.is_leaf]) == list(range(len(forest.routes)))
    for node in range(forest.n_trees, forest.n_nodes):
        parent = forest.parents[node]
        siblings = np.flatnonzero(forest.parents == parent)
        assert siblings.tolist() == list(range(siblings[0], siblings[-1] + 1))
        assert forest.first_children[parent] == siblings[0]
        assert forest.trees[node] == forest.trees[parent]
        assert forest.levels[node] == forest.levels[parent] + 1
