"""A statistical lower bound on epsilon, from many fits on two neighbouring tables and an event that tells them apart.

An event is a few conditions on what was seen of a fit, or a threshold on a score that was learned from it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import betaincinv
from sklearn.ensemble import RandomForestClassifier

from dpforest.audit.cases import Pair, pairs_for
from dpforest.audit.fits import Observable, Observations, fit, observe
from dpforest.audit.subject import Subject
from dpforest.errors import ParameterError

# Fits on each table of each pair, as a share of those on the chosen one, from which the pair is chosen.
PILOT_SHARE, LEAST_PILOT, MOST_PILOT = 1 / 40, 60, 500
# A pilot need not be sure, since it only chooses; but with few fits a search that is easily convinced finds chance.
FINDING_CONFIDENCE, TESTING_CONFIDENCE = 0.95, 0.9
# A pair with a claim of its own has to break that one by this factor, since it says nothing about the subject's.
CLEARLY = 1.1
# A claim that fails by this factor has failed. Of several pairs that show it the first will do: it is the simplest.
ENOUGH = 2.0
WITH, WITHOUT = "with the record", "without it"
# Thresholds and values of a column that are tried.
N_THRESHOLDS, N_VALUES = 24, 16
N_SCORES = 200  # thresholds of a learned score that are tried
# How many conjunctions are kept while they grow, and how many conditions one has.
N_KEPT, MOST_CONDITIONS = 20, 3
# The best of many is too good: a further condition counts as a choice among so many, which widens the limits.
CHOICES = 30
RAREST = 100  # values that come less often than once in so many fits are not asked for
LEAST_TO_LEARN = 1_000  # fits of each table from which a score is worth learning


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on epsilon, with the tables and the event that show it."""

    epsilon: float
    claimed: float
    delta: float
    pair: Pair
    event: str
    likelier: str  # WITH or WITHOUT
    hits: tuple[int, int]  # on the fits that test, likelier table first
    n_tested: int  # fits of each table that test
    confidence: float
    seconds: float

    @property
    def exceeds(self) -> bool:
        """Whether the lower bound is above the claimed epsilon, so that the claim is refuted."""
        return self.epsilon > self.claimed

    def __str__(self) -> str:
        hits, others = self.hits
        return (
            f"epsilon is at least {self.epsilon:.3g}, and {self.claimed:g} is claimed ({100 * self.confidence:.6g} % sure). "
            f"{self.pair.name.capitalize()}: {self.pair.describe()}. Event: {self.event}; of {self.n_tested} fits {hits} "
            f"{self.likelier}, {others} {WITHOUT if self.likelier == WITH else WITH}."
        )

    def to_dict(self) -> dict[str, Any]:
        pair = {"pair": self.pair.name, "why": self.pair.why, "tables": self.pair.describe()}
        shape = {"n_trees": self.pair.n_trees, "max_depth": self.pair.max_depth}
        said = {"exceeds": self.exceeds, "words": str(self), "hits": list(self.hits)}
        return vars(self) | said | pair | shape


def lower_bound(
    subject: Subject,
    pairs: Sequence[Pair] | None = None,
    n_fits: int = 20_000,
    confidence: float = 0.999,
    n_jobs: int = -1,
    progress: Callable[[str], None] = lambda step: None,
) -> LowerBound:
    """The least epsilon that is consistent with what many fits show.

    A pilot chooses the pair of tables on which the bound is the largest share of the claim. Of ``n_fits`` fits on that
    pair, the same number on each table, half find an event and the other half test it.

    Privacy:
        Claim: if the subject is (epsilon, delta)-DP, the bound is above epsilon with probability at most 1 - confidence.
        Because: the pair and the event are fixed before the fits that test it are looked at, so hits on these are two
            binomial numbers. Each Clopper-Pearson limit fails with probability at most (1 - confidence) / 2; if neither
            does, p >= p_low and q <= q_high, and p <= exp(epsilon) q + delta gives epsilon >= log((p_low - delta) / q_high).
        Assumes: fits are independent, each with fresh coins; one bound is reported, not the best of several runs.
    """
    start = time.perf_counter()
    pairs = pairs_for(subject) if pairs is None else list(pairs)
    if not pairs:
        raise ParameterError(f"No pair of tables fits recipe {subject.name!r}.")
    if n_fits < 4:
        raise ParameterError(f"n_fits must be at least 4, a fit of each table to find and one to test, not {n_fits}.")
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must lie between 0 and 1, not {confidence!r}.")
    pair = _promising(subject, pairs, n_fits, n_jobs, progress) if len(pairs) > 1 else pairs[0]
    n_half = n_fits // 4
    (seen,) = observe(subject, [pair], 2 * n_half, n_jobs, progress)
    _check_that_some_succeed(subject, [pair], [seen])
    found = find_event(seen.part(0, n_half), subject.delta, confidence)
    progress(f"event: {found.event}")
    bound, hits = found.test(seen.part(n_half, 2 * n_half), subject.delta, confidence)
    return LowerBound(
        epsilon=max(bound, 0.0),
        claimed=_claim(subject, pair),
        delta=subject.delta,
        pair=pair,
        event=str(found.event),
        likelier=WITH if found.with_record else WITHOUT,
        hits=hits,
        n_tested=n_half,
        confidence=confidence,
        seconds=time.perf_counter() - start,
    )


def _claim(subject: Subject, pair: Pair) -> float:
    return subject.epsilon if pair.epsilon is None else pair.epsilon


