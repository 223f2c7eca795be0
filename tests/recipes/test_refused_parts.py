"""Parts in a company that they have no proof for, and values outside of their range, are refused before a charge."""

import math

import numpy as np
import pytest
from tests.support.strategies import recipe_of
from tests.support.tiny import ADDITIVE, TINY_NUMBER, TINY_THREE, TINY_TWO

from dpforest import DPForestClassifier, DPForestRegressor
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
from dpforest.parts.shape import NoisySize
from dpforest.parts.voting import LogShares
from dpforest.recipes.papers.blum_2005 import NoisyGain
from dpforest.recipes.papers.first_look import FirstLook
from dpforest.recipes.papers.rana_2015 import ClassMeans

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
