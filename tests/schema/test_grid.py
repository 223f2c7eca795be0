"""Where cuts and bins lie follows from public bounds alone, and conditions are worded so that people can read them."""

import math
import pickle
import warnings
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.strategies import FIXED, domains, numerics

from dpforest import Bounded, Categorical, Classes, Date, Numeric, Schema
from dpforest.errors import SchemaError
from dpforest.schema.domain import Domain, derived
from dpforest.schema.grid import (
    BITS,
    CENTRE,
    LEAST,
    MOST,
    MOST_CUTS,
    N_BINS,
    N_SIDE,
    Grid,
    anchor,
    bin_of,
    calendar_cuts,
    date_words,
    distances,
    middle_of,
)

grids = st.builds(Grid, bins=st.integers(1, 6), scales=st.booleans(), sparse=st.booleans())


@pytest.mark.parametrize(
    ("grid", "feature", "cuts"),
    [
        (Grid(4), Numeric(-2, 6), [0, 2, 4]),
        (Grid(1), Numeric(-2, 6), []),
        (Grid(32), Numeric(0, 1), (np.arange(1, 32) / 32).tolist()),
        # Whole numbers get a bin each if there are few, and are cut at whole numbers if there are many.
        (Grid(8), Numeric(3, 6, integer=True), [4, 5, 6]),
        (Grid(4), Numeric(3, 6, integer=True), [4, 5, 6]),
        (Grid(8, scales=True), Numeric(-1, 1, integer=True), [0, 1]),
        (Grid(8), Numeric(0.5, 3.2, integer=True), [2, 3]),
        (Grid(4), Numeric(0, 10, integer=True), [3, 5, 8]),
    ],
)
def test_cuts_have_equal_width(grid, feature, cuts):
    assert grid.cuts(feature).tolist() == pytest.approx(cuts)


@FIXED
@given(grids, st.integers(-60, 60), st.integers(1, 90))
def test_whole_numbers_have_no_bin_that_none_of_them_falls_in(grid, lower, width):
    feature = Numeric(lower, lower + width, integer=True)
    cuts = grid.cuts(feature)
    codes = {naive.code_of(value, feature, cuts) for value in range(lower, lower + width + 1)}
    assert codes == set(range(len(cuts) + 1))


def octaves(first, last, per_octave=8):
    """Distances from 2**first up to, but without, 2**last."""
    return [2.0**k * (1 + i / per_octave) for k in range(first, last) for i in range(per_octave)]


@pytest.mark.parametrize(
    ("grid", "feature", "cuts"),
    [
        (Grid(2, scales=True), Numeric(0, 1024), [2.0**-60, *octaves(-13, 10), 1024]),  # zero is set apart
        (Grid(1, scales=True), Numeric(10, 1034), [10 + distance for distance in [*octaves(-13, 10), 1024]]),
        (Grid(1, scales=True), Numeric(-1034, -10), [*(-10 - distance for distance in reversed(octaves(-13, 10))), -10]),
        (Grid(1, scales=True, sparse=True), Numeric(0, 1024), [2.0**-60, *octaves(-13, 6, 2), *octaves(6, 10), 1024]),
    ],
)
def test_scales_have_cuts_in_each_octave_from_zero_or_the_bound_nearest_to_it(grid, feature, cuts):
    assert grid.cuts(feature).tolist() == cuts


def test_scales_lie_on_both_sides_of_zero_and_set_it_apart():
    cuts = Grid(1, scales=True).cuts(Numeric(-1024, 2048))
    near = [-distance for distance in reversed(octaves(-13, 10))]
    assert cuts.tolist() == [*near, 0, 2.0**-60, *octaves(-13, 11), 2048]
    codes = [naive.code_of(value, Numeric(-1024, 2048), cuts) for value in (-0.001, 0.0, 0.001)]
    assert len(set(codes)) == 3


