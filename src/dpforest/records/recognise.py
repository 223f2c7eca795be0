"""How a text file writes its cells, recognised from its first rows for a draft that a person checks. Sees rows.

What is recognised is one of a few public possibilities, and no value of the table. A fit recognises nothing: it reads by the
format that is declared, so that one record cannot change how others are read.
"""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpforest.records.doors import open_source
from dpforest.records.source import Source
from dpforest.records.sources.cells import TextTable
from dpforest.records.sources.text_files import SEPARATORS, Delimited, unpacked
from dpforest.records.text import MOSTLY, known_seconds, read_numbers, without_words
from dpforest.schema import ALWAYS_MISSING, Format
from dpforest.schema.words import is_id_name

# So many bytes show the encoding, and so many rows the separator.
SAMPLE_BYTES, SAMPLE_ROWS = 1 << 24, 200
# Words for missing beside those that are missing everywhere; the second ones also among words, unless a column has hardly
# any others, such as one of "+" and "-".
WORDS = ("na", "n.a.", "N.A.", "none", "NONE", "missing", "MISSING", "unknown", "(null)", "\\N", "k.A.", "#NULL!", "#DIV/0!",
         "#VALUE!", "#REF!")  # fmt: skip
SIGNS = ("-", "--", "---", "\u2013", "\u2014", "?", "??", ".", "..", "...", "\u2026", "*")
# Numbers that stand for missing, where they are frequent and stand apart from all others by more than these span.
CODES = ("-9", "-99", "-999", "-9999", "99", "999", "9999", "99999", "999999")
# From so many values on, a column of which none comes twice may be one that names or numbers rows.
LEAST_IDS = 50
LEAST_SHARE, LEAST_OFTEN, LEAST_OTHERS = 0.02, 5, 10
# Decimal mark and mark of thousands, the plainest first; where cells have semicolons between them, a comma alone is more
# often a decimal mark than one of thousands.
NOTATIONS = ((".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", " "), (".", "'"), (",", "'"))
WITH_SEMICOLONS = ((".", ""), (",", ""), *NOTATIONS[3:], (".", ","))

Settle = Callable[[Format], Format]


def recognise(address: str | Path, settle: Settle = lambda format: format) -> Format:
    """The format of a text file, as its first rows suggest it; the plain one for a file that has types.

    ``settle`` puts what is known in the place of what was recognised; it is asked after each step.
    """
    format = settle(Format())
    reader = open_source(address, format)
    if not isinstance(reader, TextTable):
        return format
    if isinstance(reader, Delimited):
        format = settle(replace(format, encoding=_encoding(reader.path)))
        format = settle(replace(format, separator=_separator(reader.path, format.encoding)))
    rows = open_source(address, format, names_lines=True)
    assert isinstance(rows, TextTable)
    first = rows.first_rows()
    columns = {name: without_words(first.column(name), ALWAYS_MISSING).drop_null() for name in first.column_names}
    readable = {name: column for name, column in columns.items() if _is_text(column)}
    format = settle(_with_notation(format, readable.values()))
    format = settle(replace(format, dates=_dates(readable.values(), format)))
    format = settle(replace(format, missing=_words(readable.values(), format)))
    return settle(replace(format, missing_in=_codes(readable, format)))


def like_ids(reader: Source, kinds: Mapping[str, str]) -> list[str]:
    """The columns that seem to be ids of rows or persons, by their names or, in a file of text, by values.

    These are texts of which none comes twice, or rising numbers. For whoever holds the table; a fit goes by names alone.
    """
    found = _ids_of_rows(reader, kinds) if isinstance(reader, TextTable) else []
    return [name for name in kinds if name in found or is_id_name(name)]


def _ids_of_rows(reader: TextTable, kinds: Mapping[str, str]) -> list[str]:
    rows, found = reader.first_rows(), []
    for name, kind in kinds.items():
        known = without_words(rows.column(name), ALWAYS_MISSING).drop_null()
        if len(known) >= LEAST_IDS and kind == "text" and len(known.unique()) == len(known):
            found.append(name)
        if len(known) >= LEAST_IDS and kind == "number" and (np.diff(read_numbers(known, reader.format)) > 0).all():
            found.append(name)
    return found


def _is_text(column: pa.ChunkedArray) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return len(column) > 0


def _encoding(path: Path) -> str:
    """UTF-16 by its byte order mark, else UTF-8 if the first block is valid, else the encoding of Windows."""
    if not path.is_file():
        return "utf-8"  # whoever opens it says that it is not there
    with unpacked(path) as (stream, _):
        block = stream.read(SAMPLE_BYTES)
    if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(block)  # the last character may be cut
    except UnicodeDecodeError:
        return "windows-1252"
    return "utf-8"