def _promising(subject: Subject, pairs: Sequence[Pair], n_fits: int, n_jobs: int, progress: Callable[[str], None]) -> Pair:
    """The pair of tables whose lower bound, from few fits, is the largest share of its claim."""
    # An even number of fits on each table of each pair.
    n_pilot = min(max(int(PILOT_SHARE * n_fits), LEAST_PILOT), MOST_PILOT) // 2 * 2
    pilots, n_half = observe(subject, pairs, n_pilot, n_jobs, progress), n_pilot // 2
    _check_that_some_succeed(subject, pairs, pilots)
    promises = []
    for pair, seen in zip(pairs, pilots, strict=True):
        halves, bound = (seen.part(0, n_half), seen.part(n_half, n_pilot)), 0.0
        for finding, testing in (halves, halves[::-1]):
            found = find_event(finding, subject.delta, FINDING_CONFIDENCE)
            bound += found.test(testing, subject.delta, TESTING_CONFIDENCE)[0] / 2
        share = min(bound / _claim(subject, pair), ENOUGH)
        promises.append((pair.epsilon is None or share > CLEARLY, share))
        progress(f"pilot: {pair.name}")
    return pairs[max(range(len(pairs)), key=promises.__getitem__)]


def _check_that_some_succeed(subject: Subject, pairs: Sequence[Pair], seen: Sequence[Observations]) -> None:
    """Raise the error of the fits if none gave a model: a subject that cannot run must not pass."""
    if not any(each.has_models() for each in seen):
        fit(subject, pairs[0], pairs[0].tables()[1])


@dataclass(frozen=True)
class Condition:
    """The event that a column equals, differs from, or is at most or at least a value; NaN equals NaN."""

    index: int
    relation: str
    value: float
    column: Observable

    def happens(self, rows: np.ndarray) -> np.ndarray:
        """Which fits show it: a mask ``(n_fits,)`` for numbers ``(n_fits, n_columns)``."""
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
        return np.logical_and.reduce([np.full(len(rows), True), *(part.happens(rows) for part in self.conditions)])

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions)) or "anything"


@dataclass(frozen=True)
class ScoreEvent:
    """The event that a learned score, times ``sign``, reaches a threshold."""

    model: Any
    sign: int
    least: float

    def happens(self, rows: np.ndarray) -> np.ndarray:
        return self.score(rows) >= self.least

    def score(self, rows: np.ndarray) -> np.ndarray:
        """The model's confidence for each fit in the record's presence; with the sign -1, in its absence."""
        return self.sign * (self.model.predict_proba(_finite(rows))[:, 1] - 0.5)

    def __str__(self) -> str:
        which = "for" if self.sign > 0 else "against"
        return f"a score {which} the record, learned from all that was seen, >= {self.least:.4g}"


@dataclass(frozen=True)
class Found:
    """An event, the table that makes it likelier, and a lower bound on epsilon from the fits of its discovery."""

    event: All | ScoreEvent
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
            masks = self.masks[with_record] = np.zeros((len(self.conditions), -(-len(rows) // 8)), dtype=np.uint8)
            for mask, condition in zip(masks, self.conditions, strict=True):
                mask[:] = np.packbits(condition.happens(rows))
        # For a first condition, a second one beside it, and so on.
        errors = [(1 - confidence) / CHOICES**n_others for n_others in range(MOST_CONDITIONS)]
        self.limits = [Limits(len(seen.without), len(seen.with_record), delta, 1 - error) for error in errors]

    def conjunction(self, with_record: bool) -> Found:
        """The best conjunction, grown by a condition at a time from the few best."""
        best = Found(All(()), with_record, 0.0)  # worth as much as knowing nothing
        beam: list[tuple[int, ...]] = [()]
        for limits in self.limits:
            bounds: dict[tuple[int, ...], float] = {}
            for indices in beam:
                longer = limits.epsilon(*(self._hits(indices, which) for which in (with_record, not with_record)))
                chosen = np.argsort(-longer, kind="stable")[:N_KEPT].tolist()
                bounds |= {tuple(sorted((*indices, new))): float(longer[new]) for new in chosen if new not in indices}
            beam = sorted(bounds, key=lambda indices: -bounds[indices])[:N_KEPT]
            if not beam or bounds[beam[0]] <= best.epsilon:
                break
            event = All(tuple(self.conditions[index] for index in beam[0]))
            best = Found(event, with_record, bounds[beam[0]])
        return best

    def _hits(self, indices: tuple[int, ...], with_record: bool) -> np.ndarray:
        """For each condition, how many fits show it together with the given ones."""
        masks = self.masks[with_record]
        together = masks & np.bitwise_and.reduce(masks[list(indices)], axis=0) if indices else masks
        return np.bitwise_count(together).sum(axis=1, dtype=np.int64)


def _conditions(index: int, column: Observable, values: np.ndarray) -> Iterator[Condition]:
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
        event = ScoreEvent(model, sign, -np.inf)
        likelier, other = (np.sort(event.score(part)) for part in second.ordered(with_record))
        thresholds = np.unique(np.quantile(likelier, np.linspace(0, 1, N_SCORES), method="nearest"))
        hits, other_hits = (len(part) - np.searchsorted(part, thresholds) for part in (likelier, other))
        limits = Limits(len(likelier), len(other), delta, 1 - (1 - confidence) / len(thresholds))
        bounds = limits.epsilon(hits, other_hits)
        found.append(Found(replace(event, least=float(thresholds[bounds.argmax()])), with_record, float(bounds.max())))
    return found


def _finite(rows: np.ndarray) -> np.ndarray:
    """The numbers of fits with a large negative one for missing values, clipped to what the learner takes."""
    return np.clip(np.nan_to_num(rows, nan=-1e9), -1e9, 1e9)
