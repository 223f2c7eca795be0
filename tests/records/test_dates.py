"""Dates are read by one rule, whatever holds them, and each by itself."""

import warnings
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import dateutil.tz
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.holders import arrow, frame, name_of, objects, typed
from tests.support import naive
from tests.support.encoded import rows_of

from dpforest import Categorical, Classes, Date, Numeric, Schema
from dpforest.errors import TableError
from dpforest.records.assume import assume_public
from dpforest.records.columns import read_columns
from dpforest.records.dates import NO_DATE, derived_columns, to_seconds
from dpforest.records.encoding import encode
from dpforest.records.vault import Vault
from dpforest.schema.domain import WEEKDAYS, Domain, Grid, derived

DAY = 86_400
# What texts stand for, in words of Python; then texts that are no dates.
DATES = {
    "2024-02-29": "2024-02-29T00:00:00",
    "2000-02-29": "2000-02-29T00:00:00",
    "0001-01-01": "0001-01-01T00:00:00",
    "9999-12-31T23:59:59.9": "9999-12-31T23:59:59",
    "2024-02-29T10:20": "2024-02-29T10:20:00",
    "2024-02-29 10:20:30": "2024-02-29T10:20:30",
    "2024-02-29T10:20:30.999999999999": "2024-02-29T10:20:30",
    "1969-12-31T23:59:59.5": "1969-12-31T23:59:59",
    "2024-02-29T10:20Z": "2024-02-29T10:20:00",
    "2024-02-29T10:20:30.5+05:45": "2024-02-29T04:35:30",
    "2024-02-29 10:20-00:15": "2024-02-29T10:35:00",
    "0001-01-01T00:00+05:00": "0001-01-01T00:00:00",
    "9999-12-31T23:00-05:00": "9999-12-31T23:59:59",
}
NO_DATES = [
    "2023-02-29", "1900-02-29", "2024-04-31", "2024-00-01", "2024-13-01", "2024-01-00", "0000-12-31", "2024-02-29T24:00",
    "2024-02-29T10:60", "2024-02-29T10:20:60", "2024-02-29T10:20:", "2024-02-29T10:20:3", "2024-02-29T10:20:30.",
    "2024-02-29T10:20:30,5", "2024-02-29T10:20+24:00", "2024-02-29T10:20+05:60", "2024-02-29T10:20+0545",
    "2024-02-29T10:20 +05:45", "2024-02-29T10", "2024-02-29T1020", "2024-02-29T", "2024-02-29Z", "2024-02-29t10:20",
    "2024-02-29T10:20z", "2024-2-29", "20240229", "2024/02/29", "29.02.2024", " 2024-02-29", "2024-02-29 ", "+2024-02-29",
    "-2024-02-29", "\uff12\uff10\uff12\uff14-02-29", "2024-02-29\0", "", "NaT", "today", "1709164800",
]  # fmt: skip
TEXTS = DATES | dict.fromkeys(NO_DATES)
MOMENTS = ["1969-12-31T23:59:59.999999999", "2024-02-29T10:20:30.5", None, "2262-04-11", "1677-09-22", "1970-01-01"]
FLOORED = [
    "1969-12-31T23:59:59", "2024-02-29T10:20:30", None, "2262-04-11T00:00:00", "1677-09-22T00:00:00", "1970-01-01T00:00:00",
]  # fmt: skip
NANOSECONDS = np.array(["NaT" if moment is None else moment for moment in MOMENTS], dtype="M8[ns]")


def column_of(values, feature=None):
    """A column as a table of its own hands it over."""
    schema = Schema({"f": feature or Date()}, Classes([0, 1]))
    return read_columns(frame(values, "f"), schema)[0]


def read(values):
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        seconds = to_seconds(column_of(values))
    assert seconds.dtype == np.int64
    return [None if second == NO_DATE else str(np.datetime64(int(second), "s")) for second in seconds]


