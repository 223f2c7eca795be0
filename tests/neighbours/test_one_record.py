"""One extreme record, in any container and any role, changes neither what is seen nor how others are read: in memory.

Where a value would change the type of a column, both tables have the type that holds both: types are public, and chosen by
whoever made the table.
"""

import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.neighbours.odd_values import HOLDERS, INF, NAN, OBJECTS, PLAIN, SECRET, signalling
from tests.neighbours.one_record import (
    FINE,
    MARK,
    MARKS,
    ODD,
    ORDINARY,
    first_and_last,
    noted,
    placed,
    read,
    root_counts,
    together_and_alone,
)
from tests.records.holders import objects
from tests.support.crosses import pairwise

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, Numeric, Schema
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.people import People
from dpforest.records.vault import Vault

pytestmark = pytest.mark.slow

N_ROWS = 8
TEXT = ["a", "b", None, "c"] * 2  # of which a and b are listed
NUMBERS = [1.0, 2.0, 1.0, 5.0] * 2  # of which 1 and 2 are listed
TRUTHS = [True, False] * 4
DATES = ["2024-02-29", "2024-02-29T10:20:30.5+05:45", None, "c"] * 2  # of which two are dates


def arrays(dtype):
    """Values of numpy, some of which are arrays of one: their bits stay as they are."""
    return lambda values: np.concatenate(
        [value if isinstance(value, np.ndarray) else np.array([value], dtype=dtype) for value in values]
    )


def arrow_text(values, type_=None):
    """Text of Arrow, also from bytes that are none."""
    binary = [value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value for value in values]
    views = {pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
    return pa.array(binary, views.get(type_, pa.binary())).view(type_ or pa.string())


def arrow_dictionary(values):
    return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int8()), arrow_text(values))


def pandas_text(values):
    return pd.Series(pd.arrays.ArrowStringArray(arrow_text(values, pa.large_string()), dtype=pd.StringDtype("pyarrow")))


def polars_enum(values):
    return pl.Series(values, dtype=pl.Enum(["a", "b", "c", "", SECRET, "long" * 1000]))


def of_numbers(dtype):
    kind = np.dtype(dtype)
    limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    odd = [limits.min, limits.max, 0]
    if kind.kind == "f":
        odd += [INF, -INF, NAN, -0.0, limits.smallest_subnormal, limits.max / 2]
        bits = {2: np.uint16(0x7C01), 4: np.uint32(0x7F800001), 8: np.uint64(0x7FF0000000000001)}
        if kind.itemsize in bits:
            odd.append(signalling(kind.newbyteorder("="), bits[kind.itemsize]).astype(kind))
    return odd


@dataclass(frozen=True)
class Held:
    """A container: how it is made of values, those of all others, and those of the odd record."""

    make: Callable[[list[Any]], Any]
    base: list[Any]
    odd: list[Any]


ODD_TEXT = ["", SECRET, "long" * 1000, None]
UNDECODABLE = [*ODD_TEXT, b"\xff", b"a\xff", "\ud800", "a\0"]
ODD_NUMBERS = [INF, -INF, NAN, None, -0.0, 5e-324, 1.7976931348623157e308, 2.0**60]
ODD_WHOLE = [None, 2**63 - 1, -(2**63), 0]
ODD_DECIMALS = [None, Decimal("9" * 28), Decimal("-" + "9" * 28), Decimal("0.0001")]
ODD_CATEGORIES = [*ODD_TEXT, 5, 2.5, b"q", ("a",), Decimal("NaN")]
WHOLE = [1, 2, 1, 5] * 2
decimals = [Decimal(value) for value in WHOLE]

