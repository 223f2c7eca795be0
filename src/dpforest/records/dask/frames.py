"""A dask dataframe, and how workers read its partitions. Sees rows; they stay on workers.

``Frames`` is the trainer's side and knows columns and types only; the rest runs on workers.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np
from dask import delayed

from dpforest.common.threads import Workers
from dpforest.errors import TableError
from dpforest.records.categories import tally_texts
from dpforest.records.columns import (
    column_kind,
    count_by_edges,
    read_columns,
    read_numbers,
    read_target,
    read_values,
    require_columns,
)
from dpforest.records.dask.people import Draw, Found, drawn, n_homes_for, take
from dpforest.records.dask.replayed import N_DIGEST_BYTES, OTHER_ROWS, Partition
from dpforest.records.dask.tasks import Packed, reporting
from dpforest.records.given import to_objects
from dpforest.records.memory.counter import MemoryCounter
from dpforest.records.memory.vault import count_around, encode
from dpforest.records.people import check_id_column, read_ids
from dpforest.schema import Bounded, Schema, Target
from dpforest.schema.domain import Domain


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

    def persons(self, frame: Any, id_column: str) -> Found:
        """The rows of a partition by person."""
        return Found.of([self._column(_framed(frame), id_column)], self.target_codes(frame) >= 0)

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
def divide_frame(reading: Reading, id_column: str, n_homes: int, frame: Any) -> list[Any]:
    """The usable rows of a partition of a dataframe by the homes of their ids, and last a digest of all of its rows."""
    found = reading.persons(frame, id_column)
    return [*found.divided(n_homes), found.digest()]


@reporting
def known(parts: list[Any], digest: bytes) -> list[Any]:
    """What ``divide_frame`` gave, if it is of the rows that the trainer has the digest of."""
    if parts[-1] != digest:
        raise TableError(OTHER_ROWS)
    return parts


@reporting
def keep_rows(reading: Reading, id_column: str, frame: Any, digest: bytes, *places: np.ndarray) -> Any:
    """A partition of a dataframe without the rows that are not used; to be kept on the worker."""
    if reading.persons(frame, id_column).digest() != digest:
        raise TableError(OTHER_ROWS)  # places would be those of other rows
    return _framed(frame)[np.sort(np.concatenate(places))].to_native()


class Frames:
    """A dask dataframe, as the trainer sees it: its columns and types, and tasks for workers."""

    # Its rows may come in another order when they are computed again, and would then have other coins.
    can_sample = False

    def __init__(
        self, table: Any, schema: Schema, n_jobs: int, id_column: Any = None, kept: list[Any] | None = None
    ) -> None:
        self.schema = schema
        given = [str(name) for name in table.columns]
        wanted = [*schema.features, schema.target.name]
        require_columns(given, wanted, "the dataframe")
        if id_column is not None:
            check_id_column(id_column, given, schema, "the dataframe")
            wanted.append(id_column)
        names = {name: table.columns[given.index(name)] for name in wanted}
        self._table, self._names, self._id_column = table, names, id_column
        self._kept = kept  # futures of the partitions, of which some rows were drawn; None if all are used
        self._reading = Reading(schema, self._kinds(), names, n_jobs=n_jobs)

    def _kinds(self) -> dict[str, str]:
        """The kind of each column, by the types that the whole dataframe declares; raises if they do not fit the schema."""
        import pandas as pd

        types = self._table.dtypes
        empty = pd.DataFrame({name: pd.Series(dtype=types[given]) for name, given in self._names.items()})
        target = self.schema.target
        read_columns(empty[[*self.schema.features]], self.schema)
        read_target(empty[target.name], target)
        if self._id_column is not None:
            read_ids(empty[self._id_column])
        frame = nw.from_native(empty, eager_only=True)
        return {name: column_kind(frame.get_column(name))[0] for name in self._names}

    def narrowed(self, target: Bounded) -> "Frames":
        """The same dataframe with the target read within another range."""
        schema = replace(self.schema, target=target)
        return Frames(self._table, schema, self._reading.n_jobs, self._id_column, self._kept)

    def drawn(self, draw: Draw, client: Any) -> "Frames":
        """The same dataframe with the rows of persons that are drawn, which workers keep in memory.

        Privacy:
            Claim: no more than ``draw.most`` rows of a person are used, whatever is lost and computed again.
            Because: the trainer has the digest of each partition before a row is drawn, and sends it as a value. Ids and
                rows of a partition that differs from it are refused, so all places are those of one draw.
            Assumes: as ``Draw``; workers and scheduler may see digests.
        """
        # Held until tasks that need them are sent: rows that are computed twice may come in another order, and be refused.
        frames = client.compute(self._frames([*self._names]))
        n_homes = n_homes_for(len(frames), sum(client.nthreads().values()))
        divide = Packed(divide_frame, self._reading, draw.column, n_homes)
        divided = client.compute([delayed(divide, pure=False)(frame) for frame in frames])
        given = [delayed(Packed(take, n_homes), pure=False)(parts) for parts in divided]
        digests = client.compute(delayed(given, pure=False)).result()
        same = [delayed(Packed(known), pure=False)(*pair) for pair in zip(divided, digests, strict=True)]
        chosen, task = drawn(same, draw, n_homes), Packed(keep_rows, self._reading, draw.column)
        kept = [
            delayed(task, pure=False)(frame, digest, *own)
            for frame, digest, own in zip(frames, digests, chosen, strict=True)
        ]
        return Frames(self._table, self.schema, self._reading.n_jobs, self._id_column, client.compute(kept))

    def _frames(self, names: list[str]) -> list[Any]:
        """The partitions, with some columns at least."""
        if self._kept is not None:
            return self._kept
        return list(self._table[[self._names[name] for name in names]].to_delayed())

    def counts(self) -> list[Any]:
        """A task for each partition that gives its number of records."""
        return self._tasks_of_target(Packed(count_frame, self._reading))

    def target_counts(self, edges: np.ndarray) -> list[Any]:
        """A task for each partition that gives its number of records by the edges at or below their target."""
        return self._tasks_of_target(Packed(count_targets_of_frame, self._reading, edges))

    def _tasks_of_target(self, count: Packed) -> list[Any]:
        return [delayed(count, pure=False)(frame) for frame in self._frames([self.schema.target.name])]

    def counts_around(self, domain: Domain, centres: Mapping[int, float]) -> list[Any]:
        """A task for each partition that gives its numbers of records in each bin around some centres."""
        task = Packed(count_frame_around, self._reading, domain, centres)
        return [delayed(task, pure=False)(frame) for frame in self._frames([*self._names])]

    def text_counts(self, name: str) -> list[Any]:
        """A task for each partition that gives the number of records of each text of a column."""
        frames = self._frames([name, self.schema.target.name])
        return [delayed(Packed(count_texts_of_frame, self._reading, name), pure=False)(frame) for frame in frames]

    def partitions(self, domain: Domain) -> list[Any]:
        """A task for each partition that encodes it on a worker."""
        frames = self._frames([*self._names])
        reading = replace(self._reading, domain=domain)
        return [delayed(Packed(encode_frame, reading, index), pure=False)(frame) for index, frame in enumerate(frames)]
