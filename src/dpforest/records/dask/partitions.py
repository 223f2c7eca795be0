"""Tables in partitions (a dask dataframe or Parquet files), and how workers read them. Sees rows; they stay on workers.

``Frames`` and ``Folder`` are the trainer's side and know columns and types only; the rest runs on workers.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from threading import Lock
from typing import Any

import narwhals as nw
import numpy as np
from dask import delayed

from dpforest.common.threads import Workers
from dpforest.errors import TableError
from dpforest.mechanisms.entropy import KeyedEntropy
from dpforest.records.categories import add_texts, tally_texts
from dpforest.records.columns import (
    column_kind,
    count_by_edges,
    read_columns,
    read_numbers,
    read_target,
    read_values,
    require_columns,
)
from dpforest.records.dask.replayed import N_DIGEST_BYTES, Partition
from dpforest.records.dask.tasks import Packed, reporting
from dpforest.records.given import to_objects
from dpforest.records.memory.counter import MemoryCounter
from dpforest.records.memory.vault import count_around, encode
from dpforest.records.parquet import ParquetVault
from dpforest.records.parquet_rows import File, open_files
from dpforest.schema import Bounded, Schema, Target
from dpforest.schema.domain import Domain, derived

# Row groups of a file are read together up to this many rows: a task for each of many small ones would take longer.
PARTITION_ROWS = 1 << 19


@dataclass(frozen=True, repr=False)
class Codes:
    """The encoded records of a partition of a dataframe; an ``Origin`` that holds them itself."""

    codes: np.ndarray  # (n_features, n_records)
    target_codes: np.ndarray  # (n_records,)
    domain: Domain
    target: Target
    n_jobs: int

    def counter(self) -> MemoryCounter:
        # Arrays that come over the network are read-only, and kernels would be compiled once more for that type.
        codes, target_codes = (np.require(array, requirements=["C", "W"]) for array in (self.codes, self.target_codes))
        return MemoryCounter(codes, target_codes, self.domain, self.target, Workers(self.n_jobs), is_shared=True)

    @property
    def n_bytes(self) -> int:
        return self.codes.nbytes + self.target_codes.nbytes

    def digest(self) -> bytes:
        digest = hashlib.blake2b(np.ascontiguousarray(self.codes).data, digest_size=N_DIGEST_BYTES)
        digest.update(np.ascontiguousarray(self.target_codes).data)
        return digest.digest()


@dataclass(frozen=True, repr=False)
class Files:
    """Some row groups of Parquet files that any worker can read; an ``Origin`` that reads the records when needed."""

    files: tuple[File, ...]
    schema: Schema
    domain: Domain | None
    n_jobs: int
    stamps: tuple[Any, ...]  # size and time of change of each file when the table was sealed
    sample: tuple[Fraction, bytes, int] | None = None  # a share, a secret key and the number of these row groups

    @staticmethod
    def stamp_of(file: File) -> tuple[Any, ...]:
        """The size of a file and the time of its last change, as they are now."""
        info = file.fragment.filesystem.get_file_info(file.fragment.path)
        return info.size, info.mtime_ns

    def counter(self) -> MemoryCounter:
        domain = self.domain
        assert domain is not None
        return self.ask(lambda vault: vault.encode(domain))

    def ask(self, read: Callable[[ParquetVault], Any]) -> Any:
        """What ``read`` gives of the row groups; raises if a file is not the one that was sealed, before or after."""
        before = self._stamps_now()
        vault = ParquetVault([*self.files], self.schema, Workers(self.n_jobs))
        if self.sample is not None:
            share, key, number = self.sample
            # The same rows each time: as long as the stamps are the same, so are rows and their order.
            vault = vault.sampled(share, KeyedEntropy(key, number))
        found = read(vault)
        if not before == self._stamps_now() == self.stamps:
            raise TableError("A Parquet file was changed while a forest was trained on it.")
        return found

    def _stamps_now(self) -> tuple[Any, ...]:
        return tuple(map(self.stamp_of, self.files))

    @property
    def n_rows(self) -> int:
        """The number of rows, by what the files declare, without a sample."""
        return sum(file.n_rows for file in self.files)

    @property
    def n_bytes(self) -> int:
        # What its codes take on disk and in memory: a cluster moves things that it takes for small from worker to worker.
        n_rows = self.n_rows if self.sample is None else round(self.n_rows * self.sample[0])
        return n_rows * (len(derived(self.schema)) + 2)

    def digest(self) -> bytes:
        return bytes(N_DIGEST_BYTES)  # not needed: a changed file is known by its stamp


class Kept:
    """The rows that a secret sample keeps of some files, in the memory of a worker: files are read once for all questions.

    Sent to another worker they are read there anew, and are the same.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = Lock()  # questions may come at the same time
        self._vault: ParquetVault | None = None

    def read(self) -> "Kept":
        """The rows themselves, which are read if they were not yet."""
        with self._lock:
            self._vault = self._vault or self._files.ask(lambda vault: vault)
        return self

    def ask(self, schema: Schema, read: Callable[[ParquetVault], Any]) -> Any:
        """What ``read`` gives of the rows, with the target of a schema."""
        self.read()
        vault, target = self._vault, schema.target
        assert vault is not None
        return read(vault.narrowed(target) if isinstance(target, Bounded) and target != vault.schema.target else vault)

    def partition(self, schema: Schema, domain: Domain, index: int) -> Partition:
        """The rows with the target of a schema, encoded."""
        counter = self.ask(schema, lambda vault: vault.encode(domain))
        return Partition(replace(self._files, schema=schema, domain=domain), index, counter)

    def __sizeof__(self) -> int:
        return 4 * self._files.n_bytes  # about: a value takes some times as much as its code

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, (self._files,)

    def __repr__(self) -> str:
        return "Kept(...)"


