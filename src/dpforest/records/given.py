"""Tables and columns as callers give them, turned into arrays and series. Sees rows.

An array, or a column of a table library, has a type, which is public. A list has none, and its values are taken one by one:
numpy would find one type for all of them, so that one record could change how the others are read.
"""

import warnings
from collections.abc import Collection, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.dependencies import get_pandas, get_pyarrow, is_polars_lazyframe
from scipy import sparse

from dpforest.errors import TableError

NO_TABLE = (
    "Expected 2D array: rows that are lists, tuples or arrays, all of one length. Reshape your data: a table has rows and "
    "columns."
)

BY_NAME = (
    "In a table that has names, columns go by their names and others are not read: pass one of pandas, polars or pyarrow; "
    'the steps of a Pipeline give one after pipeline.set_output(transform="pandas").'
)


def given_frame(X: Any) -> "nw.DataFrame[Any] | None":
    """The table as a dataframe of narwhals if a table library made it; None for an array or a list."""
    if isinstance(X, nw.DataFrame):
        return X
    if sparse.issparse(X):
        raise TableError("A sparse matrix was given. Pass a dense table, for example X.toarray().")
    if is_polars_lazyframe(X):
        raise TableError("A LazyFrame of polars was given, which is a query and not yet a table. Call .collect() on it.")
    # To ask what library an array belongs to takes longer than to read a short one.
    frame = X if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def given_columns(X: Any, n_features: int) -> list[np.ndarray]:
    """The columns of an array or of a list of rows, one array for each; raises unless there are ``n_features``."""
    columns = _columns_of_rows(X) if _is_sequence(X) else _columns_of_array(_to_array(X, "The table"))
    if columns is None:  # no row, so nothing that could have another number of columns
        return [np.empty(0, dtype=object)] * n_features
    if len(columns) != n_features:
        raise TableError(f"The table has {len(columns)} features, but the schema declares {n_features}. {BY_NAME}")
    return columns


def _columns_of_rows(X: Any) -> list[np.ndarray] | None:
    try:
        columns = list(zip(*map(_row, X), strict=True))
    except Exception:
        raise TableError(NO_TABLE) from None
    return [to_objects(column) for column in columns] if len(X) else None


def _row(row: Any) -> Any:
    if hasattr(type(row), "__array__"):
        row = np.asarray(row)
    if _is_sequence(row) or (isinstance(row, np.ndarray) and row.ndim == 1):
        return row
    raise TableError(NO_TABLE)


def _columns_of_array(array: np.ndarray) -> list[np.ndarray] | None:
    if array.shape == (0,):
        return None
    if array.ndim != 2:
        raise TableError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: a table has rows and columns."
        )
    if array.dtype.kind == "c":
        raise TableError("Complex data not supported.")
    return list(array.T)


def given_column(values: Any, what: str, name: str) -> Any:
    """One column as an array or series of its own type; a list, without one, as an array of objects."""
    column = values
    if not isinstance(values, np.ndarray):
        column = nw.from_native(_to_series(values), eager_only=True, allow_series=True, pass_through=True)
    if isinstance(column, nw.Series):
        return column
    if _is_sequence(values):
        return to_objects(values)
    if not isinstance(column, nw.DataFrame):
        column = _to_array(values, what)
    n_dimensions = len(column.shape)
    if n_dimensions == 2 and column.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning  # loaded here only, for workers of a cluster do without

        words = f"A column-vector {name} was passed when a 1d array was expected."
        warnings.warn(words, DataConversionWarning, stacklevel=3)
        return column[:, 0]
    if n_dimensions != 1:
        raise TableError(f"{what} must have one dimension, a value for each row, not {n_dimensions}.")
    return column


def _to_series(values: Any) -> Any:
    """A bare array of pandas or Arrow as a series, anything else as it is.

    numpy would give such an array another type where a value is missing.
    """
    pandas, arrow = get_pandas(), get_pyarrow()
    if arrow is not None and isinstance(values, arrow.Array):
        return arrow.chunked_array([values])
    if pandas is not None and isinstance(values, pandas.Index | pandas.api.extensions.ExtensionArray):
        return pandas.Series(values)
    return values


def _to_array(values: Any, what: str) -> np.ndarray:
    if np.ma.isMaskedArray(values):
        raise TableError(f"{what} is a masked array, whose mask would be lost. Pass None or NaN where values are missing.")
    if not hasattr(type(values), "__array__"):
        raise TableError(
            f"{what} was given as {type(values).__name__}, which is no array and no list. Pass one of these, or what "
            "pandas, polars or pyarrow hold."
        )
    return np.asarray(values)


def _is_sequence(values: Any) -> bool:
    """Whether it is a list, tuple or the like, whose values have no common type.

    Its class decides, since anything else could run a value's own code.
    """
    kind = type(values)
    return issubclass(kind, Sequence) and not issubclass(kind, str | bytes | bytearray | memoryview)


def to_objects(values: Collection[Any]) -> np.ndarray:
    """An array of objects that are the values themselves, unconverted."""
    return np.fromiter(values, dtype=object, count=len(values))
