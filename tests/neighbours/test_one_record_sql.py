"""One record with an extreme value, of any type and in any role: nobody sees a difference, but for that record's own code.

Every extreme value of a type is a column of its own, and the odd record holds all of them at once.
"""

import gc
import itertools
import math
import re
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conformance.postgres_server import KEEPER, READER, as_root, connect
from tests.neighbours.one_record import Outcome, assert_others_are_read_as_before, outcome, root_counts
from tests.support.coded import fetched

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import TableError
from dpforest.records.columns import read_target, to_objects
from dpforest.records.memory.vault import encode
from dpforest.records.sql.addresses import open_table
from dpforest.records.sql.codes import feature_codes, target_code
from dpforest.records.sql.dates import check_dates
from dpforest.records.sql.session import Session
from dpforest.records.sql.vault import SqlVault
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

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


TRUTHS = Kind("boolean", {"true": True, "false": False}, {"true": True, "false": False, "NULL": None})
WORDS = {
    "''": "",
    "' '": " ",
    "'a '": "a ",
    "'NaN'": "NaN",
    "'1e400'": "1e400",
    "'it''s \"'": "it's \"",
    "'\U0010ffff'": "\U0010ffff",
    "'a\u0301\n\t\\'": "a\u0301\n\t\\",
}
DOUBLES = ("5e-324", "1e-310", "1e-20", "1e300", "1.7976931348623157e308")
SINGLES = (str(float(np.finfo(np.float32).smallest_subnormal)), str(float(np.finfo(np.float32).max)))
DUCKDB = [
    *(
        whole(f"{name}INT", -(1 << bits - 1), (1 << bits - 1) - 1)
        for name, bits in {"TINY": 8, "SMALL": 16, "BIG": 64}.items()
    ),
    whole("INTEGER", -(1 << 31), (1 << 31) - 1),
    whole("HUGEINT", -(1 << 127), (1 << 127) - 1),
    *(whole(f"U{name}INT", 0, (1 << bits) - 1) for name, bits in {"TINY": 8, "SMALL": 16, "BIG": 64}.items()),
    whole("UINTEGER", 0, (1 << 32) - 1),
    floating("DOUBLE", *DOUBLES),
    floating("FLOAT", *SINGLES),
    decimal("DECIMAL(38,0)", "9" * 38),
    decimal("DECIMAL(38,37)", "9." + "9" * 37, "1e-37"),
    decimal("DECIMAL(4,1)", "999.9", "0.1"),
    TRUTHS,
    text("VARCHAR", WORDS | {"repeat('a', 1000000)": "a" * 1_000_000, "'a' || chr(0)": "a\0"}),
    text("ENUM('a', 'b', 'c', 'odd')", {"'odd'": "odd"}),
]
POSTGRES = [
    whole("smallint", -(1 << 15), (1 << 15) - 1),
    whole("integer", -(1 << 31), (1 << 31) - 1),
    whole("bigint", -(1 << 63), (1 << 63) - 1),
    floating("double precision", *DOUBLES),
    floating("real", *SINGLES),
    decimal(
        "numeric", "Infinity", "1e400", "1e-400", "9e131071", "1e-16383", "1.8e308", "2e-324", "5e-324", unsigned=["NaN"]
    ),
    decimal("numeric(10,2)", "99999999.99", "0.01", unsigned=["NaN"]),
    decimal("numeric(1000,500)", "9e499", "1e-500", unsigned=["NaN"]),
    decimal("numeric(1000)", "1e999", unsigned=["NaN"]),
    TRUTHS,
    text("text", WORDS | {"repeat('a', 1000000)": "a" * 1_000_000}),
    text("varchar(20)", WORDS),
    text("char(5)", {"'odd'": "odd", "'NaN'": "NaN"}),
    text("name", {"'odd'": "odd"}),
]
# Types that cannot be read, with a value of each.
REFUSED = {
    "duckdb": {
        "DATE": "'2020-01-01'",
        "TIME": "'10:00'",
        "TIMESTAMP": "'2020-01-01'",
        "TIMESTAMPTZ": "'infinity'",
        "INTERVAL": "'1 day'",
        "UUID": "uuid()",
        "JSON": "'[1]'",
        "BLOB": "'a'",
        "BIT": "'101'",
        "INTEGER[]": "[1]",
        "STRUCT(a INTEGER)": "{'a': 1}",
        "MAP(INTEGER, INTEGER)": "MAP {1: 1}",
        "UHUGEINT": "1",
        "BIGNUM": "1",
    },
    "postgresql": {
        "date": "'infinity'",
        "time": "'10:00'",
        "timestamp": "'infinity'",
        "timestamptz": "'2020-01-01'",
        "interval": "'1 day'",
        "uuid": "gen_random_uuid()",
        "json": "'[1]'",
        "jsonb": "'1'",
        "bytea": "'a'",
        "bit(3)": "'101'",
        "integer[]": "'{1}'",
        "int4range": "'[1,2)'",
        "inet": "'10.0.0.1'",
        "xml": "'<a/>'",
        "money": "92233720368547758.07",
        "oid": "1",
        "xid": "'1'",
    },
}
# Bounds around the ordinary values, near zero, and near the ends of the range of floating point.
BOUNDS = [(0, 10), (0, 1e-310), (-1e308, 7e307)]