def _separator(path: Path, encoding: str) -> str:
    """The separator by which most rows have as many cells as the header; of several, the one with most cells."""
    if not path.is_file():
        return ","

    def score(separator: str) -> tuple[float, int]:
        with unpacked(path, encoding) as (stream, _):
            text = io.TextIOWrapper(stream, "latin-1", newline="")
            try:
                rows = [row for row in islice(csv.reader(text, delimiter=separator), SAMPLE_ROWS) if row]
            except csv.Error:
                return 0, 0
        n_names = len(rows[0]) if rows else 0
        if n_names < 2:
            return 0, 0
        return sum(len(row) == n_names for row in rows) / len(rows), n_names

    return max(SEPARATORS, key=score)


def _with_notation(format: Format, columns: Iterable[pa.ChunkedArray]) -> Format:
    """The format with the decimal and thousands marks by which most columns are numbers."""
    cells = [without_words(column, (*WORDS, *SIGNS)).drop_null().to_pylist() for column in columns]

    def n_read(marks: tuple[str, str]) -> int:
        written = _pattern(*marks)
        counts = [(sum(bool(written.fullmatch(cell.strip())) for cell in column), len(column)) for column in cells]
        return sum(n for n, n_all in counts if n >= MOSTLY * n_all)

    decimal, thousands = max(WITH_SEMICOLONS if format.separator == ";" else NOTATIONS, key=n_read)
    return replace(format, decimal=decimal, thousands=thousands)


def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    """Numbers as they are written with a decimal mark and a mark between groups of three digits."""
    blanks = "[ \u00a0\u202f\u2009]" if thousands == " " else "['\u2019]" if thousands == "'" else re.escape(thousands)
    grouped = rf"|\d{{1,3}}(?:{blanks}\d{{3}})+" if thousands else ""
    return re.compile(rf"[+-]?(?:\d+{grouped})?(?:{re.escape(decimal)}\d*)?(?:[eE][+-]?\d+)?")


def _dates(columns: Iterable[pa.ChunkedArray], format: Format) -> str:
    """The order of day, month and year by which most columns are dates."""
    cells = [without_words(column, (*WORDS, *SIGNS)).drop_null() for column in columns]
    # Where no day is above 12: with strokes the month is first more often, with points and hyphens the day.
    strokes = any("/" in column[0].as_py() for column in cells if len(column))

    def n_read(order: str) -> int:
        counts = [(len(known_seconds(column, replace(format, dates=order))), len(column)) for column in cells]
        return sum(n for n, n_all in counts if n >= MOSTLY * n_all)

    return max(("ymd", "mdy", "dmy") if strokes else ("ymd", "dmy", "mdy"), key=n_read)


def _words(columns: Iterable[pa.ChunkedArray], format: Format) -> tuple[str, ...]:
    """The words that stand for missing in some column: beside numbers, or signs beside words."""
    found: set[str] = set()
    for column in columns:
        cells = set(column.unique().to_pylist())
        words = [word for word in (*WORDS, *SIGNS) if word in cells]
        others = without_words(column, words).drop_null()
        if words and len(others):
            is_number = read_numbers(others, format).null_count <= (1 - MOSTLY) * len(others)
            are_words = sum(any(map(str.isalnum, cell)) for cell in others.to_pylist()) >= MOSTLY * len(others)
            found |= set(words) if is_number else set(words) & set(SIGNS) if are_words else set()
    return tuple(word for word in (*WORDS, *SIGNS) if word in found)


def _codes(columns: dict[str, pa.ChunkedArray], format: Format) -> dict[str, tuple[str, ...]]:
    """The numbers that seem to stand for missing, by the names of their columns."""
    found = {name: _codes_in(without_words(column, format.missing).drop_null(), format) for name, column in columns.items()}
    return {name: codes for name, codes in found.items() if codes}


def _codes_in(column: pa.ChunkedArray, format: Format) -> tuple[str, ...]:
    read = read_numbers(column, format)
    if not len(read) or read.null_count > (1 - MOSTLY) * len(read):
        return ()
    numbers = read.drop_null().to_numpy()
    others = numbers[~np.isin(numbers, np.array([float(code) for code in CODES]))]
    if len(np.unique(others)) < LEAST_OTHERS:
        return ()
    low, high = others.min(), others.max()
    is_apart = {code: max(float(code) - high, low - float(code)) > max(high - low, 1) for code in CODES}
    often = {code: np.count_nonzero(numbers == float(code)) for code in CODES}
    least = max(LEAST_OFTEN, LEAST_SHARE * len(numbers))
    return tuple(code for code in CODES if often[code] >= least and (is_apart[code] or (float(code) < 0 <= low)))
