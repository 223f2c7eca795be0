"""Without noise, trees are dropped by their errors as the printed algorithm drops them."""

import math

import numpy as np
import pytest
from tests.support.planted import counter_of, hand_made

from dpforest.audit.tape import TapeEntropy
from dpforest.growing.selective import SelectiveAggregation
from dpforest.privacy.accountants import Pure
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger


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
