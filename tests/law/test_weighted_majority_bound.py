"""The bound of the score F_Max, by brute force."""

import itertools

import numpy as np
import pytest

from dpforest import Classes
from dpforest.parts.criteria import WeightedMajority
from dpforest.parts.criteria.weighted_majority import UNITS


def all_tables(n_children, n_classes, most):
    """All tables of counts ``(n_tables, n_children, n_classes)`` with at most ``most`` records."""
    cells = itertools.product(range(most + 1), repeat=n_children * n_classes)
    return np.array([table for table in cells if sum(table) <= most]).reshape(-1, n_children, n_classes)


def moves(criterion, tables):
    """How adding one record to any cell moves the score of each table, ``(n_cells, n_tables)``."""
    target = Classes(list(range(tables.shape[2])))
    before = criterion.score(tables, target)
    cells = np.eye(tables.shape[1] * tables.shape[2], dtype=np.int64).reshape(-1, *tables.shape[1:])
    return np.array([criterion.score(tables + cell, target) - before for cell in cells])


@pytest.mark.parametrize("shape", [(2, 2, 14), (2, 3, 6), (3, 2, 7), (1, 4, 9)], ids=str)
def test_adding_any_record_to_any_small_table_moves_the_weighted_majority_by_at_most_one_record(shape):
    moved, bound = moves(WeightedMajority(), all_tables(*shape)), WeightedMajority().bound()
    assert (bound.low, bound.high) == (-UNITS, UNITS)
    assert moved.dtype == np.int64
    assert bound.low <= moved.min()
    assert moved.max() <= bound.high


def test_both_ends_of_the_bound_of_the_weighted_majority_are_nearly_reached_and_in_one_node():
    moved = moves(WeightedMajority(), all_tables(1, 2, 14))
    assert moved.max() == UNITS
    assert moved.min() < -0.9 * UNITS
    # Two splits of one node: the record joins a pure child of the other class, or an empty child.
    joins, alone = moves(WeightedMajority(), np.array([[[1000, 0], [0, 0]]]))[[1, 3], 0]
    assert alone - joins > 0.9 * WeightedMajority().bound().width


def test_the_weighted_majority_stays_within_its_bound_on_counts_of_up_to_a_billion():
    rng = np.random.default_rng(21)
    scale = 2.0 ** rng.uniform(0, 29, size=(20_000, 1, 1))
    moved = moves(WeightedMajority(), (rng.random((20_000, 2, 3)) * scale).astype(np.int64))
    assert np.abs(moved).max() <= UNITS
