"""Dates in a database, as expressions over its columns. Sees names and types of columns only.

Every value is that of ``records.dates``. Points in time with a zone become such without one, in UTC, before anything else is
asked of them, so the time zone of a session does not matter.
"""

from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np

from dpforest.errors import TableError
from dpforest.records.sql import expressions
from dpforest.records.sql.numbers import real
from dpforest.schema import SECONDS_OF_DAY, Date, Schema
from dpforest.schema.calendar import FIRST_SECOND, LAST_SECOND

# The engines whose dates are known to be read to the last second.
ENGINES = {"duckdb": "DuckDB", "postgres": "PostgreSQL"}
# Points in time of DuckDB to the second or millisecond may lie beyond those to the microsecond, and fail to become such.
COARSE = (0, 3)
# DuckDB has points in time to the nanosecond, from 1677 to 2262, and rounds them where it asks for anything but that.
NANOSECONDS, FIRST_OF_THESE, LAST_OF_THESE = 9, -9_223_372_036, 9_223_372_036


# Functions of the engines. DuckDB: units since 1970 in UTC, and the point in time so many microseconds after it.
@ibis.udf.scalar.builtin
def epoch_ns(value) -> int: ...  # type: ignore[empty-body, no-untyped-def]


@ibis.udf.scalar.builtin
def epoch_us(value) -> int: ...  # type: ignore[empty-body, no-untyped-def]


@ibis.udf.scalar.builtin
def make_timestamp(microseconds) -> dt.Timestamp(): ...  # type: ignore[no-untyped-def, valid-type]


# PostgreSQL: what a clock of some zone shows at a point in time.
@ibis.udf.scalar.builtin
def timezone(zone, value) -> dt.Timestamp(): ...  # type: ignore[no-untyped-def, valid-type]


# Both: the point in time with a zone that is so many seconds after 1970 began in UTC.
@ibis.udf.scalar.builtin
def to_timestamp(seconds) -> dt.Timestamp("UTC"): ...  # type: ignore[no-untyped-def, valid-type]


def check_dates(engine: str, table: Any, schema: Schema) -> None:
    """Raise ``TableError`` unless columns that are declared dates have a type for them, in an engine that is known."""
    for name in (name for name, part in schema.features.items() if isinstance(part, Date)):
        dtype = table.schema()[name]
        if not (dtype.is_date() or dtype.is_timestamp()):
            raise TableError(
                f"Column {name!r} is declared date, but it has the type {type(dtype).__name__} in the database. Convert it "
                "to a date or timestamp there, for example in a view."
            )
        if engine not in ENGINES:
            raise TableError(
                f"Column {name!r} is declared date, and dates are read in {' and '.join(ENGINES.values())} only, not in "
                f"{engine!r}. Leave the column out, or fit a Parquet file of the table."
            )


def in_utc(column: Any) -> Any:
    """An expression for dates, or for points in time without a zone, that lie in the years 1 .. 9999; null where missing."""
    # Engines have endless dates, of which they know neither month nor seconds.
    dtype, (first, last) = column.type(), (literal(end, column.type()) for end in ends(column.type()))
    if dtype.is_timestamp() and dtype.scale in COARSE:
        first, last = first.cast(dtype), last.cast(dtype)
    clipped = ibis.cases((column < first, first), (column > last, last), else_=column)
    if dtype.is_date() or (dtype.timezone is None and dtype.scale != NANOSECONDS):
        return clipped
    if dtype.timezone is None:
        return make_timestamp(_seconds(epoch_ns(clipped)) * 10**6)
    return timezone("UTC", clipped) if column.get_backend().name == "postgres" else make_timestamp(epoch_us(clipped))


def ends(dtype: Any) -> tuple[int, int]:
    """The first and the last second that dates of a type are told apart by."""
    if dtype.is_date():
        return FIRST_SECOND, LAST_SECOND // SECONDS_OF_DAY * SECONDS_OF_DAY
    return (
        (FIRST_OF_THESE, LAST_OF_THESE)
        if dtype.timezone is None and dtype.scale == NANOSECONDS
        else (FIRST_SECOND, LAST_SECOND)
    )


def _seconds(nanoseconds: Any) -> Any:
    """The floor of nanoseconds as seconds. The remainder of a negative number is negative."""
    rest = nanoseconds % 10**9
    whole = ((nanoseconds - rest).cast("float64") / real(10**9)).round().cast("int64")
    return whole - (rest < 0).ifelse(1, 0)


def literal(seconds: int, dtype: Any) -> Any:
    """The first date or point in time of a type that is not before so many seconds after 1970 began in UTC."""
    if dtype.is_date():
        return ibis.date(np.datetime64(-(-seconds // SECONDS_OF_DAY), "D").item())
    return ibis.timestamp(np.datetime64(seconds, "s").item()) if dtype.timezone is None else to_timestamp(real(seconds))


def _written(seconds: int, dtype: Any) -> str:
    """What ``literal`` gives, as text."""
    if dtype.is_date():
        return f"CAST('{np.datetime64(-(-seconds // SECONDS_OF_DAY), 'D')}' AS DATE)"
    if dtype.timezone is None:
        scale = f"({dtype.scale})" if dtype.scale in COARSE else ""
        return f"CAST('{str(np.datetime64(seconds, 's')).replace('T', ' ')}' AS TIMESTAMP{scale})"
    return f"TO_TIMESTAMP({expressions.real(seconds)})"


def bin_starts(dtype: Any, part: Date, cuts: np.ndarray) -> tuple[int, list[str]]:
    """How many cuts no date of a type is below, and for each of the others that it can pass the first date that does."""
    unit = 1 if part.time else SECONDS_OF_DAY
    first, last = ends(dtype)
    lower, upper = (int(end) * unit for end in part.range)
    seconds = [int(np.ceil(cut)) * unit for cut in cuts]
    n_passed = sum(cut <= max(lower, first) for cut in seconds)
    return n_passed, [_written(cut, dtype) for cut in seconds[n_passed:] if cut <= min(upper, last)]


def part_of_date(value: Any, of: str) -> Any:
    """An expression for the weekday (0 for Monday), month or hour of what ``in_utc`` gives."""
    if of == "weekday":
        return value.day_of_week.index()
    return value.month() if of == "month" else value.cast("timestamp").hour()
