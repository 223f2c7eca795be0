"""Rows that can be passed over again and again, in the same order: in memory, in Parquet files, or kept. Sees rows."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from dpforest.common.threads import Workers
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.batch import Batch, Wanted, read_values
from dpforest.records.coins import draw_kept
from dpforest.records.columns import check_length, read_columns
from dpforest.records.counter import Guarded
from dpforest.records.encoding import taken
from dpforest.records.held import Held, in_plain_types
from dpforest.records.people import read_ids
from dpforest.records.source import Asked, Progress, Source, silent, telling
from dpforest.records.sources.parquet import DAMAGED, File, check_unchanged, row_groups
from dpforest.schema import Schema

T = TypeVar("T")
# What is done with a batch, by threads that it may divide its work among; and where results go, in any order.
Work = Callable[[Batch, Workers], T]
Receive = Callable[[int, T], None]
# The number of rows that are read at once.
BATCH_ROWS = 1 << 17
CHANGED = (
    "The table was changed while a forest was trained on it: it came with other rows than before. What was charged stays "
    "charged. Train on a table that stays as it is, such as a copy."
)


class Scan(Protocol):
    """The rows of a table, as often as they are asked for, in the same order."""

    n_rows: int
    in_memory: bool  # whether its rows are in memory already, so that their codes may be, too
    progress: Progress

    def each(self, wanted: Wanted, work: Work[T], receive: Receive[T], workers: Workers) -> None:
        """Call ``work`` for each batch and ``receive`` with the place of its first row and the result, one at a time."""
        ...

    def taken(self, wanted: Wanted, rows: np.ndarray, workers: Workers) -> "Scan":
        """Some rows, by increasing index, which are kept; ids only if they are wanted."""
        ...


class Elsewhere(Protocol):
    """Rows that are not here. A few questions are answered where they are; for all others they are fetched once and kept.

    Privacy: coins are tossed for each row once, for what is kept. Sums do not depend on the order of rows.
    """

    counts: bool  # whether the number of its rows can be asked for before they are kept
    works: bool  # whether every question can be asked where the rows are

    def each(self, wanted: Wanted, work: Work[T], receive: Receive[T], workers: Workers) -> None:
        """As ``Scan.each``; results come in the order of the rows."""
        ...

    def kept(self, wanted: Wanted) -> "Pieces":
        """All rows."""
        ...

    def sampled(self, wanted: Wanted, share: Fraction, entropy: Entropy) -> "Pieces":
        """The rows that a secret sample keeps, each with this probability."""
        ...

    def close(self) -> None:
        """End a connection, if there is one."""
        ...


class Frame:
    """The rows of a table in memory, whatever library it is of: one batch."""

    in_memory = True

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.progress: Progress = silent
        self.n_rows = batch.n_rows

    @classmethod
    def of(cls, X: Any, y: Any, schema: Schema, groups: Any) -> "Frame":
        """The rows of a table and its target; raises unless columns and types are those that the schema declares."""
        columns, values = read_columns(X, schema), read_values(y, schema.target)
        check_length("y", values, columns[0])
        ids = None if groups is None else read_ids(groups)
        if ids is not None:
            check_length("groups", ids, values)
        return cls(Batch(columns, values, ids))

    def each(self, wanted: Wanted, work: Work[T], receive: Receive[T], workers: Workers) -> None:
        receive(0, work(self.batch, workers))

    def taken(self, wanted: Wanted, rows: np.ndarray, workers: Workers) -> "Frame":
        batch = self.batch
        ids = None if batch.ids is None or wanted.ids is None else taken([batch.ids], rows, workers)[0]
        return Frame(Batch(taken(batch.columns, rows, workers), batch.values[rows], ids))


class Pieces:
    """The rows of tables of Arrow, or of row groups of Parquet files, one piece after the other."""

    def __init__(
        self,
        pieces: "Sequence[Piece]",
        in_memory: bool,
        progress: Progress,
        files: Sequence[File] = (),
        path: Any = None,
    ) -> None:
        self._pieces = [piece for piece in pieces if piece.n_rows]
        self._files, self._path, self.progress = list(files), path, progress
        self.in_memory = in_memory
        self.n_rows = sum(piece.n_rows for piece in self._pieces)
        self._values: dict[int, np.ndarray] = {}  # targets of rows in memory, by the place of the first

    @classmethod
    def of_files(cls, files: list[File], path: str | Path, progress: Progress) -> "Pieces":
        """The rows of Parquet files. Several passes match rows by their place, so the files must not change."""
        first, pieces = 0, []
        for group in row_groups(files):
            pieces.append(Piece(first, group))
            first += group.n_rows
        return cls(pieces, False, progress, files, path)

    @classmethod
    def of_tables(cls, held: Held, progress: Progress) -> "Pieces":
        """The rows that are kept."""
        tables, in_memory = held.tables()
        firsts = np.cumsum([0, *(table.num_rows for table in tables)]).tolist()
        return cls([Piece(first, table) for first, table in zip(firsts, tables, strict=False)], in_memory, progress)

    def each(self, wanted: Wanted, work: Work[T], receive: Receive[T], workers: Workers) -> None:
        lock = Lock()

        def pass_on(first: int, table: pa.Table, own: Workers) -> None:
            batch = Batch.of(table, wanted, first, self._values.get(first))
            found = work(batch, own)
            if self.in_memory:
                self._values[first] = batch.values
            with lock:
                receive(first, found)

        self._each_table(wanted.names, pass_on, workers)

    def taken(self, wanted: Wanted, rows: np.ndarray, workers: Workers) -> "Pieces":
        held = Held()

        def take(first: int, table: pa.Table, own: Workers) -> None:
            start, end = np.searchsorted(rows, [first, first + table.num_rows])
            if end > start:
                held.add(first, chosen(table, rows[start:end] - first))

        self._each_table(wanted.names, take, workers)
        return Pieces.of_tables(held, self.progress)

    def _each_table(self, names: list[str], work: Callable[[int, pa.Table, Workers], None], workers: Workers) -> None:
        """Call ``work`` for each table of some columns, in any order, by several threads at once.

        A thread reads one piece after the other. Where there are fewer pieces than threads these are read in turn, and
        threads divide what is done with a batch.
        """
        is_divided = len(self._pieces) >= workers.n_jobs
        reading, within = (workers, Workers()) if is_divided else (Workers(), workers)
        lock, n_done = Lock(), 0

        def read(thread: int, item: int) -> None:
            nonlocal n_done
            for first, table in self._pieces[item].tables(names, use_threads=not is_divided):
                work(first, table, within)
                with lock:
                    n_done += table.num_rows
                    tell(n_done / self.n_rows)

        with self._unchanged(), telling(self.progress) as tell:
            reading.share(read, len(self._pieces))

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Raise ``TableError`` if files that are read were changed since they were opened, before or after a pass."""
        check_unchanged(self._files, self._path)
        yield
        check_unchanged(self._files, self._path)