@dataclass(frozen=True)
class Engine:
    """Two connections to an engine, so that two tables can be sealed at once, and who may write for them."""

    name: str
    connections: list[Any]
    execute: Callable[[str], Any]
    temporary: bool

    def make(self, columns: dict[str, str], rows: list[list[str]]) -> str:
        """The name of a new table."""
        name = f"t{uuid.uuid4().hex}"
        self.execute(f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())})")
        if rows:
            self.execute(f"INSERT INTO {name} VALUES " + ", ".join(f"({', '.join(row)})" for row in rows))
        return name

    def seal(self, place: int, name: str, schema: Schema, roles: dict[str, str] | None = None) -> SqlVault:
        """A table, or columns of it under the names of their roles."""
        table = self.connections[place].table(name)
        chosen = table if roles is None else table.select(**{role: table[column] for role, column in roles.items()})
        return SqlVault.seal(chosen, schema, self.temporary)


@pytest.fixture(scope="module")
def engines(request):
    """Engines by name, each opened when it is asked for."""
    with ExitStack() as stack:
        opened: dict[str, Engine] = {}

        def open_engine(name: str, temporary: bool) -> Engine:
            key = f"{name} {temporary}"
            if key not in opened:
                opened[key] = (_duckdb if name == "duckdb" else _postgresql)(request, stack, temporary)
            return opened[key]

        yield open_engine


def _duckdb(request, stack, temporary):
    import ibis

    connections = [ibis.duckdb.connect() for _ in range(2)]
    for connection in connections:
        stack.callback(connection.disconnect)
    return Engine("duckdb", connections, lambda query: [one.con.execute(query) for one in connections], temporary)


def _postgresql(request, stack, temporary):
    server = request.getfixturevalue("server")
    root = stack.enter_context(as_root(server))
    root.execute("DROP TYPE IF EXISTS mood CASCADE")
    root.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    connections = [connect(server, KEEPER if temporary else READER) for _ in range(2)]
    for connection in connections:
        stack.callback(connection.disconnect)
    return Engine("postgresql", connections, root.execute, temporary)


CASES = [(name, kind) for name, kinds in (("duckdb", DUCKDB), ("postgresql", POSTGRES)) for kind in kinds]


@pytest.fixture(params=[True, False], ids=["temporary tables", "no tables"])
def temporary(request):
    return request.param


def told_by(call: Callable[[], Any]) -> Outcome:
    """How a call ended, without warnings about what an earlier failure left to the garbage collector."""
    gc.disable()
    try:
        return outcome(call)
    finally:
        gc.enable()


