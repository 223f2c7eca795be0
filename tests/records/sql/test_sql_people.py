"""Which rows of a person a database uses: a function of the person's own rows and a key, whoever else is there."""

import hashlib
import itertools
from collections import Counter, defaultdict
from uuid import UUID

import ibis
import numpy as np
import pyarrow as pa
import pytest

from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.people import People
from dpforest.records.sql import people
from dpforest.records.sql.coins import draw_key
from dpforest.records.sql.people import Persons
from dpforest.records.sql.session import Session
from dpforest.records.sql.vault import SqlVault
from dpforest.schema import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.schema.domain import Domain, Grid

SCHEMA = Schema({"x": Numeric(0, 9), "w": Categorical(["a", "b"])}, Classes([0, 1], name="y"))


@pytest.fixture(scope="module")
def duck():
    connection = ibis.duckdb.connect()
    yield connection
    connection.disconnect()


@pytest.fixture(params=[True, False], ids=["temporary tables", "no tables"])
def temporary(request):
    return request.param


def visits(rng, persons, n_rows):
    """Rows of some persons, many of them equal, and some without a target."""
    return [
        (int(rng.choice(persons)), float(rng.integers(0, 3)), str(rng.choice(["a", "b", "A"])), int(rng.integers(0, 3)))
        for _ in range(n_rows)
    ]


def stored(duck, rows):
    columns = dict(zip(["person", "x", "w", "y"], map(list, zip(*rows, strict=True)), strict=True))
    duck.create_table("given", pa.table(columns), overwrite=True)
    # By this collation "a" and "A" would be the same, and rows that differ would have no order.
    duck.con.execute("CREATE OR REPLACE TABLE visits (person BIGINT, x DOUBLE, w VARCHAR COLLATE NOCASE, y BIGINT)")
    duck.con.execute("INSERT INTO visits SELECT * FROM given")
    return duck.table("visits")


def rows_used(vault):
    """The rows that a vault uses, each as often as it does, with the texts of their ids."""
    table, session = vault._table, vault._session
    chosen = session.compiled(table.select(p=table["person"].cast("string"), x=table["x"], w=table["w"], y=table["y"]))
    answer = session._answer(f"SELECT p, x, w, y FROM {chosen.name}", chosen)
    return Counter(zip(*(np.asarray(answer[name]).tolist() for name in "pxwy"), strict=True))


def used(duck, rows, most=2, seed=5, temporary=True):
    with SqlVault.seal(stored(duck, rows), SCHEMA, temporary, "person", People(most, Entropy(seed))) as vault:
        return rows_used(vault)


def expected(rows, most, key):
    """The same draw, row by row."""
    of_person = defaultdict(list)
    for person, *rest in rows:
        if rest[-1] in (0, 1):
            of_person[person].append(tuple(rest))
    drawn = Counter()
    for person, own in of_person.items():
        name = hashlib.md5(str(person).encode()).hexdigest()
        coins = [hashlib.md5(f"{key}{name},{n},".encode()).hexdigest() for n in range(1, len(own) + 1)]
        ranked = sorted(zip(coins, sorted(own), strict=True))
        drawn.update((str(person), *row) for _, row in ranked[:most])
    return drawn


@pytest.mark.parametrize("seed", range(2))
def test_the_rows_that_are_used_are_those_of_the_smallest_digests(duck, temporary, seed):
    rng = np.random.default_rng(seed)
    rows, most = visits(rng, range(6), 60), int(rng.integers(1, 5))
    assert used(duck, rows, most, seed, temporary) == expected(rows, most, draw_key(Entropy(seed)))


