"""The names of the columns of a table, whatever holds it. Names are public; no row is read."""

import os
from pathlib import Path
from typing import Any

import narwhals as nw

from dpforest.records.given import given_frame
from dpforest.records.parquet_rows import types_of
from dpforest.records.source import Source
from dpforest.schema import Schema


def names_of(table: Any) -> list[str] | None:
    """The names of a dataframe, a table of Ibis or Dask, or a Parquet file or folder; None for an array or a list."""
    if isinstance(table, Source):
        return table.public_names()
    if isinstance(table, str | os.PathLike):
        return parquet_names(Path(table))
    frame = given_frame(table)
    columns = getattr(table, "columns", None) if frame is None else frame.columns
    return None if columns is None else [str(name) for name in columns]  # pandas allows numbers as names


def header_of(X: Any, schema: Schema) -> Any:
    """What scikit-learn may see of a table: no row, and of its columns those that the schema names, in the order of X.

    A table that has none of them, or one of them twice, keeps all of its columns; an array is given back.
    """
    frame = given_frame(X)
    if frame is None:
        return X
    used = [name for name in frame.columns if str(name) in schema.features]
    empty = frame.head(0)
    return (empty.select(nw.col(*used)) if used and len({*used}) == len(used) else empty).to_native()


def parquet_names(path: Path) -> list[str]:
    """The names of the columns of a Parquet file, or of the first file of a folder."""
    return list(types_of(path).names)
