"""How far released numbers may lie from what they stand for: the one source of every band. Public values only.

The noise in the counts of a node has the covariance ``variance * (diag(first, rest, .., rest) + common)``. Counts with
independent noise have the factors (1, 1, 0); where leads are released precisely and sizes roughly (``leaves.rotated``) the
noise of the size is common to all counts. Whatever is shown is linear in the counts, or a ratio of two such forms.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

# A value without noise lies within its band with a probability of about 95 %: exactly so if the noise is normal.
NORMAL_95 = 1.96
# Standard deviations from which on a number stands out of its noise.
STANDS_OUT = 3.0
INDEPENDENT = (1.0, 1.0, 0.0)


@dataclass(frozen=True)
class Bands:
    """Bands of what is read off counts ``(n_nodes, n_values)``; ``factors`` ``(n_nodes, 3)`` are first, rest, common."""

    counts: np.ndarray
    variances: np.ndarray
    factors: np.ndarray

    @property
    def n_values(self) -> int:
        return self.counts.shape[1]

    def summed(self, nodes: slice) -> "Bands":
        """Bands of one node that holds what some nodes with independent noise hold together."""
        factors = (self.variances[nodes, None] * self.factors[nodes]).sum(axis=0, keepdims=True)
        return Bands(self.counts[nodes].sum(axis=0, keepdims=True), np.ones(1), factors)

    @cached_property
    def _own(self) -> np.ndarray:
        """The factor that each count has for itself, ``(n_nodes, n_values)``."""
        return np.repeat(self.factors[:, :2], [1, self.n_values - 1], axis=1)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Records of each node, as released: unbiased, so possibly below 0."""
        return self.counts.sum(axis=1)

    @cached_property
    def size_variances(self) -> np.ndarray:
        return self._variances(np.ones_like(self.counts))

    @cached_property
    def size_deviations(self) -> np.ndarray:
        return np.sqrt(self.size_variances)

    @cached_property
    def leads(self) -> np.ndarray:
        """By how much the first class of each node leads the mean of the others."""
        return (self.n_values * self.counts.max(axis=1) - self.sizes) / max(self.n_values - 1, 1)

    @cached_property
    def lead_deviations(self) -> np.ndarray:
        weights = np.full(self.counts.shape, -1.0)
        np.put_along_axis(weights, self.counts.argmax(axis=1)[:, None], self.n_values - 1.0, axis=1)
        return np.sqrt(self._variances(weights)) / max(self.n_values - 1, 1)

    def _variances(self, weights: np.ndarray) -> np.ndarray:
        """Variance of the noise in ``sum(weights * counts)`` of each node."""
        own = (self._own * np.square(weights)).sum(axis=1)
        return np.maximum(self.variances * (own + self.factors[:, 2] * np.square(weights.sum(axis=1))), 0)

    @cached_property
    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of a 95 % band of the share of each value, see ``ratio_band``."""
        common, n = self.variances[:, None] * self.factors[:, 2:], self.n_values
        own = self.variances[:, None] * self._own
        return ratio_band(self.counts, self.sizes[:, None], own + common, own + n * common, self.size_variances[:, None])

    def gains(self, parents: np.ndarray, levels: list[slice], records: np.ndarray) -> np.ndarray:
        """Decrease of impurity by each node's split without what noise and chance give, its variance, that if it were 0.

        A split of n records with shares s into children of n_k records lowers impurity by ``sum(|d_k|**2 / n_k)``, with
        ``d_k = counts_k - n_k s``. Noise alone lifts ``|d_k|**2`` by its variance, which is known: T_k for s given, and
        ``(1 - 2r) T_k + r**2 sum(T)`` with r = n_k / n since s is taken from the same children. So does chance: were
        children drawn at random, by ``n_k (1 - n_k / n)`` times the impurity of a record, ``n / (n - 1) (1 - |s|**2)``.
        Both are taken off; squares of noisy sizes are taken without their own noise. What is divided by are sizes of at
        least three standard deviations, so a child that does not stand out says little, and s is pulled
        to that of the parent in the same way. ``records`` says how much of a record each node counts it for: 0
        where the spread within nodes is not released (a bounded target), which takes off noise only.

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
        """Variance of the noise in ``counts - size * shares``, summed over values; ``squares`` sum squared shares."""
        own, common, n = self._own[nodes], self.factors[nodes, 2], self.n_values
        factor = own.sum(axis=1) * (1 + squares) - 2 * (own * shares).sum(axis=1) + common * (n**2 * squares - n)
        return self.variances[nodes] * np.maximum(factor, 0)


def ratio_band(
    part: np.ndarray, whole: np.ndarray, of_part: np.ndarray, of_both: np.ndarray, of_whole: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a 95 % band of ``part / whole`` within 0 .. 1, from variances and covariance; 0 and 1 if the whole is noise.

    Those s are inside for which ``part - s * whole`` is within 1.96 standard deviations of 0 (Fieller). It is linear, so
    this holds for small wholes too.
    """
    wide = NORMAL_95**2
    square = np.square(whole) - wide * of_whole
    known = (square > 0) & (whole > 0)
    middle = part * whole - wide * of_both
    root = np.sqrt(np.maximum(np.square(middle) - square * (np.square(part) - wide * of_part), 0))
    square = np.where(known, square, 1)
    low, high = np.where(known, (middle - root) / square, 0), np.where(known, (middle + root) / square, 1)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)
