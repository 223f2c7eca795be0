"""Cuts come from public bounds alone, and conditions are worded so that people can read them."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.strategies import FIXED, domains, grids, numerics

from dpforest import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.errors import SchemaError
from dpforest.schema.domain import MOST_CODES, Domain, Grid


def domain_of(*features, grid=None):
    named = {f"f{index}": part for index, part in enumerate(features)}
    return Domain.of(Schema(named, Classes(["a", "b"])), grid or Grid())


def test_cuts_have_equal_width():
    assert Grid(4).cuts(Numeric(-2, 6)).tolist() == [0, 2, 4]
    assert Grid(1).cuts(Numeric(-2, 6)).tolist() == []
    np.testing.assert_allclose(Grid(32).cuts(Numeric(0, 1)), np.arange(1, 32) / 32)


def test_whole_numbers_get_a_bin_each_if_there_are_few():
    assert Grid(8).cuts(Numeric(3, 6, integer=True)).tolist() == [4, 5, 6]
    assert Grid(4).cuts(Numeric(3, 6, integer=True)).tolist() == [4, 5, 6]
    assert Grid(8, geometric=True).cuts(Numeric(-1, 1, integer=True)).tolist() == [0, 1]
    assert Grid(8).cuts(Numeric(0.5, 3.2, integer=True)).tolist() == [2, 3]


def test_whole_numbers_are_cut_at_whole_numbers_if_there_are_many():
    assert Grid(4).cuts(Numeric(0, 10, integer=True)).tolist() == [3, 5, 8]
    cuts = Grid(16, geometric=True).cuts(Numeric(-1000, 999, integer=True))
    assert (cuts == np.rint(cuts)).all()


@FIXED
@given(grids, st.integers(-60, 60), st.integers(1, 90))
def test_whole_numbers_have_no_bin_that_none_of_them_falls_in(grid, lower, width):
    feature = Numeric(lower, lower + width, integer=True)
    cuts = grid.cuts(feature)
    codes = {naive.code_of(value, feature, cuts) for value in range(lower, lower + width + 1)}
    assert codes == set(range(len(cuts) + 1))


def test_geometric_cuts_halve_towards_zero_and_set_zero_apart():
    cuts = Grid(2, geometric=True).cuts(Numeric(0, 1024))
    assert cuts.tolist() == [1024e-9, *(2.0**k for k in range(10))]


def test_geometric_cuts_halve_towards_the_lower_bound_where_zero_is_outside():
    cuts = Grid(1, geometric=True).cuts(Numeric(10, 1034))
    assert cuts.tolist() == [10 + 2.0**k for k in range(10)]
    cuts = Grid(1, geometric=True).cuts(Numeric(-1034, -10))
    assert cuts.tolist() == [-1034 + 2.0**k for k in range(10)]


def test_geometric_cuts_halve_towards_zero_from_both_sides_and_set_zero_apart():
    cuts = Grid(1, geometric=True).cuts(Numeric(-1024, 2048))
    expected = [-(2.0**k) for k in range(9, -1, -1)] + [-1024e-9, 2048e-9] + [2.0**k for k in range(1, 11)]
    assert cuts.tolist() == expected
    codes = [naive.code_of(value, Numeric(-1024, 2048), cuts) for value in (-0.001, 0.0, 0.001)]
    assert len(set(codes)) == 3


def test_geometric_cuts_come_on_top_of_those_of_equal_width():
    feature = Numeric(-3, 11)
    assert set(Grid(7, geometric=True).cuts(feature)) >= set(Grid(7).cuts(feature))


@FIXED
@given(numerics(), grids)
def test_cuts_increase_and_lie_inside_the_bounds(feature, grid):
    cuts = grid.cuts(feature)
    assert (np.diff(cuts) > 0).all()
    assert ((cuts > feature.lower) & (cuts <= feature.upper)).all()


EXTREME = [Numeric(0, 1.7e308), Numeric(-8e307, 8e307), Numeric(0, 5e-324), Numeric(1, float(np.nextafter(1, 2)))]


@pytest.mark.parametrize("geometric", [False, True])
@pytest.mark.parametrize("feature", EXTREME, ids=repr)
def test_bounds_at_the_ends_of_the_numbers_have_cuts_too(feature, geometric):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cuts = Grid(4, geometric=geometric).cuts(feature)
    assert np.isfinite(cuts).all()
    assert (np.diff(cuts) > 0).all()
    assert ((cuts > feature.lower) & (cuts <= feature.upper)).all()
    assert len(cuts) >= 1


@pytest.mark.parametrize("kind", [Numeric, Bounded])
def test_bounds_further_apart_than_any_number_are_refused(kind):
    with pytest.raises(SchemaError):
        kind(-1.7e308, 1.7e308)


@FIXED
@given(domains())
def test_each_feature_owns_its_columns_one_after_the_other(domain):
    owned = [range(start, stop) for start, stop in pairwise(domain.offsets)]
    assert [len(columns) for columns in owned] == domain.n_codes.tolist()
    assert [column for columns in owned for column in columns] == list(range(domain.total_codes))
    for part, cuts, n_codes in zip(domain.features, domain.cuts, domain.n_codes, strict=True):
        assert n_codes == (len(part.categories) if isinstance(part, Categorical) else len(cuts)) + 2


def test_more_codes_than_two_bytes_hold_are_refused_with_the_name_of_the_feature():
    assert domain_of(Categorical(range(MOST_CODES - 2))).n_codes.tolist() == [MOST_CODES]
    with pytest.raises(SchemaError, match="'f1' has 65537 codes"):
        domain_of(Numeric(0, 1), Categorical(range(MOST_CODES - 1)))


NUMBER = domain_of(Numeric(0, 40), grid=Grid(4))
WORD = domain_of(Categorical(["red", "green", "blue", "white"]))


@pytest.mark.parametrize(
    ("held", "text"),
    [
        ([0], "f0 < 10"),
        ([0, 1], "f0 < 20"),
        ([1], "10 <= f0 < 20"),
        ([1, 2], "10 <= f0 < 30"),
        ([3], "30 <= f0"),
        ([2, 3, 4], "(20 <= f0 or missing)"),
        ([0, 2], "(f0 < 10 or 20 <= f0 < 30)"),
        ([0, 2, 4], "(f0 < 10 or 20 <= f0 < 30 or missing)"),
        ([4], "f0 is missing"),
        ([0, 1, 2, 3], "f0 is known"),
    ],
)
def test_conditions_on_numbers_name_the_range(held, text):
    assert NUMBER.describe(0, np.isin(np.arange(5), held)) == text


@pytest.mark.parametrize(
    ("held", "text"),
    [
        ([0], "f0 = red"),
        ([0, 2], "f0 in {red, blue}"),
        ([0, 1, 2], "f0 in {red, green, blue}"),
        ([0, 1, 2, 3], "f0 not in {other, missing}"),
        ([4], "f0 = other"),
        ([5], "f0 = missing"),
        ([1, 2, 3, 4, 5], "f0 != red"),
    ],
)
def test_conditions_on_words_name_the_shorter_list(held, text):
    assert WORD.describe(0, np.isin(np.arange(6), held)) == text


def proper_subsets(n_codes):
    return [[bool(bits >> code & 1) for code in range(n_codes)] for bits in range(1, 2**n_codes - 1)]


@pytest.mark.parametrize("domain", [NUMBER, WORD, domain_of(Numeric(-3, 5), grid=Grid(3))])
def test_a_value_meets_the_condition_of_a_set_of_codes_iff_its_code_is_in_the_set(domain):
    part, cuts = domain.features[0], domain.cuts[0]
    for held in proper_subsets(domain.n_codes[0]):
        text = domain.describe(0, np.array(held))
        met = [naive.meets(text, {"f0": naive.value_of(code, part, cuts)}) for code in range(len(held))]
        assert met == held


@pytest.mark.parametrize("lower", [0.0, 1e6, 1.7e9])
def test_conditions_tell_neighbouring_cuts_apart_however_far_from_zero_they_lie(lower):
    domain = domain_of(Numeric(lower, lower + 8), grid=Grid(4))
    part, cuts = domain.features[0], domain.cuts[0]
    for held in proper_subsets(5):
        text = domain.describe(0, np.array(held))
        met = [naive.meets(text, {"f0": naive.value_of(code, part, cuts)}) for code in range(5)]
        assert met == held


def test_no_condition_speaks_of_minus_zero():
    domain = domain_of(Numeric(-100, 100, integer=True), grid=Grid(7, geometric=True))
    below_zero = np.append(domain.cuts[0] <= 0, [False, False])
    assert domain.describe(0, below_zero) == "f0 < 0"


def test_conditions_tell_a_category_from_the_words_for_unlisted_and_for_missing_values():
    domain = domain_of(Categorical(["other", "missing", "a"]))
    texts = {domain.describe(0, np.arange(5) == code) for code in range(5)}
    assert len(texts) == 5
