"""Columns of a table, as the schema names them. Sees rows.

Which columns a table has and of which type they are is taken as public; the values are not. So a wrong column is an error
with its name, and a wrong value is never an error: a number that cannot be read is missing, a category outside the public
list is "other", an unlisted label follows the policy of ``Classes``.
"""

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from dpforest.errors import TableError
from dpforest.schema import TARGET_STEPS, Bounded, Categorical, Classes, Numeric, Schema


def read_columns(X: Any, schema: Schema) -> list[Any]:
    """One array or series for each feature of the schema, in its order; types are checked, values are not."""
    if sparse.issparse(X):
        raise TableError("A sparse matrix was given. Pass a dense table, for example X.toarray().")
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    columns = _by_name(frame, schema) if isinstance(frame, nw.DataFrame) else _by_position(X, schema)
    for name, feature, column in zip(schema.features, schema.features.values(), columns, strict=True):
        _check_type(name, feature, column)
    return columns


def _by_name(frame: "nw.DataFrame[Any]", schema: Schema) -> list[Any]:
    named = {str(name): name for name in frame.columns}  # pandas allows numbers as names
    given = list(named)
    missing = [name for name in schema.features if name not in given]
    if missing:
        raise TableError(f"Column {missing[0]!r} of the schema is missing from the table; it has {_listed(given)}.")
    unknown = [name for name in given if name not in schema.features]
    if unknown:
        hint = " It is the target: pass it as y." if unknown[0] == schema.target.name else ""
        raise TableError(
            f"Column {unknown[0]!r} of the table is not in the schema, which has {_listed(list(schema.features))}."
            f"{hint or ' Drop it from the table or declare it.'}"
        )
    return [frame.get_column(named[name]) for name in schema.features]


def _by_position(X: Any, schema: Schema) -> list[Any]:
    array = np.asarray(X)
    if array.ndim != 2:
        raise TableError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: a table has rows and columns."
        )
    if array.shape[1] != schema.n_features:
        raise TableError(f"The table has {array.shape[1]} features, but the schema declares {schema.n_features}.")
    if array.dtype.kind == "c":
        raise TableError("Complex data not supported.")
    if array.dtype.kind in "US":
        # numpy turns a table of numbers and text into text; as objects its numbers are read again.
        array = np.array(X, dtype=object)
    return list(array.T)


def _listed(names: list[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _check_type(name: str, feature: Numeric | Categorical, column: Any) -> None:
    kind, shown = _kind(column)
    if kind == "other" or (isinstance(feature, Numeric) and kind == "text"):
        raise TableError(
            f"Column {name!r} is declared {feature.kind}, but the table has it as {shown}. "
            "Convert the column, or correct the schema."
        )
    if kind == "number" and isinstance(feature, Categorical) and _all_text(feature.categories):
        raise TableError(
            f"Column {name!r} holds numbers ({shown}), but its declared categories are text. "
            "Read the column as text, or declare the categories as numbers."
        )


def _all_text(values: Sequence[Hashable]) -> bool:
    return all(isinstance(value, str) for value in values)


def _kind(column: Any) -> tuple[str, str]:
    """What the values of a column can be: number, text, mixed or other; and the type as people write it."""
    if isinstance(column, np.ndarray):
        kinds = {"b": "number", "i": "number", "u": "number", "f": "number", "O": "mixed", "U": "text", "S": "text"}
        return kinds.get(column.dtype.kind, "other"), str(column.dtype)
    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return "number", str(dtype)
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return "text", str(dtype)
    # A column without any value has no type to speak of.
    return ("mixed" if dtype in (nw.Object, nw.Unknown) else "other"), str(dtype)


def to_numbers(column: Any) -> np.ndarray:
    """Floats, NaN where a value is missing or cannot be read as a number."""
    values = column if isinstance(column, np.ndarray) else column.to_numpy()
    if values.dtype.kind == "f":
        return np.ascontiguousarray(values)
    if values.dtype.kind in "biu":
        return values.astype(np.float64)
    return np.array([_to_number(value) for value in values], dtype=np.float64)


def _to_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def to_indices(column: Any, listed: Sequence[Hashable], other: int, missing: int) -> np.ndarray:
    """Place of each value in ``listed``; ``other`` for values that are not there, ``missing`` for none."""
    places: dict[Any, int] = {value: place for place, value in enumerate(listed)}
    values, inverse = _distinct(column)
    codes = np.array([_place(value, places, other, missing) for value in values], dtype=np.int64)
    return codes[inverse] if len(codes) else np.zeros(0, dtype=np.int64)


def _place(value: Any, places: dict[Any, int], other: int, missing: int) -> int:
    try:
        if value in places:
            return places[value]
    except TypeError:
        return other
    # NaN, NaT and pandas' NA are not equal to themselves.
    return missing if value is None or not _equals_itself(value) else other


def _equals_itself(value: Any) -> bool:
    try:
        return bool(value == value)
    except TypeError:
        return False


def _distinct(column: Any) -> tuple[list[Any], np.ndarray]:
    """The distinct values of a column, and the place of each record's value among them."""
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        values, inverse = np.unique(column, return_inverse=True)
        return values.tolist(), inverse.reshape(-1)
    if not isinstance(column, np.ndarray) and _kind(column)[0] != "mixed":
        import pyarrow.compute as pc

        encoded = pc.dictionary_encode(column.to_arrow(), null_encoding="encode")
        if hasattr(encoded, "combine_chunks"):
            encoded = encoded.combine_chunks()
        if hasattr(encoded, "chunks"):
            encoded = encoded.chunk(0)
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)
    values = column if isinstance(column, np.ndarray) else column.to_list()
    seen: dict[Any, int] = {}
    distinct: list[Any] = []
    inverse = np.empty(len(values), dtype=np.int64)
    for record, value in enumerate(values):
        # Unhashable values are alike: all of them are "other".
        key = value if isinstance(value, Hashable) else _Unhashable
        place = seen.get(key)
        if place is None:
            place = seen[key] = len(distinct)
            distinct.append(key)
        inverse[record] = place
    return distinct, inverse


class _Unhashable:
    """Stands for every value that cannot be a category."""


def read_target(y: Any, target: Classes | Bounded) -> np.ndarray:
    """Integers ``(n_records,)``: class places, or steps of the target grid; -1 for a record to leave out."""
    column = nw.from_native(y, series_only=True, allow_series=True, pass_through=True)
    if isinstance(column, nw.DataFrame):
        column = column.get_column(column.columns[0])
    if not isinstance(column, nw.Series):
        column = _one_dimension(y)
    if isinstance(target, Classes):
        other = -1 if target.other is None else target.labels.index(target.other)
        return to_indices(column, target.labels, other, other)
    if _kind(column)[0] == "text":
        raise TableError(f"The target {target.name!r} is declared bounded, but it was given as text.")
    values = to_numbers(column).astype(np.float64)
    share = (np.clip(values, target.lower, target.upper) - target.lower) / (target.upper - target.lower)
    return np.where(np.isnan(values), -1, np.rint(np.nan_to_num(share) * TARGET_STEPS)).astype(np.int64)


def _one_dimension(y: Any) -> np.ndarray:
    if isinstance(y, list | tuple) and y and isinstance(y[0], tuple):
        # numpy would make a table of a list of tuples, but a tuple is a label.
        labels = np.empty(len(y), dtype=object)
        labels[:] = y
        return labels
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, stacklevel=2)
        array = array[:, 0]
    if array.ndim != 1:
        raise TableError(f"The target must have one dimension, not the shape {array.shape}.")
    return array
