"""Whole fits of the catalogue, of parts in any company and of the planner, replayed on neighbouring tables.

What the gate is handed when one record is added may move within the stated bound, in one node of a tree; charges and forest
must be the same. See ``tests.support.replay``.
"""

import itertools
import math
from dataclasses import replace

import pytest
from tests.support.encoded import random_table, resolved, with_one_more
from tests.support.replay import assert_same_release, check_neighbours, train
from tests.support.strategies import MEAN, MIXED, THREE, TWO, mixed_table, recipe_of
from tests.support.targets import NUMBER, classes

from dpforest import DPForestClassifier, Schema, get_recipe, list_recipes
from dpforest.audit.replay import unpaid_moves
from dpforest.growing import linear
from dpforest.growing.choosing import FeatureFirst, Medians
from dpforest.growing.class_means import ClassMeans
from dpforest.growing.first_look import FirstLook
from dpforest.growing.linear import Linear
from dpforest.growing.out_of_bag import OutOfBag
from dpforest.growing.selective import SelectiveAggregation
from dpforest.growing.sequential import Phase, Sequential
from dpforest.growing.two_phase import TwoPhase
from dpforest.parts.allocation import EveryQuery, LeavesOnly, Uniform
from dpforest.parts.criteria import MaxOperator, WeightedMajority
from dpforest.parts.leaves import PrivateLabel, Rotated
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.proposals import AllSubsets, Menu, OneChildPerValue, Thresholds
from dpforest.parts.sampling import Disjoint, PoissonBootstrap
from dpforest.parts.stopping import AboveNoise, EstimatedSupport, NoisySize
from dpforest.parts.voting import LogShares, Majority
from dpforest.privacy.base import Blocks, Bound

RECIPES = [recipe["name"] for recipe in list_recipes()]
REGRESSION = [recipe["name"] for recipe in list_recipes() if "regression" in recipe["tasks"]]


# --- fits that are replayed on another table ------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_with_the_same_releases_one_more_record_moves_only_what_was_paid_for(name):
    recipe = resolved(get_recipe(name), THREE)
    moved = [label for seed in range(4) for label in check_neighbours(recipe, THREE, seed)]
    assert "leaves" in moved
    assert ("errors of trees" in moved) == isinstance(recipe.stages, OutOfBag)


@pytest.mark.parametrize("name", REGRESSION)
def test_with_the_same_releases_one_more_value_moves_only_what_was_paid_for(name):
    recipe = resolved(get_recipe(name), MEAN)
    moved = [label for seed in range(4) for label in check_neighbours(recipe, MEAN, seed)]
    assert "leaves" in moved


# Parts in company that no paper has.
COMPANIES = {
    "two-phase on all records": {"stages": TwoPhase(), "vote": Majority()},
    "two-phase on disjoint parts": {"stages": TwoPhase(0.4), "sample": Disjoint()},
    "selective on all records": {"stages": SelectiveAggregation(0.5, 2), "vote": Majority()},
    "selective in subsets": {"stages": SelectiveAggregation(0.5, subset_size=2), "vote": Majority()},
    "out-of-bag on disjoint parts": {"stages": OutOfBag(n_first=4, held_out=0.5), "sample": Disjoint()},
    "out-of-bag on bootstraps": {"stages": OutOfBag(n_first=2, held_out=0.5), "sample": PoissonBootstrap()},
    "class means on disjoint parts": {"narrow": ClassMeans(0.3), "sample": Disjoint()},
    "class means before two steps": {"narrow": ClassMeans(), "choose": FeatureFirst()},
    "medians on disjoint parts": {"choose": Medians(), "sample": Disjoint()},
    "medians of some features, distinct roots": {
        "choose": Medians(),
        "distinct_roots": True,
        "propose": Menu((Thresholds(), AllSubsets()), n_features=2),
    },
    "medians after class means": {"narrow": ClassMeans(), "choose": Medians()},
    "medians jointly with a stop": {
        "choose": Medians(jointly=True, weight=3),
        "allocate": EveryQuery(),
        "stop": NoisySize(50),
    },
    "two steps with distinct roots": {"choose": FeatureFirst(), "distinct_roots": True},
    "distinct roots after class means": {"narrow": ClassMeans(), "distinct_roots": True},
    "cuts and a choice of features": {
        "first_look": FirstLook(0.3, cuts=True, select=True, pairs=True),
        "propose": Menu((OneChildPerValue(), Thresholds()), n_features=2),
    },
    "a choice of features on disjoint parts": {
        "first_look": FirstLook(0.3, select=True),
        "propose": Menu(n_features=2),
        "sample": Disjoint(),
        "stages": TwoPhase(),
    },
    "distinct roots in two phases": {"distinct_roots": True, "stages": TwoPhase()},
    "counts, two steps and a stop": {"allocate": EveryQuery(), "choose": FeatureFirst(), "stop": NoisySize(50)},
    "above the noise, labels": {"allocate": Uniform(count_share=0.4), "stop": AboveNoise(), "leaf": PrivateLabel()},
    "weighted majority in two steps": {"criterion": WeightedMajority(), "choose": FeatureFirst(), "sample": Disjoint()},
}


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("parts", COMPANIES.values(), ids=COMPANIES)
def test_parts_of_the_catalogue_keep_their_claims_in_any_company(parts, delta):
    if delta and isinstance(parts.get("sample"), PoissonBootstrap):
        pytest.skip("a bootstrap has no zCDP analysis")
    recipe = recipe_of(n_trees=4, depth=2, **parts)
    moved = [label for seed in range(4) for label in check_neighbours(recipe, TWO, seed, delta=delta)]
    assert "leaves" in moved
    assert ("errors of trees" in moved) == isinstance(recipe.stages, OutOfBag)


