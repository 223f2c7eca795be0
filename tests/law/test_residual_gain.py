"""The residual gain moves within its bound and reaches it; for two classes it says what the max operator says."""

import numpy as np
import pytest
from tests.support.targets import classes

from dpforest.parts.criteria import MaxOperator, Mixture, ResidualGain
from dpforest.privacy.base import Bound
from dpforest.records.base import MOST_WEIGHT

UNITS = (1, 2, MOST_WEIGHT)
CRITERIA = {"gain": ResidualGain(), "3gain": Mixture(((ResidualGain(), 3),))}


def shared(g, n_others, rng):
    """Ways in which the others of a class can share -g: one has it all, all have alike, or at random."""
    yield from -g * np.eye(n_others, dtype=int)
    yield -np.bincount(np.arange(g) % n_others, minlength=n_others)
    yield -rng.multinomial(g, rng.dirichlet(np.ones(n_others)))


def addable(n_classes, unit, rng):
    """What a record can add to its child, ``(n, n_classes + 1)``: residuals of all classes, and its weight."""
    records = [
        [*np.insert(others, label, g), weight]
        for label in range(n_classes)
        for g in sorted({0, 1, unit // 3, unit - 1, unit})
        for others in shared(g, n_classes - 1, rng)
        for weight in sorted({g, unit})
    ]
    return np.array(records, dtype=np.int64)


def node_tables(records, rng):
    """Children ``(n, 2, n_classes + 1)``: no record, each alone, sums of few and of many, and any large numbers."""
    alone = np.zeros((len(records) + 1, 2, records.shape[1]), dtype=np.int64)
    alone[1:, 0] = records
    few, many = (rng.poisson(rate, (300, 2, len(records))) @ records for rate in (2 / len(records), 1e6))
    large = rng.integers(-(10**13), 10**13, (300, 2, records.shape[1]))
    return np.concatenate([alone, few, many, large])


def moves_of(criterion, n_classes, unit):
    """How each record that can be added to either child moves the score of each table."""
    rng = np.random.default_rng(n_classes)
    records, target = addable(n_classes, unit, rng), classes(n_classes)
    tables, moves = node_tables(records, rng), []
    before = criterion.score(tables, target)
    for record in records:
        for child in range(2):
            more = tables.copy()
            more[:, child] += record
            moves.append(criterion.score(more, target) - before)
    return np.concatenate(moves)


def is_within(moves, bound):
    return bool(bound.low <= moves.min() and moves.max() <= bound.high)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("name", CRITERIA)
def test_a_record_of_any_residuals_moves_the_gain_within_its_bound_and_reaches_it(name, n_classes, unit):
    moves, bound = moves_of(CRITERIA[name], n_classes, unit), CRITERIA[name].bound(unit)
    assert moves.dtype == np.int64
    assert is_within(moves, bound)
    assert (moves.min(), moves.max()) == (bound.low, bound.high)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_bound_that_is_a_tenth_too_small_on_either_side_is_broken(n_classes):
    moves, less = moves_of(ResidualGain(), n_classes, MOST_WEIGHT), MOST_WEIGHT * 9 // 10
    assert not is_within(moves, Bound(-less, MOST_WEIGHT))
    assert not is_within(moves, Bound(-MOST_WEIGHT, less))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("name", CRITERIA)
def test_two_splits_of_one_node_reach_the_whole_width(name, n_classes, unit):
    # One child has a record of the first class, the other one of the second; both were taken for each other.
    criterion, target = CRITERIA[name], classes(n_classes)
    apart = np.zeros((2, n_classes + 1), dtype=np.int64)
    apart[0, [0, 1, -1]], apart[1, [0, 1, -1]] = [unit, -unit, unit], [-unit, unit, unit]
    with_other, with_own = apart.copy(), apart.copy()
    with_other[0] += apart[1]
    with_own[1] += apart[1]
    moves = [criterion.score(after, target) - criterion.score(apart, target) for after in (with_other, with_own)]
    assert moves[1] - moves[0] == criterion.bound(unit).width


def test_the_gain_is_the_sum_of_what_leans_to_a_class():
    rng = np.random.default_rng(1)
    for children in rng.integers(-50, 50, (100, 3, 5)).tolist():
        expected = sum(max(lean, 0) for *leans, _ in children for lean in leans)
        assert ResidualGain().score(np.array(children), classes(4)) == expected


def test_the_gain_of_two_classes_is_twice_the_max_operator_less_the_weight_of_the_node():
    weights = np.random.default_rng(2).integers(0, 10**9, (500, 2, 2))
    weights[::5, 0] = 0
    lead = weights[..., 1] - weights[..., 0]
    children = np.stack([-lead, lead, weights.sum(axis=2)], axis=2)
    expected = 2 * MaxOperator().score(weights, classes(2)) - weights.sum(axis=(1, 2))
    assert (ResidualGain().score(children, classes(2)) == expected).all()
