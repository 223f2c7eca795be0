"""How a text file seems to be written, and which of its values a fit can use, for whoever holds the table. Sees rows.

What is recognised is one of a few public possibilities, and no value of the table; a person checks it. A fit recognises
nothing: it reads by the format that is declared, so that one record cannot change how others are read.

Privacy: none. Counts are exact, and near misses are values of the rows: only the table's holder may see them.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpforest.errors import TableError
from dpforest.records.categories import category_codes
from dpforest.records.columns import distinct, read_columns, to_numbers
from dpforest.records.dates import NO_DATE, to_seconds
from dpforest.records.doors import open_source
from dpforest.records.source import Chunk, Source
from dpforest.records.sources.cells import TextTable
from dpforest.records.sources.text_files import SEPARATORS, Delimited, unpacked
from dpforest.records.text import MOSTLY, PLAIN, count_missing, known_seconds, read_numbers, without_words
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
)
from dpforest.schema.format import THOUSANDS
from dpforest.schema.words import is_id_name

# The number of near misses of a column that are shown, the most frequent first.
MOST_NEAR = 5
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
    if isinstance(reader, Delimited) and reader.path.is_file():  # else whoever opens it says that it is not there
        format = settle(replace(format, encoding=_encoding(reader.path)))
        format = settle(replace(format, separator=_separator(reader.path, format.encoding)))
    rows = open_source(address, format, names_lines=True)
    assert isinstance(rows, TextTable)
    first = rows.first_rows()
    columns = {name: without_words(first.column(name), ALWAYS_MISSING).drop_null() for name in first.column_names}
    readable = {name: column for name, column in columns.items() if len(column) and _is_utf_8(column)}
    known = [without_words(column, (*WORDS, *SIGNS)).drop_null() for column in readable.values()]
    format = settle(_with_notation(format, known))
    format = settle(replace(format, dates=_dates(known, format)))
    format = settle(replace(format, missing=_words(readable.values(), format)))
    return settle(replace(format, missing_in=_codes(readable, format)))


def like_ids(reader: Source, kinds: Mapping[str, str]) -> list[str]:
    """The columns that seem to be ids of rows or persons, by their names or, in a file of text, by values.

    These are texts of which none comes twice, or rising numbers. For whoever holds the table; a fit goes by names alone.
    """
    rows, format = (reader.first_rows(), reader.format) if isinstance(reader, TextTable) else (None, PLAIN)
    return [
        name
        for name, kind in kinds.items()
        if is_id_name(name) or (rows is not None and _tell_apart(rows.column(name), kind, format))
    ]


def _tell_apart(column: pa.ChunkedArray, kind: str, format: Format) -> bool:
    """Whether texts or numbers are all different, as far as it can be seen in a few rows."""
    known = without_words(column, ALWAYS_MISSING).drop_null()
    if len(known) < LEAST_IDS:
        return False
    if kind == "number":
        return bool((np.diff(read_numbers(known, format)) > 0).all())
    return kind == "text" and len(known.unique()) == len(known)


def _is_utf_8(column: pa.ChunkedArray) -> bool:
    """Whether all texts are; the cells of a CSV file are not checked when they are read."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _encoding(path: Path) -> str:
    """UTF-16 by its byte order mark, else UTF-8 if the first block is valid, else the encoding of Windows."""
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


def _n_read(columns: Iterable[Any], n_read_of: Callable[[Any], int]) -> int:
    """The number of readable values, over columns whose values mostly are."""
    counts = [(n_read_of(column), len(column)) for column in columns]
    return sum(n for n, n_all in counts if n >= MOSTLY * n_all)


def _with_notation(format: Format, columns: list[pa.ChunkedArray]) -> Format:
    """The format with the decimal and thousands marks by which most columns are numbers."""
    cells = [column.to_pylist() for column in columns]

    def n_read(marks: tuple[str, str]) -> int:
        written = _pattern(*marks)
        return _n_read(cells, lambda column: sum(bool(written.fullmatch(cell.strip())) for cell in column))

    decimal, thousands = max(WITH_SEMICOLONS if format.separator == ";" else NOTATIONS, key=n_read)
    return replace(format, decimal=decimal, thousands=thousands)


def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    """Numbers as they are written with a decimal mark and a mark between groups of three digits."""
    grouped = rf"|\d{{1,3}}(?:[{re.escape(THOUSANDS[thousands])}]\d{{3}})+" if thousands else ""
    return re.compile(rf"[+-]?(?:\d+{grouped})?(?:{re.escape(decimal)}\d*)?(?:[eE][+-]?\d+)?")


def _dates(columns: list[pa.ChunkedArray], format: Format) -> str:
    """The order of day, month and year by which most columns are dates."""
    # Where no day is above 12: with strokes the month is first more often, with points and hyphens the day.
    strokes = any("/" in column[0].as_py() for column in columns if len(column))

    def n_read(order: str) -> int:
        return _n_read(columns, lambda column: len(known_seconds(column, replace(format, dates=order))))

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


