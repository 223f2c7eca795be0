"""A statistical lower bound on epsilon, from many fits on two neighbouring tables and an event that tells them apart."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpforest.audit.events import find_event
from dpforest.audit.fits import Observations, fit, observe, succeeded
from dpforest.audit.pairs import Pair, pairs_for
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
        return {
            "epsilon": self.epsilon,
            "claimed": self.claimed,
            "delta": self.delta,
            "exceeds": self.exceeds,
            "words": str(self),
            "pair": self.pair.name,
            "why": self.pair.why,
            "tables": self.pair.describe(),
            "n_trees": self.pair.n_trees,
            "max_depth": self.pair.max_depth,
            "event": self.event,
            "likelier": self.likelier,
            "hits": list(self.hits),
            "n_tested": self.n_tested,
            "confidence": self.confidence,
            "seconds": self.seconds,
        }


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


def pilot_fits(n_fits: int) -> int:
    """The even number of fits on each table of each pair from which the pair is chosen, if there are several."""
    return min(max(int(PILOT_SHARE * n_fits), LEAST_PILOT), MOST_PILOT) // 2 * 2


def _claim(subject: Subject, pair: Pair) -> float:
    return subject.epsilon if pair.epsilon is None else pair.epsilon


def _promising(subject: Subject, pairs: Sequence[Pair], n_fits: int, n_jobs: int, progress: Callable[[str], None]) -> Pair:
    """The pair of tables whose lower bound, from few fits, is the largest share of its claim."""
    n_pilot = pilot_fits(n_fits)
    pilots, n_half = observe(subject, pairs, n_pilot, n_jobs, progress), n_pilot // 2
    _check_that_some_succeed(subject, pairs, pilots)
    promises = []
    for pair, seen in zip(pairs, pilots, strict=True):
        halves = seen.part(0, n_half), seen.part(n_half, n_pilot)
        bounds = [_pilot_bound(subject, first, second) for first, second in (halves, halves[::-1])]
        share = min(sum(bounds) / 2 / _claim(subject, pair), ENOUGH)
        promises.append((pair.epsilon is None or share > CLEARLY, share))
        progress(f"pilot: {pair.name}")
    return pairs[max(range(len(pairs)), key=promises.__getitem__)]


def _pilot_bound(subject: Subject, finding: Observations, testing: Observations) -> float:
    found = find_event(finding, subject.delta, FINDING_CONFIDENCE)
    return found.test(testing, subject.delta, TESTING_CONFIDENCE)[0]


def _check_that_some_succeed(subject: Subject, pairs: Sequence[Pair], seen: Sequence[Observations]) -> None:
    """Raise the error of the fits if none gave a model: a subject that cannot run must not pass."""
    if not any(succeeded(rows).any() for each in seen for rows in (each.without, each.with_record)):
        fit(subject, pairs[0], pairs[0].tables()[1])
