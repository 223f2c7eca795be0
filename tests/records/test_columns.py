"""The same values get the same codes, however the table holds them."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.support.columns import objects

from dpforest import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.errors import TableError
from dpforest.records.columns import read_columns, read_target
from dpforest.records.memory.vault import encode
from dpforest.records.people import person_indices, read_ids
from dpforest.schema import FINE_STEPS
from dpforest.schema.domain import Domain, Grid

GRID = Grid(bins=10)
WORDS = ["x", "é", "zz", None, "y", "x"]
WORD_CODES = [0, 2, 3, 4, 1, 0]  # x, y, é, other, missing
NUMBERS = [0.0, 10.0, -5.0, 99.0, None, 3.5]
NUMBER_CODES = [0, 9, 0, 9, 10, 3]
WHOLE = [1, 2, None, 9, 7]
WHOLE_CODES = [0, 1, 4, 3, 2]  # 1, 2, 7, other, missing
FLAGS = [True, False, None]
FLAG_CODES = [1, 0, 3]  # False, True, other, missing


def codes_of(X, *features):
    schema = Schema({f"f{index}": feature for index, feature in enumerate(features)}, Classes([0, 1]))
    domain = Domain.of(schema, GRID)
    return encode(read_columns(X, schema), domain).tolist()


def frame(column):
    """A table of one column, by the library that the column comes from."""
    if isinstance(column, pd.Series):
        return pd.DataFrame({"f0": column})
    if isinstance(column, pl.Series):
        return pl.DataFrame({"f0": column})
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return pa.table({"f0": column})
    return column[:, None]


def ordered(values):
    return pd.Series(pd.Categorical(values, ordered=True))


TEXT_COLUMNS = {
    "pandas object": pd.Series(WORDS, dtype=object),
    "pandas object with nan": pd.Series([np.nan if word is None else word for word in WORDS], dtype=object),
    "pandas str": pd.Series(WORDS, dtype="str"),
    "pandas string": pd.Series(WORDS, dtype="string"),
    "pandas category": pd.Series(WORDS, dtype="category"),
    "pandas ordered category": ordered(WORDS),
    "pandas arrow": pd.Series(WORDS, dtype=pd.ArrowDtype(pa.string())),
    "polars String": pl.Series(WORDS),
    "polars Categorical": pl.Series(WORDS, dtype=pl.Categorical),
    "polars Enum": pl.Series(WORDS, dtype=pl.Enum(["zz", "é", "x", "y"])),
    "polars Object": pl.Series(WORDS, dtype=pl.Object),
    "pyarrow string": pa.array(WORDS),
    "pyarrow large_string": pa.array(WORDS, pa.large_string()),
    "pyarrow string_view": pa.array(WORDS, pa.string_view()),
    "pyarrow dictionary": pa.array(WORDS).dictionary_encode(),
    "pyarrow dictionary that lists null": pa.array(WORDS).dictionary_encode(null_encoding="encode"),
    "pyarrow chunks": pa.chunked_array([WORDS[:2], [], WORDS[2:]], pa.string()),
    "pyarrow chunks with dictionaries of their own": pa.chunked_array(
        [pa.array(WORDS[:2]).dictionary_encode(), pa.array(WORDS[2:]).dictionary_encode()]
    ),
    "numpy object": objects(WORDS),
}

NUMBER_COLUMNS = {
    "pandas float64": pd.Series(NUMBERS, dtype="float64"),
    "pandas float32": pd.Series(NUMBERS, dtype="float32"),
    "pandas object": pd.Series(NUMBERS, dtype=object),
    "pandas Float64": pd.Series(NUMBERS, dtype="Float64"),
    "pandas arrow": pd.Series(NUMBERS, dtype=pd.ArrowDtype(pa.float64())),
    "polars Float64": pl.Series(NUMBERS),
    "polars Float32": pl.Series(NUMBERS, dtype=pl.Float32),
    "polars Decimal": pl.Series([None if v is None else Decimal(str(v)) for v in NUMBERS]),
    "polars Object": pl.Series(NUMBERS, dtype=pl.Object),
    "pyarrow double": pa.array(NUMBERS),
    "pyarrow float": pa.array(NUMBERS, pa.float32()),
    "pyarrow halffloat": pa.array([None if v is None else np.float16(v) for v in NUMBERS], pa.float16()),
    "pyarrow chunks": pa.chunked_array([NUMBERS[:2], [], NUMBERS[2:]], pa.float64()),
    "numpy float64": np.array(NUMBERS, dtype=float),
    "numpy float32": np.array(NUMBERS, dtype=np.float32),
    "numpy float16": np.array(NUMBERS, dtype=np.float16),
    "numpy longdouble": np.array(NUMBERS, dtype=np.longdouble),
    "numpy float64 of the other byte order": np.array(NUMBERS, dtype=float).astype(">f8"),
    "numpy object": objects(NUMBERS),
    "numpy object with text": objects([None if v is None else str(v) for v in NUMBERS]),
}

WHOLE_COLUMNS = {
    "pandas Int64": pd.Series(WHOLE, dtype="Int64"),
    "pandas UInt8": pd.Series(WHOLE, dtype="UInt8"),
    "pandas float64": pd.Series(WHOLE, dtype="float64"),
    "pandas object": pd.Series(WHOLE, dtype=object),
    "pandas category": pd.Series(WHOLE, dtype="Int64").astype("category"),
    "pandas ordered category": ordered(pd.Series(WHOLE, dtype="Int64")),
    "polars Int64": pl.Series(WHOLE),
    "polars UInt16": pl.Series(WHOLE, dtype=pl.UInt16),
    "pyarrow int64": pa.array(WHOLE),
    "pyarrow uint8": pa.array(WHOLE, pa.uint8()),
    "pyarrow dictionary": pa.array(WHOLE).dictionary_encode(),
    "numpy float64": np.array(WHOLE, dtype=float),
    "numpy float32": np.array(WHOLE, dtype=np.float32),
    "numpy object": objects(WHOLE),
}

FLAG_COLUMNS = {
    "pandas boolean": pd.Series(FLAGS, dtype="boolean"),
    "pandas object": pd.Series(FLAGS, dtype=object),
    "polars Boolean": pl.Series(FLAGS),
    "pyarrow bool": pa.array(FLAGS),
    "numpy object": objects(FLAGS),
}


@pytest.mark.parametrize("column", TEXT_COLUMNS.values(), ids=TEXT_COLUMNS.keys())
def test_text_gets_the_same_codes_in_every_library(column):
    assert codes_of(frame(column), Categorical(["x", "y", "é"])) == [WORD_CODES]


@pytest.mark.parametrize("column", NUMBER_COLUMNS.values(), ids=NUMBER_COLUMNS.keys())
def test_numbers_are_clipped_and_binned_alike_in_every_library(column):
    assert codes_of(frame(column), Numeric(0, 10)) == [NUMBER_CODES]


@pytest.mark.parametrize("column", WHOLE_COLUMNS.values(), ids=WHOLE_COLUMNS.keys())
def test_whole_numbers_as_categories_get_the_same_codes_in_every_library(column):
    assert codes_of(frame(column), Categorical([1, 2, 7])) == [WHOLE_CODES]


@pytest.mark.parametrize(
    "column", [WHOLE_COLUMNS[name] for name in WHOLE_COLUMNS if "category" not in name and "dictionary" not in name]
)
def test_whole_numbers_get_a_bin_each_in_every_library(column):
    assert codes_of(frame(column), Numeric(0, 9, integer=True)) == [[1, 2, 10, 9, 7]]


@pytest.mark.parametrize("column", FLAG_COLUMNS.values(), ids=FLAG_COLUMNS.keys())
def test_booleans_are_categories_and_numbers_in_every_library(column):
    assert codes_of(frame(column), Categorical([False, True])) == [FLAG_CODES]
    assert codes_of(frame(column), Numeric(0, 1, integer=True)) == [[1, 0, 2]]


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.uint64, np.float32, ">i4"])
def test_numpy_numbers_of_every_size_are_binned_alike(dtype):
    assert codes_of(np.array([[0], [3], [100]], dtype=dtype), Numeric(0, 10)) == [[0, 3, 9]]
    assert codes_of(np.array([[0], [3], [100]], dtype=dtype), Categorical([3, 0])) == [[1, 0, 2]]


def test_numpy_text_and_booleans_are_read():
    assert codes_of(np.array([["x"], ["zz"], ["é"]]), Categorical(["x", "y", "é"])) == [[0, 3, 2]]
    assert codes_of(np.array([[True], [False]]), Categorical([False, True])) == [[1, 0]]


def test_numbers_are_read_out_of_a_numpy_table_that_is_all_text():
    assert codes_of(np.array([["3.5", "x"], ["q", "7"]]), Numeric(0, 10), Categorical(["x"])) == [[3, 10], [0, 1]]


def test_a_list_of_rows_is_read_as_numpy_objects_would_be():
    rows = [[1.0, "x"], [None, "q"], [99, None]]
    assert codes_of(rows, Numeric(0, 10), Categorical(["x"])) == [[1, 10, 9], [0, 1, 2]]
    text_and_numbers = [[1.0, "x"], [7, "q"]]
    assert codes_of(text_and_numbers, Numeric(0, 10), Categorical(["x"])) == [[1, 7], [0, 1]]


@pytest.mark.parametrize(
    "column",
    [pd.Series([], dtype=object), pd.Series([], dtype="str"), pd.Series([], dtype="category"),
     pl.Series([], dtype=pl.String), pl.Series([], dtype=pl.Categorical), pl.Series([], dtype=pl.Null),
     pa.array([], pa.string()), pa.nulls(0),
     pa.chunked_array([], pa.string()), pa.chunked_array([], pa.dictionary(pa.int32(), pa.string())), objects([])],
    ids=lambda column: f"{type(column).__module__}-{getattr(column, 'dtype', None) or column.type}",
)  # fmt: skip
def test_a_text_column_without_rows_has_no_codes(column):
    assert codes_of(frame(column), Categorical(["x"])) == [[]]


@pytest.mark.parametrize(
    "column",
    [pd.Series([], dtype=object), pd.Series([], dtype="float64"), pd.Series([], dtype="Int64"),
     pl.Series([], dtype=pl.Null), pl.Series([], dtype=pl.Int8), pa.array([], pa.float64()), pa.nulls(0),
     pa.chunked_array([], pa.int64()), objects([]), np.array([])],
    ids=lambda column: f"{type(column).__module__}-{getattr(column, 'dtype', None) or column.type}",
)  # fmt: skip
def test_a_numeric_column_without_rows_has_no_codes(column):
    assert codes_of(frame(column), Numeric(0, 1)) == [[]]


@pytest.mark.parametrize(
    "column",
    [pd.Series([None, None], dtype=object), pd.Series([np.nan, np.nan]), pl.Series([None, None]), pa.nulls(2),
     objects([None, None])],
    ids=lambda column: f"{type(column).__module__}-{getattr(column, 'dtype', None) or column.type}",
)  # fmt: skip
def test_a_column_without_any_value_is_all_missing(column):
    assert codes_of(frame(column), Numeric(0, 10)) == [[10, 10]]
    assert codes_of(frame(column), Categorical([1, "x"])) == [[3, 3]]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_are_found_by_name_in_any_order(library):
    table = library({"f1": ["y", "x"], "f0": [3.0, 50.0]})
    assert codes_of(table, Numeric(0, 10), Categorical(["x", "y"])) == [[3, 9], [1, 0]]


def test_pandas_columns_whose_names_are_numbers_are_found():
    schema = Schema({"0": Numeric(0, 10), "1": Numeric(0, 10)}, Classes([0, 1]))
    assert encode(read_columns(pd.DataFrame([[1, 2]]), schema), Domain.of(schema, GRID)).tolist() == [[1], [2]]


def test_the_same_column_sliced_and_strided_gets_the_same_codes():
    values = np.arange(20.0)
    assert codes_of(values[::2, None][::-1], Numeric(0, 20)) == [[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]
    assert codes_of(pa.table({"f0": values}).slice(5, 3), Numeric(0, 20)) == [[2, 3, 3]]
    assert codes_of(pa.table({"f0": pa.array(list("abcabc")).dictionary_encode()}).slice(4, 2), Categorical(["c"])) == [
        [1, 0]
    ]


def test_infinities_and_values_far_outside_are_clipped_to_the_end_bins():
    values = np.array([[-np.inf], [-1e300], [-1e-9], [0.0], [10.0], [10.1], [1e300], [np.inf]])
    assert codes_of(values, Numeric(0, 10)) == [[0, 0, 0, 0, 9, 9, 9, 9]]


def test_a_value_on_a_cut_belongs_to_the_bin_above():
    assert codes_of(np.array([[np.nextafter(1.0, 0)], [1.0], [np.nextafter(2.0, 0)], [2.0]]), Numeric(0, 10)) == [
        [0, 1, 1, 2]
    ]


@pytest.mark.parametrize(
    "value",
    ["abc", "", "1,5", None, np.nan, pd.NA, pd.NaT, 1j, np.complex128(1 + 2j), [1], (1,), {"a": 1}, b"\xff", object(),
     Decimal("sNaN"), np.array([1.0, 2.0])],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_a_value_that_is_no_number_is_missing(value):
    assert codes_of(objects([value, 3.0])[:, None], Numeric(0, 10)) == [[10, 3]]
    assert codes_of(pd.DataFrame({"f0": pd.Series([3.0, value], dtype=object)}), Numeric(0, 10)) == [[3, 10]]


@pytest.mark.parametrize(
    ("value", "code"),
    [(10**400, 9), (-(10**400), 0), (Decimal("1e999"), 9), ("-1e999", 0)],
    ids=["whole", "negative whole", "decimal", "text"],
)
def test_a_number_too_large_for_a_float_is_clipped_like_any_other(value, code):
    assert codes_of(objects([value])[:, None], Numeric(0, 10)) == [[code]]


@pytest.mark.parametrize(
    "value",
    [[1], {"a": 1}, {1}, (1, [2]), ("x", {}), np.array([1, 2]), bytearray(b"x"), Decimal("sNaN"), object(), b"x", 5,
     "z"],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_any_object_that_is_not_listed_is_other_hashable_or_not(value):
    column = objects(["x", "x", "x"])
    column[1] = value
    assert codes_of(column[:, None], Categorical(["x", "y"])) == [[0, 2, 0]]
    assert codes_of(pd.DataFrame({"f0": pd.Series(column, dtype=object)}), Categorical(["x", "y"])) == [[0, 2, 0]]


@pytest.mark.parametrize("value", [5, 2.5, (1, 2), [1], b"q", "\ud800"], ids=repr)
def test_a_stray_value_far_down_a_column_of_text_is_other(value):
    # Libraries guess what an object column holds from its first values; nothing may hang on that guess.
    column = objects(["x"] * 150 + [None])
    column[-1] = value
    assert codes_of(pd.DataFrame({"f0": pd.Series(column, dtype=object)}), Categorical(["x"]))[0][-2:] == [0, 1]


@pytest.mark.parametrize("value", [5, 2.5, (1, 2), b"q"], ids=repr)
def test_categories_of_several_types_are_read(value):
    column = objects(["x", None, "y"])
    column[1] = value
    assert codes_of(pd.DataFrame({"f0": pd.Series(column).astype("category")}), Categorical(["x", "y"])) == [[0, 2, 1]]


@pytest.mark.parametrize("missing", [None, np.nan, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT")], ids=repr)
def test_every_mark_of_a_missing_value_is_missing(missing):
    assert codes_of(objects(["x", missing])[:, None], Categorical(["x"])) == [[0, 2]]


@pytest.mark.parametrize("n_categories", [1, 2, 253, 254, 255, 1000])
def test_codes_fit_their_type_whatever_the_number_of_categories(n_categories):
    column = np.array([[0], [n_categories - 1], [n_categories]])
    assert codes_of(column, Categorical(range(n_categories))) == [[0, n_categories - 1, n_categories]]
    assert codes_of(np.array([[np.nan]]), Categorical(range(n_categories))) == [[n_categories + 1]]


REFUSED = {
    "pandas datetime": pd.Series(pd.to_datetime(["2020-01-01"])),
    "pandas timedelta": pd.Series(pd.to_timedelta(["1 day"])),
    "polars Date": pl.Series(["2020-01-01"]).str.to_date(),
    "polars List": pl.Series([[1, 2]]),
    "polars Struct": pl.Series([{"a": 1}]),
    "pyarrow timestamp": pa.array([0], pa.timestamp("s")),
    "pyarrow list": pa.array([[1]]),
    "numpy datetime": np.array(["2020-01-01"], dtype="M8[D]"),
    "numpy timedelta": np.array([1], dtype="m8[s]"),
}


@pytest.mark.parametrize("feature", [Numeric(0, 1), Categorical(["x"])], ids=["numeric", "categorical"])
@pytest.mark.parametrize("column", REFUSED.values(), ids=REFUSED.keys())
def test_types_without_codes_are_refused_by_the_name_of_the_column(column, feature):
    with pytest.raises(TableError, match=f"'f0' is declared {feature.kind}"):
        codes_of(frame(column), feature)


@pytest.mark.parametrize(
    "column",
    [pd.Series(["1"], dtype="str"), pl.Series(["1"]), pa.array(["1"])],
    ids=["pandas", "polars", "pyarrow"],
)
def test_text_is_refused_where_numbers_are_declared(column):
    with pytest.raises(TableError, match="'f0' is declared numeric"):
        codes_of(frame(column), Numeric(0, 1))


@pytest.mark.parametrize("column", [pd.Series([1]), pl.Series([1]), pa.array([1]), np.array([1])])
def test_numbers_are_refused_where_text_is_declared(column):
    with pytest.raises(TableError, match="'f0'"):
        codes_of(frame(column), Categorical(["x"]))


@pytest.mark.parametrize(
    "column", [pd.Series(["1"], dtype="str"), pl.Series(["1"]), pa.array(["1"])], ids=["pandas", "polars", "pyarrow"]
)
def test_text_is_refused_where_categories_are_numbers(column):
    with pytest.raises(TableError, match="'f0'"):
        codes_of(frame(column), Categorical([1, 2]))


LABELS = {
    "int": (3, 1, 2),
    "str": ("b", "a"),
    "bool": (True, False),
    "float": (0.5, 1.5),
    "bytes": (b"b", b"a"),
    "tuple": (("a", 1), ("b", 2)),
    "tuples of several lengths": (("a",), ("b", 2), ()),
    "mixed": (1, "1", "a", 2.5),
    "text before tuples": ("a", ("b", 2)),
    "bytes and text": (b"a", "a"),
    "large and fractional": (2**53 + 1, 0.5),
    "text that ends in a null": ("a", "a\0"),
    "frozenset": (frozenset({1}), frozenset()),
}


@pytest.mark.parametrize("holder", [list, tuple, objects, lambda values: pd.Series(objects(values))])
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_labels_of_any_hashable_type_are_found(labels, holder):
    indices = [*range(len(labels)), 0]
    y = holder([labels[index] for index in indices])
    assert read_target(y, Classes(labels)).tolist() == indices


NUMBER_LABELS = {
    "numpy": np.array([1, 0, 5]),
    "numpy float": np.array([1.0, 0.0, np.nan]),
    "numpy object": objects([True, False, 5]),
    "list": [1, 0, 5],
    "pandas": pd.Series([1, 0, 5]),
    "pandas Int64": pd.Series([1, 0, None], dtype="Int64"),
    "pandas category": pd.Series([1, 0, 5], dtype="category"),
    "polars": pl.Series([1, 0, None]),
    "pyarrow": pa.array([1, 0, None]),
    "pyarrow chunks": pa.chunked_array([[1], [], [0, 5]]),
}
TEXT_LABELS = {
    "numpy": np.array(["b", "a", "?"]),
    "list with none": ["b", "a", None],
    "list with a number": ["b", "a", 5],
    "list with a list": ["b", "a", ["q"]],
    "list with a tuple that cannot be hashed": ["b", "a", (1, [2])],
    "pandas": pd.Series(["b", "a", None]),
    "pandas category": pd.Series(["b", "a", None], dtype="category"),
    "polars": pl.Series(["b", "a", None]),
    "polars Categorical": pl.Series(["b", "a", None], dtype=pl.Categorical),
    "pyarrow": pa.array(["b", "a", None]),
    "pyarrow dictionary": pa.array(["b", "a", None]).dictionary_encode(),
    "pyarrow chunks of a dictionary": pa.chunked_array([pa.array(["b", "a", None]).dictionary_encode()]),
}


@pytest.mark.parametrize("y", NUMBER_LABELS.values(), ids=NUMBER_LABELS.keys())
def test_numbers_as_labels_are_found_in_every_library(y):
    assert read_target(y, Classes([0, 1])).tolist() == [1, 0, -1]


@pytest.mark.parametrize("y", TEXT_LABELS.values(), ids=TEXT_LABELS.keys())
def test_text_labels_that_are_not_listed_or_missing_are_left_out(y):
    assert read_target(y, Classes(["a", "b"])).tolist() == [1, 0, -1]


@pytest.mark.parametrize("holder", [list, pd.Series, pl.Series])
def test_unlisted_labels_count_as_the_declared_other(holder):
    assert read_target(holder(["b", "?", None, "a"]), Classes(["a", "b"], other="b")).tolist() == [1, 1, 1, 0]


def test_a_listed_none_is_a_label_like_any_other():
    assert read_target(["a", None, "?"], Classes([None, "a"])).tolist() == [1, 0, -1]


@pytest.mark.parametrize("y", [[], np.empty(0, dtype=object), pd.Series([], dtype=object), pl.Series([]), pa.nulls(0)])
@pytest.mark.parametrize("target", [Classes(["a", "b"]), Bounded(0, 1)], ids=["classes", "bounded"])
def test_a_target_without_rows_has_no_codes(y, target):
    assert read_target(y, target).tolist() == []


TARGET_VALUES = [0.0, 5.0, 10.0, -3.0, 99.0, None]
TARGET_CODES = [0, FINE_STEPS // 2, FINE_STEPS, 0, FINE_STEPS, -1]


BOUNDED_TARGETS = {
    "numpy float64": np.array(TARGET_VALUES, dtype=float),
    "numpy float32": np.array(TARGET_VALUES, dtype=np.float32),
    "numpy object": objects(TARGET_VALUES),
    "list": TARGET_VALUES,
    "list with text": [*TARGET_VALUES[:5], "no number"],
    "list with a list": [*TARGET_VALUES[:5], [1]],
    "pandas float64": pd.Series(TARGET_VALUES),
    "pandas Float64": pd.Series(TARGET_VALUES, dtype="Float64"),
    "pandas Int64": pd.Series(TARGET_VALUES, dtype="Int64"),
    "polars": pl.Series(TARGET_VALUES),
    "pyarrow": pa.array(TARGET_VALUES),
}


@pytest.mark.parametrize("y", BOUNDED_TARGETS.values(), ids=BOUNDED_TARGETS.keys())
def test_a_bounded_target_is_clipped_and_left_out_where_missing(y):
    assert read_target(y, Bounded(0, 10)).tolist() == TARGET_CODES


@pytest.mark.filterwarnings("error")
def test_infinite_target_values_are_clipped():
    y = np.array([np.inf, -np.inf, 1e308, -1e308, np.nan])
    assert read_target(y, Bounded(0, 1e-3)).tolist() == [FINE_STEPS, 0, FINE_STEPS, 0, -1]


@pytest.mark.parametrize(
    "y",
    [np.array(["1", "2"]), pd.Series(["1", "2"], dtype="str"), pl.Series(["1", "2"]), np.array([1 + 2j, 3]),
     np.array(["2020-01-01"], dtype="M8[D]"), pd.Series(pd.to_datetime(["2020-01-01"])), pl.Series([[1.0]])],
    ids=lambda y: f"{type(y).__module__}-{y.dtype}",
)  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_a_bounded_target_of_a_type_without_order_on_numbers_is_refused(y):
    with pytest.raises(TableError, match="target"):
        read_target(y, Bounded(0, 10))


def test_a_target_with_several_columns_is_refused():
    with pytest.raises(TableError, match="target"):
        read_target(np.zeros((3, 2)), Classes([0, 1]))


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
@pytest.mark.parametrize(("y", "labels", "words"), WRONG_LABELS.values(), ids=WRONG_LABELS.keys())
def test_a_target_that_can_hold_none_of_the_labels_is_refused_by_its_type(y, labels, words):
    with pytest.raises(TableError, match=f"The target 'target' {words}.*declare the labels as"):
        read_target(y, Classes(labels))


@pytest.mark.parametrize("y", [np.array([0, 1]), pd.Series([0.0, 1.0]), pa.array([True, False])], ids=["0", "1", "2"])
@pytest.mark.parametrize("labels", [["0", 1], [False, True], [None, "0"]], ids=str)
def test_a_target_that_can_hold_some_label_is_read(y, labels):
    assert len(read_target(y, Classes(labels))) == 2


@pytest.mark.parametrize(
    "y",
    [pd.Series(pd.to_datetime(["2020-01-01"])), np.array(["2020-01-01"], dtype="M8[D]"), pa.array([b"a"]), pl.Series([[1]])],
    ids=["pandas time", "numpy time", "pyarrow binary", "polars List"],
)  # fmt: skip
def test_classes_of_a_type_without_labels_are_refused(y):
    with pytest.raises(TableError, match="declared classes, but it was given as"):
        read_target(y, Classes(["a", "b"]))


@pytest.mark.parametrize("holder", [np.ma.masked_array, lambda y: np.ma.masked_array(y)[:, None]], ids=["1D", "2D"])
def test_a_masked_array_is_refused_for_its_mask_would_be_lost(holder):
    with pytest.raises(TableError, match="masked"):
        read_target(holder([1, 0]), Classes([0, 1]))


def test_text_of_arrow_that_is_not_utf_8_is_no_category_no_label_and_no_id():
    text = pa.array([b"a", b"\xff", None], pa.binary()).view(pa.string())
    assert codes_of(pa.table({"f0": text}), Categorical(["a", "b"])) == [[0, 2, 3]]
    assert read_target(text, Classes(["a", "b"])).tolist() == [0, -1, -1]
    assert person_indices(read_ids(text)).tolist() == [0, -1, -1]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("role", [Categorical([1, 2]), Numeric(0, 10)], ids=["categorical", "numeric"])
def test_long_doubles_beyond_all_doubles_are_clipped_or_other(role):
    values = np.array(["1", "1e4000", "-1e4000", "nan"], dtype=np.longdouble)
    assert codes_of(values[:, None], role) == ([[0, 2, 2, 3]] if role.kind == "categorical" else [[1, 9, 0, 10]])


def test_a_table_that_is_all_text_holds_no_categories_that_are_numbers():
    with pytest.raises(TableError, match="'f1' holds text"):
        codes_of(np.array([["3.5", "1"]]), Numeric(0, 10), Categorical([1, 2]))
