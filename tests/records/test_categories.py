"""Categories that are compared as texts: one text for a value, whoever holds it, and one bucket for a text, for ever."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.neighbours.odd_values import HOSTILE, OBJECTS
from tests.support.columns import objects

from dpforest import Categorical, Classes, Schema
from dpforest.errors import TableError
from dpforest.records.categories import bucket_finder, category_codes, text_codes, to_texts
from dpforest.records.columns import read_columns
from dpforest.schema.kinds import BUCKETS

OTHER, MISSING = BUCKETS, BUCKETS + 1
# The first byte of the MD5 of each text; the first five are those of RFC 1321.
FIRST_BYTES = {
    "": 0xD4, "a": 0x0C, "abc": 0x90, "message digest": 0xF9, "abcdefghijklmnopqrstuvwxyz": 0xC3,
    "17": 0x70, "0": 0xCF, "é": 0x66, "München": 0xD0, "東京": 0x70, "😀": 0x2A, "a\0": 0x41,
}  # fmt: skip


def texts_of(values):
    """The text of each value of a column of objects, None for "other", "missing" for missing."""
    texts, inverse = to_texts(objects(values))
    return [[*texts, None, "missing"][index] for index in inverse]


def held(column):
    """The only column of a table, as a fit reads it."""
    libraries = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, pa.Array: pa.table, pa.ChunkedArray: pa.table}
    table = next((make({"f": column}) for kind, make in libraries.items() if isinstance(column, kind)), None)
    schema = Schema({"f": Categorical()}, Classes([0, 1]))
    return read_columns(column[:, None] if table is None else table, schema)[0]


@pytest.mark.parametrize(("text", "first"), FIRST_BYTES.items())
def test_the_bucket_of_a_text_never_changes(text, first):
    assert bucket_finder(256)(text) == first
    assert bucket_finder(64)(text) == first % 64


@pytest.mark.parametrize(
    ("value", "text"),
    [("x", "x"), ("", ""), (" 17 ", " 17 "), (np.str_("x"), "x"), (17, "17"), (-3, "-3"), (True, "1"), (np.False_, "0"),
     (17.0, "17"), (-0.0, "0"), (np.float32(3), "3"), (np.int8(-5), "-5"), (np.longdouble(2) ** 62, str(2**62)),
     (Decimal("17.00"), "17"), (Decimal("-0"), "0"), (Decimal("1e3"), "1000"), (-(2.0**63), str(-(2**63))),
     (2**64 - 1, str(2**64 - 1)), (2.0**64 - 2048, str(2**64 - 2048)), (np.uint64(2**64 - 1), str(2**64 - 1))],
    ids=repr,
)  # fmt: skip
def test_text_is_itself_and_a_whole_number_its_digits(value, text):
    assert texts_of([value]) == [text]


@pytest.mark.parametrize(
    "value", [None, np.nan, np.float16("nan"), Decimal("NaN"), Decimal("sNaN"), pd.NA, pd.NaT], ids=repr
)
def test_a_missing_value_is_missing(value):
    assert texts_of([value]) == ["missing"]


@pytest.mark.parametrize(
    "value",
    [3.5, np.inf, -np.inf, 2**64, -(2**63) - 1, 2.0**64, -(2.0**63) * 1.1, 10**400, Decimal("1e999999999"), Decimal("0.1"),
     Decimal("-Infinity"), Decimal("1e-999999"), Fraction(1, 2), 1j, b"x", ["x"], ("x",), "\ud800", object()],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_what_has_no_text_is_other(value):
    assert texts_of([value]) == [None]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", OBJECTS)
def test_an_odd_value_neither_raises_nor_changes_how_others_are_read(name):
    value = OBJECTS[name]
    with np.errstate(all="raise"):
        found = texts_of(["a", value, 1, value, "b"])
    assert (found[0], found[2], found[4]) == ("a", "1", "b")
    assert found[1] == found[3]


@pytest.mark.parametrize("name", ["text that raises", "text equal to all"])
def test_text_of_any_class_is_read_as_text(name):
    assert texts_of([HOSTILE[name]]) == ["a"]


WHOLE_COLUMNS = {
    "objects": objects([17, None, 0, 3]),
    "objects of several types": objects(["17", np.nan, -0.0, Decimal(3)]),
    "numpy": np.array([17, np.nan, -0.0, 3]),
    "pandas floats": pd.Series([17, None, 0, 3], dtype="float64"),
    "pandas Int64": pd.Series([17, None, 0, 3], dtype="Int64"),
    "pandas str": pd.Series(["17", None, "0", "3"], dtype="str"),
    "pandas category of floats": pd.Series([17.0, None, 0.0, 3.0], dtype="category"),
    "pandas category": pd.Series(["17", None, "0", "3"], dtype="category"),
    "polars UInt8": pl.Series([17, None, 0, 3], dtype=pl.UInt8),
    "polars Int128": pl.Series([17, None, 0, 3], dtype=pl.Int128),
    "polars Decimal": pl.Series([17, None, 0, 3], dtype=pl.Decimal(20, 2)),
    "polars Categorical": pl.Series(["17", None, "0", "3"], dtype=pl.Categorical),
    "pyarrow int64": pa.array([17, None, 0, 3]),
    "pyarrow half": pa.array([np.float16(17), None, np.float16(-0.0), np.float16(3)], pa.float16()),
    "pyarrow decimal": pa.array([17, None, 0, 3], pa.decimal128(20, 2)),
    "pyarrow text": pa.array(["17", None, "0", "3"]),
    "pyarrow dictionary": pa.array(["17", None, "0", "3"]).dictionary_encode(),
    "pyarrow chunks": pa.chunked_array([["17", None], [], ["0", "3"]]),
}


@pytest.mark.parametrize("column", WHOLE_COLUMNS.values(), ids=WHOLE_COLUMNS.keys())
def test_the_same_values_have_the_same_buckets_in_every_library(column):
    assert text_codes(held(column), Categorical()).tolist() == [0x70 % BUCKETS, MISSING, 0xCF % BUCKETS, 0xEC % BUCKETS]


@pytest.mark.parametrize("column", WHOLE_COLUMNS.values(), ids=WHOLE_COLUMNS.keys())
def test_a_learnt_list_is_a_list_of_texts(column):
    # 17 and 0 are in the list, 3 is not.
    assert text_codes(held(column), Categorical(["0", "17"], learn=True)).tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize("learn", [False, True])
def test_a_category_is_its_whole_text_in_its_own_case(learn):
    column = held(objects(["rome", "Rome", "romeo", "rom", "rome ", " rome", "oslo"]))
    assert category_codes(column, Categorical(["rome", "oslo"], learn=learn)).tolist() == [0, 2, 2, 2, 2, 2, 1]


def test_truth_values_are_one_and_zero():
    for column in (np.array([True, False]), pd.Series([True, False]), pl.Series([True, False]), pa.array([True, False])):
        assert text_codes(held(column), Categorical(["1", "0"], learn=True)).tolist() == [0, 1]


def test_numpy_text_is_read_and_bytes_are_refused():
    assert text_codes(held(np.array(["17", "a"])), Categorical()).tolist() == [0x70 % BUCKETS, 0x0C % BUCKETS]
    with pytest.raises(TableError, match="'f' is declared categorical, but it was given as bytes"):
        held(np.array([b"17"]))


@pytest.mark.parametrize("column", [objects([]), np.empty(0), pa.array([], pa.string()), pd.Series([], dtype="category")])
def test_a_column_without_rows_has_no_codes(column):
    assert text_codes(held(column), Categorical()).tolist() == []


def test_each_text_is_listed_once():
    texts, inverse = to_texts(objects(["b", 1, "1", "b", 3.5, None, True]))
    assert texts == ["b", "1"]
    assert inverse.tolist() == [0, 1, 1, 0, 2, 3, 1]
