"""What is pruned from a released forest: by the Gini index, by signal against noise, by the least leaf."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.planted import ROUTE_C, ROUTE_X, planted
from tests.support.strategies import FIXED, classes, forests

from dpforest.parts.postprocess import LeastLeaf, PruneByGini, PruneBySignal, plain_shares


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
