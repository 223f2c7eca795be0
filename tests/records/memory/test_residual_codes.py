"""After residuals are spread, records add them to the cells of their codes, with their sign, until they are dealt again."""

import numpy as np
import pytest
from tests.support import naive
from tests.support.encoded import opened
from tests.support.strategies import put_at, random_codes, scored_counter
from tests.support.targets import classes

from dpforest import Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.mechanisms import Entropy
from dpforest.records.base import MOST_WEIGHT, AllTrees
from dpforest.schema.domain import Domain, Grid

FAR = 1 << 29


def spread_table(n_classes, n_features=3, n_records=60, seed=0):
    """Records at some of five nodes, with their residuals spread, and what each of them adds."""
    rng, target = np.random.default_rng(seed), classes(n_classes)
    domain = Domain.of(Schema({f"x{k}": Numeric(0, 1 + k, integer=True) for k in range(n_features)}, target), Grid())
    labels, scores = rng.integers(0, n_classes, n_records), rng.integers(-2000, 2000, (n_records, n_classes))
    nodes, codes = rng.integers(0, 5, n_records), random_codes(domain, n_records, rng)
    counter = scored_counter(target, labels, scores, nodes, codes, domain)
    counter.spread_residuals()
    residuals = [naive.whole_residuals(*record) for record in zip(scores.tolist(), labels.tolist(), strict=True)]
    return counter, np.array(residuals), labels, nodes


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("n_features", range(1, 10))
def test_residuals_of_any_number_of_features_are_summed_together(n_features, n_classes):
    counter, residuals, _, nodes = spread_table(n_classes, n_features)
    wanted = np.random.default_rng(n_features).random((3, n_features)) < 0.7
    expected = naive.sum_residual_codes(counter._codes, counter.domain, residuals, [nodes], 1, wanted)
    assert opened(counter.count_codes(1, wanted)).tolist() == expected


@pytest.mark.parametrize("n_features", [1, 4, 5])
def test_a_residual_as_far_below_zero_as_it_can_be_keeps_its_sign(n_features):
    target = classes(3)
    domain = Domain.of(Schema({f"x{k}": Numeric(0, 1) for k in range(n_features)}, target), Grid(2))
    codes = np.ones((n_features, 3), dtype=domain.dtype)
    codes[:, 2] = 0
    counter = scored_counter(target, [1, 1, 2], [[FAR, -FAR, -FAR]] * 3, codes=codes, domain=domain)
    counter.spread_residuals()
    sums = opened(counter.count_codes(0, np.ones((1, n_features), dtype=bool)))[0]
    first, second = [-MOST_WEIGHT, 0, MOST_WEIGHT, MOST_WEIGHT], [-2 * MOST_WEIGHT, 2 * MOST_WEIGHT, 0, 2 * MOST_WEIGHT]
    assert sums.tolist() == [first, second, [0] * 4] * n_features


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_codes_of_a_feature_sum_to_the_residuals_of_their_node(n_classes):
    counter, residuals, _, nodes = spread_table(n_classes)
    by_code, by_node = opened(counter.count_codes(0, np.ones((5, 3), dtype=bool))), opened(counter.sum_residuals(0, 5))
    for begin, end in zip(counter.domain.offsets[:-1], counter.domain.offsets[1:], strict=True):
        assert (by_code[:, begin:end].sum(axis=1) == by_node).all()
    assert by_node.tolist() == [residuals[nodes == node].sum(axis=0).tolist() for node in range(5)]


def test_the_residuals_of_two_classes_are_the_lead_and_the_sum_of_weights():
    counter, _, _, nodes = spread_table(2)
    wanted = np.ones((5, 3), dtype=bool)
    residuals = opened(counter.count_codes(0, wanted))
    put_at(counter, nodes).weigh_residuals()
    no, yes = np.moveaxis(opened(counter.count_codes(0, wanted)), 2, 0)
    assert (residuals == np.stack([no - yes, yes - no, no + yes], axis=2)).all()


@pytest.mark.parametrize("is_weighted", [False, True])
def test_records_with_spread_residuals_count_once_in_their_nodes(is_weighted):
    counter, _, labels, nodes = spread_table(3)
    if is_weighted:
        put_at(counter, nodes).weigh_residuals()
        counter.spread_residuals()
    assert (counter.most_per_feature, counter.most_per_node, counter.code_width) == (MOST_WEIGHT, 1, 4)
    expected = [[int(((nodes == node) & (labels == c)).sum()) for c in range(3)] for node in range(5)]
    assert opened(counter.count_nodes(0, 5)).tolist() == expected


def test_dealing_again_forgets_residuals():
    counter, _, labels, _ = spread_table(3)
    counter.deal(AllTrees(1), Entropy(0))
    assert (counter.most_per_feature, counter.most_per_node, counter.code_width) == (1, 1, 3)
    counts = opened(counter.count_codes(0, np.ones((1, 3), dtype=bool)))
    begin, end = counter.domain.offsets[:2]
    assert counts[0, begin:end].sum(axis=0).tolist() == np.bincount(labels, minlength=3).tolist()


@pytest.mark.parametrize("n_trees", [2, 3])
def test_records_of_several_trees_have_no_residuals_to_spread(n_trees):
    counter, *_ = spread_table(2)
    counter.deal(AllTrees(n_trees), Entropy(0))
    with pytest.raises(ParameterError, match="one tree at a time"):
        counter.spread_residuals()
    assert (counter.most_per_feature, counter.code_width) == (1, 2)
