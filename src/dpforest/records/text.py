"""Cells of text, read as the schema and the format of the file declare; for drafts, what kind they seem to be. Sees rows.

A text file has no types: these come from the schema, never from values, so a stray value cannot turn a file into an error.
A table that has types is refused instead if it has text where numbers are declared.
"""

from collections.abc import Sequence

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpforest.records.dates import NO_DATE, to_seconds
from dpforest.schema import (
    ALWAYS_MISSING,
    SECONDS_OF_DAY,
    Bounded,
    Categorical,
    Classes,
    Date,
    Feature,
    Format,
    Numeric,
    Schema,
    Target,
)
from dpforest.schema.format import THOUSANDS

PLAIN = Format()
# What databases take for true and false in text, in lower case, beside 1 and 0.
TRUE, FALSE = ("true", "t", "yes", "y"), ("false", "f", "no", "n")
# A column is one of numbers, or of dates, if at least this share of its values is.
MOSTLY = 0.9
TRUTHS = pa.array(["true", "false"])
# Types, beside nested ones, that no column of a schema can have.
UNREADABLE = (
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_time, pa.types.is_duration,
)  # fmt: skip


def read_cells(table: pa.Table, schema: Schema, format: Format) -> pa.Table:
    """The table of text, with columns of numbers where the schema has numbers; null where a text is missing or no number.

    What the schema lists as a category or a label is no word for missing in its own column.
    """
    for index, name in enumerate(table.column_names):
        part = schema.target if name == schema.target.name else schema.features.get(name)
        words = _missing_words(part, (*ALWAYS_MISSING, *format.missing, *format.missing_in.get(name, ())))
        column = table.column(index)
        if isinstance(part, Date):
            column = read_dates(without_words(column, words), format)
        elif part is None or not is_number(part):
            column = without_words(column, words)
        else:
            column = (read_truths if _is_truth(part) else read_numbers)(column, format, words)
            if numbers := _numbers_of(words):
                column = pc.if_else(pc.is_in(column, pa.array(numbers, pa.float64())), None, column)
        table = table.set_column(index, name, column)
    return table


def _missing_words(part: Feature | Target | None, words: Sequence[str]) -> list[str]:
    listed = set(() if part is None else _listed(part)) - {None}
    return [word for word in words if word not in listed and _number(word.encode()) not in listed]


def without_words(column: pa.ChunkedArray, words: Sequence[str]) -> pa.ChunkedArray:
    """A column of text with null in the place of some words."""
    found = pc.is_in(column, pa.array(words, pa.string()))
    return pc.if_else(found, None, column) if pc.any(found).as_py() else column


def _listed(part: Feature | Target) -> Sequence[object]:
    if isinstance(part, Categorical):
        return () if part.by_text else part.categories
    return part.labels if isinstance(part, Classes) else ()


def _numbers_of(words: Sequence[str]) -> list[float]:
    """Words for missing that are numbers, and so match however they are written: 999 and 999.0."""
    return [number for word in words if (number := _number(word.encode())) is not None and number == number]


def count_missing(column: pa.ChunkedArray, name: str, part: Feature, format: Format) -> int:
    """The number of missing cells in a column as it is written: null, or a number declared missing."""
    own = _missing_words(part, (*format.missing, *format.missing_in.get(name, ())))
    if not is_number(part) or not (numbers := _numbers_of(own)):
        return column.null_count
    found = pc.is_in(read_numbers(column, format), pa.array(numbers, pa.float64()))
    return column.null_count + (pc.sum(found).as_py() or 0)


def is_number(part: Feature | Target) -> bool:
    """Whether a column holds numbers: a numeric feature, a bounded target, or categories that are numbers."""
    if isinstance(part, Date):
        return False  # text is read as dates wherever it comes from
    if isinstance(part, Numeric | Bounded):
        return True
    listed = _listed(part)
    return bool(listed) and all(isinstance(value, int | float) for value in listed)


def _is_truth(part: Feature | Target) -> bool:
    listed = _listed(part)
    return bool(listed) and all(isinstance(value, bool) for value in listed)


