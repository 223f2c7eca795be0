"""Post-processing makes released numbers better, pruning makes trees smaller, and each step does what its formula says."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.planted import DOMAIN, ROUTE_C, ROUTE_X, TARGET, planted
from tests.support.strategies import FIXED, SEEDS, TWO, classes, forests, mixed_table, recipe_of

from dpforest import Bounded, DPForestClassifier
from dpforest.parts.allocation import Uniform, spread
from dpforest.parts.postprocess import (
    Consistency,
    EvenShrinkage,
    LeastLeaf,
    NonNegative,
    Prune,
    PruneByGini,
    PruneBySignal,
    Shrinkage,
    plain_shares,
)
from dpforest.parts.voting import Majority


def small(leaf_a, leaf_b, leaf_c, **options):
    """A tree whose root splits on x, and its first child on c."""
    return naive.plant(DOMAIN, TARGET, (0, ROUTE_X, [(1, ROUTE_C, [leaf_a, leaf_b]), leaf_c]), **options)


def test_counts_below_zero_count_as_zero_in_shares_and_stay_as_released():
    forest = small([-3, 5], [0, -1], [2, 2]).summed()
    refined = NonNegative().refine(forest)
    assert refined.counts.tolist() == forest.counts.tolist()
    np.testing.assert_allclose(refined.shares[3:], [[0, 1], [0, 1]], atol=1e-8)


def test_the_size_of_a_leaf_is_never_below_its_lead_where_sizes_are_rough():
    # Leads -30, 20 and 0; sizes 10, 40 and -7.
    forest = small([20, -10], [10, 30], [-3.5, -3.5], variance=1.0).summed()
    forest = replace(forest, noise=np.array([[1.0, 1.0, 20.0]]))
    shares = EvenShrinkage(10.0).refine(forest).shares
    np.testing.assert_allclose(shares[[3, 4, 2]], [[40 / 50, 10 / 50], [20 / 60, 40 / 60], [0.5, 0.5]])


@FIXED
@given(forests())
def test_shares_of_every_node_sum_to_one_whatever_the_counts(forest):
    for step in (plain_shares, Shrinkage().refine, Shrinkage(0.1).refine):
        shares = step(forest.summed()).shares
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_plain_shares_are_those_of_the_counts_above_zero():
    shares = plain_shares(small([3, 1], [-2, 5], [1, 1]).summed()).shares
    np.testing.assert_allclose(shares, [[2 / 9, 7 / 9], [1 / 7, 6 / 7], [0.5, 0.5], [0.75, 0.25], [0, 1]], atol=1e-8)


def test_a_node_without_counts_above_zero_has_the_shares_of_its_parent_and_a_root_equal_ones():
    shares = plain_shares(small([3, 1], [-2, -5], [0, 0]).summed()).shares
    np.testing.assert_allclose(shares[[4, 2]], shares[[1, 0]])
    np.testing.assert_allclose(plain_shares(naive.plant(DOMAIN, TARGET, [-1, 0])).shares, [[0.5, 0.5]])


def test_shrinkage_pulls_each_node_towards_its_parent_by_its_noise():
    forest = small([8, 2], [-4, 1], [0, 0], variance=4.0).summed()
    shares = Shrinkage(strength=1.5).refine(forest).shares
    # Standard deviations: 2 at a leaf; sqrt(8) above two leaves; sqrt(12) above three.
    root_m, inner_m, leaf_m = 1.5 * np.sqrt(12), 1.5 * np.sqrt(8), 1.5 * 2
    root = (np.array([4, 3]) + root_m * np.array([0.5, 0.5])) / (7 + root_m)
    inner = (np.array([4, 3]) + inner_m * root) / (7 + inner_m)
    first_leaf = (np.array([8, 2]) + leaf_m * inner) / (10 + leaf_m)
    second_leaf = (np.array([0, 1]) + leaf_m * inner) / (1 + leaf_m)
    np.testing.assert_allclose(shares, [root, inner, root, first_leaf, second_leaf])


def test_shrinkage_without_noise_changes_nothing():
    forest = small([8, 2], [4, 1], [0, 3], variance=0.0).summed()
    np.testing.assert_allclose(Shrinkage(5.0).refine(forest).shares, plain_shares(forest).shares)


def test_shrinkage_without_noise_pulls_by_the_least_number_of_records():
    shares = Shrinkage(5.0, least=3.0).refine(small([8, 2], [4, 1], [0, 0], variance=0.0).summed()).shares
    root = (np.array([12, 3]) + 3 * np.array([0.5, 0.5])) / 18
    inner = (np.array([12, 3]) + 3 * root) / 18
    leaves = [(np.array(counts) + 3 * inner) / (sum(counts) + 3) for counts in ([8, 2], [4, 1])]
    np.testing.assert_allclose(shares, [root, inner, root, *leaves])


def test_shrinkage_pulls_by_its_noise_where_that_is_more_than_the_least():
    # Twice the standard deviations are 4 at a leaf, and 5.66 and 6.93 above two and three of them.
    forest = small([8, 2], [-4, 1], [0, 0], variance=4.0).summed()
    by_noise, in_between = (Shrinkage(2.0, least=least).refine(forest).shares for least in (4.0, 5.0))
    np.testing.assert_array_equal(by_noise, Shrinkage(2.0).refine(forest).shares)
    np.testing.assert_array_equal(in_between[:2], by_noise[:2])
    leaf = (np.array([8, 2]) + 5 * by_noise[1]) / 15
    np.testing.assert_allclose(in_between[3], leaf)


def below(forest):
    """``[node, leaf]``: whether the leaf is at the node or below."""
    leaves = np.flatnonzero(forest.is_leaf)
    table = np.zeros((forest.n_nodes, len(leaves)))
    for column, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            table[node, column] = 1
            node = forest.parents[node]
    return table


def least_squares(forest, released):
    """The best linear unbiased estimate of all counts: a matrix on the released counts [hay2010]."""
    table, weights = below(forest), np.where(released, 1 / forest.variances, 0)
    return table @ np.linalg.solve(table.T @ (weights[:, None] * table), table.T * weights)


@st.composite
def noisy_forests(draw):
    """Structures of up to three levels with a variance of its own for each node."""
    forest, rng = draw(forests(classes)), np.random.default_rng(draw(SEEDS))
    return replace(forest, variances=rng.uniform(0.5, 5, size=forest.n_nodes))


def consistency_matrix(forest):
    """What the step does to counts, which is linear: its result on each unit vector."""
    return Consistency().refine(replace(forest, counts=np.eye(forest.n_nodes))).counts


@FIXED
@given(noisy_forests())
def test_consistency_is_the_unbiased_estimate_of_least_variance_and_states_no_less_than_is_there(forest):
    matrix, table = consistency_matrix(forest), below(forest)
    for node in np.flatnonzero(~forest.is_leaf):
        np.testing.assert_allclose(matrix[node], matrix[forest.parents == node].sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(matrix @ table, table, atol=1e-9)
    np.testing.assert_allclose(matrix, least_squares(forest, np.ones(forest.n_nodes, dtype=bool)), atol=1e-9)
    variances = np.square(matrix) @ forest.variances
    assert (variances <= forest.variances * (1 + 1e-9)).all()
    assert (variances <= Consistency().refine(forest).variances * (1 + 1e-9)).all()


@FIXED
@given(forests(classes))
def test_consistency_changes_nothing_where_there_is_no_noise(forest):
    exact = replace(forest.summed(), variances=np.zeros(forest.n_nodes))
    np.testing.assert_allclose(Consistency().refine(exact).counts, exact.counts)


class RootAndLeaves:
    """Releases counts of the root and of the leaves, of no level between."""

    def plan(self, amount, depth):
        return spread(amount, [1] * depth, [1, *[0] * (depth - 1), 1])


def fitted(allocate, refine, seed=4):
    """The same noise for the same allocation and seed, whatever is refined."""
    X, y, _ = mixed_table(200, seed=3)
    recipe = recipe_of(allocate=allocate, refine=refine, depth=3)
    return DPForestClassifier(TWO, epsilon=0.5, recipe=recipe, random_state=seed).fit(X, y).forest_


ALLOCATIONS = {
    "all levels": (Uniform(count_share=0.5), lambda forest: forest.levels >= 0),
    "root and leaves": (RootAndLeaves(), lambda forest: forest.is_leaf | (forest.parents < 0)),
    "leaves": (Uniform(), lambda forest: forest.is_leaf),
}


@pytest.mark.parametrize(("allocate", "released_in"), ALLOCATIONS.values(), ids=ALLOCATIONS)
def test_consistency_of_a_fitted_forest_is_the_best_estimate_from_the_levels_that_were_released(allocate, released_in):
    before, after = fitted(allocate, ()), fitted(allocate, (Consistency(),))
    matrix = least_squares(before, released_in(before))
    np.testing.assert_allclose(after.counts, matrix @ np.where(released_in(before)[:, None], before.counts, 0), atol=1e-9)
    assert (after.variances >= np.square(matrix) @ before.variances * (1 - 1e-9)).all()


def test_shares_and_votes_after_consistency_are_those_of_the_merged_counts():
    forest = fitted(Uniform(count_share=0.5), (Consistency(),))
    expected = plain_shares(forest).shares
    np.testing.assert_allclose(forest.shares, expected)
    np.testing.assert_allclose(forest.votes, expected)


def majority_of(forest, record):
    return int(np.argmax(naive.votes(replace(forest, votes=Majority().votes(forest)), record)))


@FIXED
@given(forests(classes, depth=4))
def test_pruning_changes_no_majority_vote(forest):
    forest = plain_shares(forest.summed())
    pruned = Prune().refine(forest)
    for record in naive.all_records(forest.domain)[::7]:
        for tree in range(forest.n_trees):
            before, after = naive.path(forest, tree, record)[-1], naive.path(pruned, tree, record)[-1]
            assert forest.shares[before].argmax() == pruned.shares[after].argmax()
        assert majority_of(forest, record) == majority_of(pruned, record)


@FIXED
@given(forests(classes, depth=4))
def test_pruning_leaves_no_split_below_which_all_agree_and_drops_no_other(forest):
    forest = plain_shares(forest.summed())
    pruned = Prune().refine(forest)
    assert pruned.n_trees == forest.n_trees

    def agree(tree, node):
        children = np.flatnonzero(tree.parents == node)
        winner = tree.shares[node].argmax()
        return all(tree.shares[child].argmax() == winner and agree(tree, child) for child in children)

    assert not any(agree(pruned, node) for node in np.flatnonzero(~pruned.is_leaf))
    n_kept = sum(not agree(forest, node) for node in np.flatnonzero(~forest.is_leaf))
    assert (~pruned.is_leaf).sum() == n_kept


def test_even_shrinkage_pulls_each_node_towards_equal_shares_by_its_noise():
    forest = EvenShrinkage(2.0).refine(small([8, 0], [-3, 5], [0, 0], variance=9.0).summed())
    released = forest.is_leaf
    assert forest.variances[released].tolist() == [9.0] * 3
    for counts, shares in zip(forest.counts[released], forest.shares[released], strict=True):
        raw = [max(counts[0], 0) + 6, max(counts[1], 0) + 6]
        np.testing.assert_allclose(shares, np.array(raw) / sum(raw))
    empty = forest.counts[:, 0] + forest.counts[:, 1] == 0
    assert empty.any()
    np.testing.assert_allclose(forest.shares[empty], 0.5)


def test_even_shrinkage_adds_five_records_of_each_class_where_there_is_no_noise():
    forest = EvenShrinkage().refine(small([8, 0], [0, 0], [1, 3], variance=0.0).summed())
    leaves = [[13 / 18, 5 / 18], [1 / 2, 1 / 2], [6 / 14, 8 / 14]]
    np.testing.assert_allclose(sorted(forest.shares[forest.is_leaf].tolist()), sorted(leaves))


@FIXED
@given(forests(classes))
def test_no_share_is_zero_after_even_shrinkage(forest):
    shares = EvenShrinkage().refine(forest.summed()).shares
    assert (shares > 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_a_bounded_target_is_not_pruned():
    forest = plain_shares(naive.plant(DOMAIN, Bounded(0, 1), (0, ROUTE_X, [[1, 3], [1, 3]])).summed())
    assert Prune().refine(forest) is forest


@pytest.mark.parametrize("step", [NonNegative(), Consistency(), Shrinkage(), EvenShrinkage(), Prune()], ids=repr)
def test_no_step_changes_the_forest_it_was_given(step):
    forest = plain_shares(small([-8, 2], [4, 1], [-1, 3]).summed())
    before = {name: getattr(forest, name).copy() for name in ("counts", "variances", "shares", "routes", "parents")}
    step.refine(forest)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(forest, name), value)


@pytest.mark.parametrize(
    "step", [NonNegative(), Consistency(), Shrinkage(), EvenShrinkage()], ids=lambda s: type(s).__name__
)
@FIXED
@given(forests())
def test_a_step_that_gives_shares_does_so_whatever_they_were_before(step, forest):
    assert step.gives_shares
    forest = forest.summed()
    others = [replace(forest, shares=np.empty((0, 0))), plain_shares(forest)]
    assert len({step.refine(each).shares.tobytes() for each in others}) == 1


# --- pruning ---------------------------------------------------------------------------------------------------------


def test_gini_pruning_closes_a_split_whose_children_are_no_purer_on_average():
    useful, idle = (0, ROUTE_X, [[9, 1], [1, 9]], [10, 10]), (0, ROUTE_X, [[5, 5], [6, 6]], [11, 11])
    forest = PruneByGini().refine(planted(useful, idle))
    assert forest.counts.tolist() == [[10, 10], [11, 11], [9, 1], [1, 9]]


def test_a_split_with_a_child_below_the_least_leaf_is_undone_with_all_that_is_below_it():
    large, small = (1, ROUTE_C, [[20, 20], [9, 1]]), (1, ROUTE_C, [[20, 25], [4, 1]])
    # The least leaf is a tenth of 100 records: of the second tree one child of the small node has five.
    forest = planted((0, ROUTE_X, [large, [25, 25]]), (0, ROUTE_X, [small, [25, 25]]), (0, ROUTE_X, [small, [-2, 2]]))
    kept = LeastLeaf(0.1).refine(forest)
    assert kept.counts[kept.is_leaf & (kept.trees == 0)].tolist() == [[25, 25], [20, 20], [9, 1]]
    assert kept.counts[kept.is_leaf & (kept.trees == 1)].tolist() == [[24, 26], [25, 25]]
    # The third tree's root has a child without records.
    assert kept.counts[kept.trees == 2].tolist() == [[22, 28]]
    assert LeastLeaf(0).refine(forest).n_nodes == forest.n_nodes


def kept_paths(forest, is_idle):
    """Nodes left when a node over leaves is closed wherever ``is_idle(node, children)``, one node at a time."""
    children = {node: np.flatnonzero(forest.parents == node).tolist() for node in range(forest.n_nodes)}
    for node in reversed(range(forest.n_nodes)):
        below = children[node]
        if below and not any(children[child] for child in below) and is_idle(node, below):
            children[node] = []
    kept, ahead = [], list(range(forest.n_trees))
    while ahead:
        kept.append(ahead.pop(0))
        ahead += children[kept[-1]]
    return kept


@FIXED
@given(forests(classes), st.sampled_from([0.0, 0.5, 1.0, 3.0]))
def test_pruning_by_signal_equals_its_twin(forest, least):
    forest = plain_shares(forest.summed())
    children = {node: np.flatnonzero(forest.parents == node).tolist() for node in range(forest.n_nodes)}

    def leaves(node):
        return [leaf for child in children[node] for leaf in leaves(child)] or [node]

    def ratio(node):
        below = leaves(node)
        noise = forest.counts.shape[1] * math.sqrt(forest.variances[below].mean() * len(below))
        return forest.counts[below].sum() / max(noise, 1e-9)

    ratios = [ratio(node) for node in range(forest.n_nodes)]
    assume(all(abs(value - least) > 1e-6 for value in ratios))
    kept, shares, ahead = [], [], [(node, forest.shares[node], True) for node in range(forest.n_trees)]
    while ahead:
        node, says, stays = ahead.pop(0)
        kept.append(node)
        shares.append(says.tolist())
        below = children[node] if stays and any(ratios[child] >= least for child in children[node]) else []
        for child in below:
            stays = ratios[child] >= least
            ahead.append((child, forest.shares[child if stays else node], stays))
    pruned = PruneBySignal(least).refine(forest)
    assert pruned.counts.tolist() == forest.counts[kept].tolist()
    assert pruned.shares.tolist() == shares


@FIXED
@given(forests(classes))
def test_pruning_by_gini_equals_its_twin(forest):
    forest = forest.summed()
    counts = [[Fraction(max(0, int(count))) for count in row] for row in forest.counts]

    def gini(node):
        size = sum(counts[node])
        return 1 - sum((count / size) ** 2 for count in counts[node]) if size else Fraction(1)

    def gain(node, below):
        return sum(sum(counts[child]) * (gini(child) - gini(node)) for child in below)

    inner = [(node, np.flatnonzero(forest.parents == node)) for node in np.flatnonzero(~forest.is_leaf)]
    # A tie may fall either way in floats, unless both sides are nothing.
    assume(all(gain(*pair) or not sum(sum(counts[child]) for child in pair[1]) for pair in inner))
    pruned = PruneByGini().refine(forest)
    kept = kept_paths(forest, lambda node, below: gain(node, below) >= 0)
    assert pruned.counts.tolist() == forest.counts[kept].tolist()
