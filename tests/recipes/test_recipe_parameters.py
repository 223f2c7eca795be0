"""Recipes take parts and numbers that follow from public facts or are given, and refuse what they do not know."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.recipes.tables import make_table
from tests.support.planted import TARGET
from tests.support.strategies import TWO, facts_of, mixed_table, recipe_of

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, Schema
from dpforest.errors import DPForestError, ParameterError, SchemaError
from dpforest.parts.criteria import GiniCount, SquaredError
from dpforest.parts.leaves import NoisyCounts, TwoBinMean
from dpforest.parts.postprocess import PruneBySignal
from dpforest.parts.recipe import ByTarget
from dpforest.parts.sampling import Disjoint, EveryRecord
from dpforest.parts.shape import HalfTheFeatures, HalfUntested, LogRows
from dpforest.parts.voting import Majority
from dpforest.recipes import get_recipe, is_listed, list_recipes
from dpforest.recipes.papers.li_2022 import OutOfBag
from dpforest.recipes.papers.liu_2022 import TwoPhase

NAMES = [recipe["name"] for recipe in list_recipes()]


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
    closed = recipe_of(n_trees=2, depth=3)
    assert closed.resolve(facts_of(), None, None) == closed


@pytest.mark.parametrize("number", [3, np.int64(3), np.uint8(3)], ids=lambda number: type(number).__name__)
def test_numbers_of_the_user_come_before_the_rules_of_the_recipe(number):
    recipe = recipe_of(n_trees=LogRows(), depth=HalfUntested())
    resolved = recipe.resolve(facts_of(), number, number)
    assert (resolved.n_trees, resolved.depth) == (3, 3)
    X, y, _ = mixed_table(60, seed=1)
    model = DPForestClassifier(TWO, recipe=recipe, n_trees=number, max_depth=number, random_state=0).fit(X, y)
    assert (model.forest_.n_trees, model.forest_.depth) == (3, 3)


# --- what may be set ------------------------------------------------------------------------------------------------


def test_parameters_are_set_where_they_live_and_words_stand_for_parts():
    plain = {name: get_recipe(name) for name in NAMES}
    for name, given, part, expected in [
        ("dong-2022", {"q": 1.3, "d": 0.2}, "allocate", replace(plain["dong-2022"].allocate, q=1.3, slope=0.2)),
        ("consul-2020", {"part": False}, "sample", EveryRecord()),
        ("consul-2020", {"part": True}, "sample", Disjoint()),
        ("bojarski-2015", {"vote": "majority"}, "vote", Majority()),
        ("liu-2022", {"alpha": 0.25}, "stages", TwoPhase(0.25)),
        ("fletcher-islam-2015-snr", {"least_snr": 2.5}, "refine", (PruneBySignal(2.5),)),
        ("li-2022", None, "stages", OutOfBag()),
    ]:
        assert plain[name].with_parameters(given) == replace(plain[name], **{part: expected})
        assert get_recipe(name) == plain[name]
    for nothing in (None, {}):
        assert plain["li-2022"].with_parameters(nothing) is plain["li-2022"]


PARAMETERS = {
    "friedman-schuster-2010": [{"criterion": word} for word in ("gini", "max", "entropy")],
    "patil-singh-2014": [{"criterion": word} for word in ("infogain", "max", "gini")]
    + [{"bins": 3, "k": 2}, {"cuts": "even"}, {"cuts": "mdl"}],
    "rana-2015": [{"k": 2, "threshold_share": 0.3, "least_leaf": 0.05}],
    "fletcher-islam-2015-dpdf": [{"min_size": 50, "bins": 4}],
    "fletcher-islam-2015-snr": [{"least_snr": least} for least in (0, 0.7, 1.0, 25.5)] + [{"bins": 3}],
    "bojarski-2015": [{"vote": word} for word in ("majority", "threshold", "probabilistic")],
    "hou-2019": [{"k": 2}, {"k": 0.3}],
    "li-2020": [{"k": 2}],
    "guan-2020": [{"held_out": 0.3, "n_rounds": 2, "subset_size": 3, "split_share": 0.3, "k": 2}],
    "consul-2020": [{"part": False, "rho": 0.3, "k": 2}, {"medians": "first"}, {"medians": "joint", "balance": 2.5}],
    "consul-2020-ert": [{"part": False}],
    "dong-2022": [{"q": 1.2, "d": 0.5, "k": 2}, {"q": 1.0, "d": 0.0}],
    "li-2022": [{"eps_oob": 0.5, "k": 3, "n_first": 4, "leaf_share": 0.5}, {"first_share": 0.5, "held_out": 0.1}],
    "liu-2022": [{"alpha": 0.3, "p": 3}] + [{"selection": word} for word in ("nig", "su", "off")],
    "suihkonen-2023": [{"k": 2, "p": 0.3}, {"medians": "first"}],
}
CASES = [(name, parameters) for name, listed in PARAMETERS.items() for parameters in listed]


def fitted(name, parameters, **settings):
    X, y, schema = make_table("mixed", 2, n_rows=60)
    model = DPForestClassifier(schema, recipe=name, recipe_params=parameters, n_trees=4, max_depth=2, **settings)
    return model, lambda: model.fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), CASES, ids=str)
def test_parameters_of_the_papers_are_reachable(name, parameters):
    model, fit = fitted(name, parameters, epsilon=2.0)
    assert fit().ledger_.spent == pytest.approx(2.0, rel=1e-9)
    assert (model.privacy_.own_recipe, model.privacy_.outside) == (False, ())


@pytest.mark.parametrize("name", NAMES)
def test_recipes_of_the_catalogue_are_vouched_for_with_parameters_too(name):
    recipe = get_recipe(name)
    for given in [None, {"sample_rows": 7}, *PARAMETERS.get(name, [])]:
        assert is_listed(replace(recipe.with_parameters(given)))
    assert not is_listed(replace(recipe, name="mine"))
    assert not is_listed(replace(recipe, claim="holds, they say"))


def test_every_parameter_is_tried_above():
    declared = {(recipe["name"], name) for recipe in list_recipes() for name in recipe["parameters"]}
    # Recipes that are another with a part replaced share its parameters.
    shared = {("mu-2016", "k"), ("li-2017", "k"), ("zhang-2021", "k")}
    shared |= {(name, "sample_rows") for name, _ in declared}  # of all recipes, and tried with the sample
    assert declared - shared == {(name, key) for name, parameters in CASES for key in parameters}


def columns_of_two_values(n_rows, n_columns, seed):
    X = pd.DataFrame(np.random.default_rng(seed).integers(0, 2, (n_rows, n_columns))).add_prefix("c")
    return X, Schema({name: Categorical([0, 1]) for name in X}, Classes([0, 1]), n_rows=n_rows)


def test_p_says_how_many_features_liu_selects():
    """Five columns whose majority is the class: all are relevant."""
    X, schema = columns_of_two_values(500, 5, seed=0)
    for p in (1, 4):
        model = DPForestClassifier(schema, np.inf, recipe="liu-2022", n_trees=20, random_state=0, recipe_params={"p": p})
        forest = model.fit(X, (X.sum(axis=1) > 2).astype(int).to_numpy()).forest_
        assert len(set(forest.features[~forest.is_leaf].tolist())) == p


def test_support_alone_ends_a_signal_to_noise_tree():
    """Ten features of two values and 5000 rows, without noise: every path uses every feature; with noise it is shorter."""
    X, schema = columns_of_two_values(5000, 10, seed=3)
    settings = {"recipe": "fletcher-islam-2015-snr", "n_trees": 1, "random_state": 0, "recipe_params": {"least_snr": 0}}
    # sqrt(2) * 2 * t / epsilon records must be left to a child: 5000 / 2**level > 283 for one tree at epsilon = 0.01.
    for epsilon, depth in ((np.inf, 10), (0.01, 4)):
        assert DPForestClassifier(schema, epsilon, **settings).fit(X, X["c0"].to_numpy()).forest_.depth == depth


# --- what may not ---------------------------------------------------------------------------------------------------


def refused(name, parameters, error=DPForestError):
    model, fit = fitted(name, parameters)
    with pytest.raises(error) as caught:
        fit()
    assert not hasattr(model, "ledger_") or model.ledger_.entries() == []
    return str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_recipe_does_not_take_is_refused_and_nothing_is_charged(name):
    known = get_recipe(name).all_parameters
    message = refused(name, {"colour": 1}, ParameterError)
    assert all(word in message for word in ("'colour'", *get_recipe(name).parameters))
    for parameter, place in known.items():
        if isinstance(place, tuple):
            for value in ("best", None, 0.123, ["gini"], {}, np.zeros(2)):
                message = refused(name, {parameter: value}, ParameterError)
                assert all(word in message for word in (parameter, *map(repr, place[1])))
        else:  # the bins of a grid are refused by the schema
            for value in ("many", object(), [1], {}, np.zeros(2)):
                refused(name, {parameter: value}, (ParameterError, SchemaError))


OUTSIDE = {
    "auto": [{"k": 3}],
    "consul-2020": [{"rho": 0}, {"rho": 1.5}, {"k": 0}, {"balance": 0}, {"depth": 5}],
    "dong-2022": [{"q": 0.5}, {"d": 1.0}],
    "fletcher-islam-2015-snr": [{"least_snr": -1.0}, {"least_snr": 10**400}],
    "guan-2020": [
        {"held_out": 0.0}, {"held_out": 1.0}, {"n_rounds": -1}, {"n_rounds": 1.5}, {"subset_size": 1}, {"split_share": 1.0},
    ],
    "li-2022": [
        {"leaf_share": 0.0}, {"leaf_share": 1e-20}, {"held_out": 1.0}, {"eps_oob": 0.0}, {"eps_oob": 1.5}, {"k": 0},
        {"n_first": 2.5}, {"n_first": True},
    ],
    "liu-2022": [{"alpha": 0.0}, {"alpha": math.nan}],
    "patil-singh-2014": [{"bins": 0}, {"k": np.inf}],
    "rana-2015": [{"least_leaf": 1.0}, {"least_leaf": -0.1}, {"threshold_share": 1.0}],
    "suihkonen-2023": [{"k": -1}, {"p": 1.0}],
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_value_outside_its_range_is_refused_and_nothing_is_charged(name):
    for parameters in OUTSIDE[name]:
        refused(name, parameters)
