"""The reader of a table in a database: streams rows as batches of Arrow. Sees rows.

Every value is turned, in the database and by its type alone, into one that Arrow has and that is read as ``codes`` reads the
column there: decimals as floats, enumerations as their labels, points in time in UTC and within the years 1 .. 9999. So no
single value can make the reading fail, and records have the codes that ``fit_table`` gives them.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

import ibis
import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.columns import require_columns
from dpforest.records.guess import kinds_of_folders
from dpforest.records.source import Asked, Part, Progress, silent
from dpforest.records.sql.addresses import ENGINES, Address, open_table
from dpforest.records.sql.codes import check_columns, check_reading, empty_columns
from dpforest.records.sql.dates import check_dates, in_utc
from dpforest.records.sql.folders import folder_texts
from dpforest.records.sql.numbers import is_missing, to_real
from dpforest.records.sql.session import Session, refusing
from dpforest.records.sql.streams import check_encoding, stream, types_in
from dpforest.records.sql.texts import text_of
from dpforest.schema import LONGEST_TEXT, Categorical, Classes, Feature, Schema, Target

LOST = "The database could not answer a query, or the connection was lost."


@dataclass(frozen=True)
class DatabaseTable:
    """A reader of the table at an address. Each of its questions has a connection of its own, which is closed at the end."""

    address: str
    table: Any = None  # of Ibis, in the place of an address
    typed: ClassVar[bool] = True
    repeats: ClassVar[bool] = False

    def names(self) -> list[str]:
        return list(self._types())

    def kinds(self) -> dict[str, str]:
        """The kind of each column by its type; of one that folders stand for a guess from their names."""
        by_type = {name: _kind(dtype) for name, dtype in self._types().items()}
        return by_type | kinds_of_folders(self._folder_texts())

    def guessed(self) -> list[str]:
        """The columns that folders of Parquet files stand for."""
        return [*self._folder_texts()]

    def _folder_texts(self) -> dict[str, pa.ChunkedArray]:
        where = None if self.table is not None else Address.parse(self.address)
        return folder_texts(where.path) if where is not None and where.is_parquet else {}

    def _types(self) -> dict[str, Any]:
        table = self._opened(())
        self._disconnect(table)
        return dict(table.schema().items())

    def _opened(self, columns: Iterable[str], schema: Schema | None = None) -> Any:
        if self.table is None:
            return open_table(self.address, columns, schema)
        engine = self.table.get_backend().name
        if engine not in ENGINES.values():
            raise TableError(
                f"Tables of Ibis are read from DuckDB and PostgreSQL, not from {engine!r}, on which it was not tried that one "
                "record decides nothing. Read the rows into Arrow and pass these, or a Parquet file. Nothing was spent."
            )
        return self.table

    def _disconnect(self, table: Any) -> None:
        if self.table is None:
            table.get_backend().disconnect()

    def close(self) -> None:
        """Do nothing: each question has a connection of its own."""

    def check(self, asked: Asked) -> None:
        table = self._opened(asked.columns, asked.schema)
        try:
            self._check(table, asked)
        finally:
            self._disconnect(table)

    def _check(self, table: Any, asked: Asked) -> None:
        require_columns(list(table.columns), asked.besides, "the table", "that was asked for")
        if asked.any_type:
            empty_columns(table, asked.declared)
        else:
            check_columns(table, asked.schema, asked.with_target)
        check_dates(table.get_backend().name, table, asked.schema)
        check_encoding(table.get_backend())

    def parts(self, asked: Asked, progress: Progress = silent) -> Iterator[Part]:
        """Some rows at a time, in an order of the engine's choice; see ``Source``. Columns are checked before the first.

        What Arrow has no type for among the columns ``besides`` those of the schema comes as text, as the engine writes it.
        """
        schema = asked.schema
        table = self._opened(asked.columns, schema)
        session = None
        try:
            self._check(table, asked)
            session = Session(table.get_backend(), temporary=False)
            if not asked.any_type:
                check_reading(table, schema, session, asked.with_target)
        except TableError:
            _close(table, session)
            raise
        return _parts(_Chosen(table, asked), session, progress)


def _close(table: Any, session: Session | None) -> None:
    if session is not None:
        session.close()
    table.get_backend().disconnect()


def _kind(dtype: Any) -> str:
    tests = {"is_integer": "whole", "is_boolean": "truth", "is_numeric": "number", "is_string": "text", "is_date": "date"}
    tests["is_timestamp"] = "time"
    return next((kind for test, kind in tests.items() if getattr(dtype, test)()), "other")


@dataclass(frozen=True)
class _Chosen:
    """What is asked of a table of Ibis, column by column under short names."""

    table: Any
    asked: Asked

    def values(self) -> dict[str, Any]:
        """Expressions by the short names of features, f0, f1, …, the target, t0, and other columns, b0, b1, …"""
        features = enumerate(self.asked.schema.features.items())
        found = {f"f{index}": _as_read(self.table[name], part) for index, (name, part) in features}
        if self.asked.with_target:
            found["t0"] = _as_read(self.table[self.asked.schema.target.name], self.asked.schema.target)
        return found | {f"b{index}": self.table[name] for index, name in enumerate(self.asked.besides)}

    @property
    def longest(self) -> int:
        """The number of characters that tell a text from all that are listed, and from others in buckets."""
        schema = self.asked.schema
        parts = [each.categories for each in schema.features.values() if isinstance(each, Categorical)]
        listed = [*parts, schema.target.labels if isinstance(schema.target, Classes) else ()]
        return max(LONGEST_TEXT, *(len(value) for values in listed for value in values if isinstance(value, str)), 0)

    def part(self, rows: pa.Table, types: Mapping[str, str]) -> Part:
        """Rows by short names as a part; the types of other columns in the database are noted with their fields."""
        engine = self.table.get_backend().name
        features = rows.select([f"f{index}" for index in range(self.asked.schema.n_features)])
        fields = [
            pa.field(name, rows.schema.field(f"b{index}").type, metadata={engine: types[f"b{index}"]})
            for index, name in enumerate(self.asked.besides)
        ]
        return Part(
            features.rename_columns([*self.asked.schema.features]),
            rows.column("t0") if self.asked.with_target else None,
            pa.Table.from_arrays([rows.column(f"b{index}") for index in range(len(fields))], schema=pa.schema(fields)),
        )


def _parts(chosen: _Chosen, session: Session, progress: Progress) -> Iterator[Part]:
    try:
        with refusing(LOST):
            columns = chosen.table.select(**chosen.values())
            text = str(session.backend.compile(columns))
            types = types_in(session.backend, text)
        read = {name: _arrow_type(name, dtype) for name, dtype in columns.schema().items()}
        progress("reading the table")
        with closing(stream(session.backend, text, read, chosen.longest)) as batches:
            while True:
                with refusing(LOST):
                    rows = next(batches, None)
                if rows is None:
                    break
                yield chosen.part(rows, types)
    finally:
        _close(chosen.table, session)


def _as_read(column: Any, part: Feature | Target) -> Any:
    """An expression for a column in a type that Arrow has, whose values are read as those of the column."""
    dtype = column.type()
    if dtype.is_date() or dtype.is_timestamp():
        return in_utc(column)
    if not dtype.is_decimal():
        return column
    return _by_text(column) if isinstance(part, Categorical) and part.by_text else to_real(column)


def _by_text(column: Any) -> Any:
    """Decimals that have the text of the column's, whole numbers of 64 bits; one half for those that have no text."""
    text = text_of(column)
    whole = text.cast("decimal(21, 1)")
    return ibis.cases(
        (is_missing(to_real(column)), ibis.null(whole.type())),
        (text.isnull(), ibis.literal("0.5").cast(whole.type())),
        else_=whole,
    )


def _arrow_type(name: str, dtype: Any) -> pa.DataType:
    """The type that a column is fetched in: text for what is not surely in the range of another, such as endless dates."""
    if name.startswith("b") and not (dtype.is_integer() or dtype.is_floating() or dtype.is_boolean()):
        return pa.string()
    return dtype.to_pyarrow()
