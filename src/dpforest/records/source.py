"""A table, wherever it is, that gives its rows as batches of Arrow. Sees rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dpforest.common.work import in_parts
from dpforest.errors import TableError
from dpforest.records.columns import read_columns, read_target, require_columns
from dpforest.records.text import kind_of_type
from dpforest.schema import Schema

Progress = Callable[[str], None]
Tell = Callable[[float], None]  # is told which share of a table was read
# Types that pyarrow does not take rows from.
PLAIN_TYPES = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}


def silent(step: str) -> None:
    """Show no progress."""


@contextmanager
def telling(progress: Progress) -> Iterator[Tell]:
    """A function that shows how much of a table was read, always in the same steps."""
    progress("reading the table")
    show = in_parts("reading the table", 1, progress)
    yield show
    show(1)


class Chunk(NamedTuple):
    """Some rows of a table."""

    features: pa.Table  # the columns of the schema, as the schema reads them
    target: pa.ChunkedArray | None
    besides: pa.Table  # other columns that were asked for, as they are: ids of rows or persons


@dataclass(frozen=True)
class Asked:
    """What is asked of a table: the columns of a schema, with the target or without, and others ``besides``.

    Types of a typed table must be those that the schema declares, unless ``any_type`` is set.
    """

    schema: Schema
    with_target: bool = False
    besides: Sequence[str] = ()
    any_type: bool = False

    @property
    def declared(self) -> list[str]:
        """The names of the columns that the schema declares."""
        return [*self.schema.features, *([self.schema.target.name] if self.with_target else [])]

    @property
    def columns(self) -> list[str]:
        """The names of all columns, each once."""
        return list(dict.fromkeys([*self.declared, *self.besides]))

    def require(self, given: list[str], where: str) -> None:
        """Raise ``TableError`` unless the columns that are asked for are among the given ones, each once."""
        require_columns(given, self.declared, where)
        require_columns(given, self.besides, where, "that was asked for")

    def checked(self, given: pa.Schema, where: str) -> pa.Schema:
        """The types of the columns that are asked for; raises ``TableError`` unless they can hold what is declared."""
        self.require(given.names, where)
        types = pa.schema([given.field(name) for name in self.columns])
        if not self.any_type:
            check_types(types, self.schema, self.with_target, where)
        return types

    def table(self, chunk: Chunk) -> pa.Table:
        """All columns of a chunk as one table; none of ``besides`` may be a column of the schema."""
        table = (
            chunk.features if chunk.target is None else chunk.features.append_column(self.schema.target.name, chunk.target)
        )
        for field, column in zip(chunk.besides.schema, chunk.besides.columns, strict=True):
            table = table.append_column(field, column)
        return table

    def chunk(self, table: pa.Table) -> Chunk:
        """The columns of a table as a chunk; those of ``besides`` are as they are in it.

        Notes that a file has with its columns are left out: the library's own could be forged.
        """
        table = pa.Table.from_arrays(table.columns, table.column_names)
        target = table.column(self.schema.target.name) if self.with_target else None
        return Chunk(table.select([*self.schema.features]), target, table.select(list(self.besides)))


class Source(ABC):
    """A table, wherever it is; what it says of itself is public.

    Tables of text (CSV, workbooks, JSON lines) have no types: the schema says what a cell is, so that a stray value can
    never turn a file into an error. ``typed`` tables have public types, and are read as they are.
    """

    typed: bool = True
    repeats: bool = False  # whether the same rows can be read again, in some order; else they are read once and kept

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns, which are public; no row is looked at. Raises ``TableError`` if two are the same."""

    def public_names(self) -> list[str] | None:
        """The names of the columns; None if only records have them."""
        return self.names()

    @abstractmethod
    def kinds(self) -> dict[str, str]:
        """The kind of each column for a draft: "number", "whole", "text", "truth", "date", "time" or "other".

        A table of text does not say: there it is a guess from its first rows, which a person checks.
        """

    def guessed(self) -> list[str]:
        """The names of the columns whose kinds are a guess."""
        return []

    @abstractmethod
    def empty(self, asked: Asked) -> Chunk:
        """A chunk without rows; raises ``TableError`` unless the table has the columns and types that are asked for."""

    @abstractmethod
    def chunks(self, asked: Asked, progress: Progress = silent) -> Iterator[Chunk]:
        """Some rows at a time, which were checked; a table without rows gives one chunk without rows."""

    def close(self) -> None:  # noqa: B027 - a file is open only while it is read
        """End a connection, if there is one."""


class Typed(Source):
    """A table of typed columns, which gives batches of Arrow."""

    where: str  # what it is called in errors

    @abstractmethod
    def types(self, schema: Schema | None = None) -> pa.Schema:
        """The type of each column, from the head of a file; where that leaves a choice, the schema makes it."""

    @abstractmethod
    def batches(self, types: pa.Schema, tell: Tell) -> Iterator[pa.Table]:
        """Some rows at a time of the columns of these types."""

    def names(self) -> list[str]:
        return each_once(list(self.types().names), self.where)

    def kinds(self) -> dict[str, str]:
        self.names()
        return {field.name: kind_of_type(field.type) for field in self.types()}

    def empty(self, asked: Asked) -> Chunk:
        return asked.chunk(asked.checked(self.types(asked.schema), self.where).empty_table())

    def chunks(self, asked: Asked, progress: Progress = silent) -> Iterator[Chunk]:
        types, is_empty = asked.checked(self.types(asked.schema), self.where), True
        with telling(progress) as tell:
            for rows in self.batches(types, tell):
                is_empty = False
                yield asked.chunk(rows)
        if is_empty:
            yield asked.chunk(types.empty_table())


def check_types(types: pa.Schema, schema: Schema, with_target: bool, where: str) -> None:
    """Raise ``TableError`` unless columns of these types can hold what the schema declares."""
    empty = types.empty_table()
    try:
        read_columns(empty.select([*schema.features]), schema)
        if with_target:
            read_target(empty.column(schema.target.name), schema.target)
    except TableError as error:
        raise TableError(f"{where}: {error}") from None


def in_plain_types(table: pa.Table) -> pa.Table:
    """The table with text by views, or values by a list of them, as plain columns, which can be taken from and written."""
    for index, field in enumerate(table.schema):
        column = table.column(index)
        if pa.types.is_dictionary(field.type):
            column = pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], field.type.value_type)
        elif pa.types.is_run_end_encoded(field.type):
            column = pa.chunked_array(map(pc.run_end_decode, column.chunks), field.type.value_type)
        plain = PLAIN_TYPES.get(str(column.type), column.type)
        if plain != field.type:
            table = table.set_column(index, pa.field(field.name, plain, metadata=field.metadata), column.cast(plain))
    return table


def joined(chunks: Iterable[Chunk]) -> Chunk:
    """All rows of a table as one chunk."""
    features, targets, besides = zip(*chunks, strict=True)
    arrays = [array for each in targets if each is not None for array in each.chunks]
    target = None if targets[0] is None else pa.chunked_array(arrays, targets[0].type)
    return Chunk(pa.concat_tables(features), target, pa.concat_tables(besides))


def each_once(names: list[str], where: object) -> list[str]:
    """The names of columns; raises ``TableError`` if two are the same."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TableError(f"{where} has two columns called {twice!r}. Rename one of them.")
    return names
