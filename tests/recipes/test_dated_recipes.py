"""Every recipe, and every printed form, trains on dates and predicts from them."""

import numpy as np
import pandas as pd
import pytest

from dpforest import Bounded, Classes, Date, DPForestClassifier, DPForestRegressor, Numeric, Schema, list_recipes
from dpforest.errors import LeakWarning

pytestmark = pytest.mark.slow

N_ROWS = 300
FEATURES = {"day": Date(), "time": Date("2019-06-01", "2024-12-31", time=True), "x": Numeric(0, 1)}
CASES = [
    (recipe["name"], task, variant)
    for recipe in list_recipes()
    for task in recipe["tasks"]
    for variant in ("private", "published")[: 1 + recipe["published"]]
]


def dated_table():
    rng = np.random.default_rng(2)
    moments = rng.integers(1_560_000_000, 1_735_000_000, N_ROWS).astype("M8[s]")
    table = pd.DataFrame({"day": moments.astype("M8[D]").astype("M8[s]"), "time": moments, "x": rng.random(N_ROWS)})
    table.loc[:5, "day"] = pd.NaT
    return table, (moments.astype("M8[D]").astype(int) + 3) % 7 / 6


@pytest.mark.filterwarnings("ignore::UserWarning", f"ignore::{LeakWarning.__module__}.{LeakWarning.__name__}")
@pytest.mark.parametrize(("name", "task", "variant"), CASES)
def test_every_recipe_trains_on_dates(name, task, variant):
    table, weekday = dated_table()
    kind, target, y = DPForestRegressor, Bounded(0, 1), weekday
    if task == "classification":
        kind, target, y = DPForestClassifier, Classes([0, 1]), (weekday > 0.6).astype(int)
    model = kind(Schema(FEATURES, target, n_rows=N_ROWS), epsilon=2, recipe=name, variant=variant).fit(table, y)
    assert model.forest_.domain.n_features == 8
    assert model.feature_importances_.shape == (3,)
    assert len(model.predict(table)) == N_ROWS
    assert model.forest_.domain.n_codes.max() <= 256 or variant == "published"
