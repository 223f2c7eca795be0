"""Whole fits of the catalogue, of parts in any company and of the planner, replayed on neighbouring tables.

What the gate is handed when one record is added may move within the stated bound, in one node of a tree; charges and forest
must be the same. See ``tests.support.replay``.
"""

import math
from dataclasses import replace

import pytest
from tests.support.encoded import random_table, resolved
from tests.support.replay import assert_same_release, check_neighbours, train
from tests.support.steps import CONSTANT, recipe_with
from tests.support.strategies import MEAN, MIXED, THREE, TWO, recipe_of
from tests.support.targets import classes

from dpforest import Classes, Schema, get_recipe, list_recipes
from dpforest.growing.choosing import FeatureFirst, Medians
from dpforest.growing.linear import LinearScore, Order
from dpforest.growing.sequential import Phase
from dpforest.parts.allocation import EveryQuery, Uniform
from dpforest.parts.criteria import EntropyCount, WeightedMajority
from dpforest.parts.leaves import NoisyCounts, PrivateLabel
from dpforest.parts.proposals import AllSubsets, Menu, OneChildPerValue, Thresholds
from dpforest.parts.sampling import Disjoint, PoissonBootstrap
from dpforest.parts.shape import AboveNoise, EstimatedSupport, NoisySize
from dpforest.parts.voting import Majority
from dpforest.recipes.papers.blum_2005 import NoisyGain
from dpforest.recipes.papers.first_look import FirstLook
from dpforest.recipes.papers.guan_2020 import SelectiveAggregation
from dpforest.recipes.papers.li_2022 import OutOfBag
from dpforest.recipes.papers.liu_2022 import TwoPhase
from dpforest.recipes.papers.rana_2015 import ClassMeans
from dpforest.schema import FINE_STEPS

RECIPES = [recipe["name"] for recipe in list_recipes()]
REGRESSION = [recipe["name"] for recipe in list_recipes() if "regression" in recipe["tasks"]]


def moved_by_one_more(recipe, schema, n_seeds=4, **settings):
    """Labels of the releases that one more record moves, by what was paid for and no more."""
    return {label for seed in range(n_seeds) for label in check_neighbours(recipe, schema, seed, **settings)}


def assert_only_released(recipe, schema, n_rows):
    """Charges and forest follow from what was released: tables that share nothing have the same, given that.

    So do stopping rules, budgets of levels, drawn features and pruning.
    """
    n_others = len(schema.target.labels) - 1 if isinstance(schema.target, Classes) else FINE_STEPS
    _, codes, values = random_table(schema, recipe.grid, n_rows, seed=1)
    one = train(recipe, schema, codes, values)
    assert one.queries
    for n_other, seed in [(n_rows, 2), (37, 3), (1, 4), (0, 5)]:
        _, other_codes, others = random_table(schema, recipe.grid, n_other, seed)
        assert_same_release(one, train(recipe, schema, other_codes, n_others - others, one.queries))
    return one


