"""The names of the columns of a table, whatever holds it. Names are public; no row is read."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset

from dpforest.errors import TableError
from dpforest.records.given import given_frame


def names_of(table: Any) -> list[str] | None:
    """The names of a dataframe, a table of Ibis or Dask, or a Parquet file or folder; None for an array or a list."""
    if isinstance(table, str | os.PathLike):
        return parquet_names(Path(table))
    frame = given_frame(table)
    columns = getattr(table, "columns", None) if frame is None else frame.columns
    return None if columns is None else [str(name) for name in columns]  # pandas allows numbers as names


def parquet_names(path: Path) -> list[str]:
    """The names of the columns of a Parquet file, or of the first file of a folder."""
    try:
        return list(dataset.dataset(path, format="parquet").schema.names)
    except (OSError, pa.ArrowException):
        raise TableError(f"{path} cannot be read as a Parquet file or folder.") from None
