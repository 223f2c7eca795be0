"""One linear release for all features: its maps, its sums and their moves, what is chosen, and what a fit makes of it."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.support import naive
from tests.support.encoded import opened
from tests.support.steps import CONSTANT, GRID, gate_of, plain_sums, recipe_with, run_steps, spent_on
from tests.support.strategies import random_codes
from tests.support.targets import classes

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, Numeric, Schema
from dpforest.errors import SchemaError
from dpforest.forest.tree import SCORE_STEPS
from dpforest.growing import linear
from dpforest.growing.linear import (
    LARGEST,
    MOST_CATEGORIES,
    MOST_NUMBERS,
    N_BINS,
    STEPS,
    WIDTH,
    LinearScore,
    Order,
    class_weights,
    even_maps,
    linear_maps,
    linear_sums,
    n_full,
)
from dpforest.growing.sequential import Phase, Sequential
from dpforest.mechanisms import Entropy
from dpforest.parts.leaves import NoisyCounts
from dpforest.privacy.bounds import Blocks
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT, AllTrees
from dpforest.records.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

TWO = classes(2)
ALL_KINDS = {
    "bounded": Numeric(-2, 6),
    "whole": Numeric(0, 9, integer=True),
    "free": Numeric(),
    "half": Numeric(lower=0),
    "flag": Categorical([True, False]),
    "city": Categorical(["a", "b", "c"]),
    "long": Categorical([f"v{k}" for k in range(MOST_CATEGORIES)]),
    "too long": Categorical([f"v{k}" for k in range(MOST_CATEGORIES + 1)]),
    "single": Categorical(["only"]),
    "day": Date("2020-01-01", "2023-12-31"),
    "any day": Date(),
}
NUMBERS = {f"x{k}": Numeric(0, 1) for k in range(4)}
MIXED = {"x": Numeric(0, 1), "free": Numeric(), "flag": Categorical([0, 1]), "city": Categorical(["a", "b", "c"])}
SCORE = LinearScore(0.5, looks=(0.3, 0.3), choice=0.4, categories=True)
RULE = LinearScore(0.5, looks=(0.3, 0.1), choice=0.5, least_signal=0.5, categories=True, rule_depth=2)
STEPS_OF_FITS = {"score": SCORE, "two levels": RULE, "one level": replace(RULE, rule_depth=1), "order": Order(0.5)}
EVERY_STEP = pytest.mark.parametrize("step", STEPS_OF_FITS.values(), ids=STEPS_OF_FITS)
DELTAS = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])


def domain_of(features, grid=GRID, n_classes=2):
    return Domain.of(Schema(features, classes(n_classes)), grid)


def with_learnt_cuts(domain, feature=0):
    """The domain as a search for cuts leaves it: where most of one feature's numbers are, not where the grid is."""
    cuts = list(domain.cuts)
    cuts[feature] = np.array([0.9, 0.95, 0.99])
    return replace(domain, cuts=tuple(cuts))


def labels_of(fit):
    return [entry["label"] for entry in fit.gate.ledger.entries()]


def looks_of(fit):
    return [name for name in ("first look", "second look", "even look") if any(name in label for label in labels_of(fit))]


def accuracy(fit):
    return float((fit.forest.predict(fit.codes).argmax(axis=1) == fit.labels).mean())


