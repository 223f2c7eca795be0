"""Tables in DuckDB: what becomes of their values, what leaves the database, and what is refused."""

import hashlib
import math
from fractions import Fraction

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conformance.conformance import Twin, grow_at_random, in_memory
from tests.conformance.conformance_tables import easy, nasty

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import ParameterError, TableError
from dpforest.mechanisms import Entropy
from dpforest.records.base import AllTrees, OneTree, Poisson, Scored, Weighted
from dpforest.records.columns import read_columns, read_target
from dpforest.records.codes import encode
from dpforest.records.sql import coins as sql_coins
from dpforest.records.sql import placed as sql_placed
from dpforest.records.sql import session as sql_session
from dpforest.records.sql.addresses import open_table
from dpforest.records.sql.codes import check_names
from dpforest.records.sql.vault import NOT_KEPT, SqlVault
from dpforest.records.tables import open_source
from dpforest.schema import FINE_STEPS
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

SECRET = "zebra-secret-value"
HOSTILE = ['"; DROP TABLE people; --', "it's", "<script>", "a\nb", "🦓", "שלום", "x" * 60, "c0", "n0", "y", "cell"]


def names_of_tables(duck):
    return {row[0] for row in duck.con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()}


def codes_in(duck, table, schema, grid):
    """Codes of all records that are kept, in the order of the table: its feature "at" counts the rows."""
    vault = SqlVault.seal(duck.create_table("t", table), schema)
    counter = vault.encode(Domain.of(schema, grid))
    order = f"c{list(schema.features).index('at')}"
    found = duck.con.execute(f"SELECT * FROM {counter._all[0].table.name} ORDER BY {order}").fetchnumpy()
    return np.array([found[f"c{index}"] for index in range(schema.n_features)])


def test_codes_are_those_of_memory_for_values_that_engines_treat_differently(duck):
    cuts = Grid(bins=85, scales=True).cuts(Numeric(-0.3, 0.7))
    beside = [*cuts, *np.nextafter(cuts, -np.inf), *np.nextafter(cuts, np.inf)]
    values = [np.nan, None, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e308, 0.1, 0.30000000000000004, -0.3, 0.7, *beside]
    n_rows = len(values)
    some = lambda *given: [given[index % len(given)] for index in range(n_rows)]  # noqa: E731
    columns = {  # with what each is declared as
        "real": (pa.array(values, pa.float64(), from_pandas=False), Numeric(-0.3, 0.7)),
        "single": (pa.array(some(0.1, np.nan, None, 0.3, -np.inf), pa.float32(), from_pandas=False), Numeric(0, 1)),
        "whole": (pa.array(some(1, None, -7, 2**62, 2**53 + 1), pa.int64()), Numeric(-10, 10, integer=True)),
        "truth": (pa.array(some(True, False, None), pa.bool_()), Categorical([True, False])),
        "truth as number": (pa.array(some(True, False, None), pa.bool_()), Numeric(0, 1)),
        "word": (
            pa.array(some("it's", 'a"b', "", "NaN", None, SECRET, "\\", "%", "a\nb", "🦓"), pa.string()),
            Categorical(["it's", 'a"b', "", "NaN", "\\", "%", "a\nb", "🦓", "\0", "\ud800", 5, None]),
        ),
        "place": (
            pa.array(some(1, 2, None, 99), pa.int32()), Categorical([2, 1.0, "1", 0.5, 10**30, float("nan"), float("inf")]),
        ),
        "part": (pa.array(some(0.5, 1.0, np.nan, None, 0.1), from_pandas=False), Categorical([0.1, 0.5, True, 10**400])),
        "at": (pa.array(range(n_rows), pa.int64()), Numeric(0, n_rows, integer=True)),
    }  # fmt: skip
    table = pa.table({name: column for name, (column, _) in columns.items()} | {"target": pa.array([1] * n_rows)})
    features = {name: part for name, (_, part) in columns.items()}
    # As many bins as rows, so that "at" keeps their order.
    schema, grid = Schema(features, Classes([1, 2])), Grid(bins=n_rows + 1, scales=True)
    expected = encode(read_columns(table.drop_columns("target"), schema), Domain.of(schema, grid))
    np.testing.assert_array_equal(codes_in(duck, table, schema, grid), expected)


