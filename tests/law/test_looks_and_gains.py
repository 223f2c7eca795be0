"""First looks, choices by noisy counts and by class means keep their claims: norms by brute force, and what is charged."""

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
from tests.support.steps import gate_of
from tests.support.strategies import MEAN, TWO, mixed_table, recipe_of

from dpforest import Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, get_recipe
from dpforest.audit.tape import Tape
from dpforest.errors import DPForestError, ParameterError, SchemaError
from dpforest.growing import choosing
from dpforest.growing.choosing import Level
from dpforest.parts.criteria import EntropyCount, GiniCount, MaxOperator, SquaredError
from dpforest.parts.leaves import TwoBinMean
from dpforest.parts.proposals import Intervals, Menu, OneChildPerValue
from dpforest.privacy.amounts import exact
from dpforest.privacy.events import Purpose
from dpforest.recipes.papers import first_look
from dpforest.recipes.papers.blum_2005 import NoisyGain
from dpforest.recipes.papers.first_look import (
    FirstLook,
    kept_by_elimination,
    normalised_interaction_gain,
    symmetric_uncertainty,
)
from dpforest.recipes.papers.rana_2015 import STEPS, ClassMeans
from dpforest.records.base import MOST_WEIGHT
from dpforest.records.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

SCHEMA = Schema({"a": Numeric(0, 1), "c": Categorical(["u", "v"]), "b": Numeric(0, 1)}, Classes([0, 1, 2]))
MENU = Menu((OneChildPerValue(),), n_features=1)


def looked(look, codes, labels, gate, schema=SCHEMA, grid=Grid(3), menu=MENU):  # noqa: B008
    """The menu that a look at encoded records leads to, and what is left of the budget."""
    counter = MemoryCounter(codes, labels, Domain.of(schema, grid), schema.target)
    recipe = recipe_of(propose=menu, grid=grid)
    recipe, rest = look.release(counter, recipe, gate.ledger.accountant.budget, gate)
    return recipe.propose, rest


