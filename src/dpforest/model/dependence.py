"""Partial dependence by the released trees alone: what a forest adds up to if some features are given. Released values only.

Where a node asks for a given feature, its code says which child counts; any other node averages its children by their
released sizes. So no row is needed, and the result is exact for the forest that was released. Codes that no split of the
forest tells apart are one *group*, and arrays have an axis over groups: all nodes of a level are worked on at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpforest.forest.tree import Forest
from dpforest.parts.postprocess import held_counts
from dpforest.schema import Categorical
from dpforest.schema.domain import DIGITS, Domain

# The weight of "other" and of missing beside a usual bin or category, where no split has told them apart.
RARE = 1e-3
# Numbers that are worked on at once.
MOST_AT_ONCE = 1 << 22
# Steps towards the likeliest weights of codes.
STEPS = 30


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
        return len(self.codes[0]) if self.codes else 1

    def some(self, points: np.ndarray) -> "Given":
        """Some of the points, given by their numbers."""
        return Given(self.features, tuple(codes[points] for codes in self.codes))


NOTHING_GIVEN = Given((), ())


@dataclass(frozen=True)
class Dependence:
    """A forest whose leaves have values that add up over trees, and what it gives on average."""

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
        return self.below(self.steps(NOTHING_GIVEN))[0]

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
        blocks = [given.some(block) for block in np.array_split(np.arange(given.n_points), min(n_blocks, given.n_points))]
        sums = [small.below(small.steps(block))[:, : small.forest.n_trees].sum(axis=1) for block in blocks]
        return np.concatenate(sums)

    def cut_to(self, features: Sequence[int]) -> "Dependence":
        """The trees that ask for some of the features, each node below which none of them is asked being a leaf."""
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
