"""The vault of Parquet files, which need not fit in memory. Sees rows; what leaves is sealed."""

import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dpforest.common.progress import in_parts
from dpforest.common.threads import Workers
from dpforest.errors import TableError
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import Openable, Rows
from dpforest.records.categories import add_texts, tally_texts
from dpforest.records.columns import (
    count_by_edges,
    fine_steps,
    read_classes,
    read_columns,
    read_numbers,
)
from dpforest.records.draws import draw_held_out
from dpforest.records.memory.counter import Guarded, MemoryCounter
from dpforest.records.memory.vault import count_around, encode, sealed_rows
from dpforest.records.parquet_rows import DAMAGED, File, check_ids, check_unchanged, open_files, row_groups
from dpforest.records.people import People, read_ids
from dpforest.records.sample import draw_kept
from dpforest.records.scoring import tally_hits
from dpforest.schema import Bounded, Classes, Schema
from dpforest.schema.domain import Domain
from dpforest.schema.scales import N_BINS

# The number of rows that are read and encoded at once.
BATCH_ROWS = 1 << 17
# What is done with a batch of rows: the place of its first row in the table, the batch, the number of the thread that has
# read it, and threads for what is left to do.
Work = Callable[[int, pa.Table, int, Workers], None]


class ParquetVault(Guarded, Openable):
    """The rows of a Parquet file or folder, read a batch at a time and encoded once to a file that has no name.

    Counting then passes over the codes of that file: one byte a value, of which the operating system keeps in memory what it
    has room for. The file vanishes with the process, however that ends.

    Privacy: as ``Vault``; records have the same codes in the same order, so answers are the same to the last unit. Each file
    is read with its own types, so the codes of a record do not depend on what other files hold. What several passes read is
    matched by place, so a pass gives nothing unless the files are those that were sealed, by their stamps.
    """

    counter: ClassVar[type[MemoryCounter]] = MemoryCounter
    gaps: ClassVar[dict[type, str]] = {}

    def __init__(
        self,
        files: list[File],
        schema: Schema,
        workers: Workers,
        id_column: str | None = None,
        people: People | None = None,
        sample: list[pa.Table] | None = None,
        among: np.ndarray | None = None,
        path: str | Path | None = None,
    ) -> None:
        self.schema = schema
        self._id_column, self._people = id_column, people
        self._files, self._path = files, path  # without a path nobody looks for other files
        self._sample = sample  # the rows that are kept, in tables of one file each; None if all are
        self._among = among  # a mask of the rows that may be used; None if all may
        self._workers = workers
        self._kept: np.ndarray | None = None
        self._values: np.ndarray | None = None
        self.in_one_book = False

    @classmethod
    def seal(
        cls, path: str | Path, schema: Schema, n_jobs: int = 1, groups: Any = None, people: People | None = None
    ) -> "ParquetVault":
        """The vault of a file or folder, whose columns and types are checked and taken as public; no row is read yet.

        ``groups`` is the name of the column of ids, if the unit of privacy is a person.
        """
        files = open_files(path, schema)
        if people is not None:
            check_ids(groups, files, schema)
        return cls(files, schema, Workers(n_jobs), groups, people, path=path)

    def count(self) -> Sealed[np.ndarray]:
        """The sealed number of records, shape ``(1,)``."""
        return Sealed(self.tally())

    def tally(self) -> np.ndarray:
        """The number of records, ``(1,)``, not sealed: for workers of a cluster, where numbers are added up before that."""
        if self._people is not None or self._among is not None or self._kept is not None:
            return np.array([np.count_nonzero(self._read_once()[1])])
        counts, lock = np.zeros(1, dtype=np.int64), Lock()

        def count(first: int, batch: pa.Table, thread: int, workers: Workers) -> None:
            # Nothing is kept of a row: there may be very many, and most may not be in the sample that follows.
            n_known = np.count_nonzero(_is_known(self._read_target(batch.column(0))))
            with lock:
                counts[0] += n_known

        self._each_batch([self.schema.target.name], count)
        return counts

    def count_around(self, domain: Domain, centres: Mapping[int, float]) -> Sealed[np.ndarray]:
        """Sealed numbers of records in each bin around some centres; see ``Source``."""
        return Sealed(self.tally_around(domain, centres))

    def tally_around(self, domain: Domain, centres: Mapping[int, float]) -> np.ndarray:
        """The numbers of ``count_around``, not sealed, as those of ``tally``; reads the columns of these features only."""
        kept, lock = self._target_codes() >= 0, Lock()
        counts = np.zeros((len(centres), N_BINS + 1), dtype=np.int64)
        wanted = {domain.derived[feature].column for feature in centres}
        names = {name: part for index, (name, part) in enumerate(self.schema.features.items()) if index in wanted}
        some = replace(self.schema, features=names)

        def count(first: int, batch: pa.Table, thread: int, workers: Workers) -> None:
            read = dict(zip(names, read_columns(batch, some), strict=True))
            columns = [read.get(name) for name in self.schema.features]
            own = count_around(columns, domain, centres, kept[first : first + batch.num_rows], workers)
            with lock:
                np.add(counts, own, out=counts)

        self._each_batch([*names], count)
        return counts

    def count_targets(self, edges: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed numbers of records by the public edges at or below their target; see ``Source``."""
        return Sealed(self.tally_targets(edges))

    def tally_targets(self, edges: np.ndarray) -> np.ndarray:
        """The same numbers, not sealed, for workers of a cluster."""
        values, kept = self._read_once()
        return count_by_edges(values[kept], edges)

    def narrowed(self, target: Bounded) -> "ParquetVault":
        """The vault of the same records with the target read within another range."""
        return self._again(replace(self.schema, target=target), *self._read_once())

    @property
    def can_sample(self) -> bool:
        return not self.in_one_book

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[ParquetVault, ParquetVault]":
        """Two vaults, of the records to train on and of those held out; see ``Searched``."""
        held = draw_held_out(len(self._read_once()[1]), share, entropy)
        return self._part(~held), self._part(held)

    def _part(self, own: np.ndarray) -> "ParquetVault":
        """A vault of all rows in which those not in the mask are left out, as rows without a target are."""
        values, kept = self._read_once()
        part = self._again(self.schema, values, kept & own)
        part.in_one_book = True
        return part

    def _again(self, schema: Schema, values: np.ndarray, kept: np.ndarray) -> "ParquetVault":
        """A vault of all rows, of which it is known what ``_read_once`` gives."""
        other = ParquetVault(self._files, schema, self._workers, sample=self._sample, path=self._path)
        other._values, other._kept = values, kept
        return other

    def hits(self, forest: Forest) -> Sealed[np.ndarray]:
        """Sealed sums ``(1, 2)`` of hits and misses of a released forest on these records; see ``Searched``."""
        return Sealed(self.tally_hits(forest))

    def tally_hits(self, forest: Forest) -> np.ndarray:
        """The same sums, not sealed, for workers of a cluster."""
        target_codes, totals, lock = self._target_codes(), np.zeros((1, 2), dtype=np.int64), Lock()

        def add(first: int, batch: pa.Table, thread: int, workers: Workers) -> None:
            own = target_codes[first : first + batch.num_rows]
            codes = encode(read_columns(batch, self.schema), forest.domain, workers)[:, own >= 0]
            sums = tally_hits(forest, np.ascontiguousarray(codes), own[own >= 0], self.schema.target)
            with lock:
                np.add(totals, sums, out=totals)

        self._each_batch([*self.schema.features], add)
        return totals

    def sampled(self, share: Fraction, entropy: Entropy) -> "ParquetVault":
        """The vault of a secret sample of the records, or persons, whose rows are kept in memory; see ``Source``."""
        if self._people is None:
            return self._taken(draw_kept(sum(piece.n_rows for piece in self._pieces), share, entropy))
        _, kept = self._read_once()
        return self._taken(np.flatnonzero(self._people.sample(self._ids(), share) & kept))

    def loaded(self) -> "ParquetVault":
        """The vault of the same records, whose rows are kept in memory."""
        return self if self._sample is not None else self._taken(np.flatnonzero(self._read_once()[1]))

    def _taken(self, rows: np.ndarray) -> "ParquetVault":
        """The vault of some rows, by index, which are kept in memory."""
        names = [*self.schema.features, self.schema.target.name]
        found: dict[int, pa.Table] = {}

        def take(first: int, batch: pa.Table, thread: int, workers: Workers) -> None:
            start, end = np.searchsorted(rows, [first, first + batch.num_rows])
            (own,) = _takeable(batch).to_batches()  # of which rows are taken faster than of a table
            found[first] = pa.Table.from_batches([own.take(pa.array(rows[start:end] - first))])

        self._each_batch(names, take)
        sample = [found[first] for first in sorted(found)]
        pa.default_memory_pool().release_unused()
        if all(pa.types.is_primitive(field.type) for table in sample for field in table.schema):
            # A question costs some time for each table. Text stays in parts: together it may be more than pyarrow can hold.
            sample = [_joined(tables) for _, tables in groupby(sample, key=lambda table: table.schema)]
        return ParquetVault(self._files, self.schema, self._workers, sample=sample)

    @cached_property
    def _pieces(self) -> "list[Piece]":
        """The row groups of the files, or the tables of the sample, one after the other."""
        rows = [*row_groups(self._files)] if self._sample is None else self._sample
        ends = accumulate(map(_n_rows, rows), initial=0)
        return [Piece(first, own) for first, own in zip(ends, rows, strict=False) if _n_rows(own)]

    def _each_batch(self, names: list[str], work: Work) -> None:
        """Call ``work`` for each batch of some columns, in any order, by several threads at once.

        A thread reads and does one piece after the other. Where there are fewer pieces than threads these are read in turn,
        and threads divide what is done with a batch.
        """
        is_divided = len(self._pieces) >= self._workers.n_jobs
        reading, within = (self._workers, Workers()) if is_divided else (Workers(), self._workers)

        def read(thread: int, item: int) -> None:
            for first, batch in self._pieces[item].batches(names, use_threads=not is_divided):
                work(first, batch, thread, within)

        with self._unchanged():
            reading.share(read, len(self._pieces))

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Raise ``TableError`` if files that are read were changed since they were sealed, before or after a pass."""
        files, path = (self._files, self._path) if self._sample is None else ([], None)
        check_unchanged(files, path)
        yield
        check_unchanged(files, path)

    def _batches(self, names: list[str]) -> Iterator[pa.Table]:
        """Tables of some columns of the records, one after the other."""
        with self._unchanged():
            yield from (batch for piece in self._pieces for _, batch in piece.batches(names))

    def _ids(self) -> list[Any]:
        """The columns of ids, one after the other."""
        assert self._id_column is not None
        return [read_ids(batch.column(0)) for batch in self._batches([self._id_column])]

    def ids_and_usable(self) -> tuple[list[Any], np.ndarray]:
        """The columns of ids, one after the other, and a mask of the rows with a target: for workers of a cluster."""
        return self._ids(), self._read_once()[1]

    def count_texts(self, name: str) -> Sealed[dict[str, int]]:
        """The sealed number of records of each text of a column."""
        return Sealed(self.tally_texts(name))

    def tally_texts(self, name: str) -> dict[str, int]:
        """The number of records of each text of a column, not sealed: as ``tally``."""
        kept, one = self._target_codes() >= 0, replace(self.schema, features={name: self.schema.features[name]})

        def tallies() -> Iterator[dict[str, int]]:
            n_read = 0
            for batch in self._batches([name]):
                yield tally_texts(read_columns(batch, one)[0], kept[n_read : n_read + batch.num_rows])
                n_read += batch.num_rows

        return add_texts(tallies())

    def encode(self, domain: Domain, progress: Callable[[str], None] = lambda step: None) -> MemoryCounter:
        """A counter of the encoded records, without those whose target is left out."""
        target_codes = self._target_codes()
        kept = target_codes >= 0
        n_kept, n_rows = int(np.count_nonzero(kept)), len(kept)
        codes, n_done = _spilled((domain.n_features, n_kept), domain.dtype), [0] * self._workers.n_jobs
        firsts = [piece.first for piece in self._pieces]
        n_before = (int(np.count_nonzero(kept[first:end])) for first, end in pairwise([*firsts, n_rows]))
        places, show = list(accumulate(n_before, initial=0)), in_parts("rows encoded", n_rows, progress)

        def write(first: int, batch: pa.Table, thread: int, workers: Workers) -> None:
            own, stays = encode(read_columns(batch, self.schema), domain, workers), kept[first : first + batch.num_rows]
            own, piece = own if stays.all() else own[:, stays], bisect_right(firsts, first) - 1
            place = places[piece] + int(np.count_nonzero(kept[firsts[piece] : first]))
            codes[:, place : place + own.shape[1]] = own
            n_done[thread] += batch.num_rows
            if thread == 0:
                show(sum(n_done))

        self._each_batch([*self.schema.features], write)
        show(n_rows)
        pa.default_memory_pool().release_unused()  # what batches took is of no more use
        target_codes = target_codes if n_kept == n_rows else target_codes[kept]
        return self.counter(codes, target_codes, domain, self.schema.target, self._workers)

    def rows(self) -> Sealed[Rows]:
        """The sealed rows, for printed algorithms that open them; they must fit in memory."""
        batches = self._batches([*self.schema.features])
        parts = [read_columns(table, self.schema) for table in (self._files[0].empty([*self.schema.features]), *batches)]
        return sealed_rows(parts, self._target_codes(), self.schema)

    def _target_codes(self) -> np.ndarray:
        """The target code of each row, -1 for one that is left out."""
        values, kept = self._read_once()
        target = self.schema.target
        codes = values if isinstance(target, Classes) else fine_steps(values, target)
        return np.where(kept, codes, -1).astype(codes.dtype)

    def _read_once(self) -> tuple[np.ndarray, np.ndarray]:
        """The class index or number of each row, and which rows are kept; drawn once, so all answers are about one set."""
        if self._values is None or self._kept is None:
            found: dict[int, np.ndarray] = {}

            def read(first: int, batch: pa.Table, thread: int, workers: Workers) -> None:
                found[first] = self._read_target(batch.column(0))

            self._each_batch([self.schema.target.name], read)
            empty = np.empty(0, dtype=np.int16 if isinstance(self.schema.target, Classes) else np.float64)
            values = np.concatenate([empty, *(found[first] for first in sorted(found))])
            kept = _is_known(values)
            kept = kept if self._among is None else kept & self._among
            if self._people is not None:
                kept = self._people.leave_out(self._ids(), kept.astype(np.int8) - 1) >= 0
            self._values, self._kept = values, kept
        return self._values, self._kept

    def _read_target(self, column: pa.ChunkedArray) -> np.ndarray:
        """The class index of each row, -1 for one that is left out; or its number, which may be missing."""
        target = self.schema.target
        if not isinstance(target, Classes):
            return read_numbers(column, target)
        is_whole = pa.types.is_integer(column.type) and not column.null_count
        return read_classes(column.to_numpy() if is_whole else column, target)  # an array is looked up faster

    def close(self) -> None:
        """Do nothing: no file is left, since the spilled one has no name."""


@dataclass(frozen=True, repr=False)
class Piece:
    """A row group of a file, or a table of a sample; ``first`` is the place of its first row among all rows."""

    first: int
    rows: File | pa.Table

    @property
    def n_rows(self) -> int:
        return _n_rows(self.rows)

    def batches(self, names: list[str], use_threads: bool = True) -> Iterator[tuple[int, pa.Table]]:
        """Tables of some columns, one after the other, each with the place of its first row."""
        if isinstance(self.rows, pa.Table):
            yield self.first, self.rows.select(names)
            return
        n_read = 0
        for batch in self.rows.batches(names, BATCH_ROWS, use_threads):
            yield self.first + n_read, batch
            n_read += batch.num_rows
        if n_read != self.n_rows:
            raise TableError(DAMAGED)


def _n_rows(rows: File | pa.Table) -> int:
    """The number of rows of a table, or of a row group as the file declares it."""
    return rows.num_rows if isinstance(rows, pa.Table) else rows.n_rows


def _is_known(values: np.ndarray) -> np.ndarray:
    """A mask of the rows whose target is not left out."""
    return values >= 0 if values.dtype.kind == "i" else ~np.isnan(values)


def _joined(tables: Iterable[pa.Table]) -> pa.Table:
    """The rows of tables of numbers, of the same types, side by side in one table."""
    return pa.concat_tables(tables).combine_chunks()


def _takeable(batch: pa.Table) -> pa.Table:
    """The table with text by views as plain text, of which pyarrow can take rows."""
    for index, field in enumerate(batch.schema):
        plain = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}.get(str(field.type))
        if plain is not None:
            batch = batch.set_column(index, field.name, batch.column(index).cast(plain))
    return batch


def _spilled(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of zeros that lies in a file without a name, in the folder for temporary files."""
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
