"""How the noise of released counts moves what a forest adds up to: to first order, with its variance. Released values only.

A share of a node is (count + m * prior) / (size + m): m records with the shares of the parent, or with equal ones, are what
post-processing adds (``parts.postprocess``). It moves by (noise of the count - share * noise of the size) / (size + m), and
by m / (size + m) of what the parent's share moves. Votes are linear in shares, or in their logarithms. Sizes are also the
weights by which nodes are averaged, and their noise counts there too. All this follows from what is in the forest: m and
the rate of votes are read off it, and where they do not explain its shares and votes, the noise counts as not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.model.dependence import MOST_AT_ONCE, Dependence, Given, gather
from dpforest.parts.postprocess import held_counts
from dpforest.schema import FINE_STEPS

# Shares are made of counts as post-processing says if they agree to this part of a record; votes, to a step.
AGREES = 1e-6

Term = tuple[Given, np.ndarray]  # points, and by how much each counts in each result ``(n_results, n_points)``


@dataclass(frozen=True)
class Response:
    """How the values of leaves answer to noise in their counts."""

    slopes: np.ndarray  # (n_nodes, n_values, n_outputs): what a value moves by for each share
    masses: np.ndarray  # (n_nodes,): size + m, what a share is divided by
    pulls: np.ndarray  # (n_nodes,): m / (size + m) where the prior is the parent's share, else 0
    known: np.ndarray  # (n_trees,): whether the noise of the tree is known

    @classmethod
    def of(cls, forest: Forest, mixture: np.ndarray) -> "Response":
        """The response of ``votes @ mixture``, which has the shape ``(n_values, n_outputs)``."""
        added, by_parent = _added(forest)
        sizes = held_counts(forest).sum(axis=1)
        # A share of a node that does not stand out of its noise moves by about 1, whatever it is divided by.
        masses = np.maximum(np.maximum(sizes + added, forest.bands.size_deviations), 1e-9)
        slopes, is_known = _slopes(forest, mixture)
        noisy = np.zeros(forest.n_trees, dtype=bool)
        noisy[forest.trees[forest.is_leaf & (forest.variances > 0)]] = True
        known = (is_known & noisy) | (forest.noise_of_votes > 0)
        return cls(slopes, masses, np.where(by_parent[forest.trees], added / masses, 0.0), known)

    def only(self, nodes: np.ndarray, trees: np.ndarray) -> "Response":
        return Response(self.slopes[nodes], self.masses[nodes], self.pulls[nodes], self.known[trees])


def _added(forest: Forest) -> tuple[np.ndarray, np.ndarray]:
    """The records that post-processing added to each node ``(n_nodes,)``; of which trees they have the parents' shares.

    Of all leaves of a tree it added the same number of standard deviations of the noise. Where no number explains the
    shares it is taken as 0, which makes the noise no smaller than it is.
    """
    counts, shares, trees = held_counts(forest), forest.shares, forest.trees
    sizes, deviations = counts.sum(axis=1), np.sqrt(forest.variances)
    even = np.full((1, shares.shape[1]), 1 / shares.shape[1])
    above = np.where(forest.parents[:, None] >= 0, shares[forest.parents], even)
    found, explained = np.zeros((2, forest.n_trees)), np.zeros((2, forest.n_trees), dtype=bool)
    for kind, prior in enumerate((above, np.broadcast_to(even, shares.shape))):
        # shares * (sizes + m) = counts + m * prior, so m is the slope of one difference on the other.
        missing, pull = counts - sizes[:, None] * shares, deviations[:, None] * (shares - prior)
        products = (np.where(forest.is_leaf, (each * pull).sum(axis=1), 0) for each in (missing, pull))
        top, bottom = (np.bincount(trees, each, forest.n_trees) for each in products)
        found[kind] = np.maximum(np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0), 0)
        left = np.abs(missing - found[kind][trees, None] * pull).max(axis=1)
        unexplained = forest.is_leaf & (left > AGREES * (1 + sizes))
        explained[kind] = np.bincount(trees, unexplained, forest.n_trees) == 0
    by_parent = explained[0]
    strength = np.where(by_parent, found[0], np.where(explained[1], found[1], 0))
    return strength[trees] * deviations, by_parent


def _slopes(forest: Forest, mixture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What outputs move by for each share, ``(n_nodes, n_values, n_outputs)``, and of which trees it is known."""
    shares, votes, trees, leaves = np.maximum(forest.shares, 1e-12), forest.votes, forest.trees, forest.is_leaf
    if forest.link == "softmax":
        logs = np.log(shares)
        base, step = logs - logs.mean(axis=1, keepdims=True), 1 / SCORE_STEPS
        centred = mixture - mixture.mean(axis=0)
        slopes = centred[None] / shares[:, :, None]
    else:
        # Trees that correct a mean vote for its distance from the middle of the range.
        base, step = (shares - 0.5, 2 / FINE_STEPS) if forest.link == "sum" else (shares, 1e-9)
        slopes = np.broadcast_to(mixture, (forest.n_nodes, *mixture.shape))
    rates = np.ones(forest.n_trees)
    if forest.link != "shares":
        spread = base - _tree_means(forest, base)[trees]
        products = [np.where(leaves, (spread * each).sum(axis=1), 0) for each in (votes, spread)]
        top, bottom = (np.bincount(trees, each, forest.n_trees) for each in products)
        rates = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    left = votes - rates[trees, None] * base
    left -= _tree_means(forest, left)[trees] if forest.link == "sum" else 0
    wrong = leaves & (np.abs(left).max(axis=1) > step)
    return rates[trees, None, None] * slopes, np.bincount(trees, wrong, forest.n_trees) == 0