def test_wider_bounds_keep_the_cuts_of_narrower_ones():
    narrow, wide = (Grid(1, scales=True).cuts(Numeric(-bound, bound)) for bound in (16, 2**20))
    kept = narrow[(np.abs(narrow) > 2**-13) | (narrow == 0)]
    assert set(kept) <= set(wide)


@pytest.mark.parametrize("grid", [Grid(scales=True, sparse=True), Grid(32, scales=True)], ids=repr)
@pytest.mark.parametrize("bounds", [(), (0,), (None, 0), (-5,)], ids=repr)
def test_a_number_without_bounds_has_cuts_at_every_scale(grid, bounds):
    feature = Numeric(*bounds)
    cuts, (low, high) = grid.cuts(feature), feature.range
    sizes = [sign * size for size in (1e-3, 1.0, 1e3, 1e6, 1e9, 1e15) for sign in (-1, 1)]
    assert all(((cuts > value / 2) & (cuts < 2 * value)).any() for value in sizes if 0 < value < high)
    assert all(((cuts < value / 2) & (cuts > 2 * value)).any() for value in sizes if low < value < 0)


@pytest.mark.parametrize("bins", [1, 2, 5, 32, 1000])
def test_where_there_are_no_equal_widths_powers_of_2_are_cuts(bins):
    for feature in (Numeric(), Numeric(0), Numeric(upper=-7), Numeric(integer=True)):
        cuts, zero = Grid(bins).cuts(feature), anchor(*feature.range)
        assert len(cuts) <= bins - 1
        assert set(np.log2(np.abs(cuts[cuts != zero] - zero)) % 1) <= {0.0}
    assert Grid(4).cuts(Numeric()).tolist() == [-(2.0**4), 0, 2.0**4]


def test_whole_numbers_near_zero_have_a_bin_each_however_wide_their_bounds():
    cuts = Grid(32, scales=True).cuts(Numeric(0, 10**9, integer=True))
    assert set(range(1, 33)) <= set(cuts)
    assert set(cuts[cuts > 64] % 1) == {0}


@FIXED
@given(numerics(), grids)
def test_cuts_increase_and_lie_inside_the_bounds(feature, grid):
    cuts = grid.cuts(feature)
    assert (np.diff(cuts) > 0).all()
    assert ((cuts > feature.lower) & (cuts <= feature.upper)).all()


EXTREME = [Numeric(0, 1.7e308), Numeric(-8e307, 8e307), Numeric(0, 5e-324), Numeric(1, float(np.nextafter(1, 2)))]


@pytest.mark.parametrize("scales", [False, True])
@pytest.mark.parametrize("feature", EXTREME, ids=repr)
def test_bounds_at_the_ends_of_the_numbers_have_cuts_too(feature, scales):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cuts = Grid(4, scales=scales).cuts(feature)
    assert np.isfinite(cuts).all()
    assert (np.diff(cuts) > 0).all()
    assert ((cuts > feature.lower) & (cuts <= feature.upper)).all()
    assert len(cuts) >= 1


def turns(part, most=MOST_CUTS):
    return date_words(part, calendar_cuts(part, most))


def asked(part):
    return [each.of for each in derived(Schema({"d": part}, Classes([0, 1])))]


