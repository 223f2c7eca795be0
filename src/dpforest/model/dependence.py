"""Partial dependence by the released trees alone: what a forest adds up to if some features are given. Released values only.

Where a node asks for a given feature, its code says which child counts; any other node averages its children by their
released sizes. So no row is needed, and the result is exact for the forest that was released. Codes that no split of the
forest tells apart are one *group*, and arrays have an axis over groups: all nodes of a level are worked on at once.

The noise of released counts moves the result, to first order, so: a share of a node is (count + m * prior) / (size + m),
where post-processing adds m records with the shares of the parent, or with equal ones (``parts.postprocess``). It moves by
(noise of the count - share * noise of the size) / (size + m), and by m / (size + m) of what the parent's share moves. Votes
are linear in shares, or in their logarithms. Sizes are also the weights by which nodes are averaged, and their noise counts
there too. m and the rate of votes are read off the forest; where they do not explain its shares and votes, the noise
counts as not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.parts.postprocess import held_counts
from dpforest.schema import FINE_STEPS, Categorical
from dpforest.schema.domain import DIGITS, Domain

# The weight of "other" and of missing beside a usual bin or category, where no split has told them apart.
RARE = 1e-3
# Numbers that are worked on at once.
MOST_AT_ONCE = 1 << 22
# Steps towards the likeliest weights of codes.
STEPS = 30
# Shares are made of counts as post-processing says if they agree to this part of a record; votes, to a step.
AGREES = 1e-6


@dataclass(frozen=True)
class Groups:
    """The codes of one feature, in groups that no split of the forest tells apart, numbered by their first code."""

    feature: int
    of_code: np.ndarray  # (n_codes,): the group of each code
    codes: np.ndarray  # (n_groups,): one code of each group

    @classmethod
    def of(cls, forest: Forest, feature: int) -> "Groups":
        nodes, n_codes = np.flatnonzero(forest.features == feature), int(forest.domain.n_codes[feature])
        routes = forest.routes[forest.splits[nodes]]
        if forest.domain.is_wide[feature]:
            ends = np.clip(np.unique(forest.domain.runs(forest.features[nodes], routes)), 0, n_codes)
            groups = np.searchsorted(ends, np.arange(n_codes), side="right")
        else:
            groups = _equal_columns(np.unique(routes[:, :n_codes], axis=0))
        _, first, of_code = np.unique(groups, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return cls(feature, np.argsort(order)[of_code.reshape(-1)], first[order])

    def __len__(self) -> int:
        return len(self.codes)

    def prior(self, domain: Domain) -> np.ndarray:
        """The weight ``(n_groups,)`` of each group where nothing is counted."""
        return np.bincount(self.of_code, prior_of_codes(domain, self.feature))


def prior_of_codes(domain: Domain, feature: int) -> np.ndarray:
    """The weight ``(n_codes,)`` of each code of a feature where nothing is counted: numbers evenly between public bounds.

    Without bounds bins weigh alike, as categories do; "other" and missing weigh next to nothing.
    """
    n_values, part = int(domain.n_values[feature]), domain.features[feature]
    weights = np.full(int(domain.n_codes[feature]), RARE / n_values)
    weights[:n_values] = 1 / n_values
    if not isinstance(part, Categorical) and part.has_bounds:
        lower, upper = part.range
        upper += part.integer  # the greatest whole number is as wide as the others
        edges = np.clip([lower, *domain.cuts[feature], upper], lower, upper)
        weights[:n_values] = np.diff(edges) / (upper - lower)
    return weights / weights.sum()


def _equal_columns(rows: np.ndarray) -> np.ndarray:
    """A number for each column of a table, the same for equal columns."""
    columns = np.ascontiguousarray(rows.T)
    return np.unique(columns.view(f"V{max(columns.shape[1], 1) * columns.itemsize}"), return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True)
class Given:
    """Some points at which one or two features are given: ``codes[i][k]`` is the code of ``features[i]`` at point k."""

    features: tuple[int, ...]
    codes: tuple[np.ndarray, ...]

    @property
    def n_points(self) -> int:
        return len(self.codes[0])


@dataclass(frozen=True)
class Dependence:
    """A forest of values that add up over trees, and its average output."""

    forest: Forest
    values: np.ndarray  # (n_nodes, n_outputs)
    sizes: np.ndarray  # (n_nodes,): released numbers of records, none below 0; 0 in trees that count none
    parts: np.ndarray  # (n_nodes,): the share of each node in its parent; 1 of roots

    @classmethod
    def of(cls, forest: Forest, values: np.ndarray) -> "Dependence":
        sizes, parents = np.where(_counted(forest)[forest.trees], held_counts(forest).sum(axis=1), 0), forest.parents
        below = np.flatnonzero(parents >= 0)
        above = parents[below]
        totals, n_children = np.bincount(above, sizes[below], len(sizes)), np.bincount(above, minlength=len(sizes))
        parts = np.ones(len(sizes))
        parts[below] = np.divide(sizes[below], totals[above], out=np.zeros(len(below)), where=totals[above] > 0)
        for node in np.flatnonzero(~forest.is_leaf & (totals <= 0)).tolist():
            first, n = int(forest.first_children[node]), int(n_children[node])
            parts[first : first + n] = _prior_of_children(forest, node, n)
        return cls(forest, values, sizes, parts)

    @cached_property
    def reach(self) -> np.ndarray:
        """The share ``(n_nodes,)`` of its tree's records at each node."""
        reach = self.parts.copy()
        for level in self.forest.level_slices()[1:]:
            reach[level] *= reach[self.forest.parents[level]]
        return reach

    @cached_property
    def means(self) -> np.ndarray:
        """The average value below each node ``(n_nodes, n_outputs)``, nothing being given."""
        return self.below(self.parts[None])[0]

    def steps(self, given: Given) -> np.ndarray:
        """The share of each node in its parent at each point, ``(n_points, n_nodes)``: 0 or 1 if what is given decides."""
        forest = self.forest
        steps = np.tile(self.parts, (given.n_points, 1))
        asked = np.where(forest.parents >= 0, forest.features[forest.parents], -1)
        for feature, codes in zip(given.features, given.codes, strict=True):
            children = np.flatnonzero(asked == feature)
            above = forest.parents[children]
            if forest.domain.is_wide[feature]:
                starts, stops = forest.domain.runs(forest.features[above], forest.routes[forest.splits[above], :DIGITS]).T
                taken = (codes[:, None] < starts) | (codes[:, None] >= stops)
            else:
                taken = forest.routes[forest.splits[above], codes[:, None]]  # a node may have many children
            steps[:, children] = taken == children - forest.first_children[above]
        return steps

    def below(self, steps: np.ndarray) -> np.ndarray:
        """The average value below each node at each point, ``(n_points, n_nodes, n_outputs)``."""
        found = np.empty((len(steps), *self.values.shape))
        found[:] = self.values
        for level in reversed(self.forest.level_slices()[1:]):
            gather(self.forest, level, steps[:, level, None] * found[:, level], found)
        return found

    def at(self, given: Given) -> np.ndarray:
        """What the trees that ask for what is given add up to at each point, ``(n_points, n_outputs)``."""
        small = self.cut_to(given.features)
        n_blocks = max(small.forest.n_nodes * given.n_points // MOST_AT_ONCE, 1)
        places = np.array_split(np.arange(given.n_points), min(n_blocks, given.n_points))
        blocks = [Given(given.features, tuple(codes[place] for codes in given.codes)) for place in places]
        sums = [small.below(small.steps(block))[:, : small.forest.n_trees].sum(axis=1) for block in blocks]
        return np.concatenate(sums)

    def cut_to(self, features: Sequence[int]) -> "Dependence":
        """The trees that ask for some features, cut to leaves below their last question."""
        forest = self.forest
        asks = np.isin(forest.features, features) & ~forest.is_leaf
        for level in reversed(forest.level_slices()[1:]):
            asks[forest.parents[level][asks[level]]] = True
        nodes = np.flatnonzero(np.where(forest.parents >= 0, asks[forest.parents], asks))  # these keep their order
        kept = forest.without_children(np.flatnonzero(~asks & ~forest.is_leaf)).only(asks[: forest.n_trees])
        return Dependence(kept, self.means[nodes], self.sizes[nodes], self.parts[nodes])

    def only(self, trees: np.ndarray) -> "Dependence":
        """Some of the trees, given as a mask ``(n_trees,)``."""
        nodes = trees[self.forest.trees]
        return Dependence(self.forest.only(trees), self.values[nodes], self.sizes[nodes], self.parts[nodes])

    def weights(self, groups: Groups) -> np.ndarray:
        """The share of the records in each group of codes, ``(n_groups,)``, by the trees that count records and ask for it.

        A leaf holds records of the groups that lead to it, which share what is counted there as they do elsewhere: this is
        what makes the sizes of leaves likeliest, found step by step (EM).
        """
        weights, small = groups.prior(self.forest.domain), self.cut_to([groups.feature])
        # The first trees will do where all would take too much room.
        ends = np.cumsum(np.bincount(small.forest.trees, minlength=small.forest.n_trees)) * len(groups)
        small = small.only((ends <= 2 * MOST_AT_ONCE) | (np.arange(len(ends)) == 0))
        forest, reach = small.forest, small.reach
        leads = small.steps(Given((groups.feature,), (groups.codes,))) > 0
        leads |= ~np.isin(forest.features[forest.parents], groups.feature) | (forest.parents < 0)
        for level in forest.level_slices()[1:]:
            leads[:, level] &= leads[:, forest.parents[level]]
        told = forest.is_leaf & (small.sizes[forest.trees] > 0) & ~leads.all(axis=0)  # a tree's root has its number
        ways, sizes = leads[:, told].astype(np.float64), reach[told]
        for _ in range(STEPS):
            found = weights * (ways @ (sizes / np.maximum(weights @ ways, 1e-300)))
            if found.sum() <= 0:
                break
            weights = found / found.sum()
        return weights


def _counted(forest: Forest) -> np.ndarray:
    """Which trees count records, ``(n_trees,)``: a leaf that releases a label alone has a count of 1, without noise."""
    counts = (forest.variances > 0) | ~np.isin(forest.bands.sizes, (0, 1))
    return np.bincount(forest.trees, forest.is_leaf & counts, forest.n_trees) > 0


def _prior_of_children(forest: Forest, node: int, n_children: int) -> np.ndarray:
    """The share ``(n_children,)`` of each child of a node where nothing is counted, by the codes that lead there."""
    feature = int(forest.features[node])
    weights, child, above = prior_of_codes(forest.domain, feature), node, int(forest.parents[node])
    while above >= 0:
        if forest.features[above] == feature:
            weights = np.where(forest.route(above) == child - forest.first_children[above], weights, 0)
        child, above = above, int(forest.parents[above])
    shares = np.bincount(forest.route(node), weights, n_children)
    return shares / shares.sum() if shares.sum() > 0 else np.full(n_children, 1 / n_children)


def gather(forest: Forest, level: slice, values: np.ndarray, into: np.ndarray) -> None:
    """Set the parents of the nodes of a level, in ``into``, to sums over their children; nodes are along the second axis."""
    parents = forest.parents[level]
    starts = np.flatnonzero(np.diff(parents, prepend=-2))
    into[:, parents[starts]] = np.add.reduceat(values, starts, axis=1)


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
    """Pseudo-records per node ``(n_nodes,)``, and a mask of trees whose prior is the parent's shares.

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
