"""SQL expressions for values, cast by the column's type alone into types that every driver carries. Sees no rows.

Drivers are not trusted with values: one that lies beyond what they know could raise, wrap, or change the type of a column.
"""

import re
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dpforest.schema import Categorical, Classes, Feature, Target
from dpforest.schema.grid import FIRST_SECOND, LAST_SECOND

# Decimals beyond the first round to infinity as floats, those below the second to 0; PostgreSQL would raise for both.
LARGEST, SMALLEST = "1.7976931348623157e308", "2.4703282292062328e-324"
# DuckDB has points in time to the nanosecond between these seconds.
FIRST_NANO, LAST_NANO = -9_223_372_036, 9_223_372_036
# Whole numbers below it are floats, too.
EXACT = 1 << 53
# The digits of decimals that are whole, and a number without a text for all others.
WHOLE, NO_WHOLE, BY_TEXT = "^-?[0-9]{1,20}([.]0*)?$", "0.5", pa.decimal128(21, 1)
# Types that every database of an engine has and whose values their texts give back, as the engine names them.
KEPT = re.compile(
    r"(?:uuid|date(?:time)?|time(?:stamp)?(?:_s|_ms|_ns|tz)?|interval|decimal|numeric|u?hugeint|inet|cidr|macaddr8?)"
    r"(?:\(\d+(?:, ?\d+)?\))?(?: with(?:out)? time zone)?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True)
class Column:
    """A column of a table in a database."""

    name: str
    kind: str  # "whole", "real", "decimal", "truth", "text", "date", "time", "zoned", or "" for what cannot be read
    native: str  # the type as the engine names it
    arrow: pa.DataType | None = None  # of what the driver carries as it is: numbers and truth values

    @property
    def empty(self) -> pa.Array:
        """An array without values whose type says what the column can hold."""
        types = {"decimal": pa.decimal128(1), "text": pa.string(), "date": pa.date32()}
        return pa.array([], self.arrow or types.get(self.kind, pa.timestamp("us")))


@dataclass(frozen=True)
class Item:
    """An expression of a query, its type from the driver, the ``final`` type for reading, and what is noted about it."""

    text: str
    arrow: pa.DataType
    final: pa.DataType | None = None
    note: str = ""


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quoted(text: str, engine: str) -> str:
    """A literal text. In a text with a backslash DuckDB and PostgreSQL are told that a second one stands for it."""
    doubled = text.replace("'", "''")
    if "\\" in text and engine != "sqlite":  # PostgreSQL may be set to take it for special in all texts
        return "E'" + doubled.replace("\\", "\\\\") + "'"
    return f"'{doubled}'"


def is_kept(kind: str) -> bool:
    """Whether a text is the name of a type in which a column of texts may be written."""
    return KEPT.fullmatch(kind) is not None


def listed_in(part: Feature | Target) -> tuple[Hashable, ...]:
    """The values that a column is compared with."""
    if isinstance(part, Classes):
        return tuple(part.labels)
    return tuple(part.categories) if isinstance(part, Categorical) else ()


def as_read(column: Column, part: Feature | Target, engine: str, longest: int) -> Item:
    """The values of a column as the schema reads them, in DuckDB or PostgreSQL."""
    own = identifier(column.name)
    if column.kind == "text":
        return carried(own, engine, longest)
    if column.kind in ("date", "time", "zoned"):
        return Item(_in_utc(own, column, engine), pa.date32() if column.kind == "date" else _time_type(column))
    if column.kind != "decimal":
        assert column.arrow is not None
        return Item(own, column.arrow)
    if isinstance(part, Categorical) and part.by_text:
        text = f"CAST({own} AS TEXT)"
        matches = f"REGEXP_FULL_MATCH({text}, '{WHOLE}')" if engine == "duckdb" else f"{text} ~ '{WHOLE}'"
        whole = f"WHEN {matches} THEN SPLIT_PART({text}, '.', 1)"
        return Item(
            f"CASE WHEN {text} = 'NaN' THEN NULL {whole} WHEN {own} IS NOT NULL THEN '{NO_WHOLE}' END", pa.string(), BY_TEXT
        )
    return Item(f"CAST({own} AS DOUBLE)" if engine == "duckdb" else _real_of_numeric(own), pa.float64())


def beside(column: Column, engine: str, longest: int) -> Item:
    """The values of a column as they are, if they are numbers or truth values, else as the engine writes them."""
    own = identifier(column.name)
    if column.arrow is not None:
        return Item(own, column.arrow)
    if engine == "duckdb" and column.kind == "zoned":  # its text would follow the time zone of a session
        moment = f"CAST(MAKE_TIMESTAMP(EPOCH_US({own})) AS TEXT) || '+00'"
        return Item(f"CASE WHEN ISFINITE({own}) THEN {moment} ELSE CAST({own} AS TEXT) END", pa.string())
    return carried(own, engine, longest)


def carried(own: str, engine: str, longest: int) -> Item:
    """Texts of any type, such as an enumeration: of one with more than ``longest`` characters so many, and a digest."""
    text = f"CAST({own} AS TEXT)"
    # PostgreSQL may be set up without MD5, which one long text would then show.
    of_bytes = f"ENCODE(SHA256(CONVERT_TO({text}, CURRENT_SETTING('server_encoding'))), 'hex')"
    digest = of_bytes if engine == "postgres" else f"MD5({text})"
    short = f"CASE WHEN LENGTH({text}) <= {longest} THEN {text} ELSE LEFT({text}, {longest}) || {digest} END"
    return Item(short, pa.string())


def _real_of_numeric(own: str) -> str:
    """Decimals of PostgreSQL as floats. It takes NaN for larger than all numbers, but gives it no sign."""
    largest, smallest = (f"CAST('{size}' AS NUMERIC)" for size in (LARGEST, SMALLEST))
    infinite = [f"CAST('{sign}Infinity' AS DOUBLE PRECISION)" for sign in ("-", "")]
    return (
        f"CASE WHEN ABS({own}) < {smallest} THEN CAST('0' AS DOUBLE PRECISION) WHEN {own} < -{largest} THEN {infinite[0]} "
        f"WHEN {own} > {largest} AND SIGN({own}) = 1 THEN {infinite[1]} ELSE CAST({own} AS DOUBLE PRECISION) END"
    )


def _time_type(column: Column) -> pa.DataType:
    return pa.timestamp({"TIMESTAMP_S": "s", "TIMESTAMP_MS": "ms"}.get(column.native, "us"))


def _in_utc(own: str, column: Column, engine: str) -> str:
    """Dates, or points in time without a zone, within the years 1 .. 9999: engines have endless ones, and drivers wrap."""
    is_nano = column.native == "TIMESTAMP_NS"
    ends = (FIRST_NANO, LAST_NANO) if is_nano else (FIRST_SECOND, LAST_SECOND)
    first, last = (_moment(second, column) for second in ends)
    clipped = f"CASE WHEN {own} < {first} THEN {first} WHEN {own} > {last} THEN {last} ELSE {own} END"
    if is_nano:  # DuckDB would round them
        whole = f"EPOCH_NS({clipped})"
        rest = f"({whole} % 1000000000)"
        return f"MAKE_TIMESTAMP((({whole} - {rest}) // 1000000000 - CASE WHEN {rest} < 0 THEN 1 ELSE 0 END) * 1000000)"
    if column.kind != "zoned":
        return clipped
    return f"TIMEZONE('UTC', {clipped})" if engine == "postgres" else f"MAKE_TIMESTAMP(EPOCH_US({clipped}))"


def _moment(second: int, column: Column) -> str:
    if column.kind == "zoned":
        return f"TO_TIMESTAMP(CAST('{second}' AS DOUBLE PRECISION))"
    text = str(np.datetime64(second, "s")).replace("T", " ")
    return f"CAST('{text[:10]}' AS DATE)" if column.kind == "date" else f"CAST('{text}' AS {column.native})"


def as_read_in_sqlite(column: Column, part: Feature | Target, longest: int) -> Item:
    """The values of a column of SQLite as the schema reads them, where each value has a type of its own.

    What is no number among numbers is missing; what is no text among texts is "other", and no date.
    """
    own = identifier(column.name)
    if column.kind in ("text", "date", "time"):
        return carried_in_sqlite(own, longest)
    if isinstance(part, Categorical) and part.by_text:
        real = _whole_in_sqlite(own)
        return Item(
            f"CASE TYPEOF({own}) WHEN 'integer' THEN CAST({own} AS TEXT) WHEN 'real' THEN {real} END", pa.string(), BY_TEXT
        )
    listed = [value for value in listed_in(part) if isinstance(value, int | float)]
    if any(abs(value) >= EXACT for value in listed) and column.kind != "real":  # which holds floats alone
        none = next(number for number in range(len(listed) + 1) if number not in listed)  # a float there has a fraction
        return Item(f"CASE TYPEOF({own}) WHEN 'integer' THEN {own} WHEN 'real' THEN {none} END", pa.int64())
    return Item(f"CASE TYPEOF({own}) WHEN 'real' THEN {own} WHEN 'integer' THEN CAST({own} AS REAL) END", pa.float64())


def _whole_in_sqlite(own: str) -> str:
    """The digits of a float without a fraction, which SQLite itself would round to some 18 of them.

    A number beyond its whole numbers is twice one of them: all digits but the last are those of a fifth of that.
    """
    whole, half = f"CAST({own} AS INTEGER)", f"CAST({own} / 2 AS INTEGER)"
    return (
        f"CASE WHEN {own} >= -{1 << 63}.0 AND {own} < {1 << 63}.0 AND {own} = {whole} THEN CAST({whole} AS TEXT) "
        f"WHEN {own} >= {1 << 63}.0 AND {own} < {1 << 64}.0 THEN ({half} / 5) || ({half} % 5 * 2) ELSE '{NO_WHOLE}' END"
    )


def beside_in_sqlite(column: Column, longest: int) -> Item:
    """The values of a column of SQLite as they are, if it is declared to hold whole numbers or floats, else as text."""
    own, kept = identifier(column.name), {"whole": ("integer", pa.int64()), "real": ("real", pa.float64())}
    if column.kind not in kept:
        return carried_in_sqlite(own, longest, is_id=True)
    stored, arrow = kept[column.kind]
    return Item(f"CASE TYPEOF({own}) WHEN '{stored}' THEN {own} END", arrow)


def carried_in_sqlite(own: str, longest: int, is_id: bool = False) -> Item:
    """Texts of SQLite, bytes that are no text for whatever else is stored.

    Of a long one the beginning is given, and of a long id nothing: SQLite has no digest. Its LENGTH ends at character 0.
    """
    begin, most = f"SUBSTR({own}, 1, {longest})", 4 * longest  # a character has at most four bytes, of a text that is one
    short = f"WHEN LENGTH(CAST({begin} AS BLOB)) <= {most} THEN {begin} || '…' ELSE CAST(X'FF' AS TEXT)"
    text = f"CASE WHEN LENGTH(CAST({own} AS BLOB)) <= {most} THEN {own} {'' if is_id else short} END"
    return Item(
        f"CASE TYPEOF({own}) WHEN 'text' THEN {text} WHEN 'blob' THEN CAST(X'FF' AS TEXT) ELSE CAST({own} AS TEXT) END",
        pa.string(),
    )
