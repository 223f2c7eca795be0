"""A table on a cluster, as the trainer sees it, and what workers answer. Sees sums, codes, and the rows that are kept."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from dpforest.common.work import Workers
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.mechanisms.entropy import KeyedEntropy
from dpforest.mechanisms.exact import draw_below
from dpforest.records.categories import PLACES, category_codes, to_texts
from dpforest.records.coins import draw_kept
from dpforest.records.columns import require_columns, to_numbers
from dpforest.records.dates import NO_DATE, to_seconds
from dpforest.records.people import check_id_column, distinct_ids, number_persons
from dpforest.records.scan import Batch, Elsewhere, Held, Pieces, Receive, Wanted, Work
from dpforest.records.source import Progress
from dpforest.records.sources.cells import NO_TEXT
from dpforest.records.sources.tasks import Answer, Failure, Types
from dpforest.schema import Categorical, Classes, Date, Feature, Schema

DistinctIds = tuple[list[Any], np.ndarray]  # see ``distinct_ids``


def pack(batch: Batch, wanted: Wanted, rows: np.ndarray | None = None) -> tuple[pa.Table, DistinctIds | None]:
    """Some rows of a batch, by index, as a table of plain types, and their ids, if these are wanted; all rows by default.

    The type of a column that travels to the trainer follows from the schema alone, never from a value: numbers are doubles,
    dates are seconds, texts are texts, and values of a list, which may be of any types, are their places in it. What is read
    of them at the trainer is what would have been read on the worker.
    """
    schema = wanted.schema
    given = dict(zip(schema.features, batch.columns, strict=True))
    parts = [(name, *_packed(schema.features[name], given[name])) for name in wanted.features]
    parts.append((schema.target.name, pa.array(batch.values), isinstance(schema.target, Classes)))
    fields = [pa.field(name, array.type, metadata=PLACES if is_place else None) for name, array, is_place in parts]
    table = pa.Table.from_arrays([array for _, array, _ in parts], schema=pa.schema(fields))
    ids = None if wanted.ids is None else distinct_ids(batch.ids)
    if rows is None:
        return table, ids
    return table.take(pa.array(rows)), ids and (ids[0], ids[1][rows])


@np.errstate(all="ignore")  # numpy may warn about a value, or raise if callers have asked for that
def _packed(feature: Feature, column: Any) -> tuple[pa.Array, bool]:
    """A column of a feature, and whether it holds places in a list."""
    if isinstance(feature, Date):
        seconds = to_seconds(column)
        return pa.array(seconds, mask=seconds == NO_DATE).view(pa.timestamp("s")), False
    if not isinstance(feature, Categorical):
        return pa.array(to_numbers(column).astype(np.float64)), False
    if not feature.by_text:
        return pa.array(category_codes(column, feature)), True
    texts, indices = to_texts(column)
    values = pa.array([*map(str.encode, texts), NO_TEXT, None], pa.large_binary())
    return values.view(pa.large_string()).take(pa.array(indices)), False


def unpack(table: pa.Table, ids: DistinctIds | None, wanted: Wanted, persons: dict[Any, int]) -> pa.Table:
    """The table with the number of each row's person in the place of its id; new ids are entered in ``persons``."""
    if wanted.ids is None or ids is None:
        return table
    numbers = number_persons(ids, persons=persons)
    return table.append_column(wanted.ids, pa.array(numbers, mask=numbers < 0))


T = TypeVar("T")
# What a worker does with the batch of the partition of some number.
Task = Callable[[int, Batch], Any]
# What reads the wanted columns of a partition on a worker, and says of which types they are.
Read = Callable[..., tuple[Batch, Types]]

CHANGED = (
    "The table on the cluster changed while it was read: a part of it came with other rows or types than before. What was "
    "charged stays charged. Train on a table that stays as it is, such as a copy in Parquet files."
)


class ClusterTable(Elsewhere):
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
    engine: str
    whole = False  # whether only the table as a whole is known to stay the same, and its division into partitions is not

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._noted: dict[int, tuple[int, Types]] = {}  # by partition, what its first answer said

    @abstractmethod
    def answers(self, wanted: Wanted, task: Task) -> Iterable[Answer | Failure]:
        """What workers answer for each partition, in the order of their numbers; may raise anything."""

    def each(self, wanted: Wanted, work: Work[T], receive: Receive[T], workers: Workers) -> None:
        for first, found in self._asked(wanted, partial(asked, work)):
            receive(first, found)

    def kept(self, wanted: Wanted, share: Fraction | None = None, entropy: Entropy | None = None) -> Pieces:
        held, persons = Held(), dict[Any, int]()
        task = partial(delivered, wanted, share, b"" if entropy is None else _draw_key(entropy))
        for first, (table, ids) in self._asked(wanted, task):
            if len(table):
                held.add(first, unpack(table, ids, wanted, persons))
        return held.pieces(self.progress)

    def _asked(self, wanted: Wanted, task: Task) -> Iterator[tuple[int, Any]]:
        """What each partition gives, with the place of its first row; raises ``TableError`` if one failed or changed."""
        first, last, all_types = 0, -1, Types()
        for answer in self._answered(wanted, task):
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

    def _answered(self, wanted: Wanted, task: Task) -> Iterator[Answer | Failure]:
        """What workers answer; raises ``TableError`` with public facts for what a cluster raises, which may quote rows."""
        try:
            yield from self.answers(wanted, task)
        except Exception:
            raise TableError(
                f"The {self.engine} cluster gave no answer. What was charged stays charged. The logs of workers say more; "
                "they need the same versions of the library and of its extra as the trainer."
            ) from None

    def _note(self, number: int, n_rows: int, types: Types) -> None:
        """Raise ``TableError`` unless the number of rows and the types are those of earlier answers."""
        n_before, known = self._noted.setdefault(number, (n_rows, {}))
        if n_rows != n_before or any(known.setdefault(name, type_) != type_ for name, type_ in types.items()):
            raise TableError(CHANGED)


def answer(read: Read, wanted: Wanted, task: Task, number: int, *given: Any) -> Answer:
    """What a worker gives of a partition, the rows that ``read`` finds in what is given."""
    batch, types = read(wanted, *given)
    return Answer(number, batch.n_rows, types, task(number, batch))


def asked(work: Work[T], number: int, batch: Batch) -> T:
    """What a question gives for a partition."""
    return work(batch, Workers())


def delivered(
    wanted: Wanted, share: Fraction | None, key: bytes, number: int, batch: Batch
) -> tuple[Any, DistinctIds | None]:
    """The rows of a partition that a sample keeps, by coins of this partition; all rows without a share."""
    return pack(batch, wanted, None if share is None else draw_kept(batch.n_rows, share, KeyedEntropy(key, number)))


def used_columns(frame: Any, schema: Schema, id_column: str | None) -> list[str]:
    """The names of the columns of a dataframe that are read; raises ``TableError`` if one is not there."""
    given, used = [str(name) for name in frame.columns], [*schema.features, schema.target.name]
    require_columns(given, used, "the dataframe")
    if id_column is not None:
        check_id_column(id_column, given, schema, "the dataframe")
        used.append(id_column)
    return used


def types_of(table: pa.Table) -> Types:
    """The name of the type of each column."""
    return {field.name: str(field.type) for field in table.schema}


def _draw_key(entropy: Entropy) -> bytes:
    """A secret of 256 bits from which workers draw the coins of one sample."""
    key = np.empty(KeyedEntropy.N_KEY_BYTES, dtype=np.int64)
    entropy.run(draw_below, key.size, 256, key)
    return key.astype(np.uint8).tobytes()
