"""The same values get the same codes, however the table holds them, and one text has one bucket for ever."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.neighbours.odd_values import HOSTILE
from tests.records.holders import arrow, frame, name_of, objects, typed

from dpforest import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.errors import TableError
from dpforest.records.categories import bucket_finder, category_codes, text_codes, to_texts
from dpforest.records.columns import read_columns, read_target
from dpforest.records.encoding import encode
from dpforest.records.people import person_indices, read_ids
from dpforest.schema import FINE_STEPS
from dpforest.schema.domain import Domain, Grid
from dpforest.schema.kinds import BUCKETS

GRID = Grid(bins=10)
WORDS = ["x", "é", "zz", None, "y", "x"]
NUMBERS = [0.0, 10.0, -5.0, 99.0, None, 3.5]
WHOLE = [1, 2, None, 9, 7]
FLAGS = [True, False, None]


def codes_of(X, *features):
    schema = Schema({f"f{index}": feature for index, feature in enumerate(features)}, Classes([0, 1]))
    return encode(read_columns(X, schema), Domain.of(schema, GRID)).tolist()


TEXT_COLUMNS = [
    *typed(pd.Series, WORDS, object, "str", "string", "category", pd.ArrowDtype(pa.string())),
    pd.Series([np.nan if word is None else word for word in WORDS], dtype=object),
    pd.Series(pd.Categorical(WORDS, ordered=True)),
    *typed(pl.Series, WORDS, pl.String, pl.Categorical, pl.Enum(["zz", "é", "x", "y"]), pl.Object),
    *arrow(WORDS, pa.string(), pa.large_string(), pa.string_view()),
    pa.array(WORDS).dictionary_encode(),
    pa.array(WORDS).dictionary_encode(null_encoding="encode"),
    pa.chunked_array([WORDS[:2], [], WORDS[2:]], pa.string()),
    pa.chunked_array([pa.array(part).dictionary_encode() for part in (WORDS[:2], WORDS[2:])]),  # two dictionaries
    objects(WORDS),
]
NUMBER_COLUMNS = [
    *typed(pd.Series, NUMBERS, "float64", "float32", object, "Float64", pd.ArrowDtype(pa.float64())),
    *typed(pl.Series, NUMBERS, pl.Float64, pl.Float32, pl.Object),
    pl.Series([None if number is None else Decimal(str(number)) for number in NUMBERS]),
    *arrow(NUMBERS, pa.float64(), pa.float32()),
    pa.array([None if number is None else np.float16(number) for number in NUMBERS], pa.float16()),
    pa.chunked_array([NUMBERS[:2], [], NUMBERS[2:]], pa.float64()),
    *typed(np.array, NUMBERS, float, np.float32, np.float16, np.longdouble),
    np.array(NUMBERS, dtype=float).astype(">f8"),
    objects(NUMBERS),
    objects([None if number is None else str(number) for number in NUMBERS]),
]
WHOLE_COLUMNS = [
    *typed(pd.Series, WHOLE, "Int64", "UInt8", "float64", object),
    *typed(pl.Series, WHOLE, pl.Int64, pl.UInt16),
    *arrow(WHOLE, pa.int64(), pa.uint8()),
    *typed(np.array, WHOLE, float, np.float32),
    objects(WHOLE),
]
WHOLE_CATEGORIES = [
    pd.Series(WHOLE, dtype="Int64").astype("category"),
    pd.Series(pd.Categorical(pd.Series(WHOLE, dtype="Int64"), ordered=True)),
    pa.array(WHOLE).dictionary_encode(),
]
FLAG_COLUMNS = [
    *typed(pd.Series, FLAGS, "boolean", object), pl.Series(FLAGS), pa.array(FLAGS), objects(FLAGS),
]  # fmt: skip
PLAIN_COLUMNS = [np.array([0, 3, 100], dtype) for dtype in (np.int8, np.int64, np.uint8, np.uint64, np.float32, ">i4")]
NO_TEXT = [
    *typed(pd.Series, [], object, "str", "category"), *typed(pl.Series, [], pl.String, pl.Categorical, pl.Null),
    *arrow([], pa.string(), pa.null()), pa.chunked_array([], pa.string()),
    pa.chunked_array([], pa.dictionary(pa.int32(), pa.string())), objects([]),
]  # fmt: skip
NO_NUMBERS = [
    *typed(pd.Series, [], object, "float64", "Int64"), *typed(pl.Series, [], pl.Null, pl.Int8),
    *arrow([], pa.float64(), pa.null()), pa.chunked_array([], pa.int64()), objects([]), np.array([]),
]  # fmt: skip
NOTHING = [
    *typed(pd.Series, [None, None], object, float), pl.Series([None, None]), pa.nulls(2), objects([None, None]),
]  # fmt: skip
# Columns with the same values, what is declared, and the codes: of bins or categories, then other, then missing.
ALIKE = {
    "text": (TEXT_COLUMNS, Categorical(["x", "y", "é"]), [0, 2, 3, 4, 1, 0]),
    "numbers": (NUMBER_COLUMNS, Numeric(0, 10), [0, 9, 0, 9, 10, 3]),
    "whole numbers as categories": (WHOLE_COLUMNS + WHOLE_CATEGORIES, Categorical([1, 2, 7]), [0, 1, 4, 3, 2]),
    "whole numbers": (WHOLE_COLUMNS, Numeric(0, 9, integer=True), [1, 2, 10, 9, 7]),
    "booleans as categories": (FLAG_COLUMNS, Categorical([False, True]), [1, 0, 3]),
    "booleans as numbers": (FLAG_COLUMNS, Numeric(0, 1, integer=True), [1, 0, 2]),
    "numbers of numpy": (PLAIN_COLUMNS, Numeric(0, 10), [0, 3, 9]),
    "numbers of numpy as categories": (PLAIN_COLUMNS, Categorical([3, 0]), [1, 0, 2]),
    "text of numpy": ([np.array(["x", "zz", "é"])], Categorical(["x", "y", "é"]), [0, 3, 2]),
    "booleans of numpy": ([np.array([True, False])], Categorical([False, True]), [1, 0]),
    "no text": (NO_TEXT, Categorical(["x"]), []),
    "no numbers": (NO_NUMBERS, Numeric(0, 1), []),
    "no number that is known": (NOTHING, Numeric(0, 10), [10, 10]),
    "no category that is known": (NOTHING, Categorical([1, "x"]), [3, 3]),
}


@pytest.mark.parametrize(("columns", "feature", "codes"), ALIKE.values(), ids=ALIKE)
def test_a_column_gets_the_same_codes_in_every_library(columns, feature, codes):
    for column in columns:
        assert codes_of(frame(column), feature) == [codes], name_of(column)


def test_tables_of_text_and_lists_of_rows_are_read_as_objects_would_be():
    features = (Numeric(0, 10), Categorical(["x"]))
    assert codes_of(np.array([["3.5", "x"], ["q", "7"]]), *features) == [[3, 10], [0, 1]]
    assert codes_of([[1.0, "x"], [None, "q"], [99, None]], *features) == [[1, 10, 9], [0, 1, 2]]
    assert codes_of([[1.0, "x"], [7, "q"]], *features) == [[1, 7], [0, 1]]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_are_found_by_name_in_any_order(library):
    table = library({"f1": ["y", "x"], "f0": [3.0, 50.0]})
    assert codes_of(table, Numeric(0, 10), Categorical(["x", "y"])) == [[3, 9], [1, 0]]


def test_pandas_columns_whose_names_are_numbers_are_found():
    schema = Schema({"0": Numeric(0, 10), "1": Numeric(0, 10)}, Classes([0, 1]))
    assert encode(read_columns(pd.DataFrame([[1, 2]]), schema), Domain.of(schema, GRID)).tolist() == [[1], [2]]


def test_the_same_column_sliced_and_strided_gets_the_same_codes():
    values, letters = np.arange(20.0), pa.table({"f0": pa.array(list("abcabc")).dictionary_encode()})
    assert codes_of(values[::2, None][::-1], Numeric(0, 20)) == [[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]
    assert codes_of(pa.table({"f0": values}).slice(5, 3), Numeric(0, 20)) == [[2, 3, 3]]
    assert codes_of(letters.slice(4, 2), Categorical(["c"])) == [[1, 0]]


def test_values_outside_are_clipped_and_one_on_a_cut_belongs_to_the_bin_above():
    values = np.array([[-np.inf], [-1e300], [-1e-9], [0.0], [10.0], [10.1], [1e300], [np.inf]])
    assert codes_of(values, Numeric(0, 10)) == [[0, 0, 0, 0, 9, 9, 9, 9]]
    cuts = np.array([[np.nextafter(1.0, 0)], [1.0], [np.nextafter(2.0, 0)], [2.0]])
    assert codes_of(cuts, Numeric(0, 10)) == [[0, 1, 1, 2]]
    large = objects([10**400, -(10**400), Decimal("1e999"), "-1e999"])
    assert codes_of(large[:, None], Numeric(0, 10)) == [[9, 0, 9, 0]]


NO_NUMBER = [
    "abc", "", "1,5", None, np.nan, pd.NA, pd.NaT, 1j, np.complex128(1 + 2j), [1], (1,), {"a": 1}, ([],), b"\xff", object(),
    Decimal("sNaN"), np.array([1.0, 2.0]),
]  # fmt: skip
UNLISTED = [
    [1], {"a": 1}, {1}, (1, [2]), ("x", {}), np.array([1, 2]), bytearray(b"x"), Decimal("sNaN"), object(), b"x", 5, "z", "",
    1j, np.inf, 10**400,
]  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", NO_NUMBER, ids=lambda value: type(value).__name__)
def test_a_value_that_is_no_number_is_missing(value):
    assert codes_of(objects([value, 3.0])[:, None], Numeric(0, 10)) == [[10, 3]]
    assert codes_of(pd.DataFrame({"f0": pd.Series([3.0, value], dtype=object)}), Numeric(0, 10)) == [[3, 10]]
    assert read_target(objects([value, 1.0]), Bounded(0, 1)).tolist() == [-1, FINE_STEPS]


@pytest.mark.parametrize("value", UNLISTED, ids=lambda value: type(value).__name__)
def test_any_object_that_is_not_listed_is_other_hashable_or_not(value):
    column = objects(["x", value, "x"])
    assert codes_of(column[:, None], Categorical(["x", "y"])) == [[0, 2, 0]]
    assert codes_of(pd.DataFrame({"f0": pd.Series(column, dtype=object)}), Categorical(["x", "y"])) == [[0, 2, 0]]
    assert read_target(column, Classes(["x", "y"])).tolist() == [0, -1, 0]


@pytest.mark.parametrize("value", [5, 2.5, (1, 2), b"q", [1], "\ud800"], ids=repr)
def test_a_stray_value_far_down_a_column_of_text_or_among_its_categories_is_other(value):
    # Libraries guess what an object column holds from its first values; nothing may hang on that guess.
    column = pd.Series(objects(["x"] * 150 + [value]), dtype=object)
    assert codes_of(pd.DataFrame({"f0": column}), Categorical(["x"]))[0][-2:] == [0, 1]
    if not isinstance(value, list | str):
        column = pd.Series(objects(["x", value, "y"])).astype("category")
        assert codes_of(pd.DataFrame({"f0": column}), Categorical(["x", "y"])) == [[0, 2, 1]]


def test_every_mark_of_a_missing_value_is_missing():
    column = objects(["x", None, np.nan, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT")])
    assert codes_of(column[:, None], Categorical(["x"])) == [[0, *[2] * 6]]


TIMES = [
    pd.Series(pd.to_datetime(["2020-01-01"])), pl.Series(["2020-01-01"]).str.to_date(), pa.array([0], pa.timestamp("s")),
    np.array(["2020-01-01"], dtype="M8[D]"),
]  # fmt: skip
NO_CODES = [
    *TIMES, pd.Series(pd.to_timedelta(["1 day"])), pl.Series([[1, 2]]), pl.Series([{"a": 1}]), pa.array([[1]]),
    np.array([1], dtype="m8[s]"),
]  # fmt: skip
TEXT = [pd.Series(["1"], dtype="str"), pl.Series(["1"]), pa.array(["1"])]
ONES = [pd.Series([1]), pl.Series([1]), pa.array([1]), np.array([1])]
WRONG = {
    "types without codes for numbers": (NO_CODES, Numeric(0, 1), "'f0' is declared numeric"),
    "types without codes for categories": (NO_CODES, Categorical(["x"]), "'f0' is declared categorical"),
    "text for numbers": (TEXT, Numeric(0, 1), "'f0' is declared numeric"),
    "numbers for text": (ONES, Categorical(["x"]), "'f0'"),
    "text for categories that are numbers": (TEXT, Categorical([1, 2]), "'f0'"),
}


@pytest.mark.parametrize(("columns", "feature", "words"), WRONG.values(), ids=WRONG)
def test_a_column_of_a_wrong_type_is_refused_by_its_name(columns, feature, words):
    for column in columns:
        with pytest.raises(TableError, match=words):
            codes_of(frame(column), feature)


def test_a_table_that_is_all_text_holds_no_categories_that_are_numbers():
    with pytest.raises(TableError, match="'f1' holds text"):
        codes_of(np.array([["3.5", "1"]]), Numeric(0, 10), Categorical([1, 2]))


# --- the target -------------------------------------------------------------------------------------------------------

LABELS = [
    (3, 1, 2), ("b", "a"), (True, False), (0.5, 1.5), (b"b", b"a"), (("a", 1), ("b", 2)), (("a",), ("b", 2), ()),
    (1, "1", "a", 2.5), ("a", ("b", 2)), (b"a", "a"), (2**53 + 1, 0.5), ("a", "a\0"), (frozenset({1}), frozenset()),
]  # fmt: skip


@pytest.mark.parametrize("labels", LABELS, ids=repr)
def test_labels_of_any_hashable_type_are_found(labels):
    indices = [*range(len(labels)), 0]
    for holder in (list, tuple, objects, lambda values: pd.Series(objects(values))):
        assert read_target(holder([labels[index] for index in indices]), Classes(labels)).tolist() == indices


NUMBER_LABELS = [
    np.array([1, 0, 5]), np.array([1.0, 0.0, np.nan]), objects([True, False, 5]), [1, 0, 5], pd.Series([1, 0, 5]),
    pd.Series([1, 0, None], dtype="Int64"), pd.Series([1, 0, 5], dtype="category"), pl.Series([1, 0, None]),
    pa.array([1, 0, None]), pa.chunked_array([[1], [], [0, 5]]),
]  # fmt: skip
KNOWN = ["b", "a", None]
TEXT_LABELS = [
    np.array(["b", "a", "?"]), KNOWN, ["b", "a", 5], ["b", "a", ["q"]], ["b", "a", (1, [2])], pd.Series(KNOWN),
    pd.Series(KNOWN, dtype="category"), pl.Series(KNOWN), pl.Series(KNOWN, dtype=pl.Categorical), pa.array(KNOWN),
    pa.array(KNOWN).dictionary_encode(), pa.chunked_array([pa.array(KNOWN).dictionary_encode()]),
]  # fmt: skip
VALUES = [0.0, 5.0, 10.0, -3.0, 99.0, None]
VALUE_COLUMNS = [
    *typed(np.array, VALUES, float, np.float32), objects(VALUES), VALUES, [*VALUES[:5], "no number"], [*VALUES[:5], [1]],
    *typed(pd.Series, VALUES, float, "Float64", "Int64"), pl.Series(VALUES), pa.array(VALUES),
]  # fmt: skip
OTHERS = [holder(["b", "?", None, "a"]) for holder in (list, pd.Series, pl.Series)]
NO_ROWS = [[], np.empty(0, dtype=object), pd.Series([], dtype=object), pl.Series([]), pa.nulls(0)]
EXTREMES = [np.array([np.inf, -np.inf, 1e308, -1e308, np.nan])]
TARGETS = {
    "numbers as labels": (NUMBER_LABELS, Classes([0, 1]), [1, 0, -1]),
    "text": (TEXT_LABELS, Classes(["a", "b"]), [1, 0, -1]),
    "unlisted labels that count as another": (OTHERS, Classes(["a", "b"], other="b"), [1, 1, 1, 0]),
    "a listed none": ([["a", None, "?"]], Classes([None, "a"]), [1, 0, -1]),
    "no labels": (NO_ROWS, Classes(["a", "b"]), []),
    "no numbers": (NO_ROWS, Bounded(0, 1), []),
    "numbers": (VALUE_COLUMNS, Bounded(0, 10), [0, FINE_STEPS // 2, FINE_STEPS, 0, FINE_STEPS, -1]),
    "infinite numbers": (EXTREMES, Bounded(0, 1e-3), [FINE_STEPS, 0, FINE_STEPS, 0, -1]),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("columns", "target", "codes"), TARGETS.values(), ids=TARGETS)
def test_a_target_gets_the_same_codes_in_every_library(columns, target, codes):
    for column in columns:
        assert read_target(column, target).tolist() == codes, name_of(column)


MASKED = [np.ma.masked_array([1, 0]), np.ma.masked_array([1, 0])[:, None]]
NO_ORDER = [np.array(["1", "2"]), *TEXT[:2], np.array([1 + 2j, 3]), *TIMES, pl.Series([[1.0]])]
WRONG_TARGETS = {
    "values without order": (NO_ORDER, Bounded(0, 10), "target"),
    "several columns": ([np.zeros((3, 2))], Classes([0, 1]), "target"),
    "no labels": ([*TIMES, pa.array([b"a"]), pl.Series([[1]])], Classes(["a"]), "declared classes, but it was given as"),
    "a mask that would be lost": (MASKED, Classes([0, 1]), "masked"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("columns", "target", "words"), WRONG_TARGETS.values(), ids=WRONG_TARGETS)
def test_a_target_of_a_wrong_type_is_refused(columns, target, words):
    for column in columns:
        with pytest.raises(TableError, match=words):
            read_target(column, target)


WRONG_LABELS = {
    "numpy numbers": (np.array([0, 1]), ["0", "1"], r"holds numbers \(int64\).*all text"),
    "numpy truths": (np.array([True, False]), ["0", "1"], r"holds numbers \(bool\).*all text"),
    "numpy text": (np.array(["0", "1"]), [0, 1], r"holds text \(text\).*all numbers"),
    "numpy bytes": (np.array([b"0", b"1"]), ["0", "1"], r"holds bytes \(bytes\).*all text"),
    "numbers and tuples": (np.array([0, 1]), [(0,), (1,)], r"holds numbers \(int64\).* are not"),
    "pandas Int64": (pd.Series([0, None], dtype="Int64"), ["0", "1"], "holds numbers"),
    "pandas str": (pd.Series(["0", "1"], dtype="str"), [0, 1], "holds text"),
    "pandas bare array": (pd.array([0, None], dtype="Int64"), ["0", "1"], "holds numbers"),
    "pandas table of one column": (pd.DataFrame({"y": ["0"]}, dtype="str"), [0, 1], "holds text"),
    "polars": (pl.Series(["0", "1"]), [0, 1], "holds text"),
    "polars Categorical": (pl.Series(["0", "1"], dtype=pl.Categorical), [0, 1], r"holds text \(Categorical\)"),
    "pyarrow": (pa.array([True, None]), ["0", "1"], "holds numbers"),
    "pyarrow dictionary": (pa.array(["0"]).dictionary_encode(), [0, 1], r"holds text \(Categorical\)"),
}


@pytest.mark.filterwarnings("ignore:A column-vector")
@pytest.mark.parametrize(("y", "labels", "words"), WRONG_LABELS.values(), ids=WRONG_LABELS)
def test_a_target_that_can_hold_none_of_the_labels_is_refused_by_its_type(y, labels, words):
    with pytest.raises(TableError, match=f"The target 'target' {words}.*declare the labels as"):
        read_target(y, Classes(labels))


@pytest.mark.parametrize("labels", [["0", 1], [False, True], [None, "0"]], ids=str)
def test_a_target_that_can_hold_some_label_is_read(labels):
    for y in (np.array([0, 1]), pd.Series([0.0, 1.0]), pa.array([True, False])):
        assert len(read_target(y, Classes(labels))) == 2


def test_text_of_arrow_that_is_not_utf_8_is_no_category_no_label_and_no_id():
    text = pa.array([b"a", b"\xff", None], pa.binary()).view(pa.string())
    assert codes_of(pa.table({"f0": text}), Categorical(["a", "b"])) == [[0, 2, 3]]
    assert read_target(text, Classes(["a", "b"])).tolist() == [0, -1, -1]
    assert person_indices(read_ids(text)).tolist() == [0, -1, -1]


@pytest.mark.filterwarnings("error")
def test_long_doubles_beyond_all_doubles_are_clipped_or_other():
    values = np.array(["1", "1e4000", "-1e4000", "nan"], dtype=np.longdouble)[:, None]
    assert codes_of(values, Categorical([1, 2])) == [[0, 2, 2, 3]]
    assert codes_of(values, Numeric(0, 10)) == [[1, 9, 0, 10]]


# --- categories that are compared as texts ---------------------------------------------------------------------------


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
NO_VALUES = [None, np.nan, np.float16("nan"), Decimal("NaN"), Decimal("sNaN"), pd.NA, pd.NaT]
WITHOUT_TEXT = [
    3.5, np.inf, -np.inf, 2**64, -(2**63) - 1, 2.0**64, -(2.0**63) * 1.1, 10**400, Decimal("1e999999999"), Decimal("0.1"),
    Decimal("-Infinity"), Decimal("1e-999999"), Fraction(1, 2), 1j, b"x", ["x"], ("x",), "\ud800", object(),
]  # fmt: skip


def test_text_is_itself_a_whole_number_its_digits_and_what_has_no_text_is_other():
    for value, text in [*TEXTS, *((value, "missing") for value in NO_VALUES), *((value, None) for value in WITHOUT_TEXT)]:
        assert texts_of([value]) == [text]


WHOLES, DIGITS = [17, None, 0, 3], ["17", None, "0", "3"]
COLUMNS = [
    objects(WHOLES), objects(["17", np.nan, -0.0, Decimal(3)]), np.array([17, np.nan, -0.0, 3]),
    *typed(pd.Series, WHOLES, "float64", "Int64"), *typed(pd.Series, DIGITS, "str", "category"),
    pd.Series([17.0, None, 0.0, 3.0], dtype="category"), pl.Series(DIGITS, dtype=pl.Categorical),
    *typed(pl.Series, WHOLES, pl.UInt8, pl.Int128, pl.Decimal(20, 2)), *arrow(WHOLES, pa.int64(), pa.decimal128(20, 2)),
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
