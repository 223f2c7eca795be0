"""Dates of columns as seconds since the start of 1970, and what follows from them. Sees rows.

One rule for all: a point in time without a zone is one of UTC, others are converted; parts of a second are dropped, so that
the second is the one that has begun. What is no date is missing. Years are 1 .. 9999; dates beyond count as the first or the
last second of these. How a record is read does not depend on others.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from narwhals.dependencies import get_pandas

from dpforest.records.columns import asking, column_kind, distinct, read_values
from dpforest.schema import SECONDS_OF_DAY, Date
from dpforest.schema.domain import WEEKDAYS, Derived
from dpforest.schema.grid import FIRST_SECOND, LAST_SECOND

NO_DATE = np.iinfo(np.int64).min  # stands for a date that is missing
# Text is a date if it is written as in ISO 8601, with this much of it: a day, and perhaps a time, and perhaps its zone.
ISO_8601 = (
    r"^(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01])"
    r"(?:[T ](?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.\d+)?)?"
    r"(?:Z|(?P<sign>[+-])(?P<ahead_hour>[01]\d|2[0-3]):(?P<ahead_minute>[0-5]\d))?)?$"
)
# How many of the units of numpy that are shorter than a second are in one.
PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}
FIRST_WEEKDAY = 3  # 1970-01-01 was a Thursday
EPOCH, SECOND, NOTHING = datetime(1970, 1, 1), timedelta(seconds=1), timedelta(0)


def derived_columns(columns: Sequence[Any], features: Sequence[Derived]) -> list[Any]:
    """The values of each derived feature: the column itself or, of a date, what follows from it.

    Numbers are floats, NaN where the date is missing. Weekdays are indices among ``WEEKDAYS``; the next index would stand
    for "other", the one after it is for missing. Dates are read once, however many features follow from them.
    """
    dates = {each.column: to_seconds(columns[each.column]) for each in features if isinstance(each.part, Date)}
    return [_derive(dates[each.column], each) if each.column in dates else columns[each.column] for each in features]


def _derive(seconds: np.ndarray, feature: Derived) -> np.ndarray:
    missing = seconds == NO_DATE
    seconds = np.where(missing, 0, seconds)
    days = seconds // SECONDS_OF_DAY
    if feature.of == "weekday":
        return np.where(missing, len(WEEKDAYS) + 1, (days + FIRST_WEEKDAY) % len(WEEKDAYS))
    if feature.of == "month":
        numbers = days.view("M8[D]").astype("M8[M]").view(np.int64) % 12 + 1
    elif feature.of == "hour":
        numbers = seconds % SECONDS_OF_DAY // 3600
    else:
        numbers = seconds if isinstance(feature.part, Date) and feature.part.time else days
    return np.where(missing, np.nan, numbers)


def to_seconds(column: Any) -> np.ndarray:
    """The seconds since 1970 of a column of dates or text, ``(n_records,)``; ``NO_DATE`` where a value is no date."""
    seconds = _read(column)
    return np.where(seconds == NO_DATE, seconds, np.clip(seconds, FIRST_SECOND, LAST_SECOND))


def _read(column: Any) -> np.ndarray:
    kind, _ = column_kind(column)
    if kind == "category":
        values, inverse = distinct(column)
        return _of_values(values)[inverse] if len(values) else np.empty(0, dtype=np.int64)
    if kind == "date":
        return _of_array(column) if isinstance(column, np.ndarray) else _of_series(column)
    if kind == "text" and not isinstance(column, np.ndarray):
        try:
            return _of_text(column.to_arrow())
        except Exception:  # Arrow does not have such a text; Python does, so it must not become an error
            return _of_values(read_values(column))
    return _of_values(read_values(column))


def _of_array(column: np.ndarray) -> np.ndarray:
    """The seconds of an array of numpy's points in time, of any unit."""
    unit, count = np.datetime_data(column.dtype)
    whole = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("=")).view(np.int64)
    missing = whole == NO_DATE
    units: Any = np.where(missing, 0, whole)
    if count > 1:
        units = units.astype(object) * count  # numbers of Python, which do not overflow
    if unit in PER_SECOND:
        seconds = units // PER_SECOND[unit]
    elif unit == "generic":  # a column without any value
        seconds = units
    else:
        first, last = (
            int(np.datetime64(end, "s").astype(f"M8[{unit}]").astype(np.int64)) for end in (FIRST_SECOND, LAST_SECOND)
        )
        seconds = np.clip(units, first, last).astype(np.int64).view(f"M8[{unit}]").astype("M8[s]").view(np.int64)
    return np.where(missing, NO_DATE, np.clip(seconds, FIRST_SECOND, LAST_SECOND)).astype(np.int64)


