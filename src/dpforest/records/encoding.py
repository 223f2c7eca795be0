"""How the values of columns become codes, and what is counted of them before; kernels fill arrays of integers. Sees rows.

There are no coins and no budget here. Each call of a kernel is about the records ``start`` .. ``stop - 1``.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numba import njit
from numpy.lib.stride_tricks import as_strided

from dpforest.common.work import COLUMNS_FOR_THREADS, Workers
from dpforest.records.categories import category_codes
from dpforest.records.columns import read_values, to_numbers
from dpforest.records.dates import derived_columns
from dpforest.records.given import to_objects
from dpforest.schema import Categorical
from dpforest.schema.domain import Derived, Domain
from dpforest.schema.grid import BITS, FIRST, N_BINS

# The number of even steps that the range of the cuts of a feature is divided into; in most of them there is no cut.
N_STEPS = 1 << 12
# Records that are worked on at once, so that their values stay in the processor's cache.
ENCODED_AT_ONCE = 1 << 8
NO_SIGN = np.uint64((1 << 63) - 1)


# numpy may warn about a value (a signalling NaN), or raise if callers have asked for that.
@np.errstate(all="ignore")
def plain_values(values: Any, feature: Derived) -> np.ndarray:
    """The values of a feature as ``Rows`` has them: indices of categories, or numbers clipped to the bounds."""
    if isinstance(feature.part, Categorical):
        return _category_codes(values, feature, feature.part)
    return np.clip(to_numbers(values).astype(np.float64), *feature.part.range)


def _category_codes(values: Any, feature: Derived, part: Categorical) -> np.ndarray:
    # Of a date, weekdays are given as codes.
    return category_codes(values, part) if feature.of == "value" else np.asarray(values)


def encode(columns: list[Any], domain: Domain, workers: Workers | None = None) -> np.ndarray:
    """The codes ``(n_features, n_records)`` of columns that are in the order of the schema."""
    codes, workers = np.empty((domain.n_features, len(columns[0])), dtype=domain.dtype), workers or Workers()
    values = derived_columns(columns, domain.derived)
    for own, own_values, each in zip(codes, values, domain.derived, strict=True):
        if isinstance(each.part, Categorical):
            own[:] = _category_codes(own_values, each, each.part)
    numeric, begin = np.flatnonzero(domain.is_numeric), 0
    for matrix in _matrices(to_numbers(values[feature]) for feature in numeric):
        _encode_matrix(matrix, numeric[begin : begin + len(matrix)], domain, codes, workers)
        begin += len(matrix)
    return codes


def _encode_matrix(matrix: np.ndarray, features: np.ndarray, domain: Domain, codes: np.ndarray, workers: Workers) -> None:
    # Columns that are declared alike share what describes them.
    kinds: dict[tuple[bytes, float, float], int] = {}
    public = [(domain.cuts[feature].tobytes(), *domain.number(feature).range) for feature in features]
    own_kinds = np.array([kinds.setdefault(each, len(kinds)) for each in public])
    encode_part: Any = partial(encode_numbers, matrix, features, own_kinds, *_scales(tuple(kinds), codes.dtype))
    workers.run(lambda _, start, stop: encode_part(start, stop, codes), workers.parts(codes.shape[1], len(features)))


@lru_cache(maxsize=256)
def _scales(features: tuple[tuple[bytes, float, float], ...], dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """The arguments of ``encode_numbers`` from ``cuts`` to ``scales``, of features given as cuts (as bytes) and bounds."""
    all_cuts = [np.frombuffer(cuts) for cuts, _, _ in features]
    missing = np.array([len(cuts) + 1 for cuts in all_cuts])
    cuts = np.full((len(features), int(missing.max())), np.nan)
    n_before = np.empty((len(features), N_STEPS + 1), dtype=np.uint16)
    quick = np.empty((len(features), N_STEPS), dtype=dtype)
    lows, scales = np.zeros(len(features)), np.ones(len(features))
    with np.errstate(all="ignore"):  # if a range is very wide or narrow, all cuts fall in few steps, which is only slower
        for index, (inner, (_, low, high)) in enumerate(zip(all_cuts, features, strict=True)):
            # Values are clipped to the bounds: a cut at or below the lower one is always passed, one above the upper never.
            inner = np.where(inner <= low, -np.inf, inner)[inner <= high]
            cuts[index, : len(inner)] = inner
            met = inner[np.isfinite(inner)]
            if len(met):
                lows[index], scales[index] = met[0], np.nan_to_num(N_STEPS / (met[-1] - met[0]), posinf=1.0)
            steps = np.nan_to_num((inner - lows[index]) * scales[index], nan=0.0)
            steps = np.clip(steps, 0, N_STEPS - 1).astype(np.int64)
            n_before[index] = np.searchsorted(steps, np.arange(N_STEPS + 1))
            quick[index] = n_before[index, :-1]
            quick[index, steps] = np.iinfo(dtype).max
    return cuts, missing, n_before, quick, lows, scales


@njit(cache=True, nogil=True)
def encode_numbers(columns, rows, kinds, cuts, missing, n_before, quick, lows, scales, start, stop, codes):
    """Write the codes of several numeric columns: how many cuts are at most the value, or the code for missing.

    Column k goes to ``codes[rows[k]]``, by the cuts of its kind ``kinds[k]``. Their range is divided into even steps, and
    ``n_before[kind, step]`` cuts lie in earlier steps: they are at most the value, and those in later steps are above it,
    because a larger number is never in an earlier step, however its step is rounded. In most steps there is no cut, and
    ``quick[kind, step]`` is the code; in the others it is the largest number of its type, and the cuts of the step are
    searched by halving.
    """
    last, unknown = np.float64(n_before.shape[1] - 2), np.uint32(256**quick.itemsize - 1)
    for begin in range(start, stop, ENCODED_AT_ONCE):
        end = min(stop, begin + ENCODED_AT_ONCE)
        for k in range(rows.size):
            kind, values, column = kinds[k], columns[k], codes[rows[k]]
            own, before, known = cuts[kind], n_before[kind], quick[kind]
            low, scale, none = lows[kind], scales[kind], np.uint32(missing[kind])
            for record in range(np.uint64(begin), np.uint64(end)):
                value = np.float64(values[record])
                step = (value - low) * scale
                step = step if step > 0.0 else 0.0  # also if it is no number
                index = np.uint32(np.int32(step if step < last else last))
                code = np.uint32(known[index])
                if code == unknown:
                    code, high = np.uint32(before[index]), np.uint32(before[index + np.uint32(1)])
                    while code < high:
                        middle = (code + high) >> np.uint32(1)
                        if own[middle] <= value:
                            code = middle + np.uint32(1)
                        else:
                            high = middle
                column[record] = code if value == value else none


def count_around(
    columns: list[Any], domain: Domain, centres: Mapping[int, float], kept: np.ndarray, workers: Workers
) -> np.ndarray:
    """The numbers of kept records ``(len(centres), N_BINS + 1)`` in each bin around some centres, not sealed."""
    places = np.array([(*domain.number(feature).range, centre) for feature, centre in centres.items()])
    counts, begin = np.zeros((len(centres), N_BINS + 1), dtype=np.int64), 0
    for matrix in _matrices(to_numbers(columns[domain.derived[feature].column]) for feature in centres):
        for first in range(0, len(matrix), COLUMNS_FOR_THREADS):  # each thread has bins for so many columns
            some = matrix[first : first + COLUMNS_FOR_THREADS]
            counts[begin : begin + len(some)] = _count_matrix(some, places[begin : begin + len(some)], kept, workers)
            begin += len(some)
    return counts


def _count_matrix(columns: np.ndarray, places: np.ndarray, kept: np.ndarray, workers: Workers) -> Any:
    parts = workers.parts(len(kept), len(columns))
    bins = np.zeros((len(parts), len(columns), N_BINS + 1), dtype=np.int64)
    workers.run(lambda part, start, stop: count_scales(columns, places, kept, start, stop, bins[part]), parts)
    return bins.sum(axis=0)


@njit(cache=True, nogil=True)
def _find_bins(values, place, n_side, away, bins):
    """Fill ``bins`` with the bin of each value by its distance from a centre, that of the last bin for no number.

    Bins are those of ``schema.grid``: the first bits of the distance, as a float, are its octave and its place in it.
    """
    low, high, centre = place
    for index in range(bins.size):
        value = np.float64(values[index])
        value = low if value < low else high if value > high else value
        away[index] = value - centre
    bits = away.view(np.uint64)
    for index in range(bins.size):
        distance = away[index]
        word = np.int64((bits[index] & NO_SIGN) >> np.uint64(52 - BITS))
        side = word - FIRST + 1 if word >= FIRST else 0
        side = side if side < n_side else n_side
        found = n_side + side if distance > 0.0 else n_side - side
        bins[index] = found if distance == distance else 2 * n_side + 1


@njit(cache=True, nogil=True)
def count_scales(columns, places, kept, start, stop, counts):
    """Add 1 to the bin of each kept record in ``counts[k]``, by its distance in column k from a centre.

    ``places[k]`` are the bounds, to which values are clipped, and the centre. Four columns at a time, so that additions do
    not wait for one another.
    """
    n_columns, n_side = len(places), (counts.shape[1] - 2) // 2
    away, bins = np.empty(ENCODED_AT_ONCE), np.empty((4, ENCODED_AT_ONCE), dtype=np.uint16)
    for begin in range(start, stop, ENCODED_AT_ONCE):
        n = min(stop, begin + ENCODED_AT_ONCE) - begin
        for group in range(0, n_columns, 4):
            n_own = min(4, n_columns - group)
            for k in range(n_own):
                _find_bins(columns[group + k][begin : begin + n], places[group + k], n_side, away[:n], bins[k, :n])
            if n_own == 4:
                a, b, c, d = counts[group], counts[group + 1], counts[group + 2], counts[group + 3]
                for index in range(n):
                    one = np.int64(kept[begin + index])
                    a[bins[0, index]] += one
                    b[bins[1, index]] += one
                    c[bins[2, index]] += one
                    d[bins[3, index]] += one
            else:
                for k in range(n_own):
                    for index in range(n):
                        counts[group + k, bins[k, index]] += np.int64(kept[begin + index])


def taken(columns: list[Any], rows: np.ndarray, workers: Workers) -> list[Any]:
    """Some rows of columns, by index; columns that are one matrix in memory are taken together, row by row."""
    is_plain = [isinstance(column, np.ndarray) and column.dtype.kind in "biuf" for column in columns]
    found = [None if plain else _chosen(column, rows) for plain, column in zip(is_plain, columns, strict=True)]
    places, parts = iter(np.flatnonzero(is_plain).tolist()), workers.parts(len(rows), max(sum(is_plain), 1))
    for matrix in _matrices(column for column, plain in zip(columns, is_plain, strict=True) if plain):
        by_row = abs(matrix.strides[0]) < abs(matrix.strides[1])
        for table in [matrix.T] if by_row else [column[:, None] for column in matrix]:
            some = np.empty((len(rows), table.shape[1]), dtype=table.dtype)
            workers.run(partial(_take, table, rows, some), parts)
            for column in some.T:
                found[next(places)] = column
    return found


def _chosen(column: Any, rows: np.ndarray) -> Any:
    """Some rows of one column, by index; as an array of objects if its library cannot take them."""
    try:
        return column[rows]
    except Exception:  # pyarrow joins no more than 2 GB of text, and one long cell may be what is too much
        return to_objects(read_values(column))[rows]


def _take(table: np.ndarray, rows: np.ndarray, some: np.ndarray, part: int, start: int, stop: int) -> None:
    np.take(table, rows[start:stop], axis=0, out=some[start:stop], mode="clip")  # which, unlike "raise", makes no copy


def _matrices(columns: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Arrays ``(n_columns, n_records)``, without a copy, each of successive columns that are evenly spaced in memory."""
    run, addresses = list[np.ndarray](), list[int]()  # columns that were made for this must live as long as the array
    for column in columns:
        address = int(column.__array_interface__["data"][0])
        is_alike = bool(run) and (column.dtype, column.strides) == (run[0].dtype, run[0].strides)
        if run and not (is_alike and (len(run) == 1 or address - addresses[-1] == addresses[1] - addresses[0])):
            yield _stacked(run, addresses)
            run, addresses = [], []
        run.append(column)
        addresses.append(address)
    if run:
        yield _stacked(run, addresses)


def _stacked(columns: list[np.ndarray], addresses: list[int]) -> np.ndarray:
    step = addresses[1] - addresses[0] if len(columns) > 1 else 0
    shape, strides = (len(columns), len(columns[0])), (step, *columns[0].strides)
    return as_strided(columns[0], shape, strides, writeable=False)
