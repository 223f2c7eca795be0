"""Tables in databases: read in one snapshot by whoever may only read, refused in one sentence, and left as they were."""

import threading
from contextlib import closing

import ibis
import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from tests.conformance.conformance import answers, assert_same, in_memory
from tests.conformance.postgres_server import DATABASE, READER, as_root, connect, write_table
from tests.neighbours.databases import REFUSED, SECRET, Place

from dpforest import Bounded, Budget, Categorical, Classes, Date, DPForestClassifier, Numeric, Schema
from dpforest.errors import ParameterError, TableError
from dpforest.records.doors import open_source, seal_elsewhere, shown_address
from dpforest.records.source import Asked
from dpforest.records.sources import database as databases
from dpforest.records.sources.casts import identifier

N_ROWS = 300
SCHEMA = Schema({"x": Numeric(0, 1), "city": Categorical(["Oslo", "Rome"])}, Classes([0, 1], name="y"))
HOSTILE = """it's a "t"; DROP TABLE t; --"""
ENGINES = ["duckdb", "sqlite", pytest.param("postgresql", marks=pytest.mark.server)]
every_engine = pytest.mark.parametrize("engine", ENGINES)


def a_table(n_rows=N_ROWS):
    x = np.linspace(0, 1, n_rows)
    return pa.table({"x": x, "city": ["Oslo", "Rome"] * (n_rows // 2), "y": (x > 0.5).astype(np.int64)})


class Filled(Place):
    """One that can have a table with rows to learn from."""

    def fill(self, name="ward"):
        """The address of a table with rows to learn from."""
        address = self.write(name, {"x": "DOUBLE PRECISION", "city": "VARCHAR(9)", "y": "BIGINT"})
        rows = ", ".join(f"({x!r}, '{city}', {y})" for x, city, y in zip(*a_table().to_pydict().values(), strict=True))
        self.run(f"INSERT INTO {identifier(name)} VALUES {rows}")
        return address

    def names(self):
        """The names of all tables, also of temporary ones."""
        where = "pg_class WHERE relkind IN ('r', 'v') AND relnamespace::regnamespace::text !~ '^pg_[ct]|^inf'"
        if self.engine != "postgresql":
            where = "information_schema.tables" if self.engine == "duckdb" else "sqlite_master"
        column = {"postgresql": "relname", "duckdb": "table_name", "sqlite": "name"}[self.engine]
        return sorted(name for (name,) in self.run(f"SELECT {column} FROM {where}"))


@pytest.fixture
def place(engine, tmp_path, request):
    return Filled(engine, tmp_path, request)


def fit(table, schema=SCHEMA, **settings):
    return DPForestClassifier(schema, **{"epsilon": 4.0, "max_depth": 3} | settings).fit(table)


@every_engine
def test_whoever_may_only_read_fits_by_default_and_nothing_is_written_or_held(place):
    address, tables = place.fill(), place.names()
    # Twice: one that counts rows before its sample, and one that draws no sample.
    for settings in ({}, {"delta": 1e-6}):
        assert fit(address, **settings).predict([[0.9, "Oslo"]]).tolist() in ([0], [1])
        assert place.names() == tables
    with pytest.raises(TableError, match="'weight'"):
        fit(address, Schema({"weight": Numeric(0, 1)}, SCHEMA.target))
    with pytest.raises(ParameterError):
        fit(address, recipe="no-such-recipe")
    place.run('DROP TABLE "ward"')  # waits for nobody


@every_engine
def test_a_query_is_as_good_as_a_table_and_names_may_be_anything(place):
    expected = answers(in_memory(a_table(), SCHEMA))
    place.fill(HOSTILE)
    doubled = f"SELECT x AS x, city, y FROM {identifier(HOSTILE)} WHERE y >= 0 -- every row"
    addresses = [f"{place.address}::{HOSTILE}", f"{place.address}::({doubled}\n)"]
    schemas = {"sqlite": "main", "duckdb": "main", "postgresql": "public"}
    for address in (*addresses, f"{place.address}::{schemas[place.engine]}.{HOSTILE}"):
        with closing(seal_elsewhere(address, SCHEMA, 1)) as vault:
            assert_same(answers(vault), expected)


@every_engine
def test_a_table_of_ibis_is_read_as_by_its_address(place, tmp_path):
    place.fill()
    backend = connect(place.server) if place.server else getattr(ibis, place.engine).connect(tmp_path / "t.db")
    with closing(seal_elsewhere(backend.table("ward").filter(ibis._.y >= 0), SCHEMA, 1)) as vault:
        assert_same(answers(vault), answers(in_memory(a_table(), SCHEMA)))
    backend.disconnect()


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_rows_that_come_meanwhile_are_not_seen(place):
    address = place.fill()
    if place.engine == "sqlite":
        place.run("PRAGMA journal_mode = WAL")
    with closing(open_source(address)) as source:
        counts = []
        for _ in range(2):
            counts.append(sum(len(part.features) for part in source.chunks(Asked(SCHEMA, with_target=True))))
            place.run("INSERT INTO ward VALUES (0.5, 'Oslo', 1)")
    assert counts == [N_ROWS, N_ROWS]


@every_engine
@pytest.mark.slow
def test_unknown_types_are_refused_by_name_before_a_charge_whatever_the_rows(place, tmp_path):
    budget = Budget.open(tmp_path / "budget.db", dataset="ward", epsilon=9.0)
    for kind, value in REFUSED[place.engine].items():
        told = set()
        for rows in ([], [["1", value]]):
            with pytest.raises(TableError) as caught:
                fit(place.write("odd", {"y": "INTEGER", "v": kind}, rows), Schema({"v": Numeric(0, 1)}, SCHEMA.target),
                    budget=budget)  # fmt: skip
            told.add(str(caught.value))
        assert len(told) == 1, kind
        assert "'v'" in told.pop()
    address = place.write("dated", {"v": "VARCHAR(9)", "y": "INTEGER"})
    if place.engine != "sqlite":  # which has no dates but as text
        with pytest.raises(TableError, match="'v' is declared date"):
            fit(address, Schema({"v": Date()}, SCHEMA.target), budget=budget)
    with pytest.raises(TableError, match="'v'"):
        open_source(address).empty(Asked(Schema({"y": Numeric(0, 1)}, Bounded(0, 1, name="v")), with_target=True))
    assert budget.spent == 0


def refused(call):
    """The words of an error, behind which there is no other."""
    with pytest.raises((TableError, ParameterError)) as caught:
        call()
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


@every_engine
def test_a_failing_query_and_a_table_that_is_not_there_say_nothing_of_rows(place):
    place.write("words", {"word": "VARCHAR(30)", "y": "INTEGER"}, [[f"'{SECRET}'", "1"]])
    failing = "CAST(json_extract(word, '$.a') AS REAL)" if place.engine == "sqlite" else "CAST(word AS INTEGER)"
    schema = Schema({"x": Numeric(0, 1)}, SCHEMA.target)
    said = [refused(lambda: fit(f"{place.address}::(SELECT {failing} AS x, y FROM words)", schema))]
    said.append(refused(lambda: fit(f"{place.address}::(SELECT nothing FROM words)", schema)))
    said.append(refused(lambda: fit(f"{place.address}::wrds", schema)))
    assert SECRET not in "".join(said)
    assert "mistake" in said[1]
    assert said[2].startswith("There is no table 'wrds'")
    assert said[2].endswith(" Is it 'words'?")


@pytest.mark.server
def test_settings_of_an_address_and_of_a_connection_are_kept_or_refused(server):
    good = server.url(READER, DATABASE)
    with as_root(server) as root:
        write_table(root, "ward", a_table(20))
        root.execute(f"CREATE SCHEMA IF NOT EXISTS elsewhere; GRANT USAGE ON SCHEMA elsewhere TO {READER}")
        root.execute("DROP TABLE IF EXISTS elsewhere.ward; CREATE TABLE elsewhere.ward AS SELECT * FROM ward LIMIT 6")
        root.execute(f"GRANT SELECT ON elsewhere.ward TO {READER}")
    assert "as safe as was asked for" in refused(lambda: fit(f"{good}?sslmode=require::ward"))
    with pytest.raises(ParameterError, match="there may be sslmode") as caught:
        open_source(f"{good}?passfile=walrus-secret::ward")
    assert "walrus" not in str(caught.value)
    for wrong in ("sslmode=bogus", "sslmode", "options=-ca%3Db&options=-cc%3Dd"):
        with pytest.raises(ParameterError):
            open_source(f"{good}?{wrong}::ward")
    assert shown_address(f"{good}?sslrootcert=/a+b.crt::ward").endswith("?sslrootcert=/a%2Bb.crt::ward")
    backend = connect(server, options="-c search_path=elsewhere")
    for table in (f"{good}?options=-csearch_path%3Delsewhere::ward", backend.table("ward")):
        with closing(open_source(table)) as source:
            assert sum(len(part.features) for part in source.chunks(Asked(SCHEMA))) == 6
    backend.disconnect()


@pytest.mark.server
def test_each_failure_of_a_server_is_one_sentence_without_a_password_or_a_row(server, monkeypatch):
    with as_root(server) as root:
        write_table(root, "ward", a_table())
        write_table(root, "closed", a_table())
        root.execute(sql.SQL("REVOKE ALL ON closed FROM {}").format(sql.Identifier(READER)))
    good = server.url(READER, DATABASE)
    cases = {
        f"{good.replace(server.password, 'walrus-secret')}::ward": "refused the account",
        f"{good.replace(str(server.port), '1')}::ward": "No server answers",
        f"{server.url(READER, 'nowhere')}::ward": "no such database",
        f"{good}::closed": "may not read 'closed'. It needs SELECT",
        f"{good}::(SELECT * FROM closed)": "may not read what the query asks for",
    }
    for address, sentence in cases.items():
        said = refused(lambda address=address: fit(address))
        assert sentence in said
        assert "walrus-secret" not in said
        assert server.password not in said
    assert server.password not in repr(open_source(f"{good}::ward"))
    monkeypatch.setattr(databases, "PART_ROWS", 10)
    with as_root(server) as root:
        waiting = "x + LENGTH(CAST(pg_sleep(0.05 * y) AS TEXT)) AS x"
        root.execute(f"CREATE OR REPLACE VIEW slow AS SELECT {waiting}, city, y FROM ward")
        ended = threading.Timer(1.0, end_connections, [server])
        ended.start()
        said = refused(lambda: fit(f"{good}::slow"))
        ended.join()
        root.execute("DROP VIEW slow")
    assert "was lost, so not all rows were read. What was charged stays charged." in said
    assert server.password not in said


def end_connections(server):
    with psycopg.connect(server.url("postgres", DATABASE), autocommit=True) as root:
        root.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [READER])


@every_engine
def test_a_table_that_is_closed_gives_no_more_rows_to_whoever_still_holds_a_part(place, monkeypatch):
    """An error may, and DuckDB waits for it, without end, when the same file is opened again."""
    monkeypatch.setattr(databases, "PART_ROWS", 10)
    address = place.fill()
    source = open_source(address)
    parts = source.chunks(Asked(SCHEMA))
    next(parts)
    source.close()
    with pytest.raises(TableError, match="was closed while it was read"):
        next(parts)
    with closing(open_source(address)) as again:
        assert next(again.chunks(Asked(SCHEMA))).features.num_rows


@pytest.mark.parametrize("scheme", ["snowflake", "bigquery", "grpc", "grpc+tls", "flightsql"])
def test_engines_that_were_not_tried_are_refused_without_their_password(scheme):
    said = refused(lambda: fit(f"{scheme}://me:walrus-secret@host/base::t"))
    assert "not read yet" in said
    assert "walrus-secret" not in said


def test_a_table_of_an_engine_that_was_not_tried_is_refused_by_name():
    backend = ibis.polars.connect({"t": ibis.memtable({"a": [1]}).to_polars()})
    assert "'polars' are not read yet" in refused(lambda: fit(backend.table("t")))
