"""Vault and counter of a table on a Dask cluster, as the trainer sees it. Sees sums of counts, and seals them.

Rows and codes stay on workers.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpforest.common.progress import Step
from dpforest.errors import MissingExtraError, ParameterError, TableError, shown
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.mechanisms.entropy import KeyedEntropy
from dpforest.mechanisms.exact import draw_below
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import AllTrees, Assignment, Judged, Openable, Scored, Valued, Weighted
from dpforest.records.dask.replayed import BEHIND, Operation, Question, add, answer, find_digests, fork
from dpforest.records.dask.tasks import Failure, Packed
from dpforest.records.memory.counter import Guarded, MemoryCounter
from dpforest.schema import Bounded, Schema
from dpforest.schema.domain import Domain

if TYPE_CHECKING:  # needs the extra
    from dpforest.records.dask.partitions import Folder, Frames

# The number of partial sums that one task adds up.
ADDED_AT_ONCE = 8
# After this many seconds without an answer the trainer looks whether a worker was lost.
PATIENCE = 1.0
NO_HOME = ""  # in the place of a worker's address, for a partition that no worker has yet


class DaskVault(Guarded):
    """A dask dataframe, or a Parquet file or folder that workers can read, checked and not yet encoded.

    Privacy: as ``Vault``; columns and types are taken as public, and are those that the table declares as a whole. A
    partition that differs from them has missing values, never an error.
    """

    gaps: ClassVar[dict[type, str]] = {
        Openable: "Rows stay on the workers of a cluster. Use variant='private', or fit a table in memory."
    }

    def __init__(self, table: "Frames | Folder", client: Any) -> None:
        self.schema = table.schema
        self._table = table
        self._client = client

    @classmethod
    def seal(cls, table: Any, schema: Schema, client: Any = None, n_jobs: int = 1) -> "DaskVault":
        """The vault of a table whose columns and types are checked; no row is read yet.

        ``client`` is by default the current one; ``n_jobs`` is the number of threads that count one partition, beside the
        partitions that a worker counts at the same time.
        """
        client = _current_client() if client is None else client
        from dpforest.records.dask.partitions import Folder, Frames

        if isinstance(table, str | os.PathLike):
            return cls(Folder.at(table, schema, n_jobs), client)
        if not all(hasattr(table, name) for name in ("to_delayed", "columns", "dtypes")):
            raise TableError(f"Expected a dask dataframe or the path of a Parquet folder, not {shown(table)}.")
        return cls(Frames(table, schema, n_jobs), client)

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
        return self._table.can_sample

    def sampled(self, share: Fraction, entropy: Entropy) -> "DaskVault":
        """The vault of a secret sample of the records, which workers draw by a key; see ``Source``."""
        from dpforest.records.dask.partitions import Folder

        assert isinstance(self._table, Folder)
        return DaskVault(self._table.sampled(share, _draw_key(entropy)), self._client)

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
        for n_done, _ in enumerate(as_completed(partitions), 1):
            progress(Step("partitions encoded", n_done, len(partitions), "partitions"))
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
        self._homes: dict[str, str] = {}  # the address of the worker that has a partition, by the key of its future
        self._n_threads: dict[str, int] = {}  # of each worker, by its address
        self._last: Any = None  # the future of the last sum, see ``_submit``
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
            self._homes = {}
            counts = self._sum_answers(Packed(answer, self._question(0, method, arguments)))
        self._n_known = len(self._log)
        return Sealed(_checked(counts))

    def _question(self, n_known: int, method: str, arguments: tuple[Any, ...]) -> Question:
        return Question(n_known, self._log[n_known:], method, arguments, None if n_known else self._digests)

    def _sum_answers(self, task: Callable[..., Any]) -> np.ndarray | Failure:
        """The sum of what ``task`` gives for all partitions; asked again if a worker is lost meanwhile."""
        with _public_errors():
            total, patience = self._submit(task), PATIENCE
            while (counts := _fetch(total, patience)) is None:
                patience *= 2  # the sum may be large, and the network slow
                if set(self._homes.values()) - set(self._client.nthreads()):
                    # A worker was lost. Its partitions are made again elsewhere, and tasks that were bound to it never run.
                    self._homes = {}
                    total = self._submit(task)
        return counts

    def _submit(self, task: Callable[..., Any]) -> Any:
        """A future of the sum of what ``task`` gives for all partitions, those of each worker added up there first.

        Tasks are bound to the workers that have the partitions: a cluster that moves partitions to balance its load does not
        know of the log that they would have to do again. Those of one thread are one task, since a task costs milliseconds.
        """
        from dask import annotate, delayed

        if len(self._homes) < len(self._partitions):
            self._homes = {key: held[0] for key, held in self._client.who_has(self._partitions).items() if held}
            self._n_threads = self._client.nthreads()
        by_home: dict[str, list[Any]] = {}
        for partition in self._partitions:
            by_home.setdefault(self._homes.get(partition.key, NO_HOME), []).append(partition)
        sums = []
        for home, partitions in by_home.items():
            n_tasks = min(self._n_threads.get(home, len(partitions)), len(partitions))
            with annotate(workers=[home], allow_other_workers=False) if home != NO_HOME else nullcontext():
                sums.append(_sum([delayed(task, pure=False)(*partitions[start::n_tasks]) for start in range(n_tasks)]))
        # The last future is freed only now, when the new one is submitted: a client waits after it has told the scheduler
        # that a future was freed, which would delay this one.
        self._last = self._client.compute(_sum(sums), optimize_graph=False)
        return self._last

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


def _fetch(future: Any, patience: float) -> np.ndarray | Failure | None:
    """The result of a task; None if it takes longer than ``patience``."""
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
