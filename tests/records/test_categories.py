"""Categories that are compared as texts: one text for a value, whoever holds it, and one bucket for a text, for ever."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.neighbours.odd_values import HOSTILE
from tests.records.holders import arrow, frame, name_of, objects, typed

from dpforest import Categorical, Classes, Schema
from dpforest.errors import TableError
from dpforest.records.categories import bucket_finder, category_codes, text_codes, to_texts
from dpforest.records.columns import read_columns
from dpforest.schema.kinds import BUCKETS

MISSING = BUCKETS + 1
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
    return read_columns(frame(column, "f"), Schema({"f": Categorical()}, Classes([0, 1])))[0]


def test_the_bucket_of_a_text_never_changes():
    for text, first in FIRST_BYTES.items():
        assert (bucket_finder(256)(text), bucket_finder(64)(text)) == (first, first % 64)


TEXTS = [
    ("x", "x"), ("", ""), (" 17 ", " 17 "), (np.str_("x"), "x"), (17, "17"), (-3, "-3"), (True, "1"), (np.False_, "0"),
    (17.0, "17"), (-0.0, "0"), (np.float32(3), "3"), (np.int8(-5), "-5"), (np.longdouble(2) ** 62, str(2**62)),
    (Decimal("17.00"), "17"), (Decimal("-0"), "0"), (Decimal("1e3"), "1000"), (-(2.0**63), str(-(2**63))),
    (2**64 - 1, str(2**64 - 1)), (2.0**64 - 2048, str(2**64 - 2048)), (np.uint64(2**64 - 1), str(2**64 - 1)),
    (HOSTILE["text that raises"], "a"), (HOSTILE["text equal to all"], "a"),
]  # fmt: skip
NOTHING = [None, np.nan, np.float16("nan"), Decimal("NaN"), Decimal("sNaN"), pd.NA, pd.NaT]
NO_TEXT = [
    3.5, np.inf, -np.inf, 2**64, -(2**63) - 1, 2.0**64, -(2.0**63) * 1.1, 10**400, Decimal("1e999999999"), Decimal("0.1"),
    Decimal("-Infinity"), Decimal("1e-999999"), Fraction(1, 2), 1j, b"x", ["x"], ("x",), "\ud800", object(),
]  # fmt: skip


def test_text_is_itself_a_whole_number_its_digits_and_what_has_no_text_is_other():
    for value, text in [*TEXTS, *((value, "missing") for value in NOTHING), *((value, None) for value in NO_TEXT)]:
        assert texts_of([value]) == [text]


WHOLE, DIGITS = [17, None, 0, 3], ["17", None, "0", "3"]
COLUMNS = [
    objects(WHOLE), objects(["17", np.nan, -0.0, Decimal(3)]), np.array([17, np.nan, -0.0, 3]),
    *typed(pd.Series, WHOLE, "float64", "Int64"), *typed(pd.Series, DIGITS, "str", "category"),
    pd.Series([17.0, None, 0.0, 3.0], dtype="category"), pl.Series(DIGITS, dtype=pl.Categorical),
    *typed(pl.Series, WHOLE, pl.UInt8, pl.Int128, pl.Decimal(20, 2)), *arrow(WHOLE, pa.int64(), pa.decimal128(20, 2)),
    pa.array([np.float16(17), None, np.float16(-0.0), np.float16(3)], pa.float16()), pa.array(DIGITS),
    pa.array(DIGITS).dictionary_encode(), pa.chunked_array([DIGITS[:2], [], DIGITS[2:]]),
]  # fmt: skip


def test_the_same_values_have_the_same_buckets_and_places_in_a_learnt_list_in_every_library():
    for column in COLUMNS:
        buckets = [0x70 % BUCKETS, MISSING, 0xCF % BUCKETS, 0xEC % BUCKETS]
        assert text_codes(held(column), Categorical()).tolist() == buckets, name_of(column)
        listed = Categorical(["0", "17"], learn=True)  # a list of texts, in which 3 is not
        assert text_codes(held(column), listed).tolist() == [1, 3, 0, 2], name_of(column)


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


def test_a_column_without_rows_has_no_codes():
    for column in (objects([]), np.empty(0), pa.array([], pa.string()), pd.Series([], dtype="category")):
        assert text_codes(held(column), Categorical()).tolist() == []


def test_each_text_is_listed_once():
    texts, inverse = to_texts(objects(["b", 1, "1", "b", 3.5, None, True]))
    assert texts == ["b", "1"]
    assert inverse.tolist() == [0, 1, 1, 0, 2, 3, 1]
