"""One record or person with extreme values, of any type and in any role, in a database: nobody sees a difference."""

import gc
import math
import re
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.neighbours.databases import (
    CASES,
    DATED,
    REFUSED,
    SECRET,
    TRUTHS,
    decimal,
    every,
    floating,
    in_duckdb,
    in_postgresql,
    schemas_of,
    target_roles,
    whole,
    with_and_without_tables,
)
from tests.neighbours.one_record import MARK, MARKS, outcome, read, root_counts
from tests.support.coded import fetched

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.columns import read_target, to_objects
from dpforest.records.codes import encode
from dpforest.records.people import BLANKS, People
from dpforest.records.sql.addresses import open_table
from dpforest.records.sql.codes import feature_codes, target_code
from dpforest.records.sql.dates import check_dates
from dpforest.records.sql.session import Session
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

both = pytest.mark.parametrize("name", every([("duckdb",), ("postgresql",)]))


@pytest.fixture(scope="module")
def engines(request):
    """A function that gives an engine by its name, opened when it is first asked for."""
    with ExitStack() as stack:
        opened = {}

        def engine(name, temporary):
            if (name, temporary) not in opened:
                server = [request.getfixturevalue("server")] if name == "postgresql" else []
                opened[name, temporary] = (in_postgresql if server else in_duckdb)(stack, temporary, *server)
            return opened[name, temporary]

        yield engine


@pytest.fixture(params=[True, False], ids=["temporary tables", "no tables"])
def temporary(request):
    return request.param


def told_by(call):
    """How a call ended, without warnings about what an earlier failure left to the garbage collector."""
    gc.disable()
    try:
        return outcome(call)
    finally:
        gc.enable()


def codes_of(engine, place, name, schema, target=None):
    """Codes ``(n_features, n_records)`` of a table, or of its target if there is one to ask for, and what was said."""
    table, dialect = engine.connections[place].table(name), engine.connections[place].name
    session, found = Session(engine.connections[place], engine.temporary), []
    codes = {"c": target_code(table, target, dialect)} if target else feature_codes(table, domain_of(schema), dialect)
    told = told_by(lambda: found.extend(fetched(session, table, codes, "record").values()))
    session.close()
    assert told.error is None
    return np.array(found), told


def domain_of(schema):
    return Domain.of(schema, Grid(bins=3))


@pytest.mark.parametrize(("name", "kind", "temporary"), with_and_without_tables([*CASES, *DATED]))
def test_an_extreme_value_is_its_records_own_matter_in_every_role(engines, name, kind, temporary):
    engine = engines(name, temporary)
    if kind.is_dated:
        engine.execute("SET TimeZone = 'UTC'")  # for who writes the table; who reads it is elsewhere
    pairs = [engine.pair(kind, as_rows) for as_rows in (False, True)]
    targets = [(pairs[1], None, replace(part, name="v0")) for part in target_roles(kind)]
    for (names, held), schema, target in [*zip(pairs, schemas_of(kind), [None] * 2, strict=True), *targets]:
        (more, told), (fewer, before) = (codes_of(engine, place, names[place], schema, target) for place in range(2))
        assert told == before
        np.testing.assert_array_equal(more[:, : fewer.shape[1]], fewer, err_msg=f"{schema} {target}")
        columns = [to_objects([row[k] for row in held]) for k in range(len(held[0]))]
        expected = [read_target(columns[0], target)] if target else encode(columns, domain_of(schema))
        np.testing.assert_array_equal(more, expected, err_msg=f"{schema} {target} {[*kind.extremes]}"[:500])


# Three numbers of each type that reaches far.
THREE = [
    ("duckdb", floating("DOUBLE", "5e-324"), True),
    ("duckdb", whole("HUGEINT", -(1 << 127), (1 << 127) - 1), False),
    ("postgresql", decimal("numeric", unsigned=["NaN", "1e400", "1e-400"]), True),
]
TURNED = [(*case[:2], not case[2]) for case in THREE] + [
    ("postgresql", floating("double precision", "5e-324"), temporary) for temporary in (True, False)
]
AT_NIGHT = [pytest.param(*case, marks=pytest.mark.night) for case in TURNED]


