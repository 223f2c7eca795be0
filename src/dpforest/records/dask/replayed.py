"""Partitions of a table on the workers of a cluster, which follow a log of released values. Sees rows; sums of counts leave.

Everything here runs on workers. Counts are plain: they are added up there, and the sum is sealed where it arrives. A task
never raises; what went wrong comes back as a value, in public words.
"""

from dataclasses import dataclass
from functools import reduce
from threading import Lock
from typing import Any, Protocol

import numpy as np

from dpforest.errors import TableError
from dpforest.mechanisms.entropy import KeyedEntropy
from dpforest.records.dask.tasks import Failure, reporting
from dpforest.records.memory.counter import MemoryCounter

N_DIGEST_BYTES = 32


# A partition was lost or has moved: ask again, with the whole log.
BEHIND = Failure("A partition does not know the log.")
# Operations that take coins as their last argument.
DRAWING = ("deal", "deal_by_errors")


@dataclass(frozen=True, repr=False)
class Operation:
    """One change of what partitions count: a method of ``MemoryCounter``, released values, and a secret key if it draws.

    Privacy:
        Claim: coins of records are independent of one another, and the same whenever the operation is done again.
        Because: they follow from the key, which is drawn for this operation alone, and the number of the partition.
        Assumes: as ``KeyedEntropy``; a partition that is read again has the same records in the same order.
    """

    method: str
    arguments: tuple[Any, ...] = ()
    key: bytes | None = None

    def apply(self, counter: MemoryCounter, index: int) -> MemoryCounter:
        """The records after the operation; ``index`` is the number of the partition."""
        # Without a key there are no coins: what draws some nevertheless fails, and does not draw known ones.
        coins: Any = None if self.key is None else KeyedEntropy(self.key, index)
        if self.method == "hold_out":
            share, part = self.arguments
            return counter.hold_out(share, coins)[part]
        getattr(counter, self.method)(*self.arguments, *([coins] if self.method in DRAWING else []))
        return counter


@dataclass(frozen=True, repr=False)
class Question:
    """A tally that is asked of all partitions, and the operations since ``n_known``, which partitions have done before."""

    n_known: int
    news: tuple[Operation, ...]
    method: str
    arguments: tuple[Any, ...]
    digests: np.ndarray | None = None  # of all partitions when they were first read; for those that begin the log

    @property
    def n_operations(self) -> int:
        """The length of the whole log."""
        return self.n_known + len(self.news)


class Origin(Protocol):
    """Where the records of a partition come from; can be sent from worker to worker."""

    def counter(self) -> MemoryCounter:
        """The records, before any operation."""

    @property
    def n_bytes(self) -> int:
        """Memory that it takes."""

    def digest(self) -> bytes:
        """What tells these records, in this order, from others: ``N_DIGEST_BYTES``."""


class Partition:
    """Records of one partition, with the operations of a log done as far as they were needed.

    Sent to another worker, or made again after one was lost, it is before the first operation and needs the whole log to do
    all of them again. So a worker can go at any time, and no answer changes.
    """

    def __init__(self, origin: Origin, index: int) -> None:
        self._origin, self._index = origin, index
        self._lock = Lock()  # a task that was given up may still run beside its successor
        self._begin()

    def _begin(self) -> None:
        self._counter: MemoryCounter | None = None
        self._n_done = 0

    def encoded(self) -> "Partition":
        """Itself, with its records read."""
        with self._lock:
            self._counter = self._counter or self._origin.counter()
        return self

    def fork(self) -> "Partition":
        """The same records before any operation, for another log."""
        return Partition(self._origin, self._index)

    def answer(self, question: Question) -> np.ndarray | Failure:
        """The counts that are asked for, after all operations of the log; ``BEHIND`` if too few of them are at hand."""
        with self._lock:
            try:
                if self._n_done > question.n_operations:
                    self._begin()
                if self._n_done < question.n_known:
                    return BEHIND
                tally: np.ndarray = getattr(self._after(question), question.method)(*question.arguments)
                return tally
            except BaseException:
                self._begin()  # an operation may be half done
                raise

    @property
    def digest(self) -> np.ndarray:
        return np.frombuffer(self._origin.digest(), dtype=np.int64)

    def enter(self, digests: np.ndarray) -> None:
        """Write its own into those of all."""
        digests[self._index] = self.digest

    def _after(self, question: Question) -> MemoryCounter:
        if self._n_done == 0 and question.digests is not None and (self.digest != question.digests[self._index]).any():
            # Its records would get the coins of others.
            raise TableError("The table gave other rows, or another order, when a lost part of it was computed again.")
        counter = self._counter or self._origin.counter()
        for operation in question.news[self._n_done - question.n_known :]:
            counter = operation.apply(counter, self._index)
        self._counter, self._n_done = counter, question.n_operations
        return counter

    def __sizeof__(self) -> int:
        return self._origin.n_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return Partition, (self._origin, self._index)

    def __repr__(self) -> str:
        return "Partition(...)"


@reporting
def find_digests(n_partitions: int, *partitions: Partition) -> np.ndarray:
    """Zeros ``(n_partitions, 4)`` but for the digests of these partitions, so that the sum has those of all."""
    digests = np.zeros((n_partitions, N_DIGEST_BYTES // 8), dtype=np.int64)
    for partition in partitions:
        partition.enter(digests)
    return digests


@reporting
def fork(partition: Partition) -> Partition:
    """The partition before any operation, for another log."""
    return partition.fork()


@reporting
def add(*parts: np.ndarray) -> np.ndarray:
    """The sum of counts of some partitions."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


@reporting
def answer(question: Question, *partitions: Partition) -> np.ndarray | Failure:
    """The counts of some partitions of a worker, added up."""
    total: np.ndarray | Failure = reduce(add, (partition.answer(question) for partition in partitions))
    return total
