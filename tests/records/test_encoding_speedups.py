"""Codes of values at every border, in every type and layout, are those of the slow twins."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.records.holders import LAYOUTS
from tests.support import naive
from tests.support.strategies import FIXED, SEEDS

from dpforest import Categorical, Classes, Numeric, Schema
from dpforest.common import work as workers
from dpforest.common.work import Workers
from dpforest.records import columns, encoding
from dpforest.records.columns import read_columns, to_indices
from dpforest.records.encoding import encode
from dpforest.schema.domain import Derived, Domain, Grid

TINY, HUGE = 5e-324, np.finfo(float).max
RANGES = [
    (0, 1), (-4, 4), (-7.5, 2.25), (0.1, 0.3), (-1e-3, 1e9), (0, TINY), (0, 1e-310), (-1e-310, 1e-310), (-TINY, TINY),
    (1, np.nextafter(1, 2)), (1e16, 1e16 + 4), (-8e307, 8e307), (0, 1.7e308), (-1.7e308, 0),
    (-1.7e308, -1e300), (1e300, 1.7e308),
]  # fmt: skip
GRIDS = [Grid(1), Grid(2), Grid(6), Grid(32, scales=True), Grid(6, scales=True), Grid(700)]


def near(edges):
    """Each edge, the next numbers on both sides, and numbers far away."""
    edges = np.array([*edges, 0.0, -0.0, 1.0, -1.0, HUGE, -HUGE, TINY, -TINY], dtype=float)
    with np.errstate(over="ignore"):
        beside = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    return np.append(beside, [np.inf, -np.inf, np.nan])


def near_float32(edges):
    with np.errstate(over="ignore"):
        rounded = near(edges).astype(np.float32)
        return np.concatenate(
            [rounded, np.nextafter(rounded, np.float32(np.inf)), np.nextafter(rounded, np.float32(-np.inf))]
        )


def domain_of(*features, grid=Grid(6)):  # noqa: B008 - frozen
    return Domain.of(Schema({f"f{index}": part for index, part in enumerate(features)}, Classes(["a", "b"])), grid)


def twin_codes(column, part, cuts):
    """Codes by a search of numpy, which the slow twin of ``test_kernels`` would take minutes for."""
    values = np.asarray(column).astype(float)
    found = np.searchsorted(cuts, np.clip(values, part.lower, part.upper), side="right")
    return np.where(np.isnan(values), len(cuts) + 1, found).tolist()


def check_codes(given, domain, **how):
    known = zip(given, domain.features, domain.cuts, strict=True)
    assert encode(given, domain, **how).tolist() == [twin_codes(*each) for each in known]


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_numbers_at_every_cut_and_beside_it_get_the_code_of_their_twin(bounds):
    for grid, integer in product(GRIDS, [False, True]):
        domain = domain_of(Numeric(*bounds, integer=integer), grid=grid)
        for column in (near([*bounds, *domain.cuts[0]]), near_float32([*bounds, *domain.cuts[0]])):
            check_codes([column], domain)


WIDTHS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, bool]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", WIDTHS)
def test_whole_numbers_of_every_width_get_the_code_of_their_twin(dtype):
    least, most = (0, 1) if dtype is bool else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    ranges = ((0, 1), (-100, 100), (-2.5, 9.25), (-(2**63), 2**63), (0, 2.0**64), (0, 1e-310), (-8e307, 8e307))
    for bounds, grid in product(ranges, GRIDS):
        domain = domain_of(Numeric(*bounds), grid=grid)
        inside = [cut for cut in domain.cuts[0] if abs(cut) < 2.0**65]
        wanted = {least, most, *(int(edge) + step for edge in (0, *inside) for step in (-1, 0, 1))}
        check_codes([np.array(sorted(value for value in wanted if least <= value <= most), dtype=dtype)], domain)


def cut_at(cuts, lower, upper):
    """A domain of one number with any bounds and cuts, also such as a schema and a grid would not have."""
    part = Numeric(0, 1)
    object.__setattr__(part, "lower", lower)
    object.__setattr__(part, "upper", upper)
    return Domain((Derived("x", 0, part),), (np.array(cuts, dtype=float),))


@pytest.mark.parametrize("bounds", [(-1e308, 1e308), (-HUGE, HUGE), (-1e308, HUGE)], ids=str)
def test_a_range_too_wide_for_a_float_is_searched_all_the_same(bounds):
    domain = cut_at([-1e308, -5.0, 0.0, TINY, 2.0, 1e308], *bounds)
    check_codes([near(domain.cuts[0])], domain)


@FIXED
@given(SEEDS, st.sampled_from([1, 5, 253, 254, 255, 1200]), st.sampled_from([1e-9, 1e-3, 1.0]))
def test_cuts_that_crowd_anywhere_in_the_range_are_all_found(seed, n_cuts, width):
    rng = np.random.default_rng(seed)
    cuts = np.unique(rng.choice([-0.6, 0.0, 0.3, 0.999, 1.999, 2.3], n_cuts) + width * rng.random(n_cuts) * rng.random())
    check_codes([near(cuts)], cut_at(cuts, -0.5, 2.0))


N_ROWS, BOUNDS = 600, [(0, 1), (-3, 3), (-0.5, 9), (0, 0.25), (-1, 0)]
TABLE = np.random.default_rng(0).normal(size=(N_ROWS, 5)).astype(np.float32).astype(float)
TABLE[::7, 2] = np.nan
TABLE[3, :] = np.inf


TABLES = LAYOUTS | {
    "objects": lambda array: array.astype(object),
    "pandas": pd.DataFrame,
    "pandas, a block for each column": lambda array: pd.concat([pd.Series(column) for column in array.T], axis=1),
    "pandas of mixed types": lambda array: pd.DataFrame(array).astype({0: np.float32, 3: np.float32, 4: object}),
    "polars": lambda array: pl.DataFrame({f"f{index}": column for index, column in enumerate(array.T)}),
    "arrow": lambda array: pa.table({f"f{index}": column for index, column in enumerate(array.T.copy())}),
    "arrow in chunks": lambda array: pa.concat_tables([TABLES["arrow"](part) for part in (array[:9], array[9:])]),
}


def laid_out(layout):
    table = TABLES[layout](TABLE)
    return table.rename(columns={index: f"f{index}" for index in range(5)}) if isinstance(table, pd.DataFrame) else table


@pytest.mark.parametrize("layout", TABLES)
def test_codes_do_not_depend_on_how_a_table_lies_in_memory(layout):
    schema = Schema({f"f{index}": Numeric(*bounds) for index, bounds in enumerate(BOUNDS)}, Classes(["a", "b"]))
    domain = Domain.of(schema, Grid(6, scales=True))
    expected = [twin_codes(TABLE[:, index], domain.features[index], domain.cuts[index]) for index in range(5)]
    assert encode(read_columns(laid_out(layout), schema), domain).tolist() == expected


def test_codes_depend_neither_on_threads_nor_on_conversions(monkeypatch):
    monkeypatch.setattr(workers, "THREAD_CELLS", 0)
    domain = domain_of(*(Numeric(*bounds) for bounds in BOUNDS))
    for n_jobs in (1, 2, 3):
        check_codes(list(TABLE.T), domain, workers=Workers(n_jobs))
        # Each becomes an array that nothing else holds, and must live until it is encoded.
        check_codes([column.astype(">f8") for column in TABLE.T], domain, workers=Workers(n_jobs))


@FIXED
@given(SEEDS)
def test_columns_that_are_joined_are_read_where_they_lie_and_nowhere_else(seed):
    rng = np.random.default_rng(seed)
    pool = [np.arange(48.0).reshape(8, 6), np.asfortranarray(np.arange(48.0, 96).reshape(8, 6)), np.arange(8, dtype="i2")]
    pool += [np.broadcast_to(np.float64(7), (8, 6)), np.arange(16.0, dtype=np.float32).reshape(8, 2), np.arange(16.0)[::-2]]
    given = []
    for _ in range(rng.integers(0, 12)):
        array = pool[rng.integers(len(pool))]
        given.append(array[:, rng.integers(array.shape[1])] if array.ndim == 2 else array)
    joined = []
    for matrix in encoding._matrices(iter(given)):
        assert not matrix.flags.writeable
        joined += [(row.ctypes.data, row.dtype, row.strides, row.shape) for row in matrix]
    assert joined == [(column.ctypes.data, column.dtype, column.strides, column.shape) for column in given]


def test_columns_of_one_array_are_joined():
    # Else the test above would say little.
    assert [len(matrix) for matrix in encoding._matrices(iter(TABLE.T))] == [5]
    assert [len(matrix) for matrix in encoding._matrices([TABLE[:, 4], TABLE[:, 2], TABLE[:, 0], TABLE[:, 1]])] == [3, 1]


LISTED = [
    True, False, 0, 1, 1.0, 2, 2.5, -1, -1.5, Fraction(3), Fraction(1, 3), 127, -128, 128, 255, 256, 32767, -32768, 40_000,
    65535, 2**31 - 1, -(2**31), 2**32 - 1, 2.0**40, 2**61, -(2**61), 2**64, -(2**64), 10**400, 1e300, math.inf, -math.inf,
    "1", "a", ("b",),
]  # fmt: skip


def check_indices(column, listed):
    other, missing = len(listed), len(listed) + 1
    expected = [naive.code_of(value, Categorical(listed), ()) for value in column.tolist()]
    assert to_indices(column, tuple(listed), other, missing).tolist() == expected
    assert to_indices(column.astype(object), tuple(listed), other, missing).tolist() == expected


def whole_column(dtype, listed):
    """All that is listed and fits, what lies beside it, and both ends of the type."""
    if dtype is bool:
        return np.array([True, False, True])
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    finite = [value for value in listed if not isinstance(value, str | tuple | complex) and abs(value) != math.inf]
    beside = {math.floor(value) + step for value in finite for step in (-1, 0, 1)}
    ends = {least, least + 1, most - 1, most, 0, 1, 2**62, -(2**62)}
    return np.array(sorted(value for value in beside | ends if least <= value <= most), dtype=dtype)


@pytest.mark.slow
@settings(FIXED, max_examples=200)
@given(st.sampled_from(WIDTHS), st.lists(st.sampled_from(LISTED), min_size=1, max_size=8, unique=True))
def test_listed_values_are_found_in_whole_numbers_of_every_width(dtype, listed):
    check_indices(whole_column(dtype, listed), listed)


FAR_LISTS = ([2**62, 1], [2**63 - 1], [-(2**63), 0], [-(2**62), 5], [2**62 + 1, 2**62 + 3])


def test_listed_numbers_near_the_ends_of_63_bits_or_of_other_types_are_found():
    for dtype, listed in product([np.int64, np.uint64, np.int32], FAR_LISTS):
        check_indices(whole_column(dtype, listed), listed)
    for listed in ([Decimal(3), 1], [3 + 0j, 1], [Decimal("2.5"), Decimal(127)]):
        check_indices(np.array([1, 2, 3, 127], dtype=np.int8), listed)


@pytest.mark.parametrize("distance", [-2, -1, 0, 1])
@pytest.mark.parametrize("low", [0, -50_000, 2**40])
def test_values_far_apart_are_found_with_and_without_a_table(low, distance):
    high = low + columns.MOST_TABLE + distance
    check_indices(np.array([low - 1, low, low + 1, high - 1, high, high + 1]), [high, low])


def test_places_of_more_values_than_fit_15_bits_are_found():
    listed = list(range(40_000))
    column = np.array([0, 32_766, 32_767, 32_768, 39_999, 40_000, -1])
    assert to_indices(column, listed, 40_000, 40_001).tolist() == [0, 32_766, 32_767, 32_768, 39_999, 40_000, 40_000]


def test_places_do_not_depend_on_how_a_column_lies_in_memory():
    array, listed = np.random.default_rng(1).integers(-3, 4, (90, 2)), [2, -3, 0]
    expected = [naive.code_of(value, Categorical(listed), ()) for value in array[:, 1].tolist()]
    for layout in LAYOUTS.values():
        assert to_indices(layout(array)[:, 1], listed, 3, 4).tolist() == expected