LOOKS = {
    "cuts": (FirstLook(cuts=True), {"first look": 2}),
    "uncertainty": (FirstLook(select=True), {"first look": 3}),
    "all": (FirstLook(cuts=True, select=True, pairs=True), {"first look": 3, "first look: pairs": 3}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOKS)
def test_any_added_record_moves_the_tables_within_the_stated_norms_and_reaches_them(name):
    look, expected = LOOKS[name]
    domain, codes, labels = random_table(SCHEMA, Grid(3), 200, seed=1)
    # All features follow the label, so that all are relevant and all pairs are looked at.
    codes[:] = labels
    tape = Tape(3, extra_first=False)
    looked(look, codes, labels, tape.watch(gate_of(50.0)))
    moves = {label: [] for label in expected}
    for record, label in itertools.product(naive.all_records(domain), range(3)):
        more = Tape(3, extra_first=False, script=tape.queries)
        looked(look, *with_one_more(codes, labels, record, label), more.watch(gate_of(50.0)))
        assert more.ledger == tape.ledger
        for before, after in zip(tape.queries, more.queries, strict=True):
            moves[before.label].append(after.values - before.values)
    # Reached, so any smaller sensitivity would be false.
    for query in tape.queries:
        stated = (query.stated.l1, query.stated.l2_squared)
        assert largest_norms(moves[query.label]) == stated == (expected[query.label],) * 2


def test_a_look_costs_its_share_and_no_more():
    _, codes, labels = random_table(SCHEMA, Grid(3), 200, seed=1)
    codes[:] = labels
    pairs = FirstLook(0.2, select=True, pairs=True)
    for look, menu, charged, left in [
        (FirstLook(0.2, cuts=True), MENU, [0.2], 0.8),
        (FirstLook(0.2, select=True), MENU, [0.2], 0.8),
        (pairs, MENU, [0.1, 0.1], 0.8),
        # Nothing is left to choose among pairs if the menu takes all features; their half goes to the trees.
        (pairs, Menu((OneChildPerValue(),)), [0.1], 0.9),
    ]:
        gate = gate_of(1.0)
        assert looked(look, codes, labels, gate, menu=menu)[1] == left
        assert [entry["epsilon"] for entry in gate.ledger.entries()] == charged


def test_without_numeric_features_cuts_cost_nothing_and_change_nothing():
    schema = Schema({"c": Categorical(["u", "v"]), "d": Categorical(["p"])}, Classes([0, 1]))
    _, codes, labels = random_table(schema, Grid(3), 50, seed=2)
    gate = gate_of(1.0)
    assert looked(FirstLook(cuts=True), codes, labels, gate, schema) == (MENU, 1.0)
    assert gate.noised == []
    model = DPForestClassifier(schema, epsilon=1.0, recipe="patil-singh-2014", n_trees=2, max_depth=1)
    model.fit(np.array([["u", "p"]] * 20, dtype=object), [0, 1] * 10)
    assert not [entry for entry in model.ledger_.entries() if entry["label"].startswith("first look")]
    # Nor where numbers are split by thresholds: there is no bin to take together.
    _, codes, labels = random_table(SCHEMA, Grid(3), 50, seed=2)
    assert looked(FirstLook(cuts=True), codes, labels, gate, menu=Menu()) == (Menu(), 1.0)


# --- what is made of the tables -------------------------------------------------------------------------------------


def records_with_a_cut():
    """Feature "a" tells the label by its bin, from the fourth of eight on; the others tell nothing."""
    rng = np.random.default_rng(0)
    codes = np.array([rng.integers(0, 8, 4000), rng.integers(0, 2, 4000), rng.integers(0, 8, 4000)])
    return codes.astype(np.uint8), np.where(rng.random(4000) < 0.9, codes[0] >= 3, 1 - (codes[0] >= 3)).astype(int)


def test_where_noise_leaves_no_cut_intervals_are_even():
    codes, labels = records_with_a_cut()
    menu = replace(MENU, n_features=None)
    # The third feature tells nothing: at a large budget only it has no cut, at a tiny one nothing can be seen. There a cut
    # needs two runs of bins that stand four deviations out of the noise each: at most 8 * 7 pairs, each below 4e-5 ** 2.
    for epsilon, expected in ((20.0, ((3,), (), (1, 3, 4, 6))), (1e-6, ((1, 3, 4, 6), (), (1, 3, 4, 6)))):
        found, _ = looked(FirstLook(cuts=True), codes, labels, gate_of(epsilon), grid=Grid(8), menu=menu)
        assert found.kinds == (OneChildPerValue(numeric=False), Intervals(expected))
    # A feature with fewer bins than intervals has a child for each.
    found, _ = looked(FirstLook(cuts=True), codes % 2, labels, gate_of(1e-6), grid=Grid(2), menu=menu)
    assert found.kinds == (OneChildPerValue(numeric=False), Intervals(((1,), (), (1,))))


def test_bins_become_the_intervals_between_cuts_and_a_feature_without_a_cut_is_not_split():
    codes, labels = records_with_a_cut()
    menu, _ = looked(FirstLook(cuts=True), codes, labels, gate_of(np.inf), grid=Grid(8), menu=replace(MENU, n_features=None))
    assert menu.kinds == (OneChildPerValue(numeric=False), Intervals(((3,), (), ())))
    domain = Domain.of(SCHEMA, Grid(8))
    routes = menu.fixed(domain)
    rows = zip(routes.features.tolist(), routes.children(np.arange(routes.n_routes)), strict=True)
    route = {feature: row[: domain.n_codes[feature]].tolist() for feature, row in rows}
    assert route[0] == [0, 0, 0, 1, 1, 1, 1, 1, 2]  # missing is a value of its own
    assert route[1] == [0, 1, 2, 3]
    assert len(set(route[2])) == 1
    reach = np.ones((1, domain.total_codes), dtype=bool)
    offered = menu.propose(domain, routes, reach, np.random.default_rng(0))
    assert sorted(offered.features[0, offered.valid[0]].tolist()) == [0, 1]


@pytest.mark.parametrize("epsilon", [np.inf, 20.0])
def test_only_the_relevant_features_are_offered_to_every_node(epsilon):
    codes, labels = records_with_a_cut()
    menu, _ = looked(FirstLook(select=True), codes, labels, gate_of(epsilon), grid=Grid(8))
    assert (menu.only, menu.n_features) == ((0,), None)
    domain = Domain.of(SCHEMA, Grid(8))
    reach = np.ones((5, domain.total_codes), dtype=bool)
    for allowed in (None, np.ones((5, 3), dtype=bool)):
        offered = menu.propose(domain, menu.fixed(domain), reach, np.random.default_rng(0), allowed)
        assert set(offered.features[offered.valid].tolist()) == {0}


def test_without_noise_the_choice_is_that_of_uncertainty_and_gain_on_the_records():
    # The label is the exclusive or of two features, with a little of each, and a third feature tells something by itself.
    rng, features = np.random.default_rng(4), {name: Categorical(["u", "v"]) for name in "abcd"}
    schema = Schema(features, Classes([0, 1]))
    a, b, d = rng.integers(0, 2, (3, 3000))
    labels = np.where(rng.random(3000) < 0.9, a ^ b, a | b)
    c = np.where(rng.random(3000) < 0.6, labels, 1 - labels)
    codes = np.array([a, b, c, np.where(rng.random(3000) < 0.2, labels, d)], dtype=np.uint8)
    tables = np.zeros((4, 4, 2, 2, 2))
    for one, other in itertools.product(range(4), repeat=2):
        np.add.at(tables[one, other], (codes[one], codes[other], labels), 1)
    own = np.array([symmetric_uncertainty(tables[one, (one + 1) % 4].sum(axis=1)) for one in range(4)])
    gains = np.array([[normalised_interaction_gain(tables[x, y]) * (x != y) for y in range(4)] for x in range(4)])
    menu = Menu(n_features=2)
    chosen = {
        pairs: looked(FirstLook(select=True, pairs=pairs), codes, labels, gate_of(np.inf), schema, menu=menu)[0].only
        for pairs in (False, True)
    }
    relevant = np.argsort(-own)
    assert chosen[False] == tuple(sorted(relevant[:2]))
    assert chosen[True] == tuple(sorted(kept_by_elimination(own, gains, 2)))
    assert chosen[True] == (0, 1) != chosen[False]


@pytest.mark.parametrize("epsilon", [np.inf, 1.0, 1e-3])
def test_features_of_many_codes_have_few_runs_in_pairs(epsilon, monkeypatch):
    monkeypatch.setattr(first_look, "MOST_RUNS", 5)
    rng = np.random.default_rng(1)
    codes = np.array([rng.integers(0, 40, 500), rng.integers(0, 2, 500), rng.integers(0, 40, 500)]).astype(np.uint8)
    labels = (codes[0] > 20).astype(int)
    codes[1:] = [labels, codes[0]]
    gate = gate_of(epsilon)
    looked(FirstLook(select=True, pairs=True), codes, labels, gate, grid=Grid(40))
    for values in gate.noised[1:]:
        assert values.sum() == 3 * 500
        assert values.size <= 5 * 5 * 3 * 3


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["patil-singh-2014", "liu-2022"])
def test_noise_as_large_as_64_bits_allow_gives_a_model(name):
    X, y, _ = mixed_table(60, seed=1)
    recipe = get_recipe(name)
    model = DPForestClassifier(TWO, epsilon=1e-9, recipe=recipe, n_trees=2, max_depth=2)
    assert model.fit(X, y).ledger_.spent == pytest.approx(1e-9)


# --- noisy counts and class means ------------------------------------------------------------------------------------

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
