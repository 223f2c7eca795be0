"""A private range of a bounded target, since public bounds are often much wider than the values. Sees sealed counts."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpforest.errors import ParameterError
from dpforest.growing.target_scale import Scale, ScalePlan, count_below, edges_within, find_scale
from dpforest.parts.part import Part
from dpforest.parts.recipe import Recipe
from dpforest.parts.shape import Facts
from dpforest.privacy.amounts import divide
from dpforest.privacy.bounds import Bound
from dpforest.privacy.gate import Gate
from dpforest.records.base import SealedTable
from dpforest.schema import Bounded, Target

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

    def planned_share(self, facts: Facts) -> float:
        plan = ScalePlan.of(facts)
        return 1 - (1 - plan.location - plan.spread) * (1 - self.share)

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
