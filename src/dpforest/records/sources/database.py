"""The source of a table in a database: rows come as batches of Arrow, each value cast by the type of its column. Sees rows.

All questions to one table are asked in one read-only transaction, so they see the same rows. Nothing is written.
"""

import re
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.columns import read_columns, read_target
from dpforest.records.source import Asked, Chunk, Progress, Source, each_once, silent
from dpforest.records.sources.addresses import SECONDS_TO_CONNECT, SETTINGS, Address, check_extra, refusing, untried
from dpforest.records.sources.casts import Column, Item, is_kept, listed_in
from dpforest.records.sources.engines import Duck, Engine, Lite, Postgres
from dpforest.schema import LONGEST_TEXT, Date, Feature, Target

PART_ROWS = 1 << 17  # that are given at once
KINDS = {"": "other", "real": "number", "decimal": "number", "zoned": "time"}
DATED = ("date", "time", "zoned")
ENGINES = {"duckdb": Duck, "postgres": Postgres, "sqlite": Lite}


class DatabaseTable(Source):
    """The source of a table in a database. Its connection is opened by the first question, and kept until it is closed."""

    def __init__(self, engine: Engine, repeats: bool = True) -> None:
        self._engine, self.repeats = engine, repeats
        self._columns: list[Column] | None = None
        self._streams: list[Generator[Any, None, None]] = []

    @classmethod
    def at(cls, address: str) -> "DatabaseTable":
        """The table at an address, which is read when it is asked for."""
        check_extra()
        where = Address.parse(address)
        where.check_readable()
        return cls(ENGINES[where.engine](where))

    def names(self) -> list[str]:
        return [*self._by_name()]

    def kinds(self) -> dict[str, str]:
        """The kind of each column by its type."""
        return {name: KINDS.get(column.kind, column.kind) for name, column in self._by_name().items()}

    def _by_name(self) -> dict[str, Column]:
        if self._columns is None:
            with self._refusing():
                self._columns = self._engine.columns()
        each_once([column.name for column in self._columns], "The table")
        return {column.name: column for column in self._columns}

    def _refusing(self) -> Any:
        return refusing(self._engine.name)

    def close(self) -> None:
        # Whoever still holds a chunk that was read, such as an error, would keep the engine open, and DuckDB waits for that.
        for batches in self._streams:
            with suppress(Exception):
                batches.close()
        self._columns, self._streams = None, []
        self._engine.close()

    def empty(self, asked: Asked) -> Chunk:
        """A chunk without rows, if types alone say that what is asked for can be read; see ``Source``."""
        columns, schema = self._by_name(), asked.schema
        asked.require([*columns], "the table")
        for name in asked.declared:
            _check_type(columns[name], isinstance(schema.features.get(name), Date) and self._engine.engine != "sqlite")
        if not asked.any_type:
            read_columns(pa.table({name: columns[name].empty for name in schema.features}), schema)
            if asked.with_target:
                read_target(pa.chunked_array([columns[schema.target.name].empty]), schema.target)
        items = self._items(asked)
        return self._chunk(asked, items, self._notes(asked), [pa.array([], item.arrow) for item in items.values()])

    def chunks(self, asked: Asked, progress: Progress = silent) -> Iterator[Chunk]:
        """Some rows at a time, in an order of the engine's choice; see ``Source``. Columns are checked before the first.

        Columns ``besides`` those of the schema that hold no numbers or truth values come as text, as the engine writes it.
        """
        return self._chunks(asked, self.empty(asked), progress)

    def _items(self, asked: Asked) -> dict[str, Item]:
        """Expressions by the short names of features, f0, f1, …, the target, t0, and other columns, b0, b1, …"""
        columns, schema, longest = self._by_name(), asked.schema, _longest(asked)
        parts: list[tuple[str, str, Feature | Target]] = [
            (f"f{place}", name, part) for place, (name, part) in enumerate(schema.features.items())
        ]
        parts += [("t0", schema.target.name, schema.target)] if asked.with_target else []
        found = {short: self._engine.read(columns[name], part, longest) for short, name, part in parts}
        besides = enumerate(asked.besides)
        return found | {f"b{place}": self._engine.beside(columns[name], longest) for place, name in besides}

    def _notes(self, asked: Asked) -> dict[str, str]:
        """The types of other columns in the database, as far as texts of them can be written as these again."""
        columns = self._by_name()
        return {name: columns[name].native if is_kept(columns[name].native) else "" for name in asked.besides}

    def _chunks(self, asked: Asked, nothing: Chunk, progress: Progress) -> Iterator[Chunk]:
        items, notes = self._items(asked), self._notes(asked)
        # A batch of texts of Arrow has at most 2 GiB.
        n_rows = max(PART_ROWS * LONGEST_TEXT // _longest(asked), 1)
        progress("reading the table")
        batches = self._engine.stream(items, n_rows)
        self._streams.append(batches)
        try:
            with self._refusing():
                types = next(batches)
            if [field.type for field in types] != [item.arrow for item in items.values()]:
                raise TableError("The driver of the database gave other types than were asked for. Update it.")
            is_empty = True
            while True:
                with self._refusing():
                    batch = next(batches, None)
                if batch is None:
                    break
                if batch.num_rows:
                    is_empty = False
                    yield self._chunk(asked, items, notes, batch.columns)
            if batches not in self._streams:
                raise TableError("The table was closed while it was read, so not all rows were.")
            if is_empty:
                yield nothing
        finally:
            with suppress(Exception):  # its own words may quote a row
                batches.close()
            self._streams = [other for other in self._streams if other is not batches]

    def _chunk(self, asked: Asked, items: dict[str, Item], notes: dict[str, str], arrays: list[pa.Array]) -> Chunk:
        """Rows as a chunk; notes about other columns stand with their fields."""
        read = {name: _final(array, item) for (name, item), array in zip(items.items(), arrays, strict=True)}
        n_features = asked.schema.n_features
        features = pa.Table.from_arrays([read[f"f{place}"] for place in range(n_features)], [*asked.schema.features])
        besides, fields = [], []
        for place, name in enumerate(asked.besides):
            besides.append(read[f"b{place}"])
            fields.append(pa.field(name, read[f"b{place}"].type, metadata={self._engine.engine: notes[name]}))
        target = pa.chunked_array([read["t0"]]) if asked.with_target else None
        return Chunk(features, target, pa.Table.from_arrays(besides, schema=pa.schema(fields)))


def _final(array: pa.Array, item: Item) -> pa.Array:
    if pa.types.is_binary(array.type):  # bytes of a table without rows
        array = array.view(pa.string())
    return array if item.final is None else array.cast(item.final)


def _longest(asked: Asked) -> int:
    """The number of characters needed to tell a text from all listed ones, and from others in buckets."""
    parts = [*asked.schema.features.values(), asked.schema.target]
    texts = [value for part in parts for value in listed_in(part) if isinstance(value, str)]
    return max(LONGEST_TEXT, *map(len, texts), 0)


def _check_type(column: Column, is_date: bool) -> None:
    shown = column.native or "that nobody declared"
    if column.kind == "":
        raise TableError(
            f"Column {column.name!r} has the type {shown} in the database; columns of numbers, truth values, dates and text "
            "can be read. Convert the column, for example in a view."
        )
    if is_date and column.kind not in DATED:
        raise TableError(
            f"Column {column.name!r} is declared date, but it has the type {shown} in the database. Convert it to a date or "
            "timestamp there, for example in a view."
        )


def database_source(table: Any) -> DatabaseTable | None:
    """The source of a relation of DuckDB or a table of Ibis; None for any other object.

    A relation is asked in the connection that made it, without a transaction, so its rows may be others the next time.
    """
    duckdb, ibis = sys.modules.get("duckdb"), sys.modules.get("ibis")
    if duckdb is not None and isinstance(table, duckdb.DuckDBPyRelation):
        return DatabaseTable(Duck(None, relation=table), repeats=False)
    if ibis is None or not isinstance(table, ibis.Table):
        return None
    check_extra()
    with refusing("The database"):
        backend = table.get_backend()
        if backend.name not in ENGINES:
            raise TableError(f"{untried(repr(backend.name))} Nothing was spent.")
        text = str(backend.compile(table))
        if backend.name == "duckdb":
            backend._run_pre_execute_hooks(table)  # noqa: SLF001 - makes a table in memory known there
            return DatabaseTable(Duck(None, relation=backend.con.sql(text)), repeats=False)
        if backend.name == "postgres":
            return DatabaseTable(Postgres(_server_of(backend.con, f"({text})")))
        file = next(file for _, name, file in backend.con.execute("PRAGMA database_list") if name == "main")
    if not file:
        raise TableError("A SQLite database in memory is seen by its own connection alone. Pass a DuckDB table, or a file.")
    return DatabaseTable(Lite(Address("sqlite", f"({text})", path=file)))


def _server_of(connection: Any, query: str) -> Address:
    """Where a connection of psycopg leads to, with its settings, and where it looks for tables."""
    info, ((path,),) = connection.info, connection.execute("SHOW search_path").fetchall()
    account = {"host": info.host or "localhost", "port": info.port, "user": info.user, "password": info.password}
    account |= {key: value for key, value in info.get_parameters().items() if key in SETTINGS}
    looks = "-c search_path=" + re.sub(r"([\\\s])", r"\\\1", path)
    account |= {"connect_timeout": SECONDS_TO_CONNECT, "options": f"{account.get('options', '')} {looks}"}
    return Address("postgres", query, database=info.dbname, account=account)