@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (-2, 5), (0.1, 0.7), (-1e300, 1e300), (0, FINE_STEPS)])
def test_a_bounded_target_falls_on_the_same_step_to_the_last_unit(duck, lower, upper):
    rng = np.random.default_rng(0)
    ties = lower + (upper - lower) * ((np.arange(2000) + 0.5) / FINE_STEPS)
    values = [*rng.uniform(lower, upper, 2000), *ties, *np.nextafter(ties, np.inf), np.inf, -np.inf, -0.0, lower, upper]
    table = duck.create_table("t", pa.table({"x": np.zeros(len(values)), "y": values}))
    schema = Schema({"x": Numeric(0, 1)}, Bounded(lower, upper, name="y"))
    counter = SqlVault.seal(table, schema).encode(Domain.of(schema, Grid()))
    expected = read_target(np.array(values), Bounded(lower, upper))
    found = duck.con.execute(f"SELECT fine FROM {counter._all[0].table.name}").fetchnumpy()["fine"]
    np.testing.assert_array_equal(np.sort(found), np.sort(expected))


def test_long_levels_are_followed_by_joins_as_in_memory(duck, monkeypatch):
    monkeypatch.setattr(sql_placed, "LONG_SPLITS", 1)
    table, schema = nasty("mixed", "four classes")
    domain = Domain.of(schema, Grid(scales=True))
    twin = Twin(SqlVault.seal(duck.create_table("t", table), schema).encode(domain), in_memory(table, schema).encode(domain))
    for assignment in (OneTree(2), AllTrees(2), Poisson(2)):
        twin.deal(assignment, Entropy())
        grow_at_random(twin, 2, 3, np.random.default_rng(3))


def test_a_bootstrap_draws_the_poisson_number_of_its_word_and_never_more(duck):
    duck.create_table("t", pa.table({"x": np.zeros(3000)}))
    tossed = f"SELECT {sql_coins.word_of_row('ab' * 32, 'duckdb')} AS h FROM t"
    found = duck.con.execute(f"SELECT h, {sql_coins.draw_poisson('h')} AS k FROM ({tossed})").fetchnumpy()
    assert len(set(found["h"].tolist())) == 3000
    most = 1 << sql_coins.BITS
    assert 0 <= found["h"].min() < 0.01 * most < 0.99 * most < found["h"].max() < most
    for word, drawn in zip(found["h"].tolist(), found["k"].tolist(), strict=True):
        assert drawn == sum(word >= entry for entry in sql_coins.POISSON_THRESHOLDS[1:])
    below = Fraction(0)
    for k, entry in enumerate(sql_coins.POISSON_THRESHOLDS[1:]):
        # 1 / e to 60 digits, from above
        below += Fraction("0.367879441171442321595523770161460867445811131031767834507837") / math.factorial(k)
        assert min(below * most, most) <= entry <= below * most + 1
    assert abs(np.mean(found["k"]) - 1) < 0.1


def test_a_word_is_the_first_bits_of_the_digest_in_every_spelling(duck):
    duck.create_table("t", pa.table({"x": [7, -3, 0]}))
    key = "cd" * 32
    for engine in ("duckdb", "elsewhere"):
        word = sql_coins.word_of_values(key, ["x", "x + 1"], engine)
        for x, found in duck.con.execute(f"SELECT x, {word} FROM t").fetchall():
            digest = hashlib.md5(f"{key}{x},{x + 1},".encode()).hexdigest()
            assert found == int(digest, 16) >> (128 - sql_coins.BITS)


def test_draws_below_a_number_are_even_and_change_with_the_key(duck):
    duck.create_table("t", pa.table({"x": np.zeros(6000)}))
    draws = []
    for key in (sql_coins.draw_key(Entropy(1)), sql_coins.draw_key(Entropy(2))):
        tossed = f"SELECT {sql_coins.word_of_row(key, 'duckdb')} AS h FROM t"
        draws.append(duck.con.execute(f"SELECT {sql_coins.draw_below(3, 'h')} AS k FROM ({tossed})").fetchnumpy()["k"])
    assert (draws[0] != draws[1]).any()
    for drawn in draws:
        assert np.abs(np.bincount(drawn, minlength=3) - 2000).max() < 5 * math.sqrt(6000 * 2 / 9)


def test_hostile_names_of_tables_columns_and_values_train_and_harm_nothing(duck):
    rng = np.random.default_rng(1)
    columns = {name: rng.choice(HOSTILE, 200).tolist() for name in HOSTILE}
    columns["people"] = rng.choice(HOSTILE[:2], 200).tolist()
    duck.create_table("people", pa.table({"a": [1]}))
    table = duck.create_table('t"; DROP TABLE people; --', pa.table(columns))
    schema = Schema({name: Categorical(HOSTILE[:6]) for name in HOSTILE}, Classes(HOSTILE[:2], name="people"), n_rows=200)
    model = DPForestClassifier(schema, epsilon=5).fit_table(table)
    assert model.privacy_.holds
    assert duck.con.execute('SELECT count(*) FROM "people"').fetchone() == (1,)


