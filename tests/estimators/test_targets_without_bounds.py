"""A target whose bounds nobody knows, or only loose ones, is predicted as one with tight bounds is."""

import warnings

import numpy as np
import pytest
from tests.support.crosses import pairwise

from dpforest import Bounded, DPForestRegressor, Numeric, Schema, list_recipes
from dpforest.errors import NothingLearntWarning, SchemaError
from dpforest.evaluation import evaluate_privately, evaluate_public
from dpforest.search import DPSearchCV

FEATURES = {"a": Numeric(0, 1), "b": Numeric(0, 1)}
RECIPES = [recipe["name"] for recipe in list_recipes() if "regression" in recipe["tasks"]]
LOOSE = (Bounded(), Bounded(lower=0), Bounded(upper=1000), Bounded(-1e9, 1e9))
# A recipe of a paper takes bounds as they are.
CASES = [case for case in pairwise(RECIPES, LOOSE, [0.0, 1e-6]) if case[0] == "auto" or not case[1].has_bounds]


def table(n_rows=1500, shift=0.0):
    rng = np.random.default_rng(8)
    X = rng.random((n_rows, 2))
    return X, 20 + 10 * (X[:, 0] > 0.5) + rng.normal(0, 1, n_rows) + shift


@pytest.mark.parametrize(("recipe", "target", "delta"), CASES)
def test_every_recipe_for_numbers_learns_without_tight_bounds(recipe, target, delta):
    X, y = table()
    shape = {"n_trees": 4, "max_depth": 3} if recipe == "auto" else {}
    model = DPForestRegressor(Schema(FEATURES, target), epsilon=20.0, delta=delta, recipe=recipe, random_state=0, **shape)
    model.fit(X, y)
    released = model.forest_.target
    assert model.score(X, y) > 0.5
    assert released.range[0] < 21
    assert released.range[1] > 29
    assert released.span < 100
    labels = [entry["label"] for entry in model.ledger_.entries()]
    assert labels[:4] == ["number of rows", *(f"{what} of the target" for what in ("location", "spread", "range"))]
    assert model.ledger_.spent <= 20


def test_values_far_from_zero_are_predicted_as_others_are():
    X, y = table(shift=1e5)
    model = DPForestRegressor(Schema(FEATURES, Bounded()), epsilon=20.0).fit(X, y)
    assert model.score(X, y) > 0.5
    assert model.forest_.target.span < 200


@pytest.mark.slow
@pytest.mark.parametrize("values", [[], [7.0], [np.nan] * 5, [np.inf, -np.inf], [0.0] * 50, [1e300] * 50, [5e-324] * 9])
def test_no_table_of_targets_is_an_error_and_predictions_are_finite(values):
    X = np.zeros((len(values), 2))
    for epsilon, delta in ((0.01, 0.0), (1.0, 1e-6), (np.inf, 0.0)):
        model = DPForestRegressor(Schema(FEATURES, Bounded()), epsilon=epsilon, delta=delta)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingLearntWarning)
            model.fit(X, np.array(values))
        assert np.isfinite(model.predict(np.zeros((3, 2)))).all()


def test_scores_of_a_target_without_bounds_are_in_its_unit():
    X, y = table()
    model = DPForestRegressor(Schema(FEATURES, Bounded()), epsilon=50.0).fit(X, y)
    public = {score.name: score.value for score in evaluate_public(model, X, y).scores}
    (private, *_) = evaluate_privately(model, X, y, 5.0).scores
    assert 0 < public["mean absolute error"] < 5
    assert public["R2"] == pytest.approx(model.score(X, y))
    assert abs(private.value - public["mean absolute error"]) < 1


def test_a_search_needs_both_bounds():
    X, y = table(50)
    for target in (Bounded(), Bounded(lower=0)):
        search = DPSearchCV(DPForestRegressor(Schema(FEATURES, target)), {"max_depth": [1, 2]})
        with pytest.raises(SchemaError, match="a bound of 'target' is missing"):
            search.fit(X, y)
