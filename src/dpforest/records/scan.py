"""Rows that can be passed over again and again, in the same order: in memory, in Parquet files, or kept. Sees rows.

What is kept is in memory or, beyond ``MOST_HELD`` bytes, in a file without a name, which vanishes with the process, however
that ends. What coins have selected is kept, so that no coin is ever tossed twice for a row.
"""

import mmap
import os
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from dpforest.records.categories import PLACES, Places
from dpforest.records.coins import draw_kept
from dpforest.records.columns import check_length, read_columns, target_values
from dpforest.records.counter import Guarded
from dpforest.records.encoding import taken
from dpforest.records.people import ids_beside, read_ids
from dpforest.records.source import Asked, Progress, Source, in_plain_types, telling
from dpforest.records.sources.arrow import DAMAGED, File, check_unchanged, row_groups
from dpforest.schema import Schema


@dataclass(frozen=True)
class Wanted:
    """The columns of a table that a question is about; the target is always among them."""

    schema: Schema
    features: Collection[str]  # names, of those of the schema
    ids: str | None = None  # the column of ids of persons, if these are asked for

    @classmethod
    def all_of(cls, schema: Schema, ids: str | None = None) -> "Wanted":
        """All columns of a schema, and perhaps one of ids."""
        return cls(schema, [*schema.features], ids)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [*self.features, self.schema.target.name, *([] if self.ids is None else [self.ids])]


@dataclass(frozen=True, repr=False)
class Batch:
    """Some rows: ``columns`` in the order of the schema, None for those that were not asked for."""

    columns: list[Any]  # arrays or series
    values: np.ndarray  # (n_rows,) class indices, -1 for a row to leave out; or a bounded target, NaN for one to leave out
    ids: Any = None

    @property
    def n_rows(self) -> int:
        return len(self.values)

    @classmethod
    def given(cls, X: Any, y: Any, schema: Schema, groups: Any) -> "Batch":
        """A table in memory and its target; raises unless columns and types are those that the schema declares."""
        columns, values = read_columns(X, schema), target_values(y, schema.target)
        check_length("y", values, columns[0])
        ids = None if groups is None else read_ids(groups)
        if ids is not None:
            check_length("groups", ids, values)
        return cls(columns, values, ids)

    @classmethod
    def of(cls, table: pa.Table, wanted: Wanted, values: np.ndarray | None = None) -> "Batch":
        """The rows of a table of Arrow, whose types were checked; ``values`` is the target, if it was read before."""
        schema, read = wanted.schema, dict[str, Any]()
        places = {field.name: table.column(field.name).to_numpy() for field in table.schema if field.metadata == PLACES}
        names = [name for name in wanted.features if name not in places]
        if names:
            some = replace(schema, features={name: schema.features[name] for name in names})
            read = dict(zip(names, read_columns(table.select(names), some), strict=True))
        if values is None:
            name = schema.target.name
            values = places[name] if name in places else target_values(table.column(name), schema.target)
        ids = None if wanted.ids is None else ids_beside(table, wanted.ids)
        read |= {name: Places(codes) for name, codes in places.items()}
        return cls([read.get(name) for name in schema.features], values, ids)

    def each(self, wanted: Wanted, work: Callable[..., Any], receive: Callable[[int, Any], None], workers: Workers) -> None:
        """Call ``receive`` with what ``work`` makes of the batch, as ``Pieces.each`` does with several."""
        receive(0, work(self, workers))

    def taken(self, wanted: Wanted, rows: np.ndarray, workers: Workers) -> "Batch":
        """Some rows, by increasing index; ids only if they are wanted."""
        ids = None if self.ids is None or wanted.ids is None else taken([self.ids], rows, workers)[0]
        return Batch(taken(self.columns, rows, workers), self.values[rows], ids)


def is_usable(values: np.ndarray) -> np.ndarray:
    """A mask of the rows whose target is not left out."""
    return ~np.isnan(values) if values.dtype.kind == "f" else values >= 0


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
        kept, tables = [table for _, table in sorted(self._tables.items())], list[pa.Table]()
        in_memory, self._tables = self._file is None, {}
        if in_memory:
            for schema, some in groupby(kept, key=lambda table: table.schema):
                # A question costs some time for each table. Text stays in parts: together it may be more than pyarrow holds.
                own, is_joined = [*some], all(pa.types.is_primitive(field.type) for field in schema)
                tables += [pa.concat_tables(own).combine_chunks()] if is_joined else own
        else:
            with _room():
                self._file.flush()
                content = pa.py_buffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))
            # Rows stay in the file until they are looked at.
            tables = [pa.ipc.open_stream(content[own]).read_all() if isinstance(own, slice) else own for own in kept]
        kept.clear()
        pa.default_memory_pool().release_unused()
        return Pieces(tables, in_memory, progress)


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
