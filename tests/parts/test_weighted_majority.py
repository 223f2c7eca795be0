"""The score F_Max is its formula, also for huge counts."""

import itertools

import numpy as np
from tests.support.planted import TARGET

from dpforest.parts.criteria import WeightedMajority


def test_the_weighted_majority_is_its_formula_rounded_down_in_each_child():
    tables = np.array(list(itertools.product(range(5), repeat=4))).reshape(-1, 2, 2)
    scores = WeightedMajority().score(tables, TARGET)
    exact = [sum(64 * max(child) ** 2 // max(sum(child), 1) for child in table) for table in tables.tolist()]
    assert scores.tolist() == exact


def test_huge_counts_do_not_overflow_the_weighted_majority():
    for table in np.random.default_rng(15).integers(0, 2**30, size=(200, 2, 2)):
        exact = sum(64 * max(child) ** 2 // sum(child) for child in table.tolist())
        assert int(WeightedMajority().score(table, TARGET)) == exact
