"""Private medians and quantiles: choices of the bin that holds one record of many. Sees sealed counts."""

from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from dpforest.errors import ParameterError
from dpforest.parts.part import Part
from dpforest.privacy.bounds import Bound
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.records.base import MOST_WEIGHT, Counter
from dpforest.schema import TARGET_STEPS, Bounded


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
    """Scores of bins, 0 for that which all but 1/``within`` of the records end in: the median's, by default.

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
