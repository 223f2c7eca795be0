"""The first look keeps its claim: what a record moves, what is charged, and what follows from released tables alone."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.support import naive
from tests.support.encoded import opened, random_table, with_one_more
from tests.support.laws import largest_norms
from tests.support.strategies import TWO, mixed_table, recipe_of

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema, get_recipe
from dpforest.audit.tape import Tape
from dpforest.mechanisms import Entropy
from dpforest.parts.proposals import Intervals, Menu, OneChildPerValue
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.recipes.papers import first_look
from dpforest.recipes.papers.first_look import (
    FirstLook,
    kept_by_elimination,
    normalised_interaction_gain,
    symmetric_uncertainty,
)
from dpforest.records.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

SCHEMA = Schema({"a": Numeric(0, 1), "c": Categorical(["u", "v"]), "b": Numeric(0, 1)}, Classes([0, 1, 2]))
MENU = Menu((OneChildPerValue(),), n_features=1)


class KeepingGate(Gate):
    """Keeps what it is handed."""

    def __init__(self, epsilon):
        super().__init__(Ledger(make_accountant(epsilon, 0.0)), Entropy(3))
        self.kept = []

    def add_noise(self, values, *stated):
        self.kept.append(opened(values).copy())
        return super().add_noise(values, *stated)


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
    looked(look, codes, labels, tape.watch(KeepingGate(50.0)))
    moves = {label: [] for label in expected}
    for record, label in itertools.product(naive.all_records(domain), range(3)):
        more = Tape(3, extra_first=False, script=tape.queries)
        looked(look, *with_one_more(codes, labels, record, label), more.watch(KeepingGate(50.0)))
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
        gate = KeepingGate(1.0)
        assert looked(look, codes, labels, gate, menu=menu)[1] == left
        assert [entry["epsilon"] for entry in gate.ledger.entries()] == charged


def test_without_numeric_features_cuts_cost_nothing_and_change_nothing():
    schema = Schema({"c": Categorical(["u", "v"]), "d": Categorical(["p"])}, Classes([0, 1]))
    _, codes, labels = random_table(schema, Grid(3), 50, seed=2)
    gate = KeepingGate(1.0)
    assert looked(FirstLook(cuts=True), codes, labels, gate, schema) == (MENU, 1.0)
    assert gate.kept == []
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
        found, _ = looked(FirstLook(cuts=True), codes, labels, KeepingGate(epsilon), grid=Grid(8), menu=menu)
        assert found.kinds == (OneChildPerValue(numeric=False), Intervals(expected))
    # A feature with fewer bins than intervals has a child for each.
    found, _ = looked(FirstLook(cuts=True), codes % 2, labels, KeepingGate(1e-6), grid=Grid(2), menu=menu)
    assert found.kinds == (OneChildPerValue(numeric=False), Intervals(((1,), (), (1,))))


def test_bins_become_the_intervals_between_cuts_and_a_feature_without_a_cut_is_not_split():
    codes, labels = records_with_a_cut()
    menu, _ = looked(
        FirstLook(cuts=True), codes, labels, KeepingGate(np.inf), grid=Grid(8), menu=replace(MENU, n_features=None)
    )
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
    menu, _ = looked(FirstLook(select=True), codes, labels, KeepingGate(epsilon), grid=Grid(8))
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
        pairs: looked(FirstLook(select=True, pairs=pairs), codes, labels, KeepingGate(np.inf), schema, menu=menu)[0].only
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
    gate = KeepingGate(epsilon)
    looked(FirstLook(select=True, pairs=True), codes, labels, gate, grid=Grid(40))
    for values in gate.kept[1:]:
        assert values.sum() == 3 * 500
        assert values.size <= 5 * 5 * 3 * 3


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["patil-singh-2014", "liu-2022"])
def test_noise_as_large_as_64_bits_allow_gives_a_model(name):
    X, y, _ = mixed_table(60, seed=1)
    recipe = get_recipe(name)
    model = DPForestClassifier(TWO, epsilon=1e-9, recipe=recipe, n_trees=2, max_depth=2)
    assert model.fit(X, y).ledger_.spent == pytest.approx(1e-9)
