"""Encoding by the schema, as expressions over the columns of a table in a database. Sees names and types of columns only.

Every value has the same code as in ``records.columns`` and ``records.memory.vault``.
"""

import numbers
import sys
from collections.abc import Hashable, Sequence
from typing import Any

import ibis
import numpy as np

from dpforest.errors import TableError, shown
from dpforest.records.columns import read_columns, read_target, require_columns
from dpforest.records.sql.dates import bin_starts, in_utc, part_of_date
from dpforest.records.sql.lookups import real, steps
from dpforest.records.sql.numbers import is_missing, to_real
from dpforest.records.sql.session import can_run
from dpforest.records.sql.texts import bucket_of, text_of
from dpforest.schema import FINE_STEPS, Bounded, Categorical, Classes, Date, Numeric, Schema, Target
from dpforest.schema.domain import MOST_TABLED, Domain, Grid


def check_columns(table: Any, schema: Schema) -> None:
    """Raise ``TableError`` unless the table has the columns of the schema with types that fit; no row is read."""
    import pyarrow as pa

    require_columns(list(table.columns), (*schema.features, schema.target.name), "the table")
    empty = {}
    for name in (*schema.features, schema.target.name):
        dtype = table.schema()[name]
        if dtype.is_string():
            empty[name] = pa.array([], pa.string())
        elif dtype.is_date() or dtype.is_timestamp():
            empty[name] = pa.array([], pa.date32() if dtype.is_date() else pa.timestamp("us"))
        elif dtype.is_numeric() or dtype.is_boolean():
            # Arrow has no decimals of unlimited length; for this check any decimal will do.
            empty[name] = pa.array([], pa.decimal128(1) if dtype.is_decimal() else dtype.to_pyarrow())
        else:
            raise TableError(
                f"Column {name!r} has the type {type(dtype).__name__} in the database; columns of numbers, truth values, "
                "dates and text can be read. Convert the column, for example in a view."
            )
    read_columns(pa.table({name: empty[name] for name in schema.features}), schema)
    read_target(pa.chunked_array([empty[schema.target.name]]), schema.target)


def check_reading(table: Any, schema: Schema, backend: Any) -> None:
    """Raise ``TableError`` if the engine refuses to read a column as it is declared.

    The query is about no row, so types alone decide.

    Ibis takes some types for numbers or text that the engine does not convert or compare as such: money, enumerations.
    """
    nobody = table.limit(0)
    domain = Domain.of(schema, Grid(bins=1))
    codes = [*feature_codes(nobody, domain).values(), target_code(nobody, schema.target)]
    if can_run(backend, nobody.select(**{f"c{index}": code for index, code in enumerate(codes)})):
        return
    names = [domain.column_names[each.column] for each in domain.derived]
    for name, code in zip((*names, schema.target.name), codes, strict=True):
        if not can_run(backend, nobody.select(code=code)):
            raise TableError(
                f"The database cannot read column {name!r} as the schema declares it, because of its type there, or the "
                "connection was lost. Convert the column, for example in a view."
            )


def check_names(engine: str, schema: Schema) -> None:
    """Raise ``TableError`` for a name or label with ``${…}`` on Spark, which replaces it by a variable even in quotes."""
    if engine != "pyspark":
        return
    listed = [part.categories for part in schema.features.values() if isinstance(part, Categorical)]
    labels = schema.target.labels if isinstance(schema.target, Classes) else ()
    for name in (*schema.features, schema.target.name, *labels, *(value for values in listed for value in values)):
        if isinstance(name, str) and "${" in name:
            raise TableError(f"Spark would replace a part of {shown(name)} in queries. Rename it, for example in a view.")


def check_lists(schema: Schema) -> None:
    """Raise ``TableError`` for a list of categories that no query can hold."""
    for name, part in schema.features.items():
        if isinstance(part, Categorical) and part.n_values > MOST_TABLED - 2:
            raise TableError(
                f"Column {name!r} has a list of {part.n_values} categories; in a database the most is {MOST_TABLED - 2}. "
                "Give the table as a file or in memory, or leave out the list: Categorical()."
            )


def code_type(n_codes: int) -> str:
    """The name of the smallest type of integers for codes 0 .. n_codes - 1 that all engines have."""
    return "int8" if n_codes <= 128 else "int16" if n_codes <= 1 << 15 else "int32"


def feature_codes(table: Any, domain: Domain) -> dict[str, Any]:
    """An expression for the code of each feature, under the names c0, c1, …"""
    codes = {}
    for index, each in enumerate(domain.derived):
        column, part = table[domain.column_names[each.column]], each.part
        value = part_of_date(in_utc(column), each.of) if each.of != "value" else column
        if not isinstance(part, Categorical):
            code = _bin(value, part, domain.cuts[index])
        elif each.of == "weekday":
            code = ibis.cases((value.isnull(), part.n_values + 1), else_=value)
        else:
            code = _category(value, part)
        codes[f"c{index}"] = code.cast(code_type(int(domain.n_codes[index])))
    return codes