def texts_in_all_holders(values):
    """Columns of these texts, by every library and type."""
    return [
        objects(values), *typed(pd.Series, values, "str", pd.StringDtype("python"), object, "category"),
        *typed(pl.Series, values, pl.String, pl.Categorical),
        *arrow(values, pa.string(), pa.large_string(), pa.string_view()),
        pa.array(["2020-01-01", None, *values, "x"], pa.string()).slice(2, len(values)),
        pa.chunked_array([pa.array(part, pa.string()) for part in (values[:3], [], values[3:])]),
        pa.array(values, pa.string()).dictionary_encode(),
    ]  # fmt: skip


def test_text_is_read_as_iso_8601_or_missing_in_every_library():
    for column in texts_in_all_holders([*TEXTS, None]):
        assert read(column) == [*TEXTS.values(), None], name_of(column)
    assert all(read(column) == [] for column in texts_in_all_holders([]))
    texts = [text for text in TEXTS if not text.endswith("\0")]  # which numpy drops
    assert read(np.array(texts)) == [TEXTS[text] for text in texts]


def test_text_that_is_not_utf_8_is_no_date():
    binary = pa.array([b"2024-02-29", b"\xff", b"2024-02-29\xff", None], pa.binary())
    assert read(binary.view(pa.string())) == ["2024-02-29T00:00:00", None, None, None]
    assert read(objects(["\ud800", "2024-02-29"])) == [None, "2024-02-29T00:00:00"]


@given(st.datetimes(), st.sampled_from(["T", " "]), st.sampled_from([None, 0, 345, -90, 1439]))
def test_what_python_writes_is_read(moment, between, minutes):
    zone = None if minutes is None else timezone(timedelta(minutes=minutes))
    expected = moment if zone is None else moment - timedelta(minutes=minutes)
    moment = moment.replace(tzinfo=zone)
    (text_seconds, own_seconds) = to_seconds(objects([moment.isoformat(between), moment]))
    assert text_seconds == own_seconds == (expected - datetime(1970, 1, 1)) // timedelta(seconds=1)


LETTERS = st.sampled_from("0123456789-:.+TZ t")
NEARLY = st.from_regex(naive.ISO_8601, fullmatch=True) | st.tuples(
    st.from_regex(naive.ISO_8601, fullmatch=True), st.integers(0, 30), st.text(LETTERS, max_size=2), st.integers(0, 2)
).map(lambda drawn: drawn[0][: drawn[1]] + drawn[2] + drawn[0][drawn[1] + drawn[3] :])


@given(st.lists(NEARLY))
def test_texts_that_are_dates_or_nearly_so_are_read_as_the_plain_rule_reads_them(texts):
    found = [None if seconds == NO_DATE else seconds for seconds in to_seconds(objects(texts)).tolist()]
    assert found == [naive.seconds_of_text(text) for text in texts]


def times_in_all_holders(values):
    """Columns of these points in time, by every library, with and without zones."""
    utc, zone = pd.Series(values).dt.tz_localize("UTC"), pa.timestamp("ns", "Asia/Kathmandu")
    return [
        values, values.astype(">M8[ns]"), np.repeat(values, 2)[::2], objects(list(values)),
        pd.Series(values), utc.dt.tz_convert("Asia/Kathmandu"), utc.dt.tz_convert(dateutil.tz.tzoffset("mine", 1234)),
        pd.Series(objects(utc.tolist()), dtype=object), pd.Series(values).astype("category"),
        pd.Series(pd.Series(values), dtype=pd.ArrowDtype(pa.timestamp("ns"))),
        pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values).cast(zone))),
        pl.Series(values), pl.Series(values).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Kathmandu"),
        pa.array(values), pa.array(values).cast(pa.timestamp("ns", "+05:45")), pa.array(values).dictionary_encode(),
        pa.array(np.concatenate([values[:1], values])).slice(1),
    ]  # fmt: skip


