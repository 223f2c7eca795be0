"""Trees are weighed or dropped by their errors on held-out records as the papers print it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from tests.support.planted import ROUTE_C, ROUTE_X, counter_of, hand_made, planted, voting
from tests.support.strategies import FIXED, SEEDS, TWO, classes, forests, mixed_table, recipe_of

from dpforest import DPForestClassifier
from dpforest.audit.tape import TapeEntropy
from dpforest.privacy.accountants import Pure
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.recipes.papers.guan_2020 import SelectiveAggregation
from dpforest.recipes.papers.li_2022 import OutOfBag, feature_weights, tree_errors


@FIXED
@given(forests(classes), SEEDS)
def test_feature_weights_are_positive_and_sum_to_one_whatever_the_noise(forest, seed):
    forest, rng = voting(forest), np.random.default_rng(seed)
    for low, high in [(-500, 500), (0, 1), (1, 9), (-9, 0)]:
        errors = tree_errors(rng.integers(low, high, (forest.n_trees, len(forest.target.labels), 2)))
        assert ((errors > 0) & (errors <= 1)).all()
        weights = feature_weights(forest, errors)
        assert weights.shape == (forest.domain.n_features,)
        assert (weights > 0).all()
        assert weights.sum() == pytest.approx(1)


def test_features_of_trees_with_few_errors_weigh_more():
    on_x, on_c = (0, ROUTE_X, [[9, 1], [1, 9]]), (1, ROUTE_C, [[9, 1], [1, 9]])
    forest = voting(planted(on_x, on_c))
    assert feature_weights(forest, np.array([0.1, 0.4])) == pytest.approx([4 / 5, 1 / 5])
    # Below a hundredth of the largest no weight falls, were it of a feature that no tree used.
    for some, errors in [(forest, [0.0001, 1.0]), (voting(planted(on_x)), [0.1])]:
        assert feature_weights(some, np.array(errors)) == pytest.approx([100 / 101, 1 / 101])


def test_the_error_of_a_tree_is_the_mean_of_the_rates_of_its_classes():
    # Right and wrong of 90 records of one class and 10 of the other: the second tree misses the small class.
    tested = np.array([[[81, 9], [9, 1]], [[90, 0], [0, 10]], [[0, 90], [0, 10]], [[90, 0], [10, 0]]])
    # The last makes no error: it gets the weight of one among the hundred records.
    assert tree_errors(tested).tolist() == pytest.approx([0.1, 0.5, 1.0, 0.01])


def test_the_sizes_of_classes_are_averaged_over_trees_and_a_class_that_seems_absent_says_nothing():
    noisy = np.array([[[30, 10], [4, -9], [1, 9]], [[28, 12], [-2, 3], [4, 6]]])
    assert tree_errors(noisy).tolist() == pytest.approx([(10 / 40 + 9 / 10) / 2, (12 / 40 + 6 / 10) / 2])


def test_the_weight_of_a_feature_is_the_sum_of_its_decreases_of_the_gini_index_whatever_the_sizes_of_nodes():
    # Of 1000 records, ten come to a node where the other feature divides them cleanly.
    small = (1, ROUTE_C, [[5, 0], [0, 5]], [5, 5])
    pure, even = 0.0, 0.5
    root = 1 - (495 / 1000) ** 2 - (505 / 1000) ** 2
    side = 1 - (490 / 990) ** 2 - (500 / 990) ** 2
    on_x, on_c = root - (10 * even + 990 * side) / 1000, even - pure
    forest = voting(planted((0, ROUTE_X, [small, [490, 500]], [495, 505]), (0, ROUTE_X, [[9, 1], [1, 9]])))
    # The second tree errs four times as often; trees whose decreases are small have a smaller say in eq. 9.
    expected = np.array([on_x / 0.1 + 0.32 / 0.4, on_c / 0.1])
    assert feature_weights(forest, np.array([0.1, 0.4])) == pytest.approx(expected / expected.sum())


def test_a_tree_of_the_second_stage_splits_on_one_feature_a_level_from_the_heaviest_down():
    X, y, _ = mixed_table(400, seed=5)
    stages = OutOfBag(n_first=3, n_features=4)
    model = DPForestClassifier(TWO, math.inf, recipe=recipe_of(stages=stages, n_trees=6, depth=3), random_state=2)
    forest = model.fit(X, y).forest_
    inner = ~forest.is_leaf

    def features_at(tree, level):
        return set(forest.features[inner & (forest.trees == tree) & (forest.levels == level)].tolist())

    used = [[features_at(tree, level) for level in range(3)] for tree in range(6)]
    for levels in used:
        assert all(len(features) <= 1 for features in levels)
        order = [feature for features in levels for feature in features]
        assert len(order) == len(set(order))
    # Here no feature is light enough to be left out, so all trees follow the same order.
    assert len({tuple(map(tuple, levels)) for levels in used}) == 1


def test_a_tree_draws_its_features_and_takes_them_from_the_heaviest_down():
    weights = np.array([0.05, 0.3, 0.1, 0.2, 0.35])
    drawn = set()
    for seed in range(50):
        drawn.add(tuple(OutOfBag(n_features=3)._order(weights, np.random.default_rng(seed)).tolist()))
    assert drawn == set(itertools.combinations([4, 1, 3, 2, 0], 3))


def test_a_feature_far_below_the_mean_is_removed_and_one_somewhat_below_it_is_left_out_where_others_are_drawn():
    # The first is 4.4 standard deviations below the mean, more than 3; then 2 below, between 1.5 and 3.
    far = np.array([0.01, *[0.0521] * 19])
    somewhat = np.array([0.01, 0.247, 0.247, 0.248, 0.248])
    for seed in range(30):
        rng = np.random.default_rng(seed)
        assert 0 not in OutOfBag(n_features=20)._order(far, rng)
        assert 0 not in OutOfBag(n_features=5)._order(somewhat, rng)
    # Where it is the only one drawn, a feature that is somewhat light is taken; one that was removed is never drawn.
    for weights, taken in [(somewhat, {0, 1, 2, 3, 4}), (far, set(range(1, 20)))]:
        rngs = map(np.random.default_rng, range(400))
        assert {int(OutOfBag(n_features=1)._order(weights, rng)[0]) for rng in rngs} == taken


# --- trees dropped by their errors ----------------------------------------------------------------------------------


def errors_of(forest, whole, trees):
    """Records that the majority of some trees gets wrong; the first class wins a tie."""
    choices = forest.choices(whole._codes)[sorted(trees)]
    votes = (choices[..., None] == np.arange(whole.target.n_values)).sum(axis=0)
    return int((votes.argmax(axis=1) != whole._target_codes).sum())


def aggregated(forest, whole, trees):
    """Algorithm 4.2, line by line; of a single tree it says nothing."""
    if len(trees) == 1:
        return set(trees)
    ensembles = [sorted(trees)]
    for _ in range(len(trees) - 1):
        smaller = [[tree for tree in ensembles[-1] if tree != dropped] for dropped in ensembles[-1]]
        ensembles.append(min(smaller, key=lambda trees: errors_of(forest, whole, trees)))
    return set(min(ensembles[1:], key=lambda trees: errors_of(forest, whole, trees)))


@pytest.mark.parametrize("subset_size", [7, 3, 2])
def test_without_noise_selective_aggregation_is_the_printed_algorithm_on_random_subsets(subset_size):
    differing = 0
    for seed in range(12):
        forest, whole = hand_made(7, seed), counter_of(80, seed)
        gate = Gate(Ledger(Pure(math.inf)), TapeEntropy(seed, extra_first=False))
        kept = SelectiveAggregation(subset_size=subset_size)._keep(forest, whole, math.inf, gate)
        order = TapeEntropy(seed, extra_first=False).generator().permutation(7)  # what the coins of the gate give first
        subsets = np.array_split(order, -(-7 // subset_size))
        expected = set().union(*(aggregated(forest, whole, subset.tolist()) for subset in subsets))
        assert set(np.flatnonzero(kept).tolist()) == expected
        differing += len(expected) not in (1, 7)
    assert differing
