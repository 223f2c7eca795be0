"""Vault and counter of a table on a Dask cluster, as the trainer sees it. Sees sums of counts, and seals them.

Rows and codes stay on workers.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpforest.common.progress import in_parts
from dpforest.errors import MissingExtraError, ParameterError, TableError, shown
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.mechanisms.entropy import KeyedEntropy
from dpforest.mechanisms.exact import draw_below
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import AllTrees, Assignment, Judged, Openable, Scored, Valued, Weighted
from dpforest.records.dask.holders import LOST, Branch, Holder, tree
from dpforest.records.dask.replayed import BEHIND, Operation, Question, add, answer, find_digests, fork
from dpforest.records.dask.tasks import Failure, Packed
from dpforest.records.memory.counter import Guarded, MemoryCounter
from dpforest.records.people import People
from dpforest.schema import Bounded, Schema
from dpforest.schema.domain import Domain

if TYPE_CHECKING:  # needs the extra
    from dpforest.records.dask.frames import Frames
    from dpforest.records.dask.partitions import Folder

# The number of partial sums that one task adds up.
ADDED_AT_ONCE = 8
# After this many seconds without an answer the trainer looks whether a worker was lost.
PATIENCE = 1.0
NO_HOME = ""  # in the place of a worker's address, for a partition that no worker has
MOST_LOSSES = 20  # in the course of one question
AWAKE = 60.0  # seconds after which a cluster that is asked by actors alone is given a task


class DaskVault(Guarded):
    """A dask dataframe, or a Parquet file or folder that workers can read, checked and not yet encoded.

    Privacy: as ``Vault``; columns and types are taken as public, and are those that the table declares as a whole. A
    partition that differs from them has missing values, never an error.
    """

    gaps: ClassVar[dict[type, str]] = {
        Openable: "Rows stay on the workers of a cluster. Use variant='private', or fit a table in memory."
    }

    def __init__(
        self, table: "Frames | Folder", client: Any, groups: str | None = None, people: People | None = None
    ) -> None:
        self.schema = table.schema
        self._given = table
        self._client = client
        self._groups, self._people = groups, people
        self.in_one_book = False

    @classmethod
    def seal(
        cls,
        table: Any,
        schema: Schema,
        client: Any = None,
        n_jobs: int = 1,
        groups: Any = None,
        people: People | None = None,
    ) -> "DaskVault":
        """The vault of a table whose columns and types are checked; no row is read yet.

        ``client`` is by default the current one; ``n_jobs`` is the number of threads that count one partition, beside the
        partitions that a worker counts at the same time. ``groups`` is the name of the column of ids, if the unit of privacy
        is a person.
        """
        client = _current_client() if client is None else client
        from dpforest.records.dask.frames import Frames
        from dpforest.records.dask.partitions import Folder

        if isinstance(table, str | os.PathLike):
            return cls(Folder.at(table, schema, n_jobs, groups), client, groups, people)
        if not all(hasattr(table, name) for name in ("to_delayed", "columns", "dtypes")):
            raise TableError(f"Expected a dask dataframe or the path of a Parquet folder, not {shown(table)}.")
        return cls(Frames(table, schema, n_jobs, groups), client, groups, people)

    @cached_property
    def _table(self) -> "Frames | Folder":
        """The table; of each person as many rows as are used, drawn once, so that all answers are about one set."""
        if self._people is None or self._groups is None:
            return self._given
        from dpforest.records.dask.people import Draw

        with _public_errors():
            return self._given.drawn(Draw(self._groups, self._people.most, _draw_key(self._people.entropy)), self._client)

    @property
    def counter(self) -> "type[DaskCounter]":
        """The type of counter that ``encode`` will give."""
        return DaskCounter

    def count(self) -> Sealed[np.ndarray]:
        """The sealed number of records, shape ``(1,)``."""
        return self._total(self._table.counts())

    def count_around(self, domain: Domain, centres: Mapping[int, float]) -> Sealed[np.ndarray]:
        """Sealed numbers of records in each bin around some centres; see ``Source``."""
        return self._total(self._table.counts_around(domain, centres))

    def count_targets(self, edges: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed numbers of records by the public edges at or below their target; see ``Source``."""
        return self._total(self._table.target_counts(edges))

    def _total(self, counts: list[Any]) -> Sealed[np.ndarray]:
        """The sealed sum of what tasks count on workers."""
        with _public_errors():
            total = self._client.compute(_sum(counts)).result()
        return Sealed(_checked(total))

    def narrowed(self, target: Bounded) -> "DaskVault":
        """The vault of the same records with the target read within another range."""
        return DaskVault(self._table.narrowed(target), self._client)

    @property
    def can_sample(self) -> bool:
        """Whether the rows of a partition are the same, in the same order, whenever they are read: those of files are."""
        return self._given.can_sample and not self.in_one_book

    def sampled(self, share: Fraction, entropy: Entropy) -> "DaskVault":
        """The vault of a secret sample of the records, which workers draw by a key; see ``Source``."""
        with _public_errors():
            return DaskVault(self._folder.sampled(share, _draw_key(entropy), self._client), self._client)

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[DaskVault, DaskVault]":
        """Two vaults, of the records to train on and of those held out, which workers tell by one key; see ``Searched``."""
        key = _draw_key(entropy)
        return self._part(share, key, 0), self._part(share, key, 1)

    def _part(self, share: float, key: bytes, side: int) -> "DaskVault":
        part = DaskVault(self._folder.part(share, key, side), self._client)
        part.in_one_book = True
        return part

    def hits(self, forest: Forest) -> Sealed[np.ndarray]:
        """Sealed sums ``(1, 2)`` of hits and misses of a released forest on these records; see ``tally_hits``."""
        return self._total(self._folder.hits(forest))

    @property
    def _folder(self) -> "Folder":
        """The table, if it is one of files."""
        from dpforest.records.dask.partitions import Folder

        assert isinstance(self._table, Folder)
        return self._table

    def count_texts(self, name: str) -> Sealed[dict[str, int]]:
        """The sealed number of records of each text of a column, which workers have added up."""
        from dpforest.records.dask.partitions import merge

        with _public_errors():
            total = self._client.compute(_sum(self._table.text_counts(name), merge)).result()
        return Sealed(_checked(total))

    def encode(self, domain: Domain, progress: Callable[[str], None] = lambda step: None) -> "DaskCounter":
        """A counter of the encoded records, which are in the memory of the workers."""
        from distributed import as_completed

        with _public_errors():
            partitions = self._client.compute(self._table.partitions(domain))
        show = in_parts("partitions encoded", len(partitions), progress)
        for n_done, _ in enumerate(as_completed(partitions), 1):
            show(n_done)
        show(len(partitions))
        no_codes, no_targets = np.empty((domain.n_features, 0), dtype=domain.dtype), np.empty(0, dtype=np.int32)
        empty = MemoryCounter(no_codes, no_targets, domain, self.schema.target)
        counter = DaskCounter(partitions, empty, self._client)
        counter.note_digests()
        return counter

    def close(self) -> None:
        """Do nothing: workers free what a fit has made there when the counter is freed."""


