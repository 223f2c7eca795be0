"""Where a bounded target lies and how far it spreads, found by private choices; no scale is assumed. Sees sealed counts.

Bins halve in width towards a centre, first the point of the public range nearest to 0: so a few thousand bins tell apart
values of any size. Values that are all alike beside their distance from the centre (years, or sums near 100,000) lie in few
bins; then the bins are placed anew around the bin that was found.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from dpforest.parts.shape import Facts
from dpforest.privacy.amounts import divide
from dpforest.privacy.bounds import Bound
from dpforest.privacy.gate import Gate
from dpforest.records.base import SealedTable
from dpforest.schema import Bounded

# Distances from a centre: octaves from 2**LEAST up to 2**MOST, beyond that every 16th.
LEAST_EXPONENT, MOST_EXPONENT, COARSE = -40, 64, 16
LEAST_OCTAVES = 20  # that are told apart below the reach of a narrow range
PARTS, SPREAD_PARTS = 16, 2  # equal parts of each octave: of bins of values, and of distances
MOST_ZOOMS = 3
# Rows times strength that a choice needs so that it fails less than once in a thousand fits: twice the logarithm of a
# thousand times the number of bins and, for a distance that holds all records but one in t, t - 1 times that.
LOCATION_SIGNAL, SPREAD_SIGNAL = 32.0, 26.0
# The more records a spread holds, the better it is where many have one value; the most that it may cost.
WITHIN = {16: 0.03, 8: 0.03, 4: 0.1, 2: 1.0}
LEAST_SHARE, MOST_SHARE = 0.002, 0.25
MOST_OF_ALL = 0.6  # that all choices of a scale may take


@dataclass(frozen=True)
class ScalePlan:
    """The shares of an amount for a location and for a spread that holds all but 1/``within`` of records."""

    location: float
    spread: float
    within: int

    @classmethod
    def of(cls, facts: Facts) -> "ScalePlan":
        """The plan whose choices stand out of their noise, for a public or released number of rows; cheaper with more."""
        needed = {within: _share((within - 1) * SPREAD_SIGNAL, facts) for within in WITHIN}
        within = next(within for within, most in WITHIN.items() if needed[within] <= most)
        return cls(_share(LOCATION_SIGNAL, facts), needed[within], within)


def _share(signal: float, facts: Facts) -> float:
    """The share of a budget at which a choice has this strength times the number of rows, within limits."""
    if facts.n_rows <= 0:
        return MOST_SHARE
    strength = signal / facts.n_rows
    if facts.delta > 0:
        # The least rho that (epsilon, delta) gives; a choice of strength s costs s**2/8.
        root = math.sqrt(-math.log(facts.delta))
        share = strength**2 / 8 / (math.sqrt(root**2 + facts.epsilon) - root) ** 2
    else:
        share = strength / facts.epsilon
    return min(max(round(share, 6), LEAST_SHARE), MOST_SHARE)


@dataclass(frozen=True)
class Scale:
    """A released location of a bounded target, and a distance from it within which most of the records lie."""

    location: float
    spread: float


def find_scale(source: SealedTable, target: Bounded, plan: ScalePlan, amount: float, gate: Gate) -> tuple[Scale, float]:
    """The released location and spread of the target, and what is left of ``amount``.

    The location is the end of the median's bin that is nearest to the centre. If the spread is less than the width of that
    bin, both are chosen once more around it, unless too little would be left. Where nearly all records have one value no
    spread is found; it is then that value's distance from 0, or 1.

    Privacy:
        Claim: costs what it takes of ``amount``.
        Because: a choice of a location or spread costs its share (``location_bound``, ``spread_bound``), and choices add up.
            Whether there is another follows from released values, and so do the bins (adaptive sequential composition).
        Assumes: the range of the target is public.
    """
    low, high = target.range
    centre, left = min(max(0.0, low), high), 1.0
    for _ in range(MOST_ZOOMS):
        edges = edges_around(centre, _distances(centre, target, PARTS), target)
        own, amount = divide(amount, [plan.location, left - plan.location])
        scores = source.count_targets(edges).map(location_scores)
        chosen = int(gate.select(scores, None, location_bound(), own, "location of the target")[0])
        below, above = float([low, *edges][chosen]), float([*edges, high][chosen])
        is_centre, centre = below < centre < above, min(max(centre, below), above)
        distances = _distances(centre, target, SPREAD_PARTS)
        edges = edges_around(centre, distances, target)
        own, amount = divide(amount, [plan.spread, left - plan.location - plan.spread])
        left -= plan.location + plan.spread
        scores = source.count_targets(edges).map(partial(spread_scores, edges, centre, distances, low, plan.within))
        chosen = int(gate.select(scores, None, spread_bound(plan.within), own, "spread of the target")[0])
        if chosen == 0:
            return Scale(centre, max(abs(centre), 1.0)), amount
        if is_centre or distances[chosen] >= above - below or 1 - left + plan.location + plan.spread > MOST_OF_ALL:
            break
    # No narrower than what floats of 64 bits tell apart in 2**16 steps and more.
    return Scale(centre, max(float(distances[chosen]), abs(centre) * 2.0**-32)), amount


def _distances(centre: float, target: Bounded, parts: int) -> np.ndarray:
    """Increasing distances from a centre up to the farther end of the range, each octave in ``parts`` equal parts."""
    low, high = target.range
    top = int(np.frexp(max(high - centre, centre - low))[1])
    return _octaves(min(LEAST_EXPONENT, top - LEAST_OCTAVES), top, parts)


@lru_cache(maxsize=64)
def _octaves(least: int, top: int, parts: int) -> np.ndarray:
    exponents = np.array([*range(least, min(top, MOST_EXPONENT)), *range(MOST_EXPONENT, top, COARSE)])
    within = np.ldexp(1.0, exponents)[:, None] * (1 + np.arange(parts) / parts)
    distances = np.append(within.ravel(), np.ldexp(1.0, top))
    distances.setflags(write=False)  # shared by all fits
    return distances


def edges_around(centre: float, distances: np.ndarray, target: Bounded) -> np.ndarray:
    """The points at these distances on both sides of a centre that are inside of the range, each once, increasing."""
    return edges_within(np.concatenate([centre - distances, centre + distances]), target)


def edges_within(points: np.ndarray, target: Bounded) -> np.ndarray:
    """The points that are inside of the range, each once, increasing."""
    low, high = target.range
    return np.unique(points[(points > low) & (points < high)])


def count_below(edges: np.ndarray, counts: np.ndarray, points: np.ndarray, low: float) -> np.ndarray:
    """The number of records below each point, from counts ``(n_edges + 1,)`` by edges at or below.

    Each point is an edge, or not inside of the range, whose lower end is ``low``.
    """
    return np.where(points <= low, 0, np.cumsum(counts)[np.searchsorted(edges, points)])


def location_bound() -> Bound:
    """The least and the greatest change of a bin's score when a record is added.

    Privacy:
        Claim: -1 .. 1.
        Because: an added record is below, in or above a bin, so of 2 below - N and 2 above - N it raises at most one, by 1,
            and lowers the others by 1; the larger of them and 0 moves by at most 1.
        Assumes: the bins are public or released.
    """
    return Bound(-1, 1)


def location_scores(counts: np.ndarray) -> np.ndarray:
    """Scores ``(1, n_bins)`` of bins for counts ``(n_bins,)``: minus by how many records the median is outside of a bin."""
    n_records = counts.sum()
    below = np.cumsum(counts) - counts
    return -np.maximum(2 * np.maximum(below, n_records - below - counts) - n_records, 0)[None]


def spread_bound(within: int) -> Bound:
    """The least and the greatest change of a distance's score when a record is added.

    Privacy:
        Claim: -(t-1) .. t-1, with t = ``within``.
        Because: an added record is nearer than a shell, in it or farther. It changes t nearer - (t-1) N by 1 or -(t-1), and
            t farther - N by -1 or t-1. So the larger of them and 0 moves by at most t-1.
        Assumes: centre and distances are public or released.
    """
    return Bound(-(within - 1), within - 1)


def spread_scores(
    edges: np.ndarray, centre: float, distances: np.ndarray, low: float, within: int, counts: np.ndarray
) -> np.ndarray:
    """Scores ``(1, n_distances)``: how far all records but 1/``within`` are from ending in the shell below each distance."""
    n_records = counts.sum()
    below, above = (count_below(edges, counts, centre + side * distances, low) for side in (-1, 1))
    reached = above - below  # the records at less than each distance
    nearer = np.concatenate([[0], reached[:-1]])
    too_far, too_near = within * nearer - (within - 1) * n_records, within * (n_records - reached) - n_records
    return -np.maximum(np.maximum(too_far, too_near), 0)[None]
