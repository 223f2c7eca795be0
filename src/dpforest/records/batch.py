"""Some rows of a table as columns in the order of its schema, and what is counted of them. Sees rows.

Everything here is a function of a batch and of public values, so that it may run in a thread or on a worker of a cluster.
Sums over batches do not depend on how rows are divided among them, nor on their order.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpforest.common.work import Workers
from dpforest.forest.tree import Forest
from dpforest.records.categories import PLACES, Places, to_texts
from dpforest.records.columns import check_length, fine_steps, read_columns, target_values
from dpforest.records.encoding import count_around, encode, taken
from dpforest.records.people import ids_beside, read_ids
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Classes, Schema, Target
from dpforest.schema.domain import Domain


@dataclass(frozen=True)
class Wanted:
    """The columns of a table that a question is about; the target is always among them."""

    schema: Schema
    features: Collection[str]  # names, of those of the schema
    ids: str | None = None  # the column of ids of persons, if these are asked for

    @classmethod
    def all_of(cls, schema: Schema, ids: str | None = None) -> "Wanted":
        """All columns of a schema, and perhaps one of ids."""
        return cls(schema, [*schema.features], ids)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [*self.features, self.schema.target.name, *([] if self.ids is None else [self.ids])]


@dataclass(frozen=True, repr=False)
class Batch:
    """Some rows: ``columns`` in the order of the schema, None for those that were not asked for."""

    columns: list[Any]  # arrays or series
    values: np.ndarray  # (n_rows,) class indices, -1 for a row to leave out; or a bounded target, NaN for one to leave out
    ids: Any = None

    @property
    def n_rows(self) -> int:
        return len(self.values)

    @classmethod
    def given(cls, X: Any, y: Any, schema: Schema, groups: Any) -> "Batch":
        """A table in memory and its target; raises unless columns and types are those that the schema declares."""
        columns, values = read_columns(X, schema), target_values(y, schema.target)
        check_length("y", values, columns[0])
        ids = None if groups is None else read_ids(groups)
        if ids is not None:
            check_length("groups", ids, values)
        return cls(columns, values, ids)

    @classmethod
    def of(cls, table: pa.Table, wanted: Wanted, values: np.ndarray | None = None) -> "Batch":
        """The rows of a table of Arrow, whose types were checked; ``values`` is the target, if it was read before."""
        schema, read = wanted.schema, dict[str, Any]()
        places = {field.name: table.column(field.name).to_numpy() for field in table.schema if field.metadata == PLACES}
        names = [name for name in wanted.features if name not in places]
        if names:
            some = replace(schema, features={name: schema.features[name] for name in names})
            read = dict(zip(names, read_columns(table.select(names), some), strict=True))
        if values is None:
            name = schema.target.name
            values = places[name] if name in places else target_values(table.column(name), schema.target)
        ids = None if wanted.ids is None else ids_beside(table, wanted.ids)
        read |= {name: Places(codes) for name, codes in places.items()}
        return cls([read.get(name) for name in schema.features], values, ids)

    def each(self, wanted: Wanted, work: Callable[..., Any], receive: Callable[[int, Any], None], workers: Workers) -> None:
        """Call ``receive`` with what ``work`` makes of the batch, as ``Pieces.each`` does with several."""
        receive(0, work(self, workers))

    def taken(self, wanted: Wanted, rows: np.ndarray, workers: Workers) -> "Batch":
        """Some rows, by increasing index; ids only if they are wanted."""
        ids = None if self.ids is None or wanted.ids is None else taken([self.ids], rows, workers)[0]
        return Batch(taken(self.columns, rows, workers), self.values[rows], ids)


def is_usable(values: np.ndarray) -> np.ndarray:
    """A mask of the rows whose target is not left out."""
    return ~np.isnan(values) if values.dtype.kind == "f" else values >= 0


def tally_known(batch: Batch, workers: Workers) -> np.ndarray:
    """The number of records, ``(1,)``."""
    return np.array([np.count_nonzero(is_usable(batch.values))])


def tally_around(domain: Domain, centres: Mapping[int, float], batch: Batch, workers: Workers) -> np.ndarray:
    """The numbers of records ``(len(centres), N_BINS + 1)`` in each bin around some centres."""
    return count_around(batch.columns, domain, centres, is_usable(batch.values), workers)


def tally_targets(edges: np.ndarray, batch: Batch, workers: Workers) -> np.ndarray:
    """The numbers of records ``(n_edges + 1,)`` by the edges at or below their target."""
    known = batch.values[~np.isnan(batch.values)]
    return np.bincount(np.searchsorted(edges, known, side="right"), minlength=len(edges) + 1)


def tally_texts(index: int, batch: Batch, workers: Workers) -> dict[str, int]:
    """The number of records of each text of a column."""
    texts, indices = to_texts(batch.columns[index])
    numbers = np.bincount(indices[is_usable(batch.values)], minlength=len(texts) + 2).tolist()
    return {text: number for text, number in zip(texts, numbers, strict=False) if number}


def encoded(domain: Domain, target: Target, batch: Batch, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
    """The codes ``(n_features, n_records)`` and target codes ``(n_records,)`` of the records."""
    usable, codes = is_usable(batch.values), encode(batch.columns, domain, workers)
    values = batch.values
    if not usable.all():
        # A copy row by row: the layout in memory must not tell whether a record was left out.
        codes, values = np.ascontiguousarray(codes[:, usable]), values[usable]
    return codes, values if isinstance(target, Classes) else fine_steps(values, target)


def tally_hits(forest: Forest, target: Target, batch: Batch, workers: Workers) -> np.ndarray:
    """Sums ``(1, 2)`` of hits and misses of a forest on the records.

    For classes each record is a hit or a miss; for a bounded target it has ``TARGET_STEPS`` steps over the range of
    ``target``, some of which are missed.

    Privacy:
        Claim: L1 sensitivity is 1 (classes) or S = ``TARGET_STEPS`` (bounded), and L2**2 at most its square.
        Because: an added record adds 1 to one sum, or S-e to one and e to the other, with e in 0 .. S.
        Assumes: the forest does not depend on these records.
    """
    codes, target_codes = encoded(forest.domain, target, batch, workers)
    shares, inner = forest.predict(codes), forest.target
    if isinstance(inner, Classes) or isinstance(target, Classes):
        n_hits = int(np.count_nonzero(forest.decided(shares, codes) == target_codes))
        return np.array([[n_hits, len(target_codes) - n_hits]])
    # Where the range of the forest starts, and how wide it is, as parts of that of the target.
    start, width = (inner.range[0] - target.range[0]) / target.span, inner.span / target.span
    away = np.abs(start + width * shares[:, 1] - target_codes / FINE_STEPS)
    missed = np.rint(TARGET_STEPS * np.clip(away, 0, 1)).astype(np.int64)
    return np.array([[(TARGET_STEPS - missed).sum(), missed.sum()]])
