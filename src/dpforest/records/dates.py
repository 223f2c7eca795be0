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
from dpforest.records.iso_text import NO_DATE, read_spans, read_texts
from dpforest.schema import SECONDS_OF_DAY, Date
from dpforest.schema.domain import WEEKDAYS, Derived
from dpforest.schema.grid import FIRST_SECOND, LAST_SECOND

# How many of the units of numpy that are shorter than a second are in one.
PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}
# 1970-01-01 was a Thursday.
FIRST_WEEKDAY = 3
EPOCH, SECOND, NOTHING = datetime(1970, 1, 1), timedelta(seconds=1), timedelta(0)


def derived_columns(columns: Sequence[Any], features: Sequence[Derived]) -> list[Any]:
    """For each derived feature its values: the column itself or, of a date, what follows from it.

    Numbers are floats, NaN where the date is missing. Weekdays are indices among ``WEEKDAYS``; the next index would stand
    for "other", the one after it is for missing. Dates are read once, however many features follow from them.
    """
    dates = {each.column: _Dates.of(columns[each.column]) for each in features if isinstance(each.part, Date)}
    return [dates[each.column].derive(each) if each.column in dates else columns[each.column] for each in features]


class _Dates:
    """The dates of a column, as seconds and as days."""

    def __init__(self, seconds: np.ndarray) -> None:
        self.missing = seconds == NO_DATE
        self.seconds = np.where(self.missing, 0, seconds)
        self.days = self.seconds // SECONDS_OF_DAY

    @classmethod
    def of(cls, column: Any) -> "_Dates":
        return cls(to_seconds(column))

    def derive(self, feature: Derived) -> np.ndarray:
        if feature.of == "weekday":
            return np.where(self.missing, len(WEEKDAYS) + 1, (self.days + FIRST_WEEKDAY) % len(WEEKDAYS))
        if feature.of == "month":
            numbers = self.days.view("M8[D]").astype("M8[M]").view(np.int64) % 12 + 1
        elif feature.of == "hour":
            numbers = self.seconds % SECONDS_OF_DAY // 3600
        else:
            assert isinstance(feature.part, Date)
            numbers = self.seconds if feature.part.time else self.days
        return np.where(self.missing, np.nan, numbers)


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
            array = column.to_arrow()
            parts = [_of_text(chunk) for chunk in (array.chunks if isinstance(array, pa.ChunkedArray) else [array])]
            return np.concatenate([np.empty(0, dtype=np.int64), *parts])
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


def _of_text(array: Any) -> np.ndarray:
    """The seconds of an array of Arrow that holds text, in UTF-8 or not."""
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    array = array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array
    _, ends, letters = array.buffers()
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    if len(array) == 0:
        return np.empty(0, dtype=np.int64)
    ends = np.frombuffer(ends, dtype=width)[array.offset : array.offset + len(array) + 1]
    seconds = read_spans(np.frombuffer(letters or b"", dtype=np.uint8), ends)
    return np.where(array.is_null().to_numpy(zero_copy_only=False), NO_DATE, seconds)


def _of_values(values: Sequence[Any]) -> np.ndarray:
    """The seconds of values without a common type: text, and dates of Python, numpy and pandas."""
    seconds = np.full(len(values), NO_DATE)
    places, texts = [], []
    read = asking(_of_value, NO_DATE)
    for place, value in enumerate(values):
        if issubclass(type(value), str):
            places.append(place)
            texts.append(str.encode(value, "utf-8", "surrogatepass"))
        else:
            seconds[place] = read(value)
    seconds[places] = read_texts(texts)
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
