"""Rows and codes that are kept: in memory or, beyond ``MOST_HELD`` bytes, in a file without a name. Sees rows.

Such a file vanishes with the process, however that ends. What coins have selected is kept, so that no coin is ever tossed
twice for a row.
"""

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpforest.errors import TableError

# Types that pyarrow does not take rows from.
PLAIN = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
# Bytes of rows that are kept in memory.
MOST_HELD = 1 << 29


class Held:
    """Rows that are kept as they come: in memory, and beyond ``MOST_HELD`` bytes in a file without a name."""

    def __init__(self) -> None:
        self._tables: dict[int, pa.Table] = {}
        self._n_bytes, self._lock = 0, Lock()
        self._spills: list[Spill] = []

    def add(self, place: int, table: pa.Table) -> None:
        """Keep the rows of a table behind those of smaller places."""
        with self._lock:
            self._tables[place] = table
            self._n_bytes += table.nbytes
            if self._n_bytes > MOST_HELD:
                self._spill()

    def _spill(self) -> None:
        """Write what is in memory to a file, from which it is read as if it were there."""
        for place in [place for place, table in self._tables.items() if not isinstance(table, Spilled)]:
            table = self._tables[place]
            spill = next((each for each in self._spills if each.schema == table.schema), None)
            if spill is None:
                spill = Spill(table.schema)
                self._spills.append(spill)
            self._tables[place] = spill.write(table)
        self._n_bytes = 0

    def tables(self) -> tuple[list[pa.Table], bool]:
        """All rows that were added, in the order of their places, and whether they are in memory."""
        for spill in self._spills:
            spill.finish()
        tables = [table.read() if isinstance(table, Spilled) else table for _, table in sorted(self._tables.items())]
        in_memory, self._tables = not self._spills, {}
        if in_memory:
            # A question costs some time for each table. Text stays in parts: together it may be more than pyarrow can hold.
            tables = [
                each
                for schema, some in groupby(tables, key=lambda table: table.schema)
                for each in (_joined([*some]) if all(pa.types.is_primitive(field.type) for field in schema) else some)
            ]
        pa.default_memory_pool().release_unused()
        return tables, in_memory


class Spill:
    """A file without a name, in the folder for temporary files, with tables of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._file = tempfile.TemporaryFile(prefix="dpforest-")  # noqa: SIM115 - it lives as long as what is read from it
        self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), schema)
        self._n_batches = 0
        self._reader: Any = None

    def write(self, table: pa.Table) -> "Spilled":
        """Write a table; where it will be found."""
        with no_room():
            batches = table.combine_chunks().to_batches()
            for batch in batches:
                self._writer.write_batch(batch)
            self._file.flush()
        self._n_batches += len(batches)
        return Spilled(self, self._n_batches - len(batches), self._n_batches)

    def finish(self) -> None:
        """End the file, so that it can be read."""
        with no_room():
            self._writer.close()
            self._file.flush()
            content = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._reader = pa.ipc.open_file(pa.py_buffer(content))

    def read(self, first: int, end: int) -> pa.Table:
        """The rows of some batches, which stay in the file until they are looked at."""
        return pa.Table.from_batches([self._reader.get_batch(index) for index in range(first, end)], self.schema)


@dataclass(frozen=True)
class Spilled:
    """Where in a file the rows of a table are."""

    spill: Spill
    first: int
    end: int

    def read(self) -> pa.Table:
        return self.spill.read(self.first, self.end)


@contextmanager
def no_room() -> Iterator[None]:
    """Turn an error of the folder for temporary files into a ``TableError``."""
    try:
        yield
    except OSError:
        raise TableError(
            f"There is no room for the rows or codes of the table in {tempfile.gettempdir()}. What was charged stays "
            "charged. Set TMPDIR to a folder that has it."
        ) from None


def spilled_array(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of zeros that lies in a file without a name, in the folder for temporary files."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if n_bytes == 0:
        return np.empty(shape, dtype=dtype)
    with tempfile.TemporaryFile(prefix="dpforest-") as file:
        with no_room():
            # Room is taken now: a full disk later would end the process instead of raising an error.
            os.posix_fallocate(file.fileno(), 0, n_bytes) if hasattr(os, "posix_fallocate") else file.truncate(n_bytes)
        return np.asarray(np.memmap(file, dtype=dtype, mode="r+", shape=shape))


def in_plain_types(table: pa.Table) -> pa.Table:
    """The table with text by views, or values by a list of them, as plain columns, which can be taken from and written."""
    for index, field in enumerate(table.schema):
        column = table.column(index)
        if pa.types.is_dictionary(field.type):
            column = pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], field.type.value_type)
        elif pa.types.is_run_end_encoded(field.type):
            column = pa.chunked_array(map(pc.run_end_decode, column.chunks), field.type.value_type)
        plain = PLAIN.get(str(column.type), column.type)
        if plain != field.type:
            table = table.set_column(index, pa.field(field.name, plain, metadata=field.metadata), column.cast(plain))
    return table


def _joined(tables: list[pa.Table]) -> list[pa.Table]:
    """The rows of tables of numbers, of the same types, side by side in one table."""
    return [pa.concat_tables(tables).combine_chunks()]