def asked(tally: str) -> Callable[..., Sealed[np.ndarray]]:
    """The method that asks all partitions for a tally, a method of ``MemoryCounter``, and gives the sealed sum."""
    return lambda counter, *arguments: counter.ask(tally, *arguments)


def done(operation: str) -> Callable[..., None]:
    """The method that adds an operation without coins to the log."""
    return lambda counter, *arguments: counter.do(operation, *arguments)


class DaskCounter(Guarded, Weighted, Scored, Valued, Judged):
    """Encoded records on workers; every answer is the sum over partitions. For its methods see ``records.base``.

    What changes how records count is a log of operations, which each partition does before it answers. A partition that was
    lost with its worker is encoded again and does the log from its beginning: with the same keys, so with the same coins.

    Privacy:
        Claim: answers are those of ``MemoryCounter`` on all records together, and sealed; a lost worker changes no answer.
        Because: a record is in one partition, counts of partitions add up, and a partition is a function of its rows and of
            the log. The log has released values and secret keys only, each key for the coins of one operation.
            A partition that is made again from other rows, or in another order, refuses. Those of a dataframe are known by
            digests of their codes, which stay here, as rows do in a table in memory, and are sent to workers only.
        Assumes: workers, scheduler and what connects them may see rows and keys; see ``KeyedEntropy``. Nobody reads digests
            in the memory of the trainer: by one they could tell whether they guessed all rows of a partition.
    """

    def __init__(self, partitions: list[Any], empty: MemoryCounter, client: Any, log: tuple[Operation, ...] = ()) -> None:
        self.domain, self.target, self.workers = empty.domain, empty.target, empty.workers
        self._partitions = partitions  # futures
        self._client = client
        # A counter without records that does every operation too: it knows what is public about the state, such as widths,
        # and raises the errors of a wrong call.
        self._empty = empty
        self._digests: np.ndarray | None = None
        self._log = log
        self._n_known = 0  # the number of operations that partitions have done, unless they were lost
        self._homes: set[str] = set()  # the addresses of the workers that have partitions
        self._holders: list[Any] = []  # futures of actors, one on each of these workers
        self._first: Any = None  # the method of the actor that answers for all, and the holders below it
        self._below: list[Branch] = []
        self._awake: Any = None  # a future, see ``_keep_awake``
        self._awake_until = 0.0
        self._note_weights()

    def _note_weights(self) -> None:
        self.most_per_feature, self.most_per_node = self._empty.most_per_feature, self._empty.most_per_node

    @property
    def code_width(self) -> int:
        return self._empty.code_width

    def do(self, method: str, *arguments: Any, key: bytes | None = None) -> None:
        """Add an operation to the log; partitions do it before their next answer."""
        operation = Operation(method, arguments, key)
        self._empty = operation.apply(self._empty, 0)
        self._log += (operation,)
        self._note_weights()

    def note_digests(self) -> None:
        """Keep the digests of all partitions, by which they are checked if they are made again; raises if one failed."""
        self._digests = _checked(self._sum_answers(Packed(find_digests, len(self._partitions))))

    def ask(self, method: str, *arguments: Any) -> Sealed[np.ndarray]:
        """The sealed sum of what a method ``tally_...`` gives for all partitions, after all operations of the log."""
        counts = self._sum_answers(Packed(answer, self._question(self._n_known, method, arguments)))
        if isinstance(counts, Failure) and counts == BEHIND:
            counts = self._sum_answers(Packed(answer, self._question(0, method, arguments)))
        self._n_known = len(self._log)
        return Sealed(_checked(counts))

    def _question(self, n_known: int, method: str, arguments: tuple[Any, ...]) -> Question:
        return Question(n_known, self._log[n_known:], method, arguments, None if n_known else self._digests)

    def _sum_answers(self, task: Packed) -> Any:
        """The sum of what ``task`` gives for all partitions; asked again if a worker is lost meanwhile."""
        with _public_errors():
            for _ in range(MOST_LOSSES):
                if self._first is not None or self._find_holders():
                    self._keep_awake()
                    counts = self._awaited(self._first(task, Packed(add), self._below))
                    if not isinstance(counts, Failure) or counts != LOST:
                        return counts
                # A worker was lost. The scheduler has its partitions made again elsewhere.
                self._first, self._holders = None, []
            raise TableError(LOST.message)

    def _find_holders(self) -> bool:
        """Make an actor on each worker that has partitions; False if one of them is lost meanwhile.

        Actors are bound to these workers: a cluster that moves partitions to balance its load does not know of the log that
        they would have to do again.
        """
        from distributed import wait

        wait(self._partitions)
        held, n_threads = self._client.who_has(self._partitions), self._client.nthreads()
        by_home: dict[str, list[Any]] = {}
        for partition in self._partitions:
            if partition.status == "error":
                partition.result()
            by_home.setdefault((*held.get(partition.key, ()), NO_HOME)[0], []).append(partition)
        if not by_home.keys() <= n_threads.keys():
            return False
        self._homes, bound = {*by_home}, {"actor": True, "pure": False, "allow_other_workers": False}
        self._holders = [
            self._client.submit(Holder, n_threads[home], *own, workers=[home], **bound) for home, own in by_home.items()
        ]
        actors = [self._awaited(holder) for holder in self._holders]
        if any(isinstance(actor, Failure) for actor in actors):
            return False
        *_, self._below = tree([*zip(by_home, (holder.key for holder in self._holders), strict=True)], ADDED_AT_ONCE)
        self._first = actors[0].sum
        return True

    def _awaited(self, future: Any) -> Any:
        """The result of a future, or of a call of an actor; ``LOST`` if a worker that has partitions is lost meanwhile."""
        patience = PATIENCE
        try:
            while (found := _fetch(future, patience)) is None:
                patience *= 2  # the sum may be large, and the network slow
                if self._is_lost():
                    return LOST
            return found
        except OSError:
            return LOST  # which the scheduler need not have noticed yet
        except Exception:
            if self._is_lost():
                return LOST
            raise

    def _is_lost(self) -> bool:
        return not self._homes <= self._client.nthreads().keys()

    def _keep_awake(self) -> None:
        """Have the scheduler see a task now and then: it may close a cluster that has none, and counts no actors."""
        if time.monotonic() > self._awake_until:
            self._awake = self._client.submit(Packed(add), np.zeros(1), pure=False)
            self._awake_until = time.monotonic() + AWAKE

    def deal(self, assignment: Assignment, entropy: Entropy) -> None:
        self.do("deal", assignment, key=None if isinstance(assignment, AllTrees) else _draw_key(entropy))

    def deal_by_errors(self, forest: Forest, n_trees: int, entropy: Entropy) -> None:
        self.do("deal_by_errors", forest, n_trees, key=_draw_key(entropy))

    def divide(self, n_batches: int, entropy: Entropy) -> None:
        self.do("divide", n_batches, key=_draw_key(entropy))

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[DaskCounter, DaskCounter]":
        key = _draw_key(entropy)
        return self._part(Operation("hold_out", (share, 0), key)), self._part(Operation("hold_out", (share, 1), key))

    def _part(self, operation: Operation) -> "DaskCounter":
        """A counter of the same partitions whose log is this one and the operation, and goes on by itself."""
        with _public_errors():
            partitions = self._client.map(Packed(fork), self._partitions, pure=False)
        empty = operation.apply(self._empty, 0)
        part = DaskCounter(partitions, empty, self._client, (*self._log, operation))
        part._digests = self._digests
        return part

    count_codes, count_nodes = asked("tally_codes"), asked("tally_nodes")
    count_errors, count_values, sum_residuals = asked("tally_errors"), asked("tally_values"), asked("tally_residuals")
    count_leads = asked("tally_leads")
    descend, start_scores, add_scores = done("descend"), done("start_scores"), done("add_scores")
    weigh_residuals, weigh_distances = done("weigh_residuals"), done("weigh_distances")
    spread_residuals, set_residual_window = done("spread_residuals"), done("set_residual_window")
    add_by_code, take_turn = done("add_by_code"), done("take_turn")