@pytest.mark.parametrize("seed", range(3))
def test_for_every_key_a_person_more_adds_k_records_at_most_and_changes_no_other(duck, temporary, seed):
    rng = np.random.default_rng(seed)
    others, own = visits(rng, range(1, 6), 40), visits(rng, [0], int(rng.integers(0, 12)))
    together = [*others, *own]
    shuffled = [together[place] for place in rng.permutation(len(together))]
    fewer, more = (used(duck, rows, 3, seed, temporary) for rows in (others, shuffled))
    assert more == used(duck, shuffled[::-1], 3, seed, temporary)
    assert not fewer - more
    added = more - fewer
    assert {person for person, *_ in added} <= {"0"}
    assert sum(added.values()) == min(3, sum(row[-1] in (0, 1) for row in own))


@pytest.mark.slow
def test_a_vault_is_about_one_draw_which_is_gone_when_it_is_closed_and_two_vaults_about_two(duck, temporary):
    rows, n_kept = visits(np.random.default_rng(8), range(30), 400), "SELECT count(*) FROM duckdb_tables() WHERE temporary"
    found = []
    for _ in range(2):
        with SqlVault.seal(stored(duck, rows), SCHEMA, temporary, "person", People(2, Entropy())) as vault:
            assert duck.con.execute(n_kept).fetchone()[0] == 0  # nothing is read until it is asked for
            found.append(rows_used(vault))
            assert found[-1] == rows_used(vault)
            assert vault.count()._value == [found[-1].total()]
            assert vault.encode(Domain.of(SCHEMA, Grid(bins=3))) is not None
            assert (duck.con.execute(n_kept).fetchone()[0] > 0) == temporary
        assert duck.con.execute(n_kept).fetchone()[0] == 0
    # All of some 30 persons would have to have the same of at least 15 pairs of rows.
    assert found[0] != found[1]


# Ids as they are written in a column of a type, and which of them are one person; None is nobody.
ALIKE = {
    "VARCHAR": [("'a'", 0), ("'A'", 1), ("'a '", 2), ("''", None), ("NULL", None)],
    "TEXT": [("'NaN'", 0), ("'\u00e9'", 1), ("'e\u0301'", 2)],
    "VARCHAR COLLATE NOCASE": [("'a'", 0), ("'A'", 1), ("'a'", 0)],
    "VARCHAR COLLATE NOACCENT": [("'e'", 0), ("'é'", 1), ("'e'", 0)],
    "DOUBLE": [("0.0", 0), ("'-0.0'", 0), ("'NaN'", None), ("NULL", None), ("'inf'", 1), ("'-inf'", 2), ("1e300", 3)],
    "FLOAT": [("0.0", 0), ("'-0.0'", 0), ("'NaN'", None), ("0.1", 1), ("0.1", 1)],
    "DECIMAL(9,2)": [("1.00", 0), ("1", 0), ("1.01", 1), ("NULL", None)],
    "HUGEINT": [("170141183460469231731687303715884105727", 0), ("170141183460469231731687303715884105726", 1)],
    "BOOLEAN": [("true", 0), ("false", 1), ("NULL", None), ("true", 0)],
    "UUID": [(f"'{UUID(int=7)}'", 0), (f"'{UUID(int=8)}'", 1), (f"'{UUID(int=7)}'", 0), ("NULL", None)],
    "ENUM('a', 'A')": [("'a'", 0), ("'A'", 1), ("'a'", 0)],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALIKE)
def test_ids_are_one_person_if_they_are_equal_and_missing_ones_are_nobody(duck, temporary, kind):
    rows = [(written, person) for written, person in ALIKE[kind] for _ in range(4)]
    duck.con.execute(f"CREATE OR REPLACE TABLE visits (person {kind}, x DOUBLE, w VARCHAR, y INTEGER)")
    duck.con.execute("INSERT INTO visits VALUES " + ", ".join(f"({written}, 1, 'a', 0)" for written, _ in rows))
    sizes = Counter(person for _, person in rows if person is not None)
    for most in (1, 4, 5):
        with SqlVault.seal(duck.table("visits"), SCHEMA, temporary, "person", People(most, Entropy())) as vault:
            assert vault.count()._value == [sum(min(size, most) for size in sizes.values())]