def tables(engine: Engine, kind: Kind) -> tuple[list[str], list[list[Any]]]:
    """Names of a table with the odd record and of one without, and the records of the former as Python holds them."""
    columns = {"record": "INTEGER", "y": "INTEGER"} | {f"v{place}": kind.name for place in range(len(kind.extremes))}
    usual = [(written, value) for written, value in kind.usual.items() for _ in range(2)]
    ordinary = [[str(row), str(row % 2), *[written] * len(kind.extremes)] for row, (written, _) in enumerate(usual)]
    odd = [str(len(usual)), "1", *kind.extremes]
    held = [[value] * len(kind.extremes) for _, value in usual]
    return [engine.make(columns, [*ordinary, odd]), engine.make(columns, ordinary)], [*held, [*kind.extremes.values()]]


def feature_roles(kind: Kind) -> list[Any]:
    if kind.is_text:
        return [Categorical(["b", "a", ""]), Categorical([1, "a", None]), Categorical()]
    listed = Categorical([1, 0.5, 10**500, 1e305, -1, 2**63, 2])
    return [Categorical(), listed, *(Numeric(low, high) for low, high in BOUNDS)]


def target_roles(kind: Kind) -> list[Any]:
    if kind.is_text:
        return [Classes(["a", "b"]), Classes(["b", "a"], other="a")]
    return [Classes([0, 1], other=0), *(Bounded(low, high) for low, high in BOUNDS)]


def codes_of(engine: Engine, place: int, name: str, roles: list[Any]) -> dict[str, np.ndarray]:
    """Codes of all records, for each column in each role."""
    table = engine.connections[place].table(name)
    columns = [column for column in table.columns if column[0] == "v"]
    session = Session(engine.connections[place], engine.temporary)
    found, dialect = {}, session.backend.name
    try:
        for n, (part, column) in enumerate(itertools.product(roles, columns)):
            if isinstance(part, Classes | Bounded):
                code = target_code(table, replace(part, name=column), dialect)
            else:
                code = feature_codes(table, domain_of(column, part), dialect)["c0"]
            found[f"k{n}"] = fetched(session, table, {"code": code}, "record")["code"]
        return found
    finally:
        session.close()


def domain_of(column: str, part: Any) -> Domain:
    return Domain.of(Schema({column: part}, Classes([0, 1], name="y")), Grid(bins=3))


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{name} {kind}" for name, kind in CASES])
def test_an_extreme_value_is_its_records_own_matter_in_every_role(engines, temporary, name, kind):
    engine = engines(name, temporary)
    names, held = tables(engine, kind)
    roles = [*feature_roles(kind), *target_roles(kind)]
    found: dict[int, dict[str, np.ndarray]] = {}
    more, fewer = (
        told_by(lambda place=place: found.update({place: codes_of(engine, place, names[place], roles)}))
        for place in range(2)
    )
    assert more == fewer
    assert more.error is None
    for n, (part, k) in enumerate(itertools.product(roles, range(len(kind.extremes)))):
        np.testing.assert_array_equal(found[0][f"k{n}"][:-1], found[1][f"k{n}"])
        values = [row[k] for row in held]
        if isinstance(part, Classes | Bounded):
            expected = read_target(values, part)
        else:
            expected = encode([to_objects(values)], domain_of("v", part))[0]
        np.testing.assert_array_equal(found[0][f"k{n}"], expected, err_msg=f"{part} {[*kind.extremes][k]}")


def dates(name, usual, first, last):
    """A type of dates, with the first and the last that it holds; these count as the first and the last of our calendar."""
    ends = ("0001-01-01", "9999-12-31" if name.lower() == "date" else "9999-12-31T23:59:59")
    written = zip(("-infinity", "infinity", first, last), ends * 2, strict=True)
    held = {f"'{text}'": np.datetime64(text) for text in usual} | {"NULL": None}
    return Kind(name, {f"'{text}'": np.datetime64(end) for text, end in written}, held)


DAYS, TIMES = ("2024-02-29", "1969-12-31", "2000-01-01"), ("2024-02-29T10:20:30.5", "1969-12-31T23:59:59.999999")
DATED = [
    ("duckdb", dates("DATE", DAYS, "5877642-06-25 (BC)", "5881580-07-10")),
    ("duckdb", dates("TIMESTAMP", TIMES, "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54")),
    ("duckdb", dates("TIMESTAMPTZ", TIMES, "290309-12-23 (BC) 00:00:00+00", "294247-01-09 00:00:00+00")),
    ("duckdb", dates("TIMESTAMP_MS", TIMES[:1], "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54")),
    ("postgresql", dates("date", DAYS, "4714-11-24 BC", "5874897-12-31")),
    ("postgresql", dates("timestamp", TIMES, "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999")),
    ("postgresql", dates("timestamptz", TIMES, "4714-11-25 00:00:00+00 BC", "294276-12-31 00:00:00+00")),
]


