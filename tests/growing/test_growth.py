"""Trees grow level by level, ask only what the plan pays for, and spend what they were given."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.encoded import random_table
from tests.support.planted import assert_sound
from tests.support.strategies import FIXED, MEAN, SEEDS, THREE, TWO, domains, menus, mixed_table, reaches, recipe_of

from dpforest import Classes, DPForestClassifier, DPForestRegressor
from dpforest.errors import ParameterError
from dpforest.growing import choosing as choosing_module
from dpforest.growing import grower as growth_module
from dpforest.growing.choosing import FeatureFirst, Medians
from dpforest.growing.grower import Growth, grow
from dpforest.mechanisms import Entropy
from dpforest.mechanisms.exact import Rate
from dpforest.mechanisms.noise import GeometricNoise
from dpforest.parts import proposals as proposals_module
from dpforest.parts.allocation import Arithmetic, EveryQuery, Geometric, Harmonic, LeavesOnly, Linear, Uniform
from dpforest.parts.criteria import Balance, EntropyCount, GiniCount, MaxOperator, Mixture, SquaredError
from dpforest.parts.leaves import NoisyCounts, NoisyMargin, PrivateLabel, TwoBinMean
from dpforest.parts.postprocess import Consistency, NonNegative, Prune, Shrinkage
from dpforest.parts.proposals import Menu, OneAgainstRest, OneChildPerValue, RandomSubsets, Thresholds
from dpforest.parts.recipe import Job
from dpforest.parts.routes import Candidates
from dpforest.parts.sampling import Disjoint, EveryRecord, PoissonBootstrap
from dpforest.parts.voting import ConfidenceWeighted, Majority, MeanOfShares, MostConfidentNode, PooledMargins
from dpforest.privacy.accountants import Pure
from dpforest.privacy.amounts import exact
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.counter import MemoryCounter
from dpforest.schema.domain import Domain


@st.composite
def open_levels(draw):
    """Open nodes that can hold some codes only, candidates for each, and a choice."""
    domain, n_open = draw(domains()), draw(st.integers(1, 5))
    growth, menu, rng = Growth(domain, n_open), draw(menus), np.random.default_rng(draw(SEEDS))
    growth._reach = draw(reaches(domain, n_open))
    return growth, *chosen_at_random(growth, menu, rng)


def chosen_at_random(growth, menu, rng):
    """Candidates for the open nodes, and one for each, of some nodes none."""
    candidates = menu.propose(growth.domain, menu.fixed(growth.domain), growth.reach, rng)
    chosen = np.array([rng.choice(np.flatnonzero(valid)) if valid.any() else -1 for valid in candidates.valid])
    chosen[rng.random(len(chosen)) < 0.2] = -1
    return candidates, chosen


def check_split(growth, candidates, chosen, most_nodes):
    reach, reached, first = growth.reach, growth.reached, growth.first
    expected, children = naive.split(growth.domain, reach, candidates.routes, candidates.indices, chosen, first, most_nodes)
    features, routes, first_children = growth.split(candidates, chosen)
    assert features.tolist() == [feature for feature, _, _ in expected]
    assert first_children.tolist() == [child for _, _, child in expected]
    n_children = [sum(parent == node for parent, _ in children) for node in range(len(reach))]
    for node, (feature, child_of, _) in enumerate(expected):
        assert {code: int(routes[node, code]) for code in child_of} == child_of
        if feature >= 0:  # codes that cannot come go to some child that is there
            assert (routes[node, : growth.domain.n_codes[feature]] < n_children[node]).all()
    assert growth.first == first + len(reach)
    assert growth.reach.tolist() == [held for _, held in children]
    assert growth.open_trees.tolist() == [parent for parent, _ in children]  # the open nodes were roots
    listed = [holds_listed_value(growth.domain, expected[parent][0], held) for parent, held in children]
    n_listed = [sum(listed[row] for row, (parent, _) in enumerate(children) if parent == node) for node in range(len(reach))]
    assert growth.reached.tolist() == [
        reached[parent] / n_listed[parent] if is_listed else 0.0
        for (parent, _), is_listed in zip(children, listed, strict=True)
    ]


def holds_listed_value(domain, feature, held):
    """Whether a node can hold a value of a feature that the schema lists: not "other", not missing."""
    n_unlisted = 1 if domain.is_numeric[feature] else 2
    return any(held[domain.offsets[feature] : domain.offsets[feature + 1] - n_unlisted])


@FIXED
@given(open_levels(), st.sampled_from([*range(13), 10**6]))
def test_a_split_equals_its_twin_also_under_a_cap(level, n_more):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth_module, "MOST_NODES", level[0].n_open + n_more)
        check_split(*level, level[0].n_open + n_more)


@FIXED
@given(domains(), st.integers(1, 3), menus, SEEDS)
def test_a_finished_forest_is_numbered_level_by_level_and_its_links_agree(domain, n_trees, menu, seed):
    growth, rng = Growth(domain, n_trees), np.random.default_rng(seed)
    for _ in range(3):
        if growth.n_open:
            growth.split(*chosen_at_random(growth, menu, rng))
    forest = growth.finish(Classes(["a", "b"]))
    assert forest.n_trees == growth.n_trees
    assert_sound(forest)
    assert np.isnan(forest.counts).all()
    assert ((forest.splits >= 0) == ~forest.is_leaf).all()
    for node in np.flatnonzero(~forest.is_leaf):
        assert {*forest.routes[forest.splits[node]]} >= {*range(np.count_nonzero(forest.parents == node))}


def labels(model):
    return [entry["label"] for entry in model.ledger_.entries()]


def test_a_level_of_random_splits_asks_for_no_counts_and_costs_nothing(monkeypatch):
    def refuse(self, first, wanted):
        raise AssertionError("A random split asked for counts.")

    monkeypatch.setattr(MemoryCounter, "count_codes", refuse)
    X, y, _ = mixed_table(50, seed=0)
    model = DPForestClassifier(TWO, recipe=recipe_of(propose=Menu(random=True), depth=3), random_state=0).fit(X, y)
    assert model.forest_.depth == 3
    assert labels(model) == ["leaves"]
    assert model.ledger_.total == 1.0  # the leaves get what the levels did not need


def test_choosing_with_nothing_paid_for_splits_is_refused_and_charges_nothing():
    X, y, _ = mixed_table(50, seed=0)
    for epsilon, delta in [(1.0, 0.0), (1.0, 1e-6), (math.inf, 0.0)]:
        model = DPForestClassifier(TWO, epsilon=epsilon, delta=delta, recipe=recipe_of(allocate=LeavesOnly()))
        with pytest.raises(ParameterError):
            model.fit(X, y)
        assert labels(model) == []


def grown(recipe, epsilon):
    domain, codes, y = random_table(TWO, recipe.grid, 60, seed=2)
    entropy, ledger = Entropy(3), Ledger(Pure(epsilon))
    counter = MemoryCounter(codes, y, domain, TWO.target)
    counter.deal(recipe.sample.assignment(recipe.n_trees), entropy)
    plan = recipe.allocate.plan(epsilon, recipe.depth)
    forest = grow(Job(counter, recipe, Gate(ledger, entropy), recipe.n_trees), plan)
    return forest, plan, ledger, codes, y


@pytest.mark.parametrize("count_share", [0.0, 0.25])
def test_counts_of_inner_levels_are_released_if_the_plan_pays_for_them_and_else_stay_sealed(count_share):
    forest, plan, ledger, _, _ = grown(recipe_of(allocate=Uniform(count_share=count_share), depth=2), epsilon=1.0)
    levels = [(f"{what} of level {n}", getattr(plan, what)[n]) for n in range(2) for what in ("counts", "splits")]
    asked = [(label, amount) for label, amount in (*levels, ("leaves", plan.leaves)) if amount]
    assert [(entry["label"], entry["epsilon"]) for entry in ledger.entries()] == asked
    assert len(asked) == (5 if count_share else 3)
    assert np.isnan(forest.counts[~forest.is_leaf]).all() == (count_share == 0)
    for nodes, amount in [(forest.levels == 0, plan.counts[0]), (forest.is_leaf, plan.leaves)]:
        if amount:
            np.testing.assert_allclose(forest.variances[nodes], GeometricNoise.variance(Rate.below(Fraction(amount))))


def test_without_noise_each_node_has_the_count_of_the_records_that_walk_through_it():
    forest, _, _, codes, y = grown(recipe_of(allocate=Uniform(count_share=0.25), n_trees=2, depth=3), epsilon=math.inf)
    counts = np.zeros_like(forest.counts)
    for tree in range(2):
        for record, label in zip(codes.T, y, strict=True):
            counts[naive.path(forest, tree, record), label] += 1
    assert forest.counts.tolist() == counts.tolist()
    assert (forest.variances == 0).all()


# Parts of each kind, which meet in twelve fits.
KINDS_OF_PARTS = {
    "allocate": [Uniform(), Uniform(split_share=0.3), Uniform(count_share=0.5), Geometric(), Arithmetic(),
                 Linear(q=1.5, slope=0.4, count_share=0.5), Harmonic(count_share=0.1)],
    "leaf": [NoisyCounts(), NoisyMargin(), PrivateLabel()],
    "vote": [MeanOfShares(), Majority(), PooledMargins(), ConfidenceWeighted(), MostConfidentNode()],
    "sample": [Disjoint(), EveryRecord()],
    "propose": [Menu(), Menu((OneAgainstRest(),)), Menu(n_features=3), Menu((OneChildPerValue(),)),
                Menu((RandomSubsets(3), Thresholds())), Menu(random=True)],
    "criterion": [GiniCount(), MaxOperator(), EntropyCount(), Balance(), Mixture(((MaxOperator(), 2), (Balance(), 1)))],
    "select": [None, "permute-and-flip", "exponential"],
    "refine": [(), (NonNegative(), Consistency(), Shrinkage(), Prune())],
}  # fmt: skip
PARTS = [{kind: some[k % len(some)] for kind, some in KINDS_OF_PARTS.items()} for k in range(12)]
PARTS += [{"allocate": LeavesOnly(), "propose": Menu(random=True)}]
LOSSES = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])


def check_spends_its_budget(model):
    accountant = model.ledger_.accountant
    assert (1 - 1e-9) * accountant.budget <= model.ledger_.total <= accountant.budget
    assert (1 - 1e-6) * model.epsilon <= model.ledger_.spent <= model.epsilon
    assert model.privacy_.epsilon == model.ledger_.spent


@pytest.mark.slow
@LOSSES
@pytest.mark.parametrize("parts", PARTS)
def test_a_recipe_of_any_parts_trains_and_spends_exactly_its_budget(parts, delta):
    X, y, _ = mixed_table(60, seed=1)
    model = DPForestClassifier(TWO, epsilon=0.7, delta=delta, recipe=recipe_of(**parts, n_trees=3)).fit(X, y)
    check_spends_its_budget(model)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


MEANS = {"criterion": SquaredError(), "leaf": TwoBinMean(), "n_trees": 3}
BOOTSTRAP = {"sample": PoissonBootstrap(), "allocate": Uniform(count_share=0.2)}
SMALL_FITS = {
    "no record": (THREE, 0, {"n_trees": 2}),
    "one record": (THREE, 1, {"n_trees": 2}),
    "means": (MEAN, 60, MEANS),
    "means of disjoint parts": (MEAN, 60, MEANS | {"sample": Disjoint()}),
    "a bootstrap": (TWO, 60, BOOTSTRAP | {"n_trees": 1}),
    "bootstraps": (TWO, 60, BOOTSTRAP | {"n_trees": 7}),
}


@LOSSES
@pytest.mark.parametrize(("schema", "n_rows", "parts"), SMALL_FITS.values(), ids=SMALL_FITS)
def test_small_fits_of_any_target_and_sample_spend_exactly_their_budget(schema, n_rows, parts, delta):
    if delta and "allocate" in parts:
        pytest.skip("a bootstrap has no zCDP analysis")
    X, y, z = mixed_table(n_rows, seed=1, n_classes=3 if schema is THREE else 2)
    kind, y = (DPForestRegressor, z) if schema is MEAN else (DPForestClassifier, y)
    check_spends_its_budget(kind(schema, epsilon=0.7, delta=delta, recipe=recipe_of(**parts)).fit(X, y))


# --- public caps ----------------------------------------------------------------------------------------------------

KINDS = (Thresholds(), OneAgainstRest(), OneChildPerValue(), RandomSubsets(2))


@FIXED
@given(domains(), st.integers(1, 11), SEEDS, st.data())
def test_random_splits_drawn_in_blocks_divide_their_own_node_wherever_any_split_does(domain, n_nodes, seed, data):
    reach = data.draw(reaches(domain, n_nodes))
    menu = Menu((KINDS[2], *data.draw(st.lists(st.sampled_from(KINDS), max_size=2, unique=True))), random=True)
    fixed, rng = menu.fixed(domain), np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposals_module, "BLOCK_NODES", 1 + seed % 4)
        candidates = menu.propose(domain, fixed, reach, rng)
    assert candidates.indices.shape == candidates.valid.shape == (n_nodes, 1)
    for node in range(n_nodes):
        held = [np.flatnonzero(reach[node, a:b]) for a, b in itertools.pairwise(domain.offsets)]
        route, feature = candidates.indices[node, 0], candidates.features[node, 0]
        if candidates.valid[node, 0]:
            assert naive.divides(candidates.routes.children(np.array([route]))[0], held[feature])
        else:
            # One child for each value divides every node that holds two values of a feature.
            assert all(len(codes) < 2 for codes in held)


@FIXED
@given(domains(), st.integers(2, 9), SEEDS, st.data())
def test_blocks_of_random_splits_keep_to_the_features_that_each_node_may_use(domain, n_nodes, seed, data):
    reach, rng = data.draw(reaches(domain, n_nodes)), np.random.default_rng(seed)
    allowed = rng.random((n_nodes, domain.n_features)) < 0.5
    menu = Menu((OneChildPerValue(),), random=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposals_module, "BLOCK_NODES", 2)
        candidates = menu.propose(domain, menu.fixed(domain), reach, rng, allowed)
    nodes = np.flatnonzero(candidates.valid[:, 0])
    assert allowed[nodes, candidates.features[nodes, 0]].all()


@pytest.mark.parametrize("allocate", [Uniform(), EveryQuery()], ids=["uniform", "every query"])
def test_a_forest_that_the_cap_holds_back_still_spends_exactly_its_budget(allocate, monkeypatch):
    monkeypatch.setattr(growth_module, "MOST_NODES", 6)
    X, y, _ = mixed_table(60, seed=1)
    model = DPForestClassifier(TWO, 0.7, recipe=recipe_of(allocate=allocate, depth=6), random_state=0).fit(X, y)
    assert model.forest_.n_nodes <= 6
    assert (1 - 1e-9) * 0.7 <= model.ledger_.total <= 0.7


def test_a_level_has_no_more_open_nodes_than_there_is_room_for_the_codes_that_they_can_hold(monkeypatch):
    monkeypatch.setattr(growth_module, "MOST_REACH", 10 * Domain.of(TWO, recipe_of().grid).total_codes)
    X, y, _ = mixed_table(90, seed=6)
    recipe = recipe_of(propose=Menu(random=True), allocate=LeavesOnly(), n_trees=3, depth=9)
    forest = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y).forest_
    assert max(level.stop - level.start for level in forest.level_slices()) == 10


@pytest.mark.parametrize("part", [None, FeatureFirst(), Medians()], ids=lambda part: type(part).__name__)
def test_nodes_beyond_the_most_scores_of_a_level_stay_leaves_and_the_budget_is_spent(part, monkeypatch):
    X, y, _ = mixed_table(90, seed=6)
    recipe = recipe_of(choose=part, n_trees=3, depth=3)
    n_candidates = recipe.propose.fixed(Domain.of(TWO, recipe.grid)).n_routes
    whole = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y).forest_
    monkeypatch.setattr(choosing_module, "MOST_SCORES", 3 * n_candidates + 1)  # of three nodes
    forest = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y).forest_
    n_split = [np.count_nonzero(forest.features[level] >= 0) for level in forest.level_slices()]
    assert n_split == [3, 3, 3, 0]
    assert forest.features[:6].tolist() == whole.features[:6].tolist()  # the roots and the first nodes below are as before
    assert (forest.features[6:9] == -1).all()
    assert exact(DPForestClassifier(TWO, 0.7, recipe=recipe, random_state=1).fit(X, y).ledger_.total) <= exact(0.7)


def test_a_choice_among_all_splits_makes_no_table_of_features_as_large_as_its_scores(monkeypatch):
    def refuse(candidates):
        raise MemoryError

    monkeypatch.setattr(Candidates, "features", property(refuse))
    X, y, _ = mixed_table(30, seed=6)
    assert DPForestClassifier(TWO, recipe=recipe_of()).fit(X, y).forest_.depth == 2