def test_points_in_time_are_those_of_utc_and_parts_of_a_second_are_dropped():
    for column in times_in_all_holders(NANOSECONDS):
        assert read(column) == FLOORED, name_of(column)


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "7Y", "25s", "7ns"])
def test_numpy_times_of_every_unit_are_read_and_clipped_to_the_years_1_to_9999(unit):
    values = np.array([-3, 0, 5, np.iinfo(np.int64).max, np.iinfo(np.int64).min + 1, np.iinfo(np.int64).min])
    found = read(values.view(f"M8[{unit}]"))
    is_short = unit.lstrip("0123456789") in ("ms", "us", "ns", "ps", "fs", "as")
    near = np.array([-1, 0, 0]).view("M8[s]") if is_short else values[:3].view(f"M8[{unit}]").astype("M8[s]")
    assert found[:3] == near.astype(str).tolist()
    assert found[4] < found[0] < found[1] <= found[2] < found[3]
    assert found[3][:4] <= "9999"
    assert found[5] is None


def test_days_and_the_least_numbers_of_arrow_are_read_and_clipped():
    days = pa.array([0, -1, 2**31 - 1, -(2**31), None], pa.date32())
    expected = ["1970-01-01T00:00:00", "1969-12-31T00:00:00", "9999-12-31T00:00:00", "0001-01-01T00:00:00", None]
    assert read(days) == read(pl.Series(days)) == expected
    assert read(pa.array([0, -DAY * 1000, None], pa.date64())) == [*expected[:2], None]
    assert read(pa.array([None, None], pa.timestamp("s", "UTC"))) == [None, None]
    for unit in ("s", "ms", "us", "ns"):  # the least number is a date, and not missing
        found = read(pa.array([-(2**63), None], pa.int64()).cast(pa.timestamp(unit)))
        assert found == ["1677-09-21T00:12:43" if unit == "ns" else "0001-01-01T00:00:00", None]


