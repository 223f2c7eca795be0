"""Bounds of criteria hold and are reached where records have weights, and are refused where there is no proof."""

import itertools

import numpy as np
import pytest
from tests.support.targets import NUMBER, classes

from dpforest.errors import AccountingError
from dpforest.parts.criteria import (
    Balance,
    EntropyCount,
    GiniCount,
    MaxOperator,
    Mixture,
    SoftAgreement,
    SquaredError,
    WeightedMajority,
)
from dpforest.records.base import MOST_WEIGHT

UNITS = (1, 2, MOST_WEIGHT)


WEIGHTED = {
    "max": MaxOperator(),
    "balance": Balance(),
    "3max+balance": Mixture(((MaxOperator(), 3), (Balance(), 1))),
    "nested": Mixture(((Mixture(((MaxOperator(), 2), (Balance(), 1))), 2), (MaxOperator(), 5))),
}
SIDED = {
    "soft agreement": SoftAgreement(),
    "2soft": Mixture(((SoftAgreement(), 2),)),
}


def weighted_tables(n_classes, unit):
    """Tables ``(n, 2, n_classes)`` of weights: all with few different cells, or random ones for many classes."""
    cells = sorted({0, 1, unit // 2, unit, 3 * unit + 1})
    if len(cells) ** (2 * n_classes) <= 20_000:
        return np.array(list(itertools.product(cells, repeat=2 * n_classes))).reshape(-1, 2, n_classes)
    rng = np.random.default_rng(n_classes)
    return np.concatenate(
        [rng.choice(cells, size=(15_000, 2, n_classes)), rng.integers(0, 10**7 * unit, size=(5_000, 2, n_classes))]
    )


def weighted_moves(criterion, target, n_columns, unit):
    """How a record of any weight up to ``unit``, in any cell, moves the score of each table."""
    tables, moves = weighted_tables(n_columns, unit), []
    before = criterion.score(tables, target)
    for child, column in np.ndindex(2, n_columns):
        for weight in sorted({0, 1, unit // 3, unit - 1, unit}):
            more = tables.copy()
            more[:, child, column] += weight
            moves.append(criterion.score(more, target) - before)
    return np.concatenate(moves)


def assert_bound_is_kept_and_reached(moves, bound):
    assert moves.dtype == np.int64
    assert bound.low <= moves.min()
    assert moves.max() <= bound.high
    # All of these can reach both ends of what they state.
    assert (moves.min(), moves.max()) == (bound.low, bound.high)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("name", WEIGHTED)
def test_a_record_of_any_weight_moves_a_weighted_score_within_its_bound_and_reaches_it(name, n_classes, unit):
    moves = weighted_moves(WEIGHTED[name], classes(n_classes), n_classes, unit)
    assert_bound_is_kept_and_reached(moves, WEIGHTED[name].bound(unit))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", SIDED)
def test_a_record_on_either_side_moves_the_agreement_within_its_bound_and_reaches_it(name, unit):
    moves = weighted_moves(SIDED[name], NUMBER, 2, unit)
    assert_bound_is_kept_and_reached(moves, SIDED[name].bound(unit))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", [*WEIGHTED, *SIDED])
def test_two_splits_of_one_node_reach_the_whole_width_of_a_weighted_score(name, unit):
    # Sides and classes are columns alike: the record, of the second kind, joins many of the first or its own few.
    criterion, target = (WEIGHTED | SIDED)[name], NUMBER if name in SIDED else classes(2)
    apart, together = np.array([[[9, 0], [0, 4]], [[9, 0], [0, 4]]]) * unit
    with_others, with_own = apart.copy(), together.copy()
    with_others[0, 1] += unit
    with_own[1, 1] += unit
    moves = [criterion.score(after, target) - criterion.score(apart, target) for after in (with_others, with_own)]
    assert moves[1] - moves[0] == criterion.bound(unit).width


# Gini nearly reaches its bound beside many records only; see also ``test_bounds.py``.
GINI = {"gini": GiniCount(), "gini+3max": Mixture(((GiniCount(), 1), (MaxOperator(), 3)))}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("name", GINI)
def test_a_record_of_any_weight_moves_gini_within_its_bound(name, n_classes, unit):
    moves, bound = weighted_moves(GINI[name], classes(n_classes), n_classes, unit), GINI[name].bound(unit)
    assert moves.dtype == np.int64
    assert bound.low <= moves.min()
    assert moves.max() <= bound.high


@pytest.mark.parametrize("name", [*WEIGHTED, *GINI])
def test_a_mixture_scales_its_bound_with_the_weight_of_a_record(name):
    criterion = (WEIGHTED | GINI)[name]
    one, many = criterion.bound(), criterion.bound(MOST_WEIGHT)
    assert (many.low, many.high) == (MOST_WEIGHT * one.low, MOST_WEIGHT * one.high)


UNWEIGHTED = {
    "entropy": EntropyCount(n_max=100),
    "squared error": SquaredError(),
    "weighted majority": WeightedMajority(),
    "mixture with entropy": Mixture(((EntropyCount(n_max=100), 1), (MaxOperator(), 2))),
    "mixture in a mixture": Mixture(((Mixture(((WeightedMajority(), 1), (Balance(), 1))), 1), (MaxOperator(), 2))),
}


@pytest.mark.parametrize("unit", [2, MOST_WEIGHT])
@pytest.mark.parametrize("name", UNWEIGHTED)
def test_a_criterion_without_a_proof_for_weights_refuses_them(name, unit):
    assert UNWEIGHTED[name].bound(1) == UNWEIGHTED[name].bound()
    with pytest.raises(AccountingError, match="no bound for weighted records"):
        UNWEIGHTED[name].bound(unit)


def test_soft_agreement_is_its_formula():
    rng = np.random.default_rng(1)
    for children in rng.integers(0, 50, size=(100, 2, 2)).tolist():
        (below_left, above_left), (below_right, above_right) = children
        expected = max(below_left + above_right, above_left + below_right)
        assert SoftAgreement().score(np.array(children), NUMBER) == expected


def test_the_max_operator_on_two_weighted_classes_is_half_the_weight_and_half_the_absolute_margins():
    tables = np.random.default_rng(2).integers(0, 10**9, size=(200, 2, 2))
    margins = np.abs(tables[..., 1] - tables[..., 0]).sum(axis=1)
    assert (2 * MaxOperator().score(tables, classes(2)) == tables.sum(axis=(1, 2)) + margins).all()