@pytest.mark.parametrize(
    ("lower", "upper", "cuts"),
    [
        ("2024-02-27", "2024-03-01", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("2024-01-01", "2024-12-31", ["2024-01-08", "2024-01-15", "2024-01-22"]),  # Mondays
        ("2019-12-31", "2029-01-01", ["2020-01-01", "2020-02-01", "2020-03-01"]),
        ("1970-01-01", "2020-01-01", ["1970-04-01", "1970-07-01", "1970-10-01"]),
        ("1850-06-01", "2050-01-01", ["1851-01-01", "1852-01-01", "1853-01-01"]),
        ("1006-01-01", "2026-01-01", ["1010-01-01", "1020-01-01", "1030-01-01"]),
        ("2024-01-01T12:00:00", "2024-01-01T12:00:03", ["2024-01-01T12:00:01", "2024-01-01T12:00:02"]),
        ("2024-01-01T12:00:30", "2024-01-01T13:00:00", ["2024-01-01T12:01", "2024-01-01T12:02"]),
        ("2024-01-01T12:30:00", "2024-01-05T12:00:00", ["2024-01-01T13:00", "2024-01-01T14:00"]),
        ("2024-01-01T12:30:00", "2024-06-05T12:00:00", ["2024-01-02T00:00", "2024-01-03T00:00"]),
    ],
)
def test_cuts_between_bounds_are_the_finest_turns_that_are_few_enough(lower, upper, cuts):
    found = turns(Date(lower, upper, time="T" in lower))
    assert found[: len(cuts)] == cuts
    assert len(found) <= MOST_CUTS


@pytest.mark.parametrize("time", [False, True])
def test_without_bounds_there_are_years_and_then_quarters_in_one_byte(time):
    found, tail = turns(Date(time=time)), "T00:00" * time
    assert [found[0], found[69], found[70], found[71]] == [
        f"{day}{tail}" for day in ("1920-01-01", "1989-01-01", "1990-01-01", "1990-04-01")
    ]
    assert found[-1] == f"2034-10-01{tail}"
    assert Domain.of(Schema({"d": Date(time=time)}, Classes([0, 1])), Grid()).dtype == np.uint8


def test_with_one_bound_the_usual_cuts_within_it_stay():
    assert turns(Date(lower="2033-01-01")) == turns(Date())[-7:]
    assert turns(Date(upper="1922-01-01")) == ["1920-01-01", "1921-01-01", "1922-01-01"]
    assert turns(Date(lower="2040-01-01"))[0] == "2040-04-01"  # none of the usual ones is left


@pytest.mark.parametrize("time", [False, True])
@pytest.mark.parametrize("bins", [1, 2, 5, 11])
def test_a_grid_of_few_bins_has_few_cuts(bins, time):
    for part in (Date(time=time), Date("0001-01-01", "9999-12-31", time=time), Date("2020-01-01", "2024-12-31", time=time)):
        cuts = Grid(bins=bins).cuts(part)
        assert len(cuts) <= bins - 1
        assert (np.diff(cuts) > 0).all()
    assert turns(Date("2020-01-01", "2024-12-31"), 4) == ["2021-01-01", "2022-01-01", "2023-01-01", "2024-01-01"]


bounds = st.tuples(st.dates(), st.dates()).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: Date(*pair))


@given(bounds, st.integers(0, MOST_CUTS))
def test_turns_are_few_increasing_and_inside_the_bounds(part, most):
    cuts, (lower, upper) = calendar_cuts(part, most), part.range
    assert len(cuts) <= most
    assert (np.diff(cuts) > 0).all()
    assert ((cuts > lower) & (cuts <= upper)).all()


@given(st.dates())
def test_a_day_is_counted_and_shown_as_python_does(day):
    number = (day - date(1970, 1, 1)).days
    assert date_words(Date(), [number - 0.5, number]) == [day.isoformat()] * 2


def test_a_cut_that_no_calendar_has_is_shown_all_the_same():
    assert date_words(Date(), [-1e300, 1e300]) == ["0001-01-01", "9999-12-31"]
    assert date_words(Date(time=True), [1e300]) == ["9999-12-31T23:59:59"]


def test_conditions_show_dates():
    part = Date("2024-01-01", "2024-12-31")
    domain = Domain.of(Schema({"admitted": part}, Classes([0, 1])), Grid())
    codes = np.arange(domain.n_codes[0])
    assert domain.describe(0, codes < 13) == "admitted < 2024-04-01"
    assert domain.describe(0, (codes >= 13) & (codes < 26)) == "2024-04-01 <= admitted < 2024-07-01"
    assert domain.describe(1, np.arange(9) == 5) == "admitted (weekday) = Saturday"
    seen = Domain.of(Schema({"seen": Date("2024-04-01", "2024-04-05", time=True)}, Classes([0, 1])), Grid())
    assert seen.describe(0, np.arange(seen.n_codes[0]) < 12) == "seen < 2024-04-01T12:00"