def read_truths(column: pa.ChunkedArray, format: Format, words: Sequence[str] = ()) -> pa.ChunkedArray:
    """The numbers that texts stand for, 1 for ``TRUE`` and 0 for ``FALSE`` in any case; null where a text is neither."""
    lower = pc.ascii_lower(pc.ascii_trim_whitespace(without_words(column, words)))
    known = (pc.is_in(lower, pa.array(texts)) for texts in (TRUE, FALSE))
    numbers = pc.case_when(pc.make_struct(*known), "1", "0", lower)
    return read_numbers(numbers, format)


def read_dates(column: pa.ChunkedArray, format: Format) -> pa.ChunkedArray:
    """The dates of texts in ISO 8601; a text that is no date of the format stays as it is."""
    if format.dates == PLAIN.dates:
        return column
    encoded = column.combine_chunks().dictionary_encode()
    # What is not UTF-8 is no date before and after.
    texts = [cell.decode("utf-8", "replace") for cell in encoded.dictionary.cast(pa.binary()).to_pylist()]
    return pa.chunked_array([pa.array([format.iso_date(text) for text in texts], pa.string()).take(encoded.indices)])


def read_numbers(column: pa.ChunkedArray, format: Format, words: Sequence[str] = ()) -> pa.ChunkedArray:
    """The numbers that texts stand for, as Python's ``float`` reads them; null where a text is no number, or not UTF-8.

    Marks of thousands are left out wherever they stand, and the decimal mark of the format is the only one. Some ``words``
    stand for missing; most columns have none of them, and are read without a look for them.
    """
    if (format.decimal, format.thousands) == (PLAIN.decimal, PLAIN.thousands):
        try:
            return _to_floats(column)
        except pa.ArrowInvalid:
            pass
    column = without_words(column, words)
    for mark in THOUSANDS[format.thousands]:
        column = pc.replace_substring(column, mark, "")
    if format.decimal != PLAIN.decimal:
        column = pc.if_else(pc.match_substring(column, PLAIN.decimal), None, column)
        column = pc.replace_substring(column, format.decimal, PLAIN.decimal)
    try:
        return _to_floats(column)
    except pa.ArrowInvalid:
        return pa.chunked_array([pa.array([_number(cell) for cell in column.cast(pa.binary()).to_pylist()], pa.float64())])


def _to_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(pc.ascii_trim_whitespace(column), pa.float64())


def _number(cell: bytes | None) -> float | None:
    try:
        return None if cell is None else float(cell.decode())
    except ValueError:  # no number, or no UTF-8
        return None


def kind_of_type(type_: pa.DataType) -> str:
    """The kind of a column that has a type."""
    if pa.types.is_integer(type_):
        return "whole"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "date" if pa.types.is_date(type_) else "time"
    if pa.types.is_boolean(type_):
        return "truth"
    if pa.types.is_nested(type_) or any(is_so(type_) for is_so in UNREADABLE):
        return "other"
    return "number" if pa.types.is_floating(type_) or pa.types.is_decimal(type_) else "text"


def kind_of_texts(column: pa.ChunkedArray, name: str, format: Format) -> str:
    """The kind of a column of text: "number", "truth", "date", "time" or "text"."""
    known = without_words(column, [*ALWAYS_MISSING, *format.missing, *format.missing_in.get(name, ())]).drop_null()
    if len(known) and pc.sum(pc.is_in(pc.ascii_lower(known), TRUTHS)).as_py() >= MOSTLY * len(known):
        return "truth"
    # Before numbers: with points between thousands 31.12.2024 would be one.
    dates = known_seconds(known, format)
    if len(known) and len(dates) >= MOSTLY * len(known):
        return "time" if (dates % SECONDS_OF_DAY).any() else "date"
    if len(known) and read_numbers(known, format).null_count <= (1 - MOSTLY) * len(known):
        is_code = pc.sum(pc.match_substring_regex(known, "^0[0-9]")).as_py() > (1 - MOSTLY) * len(known)
        return "text" if is_code else "number"  # nobody writes a number as 01
    return "text"


def known_seconds(column: pa.ChunkedArray, format: Format) -> np.ndarray:
    """The seconds since 1970 of the texts that are dates by the format."""
    seconds = to_seconds(nw.from_native(read_dates(column, format), series_only=True))
    return seconds[seconds != NO_DATE]
