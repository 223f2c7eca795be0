"""A table on a cluster, as the trainer sees it, and what workers answer. Sees sums, codes, and the rows that are kept."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from dpforest.common.threads import Workers
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.mechanisms.entropy import KeyedEntropy
from dpforest.mechanisms.exact import draw_below
from dpforest.records.batch import Batch, Wanted
from dpforest.records.coins import draw_kept
from dpforest.records.counter import Guarded
from dpforest.records.held import Held
from dpforest.records.scan import Pieces, Receive, Work
from dpforest.records.source import Progress
from dpforest.records.sources.rows import Ids, pack, unpack
from dpforest.records.sources.tasks import Failure

T = TypeVar("T")
Types = dict[str, str]  # the type of each column that was read, by name
# What a worker does with the batch of the partition of some number.
Task = Callable[[int, Batch], Any]

CHANGED = (
    "The table on the cluster changed while it was read: a part of it came with other rows or types than before. What was "
    "charged stays charged. Train on a table that stays as it is, such as a copy in Parquet files."
)


@dataclass(frozen=True, repr=False)
class Answer:
    """What a worker gives of a partition."""

    number: int  # of the partition
    n_rows: int
    types: Types
    found: Any


class ClusterTable(Guarded):
    """A table whose rows are on a cluster: workers answer for each partition, the trainer adds up and keeps.

    Privacy:
        Claim: sums are those of the same rows in memory; a secret sample keeps each record with probability ``share``,
            independently of all others; no error repeats a value.
        Because: what is done on a worker is a function of the rows of a partition and of public values, and sums do not
            depend on their order. Coins follow from a secret key that is drawn for one sample, and from the number of the
            partition, so each record has one coin; the rows that it selects are delivered once, a second answer for a
            partition is refused, and all later questions are asked of what was delivered. A partition that is computed
            again, even in another order, can then change nothing. Tasks give a message with public facts instead of
            raising.
        Assumes: workers, scheduler and what connects them may see rows and keys; see ``KeyedEntropy``. The cluster gives
            each row of the table in one partition.
    """

    counts = works = True
    names: list[str]  # of all columns
    engine: str
    whole = False  # whether only the table as a whole is known to stay the same, and its division into partitions is not

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._noted: dict[int, tuple[int, Types]] = {}  # by partition, what its first answer said

    @abstractmethod
    def answers(self, wanted: Wanted, task: Task) -> Iterable[Answer | Failure]:
        """What workers answer for each partition, in the order of their numbers; may raise anything."""

    def each(self, wanted: Wanted, work: Work[T], receive: Receive[T], workers: Workers) -> None:
        """Call ``work`` for each partition, on a worker, and ``receive`` in the order of rows; see ``Elsewhere``."""
        for first, found in self._asked(wanted, partial(asked, work)):
            receive(first, found)

    def kept(self, wanted: Wanted) -> Pieces:
        """All rows, which are kept here."""
        return self._delivered(wanted, partial(delivered, wanted, None, b""))

    def sampled(self, wanted: Wanted, share: Fraction, entropy: Entropy) -> Pieces:
        """The rows that a secret sample keeps, which are kept here; workers toss each coin once."""
        return self._delivered(wanted, partial(delivered, wanted, share, _draw_key(entropy)))

    def _delivered(self, wanted: Wanted, task: Task) -> Pieces:
        held, persons = Held(), dict[Any, int]()
        for first, (table, ids) in self._asked(wanted, task):
            if len(table):
                held.add(first, unpack(table, ids, wanted, persons))
        return Pieces.of_tables(held, self.progress)

    def _asked(self, wanted: Wanted, task: Task) -> Iterator[tuple[int, Any]]:
        """What each partition gives, with the place of its first row; raises ``TableError`` if one failed or changed."""
        first, last, all_types = 0, -1, Types()
        with _public_errors(self.engine):
            answers = iter(self.answers(wanted, task))
        while True:
            with _public_errors(self.engine):
                answer = next(answers, None)
            if answer is None:
                break
            if isinstance(answer, Failure):
                raise TableError(answer.message)
            if answer.number <= last:
                raise TableError(
                    f"The {self.engine} cluster answered twice for a part of the table. What was charged stays charged."
                )
            last = answer.number
            if not self.whole:
                self._note(answer.number, answer.n_rows, answer.types)
            yield first, answer.found
            first += answer.n_rows
            all_types |= answer.types
        if self.whole:
            self._note(0, first, all_types)

    def _note(self, number: int, n_rows: int, types: Types) -> None:
        """Raise ``TableError`` unless the number of rows and the types are those of earlier answers."""
        n_before, known = self._noted.setdefault(number, (n_rows, {}))
        if n_rows != n_before or any(known.setdefault(name, type_) != type_ for name, type_ in types.items()):
            raise TableError(CHANGED)

    def close(self) -> None:
        """Do nothing: nothing of a fit stays on workers."""


def asked(work: Work[T], number: int, batch: Batch) -> T:
    """What a question gives for a partition."""
    return work(batch, Workers())


def delivered(wanted: Wanted, share: Fraction | None, key: bytes, number: int, batch: Batch) -> tuple[Any, Ids | None]:
    """The rows of a partition that a sample keeps, by coins of this partition; all rows without a share."""
    return pack(batch, wanted, None if share is None else draw_kept(batch.n_rows, share, KeyedEntropy(key, number)))


def types_of(table: pa.Table) -> Types:
    """The name of the type of each column."""
    return {field.name: str(field.type) for field in table.schema}


def _draw_key(entropy: Entropy) -> bytes:
    """A secret of 256 bits from which workers draw the coins of one sample."""
    key = np.empty(KeyedEntropy.N_KEY_BYTES, dtype=np.int64)
    entropy.run(draw_below, key.size, 256, key)
    return key.astype(np.uint8).tobytes()


@contextmanager
def _public_errors(engine: str) -> Iterator[None]:
    """Turn whatever a cluster raises into a ``TableError`` with public facts only: its messages may quote rows."""
    try:
        yield
    except Exception:
        raise TableError(
            f"The {engine} cluster gave no answer. What was charged stays charged. The logs of workers say more; they need "
            "the same versions of the library and of its extra as the trainer."
        ) from None
