"""Rows that are streamed out of a database have the codes of memory, whatever extreme values and texts stand beside them."""

from contextlib import ExitStack
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import psycopg
import pytest
from tests.conformance.postgres_server import DATABASE, READER, ROOT, as_root
from tests.neighbours.databases import CASES, DATED, REFUSED, SECRET, Engine, every, schemas_of, target_roles
from typer.testing import CliRunner

from dpforest import Budget, Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.cli.main import commands
from dpforest.errors import TableError
from dpforest.records.categories import text_codes
from dpforest.records.columns import read_columns, read_target, to_objects
from dpforest.records.codes import encode
from dpforest.records.source import Asked, joined
from dpforest.records.sql import streams
from dpforest.records.sql.addresses import open_table
from dpforest.records.sql.vault import SqlVault
from dpforest.records.tables import open_source
from dpforest.schema import LONGEST_TEXT
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

AT = {"record": Numeric(0, 100)}
LABEL = Classes([0, 1], name="y")
both = pytest.mark.parametrize("name", every([("duckdb",), ("postgresql",)]))


@dataclass(frozen=True)
class Place:
    """A database that is written by one connection, and read by address."""

    engine: Engine
    prefix: str

    def reader(self, table):
        return open_source(f"{self.prefix}::{table}")

    def joined(self, table, schema, **asked):
        """All rows in the order of their column "record"."""
        part = joined(self.reader(table).parts(Asked(schema, besides=("record",), **asked)))
        order = np.argsort(part.besides.column("record").to_numpy())
        return part.features.take(order), None if part.target is None else part.target.take(order)


@pytest.fixture
def place(request, tmp_path):
    """A function that gives the place of an engine."""

    def write(query):
        with duckdb.connect(tmp_path / "t.db") as connection:
            connection.execute(query)

    with ExitStack() as stack:

        def find(name):
            if name == "duckdb":
                return Place(Engine([], write, False), f"duckdb:///{tmp_path}/t.db")
            server = request.getfixturevalue("server")
            root = stack.enter_context(as_root(server))
            root.execute("SET TimeZone = 'UTC'")
            return Place(Engine([], root.execute, False), server.url(READER, DATABASE))

        yield find


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(streams, "PART_ROWS", {"duckdb": 3, "postgres": 3})


@pytest.mark.parametrize(("name", "kind"), every([*CASES, *DATED]))
def test_values_of_every_type_have_the_codes_of_memory(place, name, kind):
    found = place(name)
    for as_rows, schema in enumerate(schemas_of(kind)):
        (table, _), held = found.engine.pair(kind, as_rows)
        features, _ = found.joined(table, schema)
        columns = [to_objects([row[k] for row in held]) for k in range(len(held[0]))]
        codes = [encode(own, Domain.of(schema, Grid(bins=3))) for own in (read_columns(features, schema), columns)]
        np.testing.assert_array_equal(*codes, err_msg=str(schema))
    for target in target_roles(kind)[:2]:
        _, read = found.joined(table, Schema(AT, replace(target, name="v0")), with_target=True)
        np.testing.assert_array_equal(read_target(read, target), read_target(columns[0], target), err_msg=str(target))


@pytest.mark.parametrize(("name", "kind"), every([(name, kind) for name, kinds in REFUSED.items() for kind in kinds]))
def test_what_fit_table_refuses_is_refused_by_its_type_before_a_row_is_read(place, name, kind):
    found, told = place(name), set()
    for rows in ([], [["1", "1", REFUSED[name][kind]]]):
        table = found.engine.make({"record": "INTEGER", "y": "INTEGER", "v": kind}, rows)
        for any_type in (False, True):
            try:
                found.reader(table).parts(Asked(Schema({"v": Numeric(0, 1)}, LABEL), any_type=any_type))
                told.add(f"read {any_type}")
            except TableError as error:
                told.add(f"{any_type} {error}")
    assert len(told) == 2  # the same without a row and with one
    assert not any(words.startswith("read False") for words in told)


