"""The order of several classes: what its look is at and costs, how far a record moves it, and what its trees add."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.support.encoded import facts_about
from tests.support.steps import CONSTANT, GRID, gate_of, plain_sums, recipe_with, run_steps, spent_on
from tests.support.strategies import THREE, mixed_table, random_codes
from tests.support.targets import classes

from dpforest import Categorical, DPForestClassifier, Numeric, Schema, load_model
from dpforest.errors import ParameterError
from dpforest.forest.tree import SCORE_STEPS
from dpforest.growing.linear import MOST, STEPS, USUAL, LinearScore, Order, class_weights, linear_maps
from dpforest.growing.sequential import Ensemble, Phase
from dpforest.parts.leaves import NoisyCounts
from dpforest.privacy.amounts import divide
from dpforest.privacy.bounds import Blocks
from dpforest.records.base import MOST_WEIGHT
from dpforest.schema.domain import Domain

MIXED = {"x": Numeric(0, 1), "free": Numeric(), "flag": Categorical([0, 1]), "city": Categorical(["a", "b", "c"])}
NO_MAP = {"only": Categorical(["a"]), "place": Categorical([f"p{k}" for k in range(100)])}
TREE = Phase(0.5, 1)
ORDER = Order(0.5)
DELTAS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])


def domain_of(features, n_classes=3):
    return Domain.of(Schema(features, classes(n_classes)), GRID)


def table_of(domain, n_records, n_classes, seed):
    """Random codes, and labels of which the last is the commonest, most of all where the first feature is high."""
    rng = np.random.default_rng(seed)
    codes = random_codes(domain, n_records, rng)
    is_last = rng.random(n_records) < np.where(codes[0] > 2, 0.8, 0.5)
    return codes, np.where(is_last, n_classes - 1, rng.integers(0, n_classes - 1, n_records))


def commonest_of(forest):
    """The class that has most records by the leaves of the first tree, none of which holds less than none; and its odds."""
    sums = [0.0] * forest.target.n_values
    for node in np.flatnonzero((forest.trees == 0) & forest.is_leaf):
        sums = [total + max(float(count), 0.0) for total, count in zip(sums, forest.counts[node], strict=True)]
    best = max(range(len(sums)), key=sums.__getitem__)
    return best, math.log((sums[best] + 1) / (math.fsum(sums) - sums[best] + 1))


def sums_of_order(domain, commonest, odds, codes, labels):
    """The sums of maps over records of the commonest class less those over all others, weighted."""
    return plain_sums(
        linear_maps(domain, GRID, True), class_weights(odds), codes, (labels == commonest).astype(int).tolist()
    )


def trees_of_order(forest, n_before=1):
    """The votes of the leaves of each tree that the order has added."""
    return [forest.votes[(forest.trees == tree) & forest.is_leaf] for tree in range(n_before, forest.n_trees)]


# --- the look -------------------------------------------------------------------------------------------------------


@DELTAS
@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("tree", [CONSTANT, TREE], ids=["constant", "tree"])
def test_the_look_is_at_the_commonest_class_against_the_rest_and_states_the_steps_times_the_weight(tree, n_classes, delta):
    domain = domain_of(MIXED, n_classes)
    codes, labels = table_of(domain, 80, n_classes, seed=1)
    fit = run_steps((tree, ORDER), domain, codes, labels, 5.0, delta, n_classes=n_classes)
    commonest, odds = commonest_of(fit.forest)
    assert commonest == n_classes - 1
    ((values, blocks),) = fit.gate.joint
    assert np.issubdtype(values.dtype, np.integer)
    assert values.tolist() == sums_of_order(domain, commonest, odds, codes, labels)
    assert class_weights(odds).max() == MOST_WEIGHT
    assert blocks == Blocks((1, 1, 1, 3), STEPS * MOST_WEIGHT)


def test_which_class_is_the_commonest_is_what_was_released_of_it():
    domain, found = domain_of(MIXED), set()
    codes, labels = table_of(domain, 30, 3, seed=2)
    for seed in range(12):
        fit = run_steps((CONSTANT, ORDER), domain, codes, labels, 0.2, seed=seed, n_classes=3)
        commonest, odds = commonest_of(fit.forest)
        assert fit.gate.joint[0][0].tolist() == sums_of_order(domain, commonest, odds, codes, labels)
        found.add(commonest)
    assert found == {0, 1, 2}


@DELTAS
def test_the_order_costs_its_amount_in_one_release(delta):
    domain = domain_of(MIXED)
    codes, labels = table_of(domain, 60, 3, seed=3)
    for share in (0.15, 0.5):
        fit = run_steps((replace(TREE, share=1 - share), Order(share)), domain, codes, labels, 0.7, delta, n_classes=3)
        budget = fit.gate.ledger.accountant.budget
        entry = fit.gate.ledger.entries()[-1]
        assert (entry["label"], entry["mechanism"]) == ("linear: order", "gaussian" if delta else "k-norm")
        assert spent_on(fit, "order") == [divide(budget, [1 - share, share])[1]]
        assert fit.gate.ledger.spent <= 0.7
        assert fit.gate.ledger.total == pytest.approx(budget, rel=1e-9)


def run_of(domain, n_classes=3, epsilon=1.0):
    """A run whose first tree is there, on a table of some records."""
    codes, labels = table_of(domain, 40, n_classes, seed=4)
    fit = run_steps((CONSTANT,), domain, codes, labels, epsilon, n_classes=n_classes)
    gate, recipe = gate_of(epsilon), recipe_with(CONSTANT, ORDER, leaf=NoisyCounts())
    facts = facts_about(domain, classes(n_classes), n_rows=40.0)
    return Ensemble(fit.counter, recipe, gate, facts, 1, lambda step: None, [fit.forest])


def test_where_no_feature_has_a_map_all_of_the_amount_is_left_and_nothing_is_asked():
    run = run_of(domain_of(NO_MAP))
    before = run.counter._scores.copy()
    assert ORDER.train(run, 0.3) == 0.3
    assert run.gate.ledger.entries() == []
    assert len(run.trees) == 1
    np.testing.assert_array_equal(run.counter._scores, before)
    run = run_of(domain_of(MIXED))
    assert ORDER.train(run, 0.3) == 0.0
    assert run.gate.ledger.total == 0.3


# --- its trees ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [(ORDER,), (ORDER, TREE), (LinearScore(0.2, (0.3, 0.3), 0.4), ORDER)])
def test_an_order_without_a_tree_before_it_is_refused_before_anything_is_charged(steps):
    with pytest.raises(ParameterError, match="starts with a tree"):
        ORDER.check(recipe_with(*steps))


def test_there_is_a_tree_for_each_feature_that_has_a_map_and_one_leaf():
    features = MIXED | NO_MAP
    domain = domain_of(features)
    codes, labels = table_of(domain, 60, 3, seed=7)
    forest = run_steps((CONSTANT, ORDER), domain, codes, labels, 1.0, n_classes=3).forest
    assert [domain.names[feature] for feature in forest.features[1 : forest.n_trees] if feature >= 0] == list(MIXED)
    *marginal, last = trees_of_order(forest)
    assert [len(votes) for votes in marginal] == domain.n_codes[:4].tolist()
    assert last.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("epsilon", [0.3, 5.0, math.inf])
@pytest.mark.parametrize("n_classes", [3, 6])
@pytest.mark.parametrize("features", [MIXED, {"x": Numeric(0, 1)}, {f"x{k}": Numeric(0, 1) for k in range(30)}], ids=len)
def test_all_votes_for_the_commonest_class_together_are_at_most_the_most_log_odds(features, n_classes, epsilon):
    domain = domain_of(features, n_classes)
    codes, labels = table_of(domain, 200, n_classes, seed=8)
    for seed in range(3):
        fit = run_steps((CONSTANT, ORDER), domain, codes, labels, epsilon, seed=seed, n_classes=n_classes)
        commonest, _ = commonest_of(fit.forest)
        total = 0.0
        for votes in trees_of_order(fit.forest):
            others = np.delete(votes, commonest, axis=1)
            # The others are left as they stand to each other.
            assert np.ptp(others, axis=1).max() == 0
            total += np.abs(votes[:, commonest] - others[:, 0]).max()
        assert 0 < total <= MOST + domain.n_features / SCORE_STEPS


def test_what_is_no_more_than_noise_orders_by_next_to_nothing():
    domain, rng = domain_of({f"x{k}": Numeric(0, 1) for k in range(8)}), np.random.default_rng(9)
    codes, labels = random_codes(domain, 400, rng), rng.integers(0, 3, 400)

    def usual(labels, seed):
        fit = run_steps((CONSTANT, ORDER), domain, codes, labels, 2.0, seed=seed, n_classes=3)
        commonest, _ = commonest_of(fit.forest)
        votes = fit.forest.vote(codes)
        return float((votes[:, commonest] - np.delete(votes, commonest, axis=1)[:, 0]).std())

    clear = np.where(codes.sum(axis=0) > 22, 0, rng.integers(1, 3, 400))
    noise, told = ([usual(each, seed) for seed in range(6)] for each in (labels, clear))
    assert 0.5 * USUAL < min(told) <= max(told) < 1.5 * USUAL
    assert np.median(noise) < 0.2 * np.median(told)


def test_without_noise_records_of_the_commonest_class_come_first_where_a_number_tells_them():
    domain, rng = domain_of({"x": Numeric(0, 1), "only": Categorical(["a"])}), np.random.default_rng(10)
    codes = random_codes(domain, 300, rng)
    for commonest in range(3):
        others = [label for label in range(3) if label != commonest]
        for is_own in (codes[0] >= 3) & (codes[0] < 6), codes[0] <= 3:
            labels = np.where(is_own, commonest, rng.choice(others, 300))
            labels = np.where(rng.random(300) < 0.2, commonest, labels)
            shares = run_steps((CONSTANT, ORDER), domain, codes, labels, math.inf, n_classes=3).forest.predict(codes)
            seen = codes[0] < 6  # a number that is missing is in the middle
            assert shares[seen & is_own, commonest].min() > shares[seen & ~is_own, commonest].max()


def test_few_rows_of_three_classes_have_an_order_and_are_the_same_after_saving_and_loading(tmp_path):
    X, y, _ = mixed_table(150, seed=1, n_classes=3)
    model = DPForestClassifier(THREE, epsilon=1.0, random_state=0).fit(X, y)
    assert [entry["label"] for entry in model.ledger_.entries()][-1] == "linear: order"
    assert model.ledger_.spent == pytest.approx(1.0)
    model.save(tmp_path / "model.json")
    other = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))
    assert other.ledger_.entries() == model.ledger_.entries()
