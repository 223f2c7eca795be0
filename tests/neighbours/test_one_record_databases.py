"""Rows that are streamed out of a database are read as in memory, whatever extreme values and texts stand beside them."""

from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from tests.conformance.postgres_server import ROOT, as_root
from tests.neighbours.databases import CASES, DATED, Place, every, schemas_of, target_roles
from tests.neighbours.one_record import outcome

from dpforest import Categorical, Classes, Numeric, Schema
from dpforest.errors import TableError
from dpforest.records.categories import text_codes
from dpforest.records.columns import read_columns, read_target, to_objects
from dpforest.records.doors import open_source
from dpforest.records.encoding import encode
from dpforest.records.people import ids_beside, person_indices
from dpforest.records.source import Asked, joined
from dpforest.records.sources import database as tables
from dpforest.schema import LONGEST_TEXT
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

AT = {"record": Numeric(0, 100)}
LABEL = Classes([0, 1], name="y")
every_engine = pytest.mark.parametrize("name", every([("duckdb",), ("postgresql",), ("sqlite",)]))


@pytest.fixture
def place(request, tmp_path):
    """A function that gives a database of an engine."""
    return lambda name: Place(name, tmp_path, request)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(tables, "PART_ROWS", 3)


def all_rows(source, schema, **asked):
    """Features and target of all rows, in the order of their column "record"."""
    with closing(source):
        part = joined(source.chunks(Asked(schema, besides=("record",), **asked)))
    order = np.argsort(part.besides.column("record").to_numpy())
    return part.features.take(order), None if part.target is None else part.target.take(order)


def codes_of(source, schema):
    features, _ = all_rows(source, schema)
    return encode(read_columns(features, schema), Domain.of(schema, Grid(bins=3)))


@pytest.mark.parametrize(("name", "kind"), every([*CASES, *DATED]))
def test_an_extreme_value_is_its_records_own_matter_and_read_as_in_memory(place, name, kind):
    found = place(name)
    for as_rows, schema in enumerate(schemas_of(kind)):
        names, held = found.pair(kind, as_rows)
        more, fewer = [], []
        told = [
            outcome(partial(lambda own, table, schema: own.extend(codes_of(open_source(table), schema)), own, table, schema))
            for own, table in zip((more, fewer), names, strict=True)
        ]
        assert told[0] == told[1]
        assert told[0].error is None
        more, fewer = np.array(more), np.array(fewer)
        np.testing.assert_array_equal(more[:, : fewer.shape[1]], fewer, err_msg=str(schema))
        columns = [to_objects([row[k] for row in held]) for k in range(len(held[0]))]
        np.testing.assert_array_equal(more, encode(columns, Domain.of(schema, Grid(bins=3))), err_msg=str(schema))
    for target in target_roles(kind)[:2]:
        own = Schema(AT, replace(target, name="v0"))
        _, read = all_rows(open_source(names[0]), own, with_target=True)
        np.testing.assert_array_equal(read_target(read, target), read_target(columns[0], target), err_msg=str(target))