@dataclass(frozen=True, repr=False)
class Reading:
    """How workers read the partitions of a dataframe, by what the dataframe declares as a whole."""

    schema: Schema
    kinds: dict[str, str]  # the kind of each column of the schema, see ``column_kind``
    names: dict[str, Any] = field(default_factory=dict)  # how the table names each column of the schema
    domain: Domain | None = None
    n_jobs: int = 1

    def target_codes(self, frame: Any) -> np.ndarray:
        """The target code of each row of a partition, ``(n_rows,)``; -1 for a row that is left out."""
        return read_target(self._column(_framed(frame), self.schema.target.name), self.schema.target)

    def count_around(self, domain: Domain, centres: Mapping[int, float], frame: Any) -> np.ndarray:
        """The numbers of records of a partition in each bin around some centres; see ``Source``."""
        whole, kept = _framed(frame), self.target_codes(frame) >= 0
        columns = [self._column(whole, name) for name in self.schema.features]
        return count_around(columns, domain, centres, kept, Workers(self.n_jobs))

    def target_counts(self, frame: Any, edges: np.ndarray) -> np.ndarray:
        """The number of records of a partition by the edges at or below their target, ``(n_edges + 1,)``."""
        target = self.schema.target
        assert isinstance(target, Bounded)
        return count_by_edges(read_numbers(self._column(_framed(frame), target.name), target), edges)

    def codes(self, frame: Any) -> Codes:
        """The encoded records of a partition, without rows that are left out."""
        assert self.domain is not None
        whole = _framed(frame)
        target_codes = self.target_codes(frame)
        kept = target_codes >= 0
        columns = [self._column(whole, name) for name in self.schema.features]
        codes = encode(columns, self.domain, Workers(self.n_jobs))
        return Codes(np.ascontiguousarray(codes[:, kept]), target_codes[kept], self.domain, self.schema.target, self.n_jobs)

    def tally_texts(self, name: str, frame: Any) -> dict[str, int]:
        """The number of records of each text of a column of a partition."""
        return tally_texts(self._column(_framed(frame), name), self.target_codes(frame) >= 0)

    def _column(self, frame: "nw.DataFrame[Any]", name: str) -> Any:
        """A column of a partition; as an array of objects if its kind is not the one that the table declares.

        Values may be the reason for another kind. One that does not fit is missing or "other", as everywhere, and never an
        error.
        """
        given = self.names[name]
        if given not in frame.columns:
            return np.full(len(frame), None, dtype=object)
        column = frame.get_column(given)
        if column_kind(column)[0] == self.kinds[name]:
            return column
        return to_objects(read_values(column))


def _framed(frame: Any) -> "nw.DataFrame[Any]":
    return nw.from_native(frame, eager_only=True)


@reporting
def count_frame(reading: Reading, frame: Any) -> np.ndarray:
    """The number of records of a partition of a dataframe, shape ``(1,)``."""
    return np.array([np.count_nonzero(reading.target_codes(frame) >= 0)])


@reporting
def count_frame_around(reading: Reading, domain: Domain, centres: Mapping[int, float], frame: Any) -> np.ndarray:
    """The numbers of records of a partition in each bin around some centres; see ``Source``."""
    return reading.count_around(domain, centres, frame)


