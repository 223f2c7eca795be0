"""Every recipe trains on numbers that nobody knows the bounds of."""

import numpy as np
import pandas as pd
import pytest

from dpforest import Bounded, Classes, Date, DPForestClassifier, DPForestRegressor, Numeric, Schema, get_recipe, list_recipes
from dpforest.errors import SchemaError

NUMBERS = {"x": Numeric(), "day": Date(), "whole": Numeric(integer=True), "above": Numeric(0), "below": Numeric(upper=10)}
RECIPES = [(recipe["name"], task) for recipe in list_recipes() for task in recipe["tasks"]]
# What consul-2020-ert prints for classes is private with public bounds, so no rows are opened for it.
PRINTED = [
    (name, task)
    for name, task in RECIPES
    if get_recipe(name).has_published_variant and (name, task) != ("consul-2020-ert", "classification")
]


def rows(n_rows=300):
    rng = np.random.default_rng(1)
    numbers = {name: rng.normal(size=n_rows) for name in ("x", "above", "below")}
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, n_rows)
    return pd.DataFrame(numbers | {"whole": rng.integers(0, 50, n_rows), "day": days.astype("M8[s]")})[list(NUMBERS)]


def fitted(name, task, variant="private", epsilon=50.0):
    X = rows()
    if task == "classification":
        schema = Schema(NUMBERS, Classes([False, True]), n_rows=len(X))
        model = DPForestClassifier(schema, epsilon, recipe=name, variant=variant, max_depth=4, random_state=3)
        return model.fit(X, X["x"] > 0), X
    schema = Schema(NUMBERS, Bounded(0, 1), n_rows=len(X))
    model = DPForestRegressor(schema, epsilon, recipe=name, variant=variant, max_depth=4, random_state=3)
    return model.fit(X, (X["x"] > 0).astype(float)), X


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "task"), RECIPES)
def test_every_recipe_trains_without_bounds(name, task):
    model, X = fitted(name, task)
    assert not model.ledger_.leaks
    assert len(np.unique(np.asarray(model.predict(X), dtype=float))) > 1


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "task"), PRINTED)
def test_every_printed_algorithm_takes_bounds_from_its_rows_and_says_so(name, task):
    model, X = fitted(name, task, "published")
    assert any("without public bounds" in leak.reason for leak in model.ledger_.leaks)
    assert model.predict(X).shape == (len(X),)


def test_a_printed_algorithm_needs_the_range_of_the_target():
    model = DPForestRegressor(Schema(NUMBERS, Bounded()), recipe="consul-2020", variant="published")
    with pytest.raises(SchemaError, match=r"range of the target.*Declare Bounded\(lower, upper\)"):
        model.fit(rows(), np.zeros(300))
