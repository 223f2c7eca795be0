"""Columns of a table, as the schema names them. Sees rows.

Which columns a table has and of which type they are is taken as public; the values are not. So a wrong column is an error
with its name, and a wrong value is never an error: a number that cannot be read is missing, a category outside the public
list is "other", an unlisted label follows the policy of ``Classes``.
"""

import numbers
import warnings
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from dpforest.errors import TableError
from dpforest.records.kernels import look_up
from dpforest.schema import FINE_STEPS, Bounded, Categorical, Classes, Numeric, Schema

# Whole numbers are found by a table if the listed ones lie this close to one another.
MOST_TABLE = 1 << 16


def read_columns(X: Any, schema: Schema) -> list[Any]:
    """One array or series for each feature of the schema, in its order; types are checked, values are not."""
    if sparse.issparse(X):
        raise TableError("A sparse matrix was given. Pass a dense table, for example X.toarray().")
    # To ask what library an array belongs to takes longer than to read a short one.
    frame = X if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True, pass_through=True)
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
    if isinstance(X, list | tuple) and len(X) and all(isinstance(row, list | tuple) for row in X):
        if any(len(row) != len(X[0]) for row in X):
            raise TableError("The rows of the table have different lengths.")
        if len(X[0]) == schema.n_features:
            return [to_objects(column) for column in zip(*X, strict=True)]
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
    kind, shown = column_kind(column)
    if kind == "other" or (isinstance(feature, Numeric) and kind in ("text", "category")):
        raise TableError(
            f"Column {name!r} is declared {feature.kind}, but the table has it as {shown}. "
            "Convert the column, or correct the schema."
        )
    if isinstance(feature, Categorical):
        _check_listed(f"Column {name!r}", feature.categories, "categories", kind, shown)


def _check_listed(what: str, listed: Sequence[Hashable], noun: str, kind: str, shown: str) -> None:
    """Raise if a column of this kind cannot hold any of the listed values."""
    for unfit, held, other, type_ in (("number", "numbers", "text", str), ("text", "text", "numbers", numbers.Number)):
        if kind == unfit and all(isinstance(value, type_) for value in listed):
            raise TableError(
                f"{what} holds {held} ({shown}), but its declared {noun} are all {other}. "
                f"Convert the column, or declare the {noun} as {held}."
            )


def column_kind(column: Any) -> tuple[str, str]:
    """What the values of a column can be: number, text, category, mixed or other; and the type as people write it."""
    if isinstance(column, np.ndarray):
        kinds = {"b": "number", "i": "number", "u": "number", "f": "number", "O": "mixed", "U": "text", "S": "text"}
        names = {"U": "text", "S": "bytes", "O": "object"}  # without a length, which is that of the longest value
        return kinds.get(column.dtype.kind, "other"), names.get(column.dtype.kind, column.dtype.name)
    if _is_object(column):
        # narwhals would look at the values to find a type, and one value could then change it.
        return "mixed", "object"
    # The name of the type only: an Enum would print its categories.
    dtype, shown = column.dtype, type(column.dtype).__name__
    if dtype.is_numeric() or dtype == nw.Boolean:
        return "number", shown
    if dtype == nw.String:
        return "text", shown
    if dtype in (nw.Categorical, nw.Enum):
        return "category", shown
    # A column without any value has no type to speak of.
    return ("mixed" if dtype in (nw.Object, nw.Unknown) else "other"), shown


def _is_object(column: Any) -> bool:
    return getattr(column.to_native(), "dtype", None) == object  # noqa: E721 - numpy compares types by ==


def to_numbers(column: Any) -> np.ndarray:
    """Numbers, NaN where a value is missing or cannot be read as a number."""
    values = column if isinstance(column, np.ndarray) else column.to_numpy()
    if values.dtype.isnative and (values.dtype.kind in "biu" or values.dtype in (np.float32, np.float64)):
        return values
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([_to_number(value) for value in values], dtype=np.float64)


def _to_number(value: Any) -> float:
    if isinstance(value, numbers.Complex) and not isinstance(value, numbers.Real):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf if isinstance(value, int | Fraction) and value > 0 else -np.inf
    except Exception:  # whatever a value does when asked for a number, it must not show
        return np.nan


def to_indices(column: Any, listed: Sequence[Hashable], other: int, missing: int) -> np.ndarray:
    """Place of each value in ``listed``; ``other`` for values that are not there, ``missing`` for none."""
    places: dict[Any, int] = {value: place for place, value in enumerate(listed)}
    dtype = np.int16 if max(len(listed), other, missing) < 1 << 15 else np.int32
    if _is_whole(column):
        table, low = _whole_places(places, other, dtype)
        if len(table) <= MOST_TABLE:
            found = np.empty(len(column), dtype=dtype)
            look_up(column, low, table, found)
            return found
    values, inverse = distinct(column)
    codes = np.array([_place(value, places, other, missing) for value in values], dtype=dtype)
    return codes[inverse] if len(codes) else np.zeros(0, dtype=dtype)


def _is_whole(column: Any) -> bool:
    """Whether a column holds whole numbers that fit 63 bits, by its type."""
    if not isinstance(column, np.ndarray) or not column.dtype.isnative:
        return False
    return column.dtype.kind in "bi" or (column.dtype.kind == "u" and column.dtype.itemsize < 8)