@dataclass(frozen=True, repr=False)
class Piece:
    """A row group of a file, or a table of Arrow; ``first`` is the place of its first row among all rows."""

    first: int
    rows: File | pa.Table

    @property
    def n_rows(self) -> int:
        """The number of rows, of a row group as the file declares it."""
        return self.rows.num_rows if isinstance(self.rows, pa.Table) else self.rows.n_rows

    def tables(self, names: list[str], use_threads: bool = True) -> Iterator[tuple[int, pa.Table]]:
        """Tables of some columns, one after the other, each with the place of its first row."""
        if isinstance(self.rows, pa.Table):
            yield self.first, self.rows.select(names)
            return
        n_read = 0
        for table in self.rows.batches(names, BATCH_ROWS, use_threads):
            yield self.first + n_read, table
            n_read += table.num_rows
        if n_read != self.n_rows:
            raise TableError(DAMAGED)


def chosen(table: pa.Table, rows: np.ndarray | None) -> pa.Table:
    """Some rows of a table, by index, or all of them, in types that can be kept."""
    plain = in_plain_types(table)
    if rows is None or len(rows) == len(plain):
        return plain
    batches = plain.to_batches()
    if len(batches) != 1:
        return plain.take(pa.array(rows))
    return pa.Table.from_batches([batches[0].take(pa.array(rows))])  # faster than of a table


class Stream(Guarded):
    """The rows of a source, in batches; see ``Elsewhere``.

    Privacy: coins are drawn for each row as it comes, by the entropy of the fit, and what they select is kept.
    """

    works = False

    def __init__(self, source: Source, progress: Progress) -> None:
        self._source, self._progress = source, progress
        self.counts = source.repeats
        self._n_rows: int | None = None  # as they were read before

    def each(self, wanted: Wanted, work: Work[T], receive: Receive[T], workers: Workers) -> None:
        first = 0
        for table in self._tables(wanted):
            receive(first, work(Batch.of(table, wanted, first), workers))
            first += table.num_rows

    def kept(self, wanted: Wanted) -> Pieces:
        return self._chosen(wanted, None)

    def sampled(self, wanted: Wanted, share: Fraction, entropy: Entropy) -> Pieces:
        return self._chosen(wanted, lambda n_rows: draw_kept(n_rows, share, entropy))

    def _chosen(self, wanted: Wanted, draw: Callable[[int], Any] | None) -> Pieces:
        held, first = Held(), 0
        for table in self._tables(wanted):
            if table.num_rows:
                held.add(first, chosen(table, None if draw is None else draw(table.num_rows)))
            first += table.num_rows
        return Pieces.of_tables(held, self._progress)

    def _tables(self, wanted: Wanted) -> Iterator[pa.Table]:
        schema, names = wanted.schema, [*wanted.features] or [next(iter(wanted.schema.features))]
        some = replace(schema, features={name: schema.features[name] for name in names})
        asked = Asked(some, with_target=True, besides=() if wanted.ids is None else (wanted.ids,))
        n_rows = 0
        for part in self._source.chunks(asked, self._progress):
            yield asked.table(part)
            n_rows += part.features.num_rows
        if self._n_rows not in (None, n_rows):
            raise TableError(CHANGED)
        self._n_rows = n_rows

    def close(self) -> None:
        self._source.close()