@pytest.mark.parametrize(("name", "kind", "temporary"), [*every(THREE), *AT_NIGHT])
def test_a_vault_with_an_extreme_record_reads_all_others_as_before(engines, name, kind, temporary):
    engine = engines(name, temporary)
    names, _ = engine.pair(kind)
    features = {"v0": Numeric(0, 10), "v1": Categorical([1, 2]), "v2": Numeric(0, 1e-310)}
    schemas = [Schema(parts, MARKS) for parts in (features, dict.fromkeys(features, Categorical()))]
    targets = [Bounded(0, 10, name="v0"), Classes([1, 2], name="v1"), Bounded(0, 10, name="v2")]
    for schema in [*schemas, *(Schema(MARK, part) for part in targets)]:
        with engine.seal(0, names[0], schema) as with_record, engine.seal(1, names[1], schema) as without:
            assert told_by(with_record.count) == told_by(without.count)
            before = read(lambda without=without: without)
            assert before.outcome.error is None
            read(lambda with_record=with_record: with_record).assert_like(before)


@pytest.mark.server
@pytest.mark.parametrize("role", ["feature", "category", "label", "target"])
def test_a_fit_in_postgresql_succeeds_with_decimals_of_any_size(engines, role):
    engine = engines("postgresql", True)
    feature = Categorical([0, 1, 2]) if role == "category" else Numeric(0, 4)
    kind, target = (DPForestRegressor, Bounded(0, 1)) if role == "target" else (DPForestClassifier, Classes([0, 1]))
    model = kind(Schema({"x": feature}, replace(target, name="y"), n_rows=40), epsilon=1, recipe="consul-2020", max_depth=2)
    for written in ("'1e400'", "'1e-400'", "'NaN'", "'-Infinity'"):
        odd = ["0", written] if role in ("label", "target") else [written, "0"]
        rows = [[str(row % 5), str(row % 2)] for row in range(40)]
        model.fit_table(engine.connections[0].table(engine.make({"x": "numeric", "y": "numeric"}, [*rows, odd])))
        assert model.privacy_.holds


UNREADABLE = [(name, *item) for name, refused in REFUSED.items() for item in refused.items()]
FIT_FOR_IDS = ("UUID", "uuid", "oid")


@pytest.mark.parametrize(("name", "kind", "written"), every(UNREADABLE))
def test_a_type_that_cannot_be_read_is_refused_whatever_it_holds(engines, name, kind, written):
    engine = engines(name, True)
    columns, rows = {"x": "INTEGER", "odd": kind, "y": "INTEGER"}, ([], [["1", written, "1"]], [["1", "NULL", "1"]])
    names = [engine.make(columns, own) for own in rows]
    number, label = Numeric(0, 1), Classes([0, 1], name="y")
    calls = [[Schema({"odd": number}, label)], [Schema({"y": number}, Bounded(0, 1, name="odd"))]]
    calls += [] if kind in FIT_FOR_IDS else [[Schema({"x": number}, label), "odd", People(2, Entropy(3))]]
    for given in calls:
        told = {told_by(lambda name=name, given=given: engine.seal(0, name, *given).close()).error for name in names}
        assert len(told) == 1
        assert re.match("TableError.*'odd'", told.pop())


@pytest.mark.server
def test_enumerations_of_postgresql_are_read_as_their_labels(engines, temporary):
    engine = engines("postgresql", temporary)
    name = engine.make({"odd": "mood", "y": "INTEGER"}, [["'sad'", "1"], ["'happy'", "0"], ["NULL", "1"]])
    listed = Categorical(["happy", "angry"])  # the type has no such label
    with engine.seal(0, name, Schema({"odd": listed}, Classes([0, 1], name="y"))) as vault:
        assert root_counts(vault)[0].sum(axis=1).tolist() == [1, 0, 1, 1]
    with pytest.raises(TableError, match="'odd'"):  # MD5 is of text
        engine.seal(0, name, Schema({"odd": Categorical()}, Classes([0, 1], name="y")))


@both
def test_a_query_that_fails_on_a_value_says_nothing_about_it(engines, temporary, name):
    """A view may hold what fails on some value; that is its author's, but the words are ours."""
    engine = engines(name, temporary)
    kept = engine.make({"word": "VARCHAR", "y": "INTEGER"}, [[f"'{SECRET}'", "1"]])
    engine.execute(f"CREATE VIEW {kept}_view AS SELECT CAST(word AS INTEGER) AS x, y FROM {kept}")
    for schema, asked in (
        (Schema({"x": Numeric(0, 1)}, Classes([0, 1], name="y")), root_counts),
        (Schema({"y": Numeric(0, 1)}, Bounded(0, 1, name="x")), lambda vault: vault.count()),
    ):
        with engine.seal(0, f"{kept}_view", schema) as vault, pytest.raises(TableError) as caught:
            asked(vault)
        assert SECRET not in str(caught.value)
        assert caught.value.__suppress_context__


