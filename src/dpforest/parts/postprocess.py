"""Post-processing: steps that improve released counts and class shares, free of cost. Sees released values only.

Each part has one method, ``refine(forest) -> forest``. Privacy: none is at stake anywhere in this module; its input is
released.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.forest.walks import sum_children
from dpforest.schema import Classes


class PostProcess(Protocol):
    """A step that changes a released forest. One with ``gives_shares`` gives all class shares, whatever they were before."""

    def refine(self, forest: Forest) -> Forest:
        """The forest after the step, with other counts, class shares or structure."""


@dataclass(frozen=True)
class NonNegative:
    """Class shares of the released counts, of which those below 0 are taken as 0.

    The counts stay as they were released: sums and squares of counts that were cut at 0 are too large.

    Privacy: none; input is released.
    """

    gives_shares: ClassVar[bool] = True

    def refine(self, forest: Forest) -> Forest:
        return plain_shares(forest)


@dataclass(frozen=True)
class Consistency:
    """Counts of a node and the sums of its children, both noisy, merged to agree with least variance [hay2010].

    Useful where inner levels were released. Up the tree a count is averaged with the sum of its children, each weighted
    by the other's variance; down the tree what is missing to the parent is shared among children by their variance.

    Privacy: none; input is released.
    """

    gives_shares: ClassVar[bool] = True

    def refine(self, forest: Forest) -> Forest:
        counts, variances = forest.counts.copy(), forest.variances.copy()
        # A sum of children that was not released itself says nothing of its own.
        released = forest.released if len(forest.released) else np.ones(forest.n_nodes, dtype=bool)
        variances[~released & ~forest.is_leaf] = np.inf
        levels = forest.level_slices()
        for level in reversed(levels[:-1]):
            nodes = np.arange(level.start, level.stop)
            nodes = nodes[~forest.is_leaf[nodes]]
            sums, noise = _sums_below(forest, counts, variances)
            own, below = variances[nodes], noise[nodes]
            # The weight of the own count; with no noise at all (infinite epsilon) the two agree already.
            weight = np.where(
                np.isinf(own), 0.0, np.divide(below, own + below, out=np.full(len(own), 0.5), where=own + below > 0)
            )
            counts[nodes] = weight[:, None] * counts[nodes] + (1 - weight[:, None]) * sums[nodes]
            variances[nodes] = np.multiply(weight, own, out=below.copy(), where=np.isfinite(own))
        for level in levels[1:]:
            sums, noise = _sums_below(forest, counts, variances)
            nodes = np.arange(level.start, level.stop)
            parents = forest.parents[nodes]
            share = np.divide(variances[nodes], noise[parents], out=np.zeros(len(nodes)), where=noise[parents] > 0)
            counts[nodes] += share[:, None] * (counts[parents] - sums[parents])
        return plain_shares(replace(forest, counts=counts, variances=variances))


def _sums_below(forest: Forest, counts: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each node, the sum over its children of their counts ``(n_nodes, n_values)`` and variances ``(n_nodes,)``."""
    children = np.flatnonzero(forest.parents >= 0)
    sums, noise = np.zeros_like(counts), np.zeros_like(variances)
    np.add.at(sums, forest.parents[children], counts[children])
    np.add.at(noise, forest.parents[children], variances[children])
    return sums, noise


@dataclass(frozen=True)
class Shrinkage:
    """Class shares shrunk towards the parent's, more for noisier counts.

    ``share = (max(count, 0) + m * share of parent) / (sum of max(count, 0) + m)`` with m = ``strength`` standard deviations
    of the node's noise, and at least ``least`` records; the root is pulled towards equal shares. A leaf that holds nothing
    but noise falls back on its ancestors, which replaces every rule about a least number of records.

    Privacy: none; input is released.
    """

    strength: float = 2.0
    least: float = 0.0
    gives_shares: ClassVar[bool] = True

    def refine(self, forest: Forest) -> Forest:
        weights = np.maximum(self.strength * np.sqrt(forest.variances), self.least)
        return replace(forest, shares=_shares(forest, weights))


LEAST_WEIGHT = 5.0  # records; by how much trees without noise are pulled


@dataclass(frozen=True)
class EvenShrinkage:
    """Class shares of additive trees, pulled towards equal ones, the more the noisier the counts.

    ``share = (max(count, 0) + m) / sum`` with m = ``strength`` standard deviations of the noise, and at least five records:
    a leaf that holds little but noise changes little of what the other trees predict.

    Privacy: none; input is released.
    """

    strength: float = 3.0
    gives_shares: ClassVar[bool] = True

    def refine(self, forest: Forest) -> Forest:
        shares = held_counts(forest) + np.maximum(self.strength * np.sqrt(forest.variances), LEAST_WEIGHT)[:, None]
        return replace(forest, shares=shares / shares.sum(axis=1, keepdims=True))


def plain_shares(forest: Forest) -> Forest:
    """The forest with class shares by its non-negative counts, or the parent's where all are 0."""
    return replace(forest, shares=_shares(forest, np.zeros(forest.n_nodes)))


def held_counts(forest: Forest) -> np.ndarray:
    """Released counts ``(n_nodes, n_values)``, corrected so that they could be true: none is below 0.

    Where the noise of sizes is wider than that of leads (see ``Rotated``), a size is also at least the largest lead, and a
    node that was not released itself has the sums of its leaves.
    """
    counts, n = forest.counts, forest.counts.shape[1]
    rough = forest.factors[forest.trees, 2] > 0
    if not rough.any():
        return np.maximum(counts, 0)
    sizes = counts.sum(axis=1, keepdims=True)
    leads = (n * counts - sizes) / max(n - 1, 1)
    sizes = np.maximum(sizes, np.abs(leads).max(axis=1, keepdims=True))
    held = np.maximum(np.where(rough[:, None], (sizes + (n - 1) * leads) / n, counts), 0)
    above = rough & ~forest.is_leaf & ~(forest.released if len(forest.released) else forest.is_leaf)
    sum_children(forest.parents, forest.first_children, above, held)
    return held


