"""Parquet files that need not fit in memory. Sees rows; what leaves is sealed."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import dataset

from dpforest.domain import Domain
from dpforest.errors import TableError
from dpforest.privacy.sealed import Sealed
from dpforest.progress import Step
from dpforest.records.columns import read_columns, read_target
from dpforest.records.memory import Shards, refuse_copy
from dpforest.records.people import People, read_ids
from dpforest.records.text import text_to_numbers
from dpforest.records.vault import Vault, encode
from dpforest.records.workers import Workers
from dpforest.rows import Rows
from dpforest.schema import Schema

# Rows that are read and encoded at once.
BATCH_ROWS = 1 << 17


class ParquetVault:
    """The rows of a Parquet file or folder, read a batch at a time and encoded once to a file that has no name.

    Counting then passes over the codes of that file: one byte a value, of which the operating system keeps in memory what it
    has room for. The file vanishes with the process, however that ends.

    Privacy: as ``Vault``; records have the same codes in the same order, so answers are the same to the last unit.
    """

    def __init__(
        self,
        table: dataset.Dataset,
        schema: Schema,
        workers: Workers,
        id_column: str | None = None,
        people: People | None = None,
    ) -> None:
        self.schema = schema
        self._id_column, self._people = id_column, people
        self._table = table
        self._workers = workers
        self._target: np.ndarray | None = None

    @classmethod
    def seal(
        cls, path: str | Path, schema: Schema, n_jobs: int = 1, groups: Any = None, people: People | None = None
    ) -> "ParquetVault":
        """Check columns and types, which are taken as public; no row is read. ``groups`` names the column of ids."""
        try:
            table = dataset.dataset(path, format="parquet")
            given = table.schema.names
        except (OSError, pa.ArrowException):
            raise TableError(f"{path} cannot be read as a Parquet file or folder.") from None
        wanted = [*schema.features, schema.target.name]
        missing = [name for name in wanted if name not in given]
        if missing:
            raise TableError(f"Column {missing[0]!r} of the schema is missing from {path}; it has {', '.join(given)}.")
        if people is not None:
            _check_id_column(groups, table, schema)
        vault = cls(table, schema, Workers(n_jobs), groups, people)
        read_columns(vault._empty(), schema)
        target = pa.schema([table.schema.field(schema.target.name)]).empty_table()
        read_target(text_to_numbers(target, schema).column(0), schema.target)
        return vault

    def _empty(self) -> pa.Table:
        """The features, without a row."""
        fields = [self._table.schema.field(name) for name in self.schema.features]
        return text_to_numbers(pa.schema(fields).empty_table(), self.schema)

    def count(self) -> Sealed[np.ndarray]:
        """The sealed number of records, shape ``(1,)``."""
        return Sealed(self.tally())

    def tally(self) -> np.ndarray:
        """The same, plain: for workers of a cluster, where numbers are added up before they are sealed."""
        return np.array([np.count_nonzero(self._target_codes() >= 0)])

    def encode(self, domain: Domain, progress: Callable[[str], None] = lambda step: None) -> Shards:
        """Records as codes, those that the target leaves out dropped."""
        target_codes = self._target_codes()
        kept = target_codes >= 0
        n_kept, n_rows = int(np.count_nonzero(kept)), len(kept)
        codes = _spilled((domain.n_features, n_kept), domain.dtype)
        n_read = n_written = 0
        for batch in self._batches(list(self.schema.features)):
            own = encode(read_columns(batch, self.schema), domain, self._workers)
            stays = kept[n_read : n_read + batch.num_rows]
            own = own if stays.all() else own[:, stays]
            codes[:, n_written : n_written + own.shape[1]] = own
            n_read, n_written = n_read + batch.num_rows, n_written + own.shape[1]
            progress(Step("rows encoded", n_read, n_rows, "rows"))
        pa.default_memory_pool().release_unused()  # what batches took is of no more use
        target_codes = target_codes if n_kept == n_rows else target_codes[kept]
        return Shards(codes, target_codes, domain, self.schema.target, self._workers)

    def rows(self) -> Sealed[Rows]:
        """The sealed rows, for printed algorithms that open them: these must fit in memory."""
        table = pa.concat_tables([self._empty(), *self._batches(list(self.schema.features))])
        return Vault(read_columns(table, self.schema), self._target_codes(), self.schema, self._workers).rows()

    def _target_codes(self) -> np.ndarray:
        if self._target is None:
            name, target = self.schema.target.name, self.schema.target
            parts = [read_target(batch.column(0), target) for batch in self._batches([name])]
            codes = np.concatenate(parts) if parts else np.empty(0, dtype=np.int16)
            if self._people is not None and self._id_column is not None and len(codes):
                ids = pa.chunked_array(
                    [chunk for batch in self._batches([self._id_column]) for chunk in batch.column(0).chunks]
                )
                codes = self._people.leave_out(read_ids(ids), codes)
            self._target = codes
        return self._target

    def _batches(self, names: list[str]) -> Iterator[pa.Table]:
        try:
            # Row group after row group: a scanner of the whole table would decode many of them ahead.
            for file in self._table.get_fragments():
                for group in file.split_by_row_group():
                    scanner = group.scanner(self._table.schema, columns=names, batch_size=BATCH_ROWS, batch_readahead=1)
                    for batch in scanner.to_batches():
                        if batch.num_rows:
                            table = pa.Table.from_batches([batch])
                            # Ids are no feature of the schema: whoever is "1" is not "1.0".
                            yield table if names == [self._id_column] else text_to_numbers(table, self.schema)
        except (OSError, pa.ArrowException):
            # The reader's own message could quote what it stumbled over.
            raise TableError("The Parquet file is damaged, or was changed while it was read.") from None

    def close(self) -> None:
        """Nothing is left behind: what it holds goes with it."""

    def __repr__(self) -> str:
        return "ParquetVault(...)"

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = refuse_copy


def _check_id_column(name: Any, table: dataset.Dataset, schema: Schema) -> None:
    """Raise unless a column of this name can hold ids of persons."""
    if not isinstance(name, str):
        raise TableError("With a file, groups is the name of its column of ids.")
    if name not in table.schema.names:
        raise TableError(f"Column {name!r}, named by groups, is missing; the file has {', '.join(table.schema.names)}.")
    if name in schema.features or name == schema.target.name:
        raise TableError(f"Column {name!r}, named by groups, is in the schema; an id of a person is no feature.")
    read_ids(pa.schema([table.schema.field(name)]).empty_table().column(0))


def _spilled(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array in a file without a name, in the folder for temporary files."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if n_bytes == 0:
        return np.empty(shape, dtype=dtype)
    with tempfile.TemporaryFile(prefix="dpforest-") as file:
        try:
            # Room is taken now: a full disk later would end the process instead of raising an error.
            os.posix_fallocate(file.fileno(), 0, n_bytes) if hasattr(os, "posix_fallocate") else file.truncate(n_bytes)
        except OSError:
            raise TableError(
                f"There is no room for one byte a value in {tempfile.gettempdir()}. Set TMPDIR to a folder that has it."
            ) from None
        return np.asarray(np.memmap(file, dtype=dtype, mode="r+", shape=shape))