@both
def test_any_column_can_be_carried_as_an_id(place, name):
    """As a number or a truth value, or as the text that the database writes."""
    found, kinds = place(name), REFUSED[name]
    columns = {"record": "INTEGER", "y": "INTEGER"} | {f"v{place}": kind for place, kind in enumerate(kinds)}
    rows = [["1", "1", *kinds.values()], ["2", "0", *["NULL"] * len(kinds)]]
    table, carried = found.engine.make(columns, rows), [*columns][2:]
    part = joined(found.reader(table).parts(Asked(Schema(AT, LABEL), besides=carried)))
    assert part.besides.column_names == carried
    assert all(column.null_count == 1 for column in part.besides.columns)


@both
def test_a_table_without_rows_gives_one_part_without_rows(place, name):
    found = place(name)
    table = found.engine.make({"record": "INTEGER", "y": "INTEGER", "v": "DOUBLE PRECISION"}, [])
    (part,) = found.reader(table).parts(Asked(Schema(AT, LABEL), with_target=True, besides=("v",)))
    assert len(part.features) == len(part.target) == len(part.besides) == 0


@pytest.mark.server
def test_rows_are_read_as_they_were_when_the_reading_began(place):
    found = place("postgresql")
    table = found.engine.make({"record": "INTEGER", "y": "INTEGER"}, [[str(row), "1"] for row in range(10)])
    parts = found.reader(table).parts(Asked(Schema(AT, LABEL)))
    n_rows = len(next(parts).features)
    found.engine.execute(f"DELETE FROM {table}")
    assert n_rows < 10
    assert n_rows + sum(len(part.features) for part in parts) == 10


@pytest.mark.server
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


# --- texts of any bytes and of any length -----------------------------------------------------------------------------

SCHEMA = Schema({"town": Categorical(["é", "b"]), "word": Categorical()}, Classes(["no", "yes"], other="no", name="ill"))
# Bytes that a database of the encoding holds and UTF-8, or Python, has no character for; and é.
ODD = {"WIN1252": (b"\x81", b"\xe9"), "EUC_JP": (b"\xa9\xa1", b"\x8f\xab\xb1"), "SQL_ASCII": (b"\xff\xfe", "é".encode())}
LEARN = Schema({"town": Categorical(learn=True)}, SCHEMA.target)


def databases(server, encoding):
    """Addresses of a table and of one with an odd record more, in a database of an encoding."""
    odd, letter = ODD[encoding] if encoding in ODD else ("東京".encode(), "é".encode())
    name = f"in_{encoding.lower()}"
    with as_root(server) as root:
        root.execute(f"DROP DATABASE IF EXISTS {name}")
        root.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with psycopg.connect(server.url(ROOT, name), autocommit=True, client_encoding=encoding) as own:
        for table, more in (("less", b""), ("more", b", ('%b', '%b', '%b', '%b')" % (odd, odd, odd, odd))):
            rows = b", ".join(b"('%d', '%b', '%b', 'yes')" % (place, letter, letter) for place in range(40))
            own.execute(f"CREATE TABLE {table} (id text, town text, word text, ill text)")
            own.execute(f"INSERT INTO {table} VALUES ".encode() + rows + more)
    return [f"{server.url(ROOT, name)}::{table}" for table in ("less", "more")]


@pytest.mark.server
@pytest.mark.parametrize(
    ("encoding", "client"),
    [("WIN1252", ""), ("EUC_JP", ""), ("SQL_ASCII", ""), ("WIN1252", "LATIN1"), ("UTF8", "SQL_ASCII")],
)
def test_a_text_that_another_encoding_lacks_is_its_records_own_matter(server, monkeypatch, encoding, client):
    addresses = databases(server, encoding)
    monkeypatch.setenv("PGCLIENTENCODING", client)
    found = []
    for address in addresses:
        rows = joined(open_source(address).parts(Asked(SCHEMA, with_target=True, besides=["id"])))
        words = read_columns(rows.features, SCHEMA)[1]
        found.append((rows.features.slice(0, 40), rows.target.slice(0, 40), text_codes(words, Categorical())[:40].tolist()))
    assert found[0] == found[1]
    assert found[0][0].column("town").unique().to_pylist() == ["é"]


