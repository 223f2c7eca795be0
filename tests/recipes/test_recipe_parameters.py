"""Recipes take parts and numbers that follow from public facts or are given, and refuse others before a charge."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.recipes.tables import make_table
from tests.support.planted import TARGET
from tests.support.steps import ADDITIVE, TINY_NUMBER, TINY_THREE, TINY_TWO
from tests.support.strategies import TWO, facts_of, mixed_table, recipe_of

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Schema
from dpforest.errors import AccountingError, DPForestError, ParameterError, SchemaError
from dpforest.growing.choosing import Medians
from dpforest.growing.sequential import Phase, Sequential, SequentialMeans
from dpforest.growing.target import Centres, TargetRange
from dpforest.parts.allocation import Uniform
from dpforest.parts.criteria import (
    EntropyCount,
    GiniCount,
    MaxOperator,
    Mixture,
    ResidualGain,
    SoftAgreement,
    SquaredError,
    WeightedMajority,
)
from dpforest.parts.leaves import NoisyCounts, ResidualSums, Rotated, TwoBinMean
from dpforest.parts.postprocess import EvenShrinkage, PruneBySignal
from dpforest.parts.proposals import Menu
from dpforest.parts.recipe import ByTarget
from dpforest.parts.sampling import Disjoint, EveryRecord
from dpforest.parts.shape import HalfTheFeatures, HalfUntested, LogRows, NoisySize
from dpforest.parts.voting import LogShares, Majority
from dpforest.recipes import get_recipe, is_listed, list_recipes
from dpforest.recipes.papers.blum_2005 import NoisyGain
from dpforest.recipes.papers.first_look import FirstLook
from dpforest.recipes.papers.li_2022 import OutOfBag
from dpforest.recipes.papers.liu_2022 import TwoPhase
from dpforest.recipes.papers.rana_2015 import ClassMeans

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


# --- parts that are refused ------------------------------------------------------------------------------------------

# Parts, and the words with which a recipe of them is refused.
GAIN = ADDITIVE | {"criterion": ResidualGain(), "leaf": ResidualSums()}
COUNTED = {"leaf": NoisyCounts()}
AFTER_ONE = {"criterion": MaxOperator(), "n_trees": 2, "refine": (EvenShrinkage(),), "vote": LogShares()}
NO_PROOF = {
    "soft agreement without centres": ({"criterion": SoftAgreement(), "leaf": TwoBinMean()}, ""),
    "soft agreement in a mixture": ({"criterion": Mixture(((SoftAgreement(), 2),)), "leaf": TwoBinMean()}, ""),
    "squared error beside centres": ({"criterion": SquaredError(), "leaf": TwoBinMean(), "centres": Centres()}, ""),
    "centres of trees that are grown together": (
        {"criterion": SoftAgreement(), "leaf": TwoBinMean(), "centres": Centres(), "n_trees": 3}, ""
    ),
    "residuals of no trees": ({"criterion": MaxOperator(), "leaf": ResidualSums()}, ""),
    "residual gain of no trees": ({"criterion": ResidualGain(), "leaf": ResidualSums()}, ""),
    "class means of weighted records": (AFTER_ONE | {"narrow": ClassMeans(), "stages": Sequential((Phase(1.0, 2),))}, ""),
    "class means in a later phase": (
        AFTER_ONE | {"stages": Sequential((Phase(0.5, 1), Phase(0.5, 1, {"narrow": ClassMeans()})))}, ""
    ),
    "fewer trees than the phases have": (AFTER_ONE | {"stages": Sequential((Phase(1.0, 4),))}, ""),
    "leaves that count records": (GAIN | COUNTED, "ResidualGain .* leaves that see residuals, not NoisyCounts"),
    "leaves that count margins": (GAIN | {"leaf": Rotated()}, "ResidualGain .* leaves that see residuals, not Rotated"),
    "no stages": (GAIN | {"stages": None}, "ResidualSums .* needs the stages Sequential"),
    "no stages, counted": (GAIN | COUNTED | {"stages": None}, "ResidualGain .* leaves that see residuals, not NoisyCounts"),
    "in a mixture": (GAIN | COUNTED | {"criterion": Mixture(((ResidualGain(), 2),))}, "Mixture .* leaves that see"),
    "inner counts": (GAIN | {"allocate": Uniform(count_share=0.5)}, "ResidualSums .* cannot count inner nodes"),
    "noisy counts": (GAIN | {"choose": NoisyGain()}, "NoisyGain .* needs a criterion that sees class counts"),
    "medians": (GAIN | {"choose": Medians()}, "all see the same"),
    "medians taken jointly": (GAIN | {"choose": Medians(jointly=True)}, "all see the same"),
}  # fmt: skip
IN_A_PHASE = {name: NO_PROOF[name] for name in ("leaves that count records", "noisy counts", "medians", "inner counts")}


@pytest.mark.parametrize("name", NO_PROOF)
def test_parts_in_a_company_that_they_have_no_proof_for_are_refused_and_nothing_is_charged(name):
    parts, words = NO_PROOF[name]
    recipe = recipe_of(**parts)
    is_number = isinstance(recipe.leaf, TwoBinMean)
    kind, schema = (DPForestRegressor, TINY_NUMBER) if is_number else (DPForestClassifier, TINY_TWO if words else TINY_THREE)
    model = kind(schema, recipe=recipe)
    with pytest.raises(ParameterError if words else DPForestError, match=words):
        model.fit(np.ones((3, 2)), [0, 1, 1])
    assert not hasattr(model, "ledger_") or model.ledger_.entries() == []


@pytest.mark.parametrize("name", IN_A_PHASE)
def test_what_a_recipe_is_refused_for_a_phase_of_it_is_refused_for(name):
    parts, words = IN_A_PHASE[name]
    own = {part: value for part, value in parts.items() if GAIN.get(part) != value}
    recipe = recipe_of(**GAIN | {"stages": Sequential((Phase(0.5, 1), Phase(0.5, 1, own)))})
    with pytest.raises(ParameterError, match=words):
        recipe.check(TINY_TWO)


@pytest.mark.parametrize("criterion", [EntropyCount(), WeightedMajority()], ids=lambda c: type(c).__name__)
def test_a_criterion_for_plain_counts_may_choose_the_first_tree_and_no_later_one(criterion):
    X, y, own = np.zeros((3, 2)), [0, 1, 1], {"criterion": criterion}
    for phases in [(Phase(1.0, 2, own),), (Phase(0.5, 1), Phase(0.5, 1, own))]:
        model = DPForestClassifier(TINY_TWO, recipe=recipe_of(**ADDITIVE | {"stages": Sequential(phases)}))
        with pytest.raises(AccountingError, match="weighted records"):
            model.fit(X, y)
        assert not hasattr(model, "ledger_")
    first = Sequential((Phase(0.5, 1, own), Phase(0.5, 1)))
    assert DPForestClassifier(TINY_TWO, recipe=recipe_of(**ADDITIVE | {"stages": first})).fit(X, y).forest_.n_trees == 2


@pytest.mark.parametrize("criterion", [ResidualGain(), Mixture(((ResidualGain(), 2),))], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("schema", [TINY_TWO, TINY_THREE], ids=["two classes", "three classes"])
def test_a_criterion_that_sees_residuals_is_taken_beside_leaves_that_do(schema, criterion):
    model = DPForestClassifier(schema, recipe=recipe_of(**GAIN | {"criterion": criterion})).fit(np.ones((3, 2)), [0, 1, 1])
    assert model.forest_.n_trees == 2


def test_a_mixture_sees_what_its_parts_see():
    for criterion, sees in [(MaxOperator(), "target"), (SoftAgreement(), "centre"), (ResidualGain(), "residuals")]:
        mixture = Mixture(((criterion, 2), (criterion, 1)))
        assert (criterion.sees, mixture.sees, Mixture(((mixture, 1),)).sees) == (sees, sees, sees)


def test_residuals_of_a_bounded_target_are_refused():
    with pytest.raises(SchemaError, match=r"ResidualGain .* does not fit"):
        recipe_of(**GAIN).check(TINY_NUMBER)


# --- values ----------------------------------------------------------------------------------------------------------

NO_SHARE = [0, 1, -0.1, math.nan]
# A part, the name of a value, some that are refused, and words of the sentence.
OUT_OF_RANGE = [
    (Centres, "share", NO_SHARE, "Centres need"),
    (Centres, "reach", [0, 1.1], "Centres need"),
    (Centres, "n_centres", [0, 1025], "Centres need"),
    (FirstLook, "share", NO_SHARE, "first look"),
    (Medians, "weight", [0, -1, 65, math.nan, math.inf], "balance"),
    (Menu, "n_features", [0, -1, -0.5, math.nan], "n_features must be positive"),
    (Mixture, "parts", [(), ((GiniCount(), 0),), ((GiniCount(), 0.5),)], "whole weights"),
    (Mixture, "parts", [((SquaredError(), 1), (SoftAgreement(), 1))], "all see the same"),
    (NoisySize, "least", [-1.0, math.nan], "min_size"),
    (PruneBySignal, "least", [-0.1, math.nan, math.inf], "least_snr"),
    (Rotated, "mass", [0.0, 0.04, 1.01, -1.0, math.nan], "mass"),
    (ResidualSums, "mass", [0.0, 0.04, 1.01, -1.0, math.nan], "mass"),
    (SequentialMeans, "rate", [0, -0.1, 1.01, math.inf, math.nan], "rate must lie in"),
    (TargetRange, "share", NO_SHARE, "target's range"),
]


@pytest.mark.parametrize(
    ("part", "name", "values", "words"), OUT_OF_RANGE, ids=lambda given: getattr(given, "__name__", None)
)
def test_a_value_outside_of_its_range_is_refused(part, name, values, words):
    for value in values:
        with pytest.raises(ParameterError, match=words):
            part(**{name: value})


@pytest.mark.parametrize("batches", [0, -1])
def test_there_is_at_least_one_batch(batches):
    with pytest.raises(ParameterError, match="at least one batch"):
        Sequential((Phase(1.0, 2),), batches)