HELD = {
    f"numpy {dtype}": Held(arrays(dtype), NUMBERS, of_numbers(dtype))
    for dtype in ("i1", "i8", "u1", "u8", ">i4", "f2", "f4", "f8", "g", ">f8", ">f4")
}
HELD |= {
    "numpy bool": Held(arrays(bool), TRUTHS, [True, False]),
    "numpy text": Held(
        partial(np.array, dtype="U4000"), ["a", "b", "c", "1"] * 2, ["", SECRET, "\ud800", "1e400", "nan", "long" * 1000]
    ),
    "numpy text that is none": Held(
        arrays("U1"), ["a", "b", "c", "1"] * 2, [np.frombuffer(np.uint32(0x7FFFFFFF).tobytes(), dtype="U1"), "\ud800"]
    ),
    "numpy bytes": Held(partial(np.array, dtype="S9"), [b"a", b"b", b"1", b"2"] * 2, [b"", b"\xff", b"1e400"]),
    "numpy times": Held(partial(np.array, dtype="M8[s]"), [0, 1] * 4, ["NaT", -(2**62)]),
    "numpy days": Held(partial(np.array, dtype="M8[D]"), [0, 1] * 4, ["NaT", 2**62]),
    "numpy attoseconds": Held(partial(np.array, dtype="M8[as]"), [0, 1] * 4, ["NaT", 2**62]),
    "numpy complex": Held(partial(np.array, dtype=complex), NUMBERS, [1j, NAN, complex(INF, NAN)]),
    "pandas float64": Held(partial(pd.Series, dtype="float64"), NUMBERS, ODD_NUMBERS),
    "pandas float32": Held(partial(pd.Series, dtype="float32"), NUMBERS, [INF, NAN, None, 1e-45, 3e38]),
    "pandas Int64": Held(partial(pd.Series, dtype="Int64"), WHOLE, ODD_WHOLE),
    "pandas UInt8": Held(partial(pd.Series, dtype="UInt8"), WHOLE, [None, 255]),
    "pandas Float64": Held(partial(pd.Series, dtype="Float64"), NUMBERS, ODD_NUMBERS),
    "pandas boolean": Held(partial(pd.Series, dtype="boolean"), TRUTHS, [None, True]),
    "pandas str": Held(partial(pd.Series, dtype="str"), TEXT, ODD_TEXT),
    "pandas string in Python": Held(partial(pd.Series, dtype=pd.StringDtype("python")), TEXT, [*ODD_TEXT, "\ud800"]),
    "pandas string in Arrow": Held(pandas_text, TEXT, UNDECODABLE),
    "pandas category": Held(lambda values: pd.Series(objects(values)).astype("category"), TEXT, ODD_CATEGORIES),
    "pandas time": Held(partial(pd.Series, dtype="datetime64[ns]"), [0, 1] * 4, [None, 2**62]),
    "pandas time with a zone": Held(
        lambda v: pd.Series(v, dtype="datetime64[s]").dt.tz_localize("UTC").dt.tz_convert("Asia/Kathmandu"),
        [0, 1] * 4,
        [None, -(2**50)],
    ),
    "pandas Arrow day": Held(partial(pd.Series, dtype=pd.ArrowDtype(pa.date32())), ["2024-02-29", None] * 4, [None]),
    "pandas dates as text": Held(partial(pd.Series, dtype="str"), DATES, ["2024-02-30", *ODD_TEXT]),
    "pandas complex": Held(partial(pd.Series, dtype=complex), NUMBERS, [1j, NAN]),
    "pandas Arrow number": Held(partial(pd.Series, dtype=pd.ArrowDtype(pa.float64())), NUMBERS, ODD_NUMBERS),
    "pandas Arrow whole number": Held(partial(pd.Series, dtype=pd.ArrowDtype(pa.int64())), WHOLE, ODD_WHOLE),
    "pandas Arrow decimal": Held(partial(pd.Series, dtype=pd.ArrowDtype(pa.decimal128(38, 4))), decimals, ODD_DECIMALS),
    "pandas Arrow text": Held(lambda v: pd.Series(pd.arrays.ArrowExtensionArray(arrow_text(v))), TEXT, UNDECODABLE),
    "pandas Arrow dictionary": Held(
        lambda v: pd.Series(pd.arrays.ArrowExtensionArray(arrow_dictionary(v))), TEXT, UNDECODABLE
    ),
    "pandas bare array": Held(partial(pd.array, dtype="Int64"), WHOLE, ODD_WHOLE),
    "pandas bare truths": Held(partial(pd.array, dtype="boolean"), TRUTHS, [None]),
    "pandas index": Held(lambda values: pd.Index(objects(values), dtype=object), TEXT, ODD_CATEGORIES),
    "polars Float64": Held(partial(pl.Series, dtype=pl.Float64), NUMBERS, ODD_NUMBERS),
    "polars Int8": Held(partial(pl.Series, dtype=pl.Int8), WHOLE, [None, -128, 127]),
    "polars Int64": Held(partial(pl.Series, dtype=pl.Int64), WHOLE, ODD_WHOLE),
    "polars UInt64": Held(partial(pl.Series, dtype=pl.UInt64), WHOLE, [None, 2**64 - 1]),
    "polars Int128": Held(partial(pl.Series, dtype=pl.Int128), WHOLE, [None, 2**126, -(2**126)]),
    "polars Decimal": Held(partial(pl.Series, dtype=pl.Decimal(38, 4)), decimals, ODD_DECIMALS),
    "polars Boolean": Held(partial(pl.Series, dtype=pl.Boolean), TRUTHS, [None]),
    "polars String": Held(partial(pl.Series, dtype=pl.String), TEXT, [*ODD_TEXT, "a\0"]),
    "polars Categorical": Held(partial(pl.Series, dtype=pl.Categorical), TEXT, ODD_TEXT),
    "polars Enum": Held(polars_enum, TEXT, ODD_TEXT),
    "polars Date": Held(partial(pl.Series, dtype=pl.Date), [0, 1] * 4, [None, 2**31 - 1]),
    "polars Datetime": Held(partial(pl.Series, dtype=pl.Datetime("ms", "UTC")), [0, 1] * 4, [None, 2**62]),
    "polars dates as text": Held(partial(pl.Series, dtype=pl.String), DATES, ["2024-02-30", *ODD_TEXT]),
    "polars Null": Held(partial(pl.Series, dtype=pl.Null), [None] * 8, [None]),
    "pyarrow double": Held(partial(pa.array, type=pa.float64()), NUMBERS, ODD_NUMBERS),
    "pyarrow half": Held(
        lambda v: pa.array([None if x is None else np.float16(x) for x in v], pa.float16()), NUMBERS, [INF, None, 6e-8]
    ),
    "pyarrow int8": Held(partial(pa.array, type=pa.int8()), WHOLE, [None, -128]),
    "pyarrow uint64": Held(partial(pa.array, type=pa.uint64()), WHOLE, [None, 2**64 - 1]),
    "pyarrow bool": Held(partial(pa.array, type=pa.bool_()), TRUTHS, [None]),
    "pyarrow decimal128": Held(partial(pa.array, type=pa.decimal128(38, 4)), decimals, ODD_DECIMALS),
    "pyarrow decimal256": Held(partial(pa.array, type=pa.decimal256(76, 4)), decimals, [*ODD_DECIMALS, Decimal("9" * 72)]),
    "pyarrow string": Held(arrow_text, TEXT, UNDECODABLE),
    "pyarrow large_string": Held(partial(arrow_text, type_=pa.large_string()), TEXT, UNDECODABLE),
    "pyarrow string_view": Held(partial(arrow_text, type_=pa.string_view()), TEXT, UNDECODABLE),
    "pyarrow dictionary": Held(arrow_dictionary, TEXT, UNDECODABLE),
    "pyarrow dictionary of numbers": Held(lambda v: pa.array(v, pa.float64()).dictionary_encode(), NUMBERS, ODD_NUMBERS),
    "pyarrow chunks": Held(lambda v: pa.chunked_array([arrow_text(v[:3]), arrow_text(v[3:])]), TEXT, UNDECODABLE),
    "pyarrow chunks of dictionaries": Held(
        lambda v: pa.chunked_array([arrow_dictionary(v[:3]), arrow_dictionary(v[3:])]), TEXT, UNDECODABLE
    ),
    "pyarrow json": Held(lambda v: pa.ExtensionArray.from_storage(pa.json_(), arrow_text(v)), TEXT, UNDECODABLE),
    "pyarrow binary": Held(lambda v: arrow_text(v).view(pa.binary()), TEXT, UNDECODABLE),
    "pyarrow time": Held(partial(pa.array, type=pa.timestamp("s")), [0, 1] * 4, [None, 2**62]),
    "pyarrow day": Held(partial(pa.array, type=pa.date32()), [0, 1] * 4, [None, 2**31 - 1, -(2**31)]),
    "pyarrow dates as text": Held(arrow_text, DATES, [*UNDECODABLE, b"2024-02-29\xff", "9" * 5000]),
    "pyarrow null": Held(partial(pa.array, type=pa.null()), [None] * 8, [None]),
}