def test_values_without_a_type_are_read_one_by_one():
    values = {
        "date": (date(2024, 2, 29), "2024-02-29T00:00:00"),
        "time": (datetime(1969, 12, 31, 23, 59, 59, 5), "1969-12-31T23:59:59"),
        "zone": (datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Europe/Oslo")), "2024-07-01T10:00:00"),
        "odd zone": (datetime(2024, 7, 1, tzinfo=timezone(timedelta(microseconds=1))), "2024-06-30T23:59:59"),
        "first": (datetime.min.replace(tzinfo=UTC), "0001-01-01T00:00:00"),
        "pandas": (pd.Timestamp("2024-02-29T10:20:30.123456789", tz="Asia/Kathmandu"), "2024-02-29T04:35:30"),
        "numpy": (np.datetime64("2024"), "2024-01-01T00:00:00"),
        "text of numpy": (np.str_("2024-02-29"), "2024-02-29T00:00:00"),
    }
    missing = [None, pd.NaT, pd.NA, np.datetime64("NaT"), np.nan, 5, 19_000.5, True, b"2024-02-29", timedelta(1), [], "x"]
    column = objects([*(value for value, _ in values.values()), *missing])
    assert read(column) == [*(text for _, text in values.values()), *[None] * len(missing)]


class NoZone(timezone.__base__):
    def utcoffset(self, moment):
        raise ValueError("secret")


class Loud(datetime):
    """Its own code would be seen, if it were run."""

    def __getattribute__(self, name):
        raise ValueError("secret")


def test_a_value_whose_code_raises_is_missing_or_not_asked():
    column = objects([datetime(2024, 1, 1, tzinfo=NoZone()), Loud(2024, 1, 1), "2024-01-01"])
    assert read(column) == [None, "2024-01-01T00:00:00", "2024-01-01T00:00:00"]


@given(st.lists(st.datetimes(), min_size=1))
def test_weekday_month_and_hour_are_those_of_python(moments):
    schema = Schema({"f": Date("0001-01-01", "9999-12-31", time=True)}, Classes([0, 1]))
    seconds, weekdays, months, hours = derived_columns([objects(moments)], derived(schema))
    assert weekdays.tolist() == [moment.weekday() for moment in moments]
    assert months.tolist() == [moment.month for moment in moments]
    assert hours.tolist() == [moment.hour for moment in moments]
    assert seconds.tolist() == [(moment - datetime(1970, 1, 1)) // timedelta(seconds=1) for moment in moments]


def test_codes_of_a_date_are_those_of_its_features():
    schema = Schema({"x": Numeric(0, 1), "f": Date("2024-02-01", "2024-03-31")}, Classes([0, 1]))
    domain = Domain.of(schema, Grid())
    days = ["2024-02-01", "2024-02-03", "2024-03-31", "1800-01-01", "2200-06-01", None]
    codes = encode([np.zeros(6), objects(days)], domain)
    assert domain.names == ("x", "f", "f (weekday)", "f (month)")
    assert codes[1].tolist() == [0, 2, 59, 0, 59, 60]
    weekdays = ["Thursday", "Saturday", "Sunday", "Wednesday", "Sunday", None]
    assert [(*WEEKDAYS, "", None)[code] for code in codes[2]] == weekdays
    assert codes[3].tolist() == [1, 1, 2, 0, 5, 12]


def test_opened_rows_have_a_column_for_each_feature_of_a_date():
    schema = Schema({"f": Date("2024-02-01", "2024-03-31")}, Classes([0, 1]))
    rows = rows_of(Vault.seal(pd.DataFrame({"f": ["2024-02-03", "1800-01-01", "?"]}), [0, 1, 1], schema))
    assert [part.kind for part in rows.features] == ["date", "categorical", "numeric"]
    np.testing.assert_array_equal(rows.columns[0], [19756, 19754, np.nan])
    assert rows.columns[1].tolist() == [5, 2, 8]
    np.testing.assert_array_equal(rows.columns[2], [2, 1, np.nan])


NUMBERS = (np.array([1, 2]), pd.Series([1.5]), pl.Series([True]), pa.array([1], pa.decimal128(3)))
NO_TIMES = (np.array([b"2024-01-01"]), pa.array([1], pa.duration("s")), pa.array([1], pa.time32("s")))
DAYS = (np.array(["2024-01-01"], "M8[D]"), pd.Series(pd.to_datetime(["2024-01-01"])), pa.array([1], pa.date32()))
WRONG = {
    "numbers": (NUMBERS, Date(), r"'f' is declared date, but .* A number does not say what it counts.*unit='s'"),
    "bytes, durations and clock times": (NO_TIMES, Date(), "'f' is declared date, but"),
    "dates as numbers": (DAYS, Numeric(0, 1), r"'f' is declared numeric, but it was given as .*Declare it Date\(\)"),
    "dates as categories": (DAYS, Categorical(["a"]), r"'f' is declared categorical, but .*Declare it Date\(\)"),
}


@pytest.mark.parametrize(("columns", "part", "words"), WRONG.values(), ids=WRONG)
def test_columns_that_are_declared_otherwise_are_refused_by_their_type(columns, part, words):
    for values in columns:
        with pytest.raises(TableError, match=words):
            column_of(values, part)


def test_a_date_read_off_the_rows_has_their_ends_as_bounds():
    moments = pd.to_datetime(["2024-01-05", "2024-03-01", None])
    columns = {"day": moments, "time": moments + pd.Timedelta("1s"), "one": moments[[0, 0, 0]], "none": moments[[2, 2, 2]]}
    table = pd.DataFrame(columns | {"last": np.array(["9999-12-31"] * 3, "M8[s]")})
    table["objects"] = pd.Series([date(2024, 1, 5), None, date(2024, 1, 9)], dtype=object)
    _, schema = assume_public(table, [0, 1, 0], classes=True)
    assert dict(schema.features) == {
        "day": Date("2024-01-05", "2024-03-01"),
        "time": Date("2024-01-05T00:00:01", "2024-03-01T00:00:01", time=True),
        "one": Date("2024-01-05", "2024-01-06"),
        "none": Date(),
        "last": Date("9999-12-30", "9999-12-31"),
        "objects": Date("2024-01-05", "2024-01-09"),
    }