@pytest.mark.parametrize(("name", "schema"), [*((name, THREE) for name in RECIPES), *((name, MEAN) for name in REGRESSION)])
def test_recipes_move_only_what_was_paid_for_and_follow_what_was_released(name, schema):
    recipe = resolved(get_recipe(name), schema)
    # Of four seeds, some hold the added record out and some do not.
    moved = moved_by_one_more(recipe, schema, 4 if isinstance(recipe.stages, OutOfBag) else 2)
    assert "leaves" in moved
    assert ("errors of trees" in moved) == isinstance(recipe.stages, OutOfBag)
    assert_only_released(replace(recipe, depth=3), schema, 500)


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
    "noisy counts": {"choose": NoisyGain()},
    "noisy counts on disjoint parts": {"choose": NoisyGain(), "sample": Disjoint()},
    "noisy counts in two phases": {"choose": NoisyGain(), "stages": TwoPhase(), "vote": Majority()},
    "noisy counts, a child per value": {
        "choose": NoisyGain(),
        "propose": Menu((OneChildPerValue(),)),
        "criterion": EntropyCount(),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("parts", COMPANIES.values(), ids=COMPANIES)
def test_parts_of_the_catalogue_keep_their_claims_in_any_company(parts, delta):
    if delta and isinstance(parts.get("sample"), PoissonBootstrap):
        pytest.skip("a bootstrap has no zCDP analysis")
    recipe = recipe_of(n_trees=4, depth=2, **parts)
    moved = moved_by_one_more(recipe, TWO, delta=delta)
    assert "leaves" in moved
    assert ("errors of trees" in moved) == isinstance(recipe.stages, OutOfBag)
    assert ("first look" in moved) == ("first_look" in parts)
    assert ("splits of level 1: noisy counts" in moved) == (parts.get("choose") == NoisyGain())


SCORES = {
    "same map": LinearScore(0.5, looks=(0.3, 0.3), choice=0.4, least_signal=-math.inf),
    "even map": LinearScore(0.5, looks=(0.3, 0.3), choice=0.4, least_signal=math.inf, categories=True),
    "by the signal": LinearScore(0.5, looks=(0.3, 0.3), choice=0.4, categories=True),
    "rule of one level": LinearScore(0.5, looks=(0.3, 0.1), choice=0.5, categories=True, rule_depth=1),
    "rule of two levels": LinearScore(0.5, looks=(0.3, 0.1), choice=0.5, rule_depth=2),
    "order": Order(0.5),
}


def with_score(step):
    """A recipe whose score comes between a constant and two trees that choose their splits."""
    leaf = NoisyCounts() if isinstance(step, Order) else None
    return recipe_with(CONSTANT, step, Phase(0.4, 2), leaf=leaf)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("step", SCORES.values(), ids=SCORES)
def test_a_score_moves_only_what_was_paid_for_and_follows_what_was_released(step, delta):
    recipe, schema = with_score(step), THREE if isinstance(step, Order) else TWO
    moved = moved_by_one_more(recipe, schema, 2, n_rows=60, delta=delta)
    if isinstance(step, Order):
        expected = {"linear: order"}
    else:
        expected = {"linear: first look", "splits of level 0: labelled" if step.rule_depth else "linear: slope"}
    assert {"leaves", *expected} <= moved
    if not delta:
        assert_only_released(recipe, schema, 80)


@pytest.mark.parametrize(
    ("stop", "allocate", "depth"),
    [(NoisySize(60), EveryQuery(), 6), (AboveNoise(), EveryQuery(), 6), (EstimatedSupport(), Uniform(), 9)],
    ids=["size", "noise", "support"],
)
def test_a_stopping_rule_that_stops_some_nodes_stops_the_same_ones_whatever_the_rows(stop, allocate, depth):
    recipe = recipe_of(stop=stop, allocate=allocate, depth=depth, n_trees=2)
    one = assert_only_released(recipe, TWO, 600)
    # The rule bites: some nodes are split and some are not.
    assert one.forest.depth > 1
    assert (one.forest.levels[one.forest.is_leaf] < depth).any()


# --- whole plans, replayed ------------------------------------------------------------------------------------------

SCHEMAS = {f"{n} classes": Schema(MIXED, classes(n)) for n in (2, 3, 10)} | {"number": MEAN}
# Rows, and trees that the user asks for: plans of one tree, of a few, and of several phases.
ASKED = {"few rows": (200.0, None), "some rows": (3_000.0, 4), "several phases": (1e6, None)}


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_planned_forest_moves_only_what_was_paid_for(name, asked, delta):
    n_rows, n_trees = ASKED[asked]
    recipe = resolved(get_recipe("auto"), SCHEMAS[name], n_trees, n_rows=n_rows, delta=delta)
    # The range that few records have paid for may be anywhere; one more of a number beyond it moves nothing.
    moved = check_neighbours(recipe, SCHEMAS[name], seed=1, n_rows=600 if name == "number" else 60, delta=delta)
    assert "leaves" in moved
    assert any(label.startswith("splits") for label in moved)
    if name == "number":
        assert {"location of the target", "spread of the target"} <= {*moved}
        assert any(label.endswith("centres") for label in moved)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_planned_forest_follows_what_was_released(name):
    assert_only_released(resolved(get_recipe("auto"), SCHEMAS[name], n_trees=4, n_rows=1e6), SCHEMAS[name], 80)
