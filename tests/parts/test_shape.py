"""Rules of the papers for how many trees, how many levels, and which nodes are not split any further."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from tests.support.planted import TARGET
from tests.support.strategies import MIXED, facts_of, mixed_table, recipe_of

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.parts.allocation import LeavesOnly
from dpforest.parts.proposals import Menu
from dpforest.parts.shape import (
    AboveNoise,
    AllFeatures,
    EstimatedSupport,
    HalfTheFeatures,
    HalfUntested,
    LogRows,
    NoisySize,
    SupportedTrees,
)  # fmt: skip
from dpforest.pipeline import public_facts
from dpforest.recipes import get_recipe


def test_half_the_features_is_at_least_one_level():
    depths = [HalfTheFeatures().value(facts_of(n_features=m)) for m in (1, 2, 3, 9, 13, 14, 22)]
    assert depths == [1, 1, 2, 5, 7, 7, 11]  # Table 5.1 of the thesis has 7 levels for 13 features and 11 for 22


def test_all_features_are_as_many_levels():
    assert [AllFeatures().value(facts_of(n_features=m)) for m in (1, 8)] == [1, 8]


@pytest.mark.parametrize("n_numeric", [0, 1, 2, 3, 6, 25])
def test_half_untested_is_the_least_depth_at_which_under_half_of_the_numbers_are_expected_untested(n_numeric):
    s = Fraction(n_numeric)
    least = next(d for d in range(99) if s * ((s - 1) / s) ** d < s / 2) if s else 0
    for n_categorical in (1, 2, 9) if n_numeric == 0 else (0, 1, 2, 9):
        facts = facts_of(n_features=n_numeric + n_categorical, n_numeric=n_numeric)
        assert HalfUntested().value(facts) == max(1, least + n_categorical // 2)


def test_log_rows_is_the_natural_logarithm_of_the_rows_and_at_least_one():
    values = [LogRows().value(facts_of(n_rows=n)) for n in (-50.0, 0.0, 3.0, 1000.0, 45222.0, 1e6)]
    assert values == [1, 1, 1, 7, 11, 14]
    assert LogRows().needs_rows


@pytest.mark.parametrize("n_classes", [2, 18])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("n_rows", [-20.0, 0.0, 300.0, 2e3, 4e5])
def test_supported_trees_is_the_largest_number_whose_support_threshold_is_below_rows_over_the_squared_domain(
    n_rows, epsilon, n_classes
):
    facts = facts_of(n_rows=n_rows, epsilon=epsilon, n_classes=n_classes, n_features=12, mean_children=4.2)
    fitting = [t for t in range(1, 13) if math.sqrt(2) * n_classes / (epsilon / t) < n_rows / 4.2**2]
    assert SupportedTrees().value(facts) == max([1, *fitting])


def test_supported_trees_without_noise_are_as_many_as_features():
    assert SupportedTrees().value(facts_of(epsilon=math.inf, n_features=6)) == 6


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