def _of_series(column: Any) -> np.ndarray:
    """The seconds of a column of a table library that has a type for dates or points in time."""
    native = column.to_native()
    if column.implementation.is_pandas() and not hasattr(native.dtype, "pyarrow_dtype"):
        # Arrow does not know every zone that pandas has.
        return _of_array((native if native.dt.tz is None else native.dt.tz_convert(None)).to_numpy())
    array = column.to_arrow()
    unit = "D" if pa.types.is_date32(array.type) else "ms" if pa.types.is_date64(array.type) else array.type.unit
    whole = array.cast(pa.int32() if unit == "D" else pa.int64())
    numbers = pc.fill_null(whole, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    seconds = _of_array(np.where(numbers == NO_DATE, NO_DATE + 1, numbers).view(f"M8[{unit}]"))
    return np.where(array.is_null().to_numpy(zero_copy_only=False), NO_DATE, seconds)


def _of_text(texts: Any) -> np.ndarray:
    """The seconds of texts of Arrow, in UTF-8 or not; ``NO_DATE`` where a text names no day."""
    texts = texts.cast(pa.large_string()) if pa.types.is_string_view(texts.type) else texts
    found = pc.extract_regex(texts.cast(pa.large_binary()), ISO_8601)

    def number(name: str) -> np.ndarray:
        digits = pc.ascii_lpad(pc.struct_field(found, name).cast(pa.large_string()), 1, "0")
        return pc.fill_null(digits.cast(pa.int64()), 0).to_numpy()

    year, day = number("year"), number("day")
    month = ((year - 1970) * 12 + number("month") - 1).view("M8[M]")
    first, end = (each.astype("M8[D]").view(np.int64) for each in (month, month + 1))
    ahead = number("ahead_hour") * 3600 + number("ahead_minute") * 60
    ahead = np.where(pc.fill_null(pc.equal(pc.struct_field(found, "sign"), b"-"), False), -ahead, ahead)
    seconds = number("hour") * 3600 + number("minute") * 60 + number("second") - ahead
    is_date = (year > 0) & (day >= 1) & (day <= end - first)
    return np.where(is_date, (first + day - 1) * SECONDS_OF_DAY + seconds, NO_DATE)


def _of_values(values: Sequence[Any]) -> np.ndarray:
    """The seconds of values without a common type: text, and dates of Python, numpy and pandas."""
    read = asking(_of_value, NO_DATE)
    is_text = np.array([issubclass(type(value), str) for value in values], dtype=bool)
    texts = [str.encode(value, "utf-8", "surrogatepass") for value in values if issubclass(type(value), str)]
    seconds = np.array([NO_DATE if text else read(value) for value, text in zip(values, is_text, strict=True)], np.int64)
    seconds[is_text] = _of_text(pa.array(texts, pa.large_binary()))
    return seconds


def _of_value(value: Any) -> int:
    """The seconds of a date or point in time; ``NO_DATE`` of anything else, whose own code is not asked."""
    kind, pandas = type(value), get_pandas()
    if pandas is not None and kind in (pandas.Timestamp, type(pandas.NaT)):
        # It may lie beyond the years that Python has.
        value, kind = value.to_datetime64(), np.datetime64
    if issubclass(kind, np.datetime64):
        return int(_of_array(np.array([value]))[0])
    if issubclass(kind, datetime):
        moment = datetime.combine(datetime.date(value), datetime.time(value))
        return (moment - EPOCH - (datetime.utcoffset(value) or NOTHING)) // SECOND
    return (date.toordinal(value) - EPOCH.toordinal()) * SECONDS_OF_DAY if issubclass(kind, date) else NO_DATE
