"""Where numbers lie, found by private choices: quantiles, centres of nodes, the range of a target. Sees sealed counts.

Nothing is assumed about the scale. Bins get narrower towards a centre, by half each time, so a few thousand suit values of
any size. The first centre is the point of the public range nearest to 0. Values that are all alike beside their distance
from the centre (years, or sums near 100,000) lie in few bins; then the bins are placed anew around the bin that was found.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from dpforest.errors import ParameterError
from dpforest.parts.part import Part
from dpforest.parts.recipe import Recipe
from dpforest.parts.shape import Facts
from dpforest.privacy.amounts import divide
from dpforest.privacy.bounds import Bound
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.records.base import MOST_WEIGHT, Counter, SealedTable
from dpforest.schema import TARGET_STEPS, Bounded, Target


def quantile_bound(within: int = 2) -> Bound:
    """The least and the greatest change of a bin's score in ``quantile_scores`` when a record is added.

    Privacy:
        Claim: -(t-1) .. t-1, with t = ``within``.
        Because: an added record is below a bin, in it or above it. It changes t below - (t-1) N by 1 or -(t-1), and
            t above - N by -1 or t-1. So the larger of them and 0 moves by at most t-1.
        Assumes: the bins are public or released.
    """
    return Bound(-(within - 1), within - 1)


def quantile_scores(below: np.ndarray, above: np.ndarray, n_records: np.ndarray, within: int = 2) -> np.ndarray:
    """Scores of bins: 0 for the bin where all but 1/``within`` of the records end, by default the median's.

    A score is minus by how many records, times ``within``, the bin is too high or too low. ``below`` and ``above`` are the
    numbers of records on both sides of each bin.
    """
    return -np.maximum(np.maximum(within * below - (within - 1) * n_records, within * above - n_records), 0)


def median_scores(counts: np.ndarray) -> np.ndarray:
    """Scores ``(..., n_bins)`` of bins by how far they are from the median, for numbers of records ``(..., n_bins)``."""
    n_records = counts.sum(axis=-1, keepdims=True)
    below = np.cumsum(counts, axis=-1) - counts
    return quantile_scores(below, n_records - below - counts, n_records)


@dataclass(frozen=True)
class Centres(Part):
    """A rule that chooses a centre for each node; its records then count as below or above, by capped distance.

    The score of a centre m is the smaller of the two sides, min(sum of weights above m, sum of weights below m), the weight
    of a record being its distance from m, full from ``reach`` (a fraction of the range) on: a soft median.

    Privacy:
        Claim: the centres of a level cost ``amount`` once.
        Because: an added record is above, below or at m, so for each m it raises one of the two sums by 0 .. MOST_WEIGHT and
            the smaller of them by 0 .. MOST_WEIGHT: monotone, of that width. Nodes of a level hold different records.
        Assumes: values are whole steps; the grid of centres is public.
    """

    share: float = 0.25  # of a level's amount
    reach: float = 0.1  # the distance of full weight, as a fraction of the range
    n_centres: int = 64
    targets = (Bounded,)

    def __post_init__(self) -> None:
        if not (0 < self.share < 1 and 1 / TARGET_STEPS <= self.reach <= 1 and 1 <= self.n_centres <= TARGET_STEPS):
            raise ParameterError("Centres need 0 < share < 1, a reach of at most 1 and 1 .. 1024 centres.")

    def release(self, counter: Counter, first: int, n_nodes: int, amount: float, gate: Gate, purpose: Purpose) -> None:
        """Release a centre for each open node; its records then count as below or above it."""
        reach = round(self.reach * TARGET_STEPS)
        centres, above, below = _weights(self.n_centres, reach)
        scores = counter.count_values(first, n_nodes).map(partial(_smaller_side, above, below))
        chosen = gate.select(scores, None, Bound(0, MOST_WEIGHT), amount, replace(purpose, step="centres"))
        counter.weigh_distances(first, centres[chosen], reach)


@lru_cache(maxsize=8)
def _weights(n_centres: int, reach: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centres in the middles of equal cells, and the weights ``(n_steps, n_centres)`` of values above and below them."""
    centres = (2 * np.arange(n_centres) + 1) * TARGET_STEPS // (2 * n_centres)
    distance = np.arange(TARGET_STEPS + 1)[:, None] - centres
    weights = np.minimum(np.abs(distance) * MOST_WEIGHT // reach, MOST_WEIGHT)
    return centres, np.where(distance > 0, weights, 0), np.where(distance < 0, weights, 0)


def _smaller_side(above: np.ndarray, below: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Scores ``(n_nodes, n_centres)`` of centres, for numbers of records ``(n_nodes, n_steps)`` at each value."""
    # Sums stay far below 2**53, so these products of floats are exact integers.
    exact = counts.astype(np.float64)
    return np.minimum(exact @ above, exact @ below).astype(np.int64)


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
        Because: a choice of a location or spread costs its share (``quantile_bound``), and choices add up.
            Whether there is another follows from released values, and so do the bins (adaptive sequential composition).
        Assumes: the range of the target is public.
    """
    low, high = target.range
    centre, left = min(max(0.0, low), high), 1.0
    for _ in range(MOST_ZOOMS):
        edges = edges_around(centre, _distances(centre, target, PARTS), target)
        own, amount = divide(amount, [plan.location, left - plan.location])
        scores = source.count_targets(edges).map(median_scores).map(lambda scores: scores[None])
        chosen = int(gate.select(scores, None, quantile_bound(), own, "location of the target")[0])
        below, above = float([low, *edges][chosen]), float([*edges, high][chosen])
        is_centre, centre = below < centre < above, min(max(centre, below), above)
        distances = _distances(centre, target, SPREAD_PARTS)
        edges = edges_around(centre, distances, target)
        own, amount = divide(amount, [plan.spread, left - plan.location - plan.spread])
        left -= plan.location + plan.spread
        scores = source.count_targets(edges).map(partial(spread_scores, edges, centre, distances, low, plan.within))
        chosen = int(gate.select(scores, None, quantile_bound(plan.within), own, "spread of the target")[0])
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
    least = min(LEAST_EXPONENT, top - LEAST_OCTAVES)
    exponents = np.array([*range(least, min(top, MOST_EXPONENT)), *range(MOST_EXPONENT, top, COARSE)])
    within = np.ldexp(1.0, exponents)[:, None] * (1 + np.arange(parts) / parts)
    return np.append(within.ravel(), np.ldexp(1.0, top))


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


def spread_scores(
    edges: np.ndarray, centre: float, distances: np.ndarray, low: float, within: int, counts: np.ndarray
) -> np.ndarray:
    """Scores ``(1, n_distances)`` of the shells below each distance, by ``quantile_scores`` of the distances of records."""
    below, above = (count_below(edges, counts, centre + side * distances, low) for side in (-1, 1))
    reached, n_records = above - below, counts.sum()  # records at less than each distance, and all
    return quantile_scores(np.concatenate([[0], reached[:-1]]), n_records - reached, n_records, within)[None]


# How far a range goes to each side of the location, in spreads.
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0)
LEAST_WIDTH = 0.9  # of a range, in spreads; where public bounds leave less room, only the widest range
# Scores are in thousandths of a record; a range of twice the width costs as much as 4 % of the records outside.
UNIT, PRICE = 1000, 40


@dataclass(frozen=True)
class TargetRange(Part):
    """A released range that holds nearly all target values; records are then clipped to it.

    First a location and a spread are chosen (``find_scale``), then how far the range goes to each side. The score of a range
    is minus the number of records outside, minus 4 % of all records for each doubling of its width.

    Privacy:
        Claim: costs ``share`` of what the choice of the scale leaves, and what that costs.
        Because: an added record lowers the score of a range by its price, and by ``UNIT`` more if it is outside
            (``range_bound``). The ranges follow from the released scale, and what the steps cost adds up.
        Assumes: the range of the schema is public; the number of rows is public or released.
    """

    share: float = 0.04
    needs_rows = True
    targets = (Bounded,)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ParameterError(f"The share of the target's range must lie in (0, 1), not {self.share!r}.")

    def release(self, source: SealedTable, amount: float, gate: Gate, facts: Facts) -> tuple[Bounded, float]:
        target = source.schema.target
        assert isinstance(target, Bounded)
        scale, amount = find_scale(source, target, ScalePlan.of(facts), amount, gate)
        lows, highs, prices = ranges(scale, target)
        if len(lows) == 1:  # the public bounds leave no choice
            return replace(target, lower=float(lows[0]), upper=float(highs[0])), amount
        # Values that equal the upper end of a range are inside of it.
        edges = edges_within(np.concatenate([lows, np.nextafter(highs, np.inf)]), target)
        own, amount = divide(amount, [self.share, 1 - self.share])
        scores = source.count_targets(edges).map(partial(range_scores, edges, lows, highs, prices, target.range[0]))
        chosen = int(gate.select(scores, None, range_bound(prices), own, "range of the target")[0])
        return replace(target, lower=float(lows[chosen]), upper=float(highs[chosen])), amount


def with_range(given: Recipe, target: Target) -> Recipe:
    """The recipe, with a private target range where a bound is missing and the recipe needs one."""
    lacks = isinstance(target, Bounded) and not target.has_bounds
    return replace(given, target_range=TargetRange()) if lacks and not given.planner and not given.target_range else given


def ranges(scale: Scale, target: Bounded) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lower and upper ends of all ranges around a location, within the public range, and the price of each."""
    low, high = target.range
    down, up = (side.ravel() for side in np.meshgrid(STEPS, STEPS, indexing="ij"))
    lows, highs = np.maximum(scale.location - down * scale.spread, low), np.minimum(scale.location + up * scale.spread, high)
    widths = highs - lows
    kept = widths >= min(LEAST_WIDTH * scale.spread, widths.max())
    ends = sorted(set(zip(lows[kept].tolist(), highs[kept].tolist(), strict=True)))
    narrowest = min(b - a for a, b in ends)
    prices = [round(PRICE * math.log2((b - a) / narrowest)) for a, b in ends]
    return np.array([a for a, _ in ends]), np.array([b for _, b in ends]), np.array(prices)


def range_bound(prices: np.ndarray) -> Bound:
    """The least and the greatest change of a range's score when a record is added; proved in ``TargetRange``."""
    return Bound(low=-UNIT - int(prices.max()), high=-int(prices.min()))


def range_scores(
    edges: np.ndarray, lows: np.ndarray, highs: np.ndarray, prices: np.ndarray, low: float, counts: np.ndarray
) -> np.ndarray:
    """Scores ``(1, n_ranges)`` of ranges, for counts of records by the edges at or below their target."""
    n_records = counts.sum()
    inside = count_below(edges, counts, np.nextafter(highs, np.inf), low) - count_below(edges, counts, lows, low)
    return -(UNIT * (n_records - inside) + prices * n_records)[None]
