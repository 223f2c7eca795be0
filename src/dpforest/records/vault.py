"""The vault: a table that was checked against its schema, wherever its rows are. Sees rows; what leaves is sealed."""

import collections
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dpforest.common.work import Workers
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.privacy.sealed import Sealed
from dpforest.records.categories import to_texts
from dpforest.records.coins import draw_held_out, draw_kept
from dpforest.records.columns import fine_steps
from dpforest.records.counter import Guarded, MemoryCounter, type_of_targets
from dpforest.records.encoding import count_around, encode
from dpforest.records.people import People
from dpforest.records.scan import Batch, Elsewhere, Pieces, Scan, T, Wanted, Work, is_usable, spilled_array
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Bounded, Classes, Schema, Target
from dpforest.schema.domain import Domain
from dpforest.schema.grid import N_BINS


class Vault(Guarded):
    """The rows of a table, checked against the schema and not yet encoded; for its methods see ``records.base``.

    Privacy: not private by itself; answers are sealed. Checks look at columns and types only, so whether an error occurs
    does not depend on values. What a record adds to an answer follows from that record and public values. Coins are tossed
    once for a record, or a person: what they select is kept, and all later answers are about that.
    """

    def __init__(
        self,
        schema: Schema,
        workers: Workers,
        rows: Scan | None = None,
        elsewhere: Elsewhere | None = None,
        people: People | None = None,
        id_column: str | None = None,
    ) -> None:
        self.schema, self.in_one_book = schema, False
        self._elsewhere, self._workers = elsewhere, workers
        self._people, self._id_column = people, id_column
        self._undrawn = rows
        self._rows = rows if people is None else None  # those that are used, once they are here

    @classmethod
    def seal(
        cls, X: Any, y: Any, schema: Schema, n_jobs: int = 1, groups: Any = None, people: People | None = None
    ) -> "Vault":
        """The vault of a table in memory; raises ``TableError`` unless it has the columns and types of the schema.

        ``groups`` has the id of each row, if the unit of privacy is a person.
        """
        rows = Batch.given(X, y, schema, None if people is None else groups)
        return cls(schema, Workers(n_jobs), rows, people=people, id_column="")

    @property
    def _wanted(self) -> Wanted:
        """All columns that a fit may use; ids, where rows of persons are drawn."""
        return Wanted.all_of(self.schema, None if self._people is None else self._id_column)

    def _used(self) -> Scan:
        """The rows in use, kept here; where persons are protected, theirs are drawn once, for all answers."""
        if self._rows is None:
            if self._undrawn is None:
                assert self._elsewhere is not None
                self._undrawn = self._elsewhere.kept(self._wanted)
            self._rows = self._undrawn
            if self._people is not None:
                ids, usable = self._ids(self._undrawn)
                if isinstance(self._undrawn, Pieces):
                    self._undrawn.progress("drawing the rows of persons")
                drawn = self._people.leave_out(ids, usable.astype(np.int8) - 1) >= 0
                self._rows = self._undrawn.taken(self._wanted, np.flatnonzero(drawn), self._workers)
        return self._rows

    @property
    def _streams(self) -> Elsewhere | None:
        """Where the rows are, as long as none of them is here and no rows of persons have to be drawn."""
        return None if self._rows is not None or self._people is not None else self._elsewhere

    def _where(self) -> Scan | Elsewhere:
        """What answers questions: where the rows are, if it can, else the rows that are kept here."""
        away = self._streams
        return away if away is not None and away.works else self._used()

    def _each(self, rows: Scan | Elsewhere, wanted: Wanted, work: Work[T]) -> list[T]:
        """What ``work`` makes of each batch, in the order of rows."""
        found: dict[int, T] = {}
        rows.each(wanted, work, found.__setitem__, self._workers)
        return [found[first] for first in sorted(found)]

    def _ids(self, rows: Scan) -> tuple[list[Any], np.ndarray]:
        """The columns of ids, one after the other, and a mask of the rows with a target."""
        wanted = Wanted(self.schema, [], self._id_column)
        parts = self._each(rows, wanted, lambda batch, _: (batch.ids, is_usable(batch.values)))
        return [ids for ids, _ in parts], np.concatenate([np.empty(0, dtype=bool), *(usable for _, usable in parts)])

    def _sum(
        self, shape: tuple[int, ...], features: list[str], tally: Work[np.ndarray], where: Scan | Elsewhere | None = None
    ) -> Sealed[np.ndarray]:
        """The sealed sum of what ``tally`` gives for all batches."""
        total = np.zeros(shape, dtype=np.int64)
        wanted = Wanted(self.schema, features)
        (where or self._where()).each(wanted, tally, lambda _, found: np.add(total, found, out=total), self._workers)
        return Sealed(total)

    def count(self) -> Sealed[np.ndarray]:
        away = self._streams
        return self._sum((1,), [], tally_known, away if away is not None and away.counts else None)

    def count_around(self, domain: Domain, centres: Mapping[int, float]) -> Sealed[np.ndarray]:
        names = [*self.schema.features]
        asked = list(dict.fromkeys(names[domain.derived[feature].column] for feature in centres))
        return self._sum((len(centres), N_BINS + 1), asked, partial(tally_around, domain, dict(centres)))

    def count_targets(self, edges: np.ndarray) -> Sealed[np.ndarray]:
        return self._sum((len(edges) + 1,), [], partial(tally_targets, edges))

    def count_texts(self, name: str) -> Sealed[dict[str, int]]:
        total: collections.Counter[str] = collections.Counter()
        tally = partial(tally_texts, [*self.schema.features].index(name))
        self._where().each(Wanted(self.schema, [name]), tally, lambda _, texts: total.update(texts), self._workers)
        return Sealed(dict(total))

    def narrowed(self, target: Bounded) -> "Vault":
        where = self._where()
        rows, away = (None, where) if where is self._elsewhere else (where, None)
        return self._of(rows, away, replace(self.schema, target=target))

    def sampled(self, share: Fraction, entropy: Entropy) -> "Vault":
        if (away := self._streams) is not None:
            return self._of(away.kept(self._wanted, share, entropy))
        rows = self._used()
        if self._people is None:
            chosen = draw_kept(rows.n_rows, share, entropy)
        else:
            chosen = np.flatnonzero(self._people.sample(self._ids(rows)[0], share))
        return self._of(rows.taken(Wanted.all_of(self.schema), chosen, self._workers))

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[Vault, Vault]":
        held = draw_held_out(self._used().n_rows, share, entropy)
        return self._part(~held), self._part(held)

    def _part(self, mask: np.ndarray) -> "Vault":
        part = self._of(self._used().taken(Wanted.all_of(self.schema), np.flatnonzero(mask), self._workers))
        part.in_one_book = True
        return part

    def _of(self, rows: Any, away: Any = None, schema: Schema | None = None) -> "Vault":
        """A vault of other rows of the same table."""
        vault = Vault(schema or self.schema, self._workers, rows, away)
        vault.in_one_book = self.in_one_book
        return vault

    def hits(self, forest: Forest) -> Sealed[np.ndarray]:
        return self._sum((1, 2), [*self.schema.features], partial(tally_hits, forest, self.schema.target))

    def encode(self, domain: Domain) -> MemoryCounter:
        where = self._where()
        work: Work[tuple[np.ndarray, np.ndarray]] = partial(encoded, domain, self.schema.target)
        if isinstance(where, Pieces) and not where.in_memory:
            codes, target_codes = self._encode_to_file(where, domain, work)
        else:
            parts = self._each(where, Wanted.all_of(self.schema), work) or [work(self._nothing, self._workers)]
            target_codes = parts[0][1] if len(parts) == 1 else np.concatenate([own for _, own in parts])
            codes = _side_by_side(parts, domain)
        pa.default_memory_pool().release_unused()  # what batches took is of no more use
        return MemoryCounter(codes, target_codes, domain, self.schema.target, self._workers)

    def _encode_to_file(self, rows: Pieces, domain: Domain, work: Work[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Codes and target codes; codes lie in a file without a name, of which memory holds what it has room for."""
        shape = domain.n_features, rows.n_rows
        flat, is_record = spilled_array((shape[0] * shape[1],), domain.dtype), np.zeros(rows.n_rows, dtype=bool)
        codes, target_codes = flat.reshape(shape), np.empty(rows.n_rows, dtype=type_of_targets(self.schema.target))

        def place(first: int, own: tuple[np.ndarray, np.ndarray]) -> None:
            there = slice(first, first + len(own[1]))
            codes[:, there], target_codes[there], is_record[there] = *own, True

        rows.each(Wanted.all_of(self.schema), work, place, self._workers)
        n_records = np.count_nonzero(is_record)
        if n_records < rows.n_rows:  # the gaps that rows without a target left are closed, a feature at a time
            for feature, row in enumerate(codes):
                flat[feature * n_records : (feature + 1) * n_records] = row[is_record]
        return flat[: shape[0] * n_records].reshape(shape[0], n_records), target_codes[is_record]

    def batches(self, work: Work[Any]) -> Sealed[list[Any]]:
        """What ``work`` makes of each batch of the rows that are used, in their order, sealed."""
        found = self._each(self._used(), Wanted.all_of(self.schema), work)
        return Sealed(found or [work(self._nothing, self._workers)])

    @property
    def _nothing(self) -> Batch:
        """A batch without rows."""
        return Batch.given([], [], self.schema, None)

    def close(self) -> None:
        if self._elsewhere is not None:
            self._elsewhere.close()


def _side_by_side(parts: list[tuple[np.ndarray, np.ndarray]], domain: Domain) -> np.ndarray:
    """The codes of batches as those of one table; the list is emptied."""
    if len(parts) == 1:
        return parts[0][0]
    codes, end = np.empty((domain.n_features, sum(own.shape[1] for own, _ in parts)), dtype=domain.dtype), 0
    parts.reverse()
    while parts:  # each is freed when it is no longer needed
        own, _ = parts.pop()
        codes[:, end : end + own.shape[1]] = own
        end += own.shape[1]
    return codes


# What is counted of a batch, in a thread or on a worker of a cluster, follows from it and from public values. Sums do not
# depend on how rows are divided among batches, nor on their order.


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