@pytest.mark.parametrize(("name", "kind"), DATED, ids=[f"{name} {kind}" for name, kind in DATED])
def test_an_extreme_date_is_its_records_own_matter(engines, temporary, name, kind):
    engine = engines(name, temporary)
    engine.execute("SET TimeZone = 'UTC'")  # for who writes the table; who reads it is elsewhere
    names, held = tables(engine, kind)
    features = {f"v{k}": Date("0001-01-01", "9999-12-31", time=k % 2 > 0) for k in range(len(kind.extremes))}
    schema = Schema(features, Classes([0, 1], name="y"))
    domain, found = Domain.of(schema, Grid()), []
    for place in range(2):
        engine.seal(place, names[place], schema).close()
        table = engine.connections[place].table(names[place])
        session = Session(engine.connections[place], engine.temporary)
        codes = feature_codes(table, domain, session.backend.name)
        found.append(np.array([*fetched(session, table, codes, "record").values()]))
        session.close()
    np.testing.assert_array_equal(found[0][:, :-1], found[1])
    columns = [to_objects([row[k] for row in held]) for k in range(len(kind.extremes))]
    np.testing.assert_array_equal(found[0], encode(columns, domain))


def test_nanoseconds_of_duckdb_are_dropped_and_not_rounded(engines):
    engine = engines("duckdb", True)
    texts = [
        "2023-12-31 23:59:59.999999999",
        "1969-12-31 23:59:59.999999999",
        "2024-02-29 10:00:00",
        "1677-09-22",
        "infinity",
    ]
    name = engine.make({"v": "TIMESTAMP_NS"}, [[f"'{text}'"] for text in [*texts, "-infinity"]] + [["NULL"]])
    schema = Schema({"v": Date("1600-01-01", "2300-01-01", time=True)}, Classes([0, 1], name="y"))
    table, domain = engine.connections[0].table(name), Domain.of(schema, Grid())
    session = Session(engine.connections[0], True)
    found = fetched(session, table.mutate(record=ibis.row_number()), feature_codes(table, domain, "duckdb"), "record")
    session.close()
    moments = np.array([*texts[:-1], "2262-04-11 23:47:16.8", "1677-09-21 00:12:44", "NaT"], "M8[ns]")
    np.testing.assert_array_equal([*found.values()], encode([moments], domain))


@pytest.mark.parametrize("name", ["duckdb", "postgresql"])
def test_text_and_numbers_are_no_dates_in_a_database(engines, name):
    engine = engines(name, True)
    for kind, written in (("VARCHAR", "'2024-02-29'"), ("INTEGER", "19000")):
        table = engine.make({"v": kind, "y": "INTEGER"}, [[written, "1"]])
        with pytest.raises(TableError, match="Column 'v' is declared date, but"):
            engine.seal(0, table, Schema({"v": Date()}, Classes([0, 1], name="y")))


def test_engines_whose_dates_were_not_tried_are_refused_by_name():
    import ibis

    table = ibis.table({"v": "date", "y": "int64"}, name="t")
    with pytest.raises(
        TableError, match="'v' is declared date, and dates are read in DuckDB and PostgreSQL only, not in 'mysql'"
    ):
        check_dates("mysql", table, Schema({"v": Date()}, Classes([0, 1], name="y")))


# Three numbers of each type that reaches far.
FAR = {
    "duckdb": [floating("DOUBLE", "5e-324"), whole("HUGEINT", -(1 << 127), (1 << 127) - 1)],
    "postgresql": [floating("double precision", "5e-324"), decimal("numeric", unsigned=["NaN", "1e400", "1e-400"])],
}
WHOLE_PATH = [(name, kind) for name, kinds in FAR.items() for kind in kinds]