# --- dates ------------------------------------------------------------------------------------------------------------


def codes_in_duckdb(connection, table, domain):
    session = Session(connection, True)
    numbered = table.mutate(record=ibis.row_number())
    found = fetched(session, numbered, feature_codes(table, domain, "duckdb"), "record")
    session.close()
    return np.array([*found.values()])


def test_nanoseconds_of_duckdb_are_dropped_and_not_rounded(engines):
    engine = engines("duckdb", True)
    texts = ["2023-12-31 23:59:59.999999999", "1969-12-31 23:59:59.999999999", "2024-02-29 10:00:00", "1677-09-22"]
    rows = [[f"'{text}'"] for text in [*texts, "infinity", "-infinity"]] + [["NULL"]]
    schema = Schema({"v": Date("1600-01-01", "2300-01-01", time=True)}, Classes([0, 1], name="y"))
    table, domain = engine.connections[0].table(engine.make({"v": "TIMESTAMP_NS"}, rows)), Domain.of(schema, Grid())
    moments = np.array([*texts, "2262-04-11 23:47:16.8", "1677-09-21 00:12:44", "NaT"], "M8[ns]")
    np.testing.assert_array_equal(codes_in_duckdb(engine.connections[0], table, domain), encode([moments], domain))


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_a_point_in_time_beyond_microseconds_is_its_records_own_matter(unit):
    """DuckDB keeps seconds and milliseconds of such points, and cannot turn them into microseconds."""
    schema = Schema({"v": Date("1970-01-01", "2100-01-01", time=True)}, Classes([0, 1], name="y"), n_rows=50)
    domain, found = Domain.of(schema, Grid()), []
    for odd in ([], [1 << 62], [-(1 << 62)]):
        connection = ibis.duckdb.connect()
        rows = pa.table({"v": pa.array([10**9, None, *odd]).view(pa.timestamp(unit)), "y": [0, 1, *odd]})
        table = connection.create_table("t", rows)
        DPForestClassifier(schema, epsilon=1.0, recipe="jagannathan-2009", n_trees=1).fit_table(table)
        found.append(codes_in_duckdb(connection, table, domain))
    for more in found[1:]:
        np.testing.assert_array_equal(more[:, :2], found[0])
    assert [more[0, 2] for more in found[1:]] == [len(domain.cuts[0]), 0]


@both
def test_text_and_numbers_are_no_dates_in_a_database(engines, name):
    engine = engines(name, True)
    for kind, written in (("VARCHAR", "'2024-02-29'"), ("INTEGER", "19000")):
        table = engine.make({"v": kind, "y": "INTEGER"}, [[written, "1"]])
        with pytest.raises(TableError, match="Column 'v' is declared date, but"):
            engine.seal(0, table, Schema({"v": Date()}, Classes([0, 1], name="y")))


def test_engines_whose_dates_were_not_tried_are_refused_by_name():
    table = ibis.table({"v": "date", "y": "int64"}, name="t")
    with pytest.raises(
        TableError, match="'v' is declared date, and dates are read in DuckDB and PostgreSQL only, not in 'mysql'"
    ):
        check_dates("mysql", table, Schema({"v": Date()}, Classes([0, 1], name="y")))


# --- Parquet files in DuckDB ------------------------------------------------------------------------------------------

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
    told = set()
    for values in (second, pa.concat_arrays([second, odd])):
        for name, column in (("a", first), ("b", values)):
            # The other column differs too, but nobody reads it.
            other = pa.array(["x"] * len(column)) if name == "a" else pa.nulls(len(column))
            pq.write_table(pa.table({"x": column, "y": [0] * len(column), "other": other}), tmp_path / f"{name}.parquet")
        told.add(told_by(lambda: open_table(f"duckdb:///{tmp_path}/*.parquet", ["x", "y"])).error)
    assert len(told) == 1
    words = "TableError: Column 'x' has the type .* in the first of the files, but has the type .* in b.parquet"
    assert re.match(words, told.pop())
    open_table(f"duckdb:///{tmp_path}/*.parquet", ["y"]).get_backend().disconnect()
    with pytest.raises(TableError, match="Column 'x'"):
        open_table(f"duckdb:///{tmp_path}/*.parquet")