# What polars itself asks when it makes a column.
NOT_IN_POLARS = ("has no class", "class that cannot be hashed")


def table_of(column):
    """A table with this column as its only one, by the library that the column comes from."""
    if isinstance(column, list | tuple | deque):
        return type(column)(type(column)([value]) for value in column)
    if isinstance(column, np.ndarray):
        return column[:, None]
    if isinstance(column, pl.Series):
        return pl.DataFrame({"f": column})
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return pa.table({"f": column})
    return pd.DataFrame({"f": column})


def of_feature(feature):
    schema = Schema({"f": feature}, MARKS)
    return lambda column, marks: Vault.seal(table_of(column), marks, schema)


def of_target(target):
    schema = Schema(MARK, target)
    return lambda column, marks: Vault.seal([[mark] for mark in marks], column, schema)


def of_groups(column, marks):
    people = People(1000, Entropy(0))  # all rows of a person, so that coins decide nothing
    return Vault.seal([[0]] * len(marks), marks, OF_GROUPS, groups=column, people=people)


OF_GROUPS = Schema({"f": Numeric(0, 1)}, MARKS)
LISTED = {"text": ["a", "b"], "numbers": [1, 2], "both": ["a", 1, None, b"b"]}
ROLES = {"numeric": of_feature(Numeric(0, 4)), "bounded": of_target(Bounded(0, 4))}
ROLES |= {f"categories, {name}": of_feature(Categorical(listed)) for name, listed in LISTED.items()}
ROLES |= {f"classes, {name}": of_target(Classes(listed)) for name, listed in LISTED.items()}
ROLES |= {"dates": of_feature(Date()), "times": of_feature(Date(time=True))}
ROLES |= {"buckets": of_feature(Categorical()), "groups": of_groups}
every_role = pytest.mark.parametrize("role", ROLES)


