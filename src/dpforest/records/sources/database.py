"""The source of a table in a database: rows come as batches of Arrow, each value cast by the type of its column. Sees rows.

All questions to one table are asked in one read-only transaction, so they see the same rows. Nothing is written.
"""

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.columns import read_columns, read_target
from dpforest.records.source import Asked, Chunk, Progress, Source, each_once, silent
from dpforest.records.sources.addresses import Address, kind_of, places, refusing
from dpforest.records.sources.casts import Column, Item, as_read, beside, identifier, is_kept, listed_in
from dpforest.schema import LONGEST_TEXT, Date, Feature, Target

PART_ROWS = 1 << 17  # that are given at once
KINDS = {"": "other", "real": "number", "decimal": "number", "zoned": "time"}
DATED = ("date", "time", "zoned")
Found = TypeVar("Found")


class DatabaseTable(Source):
    """A table in a database, or a query there. Its connection is opened by the first question, and kept until it is closed.

    Attributes
    ----------
    engine
        As Ibis calls it.
    name
        The file or server, as it may be shown.
    names_of_tables
        A query for the tables that the account may see.
    """

    engine: str
    name: str
    names_of_tables: str
    repeats = True
    _connection: Any = None
    _columns: list[Column] | None = None

    def __init__(self, where: Address) -> None:
        self._where, self.name = where, where.place
        self._streams: list[Generator[Any, None, None]] = []

    @abstractmethod
    def _asked_columns(self) -> list[Column]:
        """The columns by their types, in the order of the table; no row is read."""

    @abstractmethod
    def _stream(self, items: Sequence[Item], n_rows: int) -> Generator[Any, None, None]:
        """The types of a query about the table, then its rows."""

    def _read(self, column: Column, part: Feature | Target, longest: int) -> Item:
        """The expression of a column that the schema declares."""
        return as_read(column, part, self.engine, longest)

    def _beside(self, column: Column, longest: int) -> Item:
        """The expression of another column."""
        return beside(column, self.engine, longest)

    def names(self) -> list[str]:
        return [*self._by_name()]

    def kinds(self) -> dict[str, str]:
        """The kind of each column by its type."""
        return {name: KINDS.get(column.kind, column.kind) for name, column in self._by_name().items()}

    def _by_name(self) -> dict[str, Column]:
        if self._columns is None:
            with refusing(self.name):
                self._columns = self._asked_columns()
        each_once([column.name for column in self._columns], "The table")
        return {column.name: column for column in self._columns}

    def close(self) -> None:
        # Whoever still holds a chunk that was read, such as an error, would keep the engine open, and DuckDB waits for that.
        for batches in self._streams:
            with suppress(Exception):
                batches.close()
        self._columns, self._streams = None, []
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None

    def empty(self, asked: Asked) -> Chunk:
        """A chunk without rows, if types alone say that what is asked for can be read; see ``Source``."""
        columns, schema = self._by_name(), asked.schema
        asked.require([*columns], "the table")
        for name in asked.declared:
            _check_type(columns[name], isinstance(schema.features.get(name), Date) and self.engine != "sqlite")
        if not asked.any_type:
            read_columns(pa.table({name: columns[name].empty for name in schema.features}), schema)
            if asked.with_target:
                read_target(pa.chunked_array([columns[schema.target.name].empty]), schema.target)
        items = self._items(asked)
        return self._chunk(asked, items, [pa.array([], item.arrow) for item in items])

    def chunks(self, asked: Asked, progress: Progress = silent) -> Iterator[Chunk]:
        """Some rows at a time, in an order of the engine's choice; see ``Source``. Columns are checked before the first.

        Columns ``besides`` those of the schema that hold no numbers or truth values come as text, as the engine writes it.
        """
        return self._chunks(asked, self.empty(asked), progress)

    def _chunks(self, asked: Asked, nothing: Chunk, progress: Progress) -> Iterator[Chunk]:
        items, is_empty = self._items(asked), True
        # A batch of texts of Arrow has at most 2 GiB.
        n_rows = max(PART_ROWS * LONGEST_TEXT // _longest(asked), 1)
        progress("reading the table")
        batches = self._refused(items, n_rows)
        self._streams.append(batches)
        try:
            types = next(batches)
            if [field.type for field in types] != [item.arrow for item in items]:
                raise TableError("The driver of the database gave other types than were asked for. Update it.")
            for batch in batches:
                if batch.num_rows:
                    is_empty = False
                    yield self._chunk(asked, items, batch.columns)
            if batches not in self._streams:
                raise TableError("The table was closed while it was read, so not all rows were.")
            if is_empty:
                yield nothing
        finally:
            with suppress(Exception):  # its own words may quote a row
                batches.close()
            self._streams = [other for other in self._streams if other is not batches]

    def _refused(self, items: Sequence[Item], n_rows: int) -> Generator[Any, None, None]:
        """As ``_stream``; raises ``TableError`` in words of this library."""
        with refusing(self.name):
            yield from self._stream(items, n_rows)

    def _items(self, asked: Asked) -> list[Item]:
        """Expressions of the features, of the target and of other columns, with notes about the types of these.

        A note is the type in the database, as far as texts of it can be written as that type again.
        """
        columns, schema, longest = self._by_name(), asked.schema, _longest(asked)
        items = [self._read(columns[name], feature, longest) for name, feature in schema.features.items()]
        items += [self._read(columns[schema.target.name], schema.target, longest)] if asked.with_target else []
        for column in (columns[name] for name in asked.besides):
            note = column.native if is_kept(column.native) else ""
            items.append(replace(self._beside(column, longest), note=note))
        return items

    def _chunk(self, asked: Asked, items: list[Item], arrays: list[pa.Array]) -> Chunk:
        """Rows as a chunk; notes about other columns stand with their fields."""
        read = [_final(array, item) for array, item in zip(arrays, items, strict=True)]
        n_features = asked.schema.n_features
        features = pa.Table.from_arrays(read[:n_features], [*asked.schema.features])
        target = pa.chunked_array([read[n_features]]) if asked.with_target else None
        n_others = len(asked.besides)
        others = read[len(read) - n_others :]
        fields = [
            pa.field(name, array.type, metadata={self.engine: item.note})
            for name, array, item in zip(asked.besides, others, items[len(items) - n_others :], strict=True)
        ]
        return Chunk(features, target, pa.Table.from_arrays(others, schema=pa.schema(fields)))

    def _found(self, ask: Callable[[str], Found]) -> Found:
        """What ``ask`` gives for the text that stands for the table behind FROM; raises ``TableError`` if there is none."""

        def there() -> list[str]:
            return [name for (name,) in self._all(self.names_of_tables)]

        where = self._where
        with refusing(self.name, "" if where.is_query else where.table, there):
            if where.is_query:
                return ask(f"{where.table.rstrip()[:-1]}\n) AS asked")  # a comment may end the query
            *others, last = [".".join(map(identifier, place)) for place in places(where.table)]
            for place in others:
                try:
                    return ask(place)
                except Exception as error:
                    if kind_of(error) != "table":
                        raise
            return ask(last)

    def _all(self, query: str, fetch: Callable[[Any], Any] = lambda cursor: cursor.fetchall()) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return list(fetch(cursor))

    def _names_of(self, query: str) -> list[str]:
        return self._all(query, lambda cursor: cursor.fetch_arrow_table().schema.names)


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