CONSTANT = Phase(0.1, 1, {"depth": 0, "allocate": LeavesOnly(), "refine": (EvenShrinkage(1.0),), "vote": LogShares(1.0)})
SCORES = {
    "same map": Linear(0.5, looks=(0.3, 0.3), choice=0.4, least_signal=-math.inf),
    "even map": Linear(0.5, looks=(0.3, 0.3), choice=0.4, least_signal=math.inf, categories=True),
    "by the signal": Linear(0.5, looks=(0.3, 0.3), choice=0.4, categories=True),
    "rule of one level": Linear(0.5, looks=(0.3, 0.1), choice=0.5, categories=True, rule_depth=1),
    "rule of two levels": Linear(0.5, looks=(0.3, 0.1), choice=0.5, rule_depth=2),
}


def with_score(step):
    """A recipe whose score comes between a constant and two trees that choose their splits."""
    return recipe_of(
        stages=Sequential((CONSTANT, step, Phase(0.4, 2))), criterion=MaxOperator(), leaf=Rotated(0.3),
        refine=(EvenShrinkage(3.0),), vote=LogShares(0.5), n_trees=3, depth=2,
    )  # fmt: skip


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("step", SCORES.values(), ids=SCORES)
def test_with_the_same_releases_one_more_record_moves_only_what_a_score_paid_for(step, delta):
    recipe = with_score(step)
    moved = [label for seed in range(3) for label in check_neighbours(recipe, TWO, seed, n_rows=60, delta=delta)]
    assert "leaves" in moved
    assert any("first look" in label for label in moved)
    assert any(("labelled" if step.rule_depth else "slope") in label for label in moved)


@pytest.mark.parametrize("step", SCORES.values(), ids=SCORES)
def test_with_the_same_releases_a_score_does_not_depend_on_its_table(step):
    recipe = with_score(step)
    _, codes, labels = random_table(TWO, recipe.grid, 80, seed=1)
    one = train(recipe, TWO, codes, labels)
    for n_rows, seed in [(80, 2), (1, 3), (0, 4)]:
        _, other_codes, others = random_table(TWO, recipe.grid, n_rows, seed)
        assert_same_release(one, train(recipe, TWO, other_codes, 1 - others, one.queries))


