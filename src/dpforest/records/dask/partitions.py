"""Parquet files in pieces, and how workers read them. Sees rows; they stay on workers.

``Folder`` is the trainer's side and knows columns and types only; the rest runs on workers.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
from dask import delayed

from dpforest.common.threads import Workers
from dpforest.forest.tree import Forest
from dpforest.mechanisms.entropy import KeyedEntropy
from dpforest.records.categories import add_texts
from dpforest.records.dask.people import Draw, Found, Part, drawn, mark, n_homes_for
from dpforest.records.dask.replayed import N_DIGEST_BYTES, Partition
from dpforest.records.dask.tasks import Packed, reporting
from dpforest.records.memory.counter import MemoryCounter
from dpforest.records.parquet import ParquetVault
from dpforest.records.parquet_rows import File, check_ids, open_files
from dpforest.schema import Bounded, Schema
from dpforest.schema.domain import Domain, derived

# Row groups of a file are read together up to this many rows: a task for each of many small ones would take longer.
PARTITION_ROWS = 1 << 19


@dataclass(frozen=True, repr=False)
class Files:
    """Some row groups of Parquet files that any worker can read; an ``Origin`` that reads the records when needed."""

    files: tuple[File, ...]
    schema: Schema
    domain: Domain | None
    n_jobs: int
    sample: tuple[Fraction, bytes, int] | None = None  # a share, a secret key and the number of these row groups
    mask: np.ndarray | None = None  # the rows that are used, as the bits of bytes; None if all are
    part: tuple[float, bytes, int, int] | None = None  # a share, a key and a number as for ``sample``, and 1 for held out

    def counter(self) -> MemoryCounter:
        domain = self.domain
        assert domain is not None
        return self.ask(lambda vault: vault.encode(domain))

    def ask(self, read: Callable[[ParquetVault], Any], id_column: str | None = None) -> Any:
        """What ``read`` gives of the row groups, by passes over them; raises if a file is not the one that was sealed."""
        vault = ParquetVault([*self.files], self.schema, Workers(self.n_jobs), id_column, among=self._among)
        if self.sample is not None:
            share, key, number = self.sample
            # The same rows each time: as long as the stamps are the same, so are rows and their order.
            vault = vault.sampled(share, KeyedEntropy(key, number))
        if self.part is not None:
            held_out, key, number, side = self.part
            vault = vault.hold_out(held_out, KeyedEntropy(key, number))[side]
        return read(vault)

    @property
    def _among(self) -> np.ndarray | None:
        return None if self.mask is None else np.unpackbits(self.mask, count=self.n_rows).astype(bool)

    @property
    def n_rows(self) -> int:
        """The number of rows, by what the files declare, without a sample."""
        return sum(file.n_rows for file in self.files)

    @property
    def n_bytes(self) -> int:
        # What its codes take on disk and in memory: a cluster moves things that it takes for small from worker to worker.
        n_rows = self.n_rows if self.sample is None else round(self.n_rows * self.sample[0])
        n_rows = n_rows if self.mask is None else int(np.unpackbits(self.mask).sum())
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
            self._vault = self._vault or self._files.ask(ParquetVault.loaded)
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


@reporting
def ask_files(files: Files, question: str, arguments: tuple[Any, ...], mask: np.ndarray | None = None) -> Any:
    """What a method ``tally...`` of ``ParquetVault`` gives for some row groups; reads the columns that it needs."""
    return replace(files, mask=mask).ask(lambda vault: getattr(vault, question)(*arguments))


@reporting
def divide_files(files: Files, id_column: str, n_homes: int) -> list[Part]:
    """The usable rows of some row groups, by the homes of their ids."""
    return Found.of(*files.ask(ParquetVault.ids_and_usable, id_column)).divided(n_homes)


@reporting
def ask_kept(schema: Schema, question: str, arguments: tuple[Any, ...], kept: Kept) -> Any:
    """The same for the rows of a sample."""
    return kept.ask(schema, lambda vault: getattr(vault, question)(*arguments))


@reporting
def keep(files: Files, *masks: np.ndarray) -> Kept:
    """The rows that a sample keeps of some row groups, to be kept on the worker; ``masks`` are those of its pieces."""
    return Kept(replace(files, mask=_side_by_side(files, masks)) if masks else files).read()


@reporting
def merge(*tallies: dict[str, int]) -> dict[str, int]:
    """The sums of numbers of records of each text of some partitions."""
    return add_texts(tallies)


@reporting
def encode_files(files: Files, domain: Domain, index: int, mask: np.ndarray | None = None) -> Partition:
    """Some row groups with their records encoded, as a partition to be kept on the worker."""
    return Partition(replace(files, domain=domain, mask=mask), index).encoded()


@reporting
def encode_kept(schema: Schema, domain: Domain, index: int, kept: Kept) -> Partition:
    """The rows of a sample with their records encoded, as a partition to be kept on the worker."""
    return kept.partition(schema, domain, index)


class Folder:
    """A Parquet file or folder that client and workers see under the same path, in pieces of some row groups each."""

    def __init__(
        self,
        schema: Schema,
        pieces: list[Files],
        kept: list[Any] | None = None,
        draw: Draw | None = None,
        masks: list[Any] | None = None,
    ) -> None:
        self.schema, self._pieces = schema, pieces
        self._kept = kept  # futures of the rows that a sample keeps of each piece
        self._draw, self._masks = draw, masks  # of rows of persons: how, and futures of those of each piece that are used

    @classmethod
    def at(cls, path: str | os.PathLike[str], schema: Schema, n_jobs: int, id_column: Any = None) -> "Folder":
        """The file or folder at a path, as it is now."""
        files = open_files(os.fspath(path), schema)
        if id_column is not None:
            check_ids(id_column, files, schema)
        # A file need not have the same number on the disks of all machines.
        pieces = (piece for file in files for piece in _pieces(replace(file, stamp=file.stamp[:-1])))
        return cls(schema, [Files((piece,), schema, None, n_jobs) for piece in pieces])

    def narrowed(self, target: Bounded) -> "Folder":
        """The same files, or the same rows of them, with the target read within another range."""
        schema = replace(self.schema, target=target)
        pieces = [replace(piece, schema=schema) for piece in self._pieces]
        return Folder(schema, pieces, self._kept, self._draw, self._masks)

    def drawn(self, draw: Draw, client: Any) -> "Folder":
        """The same files with the rows of persons that are drawn."""
        return Folder(self.schema, self._pieces, draw=draw, masks=client.compute(self._marked(draw, client)))

    def _marked(self, draw: Draw, client: Any) -> list[Any]:
        """A task for each piece that gives the rows that are used, as the bits of bytes."""
        n_homes = n_homes_for(len(self._pieces), sum(client.nthreads().values()))
        tasks = [Packed(divide_files, piece, draw.column, n_homes) for piece in self._pieces]
        chosen = drawn([delayed(task, pure=False)() for task in tasks], draw, n_homes)
        return [
            delayed(Packed(mark, piece.n_rows), pure=False)(*own) for piece, own in zip(self._pieces, chosen, strict=True)
        ]

    can_sample = True

    def sampled(self, share: Fraction, key: bytes, client: Any) -> "Folder":
        """The same files, of which workers keep a secret sample; which rows are in it follows from the key.

        As few rows are left, pieces are put together, one for each thread: each costs some time in each question.
        """
        groups = _together([*range(len(self._pieces))], sum(client.nthreads().values()))
        whole = [_joined([self._pieces[index] for index in own]) for own in groups]
        if self._draw is None:
            pieces = [replace(piece, sample=(share, key, number)) for number, piece in enumerate(whole)]
            return Folder(
                self.schema, pieces, client.compute([delayed(Packed(keep, piece), pure=False)() for piece in pieces])
            )
        masks = self._marked(replace(self._draw, sample=(share, key)), client)
        tasks = [
            delayed(Packed(keep, piece), pure=False)(*(masks[index] for index in own))
            for piece, own in zip(whole, groups, strict=True)
        ]
        return Folder(self.schema, whole, client.compute(tasks))

    def part(self, share: float, key: bytes, side: int) -> "Folder":
        """The same files with the records that train, or for side 1 those held out: all others that the same key gives.

        Privacy: as ``Operation``, the number being that of the piece.
        """
        assert (self._kept, self._draw) == (None, None)
        pieces = [replace(piece, part=(share, key, number, side)) for number, piece in enumerate(self._pieces)]
        return Folder(self.schema, pieces)

    def hits(self, forest: Forest) -> list[Any]:
        """A task for each piece that gives the hits and misses of a forest on its records."""
        return self._asked("tally_hits", forest)

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
            return self._each([Packed(ask_files, piece, question, arguments) for piece in self._pieces])
        task = Packed(ask_kept, self.schema, question, arguments)
        return [delayed(task, pure=False)(kept) for kept in self._kept]

    def _each(self, tasks: list[Packed]) -> list[Any]:
        """Tasks for the pieces, which are told which rows are used, if not all are."""
        masks = [()] * len(tasks) if self._masks is None else [(mask,) for mask in self._masks]
        return [delayed(task, pure=False)(*mask) for task, mask in zip(tasks, masks, strict=True)]

    def partitions(self, domain: Domain) -> list[Any]:
        """A task for each piece that encodes it on a worker."""
        if self._kept is None:
            return self._each([Packed(encode_files, piece, domain, index) for index, piece in enumerate(self._pieces)])
        tasks = [Packed(encode_kept, self.schema, domain, index) for index in range(len(self._kept))]
        return [delayed(task, pure=False)(kept) for task, kept in zip(tasks, self._kept, strict=True)]


def _together(places: list[int], n_groups: int) -> list[list[int]]:
    """As many groups as are asked for, or as there are places, each of some that stand side by side."""
    n_groups = min(max(n_groups, 1), len(places))
    edges = [group * len(places) // n_groups for group in range(n_groups + 1)]
    return [places[start:end] for start, end in pairwise(edges)]


def _joined(pieces: list[Files]) -> Files:
    """Some pieces as one."""
    return replace(pieces[0], files=tuple(file for piece in pieces for file in piece.files))


def _side_by_side(files: Files, masks: tuple[np.ndarray, ...]) -> np.ndarray:
    """The rows of some pieces that are used, as the bits of bytes, by those of each piece."""
    parts = [np.unpackbits(mask, count=file.n_rows) for file, mask in zip(files.files, masks, strict=True)]
    return np.packbits(np.concatenate(parts))


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
