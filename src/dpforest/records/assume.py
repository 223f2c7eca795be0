"""A schema that is read off the rows, for the explicit opt-in ``schema="assume-public"``. Sees rows.

Bounds, categories and classes read here are exact facts about the records. They are not private; the statement of a model
that was fitted this way says so.
"""

from datetime import date
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from dpforest.errors import TableError
from dpforest.records.columns import column_kind, is_missing, read_values, to_numbers
from dpforest.records.dates import NO_DATE, to_seconds
from dpforest.schema import SECONDS_OF_DAY, Bounded, Categorical, Classes, Date, Feature, Numeric, Schema
from dpforest.schema.grid import LAST_SECOND


def assume_public(X: Any, y: Any, *, classes: bool) -> tuple[Any, Schema]:
    """The table, checked as scikit-learn checks it, and a schema with the bounds, categories and classes of its values."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        named = {str(name): frame.get_column(name) for name in frame.columns}
        if len(frame) == 0:
            raise TableError("Found array with 0 sample(s) while a minimum of 1 is required to read a schema off it.")
    else:
        X = check_array(X, dtype=None, ensure_all_finite=False)
        named = {f"x{index}": column for index, column in enumerate(X.T)}
    features = {name: _feature(name, column) for name, column in named.items()}
    check_consistent_length(X, y)
    if classes:
        check_classification_targets(y)
        return X, Schema(features, Classes(tuple(np.unique(column_or_1d(y)).tolist())), source="assume-public")
    values = check_array(column_or_1d(y), dtype=np.float64, ensure_2d=False, input_name="y")
    return X, Schema(features, Bounded(*_apart(float(values.min()), float(values.max()))), source="assume-public")


def _feature(name: str, column: Any) -> Feature:
    kind, _ = column_kind(column)
    if kind == "date" or (kind == "mixed" and _holds_dates(column)):
        return _date(to_seconds(column))
    values = column if isinstance(column, np.ndarray) else np.asarray(column.to_list(), dtype=object)
    if kind in ("text", "category") and not isinstance(column, np.ndarray):
        return _categorical(values)
    try:
        numbers = to_numbers(column) if kind == "number" else values.astype(np.float64)
    except ValueError:
        return _categorical(values)
    if np.isinf(numbers).any():
        raise TableError(f"Input X contains infinity in column {name!r}.")
    known = numbers[~np.isnan(numbers)]
    lower, upper = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    if isinstance(column, np.ndarray):
        return Numeric(*_apart(lower, upper), integer=column.dtype.kind in "biu")
    is_whole = kind == "number" and (column.dtype.is_integer() or column.dtype == nw.Boolean)
    return Numeric(*_apart(lower, upper), integer=is_whole)


def _holds_dates(column: Any) -> bool:
    """Whether a column without a type has dates and nothing else but missing values; text is taken as categories."""
    values = [value for value in read_values(column) if not is_missing(value)]
    return bool(values) and all(isinstance(value, date | np.datetime64) for value in values)


def _date(seconds: np.ndarray) -> Date:
    """A date with the first and the last second as bounds, which are at least a day apart."""
    known = seconds[seconds != NO_DATE]
    if not len(known):
        return Date()
    lower = min(int(known.min()), LAST_SECOND - SECONDS_OF_DAY)
    upper = max(int(known.max()), lower + SECONDS_OF_DAY)
    has_time = bool((known % SECONDS_OF_DAY).any())
    return Date(str(np.datetime64(lower, "s")), str(np.datetime64(upper, "s")), time=has_time)


def _categorical(values: np.ndarray) -> Categorical:
    listed = {value for value in values.tolist() if not is_missing(value)}
    return Categorical(tuple(sorted(listed, key=str)) or ("missing",))


def _apart(lower: float, upper: float) -> tuple[float, float]:
    """Two bounds, the upper one raised if both are equal: a column may hold one value only."""
    return lower, upper if upper > lower else lower + max(1.0, abs(lower) / 1024)