def less(bound):
    """The bound, a tenth too small."""
    if isinstance(bound, Blocks):
        return replace(bound, l1=bound.l1 * 9 // 10)
    return Bound(bound.low, bound.high * 9 // 10)


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize(("understated", "label"), [("Blocks", "look"), ("Bound", "slope")])
def test_a_score_that_understates_what_a_record_moves_by_a_tenth_is_found(understated, label, delta, monkeypatch):
    sound = getattr(linear, understated)
    monkeypatch.setattr(linear, understated, lambda *given: less(sound(*given)))
    recipe, found = with_score(SCORES["same map"]), []
    for seed in range(6):
        _, codes, labels = random_table(TWO, recipe.grid, 40, seed)
        one = train(recipe, TWO, codes, labels, seed=seed, delta=delta)
        for code, other in [(0, 0), (0, 1), (1, 0), (1, 1)]:
            # The last feature has two categories, at the ends of their map.
            more = with_one_more(codes, labels, [5 * code, 5 * code, code, code], other)
            found += unpaid_moves(one, train(recipe, TWO, *more, one.queries, seed, delta))
    assert any(label in str(finding) for finding in found)


@pytest.mark.parametrize("name", RECIPES)
def test_with_the_same_releases_a_table_that_shares_nothing_gives_the_same_charges_and_forest(name):
    # So stopping rules, budgets of levels, drawn features and pruning are functions of what was released.
    recipe = resolved(get_recipe(name), THREE, depth=3)
    _, codes, labels = random_table(THREE, recipe.grid, 500, seed=1)
    one = train(recipe, THREE, codes, labels)
    assert one.queries
    for n_rows, seed in [(500, 2), (37, 3), (1, 4), (0, 5)]:
        _, other_codes, other_labels = random_table(THREE, recipe.grid, n_rows, seed)
        assert_same_release(one, train(recipe, THREE, other_codes, 2 - other_labels, one.queries))


@pytest.mark.parametrize(
    ("stop", "allocate", "depth"),
    [(NoisySize(60), EveryQuery(), 6), (AboveNoise(), EveryQuery(), 6), (EstimatedSupport(), Uniform(), 9)],
    ids=["size", "noise", "support"],
)
def test_a_stopping_rule_that_stops_some_nodes_stops_the_same_ones_whatever_the_rows(stop, allocate, depth):
    recipe = recipe_of(stop=stop, allocate=allocate, depth=depth, n_trees=2)
    _, codes, labels = random_table(TWO, recipe.grid, 600, seed=1)
    one = train(recipe, TWO, codes, labels)
    # The rule bites: some nodes are split and some are not.
    assert one.forest.depth > 1
    assert (one.forest.levels[one.forest.is_leaf] < depth).any()
    _, other_codes, other_labels = random_table(TWO, recipe.grid, 600, seed=2)
    assert_same_release(one, train(recipe, TWO, other_codes, 1 - other_labels, one.queries))


# --- neighbouring tables --------------------------------------------------------------------------------------------


def charges(name, n_rows, seed, delta):
    X, y, _ = mixed_table(121, seed=5, n_classes=3)
    schema = Schema(MIXED, THREE.target, n_rows=120)
    model = DPForestClassifier(schema, 1.0, delta, name, n_trees=3, max_depth=2, random_state=seed)
    model.fit(X[:n_rows], y[:n_rows])
    entries = model.ledger_.entries()
    return [(entry["scope"], entry["label"], entry["mechanism"]) for entry in entries], entries


# Whether the first two ask below the root follows released counts, so only what they ask of the root is compared. The
# amounts of the third follow released weights, its labels do not at this shape. That charges are functions of releases and
# public facts is shown by replaying, above.
BY_RELEASED_COUNTS = {"friedman-schuster-2010", "fletcher-islam-2015-dpdf"}
BY_RELEASED_VALUES = {*BY_RELEASED_COUNTS, "li-2022"}
# What is asked after a first look follows its released tables.
BY_FIRST_LOOK = {"patil-singh-2014", "liu-2022"}


def asked_of_roots(charges):
    found = [charge for charge in charges if charge[1].endswith("level 0")]
    assert found
    return found


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("name", RECIPES)
def test_neighbouring_tables_have_the_same_charges_in_the_same_order(name, delta):
    if delta and isinstance(get_recipe(name).sample, PoissonBootstrap):
        pytest.skip("a bootstrap has no zCDP analysis")
    for n_rows, seed in itertools.product([0, 120], range(3)):
        one, entries = charges(name, n_rows, seed, delta)
        two, more = charges(name, n_rows + 1, seed, delta)
        if name in BY_RELEASED_COUNTS:
            one, two = asked_of_roots(one), asked_of_roots(two)
        if name in BY_FIRST_LOOK:
            one, two, entries, more = one[:1], two[:1], entries[:1], more[:1]
            assert one[0][1] == "first look"
        assert one == two
        if name not in BY_RELEASED_VALUES:
            assert entries == more
            # Seeds change nothing either: the charges are a function of public facts alone.
            others = charges(name, n_rows + 1, seed + 50, delta)[1]
            assert (others[:1] if name in BY_FIRST_LOOK else others) == entries


# --- whole plans, replayed ------------------------------------------------------------------------------------------

AUTO = get_recipe("auto")
SCHEMAS = {
    "two": Schema(MIXED, classes(2)),
    "three": Schema(MIXED, classes(3)),
    "ten": Schema(MIXED, classes(10)),
    "number": Schema(MIXED, NUMBER),
}
# Rows, and trees that the user asks for: plans of one tree, of a few, and of several phases.
ASKED = {"few rows": (200.0, None), "some rows": (3_000.0, 4), "several phases": (1e6, None)}


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", SCHEMAS)
def test_with_the_same_releases_one_more_record_moves_only_what_a_planned_forest_paid_for(name, asked, delta):
    n_rows, n_trees = ASKED[asked]
    recipe = resolved(AUTO, SCHEMAS[name], n_trees, n_rows=n_rows, delta=delta)
    # The range that few records have paid for may be anywhere; one more of a number beyond it moves nothing.
    moved = check_neighbours(recipe, SCHEMAS[name], seed=1, n_rows=600 if name == "number" else 60, delta=delta)
    assert "leaves" in moved
    assert any(label.startswith("splits") for label in moved)
    if name == "number":
        assert {"location of the target", "spread of the target"} <= {*moved}
        assert any(label.endswith("centres") for label in moved)


@pytest.mark.parametrize("name", SCHEMAS)
def test_with_the_same_releases_a_planned_forest_does_not_depend_on_its_table(name):
    recipe = resolved(AUTO, SCHEMAS[name], n_trees=4, n_rows=1e6)
    _, codes, target_codes = random_table(SCHEMAS[name], recipe.grid, 80, seed=1)
    one = train(recipe, SCHEMAS[name], codes, target_codes)
    for n_rows, seed in [(80, 2), (1, 3), (0, 4)]:
        _, other_codes, others = random_table(SCHEMAS[name], recipe.grid, n_rows, seed)
        assert_same_release(one, train(recipe, SCHEMAS[name], other_codes, others, one.queries))
