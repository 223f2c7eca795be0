"""Encoding by the schema, as queries about a table in a database. Sees names and types of columns only.

Ibis reads numbers, texts and dates out of columns of any name and type; what becomes of these is text of this package.

Every value has the same code as in ``records.columns`` and ``records.memory.vault``.
"""

import numbers
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import ibis
import numpy as np

from dpforest.errors import TableError, shown
from dpforest.records.columns import read_columns, read_target, require_columns
from dpforest.records.sql.dates import bin_starts, in_utc, part_of_date
from dpforest.records.sql.expressions import READERS, cases, cast, exact, quoted, real, single, steps
from dpforest.records.sql.keys import found_by_key
from dpforest.records.sql.numbers import is_missing, known, to_real
from dpforest.records.sql.numbers import real as literal
from dpforest.records.sql.session import Session, listed
from dpforest.records.sql.texts import bucket_of, text_of
from dpforest.schema import FINE_STEPS, Bounded, Categorical, Classes, Date, Numeric, Schema, Target
from dpforest.schema.domain import MOST_TABLED, Domain, Grid, too_long

# Lists of more values than this are joined: the time of a comparison with each would grow with the list.
LONG_LIST = 16


def check_columns(table: Any, schema: Schema, with_target: bool = True) -> None:
    """Raise ``TableError`` unless the table has the columns of the schema with types that fit; no row is read."""
    import pyarrow as pa

    empty = empty_columns(table, [*schema.features, *([schema.target.name] if with_target else [])])
    read_columns(pa.table({name: empty[name] for name in schema.features}), schema)
    if with_target:
        read_target(pa.chunked_array([empty[schema.target.name]]), schema.target)


def empty_columns(table: Any, names: Sequence[str]) -> dict[str, Any]:
    """Arrays of Arrow without values, for columns of types that can be read; raises ``TableError`` for others."""
    import pyarrow as pa

    require_columns(list(table.columns), names, "the table")
    empty = {}
    for name in names:
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
    return empty


def check_reading(table: Any, schema: Schema, session: Session, with_target: bool = True) -> None:
    """Raise ``TableError`` if the engine refuses to read a column as it is declared.

    The query is about no row, so types alone decide.

    Ibis takes some types for numbers or text that the engine does not convert or compare as such, like money.
    """
    nobody = table.limit(0)
    domain = Domain.of(schema, Grid(bins=1))
    engine = session.backend.name
    names = [domain.column_names[each.column] for each in domain.derived]
    codes = feature_codes(nobody, domain, engine)
    if with_target:
        codes["y"] = target_code(nobody, schema.target, engine)
        names.append(schema.target.name)
    if _can_read(nobody, codes, session):
        return
    for name, (column, code) in zip(names, codes.items(), strict=True):
        if not _can_read(nobody, {column: code}, session):
            raise TableError(
                f"The database cannot read column {name!r} as the schema declares it, because of its type there, or the "
                "connection was lost. Convert the column, for example in a view."
            )
    raise TableError(
        "The database cannot read all columns of the schema at once, though it can read each: there may be too many, or the "
        "connection was lost. Use fewer columns, or fit a file of the table."
    )


def _can_read(table: Any, codes: "Mapping[str, Coded]", session: Session) -> bool:
    """Whether the engine accepts a query for the codes of a table without rows."""
    try:
        query = Codes(table, codes, session)
        session.fetch(query.select, query.source)
    except Exception:  # of Ibis, or of the engine
        return False
    return True


def check_names(engine: str, schema: Schema) -> None:
    """Raise ``TableError`` for a name or label with ``${…}`` on Spark, which replaces it by a variable even in quotes."""
    if engine != "pyspark":
        return
    listed = [part.categories for part in schema.features.values() if isinstance(part, Categorical)]
    labels = schema.target.labels if isinstance(schema.target, Classes) else ()
    for name in (*schema.features, schema.target.name, *labels, *(value for values in listed for value in values)):
        if isinstance(name, str) and "${" in name:
            raise TableError(f"Spark would replace a part of {shown(name)} in queries. Rename it, for example in a view.")


def check_lists(engine: str, schema: Schema) -> None:
    """Raise ``TableError`` for a list that no query can hold, or that an engine is not known to learn by characters."""
    if schema.learnt and engine not in READERS:
        raise TableError(
            f"Column {schema.learnt[0]!r} is declared Categorical(learn=True), and lists are learnt in DuckDB and "
            f"PostgreSQL only, not in {engine!r}, which may take texts for the same that are not, and name them all after "
            "one record. List the categories, if they are public, or fit a Parquet file of the table."
        )
    if name := too_long(schema):
        raise TableError(
            f"The list of categories of column {name!r} is too long: in a database the most is {MOST_TABLED - 2}. Give the "
            "table as a file or in memory, or leave out the list: Categorical()."
        )


