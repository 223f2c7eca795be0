"""Columns as libraries hold them."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

LIBRARIES = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, pa.Array: pa.table, pa.ChunkedArray: pa.table}


def objects(values):
    """A column of Python objects, whatever they are: lists stay lists."""
    column = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        column[index] = value
    return column


def frame(column, name="f0"):
    """A table of one column, by the library that the column comes from."""
    make = next((make for kind, make in LIBRARIES.items() if isinstance(column, kind)), None)
    return column[:, None] if make is None else make({name: column})


def typed(make, values, *types):
    """A column of a library for each of its types."""
    return [make(values, dtype=each) for each in types]


def arrow(values, *types):
    return [pa.array(values, each) for each in types]


def name_of(column):
    """What holds a column, to be shown where a test fails."""
    return f"{type(column)} of {getattr(column, 'dtype', getattr(column, 'type', None))}"


def spread(array):
    """The same numbers with others between them."""
    wide = np.full((2 * array.shape[0], 3 * array.shape[1]), 0.125, dtype=array.dtype)
    wide[::2, 1::3] = array
    return wide[::2, 1::3]


def unaligned(array):
    held = np.frombuffer(b"x" + array.tobytes(), dtype=np.uint8)[1:]
    return np.frombuffer(held, dtype=array.dtype).reshape(array.shape)


# How a matrix may lie in memory; all have the same values.
LAYOUTS = {
    "by rows": lambda array: array.copy(),
    "by columns": np.asfortranarray,
    "with gaps": spread,
    "with gaps, by columns": lambda array: spread(array.T.copy()).T,
    "rows backwards": lambda array: array[::-1].copy()[::-1],
    "columns backwards": lambda array: array[:, ::-1].copy()[:, ::-1],
    "all backwards, by columns": lambda array: np.asfortranarray(array[::-1, ::-1])[::-1, ::-1],
    "a part of a larger array": lambda array: np.stack([array, array + 1], axis=2)[:, :, 0],
    "read only": lambda array: np.frombuffer(array.tobytes(), dtype=array.dtype).reshape(array.shape),
    "not aligned": unaligned,
    "of the other byte order": lambda array: array.astype(array.dtype.newbyteorder()),
    "single": lambda array: array.astype(np.float32),
}
