"""Types of DuckDB, PostgreSQL and SQLite with their extreme values, and tables that hold these.

Every extreme value of a type is a column of its own, and the odd record holds all of them at once.
"""

import math
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pytest
from tests.conformance.postgres_server import DATABASE, READER, as_root
from tests.neighbours.one_record import ODD, ORDINARY

from dpforest import Bounded, Categorical, Classes, Date, Numeric, Schema
from dpforest.records.sources.casts import identifier

SECRET = "zebra-secret-value"


@dataclass(frozen=True)
class Kind:
    """A type of an engine: ordinary values, and extreme ones as the engine writes them and as Python holds them."""

    name: str
    extremes: dict[str, Any]
    usual: dict[str, Any] = field(default_factory=lambda: {"0": 0, "1": 1, "2": 2, "NULL": None})

    @property
    def is_text(self) -> bool:
        return any(isinstance(value, str) for value in self.usual.values())

    @property
    def is_dated(self) -> bool:
        return any(isinstance(value, np.datetime64) for value in self.usual.values())

    def __str__(self) -> str:
        return self.name


def whole(name, low, high):
    return Kind(name, {str(number): number for number in {low, low + 1, -1 if low < 0 else 3, high - 1, high}})


def floating(name, *sizes):
    written = {f"'{sign}{size}'": float(f"{sign}{size}") for size in (*sizes, "inf", "0.0") for sign in ("", "-")}
    return Kind(name, {"'NaN'": math.nan} | written)


def decimal(name, *sizes, unsigned=()):
    written = [*unsigned, *(f"{sign}{size}" for size in sizes for sign in ("", "-"))]
    return Kind(name, {f"'{number}'": Decimal(number) for number in written})


def text(name, extremes, usual=("a", "b", "c")):
    return Kind(name, extremes, {f"'{word}'": word for word in usual} | {"NULL": None})


def dates(name, usual, first, last):
    """A type of dates, with the first and the last that it holds; these count as the first and the last of our calendar."""
    ends = ("0001-01-01", "9999-12-31" if name.lower() == "date" else "9999-12-31T23:59:59")
    written = zip(("-infinity", "infinity", first, last), ends * 2, strict=True)
    held = {f"'{text}'": np.datetime64(text) for text in usual} | {"NULL": None}
    return Kind(name, {f"'{text}'": np.datetime64(end) for text, end in written}, held)