def code_type(n_codes: int, engine: str) -> str:
    """The name of the smallest type of integers that an engine has for codes 0 .. n_codes - 1."""
    smallest = "TINYINT" if engine == "duckdb" else "SMALLINT"
    return smallest if n_codes <= 128 else "SMALLINT" if n_codes <= 1 << 15 else "INTEGER"


@dataclass(frozen=True)
class Coded:
    """How the values of a column become codes: what is read of it, and an expression over that.

    ``values`` are expressions of Ibis by the names that they get, and ``code`` is SQL over these names. ``stages`` are
    columns that follow from these, and from one another: those of a stage may name those of the stages before it. Long lists
    are joined: ``joined`` has, by the name of the column that the index in a list will be in, the expression that is
    compared with it, and the list: literals with their indices. No two of these are equal, so no record is found twice.
    """

    values: dict[str, Any]
    code: str
    stages: tuple[dict[str, str], ...] = ()
    joined: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)


class Codes:
    """The codes of some columns as a query, which is compiled as far as names and types of the table decide."""

    def __init__(self, table: Any, coded: Mapping[str, Coded], session: Session) -> None:
        self._coded = coded
        values = {name: value for each in coded.values() for name, value in each.values.items()}
        self.source = session.compiled(table.select(**values))

    @property
    def select(self) -> str:
        """A query about ``source`` for the codes."""
        columns = ", ".join(f"{each.code} AS {name}" for name, each in self._coded.items())
        joins, source = "", self.source.name
        for stage in zip_longest(*(each.stages for each in self._coded.values()), fillvalue={}):
            found = {name: text for each in stage for name, text in each.items()}
            source = f"(SELECT *, {listed((), found)} FROM {source} AS rows)"
        for each in self._coded.values():
            for index, (value, indices) in each.joined.items():
                listed_values = f"UNNEST(ARRAY[{', '.join(indices)}]) AS listed"
                numbers_of = f"UNNEST(ARRAY[{', '.join(map(str, indices.values()))}]) AS {index}"
                joins += f" LEFT JOIN (SELECT {listed_values}, {numbers_of}) AS l_{index} ON {value} = l_{index}.listed"
        return f"SELECT {columns} FROM {source} AS rows{joins}"


def feature_codes(table: Any, domain: Domain, engine: str) -> dict[str, Coded]:
    """The codes of each feature, under the names c0, c1, …"""
    codes = {}
    for index, each in enumerate(domain.derived):
        column, part, value = table[domain.column_names[each.column]], each.part, f"v{index}"
        read = part_of_date(in_utc(column), each.of) if each.of != "value" else column
        if not isinstance(part, Categorical):
            coded = _binned(value, read, part, domain.cuts[index], engine)
        elif each.of == "weekday":
            coded = Coded({value: read}, f"COALESCE({value}, {part.n_values + 1})")
        else:
            coded = _category(value, read, part, engine)
        codes[f"c{index}"] = replace(coded, code=cast(coded.code, code_type(int(domain.n_codes[index]), engine)))
    return codes


def _binned(name: str, column: Any, part: Numeric | Date, cuts: np.ndarray, engine: str) -> Coded:
    """The code of a numeric value: how many cuts are at most it, or that for missing.

    Values need not be clipped: cuts at or below the lower bound are always passed, those above the upper one never.
    """
    lower, upper = part.range
    inner = cuts[cuts <= upper]
    passed = int(np.count_nonzero(inner <= lower))
    if isinstance(part, Date):
        value, (passed, starts) = column, bin_starts(column.type(), part, inner)
    elif engine == "duckdb":
        index, stages = found_by_key(name, inner[passed:])
        code = cases((f"{name} IS NULL", str(len(cuts) + 1)), otherwise=f"{passed} + {index}")
        return Coded({name: known(to_real(column))}, code, stages)
    elif column.type().is_float32():
        # Compared without conversion: a float of 32 bits is below a cut if it is below the least such float that is not.
        value, starts = known(column), [single(cut) for cut in _rounded_up(inner[passed:])]
    else:
        value, starts = known(to_real(column)), [real(cut) for cut in inner[passed:]]
    index = steps(name, ["", *starts], [str(code) for code in range(passed, passed + len(starts) + 1)])
    return Coded({name: value}, cases((f"{name} IS NULL", str(len(cuts) + 1)), otherwise=index))


def _rounded_up(numbers: np.ndarray) -> np.ndarray:
    """For each number the least float of 32 bits that is not below it."""
    with np.errstate(over="ignore"):
        near = numbers.astype(np.float32)
    return np.where(near < numbers, np.nextafter(near, np.float32(np.inf)), near).astype(np.float32)


