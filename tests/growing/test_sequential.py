"""Trees in sequence: what records count as in each of them, and how much of what is left each of them adds."""

import math

import numpy as np
import pytest
from tests.support.strategies import MEAN, THREE, TWO, mixed_table, recipe_of

from dpforest import DPForestClassifier, DPForestRegressor
from dpforest.errors import ParameterError
from dpforest.growing.sequential import Phase, Sequential, SequentialMeans
from dpforest.parts.criteria import MaxOperator, Mixture, ResidualGain, SquaredError
from dpforest.parts.leaves import ResidualSums, TwoBinMean
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.voting import LogShares
from dpforest.records.memory.counter import MemoryCounter
from dpforest.schema import FINE_STEPS

# --- classes --------------------------------------------------------------------------------------------------------


def by_residuals(criterion, *phases):
    return recipe_of(
        criterion=criterion, leaf=ResidualSums(), stages=Sequential(phases or (Phase(1.0, 3),)), n_trees=3, depth=3,
        refine=(EvenShrinkage(),), vote=LogShares(0.5),
    )  # fmt: skip


@pytest.fixture
def asked(monkeypatch):
    """What the records of each tree were made to count as."""
    found = []

    def watched(name):
        method = getattr(MemoryCounter, name)
        return lambda self, *given: found.append(name) or method(self, *given)

    for name in ("deal", "weigh_residuals", "spread_residuals"):
        monkeypatch.setattr(MemoryCounter, name, watched(name))
    return found


GAIN = {"criterion": ResidualGain()}
WAYS = {
    "target": (by_residuals(MaxOperator()), "deal deal weigh_residuals deal weigh_residuals"),
    "residuals": (by_residuals(ResidualGain()), "deal spread_residuals deal spread_residuals deal spread_residuals"),
    "residuals in a mixture": (
        by_residuals(Mixture(((ResidualGain(), 2),))), "deal spread_residuals deal spread_residuals deal spread_residuals",
    ),
    "residuals in a later phase": (
        by_residuals(MaxOperator(), Phase(0.5, 2), Phase(0.5, 1, GAIN)), "deal deal weigh_residuals deal spread_residuals",
    ),
    "residuals in the first phase": (
        by_residuals(MaxOperator(), Phase(0.5, 1, GAIN), Phase(0.5, 2)),
        "deal spread_residuals deal weigh_residuals deal weigh_residuals",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("recipe", "expected"), WAYS.values(), ids=WAYS)
def test_records_count_in_each_tree_as_what_its_criterion_sees(recipe, expected, asked):
    X, y, _ = mixed_table(60, seed=1, n_classes=3)
    DPForestClassifier(THREE, recipe=recipe, random_state=1).fit(X, y)
    assert asked == expected.split()


def test_without_noise_two_classes_have_the_same_trees_by_residuals_as_by_weights():
    X, y, _ = mixed_table(400, seed=2)
    forests = [
        DPForestClassifier(TWO, epsilon=math.inf, recipe=by_residuals(criterion), random_state=1).fit(X, y).forest_
        for criterion in (MaxOperator(), ResidualGain())
    ]
    for name in ("parents", "features", "routes", "counts", "votes"):
        np.testing.assert_array_equal(*(getattr(forest, name) for forest in forests))


# --- a bounded target -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0, -0.1, 1.01, math.inf, math.nan])
def test_a_share_of_what_is_left_that_is_none_or_more_than_all_is_refused(rate):
    with pytest.raises(ParameterError, match="rate must lie in"):
        SequentialMeans(rate=rate)


def two_means(rate):
    recipe = recipe_of(criterion=SquaredError(), leaf=TwoBinMean(), stages=SequentialMeans(0.5, rate), n_trees=2, depth=1)
    X, _, z = mixed_table(300, seed=3)
    model = DPForestRegressor(MEAN, epsilon=math.inf, recipe=recipe, random_state=4).fit(X, z)
    return model.forest_, model.predict(X)


@pytest.mark.parametrize("rate", [0.5, 0.1])
def test_without_noise_the_second_tree_adds_the_share_of_what_it_would_add(rate):
    (whole, of_whole), (part, of_part) = two_means(1.0), two_means(rate)
    for name in ("parents", "features", "routes", "counts"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(part, name))
    second = whole.trees == 1
    np.testing.assert_array_equal(whole.votes[~second], part.votes[~second])
    added = whole.votes[second]
    assert np.abs(added).max() > 0.05
    np.testing.assert_allclose(part.votes[second], rate * added, rtol=0, atol=1 / FINE_STEPS)
    first = two_means(1e-9)[1]
    np.testing.assert_allclose(of_part - first, rate * (of_whole - first), rtol=0, atol=1 / FINE_STEPS)
