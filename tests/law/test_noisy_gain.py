"""Choices by noisy counts and by class means keep their claims: norms by brute force, replayed fits, blocks charged once."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.support import naive
from tests.support.encoded import random_table, with_one_more
from tests.support.gates import KeepingGate
from tests.support.laws import largest_norms
from tests.support.replay import train
from tests.support.strategies import MEAN, TWO, mixed_table, recipe_of

from dpforest import Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, get_recipe
from dpforest.errors import DPForestError, ParameterError, SchemaError
from dpforest.growing import choosing
from dpforest.growing.choosing import Level
from dpforest.parts.criteria import EntropyCount, GiniCount, MaxOperator, SquaredError
from dpforest.parts.leaves import TwoBinMean
from dpforest.parts.proposals import Menu, OneChildPerValue
from dpforest.privacy.amounts import exact
from dpforest.privacy.events import Purpose
from dpforest.recipes.papers.blum_2005 import NoisyGain
from dpforest.recipes.papers.first_look import FirstLook
from dpforest.recipes.papers.rana_2015 import STEPS, ClassMeans
from dpforest.records.base import MOST_WEIGHT
from dpforest.records.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

FEATURES = Schema(
    {"a": Numeric(0, 1), "b": Categorical(["u"]), "c": Categorical(["u", "v"]), "d": Numeric(0, 1)}, Classes([0, 1, 2])
)
MENUS = {"a child per value": Menu((OneChildPerValue(),)), "cuts": Menu()}


def choose(codes, labels, positions, reach, gate, menu, criterion=EntropyCount(), unit=1, bins=3):  # noqa: B008
    """What ``NoisyGain`` chooses for nodes that hold records at ``positions`` and can hold the codes ``reach``.

    Without a menu, what ``ClassMeans`` leave of the cuts.
    """
    domain, offered = Domain.of(FEATURES, Grid(bins)), menu or Menu()
    counter = MemoryCounter(codes, labels, domain, FEATURES.target)
    counter._start(positions, np.empty((0, 0), dtype=np.uint8))
    counter.most_per_feature = unit
    candidates = offered.propose(domain, offered.fixed(domain), reach, np.random.default_rng(0))
    if menu is None:
        return candidates, ClassMeans().narrow(candidates, counter, 0, 0.25, gate, Purpose("splits", level=0))
    chosen = NoisyGain().choose(Level(candidates, counter, 0, gate, Purpose("splits", level=0), criterion), 0.25)
    return candidates, chosen


@pytest.mark.slow
@pytest.mark.parametrize("n_open", [4, 1])
@pytest.mark.parametrize(
    ("menu", "bins"), [(MENUS["a child per value"], 3), (MENUS["cuts"], 3), *((None, bins) for bins in (1, 2, 3, 7))]
)
def test_any_added_record_moves_counts_or_sums_within_the_stated_norms_and_reaches_them(menu, bins, n_open):
    domain, codes, labels = random_table(FEATURES, Grid(bins), 30, seed=bins)
    # In all nodes but the last a feature is settled, so that nodes use different numbers of features.
    reach = np.ones((n_open, domain.total_codes), dtype=bool)
    settled = 2 if menu else 0
    reach[: n_open - 1, domain.offsets[settled] + 1 : domain.offsets[settled + 1]] = False
    positions = np.random.default_rng(1).integers(0, n_open, size=(1, 30), dtype=np.int32)
    before, moves = KeepingGate(), []
    choose(codes, labels, positions, reach, before, menu, bins=bins)
    for record, label, node in itertools.product(naive.all_records(domain)[:: 1 + bins // 7], range(3), range(n_open)):
        after, more = KeepingGate(), with_one_more(codes, labels, record, label)
        choose(*more, np.append(positions, [[node]], 1).astype(np.int32), reach, after, menu, bins=bins)
        moves.append(after.values - before.values)
        assert set(np.flatnonzero(moves[-1].reshape(n_open, -1).any(axis=1))) <= {node}
    # One cell of each of four features, or one sum of each of two numbers.
    stated = (before.stated.l1, before.stated.l2_squared)
    assert largest_norms(moves) == stated == ((4, 4) if menu else (2 * STEPS, 2 * STEPS**2))


def test_records_that_count_by_weight_are_paid_for_by_their_largest_weight():
    domain, codes, labels = random_table(FEATURES, Grid(3), 30, seed=1)
    gate, reach = KeepingGate(), np.ones((1, domain.total_codes), dtype=bool)
    positions = np.zeros((1, 30), dtype=np.int32)
    choose(codes, labels, positions, reach, gate, MENUS["cuts"], MaxOperator(), unit=MOST_WEIGHT)
    assert (gate.stated.l1, gate.stated.l2_squared) == (4 * MOST_WEIGHT, 4 * MOST_WEIGHT**2)


def test_class_means_leave_one_cut_of_each_number_and_all_splits_of_categories():
    domain, codes, labels = random_table(FEATURES, Grid(5), 40, seed=3)
    reach, positions = np.ones((2, domain.total_codes), dtype=bool), np.zeros((1, 40), dtype=np.int32)
    before, after = choose(codes, labels, positions, reach, KeepingGate(), None, bins=5)
    assert (after.valid <= before.valid).all()
    for node in range(2):
        left = Counter(after.features[node, after.valid[node]].tolist())
        assert left == {0: 1, 1: 3, 2: 4, 3: 1}


def test_class_means_ask_nothing_where_no_number_can_be_cut():
    domain, codes, labels = random_table(FEATURES, Grid(3), 10, seed=4)
    gate, reach = KeepingGate(), np.ones((1, domain.total_codes), dtype=bool)
    for feature in np.flatnonzero(domain.is_numeric):
        reach[0, domain.offsets[feature] + 1 : domain.offsets[feature + 1]] = False
    before, after = choose(codes, labels, np.zeros((1, 10), dtype=np.int32), reach, gate, None)
    assert gate.values is None
    assert after is before


def test_a_class_that_a_node_does_not_hold_leaves_the_middle_of_class_means_to_the_others():
    schema = Schema({"a": Numeric(0, 1)}, Classes(["low", "mid", "high"]))
    X, y = np.repeat([[0.4], [0.8]], 50, axis=0), np.repeat(["mid", "high"], 50)
    recipe = recipe_of(narrow=ClassMeans(), grid=Grid(10), depth=1)
    model = DPForestClassifier(schema, math.inf, recipe=recipe, random_state=0).fit(X, y)
    assert {rule["rule"] for rule in model.forest_.rules()} == {"always", "a < 0.6", "(0.6 <= a or missing)"}


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


def test_a_bounded_target_is_refused_before_anything_is_charged():
    # Statistics of a bounded target are n, sum z and sum z**2: a record moves their sums far beyond the stated norms.
    X, _, z = mixed_table(60, seed=1)
    for parts, refusal in [
        ({"choose": NoisyGain()}, SchemaError),
        ({"narrow": ClassMeans()}, DPForestError),
        ({"first_look": FirstLook(select=True)}, DPForestError),
    ]:
        model = DPForestRegressor(MEAN, recipe=recipe_of(criterion=SquaredError(), leaf=TwoBinMean(), **parts))
        with pytest.raises(refusal):
            model.fit(X, z)
        assert not hasattr(model, "ledger_") or model.ledger_.entries() == []
