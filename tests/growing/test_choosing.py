"""What two steps and class means choose where there is no noise."""

import math

import numpy as np
import pytest
from tests.support.strategies import TWO, mixed_table, recipe_of

from dpforest import Classes, DPForestClassifier, Numeric, Schema
from dpforest.growing.choosing import FeatureFirst
from dpforest.growing.class_means import ClassMeans
from dpforest.parts.criteria import GiniCount, MaxOperator, WeightedMajority
from dpforest.schema.domain import Grid

# --- the criterion and the choice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", [GiniCount(), MaxOperator(), WeightedMajority()], ids=["gini", "max", "weighted"])
def test_without_noise_two_steps_choose_what_one_joint_step_chooses(criterion):
    X, y, _ = mixed_table(200, seed=7)
    one, two = (
        DPForestClassifier(TWO, math.inf, recipe=recipe_of(criterion=criterion, choose=choose, depth=4), random_state=0).fit(
            X, y
        )
        for choose in (None, FeatureFirst())
    )
    assert one.forest_.depth == 4
    assert one.forest_.features.tolist() == two.forest_.features.tolist()
    assert one.forest_.routes.tolist() == two.forest_.routes.tolist()


# --- class means ----------------------------------------------------------------------------------------------------


def test_a_class_that_a_node_does_not_hold_leaves_the_middle_of_class_means_to_the_others():
    schema = Schema({"a": Numeric(0, 1)}, Classes(["low", "mid", "high"]))
    X, y = np.repeat([[0.4], [0.8]], 50, axis=0), np.repeat(["mid", "high"], 50)
    recipe = recipe_of(narrow=ClassMeans(), grid=Grid(10), depth=1)
    model = DPForestClassifier(schema, math.inf, recipe=recipe, random_state=0).fit(X, y)
    assert {rule["rule"] for rule in model.forest_.rules()} == {"always", "a < 0.6", "(0.6 <= a or missing)"}
