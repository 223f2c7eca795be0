"""The kinds of columns for a draft: by their types, or of text by a guess from some rows. Sees rows."""

from collections.abc import Mapping

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpforest.records.dates import to_seconds
from dpforest.records.iso_text import NO_DATE
from dpforest.records.text import read_dates, read_numbers, without_words
from dpforest.schema import ALWAYS_MISSING, SECONDS_OF_DAY, Format

# A column is one of numbers, or of dates, if at least this share of its values is.
MOSTLY = 0.9
TRUTHS = pa.array(["true", "false"])
# Types, beside nested ones, that no column of a schema can have.
UNREADABLE = (
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_time, pa.types.is_duration,
)  # fmt: skip


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


def kinds_of_folders(texts: Mapping[str, pa.ChunkedArray]) -> dict[str, str]:
    """The kinds of columns that folders stand for, by the texts that these are named after."""
    return {name: kind_of_texts(column, name, Format()) for name, column in texts.items()}


def known_seconds(column: pa.ChunkedArray, format: Format) -> np.ndarray:
    """The seconds since 1970 of the texts that are dates by the format."""
    seconds = to_seconds(nw.from_native(read_dates(column, format), series_only=True))
    return seconds[seconds != NO_DATE]
