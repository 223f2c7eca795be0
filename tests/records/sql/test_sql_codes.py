"""Codes of values in a database are those of memory, by whatever steps a query finds them, or a type is refused by name."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from tests.conformance.postgres_server import write_table
from tests.support.coded import fetched

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.base import AllTrees
from dpforest.records.categories import text_codes
from dpforest.records.columns import read_columns, read_target, to_objects
from dpforest.records.vault import Vault, encode
from dpforest.records.sql import scales as sql_scales
from dpforest.records.sql.codes import LONG_LIST, feature_codes, target_code
from dpforest.records.sql.keys import found_by_key
from dpforest.records.sql.session import Session
from dpforest.records.sql.vault import SqlVault
from dpforest.schema.domain import Derived, Domain, Grid
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


def bins_in(rows):
    """The number of records in each bin around 0 of the column d0 of a table."""
    session = Session(rows.get_backend(), None)
    source = session.compiled(rows)
    found = session.fetch(sql_scales.counted(source.name, [0], session.backend.name), source)
    session.close()
    return np.bincount(found["cell"], found["n"], minlength=MISSING + 1)


def sizes():
    """Distances at which bins begin, those next to them, and others."""
    with np.errstate(over="ignore"):
        powers = 2.0 ** np.arange(LEAST - 20, MOST)
    found = np.unique(np.concatenate([beside(distances()[:-1]), beside(powers), [0.0, TINY, 1e-310]]))
    found = found[found < 2.0**MOST]
    return np.concatenate([found, -found])


@pytest.mark.parametrize("has_arrays", [True, False])
def test_bins_around_a_centre_begin_at_the_same_floats_as_in_memory(engine, monkeypatch, has_arrays):
    if not has_arrays:
        monkeypatch.setattr(sql_scales, "READERS", ())
    expected = np.bincount([bin_of(size, 0.0) for size in sizes()], minlength=MISSING + 1)
    np.testing.assert_array_equal(bins_in(engine.stored("sizes", pa.table({"d0": sizes()}))), expected)


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
PLACES = ["A", "a", "B", "W3", "q", "Å", None]


def assert_characters_decide(rows):
    """The codes of a column that folds cases, by a long list, a short one and none, and its texts, are those of memory."""
    target, session, found = Classes(["0", "1"], name="y"), Session(rows.get_backend(), None), []
    for part in (Categorical(FOLDED), Categorical(FOLDED[:3]), Categorical()):
        schema = Schema({"x": part}, target)
        codes = feature_codes(rows, Domain.of(schema, Grid()), session.backend.name)
        assert bool(codes["c0"].joined) == (part.categories == tuple(FOLDED))
        found.append(fetched(session, rows, codes, "at")["c0"].tolist())
    session.close()
    long, short, buckets = found
    assert long == [1, 0, *[len(FOLDED)] * 4, len(FOLDED) + 1]
    assert short == [1, 0, 3, 3, 3, 3, 4]
    assert buckets == text_codes(to_objects(PLACES), Categorical()).tolist()
    with SqlVault.seal(rows, Schema({"x": Categorical(FOLDED)}, target)) as vault:
        assert vault.count_texts("x")._value == dict.fromkeys(PLACES[:-1], 1)


def test_texts_are_compared_by_their_characters_whatever_a_collation_takes_for_the_same(engine):
    values = ", ".join(f"({'NULL' if text is None else repr(text)}, {at}, '0')" for at, text in enumerate(PLACES))
    collation = {"duckdb": "COLLATE NOCASE", "postgresql": "COLLATE folded"}[engine.name]
    if engine.name == "postgresql":
        engine.run("CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    engine.run(f'CREATE TABLE declared (x text {collation}, "at" integer, y text)')
    engine.run(f"INSERT INTO declared VALUES {values}")
    assert_characters_decide(engine.connection.table("declared"))
    if engine.name == "duckdb":
        engine.run("SET default_collation = 'NOCASE'")
        engine.run('CREATE TABLE usual (x text, "at" integer, y text)')
        engine.run(f"INSERT INTO usual VALUES {values}")
        assert_characters_decide(engine.connection.table("usual"))


@pytest.mark.parametrize("n_codes", [128, 129, 32_768, 32_769])
def test_scores_are_added_by_the_last_code_of_every_type_of_codes(duck, n_codes):
    n_values = n_codes - 1  # and one for missing
    x = pa.array([*range(n_values), None], pa.int64())
    rows = duck.create_table("t", pa.table({"x": x, "y": ["0", "1"] * (n_codes // 2) + ["0"] * (n_codes % 2)}))
    schema = Schema({"x": Numeric(0, n_values - 1, integer=True)}, Classes(["0", "1"], name="y"))
    domain = Domain.of(schema, Grid(bins=n_values))
    assert domain.n_codes.tolist() == [n_codes]
    with SqlVault.seal(rows, schema) as vault:
        counter = vault.encode(domain)
        counter.start_scores()
        counter.add_by_code([0], [np.stack([np.arange(n_codes), -np.arange(n_codes)], axis=1)])
        found = duck.con.execute(f"SELECT c0, s0, s1 FROM {counter._all[0].table.name} ORDER BY c0").fetchnumpy()
    np.testing.assert_array_equal(found["c0"], np.arange(n_codes))
    np.testing.assert_array_equal(found["s0"], np.arange(n_codes))
    np.testing.assert_array_equal(found["s1"], -np.arange(n_codes))


FAR = {"x": [1e25, -1e25, 1e300, 0.0, None], "z": [1e300, -1e300, 2.0**65, -np.inf, np.inf]}


def test_values_beyond_the_last_bin_are_in_it(engine):
    schema = Schema({"x": Numeric(0, 1e30), "z": Numeric(-1e300, 1e300)}, Classes(["0", "1"], name="y"))
    table = pa.table({name: pa.array(values, pa.float64()) for name, values in FAR.items()} | {"y": ["0"] * 5})
    found = []
    with SqlVault.seal(engine.stored("far", table), schema) as vault:
        for source in (vault, Vault.seal(table.select(["x", "z"]), table["y"], schema)):
            found.append(source.count_around(Domain.of(schema, Grid()), {0: 0.0, 1: -1e300})._value)
    np.testing.assert_array_equal(*found)


@pytest.mark.server
def test_settings_of_a_transaction_of_the_user_stay_as_they_are(keeper, root):
    texts = ["a\\", "b'", "\\'"]
    schema = Schema({"x": Categorical(texts)}, Classes(["0", "1"], name="y"), n_rows=3)
    rows, session = keeper.table(write_table(root, "own", pa.table({"x": texts, "y": ["0"] * 3}))), keeper.con
    session.autocommit = False
    session.execute("SET standard_conforming_strings = off")
    session.execute("SET jit = on")
    session.commit()
    session.execute("SELECT 1")  # begins a transaction
    with SqlVault.seal(rows, schema) as vault:
        counter = vault.encode(Domain.of(schema, Grid()))
        counter.deal(AllTrees(1), Entropy())
        assert counter.count_codes(0, np.ones((1, 1), dtype=bool))._value[0, :, 0].tolist() == [1, 1, 1, 0, 0]
        for name, value in (("standard_conforming_strings", "off"), ("jit", "on")):
            assert session.execute(f"SHOW {name}").fetchone() == (value,)


@pytest.mark.server
def test_many_classes_are_weighed_in_postgresql(keeper, root):
    table = pa.table({"x": np.arange(80.0), "y": [str(row % 40) for row in range(80)]})
    schema = Schema({"x": Numeric(0, 80)}, Classes([str(c) for c in range(40)], name="y"))
    with SqlVault.seal(keeper.table(write_table(root, "classes", table)), schema) as vault:
        found = []
        for source in (vault, Vault.seal(table.select(["x"]), table["y"], schema)):
            counter = source.encode(Domain.of(schema, Grid()))
            counter.deal(AllTrees(1), Entropy())
            counter.start_scores()
            counter.spread_residuals()
            found.append(counter.count_codes(0, np.ones((1, 1), dtype=bool))._value)
    np.testing.assert_array_equal(*found)


# --- categories that are compared as texts ----------------------------------------------------------------------------

TEXTS = ["17", "0", "a", "A", "", " 17", "17.0", "it's", "é", "東京", "😀", "x" * 10_000, None]
COLUMNS = {
    "text": pa.array(TEXTS),
    "flag": pa.array([True, False, None]),
    "small": pa.array([17, -128, 127, 0, None], pa.int16()),
    "whole": pa.array([17, -(2**63), 2**63 - 1, 0, None], pa.int64()),
    "single": pa.array([17.0, -0.0, 3.5, 2.0**63, 2.0**64, np.inf, np.nan, None], pa.float32(), from_pandas=False),
    "double": pa.array(
        [17.0, -0.0, 3.5, -(2.0**63), 2.0**63 - 1024, 2.0**63, 2.0**64 - 2048, 2.0**64, 1e300, 5e-324, np.inf, -np.inf,
         2.0**53, 2.0**53 - 0.5, np.nan, None], pa.float64(), from_pandas=False),
    "decimal": pa.array(
        [Decimal("17.0000"), Decimal("3.5000"), Decimal("-0.0001"), Decimal(2**64 - 1), Decimal(2**64), Decimal(-(2**63)),
         Decimal(-(2**63) - 1), Decimal("9" * 28), None], pa.decimal128(38, 4)),
    "wide": pa.array([17, 10**37, -(10**37), 2**64 - 1, 2**64, None], pa.decimal128(38, 0)),
}  # fmt: skip
ONLY_IN_DUCKDB = {"unsigned": pa.array([17, 2**64 - 1, 2**63, None], pa.uint64())}
BUCKETS = Schema({"x": Categorical()}, Classes([0, 1], name="y"))
KINDS = {"buckets": Categorical(), "learnt": Categorical(["0", "17", "😀", "it's", "-128", str(2**63)], learn=True)}


def codes_in(rows, part):
    """The codes of the column "x" of a table in a database, in the order of its column "at"."""
    domain = Domain((Derived("x", 0, part),), (np.empty(0),))
    session = Session(rows.get_backend(), None)
    found = fetched(session, rows, feature_codes(rows, domain, session.backend.name), "at")["c0"].tolist()
    session.close()
    return found


def expected(column, part):
    return text_codes(read_columns(pa.table({"x": column}), BUCKETS)[0], part).tolist()


@pytest.mark.parametrize("name", [*COLUMNS, *ONLY_IN_DUCKDB])
def test_every_type_has_the_codes_of_memory(engine, name):
    if name in ONLY_IN_DUCKDB and engine.name != "duckdb":
        pytest.skip(f"{engine.name} has no such type")
    column = (COLUMNS | ONLY_IN_DUCKDB)[name]
    rows = engine.stored(f"texts of {name}", pa.table({"x": column, "at": range(len(column))}))
    for part in KINDS.values():
        assert codes_in(rows, part) == expected(column, part)


@pytest.mark.server
def test_decimals_of_postgresql_that_are_no_numbers_or_too_long_have_the_codes_of_memory(keeper, root):
    values = [Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity"), Decimal("1e300"), Decimal("17"), Decimal("1e-300")]
    root.execute("CREATE TABLE loose (x numeric, at integer)")
    for at, value in enumerate(values):
        root.execute("INSERT INTO loose VALUES (%s, %s)", (value, at))
    for part in KINDS.values():
        assert codes_in(keeper.table("loose"), part) == text_codes(np.array(values, dtype=object), part).tolist()


class NoMd5:
    """A backend of DuckDB under another name, whose function md5 is missing or another one."""

    name = "elsewhere"

    def __init__(self, found):
        self._found = found

    def to_pyarrow(self, query):
        if self._found is None:
            raise RuntimeError("no such function: md5")
        return pa.scalar(self._found)


@pytest.mark.parametrize("found", [None, 0, 1 << 39], ids=["no function", "a constant", "another"])
def test_an_engine_that_does_not_know_the_hash_is_refused_by_name(duck, monkeypatch, found):
    rows = duck.create_table("t", pa.table({"x": ["a"], "y": [0]}))
    monkeypatch.setattr(type(rows), "get_backend", lambda self: NoMd5(found))
    with pytest.raises(TableError, match="Column 'x' is put into buckets by the MD5 of its UTF-8 text, which 'elsewhere'"):
        SqlVault.seal(rows, BUCKETS)


def test_a_forest_from_a_database_is_that_of_memory(duck):
    rng = np.random.default_rng(5)
    table = pa.table({"x": rng.integers(0, 40, 400).astype(str), "f": rng.integers(0, 9, 400).astype(float)})
    table = table.append_column("y", pa.array((rng.random(400) < 0.5).astype(int)))
    facts = Schema({"x": Categorical(), "f": Categorical()}, Classes([0, 1], name="y"), n_rows=400)
    make = lambda: DPForestClassifier(facts, epsilon=5.0, recipe="friedman-schuster-2010", random_state=3)  # noqa: E731
    there, here = make().fit_table(duck.create_table("t", table)), make().fit(table.drop_columns("y"), table["y"])
    np.testing.assert_array_equal(there.predict_proba(table.drop_columns("y")), here.predict_proba(table.drop_columns("y")))
