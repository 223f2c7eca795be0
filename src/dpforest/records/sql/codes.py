"""Encoding by the schema, as expressions over the columns of a table in a database. Sees names and types of columns.

The expressions follow ``records.columns`` and ``records.memory.vault``: the code of a value is the same to the last one.
"""

import numbers
import sys
from collections.abc import Hashable, Sequence
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np

from dpforest.errors import TableError, shown
from dpforest.records.columns import read_columns, read_target, require_columns
from dpforest.records.sql.lookups import real, steps
from dpforest.records.sql.session import can_run
from dpforest.schema import FINE_STEPS, Bounded, Categorical, Classes, Numeric, Schema, Target
from dpforest.schema.domain import Domain, Grid

# Decimals of so many digits are within the range of 64 bits. Beyond it are those of PostgreSQL, which may have any length.
SAFE_DIGITS = 300
# Decimals beyond the first round to infinity, those below the second to 0.
LARGEST, SMALLEST = "1.7976931348623157e308", "2.4703282292062328e-324"


def check_columns(table: Any, schema: Schema) -> None:
    """Raise unless the table has the columns of the schema with types that fit, by its public types alone."""
    import pyarrow as pa

    require_columns(list(table.columns), (*schema.features, schema.target.name), "the table")
    empty = {}
    for name in (*schema.features, schema.target.name):
        dtype = table.schema()[name]
        if dtype.is_string():
            empty[name] = pa.array([], pa.string())
        elif dtype.is_numeric() or dtype.is_boolean():
            # Arrow has no decimals of any length; here one is as good as another.
            empty[name] = pa.array([], pa.decimal128(1) if dtype.is_decimal() else dtype.to_pyarrow())
        else:
            raise TableError(
                f"Column {name!r} has the type {type(dtype).__name__} in the database; columns of numbers, truth values and "
                "text can be read. Convert the column, for example in a view."
            )
    read_columns(pa.table({name: empty[name] for name in schema.features}), schema)
    read_target(pa.chunked_array([empty[schema.target.name]]), schema.target)


def check_reading(table: Any, schema: Schema, backend: Any) -> None:
    """Raise if the engine refuses to read a column as it is declared. It is asked about no row, so types alone decide.

    Ibis takes some types for numbers or text that the engine does not convert or compare as such: money, enumerations.
    """
    nobody = table.limit(0)
    codes = [*feature_codes(nobody, Domain.of(schema, Grid(bins=1))).values(), target_code(nobody, schema.target)]
    if can_run(backend, nobody.select(**{f"c{index}": code for index, code in enumerate(codes)})):
        return
    for name, code in zip((*schema.features, schema.target.name), codes, strict=True):
        if not can_run(backend, nobody.select(code=code)):
            raise TableError(
                f"The database cannot read column {name!r} as the schema declares it, because of its type there, or the "
                "connection was lost. Convert the column, for example in a view."
            )


def check_names(engine: str, schema: Schema) -> None:
    """Raise for a name that no quoting protects: Spark puts its variables in the place of ``${…}``, inside quotes too."""
    if engine != "pyspark":
        return
    listed = [part.categories for part in schema.features.values() if isinstance(part, Categorical)]
    labels = schema.target.labels if isinstance(schema.target, Classes) else ()
    for name in (*schema.features, schema.target.name, *labels, *(value for values in listed for value in values)):
        if isinstance(name, str) and "${" in name:
            raise TableError(f"Spark would replace a part of {shown(name)} in queries. Rename it, for example in a view.")


def code_type(n_codes: int) -> str:
    """The smallest type of whole numbers for codes 0 .. n_codes - 1 that engines share."""
    return "int8" if n_codes <= 128 else "int16" if n_codes <= 1 << 15 else "int32"


def feature_codes(table: Any, domain: Domain) -> dict[str, Any]:
    """The code of each feature, under short names of our own."""
    codes = {}
    for index, (name, part) in enumerate(zip(domain.names, domain.features, strict=True)):
        code = _bin(table[name], part, domain.cuts[index]) if isinstance(part, Numeric) else _category(table[name], part)
        codes[f"c{index}"] = code.cast(code_type(int(domain.n_codes[index])))
    return codes


def _to_real(column: Any) -> Any:
    """Numbers of 64 bits, infinite or 0 where they would leave the range: PostgreSQL raises an error instead."""
    dtype = column.type()
    if dtype.is_boolean():
        column = column.cast("int32")
    cast = column.cast("float64")
    if not dtype.is_decimal() or (dtype.precision or np.inf) <= SAFE_DIGITS:
        return cast
    largest, smallest = (ibis.literal(size).cast(dt.Decimal()) for size in (LARGEST, SMALLEST))
    return ibis.cases(
        (column.abs() < smallest, real(0.0)),
        (column < -largest, real(-np.inf)),
        # What is no number counts as larger than all, but has no sign.
        ((column > largest) & (column.sign() == 1), real(np.inf)),
        else_=cast,
    )


