"""The reader of files whose columns have public types, which are read as they are. Sees rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from dpforest.records.columns import require_columns
from dpforest.records.parquet_rows import check_types
from dpforest.records.source import Asked, Part, Progress, Source, Tell, each_once, silent, telling
from dpforest.records.text import kind_of_type
from dpforest.schema import Schema


class Columns(Protocol):
    """The columns of a file, with types."""

    @property
    def path(self) -> Path: ...

    def types(self, schema: Schema | None = None) -> pa.Schema:
        """The type of each column, from the head of the file; where a file leaves a choice, the schema makes it."""
        ...

    def batches(self, types: pa.Schema, tell: Tell) -> Iterator[pa.Table]:
        """Some rows of the columns at a time, of these types."""
        ...


@dataclass(frozen=True)
class TypedTable(Source):
    """A reader of a file whose columns have types."""

    columns: Columns

    def names(self) -> list[str]:
        return each_once(list(self.columns.types().names), self.columns.path)

    def kinds(self) -> dict[str, str]:
        """The kind of each column by its type."""
        self.names()
        return {field.name: kind_of_type(field.type) for field in self.columns.types()}

    def empty(self, asked: Asked) -> Part:
        return asked.part(self._checked(asked).empty_table())

    def _checked(self, asked: Asked) -> pa.Schema:
        """The types of the columns that are asked for."""
        given, path = self.columns.types(asked.schema), str(self.columns.path)
        require_columns(list(given.names), asked.declared, path)
        require_columns(list(given.names), asked.besides, path, "that was asked for")
        types = pa.schema([given.field(name) for name in asked.columns])
        if not asked.any_type:
            check_types(types.empty_table(), asked.schema, asked.with_target, path)
        return types

    def parts(self, asked: Asked, progress: Progress = silent) -> Iterator[Part]:
        """Some rows at a time, with the types of the file; see ``Source``."""
        types, is_empty = self._checked(asked), True
        with telling(progress) as tell:
            for rows in self.columns.batches(types, tell):
                is_empty = False
                yield asked.part(rows)
        if is_empty:
            yield asked.part(types.empty_table())
