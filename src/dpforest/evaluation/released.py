"""Counts with noise, and figures of them with their bands. Released values only.

A figure is a smooth function of the counts. Its gradient says what noise does, since noise is independent in all counts, and
what other records would do, since a count of records varies as much as it is large. That takes records as independent. Those
of one person may be all alike: persons are independent then, and what the at most k records of one add up to has a square of
at most k times the sum of the records' own squares (Cauchy-Schwarz), so the variance is at most k times as large.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpforest.evaluation.result import Score
from dpforest.forest.bands import NORMAL_95, STANDS_OUT


@dataclass(frozen=True)
class Released:
    """Counts of any shape that each have noise of the same standard deviation, 0 if they are exact.

    ``rows`` is how many of the records may be of one person.
    """

    counts: np.ndarray
    deviation: float
    rows: int = 1

    def over(self, *axes: int) -> "Released":
        """The counts summed over some axes."""
        n_cells = np.prod([self.counts.shape[axis] for axis in axes])
        return replace(self, counts=self.counts.sum(axis=axes), deviation=self.deviation * float(np.sqrt(n_cells)))

    def part(self, index: int) -> "Released":
        """The counts at one index of the first axis."""
        return replace(self, counts=self.counts[index])

    def total(self, weights: np.ndarray | float = 1.0) -> float:
        """The sum of the counts times weights: unbiased, so it may be below 0."""
        return float((self.counts * weights).sum())

    def margin(self, weights: np.ndarray | float = 1.0) -> float:
        """The band of ``total``."""
        return NORMAL_95 * self.deviation * float(np.sqrt(np.square(np.broadcast_to(weights, self.counts.shape)).sum()))

    def sampling(self, variance: float) -> float:
        """How far a figure of other rows may lie, if records that are independent would give it this variance."""
        return NORMAL_95 * float(np.sqrt(self.rows * max(variance, 0.0)))

    def ratio(
        self,
        name: str,
        top: np.ndarray,
        bottom: np.ndarray | float = 1.0,
        ends: tuple[float, float] = (0.0, 1.0),
        in_cells: bool = True,
    ) -> Score:
        """The figure ``total(top) / total(bottom)``, cut to its ends; NaN if what it is divided by may be noise.

        The band is that of Fieller, where it is symmetric: a noisy divisor makes it wider. ``in_cells`` if each record is in
        one cell; only then the counts say what other records would do.
        """
        divisor, width = self.total(bottom), self.margin(bottom)
        if divisor <= width * STANDS_OUT / NORMAL_95 or divisor <= 0:
            return Score(name, np.nan, np.nan)
        value = min(max(self.total(top) / divisor, ends[0]), ends[1])
        gradient = np.broadcast_to((top - value * bottom) / divisor, self.counts.shape)
        margin = self.margin(gradient) / (1 - (width / divisor) ** 2)
        # One record more than there are, so that a share of 0 or 1 is not called certain.
        spread = max(float((self.counts * np.square(gradient)).sum()), 0.0) + 1 / divisor**2
        return Score(name, value, margin, self.sampling(spread) if in_cells else np.nan)