WRONG = [
    (pa.array(["1", SECRET]), Numeric(0, 1), "declared numeric"),
    (pa.array([1, 2]), Categorical(["a"]), "holds numbers"),
    (pa.array(["a", SECRET]), Categorical([1, 2]), "holds text"),
    (pa.array(pd.to_datetime(["2020-01-01", "2021-01-01"])), Numeric(0, 1), "Datetime"),
    (pa.array([[1], [2]]), Categorical([1]), "Array"),
]


def test_a_column_of_the_wrong_type_is_refused_by_its_name(duck):
    for column, part, said in WRONG:
        table = duck.create_table("t", pa.table({"odd one": column, "y": [0, 1]}), overwrite=True)
        with pytest.raises(TableError, match=said) as caught:
            SqlVault.seal(table, Schema({"odd one": part}, Classes([0, 1], name="y")))
        assert "'odd one'" in str(caught.value)
        assert SECRET not in str(caught.value)


def test_a_missing_column_and_a_table_of_something_else_are_refused(duck):
    table, schema = easy(20, named=False)
    with pytest.raises(TableError, match="'city' of the schema is missing"):
        SqlVault.seal(duck.create_table("t", table.drop_columns("city")), schema)
    with pytest.raises(TableError, match="A table of Ibis is needed, not a value of type DataFrame"):
        SqlVault.seal(pd.DataFrame(), schema)
    with pytest.raises(TableError, match="type str"):
        DPForestClassifier(schema).fit_table(SECRET)


def test_temporary_tables_are_gone_after_a_fit_and_after_one_that_fails(duck):
    table, schema = easy(200, named=False)
    rows = duck.create_table("t", table)
    DPForestClassifier(schema, epsilon=1).fit_table(rows)
    assert names_of_tables(duck) == set()
    vault = SqlVault.seal(rows, schema)
    counter = vault.encode(Domain.of(schema, Grid()))
    assert len(names_of_tables(duck)) == 1
    counter.deal(OneTree(3), Entropy())
    assert len(names_of_tables(duck)) == 1
    with pytest.raises(KeyboardInterrupt), vault:
        raise KeyboardInterrupt
    assert names_of_tables(duck) == set()


def test_a_lost_connection_is_an_error_without_the_words_of_the_engine(duck):
    table, schema = easy(200, named=False)
    rows = duck.create_table(SECRET, table)
    model = DPForestClassifier(schema, epsilon=1, recipe="consul-2020")
    with pytest.raises(TableError, match="connection was lost") as caught:
        model.fit_table(rows, progress=lambda step: duck.con.close())
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__
    assert not hasattr(model, "forest_")


def test_the_words_of_the_engine_are_printed_nowhere(duck, capfd, caplog):
    duck.raw_sql(f"CREATE VIEW v AS SELECT CAST(x AS DOUBLE) AS x, y FROM (VALUES ('{SECRET}', 0)) AS t(x, y)")
    schema = Schema({"x": Numeric(0, 1)}, Classes([0, 1], name="y"))
    with pytest.raises(TableError):
        SqlVault.seal(duck.table("v"), schema).encode(Domain.of(schema, Grid()))
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""


def cells_fetched(monkeypatch, duck, n_rows, recipe, kind=DPForestClassifier):
    """How many numbers left the database in a fit."""
    table, schema = easy(n_rows, kind is DPForestClassifier, named=False)
    schema = Schema(schema.features, schema.target, n_rows=1000)  # the same plan for both
    fetched, fetch = [], sql_session.Session.fetch
    with monkeypatch.context() as patch:
        patch.setattr(sql_session.Session, "fetch", lambda *asked: fetched.append(found := fetch(*asked)) or found)
        model = kind(schema, epsilon=3, recipe=recipe, max_depth=2, random_state=3)
        model.fit_table(duck.create_table(f"t{n_rows}", table))
    return sum(len(column) for found in fetched for column in found.values())


@pytest.mark.parametrize(
    ("recipe", "kind"), [("consul-2020", DPForestClassifier), ("auto", DPForestClassifier), ("auto", DPForestRegressor)]
)
def test_what_leaves_the_database_does_not_grow_with_its_rows(duck, monkeypatch, recipe, kind):
    few, many = (cells_fetched(monkeypatch, duck, n_rows, recipe, kind) for n_rows in (5_000, 50_000))
    assert few > 0
    # Cells that are empty are not sent; ten times the rows leave fewer of these.
    assert many <= 1.3 * few
    assert many < 50_000


