"""Cuts of dates are turns of the calendar that follow from public bounds alone, and dates are shown as such."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpforest import Classes, Date, Schema
from dpforest.errors import SchemaError
from dpforest.schema.domain import Domain, Grid, derived
from dpforest.schema.grid import MOST_CUTS, calendar_cuts, date_words

DAY = 86_400


def words(part, most=MOST_CUTS):
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
    found = words(Date(lower, upper, time="T" in lower))
    assert found[: len(cuts)] == cuts
    assert len(found) <= MOST_CUTS


@pytest.mark.parametrize("time", [False, True])
def test_without_bounds_there_are_years_and_then_quarters_in_one_byte(time):
    found, tail = words(Date(time=time)), "T00:00" * time
    assert [found[0], found[69], found[70], found[71]] == [
        f"{day}{tail}" for day in ("1920-01-01", "1989-01-01", "1990-01-01", "1990-04-01")
    ]
    assert found[-1] == f"2034-10-01{tail}"
    assert Domain.of(Schema({"d": Date(time=time)}, Classes([0, 1])), Grid()).dtype == np.uint8


def test_with_one_bound_the_usual_cuts_within_it_stay():
    assert words(Date(lower="2033-01-01")) == words(Date())[-7:]
    assert words(Date(upper="1922-01-01")) == ["1920-01-01", "1921-01-01", "1922-01-01"]
    assert words(Date(lower="2040-01-01"))[0] == "2040-04-01"  # none of the usual ones is left


@pytest.mark.parametrize("time", [False, True])
@pytest.mark.parametrize("bins", [1, 2, 5, 11])
def test_a_grid_of_few_bins_has_few_cuts(bins, time):
    for part in (Date(time=time), Date("0001-01-01", "9999-12-31", time=time), Date("2020-01-01", "2024-12-31", time=time)):
        cuts = Grid(bins=bins).cuts(part)
        assert len(cuts) <= bins - 1
        assert (np.diff(cuts) > 0).all()
    assert words(Date("2020-01-01", "2024-12-31"), 4) == ["2021-01-01", "2022-01-01", "2023-01-01", "2024-01-01"]


bounds = st.tuples(st.dates(), st.dates()).filter(lambda pair: pair[0] < pair[1]).map(lambda pair: Date(*pair))


@given(bounds, st.integers(0, MOST_CUTS))
def test_cuts_are_few_increasing_and_inside_the_bounds(part, most):
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