def assert_not_seen(role, make, base, tables):
    """Odd values that are put among those of a column change neither how a reading ends nor the codes of others."""
    before = read(lambda: ROLES[role](make(base), [ORDINARY] * len(base)))
    assert (before.outcome.error or "TableError: ").startswith("TableError: ")
    for odd in tables:
        values, marks = placed(base, odd), placed([ORDINARY] * len(base), [(place, ODD) for place, _ in odd])
        after = read(lambda values=values, marks=marks: ROLES[role](make(values), marks))
        assert SECRET not in str(after.outcome.error)
        after.assert_like(before, len(odd))


NIGHT = pytest.mark.night


@every_role
@pytest.mark.parametrize("tables", [together_and_alone, pytest.param(first_and_last, marks=NIGHT)])
def test_odd_records_in_a_typed_column_are_not_seen(role, tables):
    for name, held in HELD.items():
        with noted(name):
            assert_not_seen(role, held.make, held.base, tables(held.odd, N_ROWS))


BASES = {"text": TEXT, "numbers": NUMBERS, "dates": DATES}


def objects_in(holder):
    return [odd for name, odd in OBJECTS.items() if holder != "polars objects" or name not in NOT_IN_POLARS]


CROSSES = [(pairwise, together_and_alone), pytest.param(product, first_and_last, marks=NIGHT)]


@every_role
@pytest.mark.parametrize(("cross", "tables"), CROSSES)
def test_odd_records_in_a_column_without_a_type_are_not_seen(role, cross, tables):
    for holder, base, own in cross([*HOLDERS], [*BASES], [*ROLES]):
        if own == role:
            with noted(f"{holder} of {base}"):
                assert_not_seen(role, HOLDERS[holder], BASES[base], tables(objects_in(holder), N_ROWS))


# Values, and how many of them are listed, within bounds, or ids.
READABLE = {
    **dict.fromkeys(["numeric", "bounded"], (NUMBERS, 8)),
    **dict.fromkeys(["categories, text", "buckets"], (TEXT, 8)),
    "classes, text": (TEXT, 4),
    "groups": (TEXT, 6),
    **dict.fromkeys(["dates", "times"], (DATES, 4)),
}


@pytest.mark.parametrize("role", READABLE)
def test_the_others_are_read_at_all(role):
    # Else nothing could change, and the tests above would say nothing.
    values, n_readable = READABLE[role]
    for holder in HOLDERS.values():
        counts, domain = root_counts(ROLES[role](holder(values), [ORDINARY] * N_ROWS))
        numbers = role in ("numeric", "dates", "times")
        assert (counts[: domain.n_codes[0] - 1] if numbers else counts[: domain.n_codes[0]]).sum() == n_readable


