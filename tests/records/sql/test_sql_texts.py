"""Categories that are compared as texts in a database: every type has the codes of memory, or is refused by name."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from tests.support.coded import fetched

from dpforest import Categorical, Classes, DPForestClassifier, Schema
from dpforest.errors import TableError
from dpforest.records.categories import text_codes
from dpforest.records.columns import read_columns
from dpforest.records.sql.codes import feature_codes
from dpforest.records.sql.session import Session
from dpforest.records.sql.vault import SqlVault
from dpforest.schema.domain import Derived, Domain

pytestmark = pytest.mark.slow

WORDS = ["17", "0", "a", "A", "", " 17", "17.0", "it's", "é", "東京", "😀", "x" * 10_000, None]
COLUMNS = {
    "text": pa.array(WORDS),
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
KINDS = {"buckets": Categorical(), "learnt": Categorical(["0", "17", "😀", "it's", "-128", str(2**63)], learn=True)}


def codes_in(rows, part):
    """The codes of the column "x" of a table in a database, in the order of its column "at"."""
    domain = Domain((Derived("x", 0, part),), (np.empty(0),))
    session = Session(rows.get_backend(), None)
    found = fetched(session, rows, feature_codes(rows, domain, session.backend.name), "at")["c0"].tolist()
    session.close()
    return found


def expected(column, part):
    return text_codes(read_columns(pa.table({"x": column}), schema())[0], part).tolist()


def schema(**features):
    return Schema(features or {"x": Categorical()}, Classes([0, 1], name="y"))


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
        SqlVault.seal(rows, schema())


def test_a_forest_from_a_database_is_that_of_memory(duck):
    rng = np.random.default_rng(5)
    table = pa.table({"x": rng.integers(0, 40, 400).astype(str), "f": rng.integers(0, 9, 400).astype(float)})
    table = table.append_column("y", pa.array((rng.random(400) < 0.5).astype(int)))
    facts = Schema({"x": Categorical(), "f": Categorical()}, Classes([0, 1], name="y"), n_rows=400)
    make = lambda: DPForestClassifier(facts, epsilon=5.0, recipe="friedman-schuster-2010", random_state=3)  # noqa: E731
    there, here = make().fit_table(duck.create_table("t", table)), make().fit(table.drop_columns("y"), table["y"])
    np.testing.assert_array_equal(there.predict_proba(table.drop_columns("y")), here.predict_proba(table.drop_columns("y")))
