"""How the values of columns become codes, and what is counted of them before. Sees rows."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dpforest.common.threads import COLUMNS_FOR_THREADS, Workers
from dpforest.records.categories import category_codes
from dpforest.records.columns import read_values, to_numbers
from dpforest.records.dates import derived_columns
from dpforest.records.given import to_objects
from dpforest.records.memory.encoding import count_scales, encode_numbers
from dpforest.schema import Categorical
from dpforest.schema.domain import Derived, Domain
from dpforest.schema.grid import N_BINS

# Arguments of ``encode_numbers`` that describe features: cuts, missing, n_before, quick, lows, scales.
Scales = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
# The number of even steps that the range of the cuts of a feature is divided into; in most of them there is no cut.
N_STEPS = 1 << 12


# numpy may warn about a value (a signalling NaN), or raise if callers have asked for that.
@np.errstate(all="ignore")
def plain_values(values: Any, feature: Derived) -> np.ndarray:
    """The values of a feature as ``Rows`` has them: indices of categories, or numbers clipped to the bounds."""
    if isinstance(feature.part, Categorical):
        return _category_codes(values, feature, feature.part)
    return np.clip(to_numbers(values).astype(np.float64), *feature.part.range)


def _category_codes(values: Any, feature: Derived, part: Categorical) -> np.ndarray:
    """The code of each value of a categorical feature, also of one that follows from a date."""
    if feature.of != "value":  # weekdays are given as such indices
        return np.asarray(values)
    return category_codes(values, part)


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


def encode(columns: list[Any], domain: Domain, workers: Workers | None = None) -> np.ndarray:
    """The codes ``(n_features, n_records)`` of columns that are in the order of the schema."""
    codes, workers = np.empty((domain.n_features, len(columns[0])), dtype=domain.dtype), workers or Workers()
    values = derived_columns(columns, domain.derived)
    for own, own_values, each in zip(codes, values, domain.derived, strict=True):
        if isinstance(each.part, Categorical):
            own[:] = _category_codes(own_values, each, each.part)
    numeric = np.flatnonzero(domain.is_numeric)
    begin = 0
    for matrix in _matrices(to_numbers(values[feature]) for feature in numeric):
        _encode_matrix(matrix, numeric[begin : begin + len(matrix)], domain, codes, workers)
        begin += len(matrix)
    return codes


def count_around(
    columns: list[Any], domain: Domain, centres: Mapping[int, float], kept: np.ndarray, workers: Workers
) -> np.ndarray:
    """The numbers of kept records ``(len(centres), N_BINS + 1)`` in each bin around some centres, not sealed."""
    places = np.array([(*domain.number(feature).range, centre) for feature, centre in centres.items()])
    counts = np.zeros((len(centres), N_BINS + 1), dtype=np.int64)
    begin = 0
    for matrix in _matrices(to_numbers(columns[domain.derived[feature].column]) for feature in centres):
        rows = slice(begin, begin + len(matrix))
        if len(matrix) >= COLUMNS_FOR_THREADS * workers.n_jobs:
            count = partial(_count_columns, matrix, places[rows], kept, counts[rows])
            workers.run(count, workers.parts(len(matrix), len(kept)))
        else:
            parts = workers.parts(len(kept), len(matrix))
            cells = np.zeros((len(parts), len(matrix), N_BINS + 1), dtype=np.int64)
            workers.run(partial(_count_records, matrix, places[rows], kept, cells), parts)
            counts[rows] = cells.sum(axis=0)
        begin += len(matrix)
    return counts


def _count_columns(
    matrix: np.ndarray, places: np.ndarray, kept: np.ndarray, counts: np.ndarray, part: int, start: int, stop: int
) -> None:
    count_scales(matrix[start:stop], places[start:stop], kept, 0, len(kept), counts[start:stop])


def _count_records(
    matrix: np.ndarray, places: np.ndarray, kept: np.ndarray, cells: np.ndarray, part: int, start: int, stop: int
) -> None:
    count_scales(matrix, places, kept, start, stop, cells[part])


def _encode_matrix(matrix: np.ndarray, features: np.ndarray, domain: Domain, codes: np.ndarray, workers: Workers) -> None:
    # Columns that are declared alike share what describes them.
    kinds: dict[tuple[bytes, float, float], int] = {}
    own = np.array([kinds.setdefault(_public(domain, feature), len(kinds)) for feature in features])
    scales = _scales(tuple(kinds), codes.dtype)
    workers.run(
        lambda part, start, stop: encode_numbers(matrix, features, own, *scales, start, stop, codes),
        workers.parts(codes.shape[1], len(features)),
    )


def _public(domain: Domain, feature: int) -> tuple[bytes, float, float]:
    """The cuts (as bytes) and bounds of a numeric feature, by which ``_scales`` can be cached."""
    return domain.cuts[feature].tobytes(), *domain.number(feature).range


def _matrices(columns: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Arrays ``(n_columns, n_records)``, without a copy, each of successive columns that are evenly spaced in memory."""
    run, addresses = list[np.ndarray](), list[int]()  # columns that were made for this must live as long as the array
    for column in columns:
        address = _address(column)
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


def _address(column: np.ndarray) -> int:
    return int(column.__array_interface__["data"][0])


@lru_cache(maxsize=256)
def _scales(features: tuple[tuple[bytes, float, float], ...], dtype: np.dtype) -> Scales:
    """The arguments of ``encode_numbers`` that describe some features, given as cuts (as bytes) and bounds."""
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
