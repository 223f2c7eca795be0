"""Parts in a company that they have no proof for are refused before anything is charged."""

import numpy as np
import pytest
from tests.support.strategies import recipe_of
from tests.support.tiny import ADDITIVE, TINY_NUMBER, TINY_THREE, TINY_TWO

from dpforest import DPForestClassifier, DPForestRegressor
from dpforest.errors import AccountingError, DPForestError
from dpforest.growing.centres import Centres
from dpforest.growing.class_means import ClassMeans
from dpforest.growing.sequential import Phase, Sequential
from dpforest.parts.criteria import (
    EntropyCount,
    MaxOperator,
    Mixture,
    SoftAgreement,
    SquaredError,
    WeightedMajority,
)
from dpforest.parts.leaves import ResidualSums, TwoBinMean
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.voting import LogShares

# --- criteria on weighted counts ------------------------------------------------------------------------------------


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


# --- companies that have no proof -----------------------------------------------------------------------------------

NO_PROOF = {
    "soft agreement without centres": {"criterion": SoftAgreement(), "leaf": TwoBinMean()},
    "soft agreement in a mixture, without centres": {"criterion": Mixture(((SoftAgreement(), 2),)), "leaf": TwoBinMean()},
    "squared error beside centres": {"criterion": SquaredError(), "leaf": TwoBinMean(), "centres": Centres()},
    "centres of trees that are grown together": {
        "criterion": SoftAgreement(), "leaf": TwoBinMean(), "centres": Centres(), "n_trees": 3,
    },
    "residuals of no trees": {"criterion": MaxOperator(), "leaf": ResidualSums()},
    "class means of weighted records": {
        "criterion": MaxOperator(), "narrow": ClassMeans(), "stages": Sequential((Phase(1.0, 2),)), "n_trees": 2,
        "refine": (EvenShrinkage(),), "vote": LogShares(),
    },
    "class means in a later phase": {
        "criterion": MaxOperator(), "stages": Sequential((Phase(0.5, 1), Phase(0.5, 1, {"narrow": ClassMeans()}))),
        "n_trees": 2, "refine": (EvenShrinkage(),), "vote": LogShares(),
    },
    "fewer trees than the phases have": {
        "criterion": MaxOperator(), "stages": Sequential((Phase(1.0, 4),)), "n_trees": 2, "refine": (EvenShrinkage(),),
        "vote": LogShares(),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NO_PROOF)
def test_parts_in_a_company_that_they_have_no_proof_for_are_refused_and_nothing_is_charged(name):
    recipe = recipe_of(**NO_PROOF[name])
    is_number = isinstance(recipe.leaf, TwoBinMean)
    model = DPForestRegressor(TINY_NUMBER, recipe=recipe) if is_number else DPForestClassifier(TINY_THREE, recipe=recipe)
    with pytest.raises(DPForestError):
        model.fit(np.ones((3, 2)), [0, 1, 1])
    assert not hasattr(model, "ledger_") or model.ledger_.entries() == []