def linear_table(n_records, n_features, shift, seed, n_values=7):
    """Codes of numbers that lie higher in the second class, by ``shift`` standard deviations each; and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n_records)
    values = rng.normal(size=(n_features, n_records)) + shift * (labels - 0.5)
    return np.clip(np.rint(values + (n_values - 2) / 2), 0, n_values - 2).astype(int), labels


def wide_table(n_records, n_features, seed):
    """Codes of numbers that are at their ends in the second class, and in the middle in the first; and labels.

    Each record has a mirrored twin, so that no class lies higher than the other.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n_records // 2)
    ends, middle = (rng.choice(codes, (n_features, n_records // 2)) for codes in ([0, 5], [2, 3]))
    codes = np.where(labels, ends, middle)
    return np.hstack([codes, 5 - codes]), np.tile(labels, 2)


# --- maps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [GRID, Grid(1), Grid(2), Grid(5), Grid(8, scales=True)], ids=str)
@pytest.mark.parametrize("learnt", [False, True])
@pytest.mark.parametrize("categories", [False, True])
def test_the_map_of_a_record_has_an_l1_of_at_most_the_steps_in_each_feature(grid, learnt, categories):
    domain = domain_of(ALL_KINDS, grid)
    domain = with_learnt_cuts(domain) if learnt else domain
    for maps in (linear_maps(domain, grid, categories), even_maps(domain, grid)):
        for feature, table in maps:
            assert table.dtype == np.int64
            assert len(table) == domain.n_codes[feature]
            assert np.abs(table).max() <= STEPS
            assert np.abs(table).sum(axis=1).max() <= STEPS
            # "Other" and missing are at 0.
            assert not table[domain.n_values[feature] :].any()
        assert len({feature for feature, _ in maps}) == len(maps)


def test_numbers_and_lists_of_some_length_have_maps():
    domain = domain_of(ALL_KINDS)

    def names(maps):
        return {domain.names[feature] for feature, _ in maps}

    numbers = {domain.names[feature] for feature in np.flatnonzero(domain.is_numeric)}
    assert names(linear_maps(domain, GRID, False)) == numbers | {"flag"}
    listed = {name for name in domain.names if name.endswith("(weekday)")}
    assert names(linear_maps(domain, GRID, True)) == numbers | listed | {"flag", "city", "long"}
    assert names(even_maps(domain, GRID)) == numbers


def test_places_are_the_middles_of_bins_between_bounds_and_ranks_where_cuts_were_learnt_or_bounds_are_missing():
    domain = domain_of({"bounded": Numeric(0, 1), "free": Numeric(), "flag": Categorical([0, 1])}, Grid(4))
    (_, bounded), (_, free), (_, flag) = linear_maps(domain, Grid(4), False)
    assert bounded[:, 0].tolist() == [-48, -16, 16, 48, 0]
    n_bins = len(free) - 1
    assert free[:-1, 0].tolist() == np.rint(STEPS * np.linspace(-1, 1, n_bins)).tolist()
    assert flag[:, 0].tolist() == [-STEPS, STEPS, 0, 0]
    (_, learnt), *_ = linear_maps(with_learnt_cuts(domain), Grid(4), False)
    assert learnt[:, 0].tolist() == [-64, -21, 21, 64, 0]
    (_, even), _ = even_maps(domain, Grid(4))
    assert even[:, 0].tolist() == [32, -32, -32, 32, 0]


def test_a_category_has_a_number_of_its_own():
    domain = domain_of({"city": Categorical(["a", "b", "c"])})
    ((_, table),) = linear_maps(domain, GRID, True)
    assert table.tolist() == [[STEPS, 0, 0], [0, STEPS, 0], [0, 0, STEPS], [0, 0, 0], [0, 0, 0]]
    assert linear_maps(domain, GRID, False) == even_maps(domain, GRID) == ()


def test_there_are_no_more_numbers_than_the_public_cap():
    names = [f"v{k}" for k in range(MOST_CATEGORIES)]
    features = {f"c{k}": Categorical(names) for k in range(MOST_NUMBERS // MOST_CATEGORIES + 3)} | {"x": Numeric(0, 1)}
    domain = domain_of(features)
    maps = linear_maps(domain, GRID, True)
    assert sum(table.shape[1] for _, table in maps) == MOST_NUMBERS
    assert [feature for feature, _ in maps] == list(range(MOST_NUMBERS // MOST_CATEGORIES))


@pytest.mark.parametrize("prior", [0.0, 1.0, -1.0, 5.0, -30.0, 800.0])
def test_the_weights_of_classes_balance_them_and_the_larger_is_the_most(prior):
    weights = class_weights(prior)
    assert weights.max() == MOST_WEIGHT
    assert weights.min() >= 0
    # The commoner class weighs less, by the odds.
    assert weights[int(prior > 0)] == round(MOST_WEIGHT * math.exp(-abs(prior)))


def test_records_of_full_weight_are_all_if_classes_balance_and_about_the_rare_ones_if_not():
    assert n_full(500.0, class_weights(0.0), 0.0) == 500
    # Nine in ten records have a weight of 1/9: 0.9 / 81 + 0.1 = 1/9 of the records, up to the rounding of weights.
    for prior in (math.log(9), -math.log(9)):
        assert n_full(900.0, class_weights(prior), prior) == pytest.approx(100, rel=5e-3)
    # All records have the full weight where a rule is sought, whatever the prior.
    assert n_full(900.0, class_weights(0.0), math.log(9)) == pytest.approx(900)
    assert n_full(-3.0, class_weights(1.0), 1.0) == 0
    assert 0 <= n_full(1e6, class_weights(800.0), 800.0) < 1e-3


# --- sums -----------------------------------------------------------------------------------------------------------


def counts_of(domain, codes, labels):
    counter = MemoryCounter(codes.astype(domain.dtype), np.asarray(labels, dtype=np.int64), domain, TWO)
    counter.deal(AllTrees(1), Entropy(0))
    return opened(counter.count_codes(0, np.ones((1, domain.n_features), dtype=bool)))


@pytest.mark.parametrize("n_records", [0, 1, 30])
@pytest.mark.parametrize("prior", [0.0, 0.7, -2.0])
def test_sums_are_those_over_records_of_their_signed_and_weighted_maps(n_records, prior):
    domain, rng = domain_of(ALL_KINDS), np.random.default_rng(n_records)
    codes, labels, weights = random_codes(domain, n_records, rng), rng.integers(0, 2, n_records), class_weights(prior)
    for maps in (linear_maps(domain, GRID, True), linear_maps(domain, GRID, False), even_maps(domain, GRID)):
        sums = linear_sums(maps, domain.offsets, weights, counts_of(domain, codes, labels))
        assert np.issubdtype(sums.dtype, np.integer)
        assert sums.tolist() == plain_sums(maps, weights, codes, labels.tolist())


@DELTAS
def test_a_look_hands_over_the_sums_and_states_the_steps_times_the_largest_weight(delta):
    domain, rng = domain_of(MIXED), np.random.default_rng(2)
    codes, labels = random_codes(domain, 50, rng), rng.integers(0, 2, 50)
    fit = run_steps((CONSTANT, replace(SCORE, least_signal=-math.inf)), domain, codes, labels, 1.0, delta)
    tree = fit.forest.votes[0]
    weights, maps = class_weights(float(tree[1] - tree[0])), linear_maps(domain, GRID, True)
    assert weights.max() == MOST_WEIGHT
    for values, blocks in fit.gate.joint:
        assert blocks == Blocks((1, 1, 1, 3), STEPS * MOST_WEIGHT)
        assert values.tolist() == plain_sums(maps, weights, codes, labels.tolist())
    assert len(fit.gate.joint) == 2


# --- the choice of a slope ------------------------------------------------------------------------------------------


def run_of(gate):
    return SimpleNamespace(gate=gate)


def test_how_well_a_slope_does_is_by_the_log_loss_of_the_own_class():
    rules, gains = linear._losses()
    rng = np.random.default_rng(4)
    for k, place, label in zip(rng.integers(0, len(rules), 200), rng.integers(0, N_BINS, 200), [0, 1] * 100, strict=True):
        lead = (place - N_BINS / 2 + 0.5) * WIDTH / SCORE_STEPS
        score = lead if label else -lead
        odds = rules[k, 0] * score + rules[k, 1]
        loss = math.log1p(math.exp(min(-odds if label else odds, linear.MOST_WRONG)))
        assert gains[k, place, label] == pytest.approx(1 - loss / math.log1p(math.exp(linear.MOST_WRONG)), abs=1e-12)


def test_without_noise_the_slope_and_the_cut_that_divide_the_classes_are_chosen():
    # The second class has scores above 4, the first those below: leads of the first are the scores with a minus.
    counts = np.zeros((N_BINS, 2), dtype=np.int64)
    unit = SCORE_STEPS // WIDTH
    for score in range(-7, 8):
        label = int(score >= 4)
        counts[N_BINS // 2 + (score if label else -score) * unit, label] += 100
    slope, offset = linear._slope(run_of(gate_of(math.inf)), Sealed(counts), class_weights(0.0), math.inf)
    assert 3 < -offset / slope < 4
    assert slope == linear.SLOPES.max()


# --- whole steps ----------------------------------------------------------------------------------------------------


def leads_of(scores):
    """How far the score of each class is above that of the first, in whole steps."""
    return np.rint(scores - scores[:, :1]).astype(int)


@pytest.mark.parametrize("epsilon", [0.5, 5.0, math.inf])
@EVERY_STEP
@pytest.mark.parametrize("table", ["line", "wide", "one code"])
def test_scores_of_records_are_the_votes_of_the_released_forest(table, step, epsilon):
    n_classes = 4 if isinstance(step, Order) else 2
    domain, rng = domain_of(MIXED, n_classes=n_classes), np.random.default_rng(5)
    codes = random_codes(domain, 120, rng)
    labels = {
        "line": codes[0] + codes[1] + rng.integers(0, 3, 120) > 6,
        "wide": np.abs(codes[0] - 2.5) > 1,
        "one code": (codes[3] == 1) ^ (rng.random(120) < 0.1),
    }[table] + 2 * (codes[2] % 2) * (n_classes > 2)
    fit = run_steps((CONSTANT, step, Phase(0.4, 2)), domain, codes, labels, epsilon, seed=7, n_classes=n_classes)
    votes = SCORE_STEPS * np.array([naive.votes(fit.forest, record) for record in codes.T])
    assert np.isfinite(votes).all()
    np.testing.assert_array_equal(leads_of(fit.counter._scores.T), leads_of(votes))


@pytest.mark.parametrize("step", [SCORE, RULE], ids=["score", "rule"])
def test_before_the_choice_records_have_the_score_of_the_direction_within_the_bins(step, monkeypatch):
    seen, count_leads = [], MemoryCounter.count_leads

    def watched(self, width, n_bins):
        seen.append((self._scores[1] - self._scores[0]).copy())
        return count_leads(self, width, n_bins)

    monkeypatch.setattr(MemoryCounter, "count_leads", watched)
    domain, rng = domain_of(MIXED), np.random.default_rng(6)
    codes = random_codes(domain, 300, rng)
    run_steps((CONSTANT, step), domain, codes, (codes[0] > 2).astype(int), 3.0)
    # Votes are halves, each rounded: a feature can add a step to the largest score, and so can the constant.
    assert len(seen) == 1
    assert 0 < np.abs(seen[0]).max() <= LARGEST * SCORE_STEPS + domain.n_features + 1


LINE, WIDE = linear_table(1_000, 4, 1.2, seed=7), wide_table(2_000, 4, seed=8)


@DELTAS
@pytest.mark.parametrize(
    # Where one class is wider, the first look is pure noise, which is hardly ever this far above itself.
    ("table", "least", "second"),
    [(LINE, SCORE.least_signal, "second look"), (WIDE, 10.0, "even look")],
    ids=["line", "wide"],
)
def test_the_second_look_is_at_the_map_that_tells_the_classes(table, least, second, delta):
    step = replace(SCORE, share=0.9, least_signal=least)
    for seed in range(3):
        fit = run_steps((CONSTANT, step), domain_of(NUMBERS), *table, 4.0, delta, seed)
        assert looks_of(fit) == ["first look", second]
        assert accuracy(fit) > 0.8


def test_where_no_feature_is_a_number_one_look_is_all():
    rng = np.random.default_rng(9)
    domain = domain_of({"flag": Categorical([0, 1]), "other": Categorical([0, 1])})
    codes = random_codes(domain, 100, rng)
    fit = run_steps((CONSTANT, replace(SCORE, least_signal=math.inf)), domain, codes, codes[0] % 2, 1.0)
    assert looks_of(fit) == ["first look"]


def test_a_rule_of_one_feature_is_found_beside_a_score():
    domain, rng = domain_of(MIXED), np.random.default_rng(10)
    codes = random_codes(domain, 800, rng)
    labels = ((codes[3] == 1) ^ (rng.random(800) < 0.05)).astype(int)
    step = replace(RULE, share=0.9, categories=False, rule_depth=1)
    fits = [run_steps((CONSTANT, step), domain, codes, labels, 2.0, seed=seed) for seed in range(4)]
    assert all(accuracy(fit) > 0.9 for fit in fits)
    assert any("labelled" in label for label in labels_of(fits[0]))


# --- charges, files and small tables --------------------------------------------------------------------------------


@DELTAS
@EVERY_STEP
@pytest.mark.parametrize("n_records", [0, 1, 2, 100])
def test_fits_of_any_number_of_records_are_finite_and_spend_nearly_all_and_no_more(n_records, step, delta):
    n_classes = 3 if isinstance(step, Order) else 2
    domain = domain_of(MIXED, n_classes=n_classes)
    for seed, epsilon in enumerate((0.05, 0.7) if delta else (0.001, 0.7, math.inf)):
        codes = random_codes(domain, n_records, np.random.default_rng(seed))
        labels = np.arange(n_records) % n_classes
        fit = run_steps((CONSTANT, step, Phase(0.4, 2)), domain, codes, labels, epsilon, delta, seed, n_classes)
        assert np.isfinite(fit.forest.votes).all()
        shares = fit.forest.predict(random_codes(domain, 20, np.random.default_rng(0)))
        assert (shares >= 0).all()
        assert np.isfinite(shares).all()
        assert math.isinf(epsilon) or 0.98 * epsilon < fit.gate.ledger.spent <= epsilon


SMALL_LOOKS = LinearScore(0.5, looks=(0.05, 0.05), choice=0.1)


@DELTAS
def test_where_no_feature_has_a_map_the_trees_have_what_the_score_leaves(delta):
    domain, rng = domain_of({"only": Categorical(["a"]), "city": Categorical(["a", "b", "c"])}), np.random.default_rng(14)
    codes = random_codes(domain, 100, rng)
    steps = (CONSTANT, replace(SMALL_LOOKS, categories=False), Phase(0.3, 1), Phase(0.1, 2))
    fit = run_steps(steps, domain, codes, codes[1] % 2, 1.0, delta)
    budget = fit.gate.ledger.accountant.budget
    assert spent_on(fit, "linear") == []
    # By their shares of what is left: 0.3 and 0.1 of 0.9.
    assert math.fsum(spent_on(fit, "tree 2")) == pytest.approx(0.675 * budget)
    assert math.fsum(spent_on(fit, "tree 3", "tree 4")) == pytest.approx(0.225 * budget)
    assert fit.gate.ledger.total == pytest.approx(budget)
    assert fit.gate.ledger.spent <= 1.0


@pytest.mark.parametrize("step", [SCORE, RULE], ids=["score", "rule"])
def test_without_noise_sums_that_vanish_give_finite_votes(step):
    # Every code has as many records of either class.
    domain = domain_of(MIXED)
    codes = np.repeat(random_codes(domain, 20, np.random.default_rng(0)), 2, axis=1)
    for seed in range(6):
        fit = run_steps((CONSTANT, step), domain, codes, [0, 1] * 20, math.inf, seed=seed)
        assert np.isfinite(fit.forest.votes).all()


@pytest.mark.parametrize(("step", "fits"), [(SCORE, {2}), (Order(0.5), {3, 4, 10})], ids=["score", "order"])
def test_a_score_is_for_two_classes_and_an_order_for_more(step, fits):
    stages = Sequential((CONSTANT, step))
    assert {n for n in (1, 2, 3, 4, 10) if stages.accepts(classes(n))} == fits
    assert not stages.accepts(Bounded(0, 1))
    wrong = classes(3 if fits == {2} else 2)
    with pytest.raises(SchemaError, match="Sequential"):
        recipe_with(CONSTANT, step, leaf=NoisyCounts()).check(Schema(NUMBERS, wrong))


def test_where_no_feature_has_a_map_the_rule_has_all_of_the_budget():
    schema = Schema({"place": Categorical([f"p{index}" for index in range(100)])}, Classes([0, 1]))
    X = [["p7"], ["p8"]] * 400
    model = DPForestClassifier(schema, epsilon=1.0, random_state=0).fit(X, [0, 1] * 400)
    labels = [entry["label"] for entry in model.ledger_.entries()]
    assert "lead of the rule" in labels
    assert not any("look" in label for label in labels)
    assert model.ledger_.spent == pytest.approx(1.0)
    assert model.score(X, [0, 1] * 400) > 0.9
