"""Rules by which a node is not split any further, and where their number of rows comes from."""

import math

import numpy as np
import pandas as pd
import pytest
from tests.support.planted import TARGET
from tests.support.strategies import MIXED, facts_of, mixed_table, recipe_of

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.parts.allocation import LeavesOnly
from dpforest.parts.proposals import Menu
from dpforest.parts.shape import AboveNoise, EstimatedSupport, NoisySize
from dpforest.pipeline import public_facts
from dpforest.recipes import get_recipe


def test_noisy_size_splits_nodes_that_are_large_and_seem_mixed():
    counts = np.array([[60, 40], [60, 39], [100, 0], [0, 120], [110, -5], [99, 1], [-3, 103.5]])
    split = NoisySize(100).may_split(counts, 4.0, np.ones(7), facts_of())
    assert split.tolist() == [True, False, False, False, False, True, False]


def test_above_noise_splits_nodes_whose_average_cell_would_hold_the_standard_deviation_of_the_noise():
    # Five values and two classes: ten cells, each to hold sqrt(4) = 2 records.
    counts = np.array([[10, 10], [10, 9], [25, -5], [0, 0]])
    assert AboveNoise().may_split(counts, 4.0, np.ones(4), facts_of()).tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    ("features", "least"),
    [
        ({"x": Numeric(0, 1), "y": Numeric(0, 9, integer=True)}, 8),
        ({"x": Numeric(0, 1), "c": Categorical([*"abcd"])}, 12),
    ],
    ids=["numbers", "a number and four categories"],
)
def test_above_noise_counts_two_values_for_a_number_that_is_cut_in_two(features, least):
    # Two classes and a standard deviation of 2: with a mean of 2 or 3 children, 8 or 12 records fill the cells.
    facts = public_facts(Schema(features, TARGET), get_recipe("friedman-schuster-2010"), epsilon=1.0, delta=0.0)
    counts = np.array([[least, 0], [least - 1, 0], [1, least - 1]])
    assert AboveNoise().may_split(counts, 4.0, np.ones(3), facts).tolist() == [True, False, True]


def test_diffpid3_splits_a_table_of_numbers_at_a_moderate_budget():
    # Each of the root's two counts has noise of about 9 * sqrt(2) / 0.5 = 25, and 4 * 25 of its 1000 records suffice.
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.random(1000), "y": rng.random(1000)})
    schema = Schema({"x": Numeric(0, 1), "y": Numeric(0, 1)}, TARGET)
    model = DPForestClassifier(schema, epsilon=0.5, recipe="friedman-schuster-2010", random_state=0)
    assert model.fit(X, np.where(X["x"] > 0.5, "yes", "no")).forest_.depth > 0


def test_estimated_support_splits_nodes_whose_children_would_hold_more_than_the_threshold():
    facts = facts_of(n_rows=1000.0, n_trees=3, epsilon=0.5, n_classes=2)
    threshold = math.sqrt(2) * 2 * 3 / 0.5
    reached = np.array([1.0, 5 * threshold / 1000, 1.01 * 5 * threshold / 1000, 0.001])
    assert EstimatedSupport().may_split(None, 0.0, reached, facts).tolist() == [True, False, True, False]


@pytest.mark.parametrize("n_rows", [None, 3000])
def test_a_stop_by_estimated_support_gets_a_number_of_rows_that_is_declared_or_bought(n_rows):
    X, y, _ = mixed_table(3000, seed=1)
    recipe = recipe_of(stop=EstimatedSupport(), propose=Menu(random=True), allocate=LeavesOnly(), depth=3)
    model = DPForestClassifier(Schema(MIXED, Classes([0, 1]), n_rows=n_rows), 2.0, recipe=recipe, random_state=0)
    model.fit(X, y)
    labels = [entry["label"] for entry in model.ledger_.entries()]
    assert labels == ([] if n_rows else ["number of rows"]) + ["leaves"]
    assert model.forest_.depth > 0


@pytest.mark.parametrize("least", [-1.0, float("nan")])
def test_a_least_size_below_nothing_is_refused(least):
    with pytest.raises(ParameterError, match="min_size"):
        NoisySize(least)
