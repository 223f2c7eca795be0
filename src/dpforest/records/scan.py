"""Rows that can be passed over again and again, in the same order: in Parquet files, or kept. Sees rows.

What is kept is in memory or, beyond ``MOST_HELD`` bytes, in a file without a name, which vanishes with the process, however
that ends. What coins have selected is kept, so that no coin is ever tossed twice for a row.
"""

import mmap
import os
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from dpforest.common.work import Workers
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.batch import Batch, Wanted
from dpforest.records.coins import draw_kept
from dpforest.records.counter import Guarded
from dpforest.records.source import Asked, Progress, Source, in_plain_types, telling
from dpforest.records.sources.parquet import DAMAGED, File, check_unchanged, row_groups

T = TypeVar("T")
# What is done with a batch, by threads that it may divide its work among; and where results go, in any order, one at a time,
# each with the place of the first row.
Work = Callable[[Batch, Workers], T]
Receive = Callable[[int, T], None]
# The number of rows that are read at once, and the bytes of rows that are kept in memory.
BATCH_ROWS, MOST_HELD = 1 << 17, 1 << 29
CHANGED = (
    "The table was changed while a forest was trained on it: it came with other rows than before. What was charged stays "
    "charged. Train on a table that stays as it is, such as a copy."
)


class Pieces:
    """The rows of tables of Arrow, or of row groups of Parquet files, one piece after the other.

    ``in_memory`` says whether rows are there already, so that their codes may be, too.
    """

    def __init__(
        self,
        rows: Iterable[File | pa.Table],
        in_memory: bool,
        progress: Progress,
        files: list[File] | None = None,
        path: Any = None,
    ) -> None:
        self._pieces: list[tuple[int, int, Any]] = []  # the place of the first row, how many, and the rows
        self.n_rows = 0
        for each in rows:
            n_rows = each.n_rows if isinstance(each, File) else each.num_rows  # of a row group as the file declares it
            if n_rows:
                self._pieces.append((self.n_rows, n_rows, each))
            self.n_rows += n_rows
        self._files, self._path, self.progress = files or [], path, progress
        self.in_memory = in_memory
        self._values: dict[int, np.ndarray] = {}  # targets of rows in memory, by the place of the first

    @classmethod
    def of_files(cls, files: list[File], path: str | Path, progress: Progress) -> "Pieces":
        """The rows of Parquet files. Several passes match rows by their place, so the files must not change."""
        return cls(row_groups(files), False, progress, files, path)

    def each(self, wanted: Wanted, work: Work[T], receive: Receive[T], workers: Workers) -> None:
        """Call ``work`` for each batch, and ``receive`` with each result."""
        lock = Lock()

        def pass_on(first: int, table: pa.Table, own: Workers) -> None:
            batch = Batch.of(table, wanted, self._values.get(first))
            found = work(batch, own)
            if self.in_memory:
                self._values[first] = batch.values
            with lock:
                receive(first, found)

        self._each_table(wanted.names, pass_on, workers)

    def taken(self, wanted: Wanted, rows: np.ndarray, workers: Workers) -> "Pieces":
        """Some rows, by increasing index, which are kept; ids only if they are wanted."""
        held = Held()

        def take(first: int, table: pa.Table, own: Workers) -> None:
            start, end = np.searchsorted(rows, [first, first + table.num_rows])
            if end > start:
                held.add(first, chosen(table, rows[start:end] - first))

        self._each_table(wanted.names, take, workers)
        return held.pieces(self.progress)

    def _each_table(self, names: list[str], work: Callable[[int, pa.Table, Workers], None], workers: Workers) -> None:
        """Call ``work`` for each table of some columns, in any order, by several threads at once.

        A thread reads one piece after the other. Where there are fewer pieces than threads these are read in turn, and
        threads divide what is done with a batch.
        """
        is_divided = len(self._pieces) >= workers.n_jobs
        reading, within = (workers, Workers()) if is_divided else (Workers(), workers)
        lock, n_done = Lock(), 0

        def read(thread: int, item: int) -> None:
            nonlocal n_done
            first, n_left, rows = self._pieces[item]
            is_table = isinstance(rows, pa.Table)
            for table in [rows.select(names)] if is_table else rows.batches(names, BATCH_ROWS, not is_divided):
                n_left -= table.num_rows
                if n_left < 0:
                    break
                work(first, table, within)
                first += table.num_rows
                with lock:
                    n_done += table.num_rows
                    tell(n_done / self.n_rows)
            if n_left:
                raise TableError(DAMAGED)

        check_unchanged(self._files, self._path)
        with telling(self.progress) as tell:
            reading.share(read, len(self._pieces))
        check_unchanged(self._files, self._path)


Scan = Batch | Pieces


