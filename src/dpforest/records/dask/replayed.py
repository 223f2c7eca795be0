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
# The answer of a partition that was lost or has moved. The question is then asked again with the whole log.
BEHIND = Failure("A partition does not know the log.")
OTHER_ROWS = (
    "The table gave other rows, or another order, when a lost part of it was computed again. What was charged stays "
    "charged. Write the table to Parquet files, and train on these."
)
# Methods that take coins as their last argument.
DRAWING = ("deal", "deal_by_errors", "divide")


@dataclass(frozen=True, repr=False)
class Operation:
    """One entry of the log: a method of ``MemoryCounter``, its arguments, which are released, and a secret key if it draws.

    Privacy:
        Claim: coins of records are independent of one another, and the same whenever the operation is done again.
        Because: they follow from the key, which is drawn for this operation alone, and the number of the partition.
        Assumes: as ``KeyedEntropy``; a partition that is read again has the same records in the same order.
    """

    method: str
    arguments: tuple[Any, ...] = ()
    key: bytes | None = None

    def apply(self, counter: MemoryCounter, index: int) -> MemoryCounter:
        """The counter after the operation, which may be the same object; ``index`` is the number of the partition."""
        # Without a key there are no coins: a method that draws nevertheless fails, instead of drawing coins that are known.
        coins: Any = None if self.key is None else KeyedEntropy(self.key, index)
        if self.method == "hold_out":
            share, part = self.arguments
            return counter.hold_out(share, coins)[part]
        getattr(counter, self.method)(*self.arguments, *([coins] if self.method in DRAWING else []))
        return counter


@dataclass(frozen=True, repr=False)
class Question:
    """A method ``tally_...`` that every partition is to answer, with the operations that it has to do before."""

    n_known: int  # the number of operations that partitions have done before, unless they were lost
    news: tuple[Operation, ...]  # the operations of the log after these
    method: str
    arguments: tuple[Any, ...]
    digests: np.ndarray | None = None  # of all partitions when they were first read; checked by those that begin the log

    @property
    def n_operations(self) -> int:
        """The length of the whole log."""
        return self.n_known + len(self.news)


class Origin(Protocol):
    """The source of a partition's records, which can be sent from worker to worker."""

    def counter(self) -> MemoryCounter:
        """A new counter of the records, before any operation."""

    @property
    def n_bytes(self) -> int:
        """The memory that the records take, as the cluster is told."""

    def digest(self) -> bytes:
        """A hash of ``N_DIGEST_BYTES`` that tells these records, in this order, from others."""


class Partition:
    """The records of one partition on a worker, after as many operations of the log as were needed so far.

    A partition that is sent to another worker, or made again after a worker was lost, is before the first operation and
    needs the whole log. So a worker can be lost at any time, and no answer changes.
    """

    def __init__(self, origin: Origin, index: int, counter: MemoryCounter | None = None) -> None:
        self._origin, self._index = origin, index
        self._lock = Lock()  # a task that was given up may still run while its successor does
        self._begin(counter)

    def _begin(self, counter: MemoryCounter | None = None) -> None:
        """Go back to before the first operation; without a counter of the records they are read again when needed."""
        self._counter = counter
        self._n_done = 0

    def encoded(self) -> "Partition":
        """The partition itself, with its records read."""
        with self._lock:
            self._counter = self._counter or self._origin.counter()
        return self

    def fork(self) -> "Partition":
        """A new partition of the same records, before any operation, for another log."""
        return Partition(self._origin, self._index)

    def answer(self, question: Question) -> np.ndarray | Failure:
        """The counts that are asked for, after all operations of the log; ``BEHIND`` if some it needs are not at hand."""
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
        """The hash of its records as 4 integers."""
        return np.frombuffer(self._origin.digest(), dtype=np.int64)

    def enter(self, digests: np.ndarray) -> None:
        """Write the digest of this partition to its row of ``digests`` ``(n_partitions, 4)``."""
        digests[self._index] = self.digest

    def _after(self, question: Question) -> MemoryCounter:
        """The counter after all operations of the log."""
        if self._n_done == 0 and question.digests is not None and (self.digest != question.digests[self._index]).any():
            # Its records would get the coins of others.
            raise TableError(OTHER_ROWS)
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
    """Digests ``(n_partitions, 4)`` of these partitions, and zeros for others, so that the sum over workers has all."""
    digests = np.zeros((n_partitions, N_DIGEST_BYTES // 8), dtype=np.int64)
    for partition in partitions:
        partition.enter(digests)
    return digests


@reporting
def fork(partition: Partition) -> Partition:
    """A new partition of the same records, before any operation, for another log."""
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