@dataclass
class Reading:
    """How many values of a column a fit can use. ``problem`` says why it would refuse the column because of its type."""

    name: str
    feature: Feature
    # By "fits", "beyond", "missing" and "unreadable"; by "groups" those that fit or lie beyond, with odd marks of thousands.
    counts: Counter[str] = field(default_factory=Counter)
    near: Counter[tuple[str, str]] = field(default_factory=Counter)  # by value and the listed one that it nearly matches
    problem: str | None = None

    def add(self, column: Any, written: Any, format: Format) -> None:
        """Add the values of some more rows to the counts, given as they are read, and as they are written by a format."""
        try:
            alone = Schema({self.name: self.feature}, Bounded(0, 1, name=f"not {self.name}"))
            (values,) = read_columns(pa.table({self.name: column}), alone)
        except TableError as error:
            self.problem = str(error)
            return
        if isinstance(self.feature, Date):
            self._add_dates(to_seconds(values), self.feature, column.null_count)
            return
        # Text that is no number was read as missing, and text that is not UTF-8 as a value that is not listed.
        n_undecodable = _count_undecodable(column)
        n_missing = count_missing(written, self.name, self.feature, format)
        n_unreadable = max(column.null_count - n_missing, 0) + n_undecodable
        if not isinstance(self.feature, Categorical):
            numbers = to_numbers(values).astype(np.float64)
            lower, upper = self.feature.range
            n_known = np.count_nonzero(~np.isnan(numbers))
            n_fit = np.count_nonzero((numbers >= lower) & (numbers <= upper))
            self.counts["groups"] += _count_odd_groups(written, format)
        else:
            codes, n_values = category_codes(values, self.feature), self.feature.n_values
            n_known, n_fit = np.count_nonzero(codes <= n_values), np.count_nonzero(codes < n_values)
            self._find_near(values)
        self.counts["fits"] += int(n_fit)
        self.counts["beyond"] += int(n_known - n_fit) - n_undecodable
        self.counts["unreadable"] += n_unreadable
        self.counts["missing"] += max(len(column) - int(n_known) - (n_unreadable - n_undecodable), 0)

    def _add_dates(self, seconds: np.ndarray, feature: Date, n_missing: int) -> None:
        (lower, upper), unit = feature.range, 1 if feature.time else SECONDS_OF_DAY
        known = seconds[seconds != NO_DATE] // unit
        n_fit = int(np.count_nonzero((known >= lower) & (known <= upper)))
        n_unreadable = len(seconds) - len(known) - n_missing
        counts = {"fits": n_fit, "beyond": len(known) - n_fit, "missing": n_missing, "unreadable": n_unreadable}
        self.counts.update(counts)

    def _find_near(self, values: Any) -> None:
        """Add to the near misses: texts that match a listed one apart from blanks, case, or how a number is written."""
        assert isinstance(self.feature, Categorical)
        listed = {label for label in self.feature.categories if isinstance(label, str)}
        loosely = {_loosely(label): label for label in listed}
        found, inverse = distinct(values)
        for value, count in zip(found, np.bincount(inverse, minlength=len(found)).tolist(), strict=True):
            if count and isinstance(value, str) and value not in listed and _loosely(value) in loosely:
                self.near[value, loosely[_loosely(value)]] += count

    def to_dict(self) -> dict[str, Any]:
        """The counts and near misses of the column as plain values, ready for JSON."""
        fits, beyond = ("listed", "other") if isinstance(self.feature, Categorical) else ("within", "outside")
        names = {"fits": fits, "beyond": beyond, "missing": "missing", "unreadable": "unreadable"}
        counts = {shown: self.counts[name] for name, shown in names.items()}
        near = [
            {"value": value, "would_match": label, "values": count}
            for (value, label), count in self.near.most_common(MOST_NEAR)
        ]
        found = {"near": near, "odd_groups": self.counts["groups"], "problem": self.problem}
        return {"name": self.name, "kind": self.feature.kind, **counts, **found}


def count_readable(
    chunks: Iterable[tuple[Chunk, Chunk]], schema: Schema, format: Format = PLAIN
) -> tuple[int, list[Reading]]:
    """The number of rows, and a reading of each feature and the target.

    Each chunk comes twice: as the schema reads it, and as it is written; see ``as_written``. ``format`` is that of text.
    """
    target = schema.target
    as_feature = Categorical(target.labels) if isinstance(target, Classes) else Numeric(target.lower, target.upper)
    readings = [*(Reading(name, part) for name, part in schema.features.items()), Reading(target.name, as_feature)]
    n_rows = 0
    for (features, labels, _), (written, written_labels, _) in chunks:
        assert labels is not None
        assert written_labels is not None
        n_rows += len(labels)
        for reading in readings[:-1]:
            reading.add(features.column(reading.name), written.column(reading.name), format)
        readings[-1].add(labels, written_labels, format)
    return n_rows, readings


def as_written(schema: Schema) -> Schema:
    """A schema of the same columns for text and numbers alike, so that neither is converted."""
    either = ["\0", 0]
    return Schema(dict.fromkeys(schema.features, Categorical(either)), Classes(either, name=schema.target.name))


def _count_odd_groups(written: Any, format: Format) -> int:
    """The number of texts in which a mark of thousands is not followed by three digits: it may be the decimal mark."""
    if not format.thousands or not pa.types.is_string(written.type):
        return 0
    marks = f"[{re.escape(THOUSANDS[format.thousands])}]"
    odd = pc.match_substring_regex(written.cast(pa.binary()), rf"[0-9]{marks}(?:[0-9]{{0,2}}(?:[^0-9]|$)|[0-9]{{4}})")
    return pc.sum(odd).as_py() or 0


def _count_undecodable(column: pa.ChunkedArray) -> int:
    """The number of texts that are not in UTF-8."""
    if not pa.types.is_string(column.type) or _is_utf_8(column):
        return 0
    cells = column.cast(pa.binary()).drop_null().to_pylist()
    return sum(cell.decode(errors="ignore").encode() != cell for cell in cells)


def _loosely(text: str) -> str:
    """The text without blanks around it, in lower case, and a number in its usual form: equal for near misses."""
    plain = text.strip().casefold()
    try:
        return repr(float(plain))
    except ValueError:
        return plain