def _current_client() -> Any:
    try:
        from distributed import get_client
    except ImportError:
        raise MissingExtraError("A Dask cluster", "dask") from None
    try:
        return get_client()
    except ValueError:
        raise ParameterError(
            "There is no Dask client. Start one, for example client = distributed.Client('tcp://scheduler:8786'), or "
            "distributed.Client() for a cluster on this machine."
        ) from None


def _sum(parts: list[Any], add: Callable[..., Any] = add) -> Any:
    """A task that gives the sum of delayed counts, which are added up on the workers, some at a time."""
    from dask import delayed

    while len(parts) > 1:
        groups = [parts[start : start + ADDED_AT_ONCE] for start in range(0, len(parts), ADDED_AT_ONCE)]
        parts = [delayed(Packed(add), pure=False)(*group) for group in groups]
    return parts[0]


@contextmanager
def _public_errors() -> Iterator[None]:
    """Turn whatever the cluster raises into a ``TableError`` with public facts only: its messages may quote rows."""
    try:
        yield
    except Exception:
        raise TableError(
            "The Dask cluster gave no answer. What was charged stays charged. The logs of workers say more; they need the "
            "same versions of the library and of dask as the trainer."
        ) from None


def _fetch(future: Any, patience: float) -> Any:
    """The result of a future, or of a call of an actor; None if it takes longer than ``patience``."""
    try:
        return future.result(patience)
    except TimeoutError:
        return None


def _checked(counts: Any) -> Any:
    """The counts; raises ``TableError`` if a task has failed instead."""
    if isinstance(counts, Failure):
        raise TableError(counts.message)
    return counts


def _draw_key(entropy: Entropy) -> bytes:
    """A secret of 256 bits from which workers draw the coins of one operation."""
    key = np.empty(KeyedEntropy.N_KEY_BYTES, dtype=np.int64)
    entropy.run(draw_below, key.size, 256, key)
    return key.astype(np.uint8).tobytes()
