"""Recipes take the parts and numbers that follow from public facts, and refuse parameters that they do not know."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.support.planted import TARGET
from tests.support.strategies import MIXED, TWO, facts_of, mixed_table, recipe_of

from dpforest import Bounded, Classes, DPForestClassifier, Schema
from dpforest.errors import DPForestError, ParameterError, SchemaError
from dpforest.growing.out_of_bag import OutOfBag
from dpforest.growing.two_phase import TwoPhase
from dpforest.parts.criteria import GiniCount, SquaredError
from dpforest.parts.leaves import NoisyCounts, TwoBinMean
from dpforest.parts.recipe import ByTarget
from dpforest.parts.sampling import Disjoint, EveryRecord
from dpforest.parts.shape import HalfTheFeatures, HalfUntested, LogRows
from dpforest.parts.voting import Majority
from dpforest.recipes import get_recipe, list_recipes


def test_resolving_takes_the_part_for_the_target_and_numbers_from_rules():
    recipe = recipe_of(
        criterion=ByTarget(GiniCount(), SquaredError()),
        leaf=ByTarget(NoisyCounts(), TwoBinMean()),
        n_trees=LogRows(),
        depth=HalfTheFeatures(),
    )
    for_classes = recipe.resolve(facts_of(n_rows=1000.0, n_features=9), None, None)
    assert (for_classes.criterion, for_classes.leaf) == (GiniCount(), NoisyCounts())
    assert (for_classes.n_trees, for_classes.depth) == (7, 5)
    for_means = recipe.resolve(facts_of(n_classes=None), None, None)
    assert (for_means.criterion, for_means.leaf) == (SquaredError(), TwoBinMean())
    assert recipe.criterion.accepts(TARGET)
    assert recipe.criterion.accepts(Bounded(0, 1))


@pytest.mark.parametrize("number", [3, np.int64(3), np.uint8(3)], ids=lambda number: type(number).__name__)
def test_numbers_of_the_user_come_before_the_rules_of_the_recipe(number):
    recipe = recipe_of(n_trees=LogRows(), depth=HalfUntested())
    resolved = recipe.resolve(facts_of(), number, number)
    assert (resolved.n_trees, resolved.depth) == (3, 3)
    X, y, _ = mixed_table(60, seed=1)
    model = DPForestClassifier(TWO, recipe=recipe, n_trees=number, max_depth=number, random_state=0).fit(X, y)
    assert (model.forest_.n_trees, model.forest_.depth) == (3, 3)


def test_resolving_is_the_same_recipe_where_nothing_is_open():
    recipe = recipe_of(n_trees=2, depth=3)
    assert recipe.resolve(facts_of(), None, None) == recipe


def test_parameters_are_set_where_they_live_and_words_stand_for_parts():
    assert get_recipe("dong-2022").with_parameters({"q": 1.3, "d": 0.2}).allocate == replace(
        get_recipe("dong-2022").allocate, q=1.3, slope=0.2
    )
    assert get_recipe("consul-2020").with_parameters({"part": False}).sample == EveryRecord()
    assert get_recipe("consul-2020").with_parameters({"part": True}).sample == Disjoint()
    assert get_recipe("bojarski-2015").with_parameters({"vote": "majority"}).vote == Majority()
    assert get_recipe("liu-2022").with_parameters({"alpha": 0.25}).stages == TwoPhase(0.25)
    for parameters in (None, {}):
        assert get_recipe("li-2022").with_parameters(parameters) is get_recipe("li-2022")


def test_setting_a_parameter_leaves_the_recipe_of_the_catalogue_as_it_was():
    before = get_recipe("li-2022")
    before.with_parameters({"k": 3, "n_first": 2})
    assert get_recipe("li-2022") == before
    assert before.stages == OutOfBag()


def refused(name, parameters, error=ParameterError):
    X, y, _ = mixed_table(60, seed=1)
    schema = Schema(MIXED, Classes([0, 1]), n_rows=60)
    model = DPForestClassifier(schema, recipe=name, recipe_params=parameters, n_trees=2, max_depth=2)
    with pytest.raises(error) as caught:
        model.fit(X, y)
    assert not hasattr(model, "ledger_") or model.ledger_.entries() == []
    return str(caught.value)


@pytest.mark.parametrize("name", [recipe["name"] for recipe in list_recipes()])
def test_a_parameter_that_the_recipe_does_not_take_is_refused_and_nothing_is_charged(name):
    message = refused(name, {"colour": 1})
    assert "'colour'" in message
    assert all(known in message for known in get_recipe(name).parameters)


WORDS = [
    (recipe["name"], parameter)
    for recipe in list_recipes()
    for parameter in recipe["parameters"]
    if isinstance(get_recipe(recipe["name"]).all_parameters[parameter], tuple)
]
PLACES = [
    (recipe["name"], parameter)
    for recipe in list_recipes()
    for parameter in recipe["parameters"]
    if (recipe["name"], parameter) not in WORDS
]


@pytest.mark.parametrize(("name", "parameter"), WORDS)
def test_a_word_that_the_parameter_does_not_know_is_refused_and_nothing_is_charged(name, parameter):
    for value in ("best", None, 0.123):
        message = refused(name, {parameter: value})
        assert parameter in message
        assert all(repr(word) in message for word in get_recipe(name).parameters[parameter][1])


@pytest.mark.parametrize(("name", "parameter"), WORDS)
def test_a_list_or_a_table_instead_of_a_word_is_refused_and_nothing_is_charged(name, parameter):
    for value in (["gini"], {}, np.zeros(2)):
        assert parameter in refused(name, {parameter: value})


@pytest.mark.parametrize(("name", "parameter"), PLACES)
def test_a_value_of_a_wrong_type_is_refused_and_nothing_is_charged(name, parameter):
    # The bins of a grid are refused by the schema.
    for value in ("many", object(), [1], {}):
        refused(name, {parameter: value}, error=(ParameterError, SchemaError))


@pytest.mark.parametrize(
    ("name", "parameter"), [("li-2020", "k"), ("dong-2022", "q"), ("liu-2022", "alpha"), ("guan-2020", "held_out")]
)
def test_an_array_instead_of_a_number_is_refused_and_nothing_is_charged(name, parameter):
    refused(name, {parameter: np.zeros(2)})


OUTSIDE = [
    ("consul-2020", {"rho": 1.5}), ("consul-2020", {"k": 0}), ("dong-2022", {"q": 0.5}), ("dong-2022", {"d": 1.0}),
    ("guan-2020", {"held_out": 0.0}), ("guan-2020", {"n_rounds": -1}), ("guan-2020", {"n_rounds": 1.5}),
    ("guan-2020", {"subset_size": 1}), ("guan-2020", {"split_share": 1.0}), ("rana-2015", {"least_leaf": 1.0}),
    ("rana-2015", {"least_leaf": -0.1}), ("li-2022", {"leaf_share": 0.0}), ("li-2022", {"held_out": 1.0}),
    ("li-2022", {"eps_oob": 0.0}), ("li-2022", {"eps_oob": 1.5}), ("li-2022", {"k": 0}), ("li-2022", {"n_first": 2.5}),
    ("li-2022", {"n_first": True}), ("liu-2022", {"alpha": 0.0}), ("liu-2022", {"alpha": math.nan}),
    ("rana-2015", {"threshold_share": 1.0}), ("patil-singh-2014", {"bins": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters"), OUTSIDE, ids=str)
def test_a_value_outside_its_range_is_refused_and_nothing_is_charged(name, parameters):
    refused(name, parameters, error=DPForestError)
