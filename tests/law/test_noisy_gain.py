"""The choice by noisy counts keeps its claim: norms by brute force, fits that are replayed, blocks that are charged once."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.support import naive
from tests.support.encoded import random_table, with_one_more
from tests.support.replay import check_neighbours, train
from tests.support.strategies import MIXED, TWO, mixed_table, recipe_of

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, Numeric, Schema, get_recipe
from dpforest.errors import ParameterError, SchemaError
from dpforest.growing import choosing
from dpforest.growing.choosing import Level
from dpforest.growing.noisy_gain import NoisyGain
from dpforest.growing.two_phase import TwoPhase
from dpforest.parts.criteria import EntropyCount, GiniCount, MaxOperator, SquaredError
from dpforest.parts.leaves import TwoBinMean
from dpforest.parts.proposals import Menu, OneChildPerValue
from dpforest.parts.sampling import Disjoint
from dpforest.parts.voting import Majority
from dpforest.privacy.accountants import Pure
from dpforest.privacy.amounts import exact
from dpforest.privacy.events import Purpose
from dpforest.privacy.ledger import Ledger
from dpforest.records.base import MOST_WEIGHT
from dpforest.records.memory.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

FEATURES = Schema(
    {"a": Numeric(0, 1), "b": Categorical(["u"]), "c": Categorical(["u", "v"]), "d": Numeric(0, 1)}, Classes([0, 1, 2])
)
MENUS = {"a child per value": Menu((OneChildPerValue(),)), "cuts": Menu()}


class KeepingGate:
    """Keeps what it is handed; releases what it is told, or zeros."""

    def __init__(self, released=None):
        self.ledger, self._released, self.kept = Ledger(Pure(1.0)), released, []

    def add_noise(self, values, sensitivity, amount, label):
        self.ledger.charge(label, "geometric", amount)
        values.map(lambda array: self.kept.append(SimpleNamespace(values=array.copy(), sensitivity=sensitivity)))
        return np.zeros_like(self.kept[-1].values) if self._released is None else self._released, 1.0


def choose(codes, labels, positions, reach, gate, menu, criterion, unit=1):
    """What ``NoisyGain`` chooses for nodes that hold records at ``positions`` and can hold the codes ``reach``."""
    domain = Domain.of(FEATURES, Grid(3))
    counter = MemoryCounter(codes, labels, domain, FEATURES.target)
    counter._start(positions, np.empty((0, 0), dtype=np.uint8))
    counter.most_per_feature = unit
    candidates = menu.propose(domain, menu.fixed(domain), reach, np.random.default_rng(0))
    chosen = NoisyGain().choose(Level(candidates, counter, 0, gate, Purpose("splits", level=0), criterion), 0.25)
    return candidates, chosen


@pytest.mark.slow
@pytest.mark.parametrize("menu", MENUS.values(), ids=MENUS)
@pytest.mark.parametrize("n_open", [4, 1])
def test_any_added_record_moves_the_counts_within_the_stated_norms_and_reaches_them(menu, n_open):
    domain, codes, labels = random_table(FEATURES, Grid(3), 30, seed=1)
    # In all nodes but the last a feature is settled, so that nodes use different numbers of features.
    reach = np.ones((n_open, domain.total_codes), dtype=bool)
    reach[: n_open - 1, domain.offsets[2] + 1 : domain.offsets[3]] = False
    positions = np.random.default_rng(1).integers(0, n_open, size=(1, 30), dtype=np.int32)
    before = KeepingGate()
    choose(codes, labels, positions, reach, before, menu, EntropyCount())
    (kept,) = before.kept
    most_l1 = most_l2_squared = 0
    for record, label, node in itertools.product(naive.all_records(domain), range(3), range(n_open)):
        after, more = KeepingGate(), with_one_more(codes, labels, record, label)
        choose(*more, np.append(positions, [[node]], 1).astype(np.int32), reach, after, menu, EntropyCount())
        move = after.kept[0].values - kept.values
        assert np.flatnonzero(move.any(axis=(1, 2))).tolist() in ([], [node])
        most_l1 = max(most_l1, int(np.abs(move).sum()))
        most_l2_squared = max(most_l2_squared, int(np.square(move).sum()))
    assert most_l1 == kept.sensitivity.l1 == 4
    assert most_l2_squared == kept.sensitivity.l2_squared == 4


def test_records_that_count_by_weight_are_paid_for_by_their_largest_weight():
    domain, codes, labels = random_table(FEATURES, Grid(3), 30, seed=1)
    gate, reach = KeepingGate(), np.ones((1, domain.total_codes), dtype=bool)
    positions = np.zeros((1, 30), dtype=np.int32)
    choose(codes, labels, positions, reach, gate, MENUS["cuts"], MaxOperator(), unit=MOST_WEIGHT)
    stated = gate.kept[0].sensitivity
    assert (stated.l1, stated.l2_squared) == (4 * MOST_WEIGHT, 4 * MOST_WEIGHT**2)


def entropy_left(table):
    """Entropy of the class given the value, times the size, of noisy counts ``(n_values, n_classes)``."""
    total = 0.0
    for counts in np.maximum(table, 0):
        total -= sum(n * math.log(n / counts.sum()) for n in counts if n)
    return total


def test_the_chosen_feature_has_the_best_gain_of_the_released_counts_which_may_be_negative():
    domain, codes, labels = random_table(FEATURES, Grid(3), 50, seed=2)
    n_nodes, offsets, rng = 40, domain.offsets, np.random.default_rng(3)
    released = rng.integers(-60, 200, size=(n_nodes, domain.total_codes, 3))
    positions, reach = np.zeros((1, 50), dtype=np.int32), np.ones((n_nodes, domain.total_codes), dtype=bool)
    reach[0] = False  # a node that nothing divides
    gate = KeepingGate(released)
    candidates, chosen = choose(codes, labels, positions, reach, gate, MENUS["a child per value"], EntropyCount())
    assert chosen[0] == -1
    found = set()
    for node in range(1, n_nodes):
        tables = [released[node, offsets[index] : offsets[index + 1]] for index in range(4)]
        left = [entropy_left(table) for table in tables]
        feature = candidates.features[node, chosen[node]]
        # Scores are whole numbers of 1/64 nat a record, so a tie may go either way.
        assert left[feature] == pytest.approx(min(left), rel=0.01)
        found.add(int(feature))
    assert len(found) > 1


@pytest.mark.parametrize("criterion", [EntropyCount(), GiniCount()], ids=lambda part: type(part).__name__)
@pytest.mark.parametrize("digits", [40, 54, 60, 62])
def test_a_released_count_beyond_all_tables_does_not_turn_the_gain_over(digits, criterion):
    domain, codes, labels = random_table(FEATURES, Grid(3), 10, seed=2)
    released = np.zeros((1, domain.total_codes, 3), dtype=np.int64)
    released[0, :, 0] = 10
    released[0, domain.offsets[0] : domain.offsets[1]] = 1 << digits  # as impure as can be
    reach, positions = np.ones((1, domain.total_codes), dtype=bool), np.zeros((1, 10), dtype=np.int32)
    menu, gate = MENUS["a child per value"], KeepingGate(released)
    candidates, chosen = choose(codes, labels, positions, reach, gate, menu, criterion)
    assert candidates.features[0, chosen[0]] != 0


# --- fits -----------------------------------------------------------------------------------------------------------

COMPANIES = {
    "alone": {},
    "disjoint parts": {"sample": Disjoint()},
    "two phases": {"stages": TwoPhase(), "vote": Majority()},
    "a child per value": {"propose": MENUS["a child per value"], "criterion": EntropyCount()},
}


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("parts", COMPANIES.values(), ids=COMPANIES)
def test_with_the_same_releases_one_more_record_moves_only_what_was_paid_for(parts, delta):
    recipe = recipe_of(choose=NoisyGain(), n_trees=4, depth=2, **parts)
    moved = [label for seed in range(4) for label in check_neighbours(recipe, TWO, seed, delta=delta)]
    assert {"splits of level 0: noisy counts", "splits of level 1: noisy counts", "leaves"} <= set(moved)


def test_noise_of_a_layer_is_that_of_the_thesis_with_the_second_query_given_to_the_first():
    """epsilon_Q = B/(2 d m) for Q1 and as much for Q2 [suihkonen2023, eq. 4.2]; m falls by the features used above."""
    recipe = replace(get_recipe("blum-2005"), depth=2)
    domain, codes, labels = random_table(TWO, recipe.grid, 300, seed=1)
    fit, d, m = train(recipe, TWO, codes, labels), 3, domain.n_features
    runs = [run for query in fit.queries for run in query.runs]
    assert [run.mechanism for run in runs] == ["geometric"] * 3
    rates = [float(run.spread) for run in runs]
    assert rates == pytest.approx([2 / (2 * d * m), 2 / (2 * d * (m - 1)), 1 / d], rel=1e-5)


@pytest.mark.parametrize("criterion", [EntropyCount(), GiniCount(), MaxOperator()], ids=lambda part: type(part).__name__)
def test_blocks_are_charged_beside_each_other_and_choose_the_same(criterion, monkeypatch):
    X, y, _ = mixed_table(200, seed=4)
    recipe = recipe_of(choose=NoisyGain(), criterion=criterion, depth=2)
    whole = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y)
    monkeypatch.setattr(choosing, "BLOCK_CELLS", 1)
    parts = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y)
    for name in ("features", "routes", "counts"):
        np.testing.assert_array_equal(getattr(whole.forest_, name), getattr(parts.forest_, name))
    ledger = DPForestClassifier(TWO, 0.7, recipe=recipe).fit(X, y).ledger_
    labels = [entry["label"] for entry in ledger.entries()]
    assert labels == [f"splits of level {level}: noisy counts" for level in (0, 1, 1)] + ["leaves"]
    assert exact(ledger.total) == exact(0.7)
    assert ledger.entries()[1]["scope"].endswith("splits of level 1")


def test_without_noise_the_choice_is_that_of_a_mechanism_without_noise():
    X, y, _ = mixed_table(200, seed=4)
    recipes = [recipe_of(choose=choice, criterion=EntropyCount(), depth=3) for choice in (None, NoisyGain())]
    forests = [DPForestClassifier(TWO, math.inf, recipe=recipe).fit(X, y).forest_ for recipe in recipes]
    np.testing.assert_array_equal(forests[0].features, forests[1].features)
    np.testing.assert_array_equal(forests[0].counts, forests[1].counts)


def test_distinct_roots_are_refused():
    X, y, _ = mixed_table(20, seed=1)
    with pytest.raises(ParameterError, match=r"NoisyGain of recipe .* cannot keep"):
        DPForestClassifier(TWO, recipe=recipe_of(choose=NoisyGain(), distinct_roots=True)).fit(X, y)


def test_a_bounded_target_is_refused():
    recipe = recipe_of(choose=NoisyGain(), criterion=SquaredError(), leaf=TwoBinMean(), tasks=("regression",))
    with pytest.raises(SchemaError, match="NoisyGain of recipe"):
        recipe.check(Schema(MIXED, Bounded(0, 1)))