class Elsewhere(Guarded):
    """Rows that are not here. A few questions are answered where they are; for all others they are fetched once and kept.

    Privacy: coins are tossed for each row once, for what is kept. Sums do not depend on the order of rows.
    """

    counts: bool  # whether the number of its rows can be asked for before they are kept
    works: bool  # whether every question can be asked where the rows are

    @abstractmethod
    def each(self, wanted: Wanted, work: Work[T], receive: Receive[T], workers: Workers) -> None:
        """As ``Pieces.each``; results come in the order of the rows."""

    @abstractmethod
    def kept(self, wanted: Wanted, share: Fraction | None = None, entropy: Entropy | None = None) -> Pieces:
        """The rows that a secret sample keeps, each with the probability ``share``; all rows without one."""

    def close(self) -> None:
        """End a connection, if there is one."""


class Stream(Elsewhere):
    """The rows of a source, in batches; coins are drawn for each row as it comes, by the entropy of the fit."""

    works = False

    def __init__(self, source: Source, progress: Progress) -> None:
        self._source, self._progress = source, progress
        self.counts = source.repeats
        self._n_rows: int | None = None  # as they were read before

    def each(self, wanted: Wanted, work: Work[T], receive: Receive[T], workers: Workers) -> None:
        for first, table in self._tables(wanted):
            receive(first, work(Batch.of(table, wanted), workers))

    def kept(self, wanted: Wanted, share: Fraction | None = None, entropy: Entropy | None = None) -> Pieces:
        held = Held()
        for first, table in self._tables(wanted):
            if table.num_rows:
                rows = None if share is None or entropy is None else draw_kept(table.num_rows, share, entropy)
                held.add(first, chosen(table, rows))
        return held.pieces(self._progress)

    def _tables(self, wanted: Wanted) -> Iterator[tuple[int, pa.Table]]:
        """Tables of the wanted columns, each with the place of its first row."""
        schema, names = wanted.schema, [*wanted.features] or [next(iter(wanted.schema.features))]
        some = replace(schema, features={name: schema.features[name] for name in names})
        asked = Asked(some, with_target=True, besides=() if wanted.ids is None else (wanted.ids,))
        first = 0
        for part in self._source.chunks(asked, self._progress):
            yield first, asked.table(part)
            first += part.features.num_rows
        if self._n_rows not in (None, first):
            raise TableError(CHANGED)
        self._n_rows = first

    def close(self) -> None:
        self._source.close()


class Held:
    """Rows that are kept as they come: in memory, and beyond ``MOST_HELD`` bytes in a file without a name."""

    def __init__(self) -> None:
        self._tables: dict[int, Any] = {}  # by place: tables, or slices of the file where they are
        self._n_bytes, self._lock = 0, Lock()
        self._file: Any = None

    def add(self, place: int, table: pa.Table) -> None:
        """Keep the rows of a table behind those of smaller places."""
        with self._lock:
            self._tables[place] = table
            self._n_bytes += table.nbytes
            if self._n_bytes > MOST_HELD:
                self._spill()

    def _spill(self) -> None:
        """Write what is in memory to the file, from which it is read as if it were there."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dpforest-")  # noqa: SIM115 - it lives as long as what is read from it
        with _room():
            for place, table in self._tables.items():
                if isinstance(table, pa.Table):
                    begin = self._file.tell()
                    with pa.ipc.new_stream(self._file, table.schema) as writer:
                        writer.write_table(table.combine_chunks())
                    self._tables[place] = slice(begin, self._file.tell())
        self._n_bytes = 0

    def pieces(self, progress: Progress) -> Pieces:
        """All rows that were added, in the order of their places."""
        tables, in_memory = [table for _, table in sorted(self._tables.items())], self._file is None
        if in_memory:
            # A question costs some time for each table. Text stays in parts: together it may be more than pyarrow can hold.
            tables = [
                each
                for schema, some in groupby(tables, key=lambda table: table.schema)
                for each in (_joined([*some]) if all(pa.types.is_primitive(field.type) for field in schema) else some)
            ]
        else:
            with _room():
                self._file.flush()
                content = pa.py_buffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))
            # Rows stay in the file until they are looked at.
            tables = [pa.ipc.open_stream(content[own]).read_all() if isinstance(own, slice) else own for own in tables]
        self._tables = {}
        pa.default_memory_pool().release_unused()
        return Pieces(tables, in_memory, progress)


def _joined(tables: list[pa.Table]) -> list[pa.Table]:
    """The rows of tables of numbers, of the same types, side by side in one table."""
    return [pa.concat_tables(tables).combine_chunks()]


def chosen(table: pa.Table, rows: np.ndarray | None) -> pa.Table:
    """Some rows of a table, by index, or all of them, in types that can be kept."""
    plain = in_plain_types(table)
    if rows is None or len(rows) == len(plain):
        return plain
    batches = plain.to_batches()
    if len(batches) != 1:
        return plain.take(pa.array(rows))
    return pa.Table.from_batches([batches[0].take(pa.array(rows))])  # faster than of a table


@contextmanager
def _room() -> Iterator[None]:
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
        with _room():
            # Room is taken now: a full disk later would end the process instead of raising an error.
            os.posix_fallocate(file.fileno(), 0, n_bytes) if hasattr(os, "posix_fallocate") else file.truncate(n_bytes)
        return np.asarray(np.memmap(file, dtype=dtype, mode="r+", shape=shape))
