"""A stream of Arrow in this process, such as what a cursor of a driver gives. Sees rows."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dpforest.errors import TableError, shown
from dpforest.records.columns import require_columns
from dpforest.records.parquet_rows import check_types
from dpforest.records.source import Asked, Part, Progress, Source, each_once, silent
from dpforest.records.text import kind_of_type

BROKEN = "The stream of Arrow batches ended with an error, or was read before. Open it again. Charges stay."


class ArrowStream(Source):
    """A table that an object with ``__arrow_c_stream__`` gives, once; its types are those that it declares."""

    def __init__(self, table: Any) -> None:
        if not hasattr(table, "__arrow_c_stream__"):
            raise TableError(
                f"{shown(table)} is no table that can be read: it gives no batches of Arrow. Pass a table of pandas, "
                "polars, pyarrow, DuckDB, Ibis, Dask or Spark, a path, or the address of a table in a database."
            )
        try:
            self._reader = pa.RecordBatchReader.from_stream(table)
        except Exception:  # its own words may quote a row
            raise TableError(BROKEN) from None
        self._types = self._reader.schema

    def names(self) -> list[str]:
        return each_once(list(self._types.names), "the stream")

    def kinds(self) -> dict[str, str]:
        """The kind of each column by its type."""
        return {field.name: kind_of_type(field.type) for field in self._types}

    def empty(self, asked: Asked) -> Part:
        require_columns(list(self._types.names), asked.declared, "the stream")
        require_columns(list(self._types.names), asked.besides, "the stream", "that was asked for")
        table = pa.schema([self._types.field(name) for name in asked.columns]).empty_table()
        if not asked.any_type:
            check_types(table.select(asked.declared), asked.schema, asked.with_target, "the stream")
        return asked.part(table)

    def parts(self, asked: Asked, progress: Progress = silent) -> Iterator[Part]:
        nothing = self.empty(asked)
        progress("reading the table")
        reader = iter(self._reader)
        while True:
            try:
                batch = next(reader, None)
            except Exception:
                raise TableError(BROKEN) from None
            if batch is None:
                break
            yield asked.part(pa.Table.from_batches([batch]).select(asked.columns))
        yield nothing

    def close(self) -> None:
        self._reader.close()
