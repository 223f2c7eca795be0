"""The text of a cell that has a value of its own, in workbooks, JSON lines and value labels. Sees rows.

One public rule: text is itself, a whole number its digits (17 and 17.0 are "17"), another number its shortest digits with
the decimal mark of the format, truth values "true" and "false", dates as ISO 8601 writes them. Nothing and NaN are
missing. Whatever else, such as a list, has no text: it counts as "other" among categories, as missing among numbers.
"""

import math
from collections.abc import Iterable
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa

# Bytes that are no text in UTF-8, as a damaged cell of a CSV file has them.
NO_TEXT = b"\xff"
MOST_DIGITS = 1e18  # whole floats from here on are written with an exponent


def text_column(values: Iterable[Any], decimal: str) -> pa.Array:
    """A column of the texts of cells, null where one is missing or empty; what is no text stays so."""
    cells = pa.array([cell_text(value, decimal) or None for value in values], pa.binary())
    return cells.view(pa.string())  # not checked, as cells of a CSV file are not


def cell_text(value: Any, decimal: str = ".") -> bytes | None:
    """The text of a cell in UTF-8, None if it is missing."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int | float):
        return _digits(value, decimal)
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    return value.isoformat().encode() if isinstance(value, date | time) else NO_TEXT


def _digits(number: float, decimal: str) -> bytes | None:
    if isinstance(number, float):
        if math.isnan(number):
            return None
        if not (number.is_integer() and abs(number) < MOST_DIGITS):
            return repr(number).replace(".", decimal).encode()
    return str(int(number)).encode()