@pytest.mark.parametrize(("name", "kind"), WHOLE_PATH, ids=[f"{name} {kind}" for name, kind in WHOLE_PATH])
def test_a_vault_with_an_extreme_record_reads_all_others_as_before(engines, temporary, name, kind):
    engine = engines(name, temporary)
    names, _ = tables(engine, kind)
    features = {"v0": Numeric(0, 10), "v1": Categorical([1, 2]), "v2": Numeric(0, 1e-310)}
    buckets = dict.fromkeys(features, Categorical())
    schemas = [Schema(parts, Classes([0, 1], name="y")) for parts in (features, buckets)] + [
        Schema({"y": Categorical([0, 1])}, part)
        for k in range(3)
        for part in (Bounded(0, 10, name=f"v{k}"), Classes([1, 2], name=f"v{k}"))
    ]
    for schema in schemas:
        with engine.seal(0, names[0], schema) as with_record, engine.seal(1, names[1], schema) as without:
            assert told_by(with_record.count) == told_by(without.count)
            assert_others_are_read_as_before(with_record, without)


@pytest.mark.server
@pytest.mark.parametrize("role", ["feature", "category", "label", "target"])
@pytest.mark.parametrize("written", ["1e400", "1e-400", "NaN", "-Infinity"])
def test_a_fit_in_postgresql_succeeds_with_a_decimal_of_any_size(engines, role, written):
    engine = engines("postgresql", True)
    rows = [[str(row % 5), str(row % 2)] for row in range(40)]
    odd = ["0", f"'{written}'"] if role in ("label", "target") else [f"'{written}'", "0"]
    name = engine.make({"x": "numeric", "y": "numeric"}, [*rows, odd])
    feature = Categorical([0, 1, 2]) if role == "category" else Numeric(0, 4)
    kind, target = (DPForestRegressor, Bounded(0, 1)) if role == "target" else (DPForestClassifier, Classes([0, 1]))
    model = kind(Schema({"x": feature}, replace(target, name="y"), n_rows=40), epsilon=1, recipe="consul-2020", max_depth=2)
    model.fit_table(engine.connections[0].table(name))
    assert model.privacy_.holds


UNREADABLE = [(name, *item) for name, refused in REFUSED.items() for item in refused.items()]


@pytest.mark.parametrize(("name", "kind", "written"), UNREADABLE, ids=[f"{name} {kind}" for name, kind, _ in UNREADABLE])
def test_a_type_that_cannot_be_read_is_refused_whatever_it_holds(engines, name, kind, written):
    engine = engines(name, True)
    columns = {"odd": kind, "y": "INTEGER"}
    names = [engine.make(columns, rows) for rows in ([], [[written, "1"]], [["NULL", "1"]])]
    for schema in (
        Schema({"odd": Numeric(0, 1)}, Classes([0, 1], name="y")),
        Schema({"y": Numeric(0, 1)}, Bounded(0, 1, name="odd")),
    ):
        told = {told_by(lambda name=name, schema=schema: engine.seal(0, name, schema)) for name in names}
        assert len(told) == 1
        error = told.pop().error
        assert error is not None
        assert error.startswith("TableError")
        assert "'odd'" in error


def test_enumerations_of_postgresql_are_read_as_their_labels(engines, temporary):
    engine = engines("postgresql", temporary)
    name = engine.make({"odd": "mood", "y": "INTEGER"}, [["'sad'", "1"], ["'happy'", "0"], ["NULL", "1"]])
    listed = Categorical(["happy", "angry"])  # the type has no such label
    with engine.seal(0, name, Schema({"odd": listed}, Classes([0, 1], name="y"))) as vault:
        assert root_counts(vault)[0].sum(axis=1).tolist() == [1, 0, 1, 1]
    with pytest.raises(TableError, match="'odd'"):  # MD5 is of text
        engine.seal(0, name, Schema({"odd": Categorical()}, Classes([0, 1], name="y")))


