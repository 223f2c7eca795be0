"""Rules of the papers for how many trees and how many levels."""

import math
from fractions import Fraction

import pytest
from tests.support.strategies import facts_of

from dpforest.parts.shape import (
    AllFeatures,
    HalfTheFeatures,
    HalfUntested,
    LogRows,
    SupportedTrees,
)


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