def _bin(column: Any, part: Numeric | Date, cuts: np.ndarray) -> Any:
    """The code of a numeric value: how many cuts are at most it, or that for missing.

    Values need not be clipped: cuts at or below the lower bound are always passed, those above the upper one never.
    """
    lower, upper = part.range
    inner = cuts[cuts <= upper]
    passed = int(np.count_nonzero(inner <= lower))
    if isinstance(part, Date):
        value, (passed, starts) = column, bin_starts(column, part, inner)
    elif column.type().is_float32():
        # Compared without conversion: a float of 32 bits is below a cut if it is below the least such float that is not.
        value, starts = column, [real(cut).cast("float32") for cut in _rounded_up(inner[passed:])]
    else:
        value = to_real(column)
        starts = [real(cut) for cut in inner[passed:]]
    index = steps(value, [None, *starts], list(range(passed, passed + len(starts) + 1)))
    return ibis.cases((is_missing(value), len(cuts) + 1), else_=index)


def _rounded_up(numbers: np.ndarray) -> np.ndarray:
    """For each number the least float of 32 bits that is not below it."""
    with np.errstate(over="ignore"):
        near = numbers.astype(np.float32)
    return np.where(near < numbers, np.nextafter(near, np.float32(np.inf)), near).astype(np.float32)


def _category(column: Any, part: Categorical) -> Any:
    other, missing = part.n_values, part.n_values + 1
    if not part.by_text:
        return _index(column, part.categories, other, missing)
    text = text_of(column)
    code = _index(text, part.categories, other, other) if part.categories else bucket_of(text, part.n_values)
    value = to_real(column) if column.type().is_decimal() else column  # decimals of PostgreSQL may be NaN
    return ibis.cases((is_missing(value), missing), (text.isnull(), other), else_=code)


def _index(column: Any, listed: Sequence[Hashable], other: int, missing: int) -> Any:
    """The index of each value in ``listed``, as ``columns.to_indices`` finds it."""
    null_index = next((index for index, value in enumerate(listed) if value is None), missing)
    column = column.cast("int32") if column.type().is_boolean() else column
    column = to_real(column) if column.type().is_decimal() else column
    branches = [(column.isnull(), null_index)]
    if column.type().is_floating():
        branches.append((column.isnan(), missing))
    for index, value in enumerate(listed):
        literal = _as_literal(value, column.type())
        if literal is not None:
            branches.append((column == literal, index))
    return ibis.cases(*branches, else_=other)


def _as_literal(value: Hashable, dtype: Any) -> Any:
    """A listed value as a literal of a column's type; None if such a column cannot hold it."""
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
    """Whether a database can hold a text: one without single surrogates, and without character 0, which ends a query."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def target_code(table: Any, target: Target) -> Any:
    """An expression for the class index, or for the step of a bounded target on its fine grid; -1 for a row to leave out."""
    column = table[target.name]
    if isinstance(target, Classes):
        other = -1 if target.other is None else target.labels.index(target.other)
        return _index(column, target.labels, other, other).cast(code_type(target.n_values))
    return _fine_step(to_real(column), target)


def target_bin(table: Any, target: Bounded, edges: np.ndarray) -> Any:
    """An expression for the number of edges that are at most the value of a bounded target; -1 for a row to leave out."""
    value = to_real(table[target.name])
    index = steps(value, [None, *map(real, edges)], list(range(len(edges) + 1)))
    return ibis.cases((is_missing(value), -1), else_=index).cast("int32")


def _fine_step(value: Any, target: Bounded) -> Any:
    """The step of the fine grid nearest to a value, the even one of two that are equally near; -1 where it is missing.

    Engines differ in how they round, so it is made of comparisons, in which they agree.
    """
    (lower, upper), width = target.range, target.span
    low, high = real(lower), real(upper)
    # A value within a quarter of a step of the lower bound is replaced by the bound: PostgreSQL raises an error where a
    # quotient is too small for 64 bits.
    nearly_low = real(lower + width / FINE_STEPS / 4)
    clipped = ibis.cases((value < nearly_low, low), (value > high, high), else_=value)
    scaled = (clipped - low) / real(width) * real(FINE_STEPS)
    floor = scaled.floor().cast("int64")
    rest = scaled - floor.cast("float64")
    is_up = (rest > real(0.5)) | ((rest == real(0.5)) & (floor % 2 == 1))
    step = floor + is_up.ifelse(1, 0)
    return ibis.cases((is_missing(value), -1), else_=step).cast("int32")
