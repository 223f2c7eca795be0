"""The reader of files whose columns have public types, which are read as they are. Sees rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import pyarrow as pa

from dpforest.records.columns import require_columns
from dpforest.records.guess import kind_of_type
from dpforest.records.parquet_rows import check_types
from dpforest.records.reader import Part, Progress, each_once, silent, taken_apart, wanted_columns
from dpforest.schema import Schema


class Columns(Protocol):
    """The columns of a file, with types."""

    @property
    def path(self) -> Path: ...

    def types(self, schema: Schema | None = None) -> pa.Schema:
        """The type of each column, from the head of the file; where a file leaves a choice, the schema makes it."""
        ...

    def batches(self, types: pa.Schema, progress: Progress) -> Iterator[pa.Table]:
        """Some rows of the columns at a time, of these types."""
        ...


@dataclass(frozen=True)
class TypedTable:
    """A reader of a file whose columns have types."""

    columns: Columns
    typed: ClassVar[bool] = True

    def names(self) -> list[str]:
        return each_once(list(self.columns.types().names), self.columns.path)

    def kinds(self) -> dict[str, str]:
        """The kind of each column by its type."""
        self.names()
        return {field.name: kind_of_type(field.type) for field in self.columns.types()}

    def guessed(self) -> list[str]:
        return []

    def parts(
        self,
        schema: Schema,
        *,
        with_target: bool = False,
        besides: Sequence[str] = (),
        any_type: bool = False,
        progress: Progress = silent,
    ) -> Iterator[Part]:
        """Some rows at a time, with the types of the file; see ``Reader``."""
        given, path = self.columns.types(schema), str(self.columns.path)
        require_columns(list(given.names), wanted_columns(schema, with_target), path)
        require_columns(list(given.names), besides, path, "that was asked for")
        types = pa.schema([given.field(name) for name in wanted_columns(schema, with_target, besides)])
        if not any_type:
            check_types(types.empty_table(), schema, with_target, path)
        is_empty = True
        for rows in self.columns.batches(types, progress):
            is_empty = False
            yield taken_apart(rows, schema, with_target, besides)
        if is_empty:
            yield taken_apart(types.empty_table(), schema, with_target, besides)