def _tree_means(forest: Forest, values: np.ndarray) -> np.ndarray:
    """The mean of values over the leaves of each tree, ``(n_trees, n_values)``."""
    sums = np.zeros((forest.n_trees, values.shape[1]))
    np.add.at(sums, forest.trees[forest.is_leaf], values[forest.is_leaf])
    return sums / np.bincount(forest.trees[forest.is_leaf], minlength=forest.n_trees)[:, None]


def deviations(dependence: Dependence, response: Response, terms: Sequence[Term]) -> np.ndarray | None:
    """The standard deviations ``(n_results, n_outputs)`` of the noise in sums of terms; None where it is not known."""
    forest, features = dependence.forest, {feature for given, _ in terms for feature in given.features}
    asking = np.zeros(forest.n_trees, dtype=bool)
    asking[forest.trees[np.isin(forest.features, list(features)) & ~forest.is_leaf]] = True
    if not response.known[asking].all():
        return None
    n_results, n_outputs = len(terms[0][1]), dependence.values.shape[1]
    found = np.zeros((n_results, n_outputs))
    for trees in _in_parts(forest, asking, max(given.n_points for given, _ in terms)):
        part, own = dependence.only(trees), response.only(trees[forest.trees], trees)
        noisy = _has_noise(part.forest)
        for output in range(n_outputs):
            moved = [np.tensordot(by, _coefficients(part, own, given, output, noisy), 1) for given, by in terms]
            found[:, output] += part.forest.bands.variances_of(np.sum(moved, axis=0))[:, noisy].sum(axis=1)
        if (uncounted := trees & (forest.noise_of_votes > 0)).any():
            found += _of_votes(dependence.only(uncounted), terms)
    return np.sqrt(found)


def _of_votes(dependence: Dependence, terms: Sequence[Term]) -> np.ndarray:
    """The variance ``(n_results, n_outputs)`` by the noise of trees without counts, whose leaves move together."""
    n_trees, noise = dependence.forest.n_trees, dependence.forest.noise_of_votes
    moved = [np.tensordot(by, dependence.below(dependence.steps(given))[:, :n_trees], 1) for given, by in terms]
    return np.einsum("rto,t->ro", np.square(np.sum(moved, axis=0)), np.square(noise))


def _in_parts(forest: Forest, trees: np.ndarray, n_points: int) -> list[np.ndarray]:
    """Masks ``(n_trees,)`` of some trees each, so that what is computed of them at so many points is not too large."""
    sizes = np.bincount(forest.trees, minlength=forest.n_trees) * n_points * forest.target.n_values * trees
    parts = np.cumsum(sizes) // MOST_AT_ONCE
    return [trees & (parts == part) for part in np.unique(parts[trees])]


def _has_noise(forest: Forest) -> np.ndarray:
    """Which nodes have noise of their own ``(n_nodes,)``: leaves, and nodes that are not the sums of their children."""
    below = np.flatnonzero(forest.parents >= 0)
    sums = np.zeros_like(forest.counts)
    np.add.at(sums, forest.parents[below], forest.counts[below])
    return forest.is_leaf | (np.abs(sums - forest.counts).max(axis=1) > AGREES * (1 + np.abs(sums).max(axis=1)))


def _coefficients(dependence: Dependence, response: Response, given: Given, output: int, noisy: np.ndarray) -> np.ndarray:
    """By how much the noise of each count moves what is given at each point, ``(n_points, n_nodes, n_values)``."""
    forest, steps = dependence.forest, dependence.steps(given)
    parents, levels, shares = forest.parents, forest.level_slices(), forest.shares
    below, reach = dependence.below(steps)[..., output], steps.copy()
    for level in levels[1:]:
        reach[:, level] *= reach[:, parents[level]]
    # What the result moves by for each share: that of a leaf, and those of parents that leaves are pulled towards.
    moves = np.where(forest.is_leaf, reach, 0)[..., None] * response.slopes[:, :, output]
    for level in reversed(levels[1:]):
        gather(forest, level, response.pulls[level, None] * moves[:, level], moves)
    found = (moves - (moves * shares).sum(axis=-1, keepdims=True)) / response.masses[:, None]
    # What it moves by for each size, where nodes are averaged by size.
    weighed = np.where(parents >= 0, ~np.isin(forest.features[parents], given.features), False)
    children = np.flatnonzero(weighed)
    above = parents[children]
    totals = np.bincount(above, dependence.sizes[children], forest.n_nodes)
    totals = np.maximum(np.maximum(totals, forest.bands.size_deviations), 1e-9)
    found[:, children] += (reach[:, above] * (below[:, children] - below[:, above]) / totals[above])[..., None]
    for level in levels[1:]:
        found[:, level] += np.where(noisy[parents[level], None], 0, found[:, parents[level]])
    return found