REFUSED = {
    "DATE": "'2020-01-01'", "TIMESTAMP": "'2020-01-01'", "INTERVAL": "'1 day'", "BLOB": "'a'", "INTEGER[]": "[1]",
    "STRUCT(a INTEGER)": "{'a': 1}", "JSON": "'[1]'", "TIME": "'10:00'",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", REFUSED)
def test_types_that_ids_cannot_have_are_refused_whatever_is_in_the_column(duck, kind):
    told = set()
    for values in ([], [REFUSED[kind]], ["NULL"]):
        duck.con.execute(f"CREATE OR REPLACE TABLE visits (person {kind}, x DOUBLE, w VARCHAR, y INTEGER)")
        for value in values:
            duck.con.execute(f"INSERT INTO visits VALUES ({value}, 1, 'a', 0)")
        with pytest.raises(TableError, match=r"'person', named by groups, has .*numbers, text or UUIDs") as caught:
            SqlVault.seal(duck.table("visits"), SCHEMA, None, "person", People(2, Entropy()))
        told.add(str(caught.value))
    assert len(told) == 1


def test_every_subset_comes_from_as_many_orders_of_the_digests(duck, monkeypatch):
    """All orders of four digests are tried, for a person with two equal rows beside a second person."""
    rows = [(1, 1.0, "a", 0), (1, 1.0, "a", 0), (1, 1.0, "b", 0), (1, 2.0, "a", 1), (2, 2.0, "a", 1)]
    table, session, subsets = stored(duck, rows), Session(duck, None), Counter()
    for order in itertools.permutations("wxyz"):
        coins = " ".join(f"WHEN {number} THEN '{coin}'" for number, coin in enumerate(order, 1))
        monkeypatch.setattr(people, "digest", lambda key, values, coins=coins: f"CASE {values[-1]} {coins} END")
        drawn = Persons("person", 2).drawn(table, SCHEMA, session, "")
        found = session._answer(f"SELECT f0, f1, f3 FROM {drawn.name}", drawn)
        used = [(x, w) for x, w, person in zip(found["f0"], found["f1"], found["f3"], strict=True) if person == 1]
        subsets["".join(sorted(f"{w}{x:.0f}" for x, w in used))] += 1
    session.close()
    assert subsets == {"a1a1": 4, "a1b1": 8, "a1a2": 8, "a2b1": 4}


def test_an_engine_that_may_take_other_ids_for_the_same_or_has_no_md5_is_refused(duck, monkeypatch):
    table = stored(duck, [(1, 1.0, "a", 0)])
    session = Session(duck, None)
    monkeypatch.setattr(people, "READERS", ())
    with pytest.raises(TableError, match="DuckDB and PostgreSQL only, not in 'duckdb'"):
        Persons("person", 2).check(table, SCHEMA, session)
    monkeypatch.undo()
    Persons("person", 2).check(table, SCHEMA, session)
    monkeypatch.setattr(people, "_md5", lambda text: "another")
    with pytest.raises(TableError, match=r"cannot draw rows by the ids in column 'person'.*md5"):
        Persons("person", 2).check(table, SCHEMA, session)
    session.close()


def test_rows_without_a_number_take_no_place_and_another_range_is_of_the_same_rows(duck, temporary):
    schema = Schema({"x": Numeric(0, 9)}, Bounded(0, 9, name="y"))
    columns = {"person": ["a"] * 8 + ["b"], "x": [1.0] * 9, "y": [1.0, 2.0, 30.0, -40.0, *[None] * 4, 5.0]}
    table = duck.create_table("values", pa.table(columns), overwrite=True)
    with SqlVault.seal(table, schema, temporary, "person", People(3, Entropy())) as vault:
        assert vault.count()._value == [4]
        edges = np.array([-9.0, 0.0, 1.5, 9.0])
        counts = vault.count_targets(edges)._value
        assert counts.sum() == 4
        narrowed = vault.narrowed(Bounded(0, 4, name="y"))
        assert narrowed.count()._value == [4]
        np.testing.assert_array_equal(narrowed.count_targets(edges)._value, counts)
