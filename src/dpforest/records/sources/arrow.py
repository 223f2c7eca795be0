"""Feather and Arrow files, and streams of Arrow batches. Sees rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpforest.errors import TableError, shown
from dpforest.records.source import Tell, Typed
from dpforest.schema import Schema

ARROW = (".feather", ".arrow", ".ipc", ".arrows")


# Texts, and what has the same layout whatever its bytes are.
AS_BYTES = {
    pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view(),
}  # fmt: skip


class ArrowFile(Typed):
    """A file of Arrow, or a stream written to one, with its declared types."""

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, str(path)

    def types(self, schema: Schema | None = None) -> pa.Schema:
        with self._opened() as (reader, _):
            return reader.schema

    def batches(self, types: pa.Schema, tell: Tell) -> Iterator[pa.Table]:
        with self._opened() as (reader, file):
            n_bytes = self.path.stat().st_size
            is_file = isinstance(reader, pa.ipc.RecordBatchFileReader)
            for batch in map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader:
                batch.validate()  # that arrays lie within the file; texts may be no UTF-8
                for column in batch.columns:
                    _check_places(column)
                yield pa.Table.from_batches([batch]).select(types.names)
                tell(file.tell() / n_bytes)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, pa.NativeFile]]:
        if not self.path.is_file():
            raise TableError(f"There is no file {self.path}.")
        try:
            with pa.memory_map(str(self.path)) as file:
                try:
                    reader = pa.ipc.open_file(file)
                except pa.ArrowInvalid:
                    file.seek(0)
                    reader = pa.ipc.open_stream(file)
                with reader:
                    yield reader, file
        except (OSError, pa.ArrowException):  # whose own message could quote values
            raise TableError(
                f"{self.path} cannot be read as a file of Arrow (Feather): it is damaged, or of version 1."
            ) from None


def _check_places(column: pa.Array) -> None:
    """Raise unless a column has its values where it says: to read another place could end the process."""
    if pa.types.is_dictionary(column.type):
        pa.DictionaryArray.from_arrays(column.indices, column.dictionary)  # which compares indices with their number
        _check_places(column.dictionary)
    elif column.type in AS_BYTES:
        column.view(AS_BYTES[column.type]).validate(full=True)


BROKEN = "The stream of Arrow batches ended with an error, or was read before. Open it again. Charges stay."


class ArrowStream(Typed):
    """An object with ``__arrow_c_stream__``, read once, with the types that it declares."""

    where = "the stream"

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

    def types(self, schema: Schema | None = None) -> pa.Schema:
        return self._types

    def batches(self, types: pa.Schema, tell: Tell) -> Iterator[pa.Table]:
        try:
            for batch in self._reader:
                yield pa.Table.from_batches([batch]).select(types.names)
        except Exception:
            raise TableError(BROKEN) from None

    def close(self) -> None:
        self._reader.close()