def _shares(forest: Forest, weights: np.ndarray) -> np.ndarray:
    """Class shares ``(n_nodes, n_values)`` of counts to which ``weights`` records with the parent's shares are added."""
    shares = held_counts(forest)
    above = np.full((1, shares.shape[1]), 1 / shares.shape[1])
    for level in forest.level_slices():
        parents = forest.parents[level]
        prior = np.where(parents[:, None] < 0, above, shares[np.maximum(parents, 0)])
        # A grain of the parent's shares decides where there is nothing else.
        weight = np.maximum(weights[level], 1e-9)[:, None]
        raw = shares[level] + weight * prior
        shares[level] = raw / raw.sum(axis=1, keepdims=True)
    return shares


@dataclass(frozen=True)
class Prune:
    """Removes splits below which every node agrees on the commonest class, for shorter rules.

    Changes no majority vote. A bounded target has no classes to agree on and is left as it is.

    Privacy: none; input is released.
    """

    def refine(self, forest: Forest) -> Forest:
        if not isinstance(forest.target, Classes):
            return forest
        winners = forest.shares.argmax(axis=1)
        agree = np.ones(forest.n_nodes, dtype=bool)
        for level in reversed(forest.level_slices()[1:]):
            parents = forest.parents[level]
            np.logical_and.at(agree, parents, agree[level] & (winners[level] == winners[parents]))
        return forest.without_children(np.flatnonzero(agree & ~forest.is_leaf))


@dataclass(frozen=True)
class PruneByGini:
    """Closes a node over leaves whose average Gini impurity is not below its own, again and again [fletcher2015, eq. 27].

    Impurities and sizes are those of released counts, with counts below 0 taken as 0.

    Privacy: none; input is released.
    """

    def refine(self, forest: Forest) -> Forest:
        counts = np.maximum(forest.counts, 0)
        sizes = counts.sum(axis=1)
        impurity = 1 - np.square(counts / np.maximum(sizes, 1e-9)[:, None]).sum(axis=1)
        impurity[sizes == 0] = 1.0
        closed = forest.is_leaf.copy()
        for level in reversed(forest.level_slices()[1:]):
            nodes, index = np.unique(forest.parents[level], return_inverse=True)
            is_over_leaves = np.bincount(index, ~closed[level]) == 0
            below = np.bincount(index, sizes[level] * impurity[level])
            closed[nodes] |= is_over_leaves & (below >= impurity[nodes] * np.bincount(index, sizes[level]))
        return forest.without_children(np.flatnonzero(closed & ~forest.is_leaf))


@dataclass(frozen=True)
class PruneBySignal:
    """Prunes every node whose signal-to-noise ratio is below ``least``, and what is below it [suihkonen2023, eq. 4.40].

    The ratio is the sum of all class counts of the leaves under a node over C sqrt(n) s, for C classes, n leaves and a noise
    of standard deviation s in each count. The square root covers the number of leaves as in eq. 4.39, from which eq. 4.40
    is made: with n itself, as it is set there, a node would have no more signal than its leaves on average, and adding
    leaves up would gain nothing. A pruned node beside one that stays says what its parent says. Roots of trees stay.

    Privacy: none; input is released.
    """

    least: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.least < math.inf:
            raise ParameterError(f"least_snr must be a number of at least 0, not {self.least!r}.")

    def refine(self, forest: Forest) -> Forest:
        signal = np.where(forest.is_leaf, forest.counts.sum(axis=1), 0.0)
        squares = np.where(forest.is_leaf, forest.counts.shape[1] ** 2 * forest.variances, 0.0)
        levels = forest.level_slices()
        for level in reversed(levels[1:]):
            np.add.at(signal, forest.parents[level], signal[level])
            np.add.at(squares, forest.parents[level], squares[level])
        # Without noise, whoever holds a record has signal.
        pruned = (signal < np.maximum(self.least * np.sqrt(squares), 1e-9)) & (forest.parents >= 0)
        for level in levels[1:]:
            pruned[level] |= pruned[forest.parents[level]]
        shares, stays = forest.shares.copy(), forest.is_leaf.copy()
        stays[forest.parents[~pruned & (forest.parents >= 0)]] = True
        beside = np.flatnonzero(pruned & stays[forest.parents])
        shares[beside] = shares[forest.parents[beside]]
        return replace(forest, shares=shares).without_children(np.flatnonzero(~stays))


@dataclass(frozen=True)
class LeastLeaf:
    """Undoes splits if a child has less than ``share`` of its tree's records [suihkonen2023, §4.5.1 on Rana et al.].

    Sizes are sums of released counts. A split that is undone takes those below it along, so that what is left is the tree
    that would have stopped there; its counts have the noise of all leaves that it takes the place of.

    Privacy: none; input is released.
    """

    share: float = 0.01

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ParameterError(f"least_leaf is a share of the records and must lie in [0, 1), not {self.share!r}.")

    def refine(self, forest: Forest) -> Forest:
        sizes, children = forest.counts.sum(axis=1), np.flatnonzero(forest.parents >= 0)
        small = sizes[children] < self.share * sizes[forest.trees[children]]  # a tree's root has its number
        return forest.without_children(forest.parents[children[small]])
