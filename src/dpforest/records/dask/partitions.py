"""Tables in partitions (a dask dataframe or Parquet files), and how workers read them. Sees rows; they stay on workers.

``Frames`` and ``Folder`` are the trainer's side and know columns and types only; the rest runs on workers.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np
from dask import delayed
from pyarrow import dataset

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
from dpforest.records.parquet import ParquetVault, open_files
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
    """Some row groups of a Parquet file that any worker can read; an ``Origin`` that reads the records when needed."""

    fragment: dataset.ParquetFileFragment
    schema: Schema
    domain: Domain | None
    n_jobs: int
    stamp: tuple[Any, ...]  # size and time of change of the file when the table was sealed
    sample: tuple[Fraction, bytes, int] | None = None  # a share, a secret key and the number of the piece

    @staticmethod
    def stamp_of(fragment: dataset.ParquetFileFragment) -> tuple[Any, ...]:
        """The size of a file and the time of its last change, as they are now."""
        info = fragment.filesystem.get_file_info(fragment.path)
        return info.size, info.mtime_ns

    def counter(self) -> MemoryCounter:
        domain = self.domain
        assert domain is not None
        return self._checked(lambda vault: vault.encode(domain))

    def count(self) -> np.ndarray:
        """The number of records, shape ``(1,)``; reads the target column only."""
        return self._checked(lambda vault: vault.tally())

    def count_around(self, domain: Domain, centres: Mapping[int, float]) -> np.ndarray:
        """The numbers of records in each bin around some centres; see ``Source``."""
        return self._checked(lambda vault: vault.tally_around(domain, centres))

    def count_targets(self, edges: np.ndarray) -> np.ndarray:
        """The number of records by the edges at or below their target, ``(n_edges + 1,)``; reads the target column only."""
        return self._checked(lambda vault: vault.tally_targets(edges))

    def tally_texts(self, name: str) -> dict[str, int]:
        """The number of records of each text of a column; reads that column and the target only."""
        return self._checked(lambda vault: vault.tally_texts(name))

    def _checked(self, read: Callable[[ParquetVault], Any]) -> Any:
        """What ``read`` gives of the row groups; raises if the file is not the one that was sealed, before or after."""
        before = self.stamp_of(self.fragment)
        vault = ParquetVault([self.fragment], self.schema, Workers(self.n_jobs))
        if self.sample is not None:
            share, key, number = self.sample
            # The same rows each time: as long as the stamp is the same, so are rows and their order.
            vault = vault.sampled(share, KeyedEntropy(key, number))
        found = read(vault)
        if not before == self.stamp_of(self.fragment) == self.stamp:
            raise TableError("A Parquet file was changed while a forest was trained on it.")
        return found

    @property
    def n_bytes(self) -> int:
        # What its codes take on disk and in memory: a cluster moves things that it takes for small from worker to worker.
        n_rows = sum(group.num_rows for group in self.fragment.row_groups)
        n_rows = n_rows if self.sample is None else round(n_rows * self.sample[0])
        return n_rows * (len(derived(self.schema)) + 2)

    def digest(self) -> bytes:
        return bytes(N_DIGEST_BYTES)  # not needed: a changed file is known by its stamp


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
def count_files(files: Files) -> np.ndarray:
    """The number of records of some row groups, shape ``(1,)``."""
    return files.count()


@reporting
def count_files_around(files: Files, domain: Domain, centres: Mapping[int, float]) -> np.ndarray:
    """The numbers of records of some row groups in each bin around some centres; see ``Source``."""
    return files.count_around(domain, centres)


@reporting
def count_targets_of_files(files: Files, edges: np.ndarray) -> np.ndarray:
    """The number of records of some row groups by the edges at or below their target, ``(n_edges + 1,)``."""
    return files.count_targets(edges)


@reporting
def count_texts_of_files(files: Files, name: str) -> dict[str, int]:
    """The number of records of each text of a column of some row groups."""
    return files.tally_texts(name)


@reporting
def merge(*tallies: dict[str, int]) -> dict[str, int]:
    """The sums of numbers of records of each text of some partitions."""
    return add_texts(tallies)


@reporting
def encode_files(files: Files, domain: Domain, index: int) -> Partition:
    """Some row groups with their records encoded, as a partition to be kept on the worker."""
    return Partition(replace(files, domain=domain), index).encoded()


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

    def __init__(self, schema: Schema, pieces: list[Files]) -> None:
        self.schema, self._pieces = schema, pieces

    @classmethod
    def at(cls, path: str | os.PathLike[str], schema: Schema, n_jobs: int) -> "Folder":
        """The file or folder at a path, as it is now."""
        files = open_files(os.fspath(path), schema)
        pieces = (piece for file in files for piece in _pieces(file))
        return cls(schema, [Files(piece, schema, None, n_jobs, Files.stamp_of(piece)) for piece in pieces])

    def narrowed(self, target: Bounded) -> "Folder":
        """The same files with the target read within another range."""
        schema = replace(self.schema, target=target)
        return Folder(schema, [replace(piece, schema=schema) for piece in self._pieces])

    can_sample = True

    def sampled(self, share: Fraction, key: bytes) -> "Folder":
        """The same files, of which workers read a secret sample; which rows are in it follows from the key."""
        return Folder(self.schema, [replace(piece, sample=(share, key, n)) for n, piece in enumerate(self._pieces)])

    def counts(self) -> list[Any]:
        """A task for each piece that gives its number of records."""
        return [delayed(Packed(count_files, piece), pure=False)() for piece in self._pieces]

    def counts_around(self, domain: Domain, centres: Mapping[int, float]) -> list[Any]:
        """A task for each piece that gives its numbers of records in each bin around some centres."""
        return [delayed(Packed(count_files_around, piece, domain, centres), pure=False)() for piece in self._pieces]

    def target_counts(self, edges: np.ndarray) -> list[Any]:
        """A task for each piece that gives its number of records by the edges at or below their target."""
        return [delayed(Packed(count_targets_of_files, piece, edges), pure=False)() for piece in self._pieces]

    def text_counts(self, name: str) -> list[Any]:
        """A task for each piece that gives the number of records of each text of a column."""
        return [delayed(Packed(count_texts_of_files, piece, name), pure=False)() for piece in self._pieces]

    def partitions(self, domain: Domain) -> list[Any]:
        """A task for each piece that encodes it on a worker."""
        return [
            delayed(Packed(encode_files, piece, domain, index), pure=False)() for index, piece in enumerate(self._pieces)
        ]


def _pieces(file: Any) -> list[Any]:
    """The pieces of a file, each of whole row groups; a file without row groups is one piece."""
    pieces: list[list[int]] = []
    n_rows = PARTITION_ROWS
    for group in file.row_groups:
        if n_rows >= PARTITION_ROWS:
            pieces.append([])
            n_rows = 0
        pieces[-1].append(group.id)
        n_rows += group.num_rows
    return [file.subset(row_group_ids=piece) for piece in pieces] or [file]
