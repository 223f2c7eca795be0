"""Columns as libraries hold them."""

import pandas as pd
import polars as pl
import pyarrow as pa

LIBRARIES = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, pa.Array: pa.table, pa.ChunkedArray: pa.table}


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