def test_a_column_that_some_parquet_files_lack_is_refused(tmp_path):
    pq.write_table(pa.table({"x": WHOLES, "y": WHOLES}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"y": WHOLES}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"Column 'x' .* is missing from b"):
        open_table(f"duckdb:///{tmp_path}/*.parquet", ["x", "y"])


# --- persons: the key of the draws is the same in both tables, so that rows can be compared one by one ----------------

MOST, N_ROWS = 2, 5
OF_PERSONS = Schema(
    {"record": Categorical([f"r{row}" for row in range(80)]), "x": Numeric(0, 80)}, Classes([0, 1], name="y"), n_rows=80
)
COLUMNS = {"record": "VARCHAR", "x": "INTEGER", "y": "INTEGER"}


def rows_of(ids, first=0):
    """Rows of some persons, with names of their own; those of each person have targets, but for one."""
    written = [own for own in ids for _ in range(N_ROWS)]
    return [[f"'r{first + place}'", str(place), str(min(place % N_ROWS, 2)), own] for place, own in enumerate(written)]


def of_persons(engine, place, name):
    return engine.seal(place, name, OF_PERSONS, "person", People(MOST, Entropy(3)))


IDS = [(name, kind) for name, kind in CASES if kind is not TRUTHS]


@pytest.mark.parametrize(("name", "kind", "temporary"), with_and_without_tables(IDS))
def test_a_person_with_an_extreme_id_changes_nobody_elses_rows(engines, name, kind, temporary):
    engine = engines(name, temporary)
    usual = [written for written, value in kind.usual.items() if value is not None]
    odd = {written: value for written, value in kind.extremes.items() if value not in kind.usual.values()}
    without, with_odd = (
        engine.make(COLUMNS | {"person": kind.name}, [*rows_of(usual), *rows_of(["NULL", *more], N_ROWS * len(usual))])
        for more in ([], odd)
    )
    told = {told_by(lambda table=table: of_persons(engine, 0, table).close()) for table in (without, with_odd)}
    assert [each.error for each in told] == [None]
    with of_persons(engine, 0, without) as fewer, of_persons(engine, 1, with_odd) as more:
        assert fewer.count()._value == [MOST * len(usual)]
        assert (root_counts(more)[0] >= root_counts(fewer)[0]).all()
        is_nobody = [value != value or (isinstance(value, str) and not value.strip(BLANKS)) for value in odd.values()]
        assert more.count()._value - fewer.count()._value == [MOST * (len(odd) - sum(is_nobody))]


@pytest.mark.server
def test_ids_of_postgresql_are_compared_by_characters_and_by_value(engines):
    engine = engines("postgresql", True)
    engine.execute(
        "CREATE COLLATION IF NOT EXISTS base_letters (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
    )
    for kind, ids, n_persons in (
        ("text COLLATE base_letters", ["'a'", "'A'", "'\u00e1'", "'a'"], 3),
        ("numeric", ["'1.0'", "'1.00'", "'1'", "'NaN'", "'1e400'", "'Infinity'"], 3),
        ("uuid", ["'00000000-0000-0000-0000-000000000007'", "'00000000-0000-0000-0000-000000000008'"], 2),
        ("double precision", ["'0.0'", "'-0.0'", "'NaN'", "'0.1'"], 2),
        ("char(5)", ["'a'", "'a '", "'b'"], 2),
        ("mood", ["'sad'", "'happy'"], 2),
    ):
        with of_persons(engine, 0, engine.make(COLUMNS | {"person": kind}, rows_of(ids))) as vault:
            assert vault.count()._value == [MOST * n_persons], kind
            assert vault.count()._value == [MOST * n_persons]


@pytest.mark.server
def test_a_fit_in_postgresql_succeeds_whatever_an_id_is(engines):
    engine = engines("postgresql", True)
    for odd in ("NULL", "'NaN'", "repeat('x', 1000000)", "'\U0010ffff'", "''"):
        table = engine.make(COLUMNS | {"person": "text"}, [*rows_of([f"'p{n}'" for n in range(9)]), *rows_of([odd], 45)])
        model = DPForestClassifier(OF_PERSONS, epsilon=2, recipe="consul-2020", max_depth=2, max_rows_per_person=MOST)
        model.fit_table(engine.connections[0].table(table), groups="person")
        assert (model.privacy_.unit, model.privacy_.holds) == ("person", True)
