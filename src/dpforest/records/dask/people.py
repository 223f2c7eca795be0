"""Which rows of a person a cluster uses: ids of one person are brought together, and rows drawn there. Sees ids, on workers.

Every id has a home, one of some tasks. A partition divides its usable rows by the homes of their ids, each home draws for
its persons as it is done in memory, and a partition hears from each home which of its rows are used. Only ids and places of
rows travel, from worker to worker.
"""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from dask import delayed

from dpforest.mechanisms.entropy import KeyedEntropy
from dpforest.records.dask.tasks import Packed, reporting
from dpforest.records.people import distinct_ids, draw_persons, draw_rows, number_persons

# The most tasks by which partitions and homes hear of one another; a scheduler takes about a millisecond for each.
MOST_MESSAGES = 1 << 14
# Ids, the index of each row's id among them, and the places of these rows in their partition.
Part = tuple[list[Any], np.ndarray, np.ndarray]


@dataclass(frozen=True, repr=False)
class Draw:
    """Which rows of persons are used: at most ``most`` of each, drawn by a secret key.

    Privacy:
        Claim: as ``records.people.People``; the same rows are drawn whenever a lost part is computed again.
        Because: equal ids have one home, whatever partition or type they come in, so the rows of a person are drawn
            together, by the sampler of ``People``. Its coins follow from the key and the number of the home, and the order
            of rows from partitions, which are read again as they were or refused.
        Assumes: as ``People`` and ``KeyedEntropy``; workers may see ids and keys.
    """

    column: str  # of ids
    most: int
    key: bytes
    sample: tuple[Fraction, bytes] | None = None  # the share of persons that a secret sample keeps, and its key


@dataclass(frozen=True, repr=False)
class Found:
    """The usable rows of a partition by person."""

    ids: list[Any]
    index: np.ndarray  # (n_rows,) of each row's id; -1 for a row without one
    usable: np.ndarray  # (n_rows,) whether the target is not left out

    @classmethod
    def of(cls, columns: list[Any], usable: np.ndarray) -> "Found":
        """The rows of a partition whose ids are in columns, each of which continues the one before."""
        persons: dict[Any, int] = {}
        index = number_persons(*map(distinct_ids, columns), persons=persons)
        return cls([*persons], index, usable)

    def divided(self, n_homes: int) -> list[Part]:
        """The parts of the usable rows that belong to each home."""
        rows = np.flatnonzero(self.usable & (self.index >= 0))
        homes = np.array([home_of(own, n_homes) for own in self.ids], dtype=np.int64)
        of_rows = homes[self.index[rows]] if len(rows) else np.empty(0, dtype=np.int64)
        return [self._part(rows[of_rows == home]) for home in range(n_homes)]

    def _part(self, rows: np.ndarray) -> Part:
        values, inverse = np.unique(self.index[rows], return_inverse=True)
        return [self.ids[value] for value in values], inverse.reshape(-1), rows

    def digest(self) -> bytes:
        """A hash that tells these ids and targets, in this order, from others."""
        found = hashlib.blake2b(repr([*map(_written, self.ids)]).encode("utf-8", "surrogatepass"))
        found.update(self.index.tobytes() + self.usable.tobytes())
        return found.digest()


def _written(own: Any) -> Any:
    """An id as values that Python can write: it refuses whole numbers of many decimal digits, but none in hexadecimal."""
    return (hex(own.numerator), hex(own.denominator)) if isinstance(own, int | Fraction) else own


def home_of(own: Any, n_homes: int) -> int:
    """The home of an id, the same for equal ids on all workers: Python hashes equal numbers alike, and text by a secret."""
    if isinstance(own, str | tuple):
        text = own.encode("utf-8", "surrogatepass") if isinstance(own, str) else bytes.fromhex(own[1])
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") % n_homes
    return hash(own) % n_homes


@reporting
def draw_at_home(draw: Draw, number: int, *parts: Part) -> list[np.ndarray]:
    """For each partition the places of the rows that are used, of the persons at this home."""
    persons = number_persons(*((ids, inverse) for ids, inverse, _ in parts))
    kept = draw_rows(persons, draw.most, KeyedEntropy(draw.key, number))
    if draw.sample is not None:
        share, key = draw.sample
        kept &= draw_persons(persons, share, KeyedEntropy(key, number))
    ends = np.cumsum([len(rows) for _, _, rows in parts])
    return [rows[own] for (_, _, rows), own in zip(parts, np.split(kept, ends[:-1]), strict=True)]


@reporting
def take(index: int, parts: list[Any]) -> Any:
    """One of the results of a task."""
    return parts[index]


@reporting
def mark(n_rows: int, *places: np.ndarray) -> np.ndarray:
    """The rows of a partition that are used, as the bits of bytes."""
    mask = np.zeros(n_rows, dtype=bool)
    mask[np.concatenate(places)] = True
    return np.packbits(mask)


def n_homes_for(n_partitions: int, n_threads: int) -> int:
    """The number of homes: one for each thread, unless there are few partitions, or very many."""
    return max(1, min(n_partitions, n_threads, MOST_MESSAGES // n_partitions))


def drawn(divided: list[Any], draw: Draw, n_homes: int) -> list[list[Any]]:
    """For each partition, of which tasks divide the rows, tasks that give the places of the rows that each home keeps."""
    homes = [
        delayed(Packed(draw_at_home, draw, home), pure=False)(
            *(delayed(Packed(take, home), pure=False)(parts) for parts in divided)
        )
        for home in range(n_homes)
    ]
    return [[delayed(Packed(take, index), pure=False)(home) for home in homes] for index in range(len(divided))]
