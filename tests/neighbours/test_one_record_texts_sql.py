"""One text in a database, of any bytes and of any length, decides neither success, nor charges, nor how others are read."""

import duckdb
import psycopg
import pytest
from tests.conformance.postgres_server import ROOT, as_root
from typer.testing import CliRunner

from dpforest import Budget, Categorical, Classes, DPForestClassifier, Schema
from dpforest.cli.main import commands
from dpforest.errors import TableError
from dpforest.records.categories import text_codes
from dpforest.records.columns import read_columns, to_objects
from dpforest.records.reader import Asked, joined
from dpforest.records.sql.addresses import open_table
from dpforest.records.sql.vault import SqlVault
from dpforest.records.tables import open_reader
from dpforest.schema import LONGEST_TEXT

pytestmark = pytest.mark.slow

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
        rows = joined(open_reader(address).parts(Asked(SCHEMA, with_target=True, besides=["id"])))
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
        open_reader(f"{server.url(ROOT, 'in_tw')}::t").parts(Asked(LEARN))


LONG, LISTED = "é" * LONGEST_TEXT, "w" * (LONGEST_TEXT + 5)
LONG_TEXTS = ["b", LONG, LONG + "a", LONG + "b" * 90_000, LISTED, LISTED + "w", LISTED[:-1], None]


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("postgresql", marks=pytest.mark.server)])
def test_of_a_long_text_no_more_is_carried_than_tells_it_apart(request, tmp_path, engine):
    """So no text makes a batch longer than Arrow or a driver can hold, and ids that differ stay different."""
    rows = [(text, text, text) for text in LONG_TEXTS]
    if engine == "duckdb":
        address = f"duckdb:///{tmp_path}/t.db::long"
        with duckdb.connect(tmp_path / "t.db") as connection:
            connection.execute("CREATE TABLE long (id TEXT, town TEXT, word TEXT)")
            connection.executemany("INSERT INTO long VALUES (?, ?, ?)", rows)
    else:
        server = request.getfixturevalue("server")
        address = f"{server.url(ROOT, 'ward')}::long"
        with as_root(server) as root, root.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS long")
            cursor.execute("CREATE TABLE long (id text, town text, word text)")
            cursor.executemany("INSERT INTO long VALUES (%s, %s, %s)", rows)
    schema = Schema({"town": Categorical(["b", LISTED]), "word": Categorical()}, SCHEMA.target)
    part = joined(open_reader(address).parts(Asked(schema, besides=["id"])))
    assert max(len(text) for column in part.features for text in column.to_pylist() if text) < LONGEST_TEXT + 100
    assert len(set(part.besides.column("id").to_pylist())) == len(LONG_TEXTS)
    towns, words = (column.to_pylist() for column in part.features.columns)
    assert [towns.index(text) for text in ("b", LISTED)] == [0, 4]
    assert towns.count(LISTED) == 1
    read, expected = (text_codes(to_objects(texts), Categorical()).tolist() for texts in (words, LONG_TEXTS))
    assert read == expected
    assert len({*expected[1:4]}) == 1  # by their first characters