ANY_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.complex_numbers()
    | st.decimals() | st.fractions() | st.uuids() | st.datetimes() | st.sampled_from(list(PLAIN.values())),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    others=st.lists(ANY_VALUE, max_size=6),
    odd=st.lists(st.tuples(st.integers(0, 6), ANY_VALUE), min_size=1, max_size=3),
    holder=st.sampled_from(list(HOLDERS.values())),
    role=st.sampled_from(list(ROLES)),
)
def test_no_records_are_seen_beside_any_others(others, odd, holder, role):
    assert_not_seen(role, holder, others, [odd])


ROWS = {name: holder for name, holder in HOLDERS.items() if name != "polars objects"}
ROW_SCHEMA = Schema({"f": Numeric(0, 4), "g": Categorical([1, 2, "a"])}, MARKS)


def read_rows(rows, n_odd):
    """The reading of rows of which the last ones are odd, as a list or whatever holds them."""
    return read(lambda: Vault.seal(rows, [ORDINARY] * (len(rows) - n_odd) + [ODD] * n_odd, ROW_SCHEMA))


@pytest.mark.parametrize("holder", ROWS.values(), ids=ROWS)
def test_odd_rows_of_a_list_of_rows_are_not_seen(holder):
    rows = [holder(row) for row in ((1.0, 2), (2.5, 1), (0.5, 1))]
    before = read_rows(deque(rows), 0)
    assert before.outcome == FINE
    odd = [holder(row) for value in OBJECTS.values() for row in ((value, "a"), (1.0, value), (value, value))]
    for row in odd:
        read_rows(deque([*rows, row]), 1).assert_like(before)
    read_rows(deque([*rows, *odd]), len(odd)).assert_like(before, len(odd))


@pytest.mark.parametrize("odd", [["x", "a"], [b"1", b"\xff"], [1j, 2], [True, False], ["NaT", "NaT"]], ids=str)
def test_a_row_of_another_type_does_not_change_the_type_of_others(odd):
    rows = [np.array([1.0, 2.0]), np.array([2, 1])]
    before = read_rows(rows, 0)
    assert np.sum(before.ordinary[0][-5:][:2]) == 2
    read_rows([*rows, np.array(odd)], 1).assert_like(before)


WORDS = Schema({"f": Categorical(["a", "b"])}, Classes(["a", "b"]))


@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_type_that_does_not_fit_is_refused_with_and_without_a_record(n_rows):
    for X, y in ((np.zeros((n_rows, 1)), ["a"] * n_rows), ([["a"]] * n_rows, np.zeros(n_rows))):
        with pytest.raises(TableError, match="holds numbers"):
            DPForestClassifier(WORDS).fit(X, y)


def test_a_refusal_of_a_target_is_the_same_with_and_without_a_missing_value():
    told = set()
    for last in (1, None):
        with pytest.raises(TableError) as refused:
            DPForestClassifier(WORDS).fit([["a"]] * 3, pa.chunked_array([[0, 1, last]]))
        told.add(str(refused.value))
    assert len(told) == 1


def test_a_column_of_categories_without_any_value_is_not_refused():
    """pandas writes categories of which none is there as numbers; with one they are text."""
    for value in (None, "a"):
        frame = pd.DataFrame({"f": pd.Categorical([value, None])})
        assert DPForestClassifier(WORDS).fit(pa.Table.from_pandas(frame), ["a", "b"]).n_features_in_ == 1


def test_what_is_nested_deeply_does_not_end_the_process():
    deep = ()
    for _ in range(200_000):
        deep = (deep,)
    more, fewer = (Vault.seal([["a"], ["b"], *([[deep]] * n)], ["a", "b", *(["a"] * n)], WORDS) for n in (1, 0))
    change = root_counts(more)[0] - root_counts(fewer)[0]
    assert (change >= 0).all()
    assert change.sum() <= 1


def test_bytes_that_look_like_a_category_give_no_warning():
    code = "from dpforest.records.columns import *; print(to_indices(to_objects([b'yes', 'yes']), ['yes'], 1, 2))"
    ended = subprocess.run([sys.executable, "-b", "-c", code], capture_output=True, text=True, check=True)
    assert (ended.stdout, "BytesWarning" in ended.stderr) == ("[1 0]\n", False)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_whoever_stops_a_fit_while_values_are_read_is_heard(interrupt):
    class Slow:
        def __hash__(self):
            raise interrupt

    with pytest.raises(interrupt):
        root_counts(ROLES["categories, text"]([Slow(), "a"], [ORDINARY] * 2))
