"""Numbers of any type as floats, as expressions over the columns of a table in a database. Sees names and types only."""

from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np

# Decimals of at most this many digits are within the range of floats of 64 bits. Those of PostgreSQL may have more digits.
SAFE_DIGITS = 300
# Decimals beyond the first round to infinity, those below the second to 0.
LARGEST, SMALLEST = "1.7976931348623157e308", "2.4703282292062328e-324"


def real(number: float) -> Any:
    """A literal float of 64 bits, which the engine reads from text, since it might round a decimal literal."""
    return ibis.literal(repr(float(number))).cast("float64")


def to_real(column: Any) -> Any:
    """A column as floats of 64 bits; infinite or 0 where they would leave that range, for which PostgreSQL would raise."""
    dtype = column.type()
    if dtype.is_boolean():
        column = column.cast("int32")
    cast = column.cast("float64")
    if not dtype.is_decimal() or (dtype.precision or np.inf) <= SAFE_DIGITS:
        return cast
    largest, smallest = (ibis.literal(size).cast(dt.Decimal()) for size in (LARGEST, SMALLEST))
    return ibis.cases(
        (column.abs() < smallest, real(0.0)),
        (column < -largest, real(-np.inf)),
        # PostgreSQL takes NaN for larger than all numbers, but gives it no sign.
        ((column > largest) & (column.sign() == 1), real(np.inf)),
        else_=cast,
    )


def is_missing(column: Any) -> Any:
    """Whether each value is missing, be it null or NaN."""
    return column.isnull() | column.isnan() if column.type().is_floating() else column.isnull()


def known(column: Any) -> Any:
    """A column with null for every value that is missing."""
    return ibis.cases((column.isnan(), ibis.null(column.type())), else_=column) if column.type().is_floating() else column