def test_a_mode_without_temporary_tables_makes_none_and_offers_nothing_that_needs_them(duck):
    table, schema = easy(500, named=False)
    rows = duck.create_table("t", table)
    with SqlVault.seal(rows, schema, temporary=False) as vault:
        assert not vault.temporary
        counter = vault.encode(Domain.of(schema, Grid()))
        counter.deal(OneTree(7), Entropy())
        wanted = np.ones((7, schema.n_features), dtype=bool)
        first = counter.count_codes(0, wanted)._value
        np.testing.assert_array_equal(first, counter.count_codes(0, wanted)._value)
        assert first[:, : counter.domain.n_codes[0]].sum() == 500
        assert (first.sum(axis=(1, 2)) > 0).all()
        assert names_of_tables(duck) == set()
        with pytest.raises(ParameterError) as caught:
            counter.deal(Poisson(2), Entropy())
        assert str(caught.value) == NOT_KEPT
        assert not isinstance(counter, Weighted | Scored)


def test_names_that_spark_would_rewrite_are_refused_there_and_nowhere_else():
    for place in range(4):
        feature, category, target, label = ("a${x}" if place == own else name for own, name in enumerate("fcyl"))
        schema = Schema({feature: Categorical([category, "d"])}, Classes([label, "m"], name=target))
        check_names("duckdb", schema)
        with pytest.raises(TableError, match="Spark would replace"):
            check_names("pyspark", schema)


def test_files_and_parquet_are_opened_by_their_address_and_give_the_forest_of_memory(tmp_path):
    table, schema = easy(300, named=False)
    pq.write_table(table.slice(0, 100), tmp_path / "a.parquet")
    pq.write_table(table.slice(100), tmp_path / "b.parquet")
    connection = ibis.duckdb.connect(tmp_path / "ward 7.db")
    connection.create_table("pa'tients", table)
    connection.raw_sql('CREATE SCHEMA "s"')
    connection.create_table("patients", table, database="s")
    connection.disconnect()
    X, y = table.drop_columns("y"), table.column("y")
    recipe = {"epsilon": 1, "recipe": "friedman-schuster-2010", "random_state": 5}
    expected = DPForestClassifier(schema, **recipe).fit(X, y).predict_proba(X)
    for end in ("ward 7.db::pa'tients", "ward 7.db::s.patients", "*.parquet"):
        opened = open_table(f"duckdb:///{tmp_path}/{end}")
        model = DPForestClassifier(schema, **recipe).fit_table(opened)
        np.testing.assert_array_equal(model.predict_proba(X), expected)
        opened.get_backend().disconnect()


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        ("duckdb:///nowhere.db::t", TableError, "There is no file nowhere.db"),
        ("duckdb:///*.parquet", TableError, "There is no file"),
        ("duckdb:///x.parquet::t", ParameterError, "leave out"),
        ("mysql://u:hush@h/d::t", ParameterError, "'mysql'"),
        ("postgresql://u:hush@127.0.0.1:1/d::t", TableError, "No connection to database 'd' at 127.0.0.1:1"),
        ("postgresql://u:hush@127.0.0.1:99999/d::t", ParameterError, "cannot be read"),
        ("postgresql://u:hush@127.0.0.1::t", ParameterError, "names no database"),
        ("postgresql:/u:hush@127.0.0.1::t", ParameterError, "cannot be read"),
        ("postgres:u:hush@127.0.0.1/d::t", ParameterError, "cannot be read"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_without_its_password(tmp_path, monkeypatch, address, error, said):
    monkeypatch.chdir(tmp_path)
    for open_it in (open_table, lambda address: open_source(address).names()):
        with pytest.raises(error, match=said.replace("*", r"\*")) as caught:
            open_it(address)
        assert "hush" not in str(caught.value)


def test_a_file_that_is_no_database_or_has_no_such_table_is_refused(tmp_path):
    (tmp_path / "odd.db").write_text(SECRET)
    with pytest.raises(TableError, match="cannot be opened as a DuckDB file") as caught:
        open_table(f"duckdb:///{tmp_path}/odd.db::t")
    assert SECRET not in str(caught.value)
    ibis.duckdb.connect(tmp_path / "good.db").disconnect()
    for table in ("nothing", "s.nothing", "'; DROP TABLE x; --"):
        with pytest.raises(TableError, match="There is no table"):
            open_table(f"duckdb:///{tmp_path}/good.db::{table}")
    with pytest.raises(ParameterError, match="names no table"):
        open_table(f"duckdb:///{tmp_path}/good.db")
