"""Each vote adds to the prediction what it promises, on forests small enough to count by hand."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from scipy import stats
from tests.support import naive
from tests.support.chances import FAILURE
from tests.support.planted import voting
from tests.support.strategies import FIXED, TWO, classes, forests, mixed_table, recipe_of

from dpforest import Bounded, Classes, DPForestClassifier, Numeric, Schema, load_model
from dpforest.forest.tree import SCORE_STEPS
from dpforest.parts.postprocess import EvenShrinkage, plain_shares
from dpforest.parts.voting import (
    ConfidenceWeighted,
    LogShares,
    Majority,
    MeanOfShares,
    MostConfidentNode,
    PooledMargins,
    ProbabilisticAverage,
)
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


# Of two classes that are equally common in a leaf, the one that leads at the parent has the majority.
BY_HAND = [
    (Majority(), [1, 1, 0], [0, 1, 1]),
    (MeanOfShares(), [0.6, 0.3 + 1, 0.1], [0.2 + 0.4, 0.2 + 0.4, 0.6 + 0.2]),
    (PooledMargins(), [6, 3 + 2, 1], [1 + 2, 1 + 2, 3 + 1]),
    (ConfidenceWeighted(), [0.6, 1, 0], [0, 0.4, 0.6]),
]


@pytest.mark.parametrize(("vote", "low", "high"), BY_HAND, ids=str)
def test_votes_of_two_trees_are_those_by_hand(vote, low, high):
    np.testing.assert_allclose(prediction(vote, LOW), low, atol=1e-7)
    np.testing.assert_allclose(prediction(vote, HIGH), high, atol=1e-7)


def test_a_leaf_that_seems_empty_weighs_as_one_record_in_pooled_margins():
    forest = two_trees()
    np.testing.assert_allclose(PooledMargins().votes(forest)[6], forest.shares[6])


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


# --- labels that are drawn by their shares --------------------------------------------------------------------------

CUBE = Schema({name: Numeric(0, 1) for name in "abc"}, Classes(["low", "mid", "high"]))


def cube_model():
    """A model whose single leaf holds shares 0.2, 0.3 and 0.5, and a record of every cell of its domain."""
    middles = (np.arange(16) + 0.5) / 16
    X = np.array(list(itertools.product(middles, repeat=3)))
    recipe = recipe_of(vote=ProbabilisticAverage(), grid=Grid(16), depth=1)
    model = DPForestClassifier(CUBE, math.inf, recipe=recipe, random_state=0).fit(X[:9], ["low"] * 9)
    leaf = voting(naive.plant(model.forest_.domain, CUBE.target, [2, 3, 5]))
    model.forest_ = replace(leaf, draws=True)
    return model, X


def test_probabilistic_averaging_draws_labels_by_their_shares():
    model, X = cube_model()
    np.testing.assert_allclose(model.predict_proba(X[:5]), [[0.2, 0.3, 0.5]] * 5, atol=1e-8)
    predicted = model.predict(X)
    seen = [int((predicted == label).sum()) for label in ("low", "mid", "high")]
    assert stats.chisquare(seen, np.array([0.2, 0.3, 0.5]) * len(X)).pvalue > FAILURE


def test_a_record_gets_the_same_label_each_time_alone_and_in_any_company():
    model, X = cube_model()
    indices = np.random.default_rng(4).permutation(len(X))[:60]
    together = model.predict(X)
    assert (model.predict(X[indices]) == together[indices]).all()
    assert [model.predict(X[[index]])[0] for index in indices[:20]] == together[indices[:20]].tolist()


def test_a_class_without_a_share_is_never_drawn():
    model, X = cube_model()
    for shares in ([0, 4, 0], [1, 0, 0], [0, 0, 2], [3, 0, 1]):
        model.forest_ = replace(model.forest_, votes=np.array([shares], dtype=float))
        drawn = set(model.predict(X).tolist())
        assert drawn == {label for label, share in zip(("low", "mid", "high"), shares, strict=True) if share}


@pytest.mark.parametrize("vote", ["probabilistic", "majority", "threshold"])
def test_a_saved_model_draws_labels_as_before_or_not_at_all(vote, tmp_path):
    X, y, _ = mixed_table(150, seed=2)
    model = DPForestClassifier(
        TWO, recipe="bojarski-2015", recipe_params={"vote": vote}, n_trees=3, max_depth=3, random_state=3
    ).fit(X, y)
    model.save(tmp_path / "m.dpf")
    back = load_model(tmp_path / "m.dpf")
    assert back.forest_.draws is model.forest_.draws is (vote == "probabilistic")
    assert (back.predict(X) == model.predict(X)).all()
    if vote != "probabilistic":
        assert (model.predict(X) == model.classes_[model.predict_proba(X).argmax(axis=1)]).all()
