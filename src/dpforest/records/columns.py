"""Reading of columns by the schema: arrays and series as numbers, indices of categories, or target codes. Sees rows.

Which columns a table has and of which type they are is taken as public; the values are not. So a wrong column is an error
with its name, and a wrong value is never an error: a number that cannot be read is missing, a category outside the public
list is "other", an unlisted label follows the policy of ``Classes``. How a record is read does not depend on others.
"""

import numbers
from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Decimal
from operator import getitem
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.dependencies import get_pandas
from numba import njit

from dpforest.errors import TableError
from dpforest.records.given import given_column, given_columns, given_frame, to_objects
from dpforest.schema import FINE_STEPS, Bounded, Categorical, Classes, Feature, Numeric, Schema, Target

# Whole numbers are looked up in an array if the largest listed one is less than this above the smallest.
MOST_TABLE = 1 << 16
# Types that may be read as a number. Values of other types are not tried: what their own code does then could be seen.
NUMBERS = (numbers.Real, Decimal, np.bool_, str, bytes)
# For each kind of column the type of its values, and the noun for them in errors.
HELD: dict[str, tuple[type, str]] = {"number": (numbers.Number, "numbers"), "text": (str, "text"), "bytes": (bytes, "bytes")}

NO_NUMBERS = ("text", "bytes", "category", "date")
# For each kind of declaration the kinds of columns that cannot hold it.
UNFIT = {
    "numeric": NO_NUMBERS,
    "bounded": NO_NUMBERS,
    "categorical": ("date",),
    "classes": ("date",),
    "date": ("number", "bytes"),
}


def read_columns(X: Any, schema: Schema) -> list[Any]:
    """One array or series for each feature of the schema, in its order; types are checked, values are not."""
    frame = given_frame(X)
    if frame is None:
        columns: list[Any] = given_columns(X, schema.n_features)
    else:
        given = [str(name) for name in frame.columns]  # pandas allows numbers as names
        require_columns(given, schema.features, "the table")
        named = dict(zip(given, frame.columns, strict=True))
        columns = [frame.get_column(named[name]) for name in schema.features]
    for index, (name, feature) in enumerate(schema.features.items()):
        if frame is None and isinstance(feature, Numeric) and columns[index].dtype.kind in "US":
            # numpy turns a table of numbers and text into text; its numbers are read again, one by one.
            columns[index] = to_objects(read_values(columns[index]))
        _check_kind(f"Column {name!r}", feature, columns[index])
        if isinstance(feature, Categorical) and not feature.by_text:
            _check_listed(f"Column {name!r}", feature.categories, "categories", columns[index])
    return columns


def require_columns(given: list[str], wanted: Iterable[str], where: str, asked_by: str = "of the schema") -> None:
    """Raise ``TableError`` unless each wanted column is among the given ones exactly once."""
    wanted = list(wanted)
    for name in wanted:
        if given.count(name) != 1:
            there = "more than once in" if name in given else "missing from"
            spare = [other for other in given if other not in wanted]
            hint = "" if name in given else near_name(name, spare)
            raise TableError(f"Column {name!r} {asked_by} is {there} {where}; it has {_listed(given)}.{hint}")


def check_length(name: str, given: Any, rows: Any) -> None:
    """Raise ``TableError`` unless there is a value for each row."""
    if len(given) != len(rows):
        raise TableError(f"Found input variables with inconsistent numbers of samples: X and {name} differ in length.")


def near_names(given: list[str], wanted: Iterable[str]) -> str:
    """One "did you mean" line per missing column that resembles an existing one."""
    wanted = list(wanted)
    spare = [other for other in given if other not in wanted]
    hints = {name: near_name(name, spare) for name in wanted if name not in given}
    return "\n".join(f"{name!r}:{hint}" for name, hint in hints.items() if hint)


