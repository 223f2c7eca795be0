"""A real PostgreSQL server: accounts and their rights, a connection that is lost, and the bytes that cross it."""

import math
import socket
import threading
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from tests.conformance.conformance_tables import easy
from tests.conformance.postgres_server import DATABASE, KEEPER, READER, connect, write_table

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.errors import ParameterError, TableError
from dpforest.mechanisms import Entropy
from dpforest.records.base import AllTrees
from dpforest.records.vault import Vault
from dpforest.records.sql.addresses import open_table
from dpforest.records.sql.vault import NOT_KEPT, SqlVault
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.server


@pytest.fixture
def filled(root):
    """A function that makes a table that both accounts may read."""
    return partial(write_table, root)


@pytest.fixture
def reader(server):
    connection = connect(server, READER)
    yield connection
    connection.disconnect()


def test_temporary_tables_are_used_by_those_who_may_make_them(keeper, reader, filled):
    table, schema = easy(10)
    name = filled("rights", table)
    for connection in (keeper, reader):
        with SqlVault.seal(connection.table(name), schema) as vault:
            assert vault.temporary == (connection is keeper)


def test_an_account_that_may_only_read_trains_and_is_told_what_it_cannot(server, filled):
    table, schema = easy(300, named=False)
    filled("t", table)
    rows = open_table(f"{server.url(READER, DATABASE)}::public.t")
    model = DPForestClassifier(schema, epsilon=math.inf, recipe="friedman-schuster-2010", random_state=1).fit_table(rows)
    X, y = table.drop_columns("y"), table.column("y")
    expected = DPForestClassifier(schema, epsilon=math.inf, recipe="friedman-schuster-2010", random_state=1).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    refused = DPForestClassifier(schema, epsilon=1, recipe="patil-singh-2014")
    with pytest.raises(ParameterError) as caught:
        refused.fit_table(rows)
    assert NOT_KEPT in str(caught.value)
    assert not hasattr(refused, "ledger_")  # refused before there was anything to charge
    rows.get_backend().disconnect()


def test_an_account_that_only_reads_sees_the_table_as_it_was_when_the_fit_began(reader, root, filled):
    table, schema = easy(100, named=False)
    with SqlVault.seal(reader.table(filled("changing", table)), schema) as vault:
        assert vault.count()._value == 100
        root.execute("DELETE FROM changing")
        assert vault.count()._value == 100
    with SqlVault.seal(reader.table("changing"), schema) as vault:
        assert vault.count()._value == 0


def test_temporary_tables_are_dropped_and_a_changed_table_does_not_matter_once_copied(keeper, root, filled):
    table, schema = easy(100, named=False)
    with SqlVault.seal(keeper.table(filled("changing", table)), schema) as vault:
        counter = vault.encode(Domain.of(schema, Grid()))
        root.execute("DELETE FROM changing")
        counter.deal(AllTrees(1), Entropy())
        assert counter.count_nodes(0, 1)._value.sum() == 100
        assert _temporary(keeper) == 1
    assert _temporary(keeper) == 0


def _temporary(connection):
    return connection.con.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'dpforest%'").fetchone()[0]


def test_wrong_names_and_passwords_are_refused_without_repeating_them(server):
    for address, said in [
        (f"postgresql://{KEEPER}:hush@127.0.0.1:{server.port}/{DATABASE}::t", "No connection"),
        (f"postgresql://nobody:hush@127.0.0.1:{server.port}/{DATABASE}::t", "No connection"),
        (server.url(KEEPER, DATABASE) + "::nothing", "There is no table 'nothing'"),
        (server.url(KEEPER, DATABASE).replace(DATABASE, "elsewhere") + "::t", "No connection to database 'elsewhere'"),
    ]:
        with pytest.raises(TableError, match=said) as caught:
            open_table(address)
        assert "hush" not in str(caught.value)
        assert server.password not in str(caught.value)


def test_a_connection_that_the_server_ends_stops_the_fit_and_its_charges_stand(server, root, filled):
    table, schema = easy(200, named=False)
    rows = open_table(f"{server.url(KEEPER, DATABASE)}::{filled('t', table)}")
    model = DPForestClassifier(schema, epsilon=1, recipe="friedman-schuster-2010", max_depth=3)

    def end_it(step):
        if "level 1" in str(step):
            root.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper'")

    with pytest.raises(TableError, match="connection was lost"):
        model.fit_table(rows, progress=end_it)
    assert 0 < model.ledger_.spent < 1
    assert not hasattr(model, "forest_")


@contextmanager
def counting_proxy(port):
    """A port that passes everything on, and the list of how many bytes came back each time."""
    received: list[int] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source, sink, counts):
        try:
            while chunk := source.recv(1 << 16):
                counts.append(len(chunk))
                sink.sendall(chunk)
        except OSError:
            pass
        finally:
            sink.close()

    def accept():
        try:
            while True:
                client, _ = listener.accept()
                upstream = socket.create_connection(("127.0.0.1", port))
                threading.Thread(target=pump, args=(client, upstream, []), daemon=True).start()
                threading.Thread(target=pump, args=(upstream, client, received), daemon=True).start()
        except OSError:
            pass

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], received
    finally:
        listener.close()


def few_cells(n_rows):
    """A table all of whose cells are filled at 1,000 rows already."""
    rng = np.random.default_rng(n_rows)
    columns = {"a": rng.integers(0, 3, n_rows), "b": rng.choice(["u", "v"], n_rows), "y": rng.integers(0, 2, n_rows)}
    schema = Schema({"a": Numeric(0, 2, integer=True), "b": Categorical(["u", "v"])}, Classes([0, 1], name="y"), n_rows=1000)
    return pa.table({**columns, "b": pa.array(columns["b"].tolist())}), schema


def test_bytes_that_come_from_the_server_do_not_grow_with_the_rows(server, filled):
    crossed = {}
    for n_rows in (1_000, 20_000):
        table, schema = few_cells(n_rows)
        filled("few", table)
        with counting_proxy(server.port) as (port, received):
            connection = connect(server, KEEPER, port)
            rows = connection.table("few")
            received.clear()
            model = DPForestClassifier(schema, epsilon=math.inf, recipe="jagannathan-2009", n_trees=4, max_depth=2)
            model.set_params(random_state=2).fit_table(rows)
            crossed[n_rows] = sum(received)
            connection.disconnect()
    assert 0 < crossed[1_000] < 20_000
    # Numbers have more digits where there are more rows.
    assert crossed[20_000] <= 1.1 * crossed[1_000]


def test_codes_are_those_of_memory_whatever_collation_and_quotes_say(keeper, filled):
    words = ["it's", 'a"b', "\\", "%", "aa", "AA", "ÅÅ", "", " "]
    table = pa.table({"w": words * 3, "y": [0, 1, 1] * 9})
    schema = Schema({"w": Categorical(words[::-1])}, Classes([0, 1], name="y"))
    counts = []
    with SqlVault.seal(keeper.table(filled("words", table)), schema) as vault:
        for source in (vault, Vault.seal(table.select(["w"]), table.column("y"), schema)):
            counter = source.encode(Domain.of(schema, Grid()))
            counter.deal(AllTrees(1), Entropy())
            counts.append(counter.count_codes(0, np.ones((1, 1), dtype=bool))._value)
    np.testing.assert_array_equal(*counts)