def _whole_places(places: dict[Any, int], other: int, dtype: type) -> tuple[np.ndarray, int]:
    """Places of the whole numbers from the smallest that is listed to the largest, then ``other``; and the smallest."""
    listed = {whole: place for value, place in places.items() if (whole := _to_whole(value)) is not None}
    low = min(listed, default=0)
    table: np.ndarray = np.full(min(max(listed, default=-1) - low + 2, MOST_TABLE + 1), other, dtype=dtype)
    for value, place in listed.items():
        if value - low < len(table) - 1:
            table[value - low] = place
    return table, low


def _to_whole(value: Any) -> int | None:
    """The whole number of 64 bits that a listed value equals, if any."""
    if not isinstance(value, numbers.Number):
        return None
    try:
        whole = int(value.real)  # type: ignore[attr-defined]
    except (OverflowError, ValueError):  # infinity, or no number
        return None
    return whole if whole == value and -(1 << 63) <= whole < 1 << 63 else None


def _place(value: Any, places: dict[Any, int], other: int, missing: int) -> int:
    if value in places:
        return places[value]
    # NaN, NaT and pandas' NA are not equal to themselves.
    return missing if value is None or not equals_itself(value) else other


def equals_itself(value: Any) -> bool:
    try:
        return bool(value == value)
    except Exception:
        return False


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except Exception:
        return False
    return True


def distinct(column: Any) -> tuple[list[Any], np.ndarray]:
    """The distinct values of a column, and the place of each record's value among them."""
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        return _distinct_in_arrow(column) if _is_whole(column) else _distinct_sorted(column)
    if not isinstance(column, np.ndarray) and column_kind(column)[0] != "mixed":
        try:
            return _distinct_in_table(column)
        except Exception:  # a value that Arrow cannot hold must not show; Python can hold it
            column = column.to_list()
    return _distinct_in_python(column if isinstance(column, np.ndarray | list) else column.to_list())


def _distinct_sorted(column: np.ndarray) -> tuple[list[Any], np.ndarray]:
    values, inverse = np.unique(column, return_inverse=True)
    return values.tolist(), inverse.reshape(-1)


def _distinct_in_arrow(column: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """By hashing, which takes a tenth of the time of sorting."""
    import pyarrow as pa

    encoded = pa.array(np.ascontiguousarray(column)).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def _distinct_in_table(column: Any) -> tuple[list[Any], np.ndarray]:
    codes = getattr(getattr(column.to_native(), "cat", None), "codes", None)
    if codes is not None:
        # pandas keeps categories of any type, which Arrow would make alike.
        values = [*column.to_native().cat.categories.tolist(), None]
        return values, np.where(np.asarray(codes) < 0, len(values) - 1, np.asarray(codes, dtype=np.int64))

    import pyarrow as pa
    import pyarrow.compute as pc

    array = column.to_arrow()
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    # Missing values get a place of their own behind the others.
    inverse = pc.fill_null(encoded.indices.cast(pa.int64()), len(values))
    return [*values, None], inverse.to_numpy(zero_copy_only=False)


def _distinct_in_python(values: Any) -> tuple[list[Any], np.ndarray]:
    seen: dict[Any, int] = {}
    distinct: list[Any] = []
    inverse = np.empty(len(values), dtype=np.int64)
    for record, value in enumerate(values):
        # Unhashable values are alike: all of them are "other".
        key = value if _is_hashable(value) else _Unhashable
        place = seen.get(key)
        if place is None:
            place = seen[key] = len(distinct)
            distinct.append(key)
        inverse[record] = place
    return distinct, inverse


class _Unhashable:
    """Stands for every value that cannot be a category."""


def is_hashable_key(value: Any) -> bool:
    """Whether one of the values that ``distinct`` gives stands for itself, not for all that cannot be told apart."""
    return value is not _Unhashable


def read_target(y: Any, target: Classes | Bounded) -> np.ndarray:
    """Integers ``(n_records,)``: class places, or steps of the fine target grid; -1 for a record to leave out."""
    column = y if isinstance(y, np.ndarray) else nw.from_native(y, series_only=True, allow_series=True, pass_through=True)
    if isinstance(column, nw.DataFrame):
        column = column.get_column(column.columns[0])
    if not isinstance(column, nw.Series):
        column = _one_dimension(y)
    if isinstance(target, Classes):
        other = -1 if target.other is None else target.labels.index(target.other)
        return to_indices(column, target.labels, other, other)
    kind, shown = column_kind(column)
    if kind in ("text", "category", "other"):
        raise TableError(f"The target {target.name!r} is declared bounded, but it was given as {shown}.")
    values = to_numbers(column).astype(np.float64)
    share = (np.clip(values, target.lower, target.upper) - target.lower) / (target.upper - target.lower)
    return np.where(np.isnan(values), -1, np.rint(np.nan_to_num(share) * FINE_STEPS)).astype(np.int32)


def _one_dimension(y: Any) -> np.ndarray:
    if isinstance(y, list | tuple):
        # One by one: numpy would turn numbers beside text into text, and tuples into a table.
        return to_objects(y)
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, stacklevel=2)
        array = array[:, 0]
    if array.ndim != 1:
        raise TableError(f"The target must have one dimension, not {array.ndim}.")
    return array


def to_objects(values: Sequence[Any]) -> np.ndarray:
    """Values as they are, one by one."""
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array