@reporting
def count_targets_of_frame(reading: Reading, edges: np.ndarray, frame: Any) -> np.ndarray:
    """The number of records of a partition by the edges at or below their target, ``(n_edges + 1,)``."""
    return reading.target_counts(frame, edges)


@reporting
def count_texts_of_frame(reading: Reading, name: str, frame: Any) -> dict[str, int]:
    """The number of records of each text of a column of a partition of a dataframe."""
    return reading.tally_texts(name, frame)


@reporting
def encode_frame(reading: Reading, index: int, frame: Any) -> Partition:
    """A partition of a dataframe with its records encoded, to be kept on the worker."""
    return Partition(reading.codes(frame), index).encoded()


@reporting
def ask_files(files: Files, question: str, *arguments: Any) -> Any:
    """What a method ``tally...`` of ``ParquetVault`` gives for some row groups; reads the columns that it needs."""
    return files.ask(lambda vault: getattr(vault, question)(*arguments))


@reporting
def ask_kept(schema: Schema, question: str, arguments: tuple[Any, ...], kept: Kept) -> Any:
    """The same for the rows of a sample."""
    return kept.ask(schema, lambda vault: getattr(vault, question)(*arguments))


@reporting
def keep(files: Files) -> Kept:
    """The rows that a sample keeps of some row groups, to be kept on the worker."""
    return Kept(files).read()


@reporting
def merge(*tallies: dict[str, int]) -> dict[str, int]:
    """The sums of numbers of records of each text of some partitions."""
    return add_texts(tallies)


@reporting
def encode_files(files: Files, domain: Domain, index: int) -> Partition:
    """Some row groups with their records encoded, as a partition to be kept on the worker."""
    return Partition(replace(files, domain=domain), index).encoded()


@reporting
def encode_kept(schema: Schema, domain: Domain, index: int, kept: Kept) -> Partition:
    """The rows of a sample with their records encoded, as a partition to be kept on the worker."""
    return kept.partition(schema, domain, index)


class Frames:
    """A dask dataframe, as the trainer sees it: its columns and types, and tasks for workers."""

    # Its rows may come in another order when they are computed again, and would then have other coins.
    can_sample = False

    def __init__(self, table: Any, schema: Schema, n_jobs: int) -> None:
        self.schema = schema
        given = [str(name) for name in table.columns]
        wanted = [*schema.features, schema.target.name]
        require_columns(given, wanted, "the dataframe")
        names = {name: table.columns[given.index(name)] for name in wanted}
        self._table, self._names = table, names
        self._reading = Reading(schema, self._kinds(), names, n_jobs=n_jobs)

    def _kinds(self) -> dict[str, str]:
        """The kind of each column, by the types that the whole dataframe declares; raises if they do not fit the schema."""
        import pandas as pd

        types = self._table.dtypes
        empty = pd.DataFrame({name: pd.Series(dtype=types[given]) for name, given in self._names.items()})
        target = self.schema.target
        read_columns(empty[[*self.schema.features]], self.schema)
        read_target(empty[target.name], target)
        frame = nw.from_native(empty, eager_only=True)
        return {name: column_kind(frame.get_column(name))[0] for name in self._names}

    def narrowed(self, target: Bounded) -> "Frames":
        """The same dataframe with the target read within another range."""
        return Frames(self._table, replace(self.schema, target=target), self._reading.n_jobs)

    def counts(self) -> list[Any]:
        """A task for each partition that gives its number of records."""
        return self._tasks_of_target(Packed(count_frame, self._reading))

    def target_counts(self, edges: np.ndarray) -> list[Any]:
        """A task for each partition that gives its number of records by the edges at or below their target."""
        return self._tasks_of_target(Packed(count_targets_of_frame, self._reading, edges))

    def _tasks_of_target(self, count: Packed) -> list[Any]:
        frames = self._table[[self._names[self.schema.target.name]]].to_delayed()
        return [delayed(count, pure=False)(frame) for frame in frames]

    def counts_around(self, domain: Domain, centres: Mapping[int, float]) -> list[Any]:
        """A task for each partition that gives its numbers of records in each bin around some centres."""
        frames = self._table[[*self._names.values()]].to_delayed()
        task = Packed(count_frame_around, self._reading, domain, centres)
        return [delayed(task, pure=False)(frame) for frame in frames]

    def text_counts(self, name: str) -> list[Any]:
        """A task for each partition that gives the number of records of each text of a column."""
        frames = self._table[[self._names[name], self._names[self.schema.target.name]]].to_delayed()
        return [delayed(Packed(count_texts_of_frame, self._reading, name), pure=False)(frame) for frame in frames]

    def partitions(self, domain: Domain) -> list[Any]:
        """A task for each partition that encodes it on a worker."""
        frames = self._table[[*self._names.values()]].to_delayed()
        reading = replace(self._reading, domain=domain)
        return [delayed(Packed(encode_frame, reading, index), pure=False)(frame) for index, frame in enumerate(frames)]