@pytest.mark.parametrize("name", ["duckdb", "postgresql"])
def test_a_query_that_fails_on_a_value_says_nothing_about_it(engines, temporary, name):
    """A view may hold what fails on some value; that is its author's, but the words are ours."""
    engine = engines(name, temporary)
    kept = engine.make({"word": "VARCHAR", "y": "INTEGER"}, [[f"'{SECRET}'", "1"]])
    engine.execute(f"CREATE VIEW {kept}_view AS SELECT CAST(word AS INTEGER) AS x, y FROM {kept}")
    schema = Schema({"x": Numeric(0, 1)}, Classes([0, 1], name="y"))
    with engine.seal(0, f"{kept}_view", schema) as vault, pytest.raises(TableError) as caught:
        root_counts(vault)
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__
    turned = Schema({"y": Numeric(0, 1)}, Bounded(0, 1, name="x"))
    with engine.seal(0, f"{kept}_view", turned) as vault, pytest.raises(TableError) as caught:
        vault.count()
    assert SECRET not in str(caught.value)


FLOATS, WHOLES = pa.array([1.0, 0.0]), pa.array([1, 0], pa.int64())


@pytest.mark.parametrize(
    ("first", "second", "odd"),
    [
        (WHOLES, FLOATS, pa.array([0.5])),
        (WHOLES, FLOATS, pa.array([math.nan])),
        (WHOLES.cast(pa.int32()), WHOLES, pa.array([1 << 40])),
        (FLOATS, FLOATS.cast(pa.string()), pa.array(["odd"])),
        (pa.array([Decimal("0.5")], pa.decimal128(38, 30)), WHOLES, pa.array([1 << 40])),
    ],
)
def test_parquet_files_of_different_types_are_refused_by_their_types_alone(tmp_path, first, second, odd):
    told = []
    for values in (second, pa.concat_arrays([second, odd])):
        for name, column in (("a", first), ("b", values)):
            # The other column differs too, but nobody reads it.
            other = pa.array(["x"] * len(column)) if name == "a" else pa.nulls(len(column))
            pq.write_table(pa.table({"x": column, "y": [0] * len(column), "other": other}), tmp_path / f"{name}.parquet")
        told.append(told_by(lambda: open_table(f"duckdb:///{tmp_path}/*.parquet", ["x", "y"])))
    assert told[0] == told[1]
    assert told[0].error is not None
    assert told[0].error.startswith("TableError: Column 'x' has the type ")
    assert re.search("in the first of the files, but has the type .* in b.parquet", told[0].error)
    open_table(f"duckdb:///{tmp_path}/*.parquet", ["y"]).get_backend().disconnect()
    with pytest.raises(TableError, match="Column 'x'"):
        open_table(f"duckdb:///{tmp_path}/*.parquet")


def test_a_column_that_some_parquet_files_lack_is_refused(tmp_path):
    pq.write_table(pa.table({"x": WHOLES, "y": WHOLES}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"y": WHOLES}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"Column 'x' .* is missing from b"):
        open_table(f"duckdb:///{tmp_path}/*.parquet", ["x", "y"])


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_a_point_in_time_beyond_microseconds_is_its_records_own_matter(unit):
    """DuckDB keeps seconds and milliseconds of such points, and cannot turn them into microseconds."""
    schema = Schema({"v": Date("1970-01-01", "2100-01-01", time=True)}, Classes([0, 1], name="y"), n_rows=50)
    domain, found = Domain.of(schema, Grid()), []
    for odd in ([], [1 << 62], [-(1 << 62)]):
        rows = pa.table({"v": pa.array([10**9, None, *odd]).view(pa.timestamp(unit)), "y": [0, 1, *odd]})
        connection = ibis.duckdb.connect()
        table = connection.create_table("t", rows)
        DPForestClassifier(schema, epsilon=1.0, recipe="jagannathan-2009", n_trees=1).fit_table(table)
        session = Session(connection, True)
        numbered = table.mutate(record=ibis.row_number())
        found.append(np.array([*fetched(session, numbered, feature_codes(table, domain, "duckdb"), "record").values()]))
    for more in found[1:]:
        np.testing.assert_array_equal(more[:, :2], found[0])
    assert [more[0, 2] for more in found[1:]] == [len(domain.cuts[0]), 0]
