"""Cuts come from public bounds alone, and conditions are worded so that people can read them."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from tests.support import naive
from tests.support.strategies import FIXED, domains

from dpforest import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.errors import SchemaError
from dpforest.schema.domain import Domain
from dpforest.schema.grid import Grid


def domain_of(*features, grid=None):
    named = {f"f{index}": part for index, part in enumerate(features)}
    return Domain.of(Schema(named, Classes(["a", "b"])), grid or Grid())


def test_sparse_cuts_of_a_number_without_bounds_fit_one_byte():
    for integer in (False, True):
        assert domain_of(Numeric(integer=integer), grid=Grid(32, scales=True, sparse=True)).dtype == np.uint8


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
        assert n_codes == (part.n_values if isinstance(part, Categorical) else len(cuts)) + 2


NUMBER = domain_of(Numeric(0, 40), grid=Grid(4))
WORD = domain_of(Categorical(["red", "green", "blue", "white"]))


@pytest.mark.parametrize(
    ("domain", "held", "text"),
    [
        (NUMBER, [0], "f0 < 10"),
        (NUMBER, [0, 1], "f0 < 20"),
        (NUMBER, [1], "10 <= f0 < 20"),
        (NUMBER, [1, 2], "10 <= f0 < 30"),
        (NUMBER, [3], "30 <= f0"),
        (NUMBER, [2, 3, 4], "(20 <= f0 or missing)"),
        (NUMBER, [0, 2], "(f0 < 10 or 20 <= f0 < 30)"),
        (NUMBER, [0, 2, 4], "(f0 < 10 or 20 <= f0 < 30 or missing)"),
        (NUMBER, [4], "f0 is missing"),
        (NUMBER, [0, 1, 2, 3], "f0 is known"),
        (WORD, [0], "f0 = red"),
        (WORD, [0, 2], "f0 in {red, blue}"),
        (WORD, [0, 1, 2], "f0 in {red, green, blue}"),
        (WORD, [0, 1, 2, 3], "f0 not in {other, missing}"),
        (WORD, [4], "f0 = other"),
        (WORD, [5], "f0 = missing"),
        (WORD, [1, 2, 3, 4, 5], "f0 != red"),
    ],
)
def test_conditions_name_the_range_or_the_shorter_list(domain, held, text):
    assert domain.describe(0, np.isin(np.arange(domain.n_codes[0]), held)) == text


def proper_subsets(n_codes):
    return [[bool(bits >> code & 1) for code in range(n_codes)] for bits in range(1, 2**n_codes - 1)]


FAR = [domain_of(Numeric(lower, lower + 8), grid=Grid(4)) for lower in (-3.0, 0.0, 1e6, 1.7e9)]


@pytest.mark.parametrize("domain", [NUMBER, WORD, *FAR])
def test_a_value_meets_the_condition_of_a_set_of_codes_iff_its_code_is_in_the_set(domain):
    """Also where neighbouring cuts lie far from zero."""
    part, cuts = domain.features[0], domain.cuts[0]
    for held in proper_subsets(domain.n_codes[0]):
        text = domain.describe(0, np.array(held))
        met = [naive.meets(text, {"f0": naive.value_of(code, part, cuts)}) for code in range(len(held))]
        assert met == held


def test_no_condition_speaks_of_minus_zero():
    domain = domain_of(Numeric(-100, 100, integer=True), grid=Grid(7, scales=True))
    below_zero = np.append(domain.cuts[0] <= 0, [False, False])
    assert domain.describe(0, below_zero) == "f0 < 0"


def test_conditions_tell_a_category_from_the_words_for_unlisted_and_for_missing_values():
    domain = domain_of(Categorical(["other", "missing", "a"]))
    texts = {domain.describe(0, np.arange(5) == code) for code in range(5)}
    assert len(texts) == 5


def test_a_domain_is_made_once_for_a_schema_and_a_grid():
    schema = Schema({"x": Numeric(0, 1)}, Classes(["a", "b"]))
    domain = Domain.of(schema, Grid(8))
    assert Domain.of(schema, Grid(8)) is domain
    assert Domain.of(schema, Grid(8)).with_lists({}) is domain
    assert Domain.of(schema, Grid(4)) is not domain
    # Labels and bounds that compare as equal are shown differently.
    assert Domain.of(Schema({"x": Numeric(0.0, 1.0)}, Classes(["a", "b"])), Grid(8)) is not domain


def test_what_was_made_of_a_domain_is_made_once_and_not_saved():
    domain, asked = domain_of(Numeric(0, 1)), []
    for _ in range(2):
        assert domain.once(("sum", 1), lambda: asked.append(1) or "made") == "made"
    assert asked == [1]
    copy = pickle.loads(pickle.dumps(domain))
    assert (copy.names, copy.offsets.tolist()) == (domain.names, domain.offsets.tolist())
    assert copy.once(("sum", 1), lambda: "made anew") == "made anew"