class Folder:
    """A Parquet file or folder that client and workers see under the same path, in pieces of some row groups each."""

    def __init__(self, schema: Schema, pieces: list[Files], kept: list[Any] | None = None) -> None:
        self.schema, self._pieces = schema, pieces
        self._kept = kept  # futures of the rows that a sample keeps of each piece

    @classmethod
    def at(cls, path: str | os.PathLike[str], schema: Schema, n_jobs: int) -> "Folder":
        """The file or folder at a path, as it is now."""
        files = open_files(os.fspath(path), schema)
        pieces = (piece for file in files for piece in _pieces(file))
        return cls(schema, [Files((piece,), schema, None, n_jobs, (Files.stamp_of(piece),)) for piece in pieces])

    def narrowed(self, target: Bounded) -> "Folder":
        """The same files, or the same rows of them, with the target read within another range."""
        schema = replace(self.schema, target=target)
        return Folder(schema, [replace(piece, schema=schema) for piece in self._pieces], self._kept)

    can_sample = True

    def sampled(self, share: Fraction, key: bytes, client: Any) -> "Folder":
        """The same files, of which workers keep a secret sample; which rows are in it follows from the key.

        As few rows are left, pieces are put together, one for each thread: each costs some time in each question.
        """
        whole = _together(self._pieces, sum(client.nthreads().values()))
        pieces = [replace(piece, sample=(share, key, number)) for number, piece in enumerate(whole)]
        return Folder(self.schema, pieces, client.compute([delayed(Packed(keep, piece), pure=False)() for piece in pieces]))

    def counts(self) -> list[Any]:
        """A task for each piece that gives its number of records."""
        return self._asked("tally")

    def counts_around(self, domain: Domain, centres: Mapping[int, float]) -> list[Any]:
        """A task for each piece that gives its numbers of records in each bin around some centres."""
        return self._asked("tally_around", domain, centres)

    def target_counts(self, edges: np.ndarray) -> list[Any]:
        """A task for each piece that gives its number of records by the edges at or below their target."""
        return self._asked("tally_targets", edges)

    def text_counts(self, name: str) -> list[Any]:
        """A task for each piece that gives the number of records of each text of a column."""
        return self._asked("tally_texts", name)

    def _asked(self, question: str, *arguments: Any) -> list[Any]:
        if self._kept is None:
            return [delayed(Packed(ask_files, piece, question, *arguments), pure=False)() for piece in self._pieces]
        task = Packed(ask_kept, self.schema, question, arguments)
        return [delayed(task, pure=False)(kept) for kept in self._kept]

    def partitions(self, domain: Domain) -> list[Any]:
        """A task for each piece that encodes it on a worker."""
        if self._kept is None:
            tasks = [Packed(encode_files, piece, domain, index) for index, piece in enumerate(self._pieces)]
            return [delayed(task, pure=False)() for task in tasks]
        tasks = [Packed(encode_kept, self.schema, domain, index) for index in range(len(self._kept))]
        return [delayed(task, pure=False)(kept) for task, kept in zip(tasks, self._kept, strict=True)]


def _together(pieces: list[Files], n_groups: int) -> list[Files]:
    """As many pieces as are asked for, or as there are, each made of some that stand side by side."""
    n_groups = min(max(n_groups, 1), len(pieces))
    edges = [group * len(pieces) // n_groups for group in range(n_groups + 1)]
    return [
        replace(
            pieces[start],
            files=tuple(file for piece in pieces[start:end] for file in piece.files),
            stamps=tuple(stamp for piece in pieces[start:end] for stamp in piece.stamps),
        )
        for start, end in pairwise(edges)
    ]


def _pieces(file: File) -> list[File]:
    """The pieces of a file, each of whole row groups; a file without row groups is one piece."""
    pieces: list[list[int]] = []
    n_rows = PARTITION_ROWS
    for group in file.fragment.row_groups:
        if n_rows >= PARTITION_ROWS:
            pieces.append([])
            n_rows = 0
        pieces[-1].append(group.id)
        n_rows += group.num_rows
    return [file.of(piece) for piece in pieces] or [file]