def _category(name: str, column: Any, part: Categorical, engine: str) -> Coded:
    other, missing = part.n_values, part.n_values + 1
    if not part.by_text:
        return _index(name, column, part.categories, other, missing, engine)
    text = text_of(column)
    if part.categories:
        coded = _index(name, text, part.categories, other, other, engine)
    else:
        coded = Coded({name: bucket_of(text, part.n_values)}, f"COALESCE({name}, {other})")
    if column.type().is_string():
        return replace(coded, code=cases((f"{name} IS NULL", str(missing)), otherwise=coded.code))
    # Numbers may have no text and yet not be missing.
    value = to_real(column) if column.type().is_decimal() else column  # decimals of PostgreSQL may be NaN
    is_absent = {f"m_{name}": is_missing(value).cast("int32")}
    return replace(coded, values=coded.values | is_absent, code=cases((f"m_{name} = 1", str(missing)), otherwise=coded.code))


def _index(name: str, column: Any, listed: Sequence[Hashable], other: int, missing: int, engine: str) -> Coded:
    """The index of each value in ``listed``, as ``columns.to_indices`` finds it."""
    null_index = next((index for index, value in enumerate(listed) if value is None), missing)
    column = column.cast("int32") if column.type().is_boolean() else column
    column = to_real(column) if column.type().is_decimal() else column
    values, branches = {name: known(column)}, [(f"{name} IS NULL", str(null_index))]
    if column.type().is_floating() and null_index != missing:
        values[f"m_{name}"] = column.isnan().fill_null(False).cast("int32")
        branches.insert(0, (f"m_{name} = 1", str(missing)))
    indices: dict[str, int] = {}
    for index, value in enumerate(listed):
        literal = _as_literal(value, column.type(), engine)
        if literal is not None:
            indices.setdefault(literal, index)
    compared = exact(name, engine) if column.type().is_string() else name
    if len(indices) > LONG_LIST and engine in READERS:
        code = cases(*branches, otherwise=f"COALESCE(i_{name}, {other})")
        return Coded(values, code, joined={f"i_{name}": (compared, indices)})
    found = [(f"{compared} = {literal}", str(index)) for literal, index in indices.items()]
    return Coded(values, cases(*branches, *found, otherwise=str(other)))


def _as_literal(value: Hashable, dtype: Any, engine: str) -> str | None:
    """A listed value as a literal of a column's type; None if such a column cannot hold it.

    Values that are equal in such a column have the same literal.
    """
    if dtype.is_string():
        return quoted(value, engine) if isinstance(value, str) and _is_storable(value) else None
    if not isinstance(value, numbers.Real) or value != value:
        return None
    if dtype.is_floating():
        close = float(value) if abs(value) <= sys.float_info.max else np.inf if value > 0 else -np.inf
        return real(close + 0.0) if close == value else None  # 0 has a single sign
    # In the type's own range: to compare with more an engine might have to convert the column.
    if not dtype.bounds.lower <= value <= dtype.bounds.upper or int(value) != value:
        return None
    return str(int(value))


def _is_storable(text: str) -> bool:
    """Whether a database can hold a text: one without single surrogates, and without character 0, which ends a query."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def target_code(table: Any, target: Target, engine: str) -> Coded:
    """The class index, or the step of a bounded target on its fine grid; -1 for a row to leave out."""
    column = table[target.name]
    if isinstance(target, Bounded):
        return Coded({"vt": _fine_step(to_real(column), target)}, "vt")
    other = -1 if target.other is None else target.labels.index(target.other)
    coded = _index("vt", column, target.labels, other, other, engine)
    return replace(coded, code=cast(coded.code, code_type(target.n_values, engine)))


def target_bin(table: Any, target: Bounded, edges: np.ndarray) -> Coded:
    """The number of edges that are at most the value of a bounded target; -1 for a row to leave out."""
    index = steps("vt", ["", *map(real, edges)], [str(index) for index in range(len(edges) + 1)])
    return Coded({"vt": known(to_real(table[target.name]))}, cases(("vt IS NULL", "-1"), otherwise=index))


def _fine_step(value: Any, target: Bounded) -> Any:
    """The step of the fine grid nearest to a value, the even one of two that are equally near; -1 where it is missing.

    Engines differ in how they round, so it is made of comparisons, in which they agree.
    """
    (lower, upper), width = target.range, target.span
    low, high = literal(lower), literal(upper)
    # A value within a quarter of a step of the lower bound is replaced by the bound: PostgreSQL raises an error where a
    # quotient is too small for 64 bits.
    nearly_low = literal(lower + width / FINE_STEPS / 4)
    clipped = ibis.cases((value < nearly_low, low), (value > high, high), else_=value)
    scaled = (clipped - low) / literal(width) * literal(FINE_STEPS)
    floor = scaled.floor().cast("int64")
    rest = scaled - floor.cast("float64")
    is_up = (rest > literal(0.5)) | ((rest == literal(0.5)) & (floor % 2 == 1))
    step = floor + is_up.ifelse(1, 0)
    return ibis.cases((is_missing(value), -1), else_=step).cast("int32")