TRUTHS = Kind("boolean", {"true": True, "false": False}, {"true": True, "false": False, "NULL": None})
WORDS = {f"'{word}'": word for word in ("", " ", "a ", "NaN", "1e400", "\U0010ffff", "a\u0301\n\t\\")} | {
    "'it''s \"'": "it's \"",
    "repeat('a', 1000000)": "a" * 1_000_000,
}
DOUBLES = ("5e-324", "1e-310", "1e-20", "1e300", "1.7976931348623157e308")
SINGLES = (str(float(np.finfo(np.float32).smallest_subnormal)), str(float(np.finfo(np.float32).max)))
SIZES = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
DUCKDB = [
    *(whole(name, -(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in (SIZES | {"HUGEINT": 128}).items()),
    *(whole(f"U{name}", 0, (1 << bits) - 1) for name, bits in SIZES.items()),
    floating("DOUBLE", *DOUBLES),
    floating("FLOAT", *SINGLES),
    decimal("DECIMAL(38,0)", "9" * 38),
    decimal("DECIMAL(38,37)", "9." + "9" * 37, "1e-37"),
    decimal("DECIMAL(4,1)", "999.9", "0.1"),
    TRUTHS,
    text("VARCHAR", WORDS | {"'a' || chr(0)": "a\0"}),
    text("ENUM('a', 'b', 'c', 'odd')", {"'odd'": "odd"}),
]
POSTGRES = [
    *(whole(name.lower(), -(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in SIZES.items() if bits > 8),
    floating("double precision", *DOUBLES),
    floating("real", *SINGLES),
    decimal(
        "numeric", "Infinity", "1e400", "1e-400", "9e131071", "1e-16383", "1.8e308", "2e-324", "5e-324", unsigned=["NaN"]
    ),
    decimal("numeric(10,2)", "99999999.99", "0.01", unsigned=["NaN"]),
    decimal("numeric(1000,500)", "9e499", "1e-500", unsigned=["NaN"]),
    decimal("numeric(1000)", "1e999", unsigned=["NaN"]),
    TRUTHS,
    text("text", WORDS),
    text("varchar(20)", {written: word for written, word in WORDS.items() if len(word) <= 20}),
    text("char(5)", {"'odd'": "odd", "'NaN'": "NaN"}),
    text("name", {"'odd'": "odd"}),
]
# A column of SQLite holds values of any type: what is no number among numbers is missing, bytes among texts are no text.
ALIEN = {"'x'": None, "X'00FF'": None, "'nan'": None}
REALS = {number: float(number) for number in ("1e308", "-1e308", "5e-324", "0.1", "1e19", "-1e19", "1e30")}
SQLITE = [
    Kind(
        "INTEGER", {str(n): n for n in (-(1 << 63), (1 << 63) - 1, (1 << 53) + 1, -1)} | REALS | {"9e999": math.inf} | ALIEN
    ),
    Kind("REAL", REALS | {"9e999": math.inf, "-9e999": -math.inf} | ALIEN),
    Kind("DECIMAL(4,1)", {"'12.5'": 12.5, str((1 << 63) - 1): (1 << 63) - 1} | REALS | ALIEN),
    Kind("BOOLEAN", {"7": 7} | ALIEN),
    text(
        "TEXT",
        {w: v for w, v in WORDS.items() if "repeat" not in w} | {"'a' || char(0)": "a\0", "X'61'": b"a", "12.0": "12.0"},
    ),
    text("VARCHAR(3)", {"'odd one'": "odd one", "17": "17", "CAST(X'FF61' AS TEXT)": b"\xff"}),
]
KINDS = (("duckdb", DUCKDB), ("postgresql", POSTGRES), ("sqlite", SQLITE))
CASES = [(name, kind) for name, kinds in KINDS for kind in kinds]
DAYS, TIMES = ("2024-02-29", "1969-12-31", "2000-01-01"), ("2024-02-29T10:20:30.5", "1969-12-31T23:59:59.999999")
DATED = [
    ("duckdb", dates("DATE", DAYS, "5877642-06-25 (BC)", "5881580-07-10")),
    ("duckdb", dates("TIMESTAMP", TIMES, "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54")),
    ("duckdb", dates("TIMESTAMPTZ", TIMES, "290309-12-23 (BC) 00:00:00+00", "294247-01-09 00:00:00+00")),
    ("duckdb", dates("TIMESTAMP_MS", TIMES[:1], "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54")),
    (
        "sqlite",
        Kind(
            "DATE",
            {"'odd'": None, "7": None, "X'00'": "", "'9999-12-31'": np.datetime64("9999-12-31")},
            {f"'{day}'": np.datetime64(day) for day in DAYS} | {"NULL": None},
        ),
    ),
    ("postgresql", dates("date", DAYS, "4714-11-24 BC", "5874897-12-31")),
    ("postgresql", dates("timestamp", TIMES, "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999")),
    ("postgresql", dates("timestamptz", TIMES, "4714-11-25 00:00:00+00 BC", "294276-12-31 00:00:00+00")),
]
# Types that cannot be read, with a value of each.
REFUSED = {
    "duckdb": {
        "DATE": "'2020-01-01'", "TIME": "'10:00'", "TIMESTAMP": "'2020-01-01'", "TIMESTAMPTZ": "'infinity'",
        "INTERVAL": "'1 day'", "UUID": "uuid()", "JSON": "'[1]'", "BLOB": "'a'", "BIT": "'101'", "INTEGER[]": "[1]",
        "STRUCT(a INTEGER)": "{'a': 1}", "MAP(INTEGER, INTEGER)": "MAP {1: 1}", "UHUGEINT": "1", "BIGNUM": "1",
    },
    "sqlite": {"BLOB": "X'00'", "UUID": "'a'", "JSON": "'[1]'", "TIME": "'10:00'", "": "1"},
    "postgresql": {
        "date": "'infinity'", "time": "'10:00'", "timestamp": "'infinity'", "timestamptz": "'2020-01-01'",
        "interval": "'1 day'", "uuid": "gen_random_uuid()", "json": "'[1]'", "jsonb": "'1'", "bytea": "'a'",
        "bit(3)": "'101'", "integer[]": "'{1}'", "int4range": "'[1,2)'", "inet": "'10.0.0.1'", "xml": "'<a/>'",
        "money": "92233720368547758.07", "oid": "1", "xid": "'1'",
    },
}  # fmt: skip
# Bounds around the ordinary values, near zero, and near the ends of the range of floating point.
BOUNDS = [(0, 10), (0, 1e-310), (-1e308, 7e307)]


def feature_roles(kind: Kind) -> list[Any]:
    if kind.is_dated:
        return [Date("0001-01-01", "9999-12-31", time=time) for time in (False, True)]
    if kind.is_text:
        return [Categorical(["b", "a", ""]), Categorical([1, "a", None]), Categorical()]
    listed = Categorical([1, 0.5, 10**500, 1e305, -1, 2**63, 2])
    return [Categorical(), listed, *(Numeric(low, high) for low, high in BOUNDS)]


def target_roles(kind: Kind) -> list[Any]:
    if kind.is_dated:
        return []
    if kind.is_text:
        return [Classes(["a", "b"]), Classes(["b", "a"], other="a")]
    return [Classes([0, 1], other=0), *(Bounded(low, high) for low, high in BOUNDS)]


def schemas_of(kind: Kind) -> list[Schema]:
    """Schemas of the two tables of a pair: columns with roles by turns, and one column in each role."""
    label, parts = Classes([0, 1], name="y"), feature_roles(kind)
    turns = [parts[k % len(parts)] for k in range(len(kind.extremes))]
    return [Schema({f"v{k}": part for k, part in enumerate(own)}, label) for own in (turns, parts)]


class Place:
    """A database of an engine: its address, and a way to change it."""

    def __init__(self, engine, folder, request):
        self.engine, self._path = engine, folder / "t.db"
        server = request.getfixturevalue("server") if engine == "postgresql" else None
        self.server, self.address = server, f"{engine}:///{self._path}" if server is None else server.url(READER, DATABASE)

    def run(self, query):
        if self.engine == "postgresql":
            with as_root(self.server) as root:
                root.execute("SET TimeZone = 'UTC'")
                root.execute("SET lock_timeout = '3s'")  # of a connection that was left open it says so
                found = root.execute(query)
                return found.fetchall() if found.description else []
        if self.engine == "duckdb":
            with duckdb.connect(self._path) as connection:
                return connection.execute(query).fetchall()
        with closing(sqlite3.connect(self._path, timeout=1)) as connection, connection:
            return connection.execute(query).fetchall()

    def write(self, name, columns, rows=()):
        """Make a table of columns with their types, instead of one that is there."""
        self.run(f"DROP TABLE IF EXISTS {identifier(name)}")
        kinds = ", ".join(f"{identifier(column)} {kind}" for column, kind in columns.items())
        self.run(f"CREATE TABLE {identifier(name)} ({kinds})")
        if rows:
            self.run(f"INSERT INTO {identifier(name)} VALUES " + ", ".join(f"({', '.join(row)})" for row in rows))
        return f"{self.address}::{name}"

    def pair(self, kind: Kind, as_rows: bool = False) -> tuple[list[str], list[list[Any]]]:
        """Addresses of a table with what is odd and of one without, and the records of the former as Python holds them.

        One odd record has an extreme value in each column, or each of many has one, the same in a column for each role.
        """
        n_columns = len(feature_roles(kind)) if as_rows else len(kind.extremes)
        columns = {"record": "INTEGER", "y": "INTEGER", "mark": "VARCHAR(20)"}
        columns |= {f"v{place}": kind.name for place in range(n_columns)}
        usual = [([written] * n_columns, [value] * n_columns) for written, value in kind.usual.items() for _ in range(2)]
        extremes = [kind.extremes.keys(), kind.extremes.values()]
        each_alone = [*zip(*([[each] * n_columns for each in own] for own in extremes), strict=True)]
        odd = each_alone if as_rows else [map(list, extremes)]
        records = [(ORDINARY, *each) for each in usual] + [(ODD, *each) for each in odd]
        rows = [[str(row), str(row % 2), f"'{mark}'", *written] for row, (mark, written, _) in enumerate(records)]
        tables = [self.write(name, columns, own) for name, own in (("more", rows), ("fewer", rows[: len(usual)]))]
        return tables, [held for _, _, held in records]


# Types that are narrower than another one, which `make test` tries.
NARROW = (
    "TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "FLOAT", "DECIMAL(38,0)", "smallint", "integer",
    "real", "numeric(10,2)",
)  # fmt: skip


def every(cases):
    """Cases that begin with an engine and a type: those of PostgreSQL need its server, those of narrow types the night."""
    return [
        pytest.param(
            *case,
            id=" ".join(map(str, case)),
            marks=[pytest.mark.server] * (case[0] == "postgresql") + [pytest.mark.night] * is_for_the_night(*case),
        )
        for case in cases
    ]


def is_for_the_night(_, kind="", *__):
    return str(kind) in NARROW