def _is_missing(column: Any) -> Any:
    return column.isnull() | column.isnan() if column.type().is_floating() else column.isnull()


def _bin(column: Any, part: Numeric, cuts: np.ndarray) -> Any:
    """How many cuts are at most the value. Cuts lie above the lower bound, not above the upper: clipping is implied."""
    inner = cuts[cuts <= part.upper]
    passed = int(np.count_nonzero(inner <= part.lower))
    if column.type().is_float32():
        # Compared as it is: 32 bits are below a cut if they are below the least number of 32 bits that is not below the cut.
        value, starts = column, [real(cut).cast("float32") for cut in _rounded_up(inner[passed:])]
    else:
        value = _to_real(column)
        starts = [real(cut) for cut in inner[passed:]]
    index = steps(value, [None, *starts], list(range(passed, len(inner) + 1)))
    return ibis.cases((_is_missing(value), len(cuts) + 1), else_=index)


def _rounded_up(numbers: np.ndarray) -> np.ndarray:
    """The least numbers of 32 bits that are not below."""
    with np.errstate(over="ignore"):
        near = numbers.astype(np.float32)
    return np.where(near < numbers, np.nextafter(near, np.float32(np.inf)), near).astype(np.float32)


def _category(column: Any, part: Categorical) -> Any:
    n_listed = len(part.categories)
    return _place(column, part.categories, n_listed, n_listed + 1)


def _place(column: Any, listed: Sequence[Hashable], other: int, missing: int) -> Any:
    """Place of each value in ``listed``, as ``columns.to_indices`` finds it."""
    null_place = next((index for index, value in enumerate(listed) if value is None), missing)
    column = column.cast("int32") if column.type().is_boolean() else column
    column = _to_real(column) if column.type().is_decimal() else column
    branches = [(column.isnull(), null_place)]
    if column.type().is_floating():
        branches.append((column.isnan(), missing))
    for index, value in enumerate(listed):
        literal = _as_literal(value, column.type())
        if literal is not None:
            branches.append((column == literal, index))
    return ibis.cases(*branches, else_=other)


def _as_literal(value: Hashable, dtype: Any) -> Any:
    """A listed value as a column of this type could hold it; None if it could not."""
    if dtype.is_string():
        return ibis.literal(value) if isinstance(value, str) and _is_storable(value) else None
    if not isinstance(value, numbers.Real) or value != value:
        return None
    if dtype.is_floating():
        close = float(value) if abs(value) <= sys.float_info.max else np.inf if value > 0 else -np.inf
        return real(close) if close == value else None
    # In the type's own range: to compare with more an engine might have to convert the column.
    if not dtype.bounds.lower <= value <= dtype.bounds.upper or int(value) != value:
        return None
    return ibis.literal(int(value), "int64" if value < 1 << 63 else "uint64")


def _is_storable(text: str) -> bool:
    """Whether a database can hold a text: no half characters, and no character 0, which ends a query."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def target_code(table: Any, target: Target) -> Any:
    """Class index, or step of the fine grid of a bounded target; -1 for a record to leave out."""
    column = table[target.name]
    if isinstance(target, Classes):
        other = -1 if target.other is None else target.labels.index(target.other)
        return _place(column, target.labels, other, other).cast(code_type(target.n_values))
    return _fine_step(_to_real(column), target)


def _fine_step(value: Any, target: Bounded) -> Any:
    """The nearest step, the even one of two that are as near: engines differ in how they round, not in how they compare."""
    low, high, width = real(target.lower), real(target.upper), float(target.upper - target.lower)
    # What lies within a quarter of a step from the lower bound counts as that: PostgreSQL raises an error where a quotient
    # is too small for 64 bits.
    nearly_low = real(target.lower + width / FINE_STEPS / 4)
    clipped = ibis.cases((value < nearly_low, low), (value > high, high), else_=value)
    scaled = (clipped - low) / real(width) * real(FINE_STEPS)
    floor = scaled.floor().cast("int64")
    rest = scaled - floor.cast("float64")
    is_up = (rest > real(0.5)) | ((rest == real(0.5)) & (floor % 2 == 1))
    step = floor + is_up.ifelse(1, 0)
    return ibis.cases((_is_missing(value), -1), else_=step).cast("int32")
