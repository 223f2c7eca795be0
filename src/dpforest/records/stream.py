"""The rows of a source that come once, or in no order: they are kept here for all but a count and a sample. Sees rows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

from dpforest.common.threads import Workers
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.batch import Batch, Wanted
from dpforest.records.held import Held
from dpforest.records.memory.counter import Guarded
from dpforest.records.sample import draw_kept
from dpforest.records.scan import Pieces, Receive, T, Work, chosen
from dpforest.records.source import Asked, Progress, Source

CHANGED = (
    "The table was changed while a forest was trained on it: it came with other rows than before. What was charged stays "
    "charged. Train on a table that stays as it is, such as a copy."
)


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
        for part in self._source.parts(asked, self._progress):
            yield asked.table(part)
            n_rows += part.features.num_rows
        if self._n_rows not in (None, n_rows):
            raise TableError(CHANGED)
        self._n_rows = n_rows

    def close(self) -> None:
        self._source.close()
