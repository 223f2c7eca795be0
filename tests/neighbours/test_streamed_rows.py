"""Rows that are streamed out of a database have the codes of memory, whatever extreme values stand beside them."""

from dataclasses import replace

import duckdb
import numpy as np
import pytest
from tests.conformance.postgres_server import DATABASE, READER, as_root
from tests.neighbours.test_one_record_sql import CASES, DATED, REFUSED, Engine, feature_roles, tables, target_roles

from dpforest import Classes, Date, Numeric, Schema
from dpforest.errors import TableError
from dpforest.records.columns import read_columns, read_target, to_objects
from dpforest.records.memory.vault import encode
from dpforest.records.reader import Asked, joined
from dpforest.records.sql import streams
from dpforest.records.tables import open_reader
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

SECRET = "zebra-secret-value"
AT = {"record": Numeric(0, 100)}


class Place:
    """A database that is written by one connection, and read by address."""

    def __init__(self, write, prefix):
        self.engine = Engine("", [], write, False)
        self._prefix = prefix

    def reader(self, table):
        return open_reader(f"{self._prefix}::{table}")

    def joined(self, table, schema, **asked):
        """All rows in the order of their column "record"."""
        part = joined(self.reader(table).parts(Asked(schema, besides=("record",), **asked)))
        order = np.argsort(part.besides.column("record").to_numpy())
        return part.features.take(order), None if part.target is None else part.target.take(order)


@pytest.fixture
def place(request, tmp_path):
    """A function that gives the place of an engine."""

    def find(name):
        if name == "duckdb":

            def write(query):
                with duckdb.connect(tmp_path / "t.db") as connection:
                    connection.execute(query)

            return Place(write, f"duckdb:///{tmp_path}/t.db")
        server = request.getfixturevalue("server")
        root = as_root(server)
        request.addfinalizer(root.close)
        root.execute("SET TimeZone = 'UTC'")
        return Place(root.execute, server.url(READER, DATABASE))

    return find


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(streams, "PART_ROWS", {"duckdb": 3, "postgres": 3})


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{name} {kind}" for name, kind in CASES])
def test_values_of_every_type_have_the_codes_of_memory(place, name, kind):
    found = place(name)
    (table, _), held = tables(found.engine, kind)
    values = {f"v{k}": [row[k] for row in held] for k in range(len(kind.extremes))}
    for part in feature_roles(kind):
        schema = Schema(dict.fromkeys(values, part), Classes([0, 1], name="y"))
        domain = Domain.of(schema, Grid(bins=3))
        features, _ = found.joined(table, schema)
        expected = encode([to_objects(column) for column in values.values()], domain)
        np.testing.assert_array_equal(encode(read_columns(features, schema), domain), expected, err_msg=str(part))
    for target in target_roles(kind)[:2]:
        for column, own in values.items():
            _, read = found.joined(table, Schema(AT, replace(target, name=column)), with_target=True)
            np.testing.assert_array_equal(read_target(read, target), read_target(own, target), err_msg=f"{target} {column}")


@pytest.mark.parametrize(("name", "kind"), DATED, ids=[f"{name} {kind}" for name, kind in DATED])
def test_dates_of_every_type_have_the_codes_of_memory(place, name, kind):
    found = place(name)
    (table, _), held = tables(found.engine, kind)
    features = {f"v{k}": Date("0001-01-01", "9999-12-31", time=k % 2 > 0) for k in range(len(kind.extremes))}
    schema = Schema(features, Classes([0, 1], name="y"))
    domain = Domain.of(schema, Grid())
    read, _ = found.joined(table, schema)
    expected = encode([to_objects([row[k] for row in held]) for k in range(len(kind.extremes))], domain)
    np.testing.assert_array_equal(encode(read_columns(read, schema), domain), expected)


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in REFUSED.items() for kind in kinds])
def test_what_fit_table_refuses_is_refused_by_its_type_before_a_row_is_read(place, name, kind):
    found = place(name)
    told = set()
    for rows in ([], [["1", "1", REFUSED[name][kind]]]):
        table = found.engine.make({"record": "INTEGER", "y": "INTEGER", "v": kind}, rows)
        for any_type in (False, True):
            try:
                found.reader(table).parts(Asked(Schema({"v": Numeric(0, 1)}, Classes([0, 1], name="y")), any_type=any_type))
                told.add(f"read {any_type}")
            except TableError as error:
                told.add(f"{any_type} {error}")
    assert len(told) == 2  # the same without a row and with one
    assert not any(words.startswith("read False") for words in told)


@pytest.mark.parametrize("name", ["duckdb", "postgresql"])
def test_any_column_can_be_carried_as_an_id(place, name):
    """As a number or a truth value, or as the text that the database writes."""
    found, kinds = place(name), REFUSED[name]
    columns = {"record": "INTEGER", "y": "INTEGER"} | {f"v{place}": kind for place, kind in enumerate(kinds)}
    rows = [["1", "1", *kinds.values()], ["2", "0", *["NULL"] * len(kinds)]]
    table, carried = found.engine.make(columns, rows), [*columns][2:]
    part = joined(found.reader(table).parts(Asked(Schema(AT, Classes([0, 1], name="y")), besides=carried)))
    assert part.besides.column_names == carried
    assert all(column.null_count == 1 for column in part.besides.columns)


def test_a_table_without_rows_gives_one_part_without_rows(place):
    for name in ("duckdb", "postgresql"):
        found = place(name)
        table = found.engine.make({"record": "INTEGER", "y": "INTEGER", "v": "DOUBLE PRECISION"}, [])
        (part,) = found.reader(table).parts(Asked(Schema(AT, Classes([0, 1], name="y")), with_target=True, besides=("v",)))
        assert len(part.features) == len(part.target) == len(part.besides) == 0


def test_rows_are_read_as_they_were_when_the_reading_began(place):
    found = place("postgresql")
    table = found.engine.make({"record": "INTEGER", "y": "INTEGER"}, [[str(row), "1"] for row in range(10)])
    parts = found.reader(table).parts(Asked(Schema(AT, Classes([0, 1], name="y"))))
    n_rows = len(next(parts).features)
    found.engine.execute(f"DELETE FROM {table}")
    assert n_rows < 10
    assert n_rows + sum(len(part.features) for part in parts) == 10


def test_a_lost_connection_is_an_error_without_the_words_of_the_engine(place):
    found = place("postgresql")
    table = found.engine.make({"record": "INTEGER", "y": "TEXT"}, [[str(row), f"'{SECRET}'"] for row in range(10)])
    parts = found.reader(table).parts(Asked(Schema(AT, Classes([SECRET], name="y")), with_target=True))
    next(parts)
    found.engine.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader' AND state LIKE 'idle in%'"
    )
    with pytest.raises(TableError, match="the connection was lost") as caught:
        list(parts)
    assert caught.value.__suppress_context__
    assert SECRET not in str(caught.value)