@pytest.mark.server
@pytest.mark.parametrize("encoding", ["WIN1252", "EUC_JP"])
def test_a_text_that_another_encoding_lacks_changes_no_charge_of_an_evaluation(server, tmp_path, encoding):
    DPForestClassifier(SCHEMA).fit([["é", "é"], ["b", "b"]] * 20, ["yes", "no"] * 20).save(tmp_path / "m.dpf")
    ended = []
    for place, address in enumerate(databases(server, encoding)):
        budget = Budget.open(tmp_path / f"{place}.db", "ward", epsilon=3.0)
        given = ["evaluate", str(tmp_path / "m.dpf"), address, "--epsilon", "1", "--budget", f"{tmp_path}/{place}.db::ward"]
        done = CliRunner().invoke(commands, given)
        ended.append((done.exit_code, str(done.exception), [(e["what"], e["state"]) for e in budget.history()]))
    assert ended[0] == ended[1]
    assert ended[0][0] == 0


@pytest.mark.server
def test_a_list_is_learnt_without_a_text_that_no_connection_can_carry(server):
    for address in databases(server, "SQL_ASCII"):
        table = open_table(address)
        with SqlVault.seal(table, LEARN) as vault:
            assert vault.count_texts("town")._value == {"é": 40}
        table.get_backend().disconnect()


@pytest.mark.server
def test_an_encoding_that_python_lacks_is_refused_by_its_name_before_a_row_is_read(server):
    with as_root(server) as root:
        root.execute("DROP DATABASE IF EXISTS in_tw")
        root.execute("CREATE DATABASE in_tw ENCODING 'EUC_TW' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with psycopg.connect(server.url(ROOT, "in_tw"), autocommit=True, client_encoding="UTF8") as own:
        own.execute("CREATE TABLE t (town text, ill text)")
    with pytest.raises(TableError, match="in the encoding EUC_TW, whose texts cannot be read"):
        open_source(f"{server.url(ROOT, 'in_tw')}::t").parts(Asked(LEARN))


LONG, LISTED = "é" * LONGEST_TEXT, "w" * (LONGEST_TEXT + 5)
LONG_TEXTS = ["b", LONG, LONG + "a", LONG + "b" * 90_000, LISTED, LISTED + "w", LISTED[:-1], None]


@both
def test_of_a_long_text_no_more_is_carried_than_tells_it_apart(place, name):
    """So no text makes a batch longer than Arrow or a driver can hold, and ids that differ stay different."""
    rows = [["NULL" if text is None else f"'{text}'"] * 3 for text in LONG_TEXTS]
    table = place(name).engine.make({"id": "TEXT", "town": "TEXT", "word": "TEXT"}, rows)
    schema = Schema({"town": Categorical(["b", LISTED]), "word": Categorical()}, SCHEMA.target)
    part = joined(place(name).reader(table).parts(Asked(schema, besides=["id"])))
    assert max(len(text) for column in part.features for text in column.to_pylist() if text) < LONGEST_TEXT + 100
    assert len(set(part.besides.column("id").to_pylist())) == len(LONG_TEXTS)
    towns, words = (column.to_pylist() for column in part.features.columns)
    assert [towns.index(text) for text in ("b", LISTED)] == [0, 4]
    assert towns.count(LISTED) == 1
    read, expected = (text_codes(to_objects(texts), Categorical()).tolist() for texts in (words, LONG_TEXTS))
    assert read == expected
    assert len({*expected[1:4]}) == 1  # by their first characters
