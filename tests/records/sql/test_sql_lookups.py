"""Lookups that queries make in few steps: a bin by a key, a bin around a centre by a logarithm, a long list by a join."""

import ibis
import numpy as np
import pyarrow as pa
import pytest
from tests.conformance.postgres_server import KEEPER, as_root, connect
from tests.support.coded import fetched

from dpforest import Categorical, Classes, Numeric, Schema
from dpforest.records.columns import read_columns, read_target
from dpforest.records.memory.vault import encode
from dpforest.records.sql import scales as sql_scales
from dpforest.records.sql.codes import LONG_LIST, Codes, feature_codes, target_code
from dpforest.records.sql.keys import found_by_key
from dpforest.records.sql.session import Session
from dpforest.records.sql.vault import SqlVault
from dpforest.schema.domain import Domain, Grid
from dpforest.schema.scales import LEAST, MISSING, MOST, bin_of, distances

pytestmark = pytest.mark.slow

HUGE, TINY = np.finfo(float).max, np.finfo(float).smallest_subnormal
CUTS = {
    "even": np.linspace(-0.3, 0.7, 20),
    "crowded": np.sort(np.random.default_rng(0).normal(size=300) ** 9),
    "one": np.array([0.1]),
    "none": np.array([]),
    "beside one another": np.nextafter(1.0, np.inf) + np.arange(5) * np.finfo(float).eps,
    "of every scale": Grid(scales=True).cuts(Numeric()),
    "as far apart as can be": np.array([-HUGE, -1.0, 0.0, TINY, 1.0, HUGE]),
    "subnormal": TINY * np.arange(1, 9),
}


@pytest.fixture
def duck():
    connection = ibis.duckdb.connect()
    yield connection
    connection.disconnect()


def beside(numbers):
    """Some numbers, and the floats next to each."""
    with np.errstate(over="ignore"):
        return np.concatenate([numbers, np.nextafter(numbers, np.inf), np.nextafter(numbers, -np.inf)])


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_a_number_has_reached_as_many_cuts_as_comparisons_say(duck, cuts):
    numbers = np.concatenate([beside(cuts), [np.inf, -np.inf, 0.0, -0.0, HUGE, -HUGE, TINY, -TINY]])
    numbers = np.concatenate([numbers, np.random.default_rng(1).normal(size=500)])
    duck.create_table("t", pa.table({"v": numbers}))
    index, stages = found_by_key("v", cuts)
    source = "t"
    for stage in stages:
        source = f"(SELECT *, {', '.join(f'{text} AS {name}' for name, text in stage.items())} FROM {source})"
    found = duck.con.execute(f"SELECT v, {index} AS bin FROM {source}").fetchnumpy()
    np.testing.assert_array_equal(found["bin"], np.searchsorted(cuts, found["v"], side="right"))


def test_few_comparisons_are_left_where_cuts_are_even():
    assert len(found_by_key("v", np.linspace(0, 1, 255))[1]) == 3


def bins_in(connection, name):
    """The number of records in each bin around 0 of the column d0 of a table."""
    session = Session(connection, None)
    source = session.compiled(connection.table(name))
    found = session.fetch(sql_scales.counted(source.name, 1, connection.name), source)
    session.close()
    return np.bincount(found["cell"], found["n"], minlength=MISSING + 1)


def sizes():
    """Distances at which bins begin, those next to them, and others."""
    with np.errstate(over="ignore"):
        powers = 2.0 ** np.arange(LEAST - 20, MOST)
    found = np.unique(np.concatenate([beside(distances()[:-1]), beside(powers), [0.0, TINY, 1e-310]]))
    found = found[found < 2.0**MOST]
    return np.concatenate([found, -found])


def expected_bins():
    return np.bincount([bin_of(size, 0.0) for size in sizes()], minlength=MISSING + 1)


def test_bins_around_a_centre_begin_at_the_same_floats_as_in_memory(duck):
    duck.create_table("t", pa.table({"d0": sizes()}))
    np.testing.assert_array_equal(bins_in(duck, "t"), expected_bins())


def test_engines_without_arrays_find_the_same_bins(duck, monkeypatch):
    duck.create_table("t", pa.table({"d0": sizes()}))
    monkeypatch.setattr(sql_scales, "READERS", ())
    np.testing.assert_array_equal(bins_in(duck, "t"), expected_bins())