def near_name(name: str, given: list[str]) -> str:
    """A sentence on the given column that a missing one may be, if one is named much like it."""
    from difflib import get_close_matches

    prefixed = [other for other in given if other.endswith(f"__{name}")]
    alike = {other.casefold(): other for other in given}
    near = prefixed or [alike[other] for other in get_close_matches(name.casefold(), alike, n=1)]
    how = " A ColumnTransformer keeps the names of columns with verbose_feature_names_out=False." if prefixed else ""
    return f" Is it {near[0]!r}?{how}" if near else ""


def _listed(names: list[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _check_kind(what: str, part: Feature | Target, column: Any) -> None:
    """Raise ``TableError`` if a column cannot hold what is declared, by its type alone."""
    kind, shown = column_kind(column)
    # Which text bytes stand for, nobody said.
    is_unread = kind == "bytes" and isinstance(part, Categorical) and part.by_text
    if kind != "other" and kind not in UNFIT[part.kind] and not is_unread:
        return
    advice = "Convert the column, or correct the schema."
    if kind == "date" and isinstance(part, Feature):
        advice = "Declare it Date(), or Date(time=True) if the time of day counts; or convert the column."
    elif kind == "number":
        advice = (
            "A number does not say what it counts, and since when. Convert the column to dates, for example by "
            "pandas.to_datetime(column, unit='s'), or declare it Numeric()."
        )
    raise TableError(f"{what} is declared {part.kind}, but it was given as {shown}. {advice}")


def _check_listed(what: str, listed: Sequence[Hashable], noun: str, column: Any, hint: str = "") -> None:
    """Raise ``TableError`` if a column cannot hold any of the listed values, by its type alone."""
    kind, shown = _kind_of_values(column)
    type_, held = HELD.get(kind, (object, ""))
    # A missing value may be listed, and any column can hold that.
    if not any(isinstance(value, type_) or is_missing(value) for value in listed):
        declared = [f"all {name}" for other, name in HELD.values() if all(isinstance(value, other) for value in listed)]
        raise TableError(
            f"{what} holds {held} ({shown}), but its declared {noun} are {declared[0] if declared else 'not'}. "
            f"Convert the column, or declare the {noun} as {held}.{hint if kind == 'number' else ''}"
        )


def column_kind(column: Any) -> tuple[str, str]:
    """The kind of a column, by its type: number, text, bytes, date, category, mixed or other; and the name of that type."""
    if isinstance(column, np.ndarray):
        kinds = dict.fromkeys("biuf", "number") | {"O": "mixed", "U": "text", "S": "bytes", "M": "date"}
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
    if dtype in (nw.Date, nw.Datetime):
        return "date", shown
    if dtype in (nw.Categorical, nw.Enum):
        return "category", shown
    # A column without any value may have the type Unknown.
    return ("mixed" if dtype in (nw.Object, nw.Unknown) else "other"), shown


def _is_object(column: Any) -> bool:
    return getattr(column.to_native(), "dtype", None) == object  # noqa: E721 - numpy compares types by ==


def _kind_of_values(column: Any) -> tuple[str, str]:
    """The kind and type as ``column_kind`` gives them; of a column of categories the kind of these, if its type says so."""
    kind, shown = column_kind(column)
    if kind != "category" or column.implementation.is_pandas_like():  # pandas keeps categories of any type
        return kind, shown
    if column.implementation.is_polars():
        return "text", shown
    import pyarrow as pa

    # A column without categories may have got some other type for them from its library, so it counts as mixed.
    values = column.to_native().type.value_type
    is_text = pa.types.is_string(values) or pa.types.is_large_string(values) or pa.types.is_string_view(values)
    return "text" if is_text else "mixed", shown


def asking(read: Callable[..., Any], otherwise: Any) -> Callable[..., Any]:
    """``read`` without errors: ``otherwise`` where it raises, since an error would reveal a value."""

    def ask(*arguments: Any) -> Any:
        try:
            return read(*arguments)
        except (KeyboardInterrupt, SystemExit):  # these come from whoever runs the fit
            raise
        except BaseException:
            return otherwise

    return ask


class Unreadable:
    """Stands for a value that a library cannot give, such as broken UTF-8. It equals no listed value."""


def read_values(column: Any) -> list[Any]:
    """The values of an array or series as a list, ``Unreadable`` in the place of those that cannot be read."""
    try:
        return list(column.tolist() if isinstance(column, np.ndarray) else column.to_list())
    except Exception:  # because of some value, which must not change how the others are read
        read = asking(getitem, Unreadable)
        return [read(column, index) for index in range(len(column))]


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing one: None, pandas' NA, or a value such as NaN that does not equal itself."""
    return value is None or value is getattr(get_pandas(), "NA", None) or not value == value  # noqa: SIM201


# numpy may warn about a value (a signalling NaN, a long double beyond all doubles), or raise if callers have asked for that.
@np.errstate(all="ignore")
def to_numbers(column: Any) -> np.ndarray:
    """The values as numbers ``(n_records,)``; NaN where a value is missing or cannot be read as a number."""
    try:
        values = column if isinstance(column, np.ndarray) else column.to_numpy()
    except Exception:  # numpy has no such type, such as whole numbers of 128 bits, or no such value
        values = to_objects(read_values(column))
    if values.dtype.isnative and (values.dtype.kind in "biu" or values.dtype in (np.float32, np.float64)):
        return values
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    read = asking(_to_number, np.nan)
    return np.array([read(value) for value in values], dtype=np.float64)


def _to_number(value: Any) -> float:
    if not issubclass(type(value), NUMBERS):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


@np.errstate(all="ignore")
def to_indices(column: Any, listed: Sequence[Hashable], other: int, missing: int) -> np.ndarray:
    """The index of each value in ``listed``, ``(n_records,)``; ``other`` for values not in it, ``missing`` for none."""
    indices: dict[Any, int] = {value: index for index, value in enumerate(listed)}
    dtype = np.int16 if max(len(listed), other, missing) < 1 << 15 else np.int32
    if _is_whole(column):
        table, low = _whole_indices(indices, other, dtype)
        if len(table) <= MOST_TABLE:
            found = np.empty(len(column), dtype=dtype)
            look_up(column, low, table, found)
            return found

    # Values of these types are not looked up if none is listed: to hash one that is nested deeply can end the process, and
    # Python can be told to warn when bytes are compared with text.
    unlisted = tuple(kind for kind in (tuple, frozenset, bytes) if not any(isinstance(value, kind) for value in listed))

    def find(value: Any) -> int:
        if issubclass(type(value), unlisted):
            return other
        index = indices.get(value)
        return index if index is not None else missing if is_missing(value) else other

    values, inverse = distinct(column)
    find_quietly = asking(find, other)
    codes = np.array([find_quietly(value) for value in values], dtype=dtype)
    return codes[inverse] if len(codes) else np.zeros(0, dtype=dtype)


@njit(cache=True, nogil=True)
def look_up(values, low, table, found):
    """Fill ``found`` with ``table[value - low]`` for each value, or the last entry for values outside of the table."""
    last = table.size - 1
    for record in range(values.size):
        index = np.int64(values[record]) - low
        found[record] = table[index] if 0 <= index < last else table[last]


def _is_whole(column: Any) -> bool:
    """Whether a column holds whole numbers that fit 63 bits, by its type."""
    if not isinstance(column, np.ndarray) or not column.dtype.isnative:
        return False
    return column.dtype.kind in "bi" or (column.dtype.kind == "u" and column.dtype.itemsize < 8)


def _whole_indices(indices: dict[Any, int], other: int, dtype: type) -> tuple[np.ndarray, int]:
    """The indices of all whole numbers from the smallest listed one to the largest, then ``other``; and the smallest."""
    listed = {whole: index for value, index in indices.items() if (whole := _to_whole(value)) is not None}
    low = min(listed, default=0)
    table: np.ndarray = np.full(min(max(listed, default=-1) - low + 2, MOST_TABLE + 1), other, dtype=dtype)
    for value, index in listed.items():
        if value - low < len(table) - 1:
            table[value - low] = index
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


def distinct(column: Any) -> tuple[list[Any], np.ndarray]:
    """A list of the values of a column, and the index of each record's value in it, ``(n_records,)``.

    Each value is listed once if the column has a type. Values without a common type are not compared with one another, and
    each record has its own: one could say that it equals all others.
    """
    if column_kind(column)[0] != "mixed":
        try:
            return _distinct_in_array(column) if isinstance(column, np.ndarray) else _distinct_in_table(column)
        except Exception:  # Arrow does not have such a type or value; Python does, so it must not become an error
            # Missing values become None, as Arrow would give them.
            column = to_objects([None if is_missing(value) else value for value in read_values(column)])
    values = read_values(column)
    return values, np.arange(len(values))


def _distinct_in_array(column: np.ndarray) -> tuple[list[Any], np.ndarray]:
    if not _is_whole(column):
        values, inverse = np.unique(column, return_inverse=True)
        return read_values(values), inverse.reshape(-1)
    import pyarrow as pa

    # By hashing, which takes a tenth of the time of sorting.
    encoded = pa.array(np.ascontiguousarray(column)).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def _distinct_in_table(column: Any) -> tuple[list[Any], np.ndarray]:
    codes = getattr(getattr(column.to_native(), "cat", None), "codes", None)
    if codes is not None:
        # pandas keeps categories of any types together, which Arrow would turn into one type.
        values = [*column.to_native().cat.categories.tolist(), None]
        return values, np.where(np.asarray(codes) < 0, len(values) - 1, np.asarray(codes, dtype=np.int64))

    import pyarrow as pa
    import pyarrow.compute as pc

    array = column.to_arrow()
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    values = read_values(nw.from_native(pa.chunked_array([encoded.dictionary]), series_only=True))
    # Missing values get an index of their own behind the others.
    inverse = pc.fill_null(encoded.indices.cast(pa.int64()), len(values))
    return [*values, None], inverse.to_numpy(zero_copy_only=False)


def read_target(y: Any, target: Target) -> np.ndarray:
    """Integers ``(n_records,)``: class indices, or steps of the fine target grid; -1 for a record to leave out."""
    values = target_values(y, target)
    return values if isinstance(target, Classes) else fine_steps(values, target)


def target_values(y: Any, target: Target) -> np.ndarray:
    """The class index of each record ``(n_records,)``, -1 for one to leave out; or its number as it was given, or NaN."""
    column, what = given_column(y, "The target", "y"), f"The target {target.name!r}"
    _check_kind(what, target, column)
    if not isinstance(target, Classes):
        with np.errstate(all="ignore"):  # as for ``to_numbers``
            return to_numbers(column).astype(np.float64)
    hint = " Ensembles of scikit-learn encode labels as 0, 1, 2, ... in sorted order: declare these numbers there."
    _check_listed(what, target.labels, "labels", column, hint)
    is_arrow = not isinstance(column, np.ndarray) and column.implementation.is_pyarrow()
    if is_arrow and column.dtype.is_integer() and not column.null_count():
        column = column.to_numpy()  # an array is looked up faster
    other = -1 if target.other is None else target.labels.index(target.other)
    return to_indices(column, target.labels, other, other)


@np.errstate(all="ignore")
def fine_steps(numbers: np.ndarray, target: Bounded) -> np.ndarray:
    """The step of the fine grid of a bounded target nearest to each number, ``(n_records,)``; -1 for NaN."""
    lower, upper = target.range
    share = (np.clip(numbers, lower, upper) - lower) / target.span
    return np.where(np.isnan(numbers), -1, np.rint(np.nan_to_num(share) * FINE_STEPS)).astype(np.int32)
