"""Finds an event that is much likelier for one table than for its neighbour, from numbers that were read off many fits.

An event is a few conditions on what was seen of a fit, or a threshold on a score that was learned from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import betaincinv
from sklearn.ensemble import RandomForestClassifier

from dpforest.audit.fits import Column, Observations

# Thresholds and values of a column that are tried.
N_THRESHOLDS, N_VALUES = 24, 16
# Thresholds of a learned score that are tried.
N_SCORES = 200
# How many conjunctions are kept while they grow, and how many conditions one has.
N_KEPT, MOST_CONDITIONS = 20, 3
# The best of many is too good: a further condition counts as a choice among so many, which widens the limits.
CHOICES = 30
# Values that come less often than once in so many fits are not asked for.
RAREST = 100
# Fits of each table from which a score is worth learning.
LEAST_TO_LEARN = 1_000


class Event(Protocol):
    """Something that the numbers of a fit show or do not show; ``str`` says it in words."""

    def happens(self, rows: np.ndarray) -> np.ndarray:
        """Which fits show it: a mask ``(n_fits,)`` for numbers ``(n_fits, n_columns)``."""


@dataclass(frozen=True)
class Condition:
    """The event that a column equals, differs from, or is at most or at least a value; NaN equals NaN."""

    index: int
    relation: str
    value: float
    column: Column

    def happens(self, rows: np.ndarray) -> np.ndarray:
        values = rows[:, self.index]
        if self.relation == "<=":
            return values <= self.value
        if self.relation == ">=":
            return values >= self.value
        equal = np.isnan(values) if np.isnan(self.value) else values == self.value
        return equal if self.relation == "=" else ~equal

    def __str__(self) -> str:
        return self.column.says(self.relation, self.value)


@dataclass(frozen=True)
class All:
    """The event that several conditions hold at once."""

    conditions: tuple[Condition, ...]

    def happens(self, rows: np.ndarray) -> np.ndarray:
        return np.logical_and.reduce([np.ones(len(rows), dtype=bool), *(part.happens(rows) for part in self.conditions)])

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions)) or "anything"


@dataclass(frozen=True)
class Score:
    """The event that a learned score, times ``sign``, reaches a threshold."""

    model: Any
    sign: int
    least: float

    def happens(self, rows: np.ndarray) -> np.ndarray:
        return _scored(self.model, self.sign, rows) >= self.least

    def __str__(self) -> str:
        which = "for" if self.sign > 0 else "against"
        return f"a score {which} the record, learned from all that was seen, >= {self.least:.4g}"


@dataclass(frozen=True)
class Found:
    """An event, the table for which it is likelier, and the lower bound on epsilon from the fits on which it was found."""

    event: Event
    with_record: bool
    epsilon: float

    def test(self, seen: Observations, delta: float, confidence: float) -> tuple[float, tuple[int, int]]:
        """The lower bound on epsilon from other fits, and how many show the event, of the likelier table first."""
        likelier, other = seen.ordered(self.with_record)
        hits, other_hits = int(self.event.happens(likelier).sum()), int(self.event.happens(other).sum())
        limits = Limits(len(likelier), len(other), delta, confidence)
        return float(limits.epsilon(hits, other_hits)), (hits, other_hits)


class Limits:
    """Clopper-Pearson limits for all numbers of hits, each wrong with probability at most (1 - confidence) / 2."""

    def __init__(self, n_likelier: int, n_other: int, delta: float, confidence: float) -> None:
        error = (1 - confidence) / 2
        self.least = least_shares(n_likelier, error) - delta
        self.largest = largest_shares(n_other, error)

    def epsilon(self, hits: Any, other_hits: Any) -> Any:
        """log((p - delta) / q) for the least p and the largest q that the hits allow; -inf where p may be delta."""
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(self.least[hits], 0) / self.largest[other_hits])


def least_shares(n: int, error: float) -> np.ndarray:
    """Lower limits for 0 .. n hits: any share below gives so many hits with probability at most ``error``."""
    hits = np.arange(1, n + 1)
    return np.append(0.0, betaincinv(hits, n - hits + 1, error))


def largest_shares(n: int, error: float) -> np.ndarray:
    """Upper limits for 0 .. n hits: any share above gives so few hits with probability at most ``error``."""
    return 1 - least_shares(n, error)[::-1]


def find_event(seen: Observations, delta: float, confidence: float) -> Found:
    """The event that gives the largest lower bound on epsilon, on these fits.

    Events are judged by the bound itself. Its limits are wide for a rare event, so none is preferred by luck.
    """
    search = _Search(seen, delta, confidence)
    found = [search.conjunction(with_record) for with_record in (False, True)]
    if len(seen.without) >= LEAST_TO_LEARN:
        found += _scores(seen, delta, confidence)
    return max(found, key=lambda candidate: candidate.epsilon)


class _Search:
    """Finds conjunctions of conditions. Masks over fits are packed, eight to a byte, so that counting is fast."""

    def __init__(self, seen: Observations, delta: float, confidence: float) -> None:
        pooled = np.concatenate([seen.without, seen.with_record])
        self.conditions = [
            condition
            for index, column in enumerate(seen.columns)
            for condition in _conditions(index, column, pooled[:, index])
        ]
        self.masks = {}
        for with_record in (False, True):
            rows, _ = seen.ordered(with_record)
            masks = np.zeros((len(self.conditions), -(-len(rows) // 8)), dtype=np.uint8)
            for mask, condition in zip(masks, self.conditions, strict=True):
                mask[:] = np.packbits(condition.happens(rows))
            self.masks[with_record] = masks
        errors = [(1 - confidence) / CHOICES**n_others for n_others in range(MOST_CONDITIONS)]
        self.limits = [Limits(len(seen.without), len(seen.with_record), delta, 1 - error) for error in errors]

    def conjunction(self, with_record: bool) -> Found:
        """The best conjunction, grown by a condition at a time from the few best."""
        best = Found(All(()), with_record, 0.0)  # worth as much as knowing nothing
        beam: list[tuple[int, ...]] = [()]
        for _ in range(MOST_CONDITIONS):
            bounds: dict[tuple[int, ...], float] = {}
            for indices in beam:
                bounds |= self._longer(indices, with_record)
            beam = sorted(bounds, key=lambda indices: -bounds[indices])[:N_KEPT]
            if not beam or bounds[beam[0]] <= best.epsilon:
                break
            event = All(tuple(self.conditions[index] for index in beam[0]))
            best = Found(event, with_record, bounds[beam[0]])
        return best

    def _longer(self, indices: tuple[int, ...], with_record: bool) -> dict[tuple[int, ...], float]:
        """The best conjunctions with one more condition, each with its lower bound on epsilon."""
        hits, other_hits = (self._hits(indices, which) for which in (with_record, not with_record))
        bounds = self.limits[len(indices)].epsilon(hits, other_hits)
        best = np.argsort(-bounds, kind="stable")[:N_KEPT]
        return {tuple(sorted((*indices, int(index)))): float(bounds[index]) for index in best if index not in indices}

    def _hits(self, indices: tuple[int, ...], with_record: bool) -> np.ndarray:
        """For each condition, how many fits show it together with the given ones."""
        masks = self.masks[with_record]
        together = masks & np.bitwise_and.reduce(masks[list(indices)], axis=0) if indices else masks
        return np.bitwise_count(together).sum(axis=1, dtype=np.int64)


def _conditions(index: int, column: Column, values: np.ndarray) -> Iterator[Condition]:
    """Conditions on a column to try: its frequent values and, where values are in order, thresholds; the plainest first."""
    known = values[~np.isnan(values)]
    distinct, numbers = np.unique(known, return_counts=True)
    frequent = distinct[np.argsort(-numbers, kind="stable")][:N_VALUES]
    frequent = frequent[: np.count_nonzero(numbers * RAREST >= len(values))]
    absent = [np.nan] if len(known) < len(values) else []
    if len(distinct) + len(absent) < 2:
        return
    yield from (Condition(index, "=", float(value), column) for value in (*frequent, *absent))
    if column.labels is not None:
        yield from (Condition(index, "!=", float(value), column) for value in (*frequent, *absent))
        return
    yield from (Condition(index, "!=", value, column) for value in absent)
    few = len(distinct) <= N_THRESHOLDS
    levels = distinct if few else np.unique(np.quantile(known, np.linspace(0, 1, N_THRESHOLDS), method="nearest"))
    for value in levels:
        yield Condition(index, "<=", float(value), column)
        yield Condition(index, ">=", float(value), column)


def _scores(seen: Observations, delta: float, confidence: float) -> list[Found]:
    """A score learned on half of the fits, with the thresholds that are best on the others."""
    half = len(seen.without) // 2
    first, second = seen.part(0, half), seen.part(half, len(seen.without))
    rows = np.concatenate([first.without, first.with_record])
    labels = np.repeat([False, True], [len(first.without), len(first.with_record)])
    model = RandomForestClassifier(60, max_depth=8, min_samples_leaf=20, random_state=0).fit(_finite(rows), labels)
    found = []
    for with_record, sign in ((False, -1), (True, 1)):
        likelier, other = (np.sort(_scored(model, sign, part)) for part in second.ordered(with_record))
        thresholds = np.unique(np.quantile(likelier, np.linspace(0, 1, N_SCORES), method="nearest"))
        hits, other_hits = (len(part) - np.searchsorted(part, thresholds) for part in (likelier, other))
        limits = Limits(len(likelier), len(other), delta, 1 - (1 - confidence) / len(thresholds))
        bounds = limits.epsilon(hits, other_hits)
        found.append(Found(Score(model, sign, float(thresholds[bounds.argmax()])), with_record, float(bounds.max())))
    return found


def _scored(model: Any, sign: int, rows: np.ndarray) -> np.ndarray:
    """For each fit, how sure the model is that the record was there, or with the sign -1 that it was not."""
    return sign * (model.predict_proba(_finite(rows))[:, 1] - 0.5)


def _finite(rows: np.ndarray) -> np.ndarray:
    """The numbers of fits with a large negative one for missing values, clipped to what the learner takes."""
    return np.clip(np.nan_to_num(rows, nan=-1e9), -1e9, 1e9)
