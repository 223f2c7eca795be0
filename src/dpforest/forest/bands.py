"""Bands: how far released numbers may lie from the values without noise. Released values only; every band comes from here.

The noise in the counts of a node has the covariance ``variance * (diag(first, rest, .., rest) + common)``. Counts with
independent noise have the factors (1, 1, 0); where leads are released precisely and sizes roughly (``leaves.Rotated``) the
noise of the size is common to all counts. Whatever is shown is linear in the counts, or a ratio of two such numbers.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

# A value without noise lies within its band with a probability of about 95 %: exactly so if the noise is normal.
NORMAL_95 = 1.96
# A number stands out of its noise from this many standard deviations on.
STANDS_OUT = 3.0
INDEPENDENT = (1.0, 1.0, 0.0)


@dataclass(frozen=True)
class Bands:
    """Sizes, leads and shares of nodes by their released counts, each with its standard deviation or band."""

    counts: np.ndarray  # (n_nodes, n_values)
    variances: np.ndarray  # (n_nodes,)
    factors: np.ndarray  # (n_nodes, 3): first, rest and common, see above

    @property
    def n_values(self) -> int:
        return self.counts.shape[1]

    def summed(self, nodes: slice) -> "Bands":
        """Bands of the sum of some nodes, whose noise is independent, as if it were one node."""
        factors = (self.variances[nodes, None] * self.factors[nodes]).sum(axis=0, keepdims=True)
        return Bands(self.counts[nodes].sum(axis=0, keepdims=True), np.ones(1), factors)

    @cached_property
    def _own(self) -> np.ndarray:
        """The factor of the independent noise in each count, ``(n_nodes, n_values)``: first or rest."""
        return np.repeat(self.factors[:, :2], [1, self.n_values - 1], axis=1)

    @cached_property
    def count_deviations(self) -> np.ndarray:
        """The standard deviation of the noise in each count, ``(n_nodes, n_values)``."""
        return np.sqrt(np.maximum(self.variances[:, None] * (self._own + self.factors[:, 2:]), 0))

    @cached_property
    def centred_deviations(self) -> np.ndarray:
        """As ``count_deviations``, of each count less the mean of all counts of its node: common noise drops out."""
        own, n = self._own, self.n_values
        centred = own * (1 - 2 / n) + own.sum(axis=1, keepdims=True) / n**2
        return np.sqrt(np.maximum(self.variances[:, None] * centred, 0))

    @cached_property
    def sizes(self) -> np.ndarray:
        """The released number of records of each node, ``(n_nodes,)``: unbiased, so it may be below 0."""
        return self.counts.sum(axis=1)

    @cached_property
    def size_variances(self) -> np.ndarray:
        """The variance of the noise in each size, ``(n_nodes,)``."""
        return self.variances_of(np.ones_like(self.counts))

    @cached_property
    def size_deviations(self) -> np.ndarray:
        """The standard deviation of the noise in each size, ``(n_nodes,)``."""
        return np.sqrt(self.size_variances)

    @cached_property
    def leads(self) -> np.ndarray:
        """The count of the most frequent class of each node less the mean of the other counts, ``(n_nodes,)``."""
        return (self.n_values * self.counts.max(axis=1) - self.sizes) / max(self.n_values - 1, 1)

    @cached_property
    def lead_deviations(self) -> np.ndarray:
        """The standard deviation of the noise in each lead, ``(n_nodes,)``, as if the class had been known before."""
        weights = np.full(self.counts.shape, -1.0)
        np.put_along_axis(weights, self.counts.argmax(axis=1)[:, None], self.n_values - 1.0, axis=1)
        return np.sqrt(self.variances_of(weights)) / max(self.n_values - 1, 1)

    def variances_of(self, weights: np.ndarray) -> np.ndarray:
        """The variance of the noise in ``sum(weights * counts)`` of each node, ``(..., n_nodes)``.

        ``weights`` has the shape ``(..., n_nodes, n_values)``.
        """
        own = (self._own * np.square(weights)).sum(axis=-1)
        return np.maximum(self.variances * (own + self.factors[:, 2] * np.square(weights.sum(axis=-1))), 0)

    @cached_property
    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of 95 % bands of each value's share in its node, as two arrays ``(n_nodes, n_values)``."""
        common, n = self.variances[:, None] * self.factors[:, 2:], self.n_values
        own = self.variances[:, None] * self._own
        return ratio_band(self.counts, self.sizes[:, None], own + common, own + n * common, self.size_variances[:, None])

    def gains(self, parents: np.ndarray, levels: list[slice], records: np.ndarray) -> np.ndarray:
        """The decrease of impurity by each node's split, less what noise and chance give, with variances: ``(3, n_nodes)``.

        The rows are the decrease, its variance, and the variance that it would have if the true decrease were 0.

        A split of n records with shares s into children of n_k records lowers impurity by ``sum(|d_k|**2 / n_k)``, with
        ``d_k = counts_k - n_k s``. Noise alone lifts ``|d_k|**2`` by its variance, which is known: T_k for s given, and
        ``(1 - 2r) T_k + r**2 sum(T)`` with r = n_k / n since s is taken from the same children. So does chance: were
        children drawn at random, by ``n_k (1 - n_k / n)`` times the impurity of a record, ``n / (n - 1) (1 - |s|**2)``.
        Both are subtracted; squares of noisy sizes are taken without their own noise. The divisor is a size of at least
        three standard deviations, so a child that does not stand out says little, and s is pulled to the shares of the
        parent in the same way. ``records`` has for each node the weight with which it counts a record: 0 where the spread
        within nodes is not released (a bounded target), so that only noise is subtracted.

        For normal d with a variance of T/m in each of m independent directions, ``|d|**2`` has the variance
        ``(4 |d|**2 T + 2 T**2) / m``. The d of K children sum to 0, so decreases of alike children vary by K/(K-1) more.
        """
        children = np.flatnonzero(parents >= 0)
        above = parents[children]
        n, counts, n_nodes = self.sizes, np.zeros_like(self.counts), len(self.sizes)
        np.add.at(counts, above, self.counts[children])
        total = np.bincount(above, n[children], n_nodes)
        least = STANDS_OUT * np.sqrt(np.bincount(above, self.size_variances[children], n_nodes))
        held = np.maximum(total, least)
        held = np.where(held > 0, held, 1)
        shares = np.empty_like(counts)
        for level in levels:
            up = parents[level]
            prior = np.where(up[:, None] < 0, 1 / self.n_values, shares[np.maximum(up, 0)])
            shares[level] = prior + (counts[level] - prior * total[level, None]) / held[level, None]
        squares = np.square(shares).sum(axis=1)
        single = np.maximum(1 - squares, 0) * total / np.maximum(np.maximum(total - 1, total / 2), 1e-100)

        own, size_variances = n[children], self.size_variances[children]
        part = own / held[above]
        square = (np.square(own) - size_variances) / np.square(held[above])
        spread = self._spread(children, shares[above], squares[above])
        noise = (1 - 2 * part) * spread + square * np.bincount(above, spread, n_nodes)[above]
        chance = records[children] * np.maximum(single[above], 0) * (own - square * held[above])
        found = np.square(self.counts[children] - own[:, None] * shares[above]).sum(axis=1) - noise - chance
        by = np.maximum(own, STANDS_OUT * np.sqrt(size_variances))
        by, seen = np.where(by > 0, by, 1), by > 0
        by_luck = np.maximum(noise, 0) + np.maximum(chance, 0)
        n_children = np.bincount(above, minlength=n_nodes)[above]
        scale = by_luck / np.square(by) * n_children / np.maximum(n_children - 1, 1) / max(self.n_values - 1, 1)
        results = found / by, (4 * np.maximum(found, 0) + 2 * by_luck) * scale, 2 * by_luck * scale
        return np.array([np.bincount(above, np.where(seen, result, 0), n_nodes) for result in results])

    def _spread(self, nodes: np.ndarray, shares: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """The variance of the noise in ``counts - size * shares``, summed over values; ``squares`` is ``sum(shares**2)``."""
        own, common, n = self._own[nodes], self.factors[nodes, 2], self.n_values
        factor = own.sum(axis=1) * (1 + squares) - 2 * (own * shares).sum(axis=1) + common * (n**2 * squares - n)
        return self.variances[nodes] * np.maximum(factor, 0)


def ratio_band(
    part: np.ndarray, whole: np.ndarray, of_part: np.ndarray, of_both: np.ndarray, of_whole: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The low and high ends of a 95 % band of ``part / whole`` within 0 .. 1, from variances and covariance of the noise.

    A share s is inside the band if ``part - s * whole`` is within 1.96 standard deviations of 0 (Fieller). This difference
    is linear, so the band holds for a small whole too. The ends are 0 and 1 where the whole cannot be told from 0.
    """
    wide = NORMAL_95**2
    square = np.square(whole) - wide * of_whole
    known = (square > 0) & (whole > 0)
    middle = part * whole - wide * of_both
    root = np.sqrt(np.maximum(np.square(middle) - square * (np.square(part) - wide * of_part), 0))
    square = np.where(known, square, 1)
    low, high = np.where(known, (middle - root) / square, 0), np.where(known, (middle + root) / square, 1)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)