def test_what_bounds_make_the_same_for_all_is_not_asked():
    assert asked(Date()) == ["value", "weekday", "month"]
    assert asked(Date("2024-02-01", "2024-02-29")) == ["value", "weekday"]
    assert asked(Date("2024-02-29", "2024-03-01")) == ["value", "weekday", "month"]
    assert asked(Date(time=True)) == ["value", "weekday", "month", "hour"]
    assert asked(Date("2024-02-29T00:00:00", "2024-02-29T23:59:59", time=True)) == ["value", "hour"]
    assert asked(Date("2024-02-29T10:00:00", "2024-02-29T10:59:59", time=True)) == ["value"]


def test_bounds_are_kept_as_iso_text_of_utc():
    east = datetime(2024, 1, 1, 3, 30, 5, 999, tzinfo=UTC).astimezone()
    assert Date(date(1, 1, 1), "0999-12-31").to_dict() == {"kind": "date", "lower": "0001-01-01", "upper": "0999-12-31"}
    assert Date(east, "2024-01-02T00:00+01:00", time=True).lower == "2024-01-01T03:30:05Z"
    assert Date(east, "2024-01-02T00:00+01:00", time=True).upper == "2024-01-01T23:00:00Z"
    assert Date(east, "2024-01-02").lower == "2024-01-01"
    assert Date("1960-01-01", "1970-01-02").range == ((date(1960, 1, 1) - date(1970, 1, 1)) / timedelta(1), 1.0)


@pytest.mark.parametrize("bound", ["0001-01-01T00:00+05:00", "yesterday", 2024, 1e300, (), "2024-02-30"])
def test_a_bound_that_is_no_date_is_refused(bound):
    with pytest.raises(SchemaError, match="Date needs bounds such as '2020-01-31'"):
        Date(bound, "9999-12-31")


def test_bins_begin_at_sixteenths_of_octaves():
    begins = distances()
    assert begins[0] == 2.0**LEAST
    assert begins[-1] == 2.0**MOST
    assert len(begins) == N_SIDE + 1
    assert (np.diff(begins) > 0).all()
    assert begins[16] == 2 * begins[0]
    assert begins[1] == begins[0] * (1 + 1 / (1 << BITS))


@pytest.mark.parametrize("centre", [0.0, -3.5, 1e6, 2.0**62])
def test_the_middle_of_a_bin_is_in_it(centre):
    for index in [0, 1, 900, CENTRE - 1, CENTRE, CENTRE + 1, 3000, N_BINS - 1]:
        middle = middle_of(index, centre)
        # Around a large centre floats are too coarse for the smallest bins.
        assert bin_of(middle, centre) == index or abs(middle - centre) < 1e-12 * max(abs(centre), 1)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_bin_of_a_distance_is_that_of_its_first_bits(sign):
    for k, begin in enumerate(distances()[:-1], 1):
        assert bin_of(sign * begin, 0.0) == CENTRE + sign * k
        assert bin_of(sign * math.nextafter(begin, 0), 0.0) == CENTRE + sign * (k - 1)


def test_no_distance_of_two_numbers_of_64_bits_is_beyond_the_bins():
    assert bin_of(2.0**63, -(2.0**63)) < N_BINS - 1
    assert bin_of(-(2.0**63), 2.0**63) > 0


# --- what codes and conditions are made of cuts ----------------------------------------------------------------------


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
        (NUMBER, [1], "10 <= f0 < 20"),
        (NUMBER, [3], "30 <= f0"),
        (NUMBER, [0, 2, 4], "(f0 < 10 or 20 <= f0 < 30 or missing)"),
        (NUMBER, [4], "f0 is missing"),
        (NUMBER, [0, 1, 2, 3], "f0 is known"),
        (WORD, [0], "f0 = red"),
        (WORD, [0, 1, 2], "f0 in {red, green, blue}"),
        (WORD, [0, 1, 2, 3], "f0 not in {other, missing}"),
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
