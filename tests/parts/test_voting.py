"""Each vote adds to the prediction what it promises, on forests small enough to count by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from tests.support import naive
from tests.support.strategies import FIXED, classes, forests

from dpforest import Bounded, Classes, Numeric, Schema
from dpforest.forest.tree import SCORE_STEPS
from dpforest.parts.postprocess import EvenShrinkage, plain_shares
from dpforest.parts.voting import ConfidenceWeighted, LogShares, Majority, MeanOfShares, MostConfidentNode, PooledMargins
from dpforest.schema.domain import Domain, Grid

TARGET = Classes(["a", "b", "c"])
DOMAIN = Domain.of(Schema({"x": Numeric(0, 2)}, TARGET), Grid(2))
VOTES = [Majority(), MeanOfShares(), PooledMargins(), ConfidenceWeighted(), MostConfidentNode()]
LOW, HIGH = [0], [1]  # the codes of a record in the first and in the second bin


def two_trees():
    """For a low record the leaves hold 6:3:1 and 0:2:0; for a high one 1:1:3 and 2:2:1. The last node seems empty."""
    first = (0, [0, 1, 1], [[6, 3, 1], [1, 1, 3]])
    second = (0, [0, 1, 2], [[0, 2, 0], [2, 2, 1], [-1, 0, 0]])
    return plain_shares(naive.plant(DOMAIN, TARGET, first, second).summed())


def prediction(vote, record, forest=None):
    forest = forest or two_trees()
    return replace(forest, votes=vote.votes(forest)).vote(np.array([record], dtype=np.uint8).T)[0]


def test_majority_gives_each_tree_one_vote_for_the_commonest_class():
    np.testing.assert_allclose(prediction(Majority(), LOW), [1, 1, 0])
    # Of two classes that are equally common, the one that leads at the parent.
    np.testing.assert_allclose(prediction(Majority(), HIGH), [0, 1, 1])


def test_mean_of_shares_adds_the_class_shares_of_the_leaves():
    np.testing.assert_allclose(prediction(MeanOfShares(), LOW), [0.6, 0.3 + 1, 0.1], atol=1e-8)
    np.testing.assert_allclose(prediction(MeanOfShares(), HIGH), [0.2 + 0.4, 0.2 + 0.4, 0.6 + 0.2], atol=1e-8)


def test_pooled_margins_let_full_leaves_weigh_more():
    np.testing.assert_allclose(prediction(PooledMargins(), LOW), [6, 3 + 2, 1], atol=1e-7)
    np.testing.assert_allclose(prediction(PooledMargins(), HIGH), [1 + 2, 1 + 2, 3 + 1], atol=1e-7)


def test_pooled_margins_rank_classes_by_their_lead_over_an_even_split():
    forest = two_trees()
    for record, leaves in [(LOW, (2, 4)), (HIGH, (3, 5))]:
        lead = sum(forest.counts[leaf] - forest.counts[leaf].mean() for leaf in leaves)
        pooled = prediction(PooledMargins(), record)
        np.testing.assert_allclose(pooled - pooled.mean(), lead, atol=1e-7)


def test_a_leaf_that_seems_empty_weighs_as_one_record_in_pooled_margins():
    forest = two_trees()
    np.testing.assert_allclose(PooledMargins().votes(forest)[6], forest.shares[6])


def test_confidence_weighted_gives_the_commonest_class_its_share():
    np.testing.assert_allclose(prediction(ConfidenceWeighted(), LOW), [0.6, 1, 0], atol=1e-8)
    np.testing.assert_allclose(prediction(ConfidenceWeighted(), HIGH), [0, 0.4, 0.6], atol=1e-8)


def test_most_confident_node_takes_the_shares_of_the_surest_node_on_the_way():
    # The root is surer (8 of 10) than its child (2 of 4), which is less sure than its own child (4 of 4).
    tree = (0, [0, 1, 1], [(0, [0, 1, 1], [[4, 0, 0], [2, 1, 1]], [2, 1, 1]), [0, 0, 9]], [8, 1, 1])
    forest = plain_shares(naive.plant(DOMAIN, TARGET, tree))
    root = [0.8, 0.1, 0.1]
    np.testing.assert_allclose(MostConfidentNode().votes(forest), [root, root, [0, 0, 1], [1, 0, 0], root], atol=1e-8)


@FIXED
@given(forests(classes))
def test_most_confident_node_equals_its_twin(forest):
    forest = plain_shares(forest.summed())
    votes = MostConfidentNode().votes(forest)
    for record in naive.all_records(forest.domain)[::7]:
        for tree in range(forest.n_trees):
            way = naive.path(forest, tree, record)
            # Of equally sure nodes the deepest.
            surest = max(reversed(way), key=lambda node: forest.shares[node].max())
            np.testing.assert_allclose(votes[way[-1]], forest.shares[surest])


@pytest.mark.slow
@pytest.mark.parametrize("vote", VOTES, ids=repr)
def test_votes_are_never_negative_and_never_all_zero(vote):
    @FIXED
    @given(forests())
    def check(forest):
        votes = vote.votes(plain_shares(forest.summed()))
        assert votes.shape == forest.counts.shape
        assert (votes >= 0).all()
        assert (votes.sum(axis=1) > 0).all()

    check()


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_log_shares_are_centred_logarithms_in_whole_steps(rate):
    forest = EvenShrinkage().refine(two_trees())
    votes = LogShares(rate).votes(forest)
    assert (votes * SCORE_STEPS == np.rint(votes * SCORE_STEPS)).all()
    logs = np.log(forest.shares)
    np.testing.assert_allclose(votes, rate * (logs - logs.mean(axis=1, keepdims=True)), atol=0.5 / SCORE_STEPS)
    # Leads of one class over another are log-odds times the rate.
    odds = rate * np.log(forest.shares[:, 0] / forest.shares[:, 1])
    np.testing.assert_allclose(votes[:, 0] - votes[:, 1], odds, atol=1 / SCORE_STEPS)


def test_one_tree_of_log_shares_predicts_the_shares_of_its_leaf():
    tree = (0, [0, 1, 1], [[6, 3, 1], [1, 1, 3]])
    forest = EvenShrinkage().refine(plain_shares(naive.plant(DOMAIN, TARGET, tree).summed()))
    forest = replace(forest, votes=LogShares(1.0).votes(forest), link=LogShares.link)
    codes = np.array([[0, 1]], dtype=np.uint8)
    np.testing.assert_allclose(forest.predict(codes), forest.shares[1:], rtol=2 / SCORE_STEPS)


def test_the_mean_of_a_bounded_target_is_the_share_of_high():
    tree = (0, [0, 1, 1], [[3, 1], [1, 4]])
    forest = plain_shares(naive.plant(DOMAIN, Bounded(0, 10), tree).summed())
    np.testing.assert_allclose(prediction(MeanOfShares(), LOW, forest), [0.75, 0.25], atol=1e-8)
    np.testing.assert_allclose(prediction(MeanOfShares(), HIGH, forest), [0.2, 0.8], atol=1e-8)
