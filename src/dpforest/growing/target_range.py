"""A private range of a bounded target, since public bounds are often much wider than the values. Sees sealed counts."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.parts import recipe
from dpforest.privacy.amounts import divide
from dpforest.privacy.base import Bound
from dpforest.privacy.gate import Gate
from dpforest.records.base import AllTrees, Counter, Windowed
from dpforest.schema import FINE_STEPS, TARGET_STEPS

CELLS = 128  # ends of ranges are multiples of 1/128 of the public range
PRICE = 10  # a range over all cells costs as much as a tenth of the records outside


@dataclass(frozen=True)
class TargetRange(recipe.TargetRange):
    """A released range in which nearly all values of the target lie; trees then see values clipped to it.

    The score of a range is minus the number of records outside, minus its width (as a fraction of the public range) times a
    tenth of all records.

    Privacy:
        Claim: costs ``share`` of the amount.
        Because: in units of 1/1280 record an added record lowers the score of a range of k cells by k if inside, by
            1280 + k if not, 1 <= k <= 128, and nothing is outside of all 128: a change in -1407 .. -1.
        Assumes: the cells are public.
    """

    share: float = 0.04
    needs = (Windowed,)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ParameterError(f"The share of the target's range must lie in (0, 1), not {self.share!r}.")

    def release(self, counter: Counter, amount: float, gate: Gate) -> tuple[tuple[int, int], float]:
        """The ends of the chosen range in fine steps, and what is left of ``amount``; the counter then clips to it."""
        assert isinstance(counter, Windowed)
        own, rest = divide(amount, [self.share, 1 - self.share])
        lows, highs = np.triu_indices(CELLS + 1, 1)
        counter.deal(AllTrees(1), gate.entropy)
        scores = counter.count_values(0, 1).map(partial(range_scores, lows, highs))
        chosen = gate.select(scores, None, range_bound(), own, "range of the target")[0]
        window = (int(lows[chosen]) * FINE_STEPS // CELLS, int(highs[chosen]) * FINE_STEPS // CELLS)
        counter.set_window(*window)
        return window, rest


def range_bound() -> Bound:
    """The least and the greatest change of a range's score when a record is added; proved in ``TargetRange``."""
    return Bound(low=1 - (PRICE + 1) * CELLS, high=-1)


def range_scores(lows: np.ndarray, highs: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Scores ``(1, n_ranges)`` of ranges, for numbers of records ``(1, TARGET_STEPS + 1)`` at each value of the target."""
    below = np.concatenate([[0], np.cumsum(counts[0])])
    steps = TARGET_STEPS // CELLS
    inside = below[highs * steps + 1] - below[lows * steps]
    return -(PRICE * CELLS * (below[-1] - inside) + (highs - lows) * below[-1])[None]


def widened(forest: Forest, window: tuple[int, int]) -> Forest:
    """The forest with counts, shares, votes and noise in terms of the public range, from those in terms of the window."""
    low, high = (end / FINE_STEPS for end in window)

    def widen(table: np.ndarray) -> np.ndarray:
        sums = table.sum(axis=1)
        part = low * sums + (high - low) * table[:, 1]
        return np.stack([sums - part, part], axis=1)

    # The covariance of (1 - low) c0 + (1 - high) c1 and low c0 + high c1, by the factors of ``bands``.
    first, rest, common = forest.factors.T
    both = (1 - low) * low * first + (1 - high) * high * rest + (2 - low - high) * (low + high) * common
    of_low = (1 - low) ** 2 * first + (1 - high) ** 2 * rest + (2 - low - high) ** 2 * common
    of_high = low**2 * first + high**2 * rest + (low + high) ** 2 * common
    noise = np.stack([of_low - both, of_high - both, both], axis=1)
    shares, votes = widen(forest.shares), widen(forest.votes)
    return replace(forest, counts=widen(forest.counts), shares=shares, votes=votes, noise=noise)