@pytest.mark.server
def test_bins_around_a_centre_begin_at_the_same_floats_in_postgresql(server):
    with as_root(server) as root:
        root.execute("CREATE TABLE sizes (d0 double precision)")
        with root.cursor().copy("COPY sizes FROM STDIN") as rows:
            rows.write("".join(f"{size!r}\n" for size in sizes().tolist()))
        root.execute(f"GRANT SELECT ON sizes TO {KEEPER}")
    connection = connect(server, KEEPER)
    np.testing.assert_array_equal(bins_in(connection, "sizes"), expected_bins())
    connection.disconnect()


WORDS = ["it's", 'a"b', "", "\\", "%", "a\nb", "🦓", "A", "a", "å", *(f"word {n}" for n in range(2 * LONG_LIST))]
LISTS = {
    "text": (pa.array([*WORDS, "word", "WORD 1", None]), [*WORDS, None]),
    "text without a word for missing": (pa.array([*WORDS, "b", None]), [*WORDS, "\0", 5]),
    "whole": (pa.array([*range(-5, 60), 2**62, None], pa.int64()), [*range(50), 2**62, 2**80, 0.5]),
    "small": (pa.array([*range(-5, 60), None], pa.int8()), [*range(50), 300]),
    "real": (
        pa.array([*np.arange(-3, 60) / 4, np.inf, np.nan, None], from_pandas=False),
        [*np.arange(50) / 4, 10**400, None],
    ),
}


@pytest.mark.parametrize(("column", "listed"), LISTS.values(), ids=LISTS)
def test_a_long_list_is_joined_and_has_the_codes_of_memory(duck, column, listed):
    rows = duck.create_table("t", pa.table({"x": column, "at": range(len(column))}))
    schema = Schema({"x": Categorical(listed)}, Classes([0, 1], name="y"))
    domain, session = Domain.of(schema, Grid()), Session(duck, None)
    codes = feature_codes(rows, domain, "duckdb")
    assert codes["c0"].joined
    expected = encode(read_columns(pa.table({"x": column}), schema), domain)[0]
    np.testing.assert_array_equal(fetched(session, rows, codes, "at")["c0"], expected)
    target = Classes(listed, other=listed[3], name="x")
    np.testing.assert_array_equal(
        fetched(session, rows, {"y": target_code(rows, target, "duckdb")}, "at")["y"], read_target(column, target)
    )
    session.close()


FOLDED = ["a", "A", "b", *(f"w{n}" for n in range(2 * LONG_LIST))]


def test_equal_texts_of_a_list_do_not_count_a_record_twice(duck):
    duck.raw_sql("CREATE TABLE t (x VARCHAR COLLATE NOCASE, z DOUBLE, y VARCHAR)")
    duck.raw_sql("INSERT INTO t VALUES ('A', 0, '0'), ('a', 0, '1'), ('B', 0, '1'), ('W3', 0, '0'), ('q', 0, '0')")
    rows = duck.table("t")
    with SqlVault.seal(rows, Schema({"x": Categorical(FOLDED)}, Classes(["0", "1"], name="y"))) as vault:
        counter = vault.encode(Domain.of(vault.schema, Grid()))
        found = duck.con.execute(f"SELECT c0 FROM {counter._all[0].table.name} ORDER BY c0").fetchall()
    # The first of equal texts in the list, as a comparison with each in turn would find it.
    assert [code for (code,) in found] == [0, 0, 2, FOLDED.index("w3"), len(FOLDED)]


@pytest.mark.server
def test_equal_texts_of_a_list_do_not_count_a_record_twice_in_postgresql(server):
    with as_root(server) as root:
        root.execute("CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
        root.execute("CREATE TABLE folded (x text COLLATE folded, y text)")
        root.execute("INSERT INTO folded VALUES ('A', '0'), ('a', '1'), ('B', '1'), ('W3', '0'), ('q', '0')")
        root.execute(f"GRANT SELECT ON folded TO {KEEPER}")
    connection = connect(server, KEEPER)
    schema = Schema({"x": Categorical(FOLDED)}, Classes(["0", "1"], name="y"))
    rows, session = connection.table("folded"), Session(connection, None)
    query = Codes(rows, feature_codes(rows, Domain.of(schema, Grid()), "postgres"), session)
    found = session.fetch(f"{query.select} ORDER BY c0", query.source)["c0"]
    assert found.tolist() == [0, 0, 2, FOLDED.index("w3"), len(FOLDED)]
    session.close()
    connection.disconnect()