@every_engine
def test_ids_are_compared_by_characters_and_by_value(place, name, request):
    """Persons of each type, by what was carried: 1.0 and 1.00 are one, as are 0.0 and -0.0."""
    found = place(name)
    cases = {"TEXT": (["'a'", "'A'", "'a'", "' '"], 2), "DOUBLE PRECISION": (["0.0", "-0.0", "0.1"], 2)}
    cases |= {"BIGINT": (["9007199254740993", "9007199254740992"], 2)}
    if name == "postgresql":
        with as_root(request.getfixturevalue("server")) as root:
            root.execute("DROP TYPE IF EXISTS numeric_code CASCADE")
            root.execute("CREATE TYPE numeric_code AS ENUM ('p', 'q')")
        cases |= {
            "numeric": (["'1.0'", "'1.00'", "'1'", "'NaN'", "'1e400'", "'Infinity'"], 3),
            "char(5)": (["'a'", "'a '"], 1),
            "numeric_code": (["'p'", "'q'"], 2),
        }
    if name != "sqlite":
        cases |= {"UUID": ([f"'00000000-0000-0000-0000-00000000000{own}'" for own in (1, 2, 1)], 2)}
    if name == "sqlite":
        cases |= {"NUMERIC": (["1", "1.5", "X'FF'", "'1'", "2"], 3)}
    for kind, (ids, n_persons) in cases.items():
        table = found.write("ids", {"record": "INTEGER", "person": kind}, [["1", own] for own in ids])
        with closing(open_source(table)) as source:
            part = joined(source.chunks(Asked(Schema(AT, LABEL), besides=["person"])))
        numbers = person_indices(ids_beside(part.besides, "person"))
        assert len({*numbers.tolist()} - {-1}) == n_persons, kind


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
        rows = joined(open_source(address).chunks(Asked(SCHEMA, with_target=True, besides=["id"])))
        words = read_columns(rows.features, SCHEMA)[1]
        found.append((rows.features.slice(0, 40), rows.target.slice(0, 40), text_codes(words, Categorical())[:40].tolist()))
    assert found[0] == found[1]
    assert found[0][0].column("town").unique().to_pylist() == ["é"]


@pytest.mark.server
def test_an_encoding_that_python_lacks_is_refused_by_its_name_before_a_row_is_read(server):
    with as_root(server) as root:
        root.execute("DROP DATABASE IF EXISTS in_tw")
        root.execute("CREATE DATABASE in_tw ENCODING 'EUC_TW' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with psycopg.connect(server.url(ROOT, "in_tw"), autocommit=True, client_encoding="UTF8") as own:
        own.execute("CREATE TABLE t (town text, ill text)")
    with pytest.raises(TableError, match="in the encoding EUC_TW, whose texts cannot be read"):
        open_source(f"{server.url(ROOT, 'in_tw')}::t").chunks(Asked(LEARN))


LONG, LISTED = "é" * LONGEST_TEXT, "w" * (LONGEST_TEXT + 5)
LONG_TEXTS = ["b", LONG, LONG + "a", LONG + "b" * 90_000, LISTED, LISTED + "w", LISTED[:-1], None]


@every_engine
def test_of_a_long_text_no_more_is_carried_than_tells_it_apart(place, name):
    """So no text makes a batch longer than Arrow or a driver can hold, and ids that differ stay different."""
    rows = [["NULL" if text is None else f"'{text}'"] * 3 for text in LONG_TEXTS]
    table = place(name).write("long", {"id": "TEXT", "town": "TEXT", "word": "TEXT"}, rows)
    schema = Schema({"town": Categorical(["b", LISTED]), "word": Categorical()}, SCHEMA.target)
    part = joined(open_source(table).chunks(Asked(schema, besides=["id"])))
    assert max(len(text) for column in part.features for text in column.to_pylist() if text) < LONGEST_TEXT + 100
    # SQLite has no digest: a long id is none there, as is the one that is missing.
    assert len(set(part.besides.column("id").to_pylist())) == len(LONG_TEXTS) - (name == "sqlite")
    towns, words = (column.to_pylist() for column in part.features.columns)
    assert [towns.index(text) for text in ("b", LISTED)] == [0, 4]
    assert towns.count(LISTED) == 1
    if name == "sqlite":  # where a text may be any bytes, of which only one begins a character
        many = place(name).write(
            "many", {"town": "TEXT", "word": "TEXT"}, [["CAST(X'C3" + "80" * 20_000 + "' AS TEXT)"] * 2]
        )
        odd = joined(open_source(many).chunks(Asked(schema))).features
        assert max(len(value) for column in odd for value in column.cast(pa.binary()).to_pylist()) < 4 * LONGEST_TEXT + 100
    read, expected = (text_codes(to_objects(texts), Categorical()).tolist() for texts in (words, LONG_TEXTS))
    assert read == expected
    assert len({*expected[1:4]}) == 1  # by their first characters
