"""Random trees with labels by smooth sensitivity, as Fletcher and Islam (2017) print it. NOT private: for research.

As printed: a random tree on each of disjoint parts, with the whole budget; in each leaf the exponential mechanism over
labels with smooth sensitivity [suihkonen2023, eqs. 4.21 and 4.22]. Their addendum of 2021 takes the last step back.
Readings, where the thesis is silent: parts of equal size; one child for each category, a random threshold inside what is
still possible of a numeric feature; u = 1 for the commonest class, else 0, and so the smooth sensitivity exp(-j epsilon) for
a margin of j records; the depth of the private variant, and its vote, that of the majority.
Not in the paper: thresholds lie on the public grid, and a forest has a public cap on nodes, as in the private variant; a
record whose value is missing or not listed counts as one of the last value, in training and in prediction.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpforest.growing.grower import MOST_NODES
from dpforest.parts.recipe import Recipe
from dpforest.published.form import Node, Published, Rows, Split, equal_parts
from dpforest.published.trees import attributes_of
from dpforest.schema.domain import Domain

# The largest power of e that is kept; beyond it the other labels have no chance in floating point.
LARGEST_POWER = 700.0


@dataclass(frozen=True)
class RandomTree:
    """A random tree, drawn without records, as arrays over its nodes, level by level; ``features`` is -1 at a leaf.

    A node with a categorical feature has a child for each value; else child 1 has the values from ``thresholds`` on.
    """

    domain: Domain
    features: np.ndarray
    thresholds: np.ndarray
    first_children: np.ndarray
    parents: np.ndarray
    starts: np.ndarray  # where each level begins, and where the last one ends

    @classmethod
    def draw(cls, domain: Domain, depth: int, most_nodes: int, rng: np.random.Generator) -> "RandomTree":
        """A random tree of ``depth`` levels of splits; nodes whose children would pass ``most_nodes`` stay leaves."""
        low, high = np.zeros((1, len(domain.n_values)), dtype=np.int64), domain.n_values[None] - 1
        levels, parents, starts, n_nodes = [], [np.array([-1])], [0], 1
        for _ in range(depth):
            features, thresholds, n_children = _draw_splits(domain, low, high, rng)
            n_children[np.cumsum(n_children) > most_nodes - n_nodes] = 0
            first = n_nodes + np.cumsum(n_children) - n_children
            split = n_children > 0
            levels.append((np.where(split, features, -1), thresholds, np.where(split, first, -1)))
            above = np.repeat(np.arange(len(split)), n_children)
            parents.append(starts[-1] + above)
            starts.append(n_nodes)
            child = np.arange(len(above)) - np.repeat(first - n_nodes, n_children)
            n_nodes += len(above)
            low, high = _narrowed(domain, low[above], high[above], features[above], thresholds[above], child)
        leaves = np.full(len(low), -1)
        levels.append((leaves, leaves, leaves))
        features, thresholds, first_children = (np.concatenate(part) for part in zip(*levels, strict=True))
        ends = np.array([*starts, n_nodes])
        return cls(domain, features, thresholds, first_children, np.concatenate(parents), ends)

    def leaves_of(self, rows: Rows) -> np.ndarray:
        """The leaf ``(n_records,)`` that each record reaches."""
        codes = np.stack([attribute.values for attribute in attributes_of(rows, self.domain)], axis=1)
        nodes = np.zeros(len(codes), dtype=np.int64)
        for _ in self.starts[2:]:
            features = self.features[nodes]
            values = np.take_along_axis(codes, np.maximum(features, 0)[:, None], axis=1)[:, 0]
            child = np.where(self.domain.is_numeric[features], values >= self.thresholds[nodes], values)
            nodes = np.where(features < 0, nodes, self.first_children[nodes] + child)
        return nodes

    def to_nodes(self, counts: np.ndarray) -> Node:
        """The root of the tree, whose nodes keep the given counts ``(n_nodes, n_classes)``."""
        nodes = [Node(count) for count in counts]
        groups = [tuple((value,) for value in range(n_values)) for n_values in self.domain.n_values]
        for index in np.flatnonzero(self.features >= 0):
            feature, first = int(self.features[index]), self.first_children[index]
            if self.domain.is_numeric[feature]:
                split = Split(feature, cuts=(float(self.domain.cuts[feature][self.thresholds[index] - 1]),))
            else:
                split = Split(feature, groups=groups[feature])
            nodes[index].split, nodes[index].children = split, nodes[first : first + split.n_children]
        return nodes[0]


def _draw_splits(
    domain: Domain, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each node a random feature with more than one value left, a random threshold, and the number of children."""
    divides = high > low
    features = np.where(divides, rng.random(low.shape), -1.0).argmax(axis=1)
    nodes = np.arange(len(low))
    lowest, highest = low[nodes, features], high[nodes, features]
    thresholds = lowest + 1 + np.floor(rng.random(len(low)) * (highest - lowest)).astype(np.int64)
    n_children = np.where(domain.is_numeric[features], 2, domain.n_values[features])
    return features, thresholds, np.where(divides.any(axis=1), n_children, 0)


def _narrowed(
    domain: Domain, low: np.ndarray, high: np.ndarray, features: np.ndarray, thresholds: np.ndarray, child: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest value of each feature in children, from their parents' ranges."""
    nodes = np.arange(len(child))
    numeric, last = domain.is_numeric[features], child > 0
    lowest, highest = low[nodes, features], high[nodes, features]
    low[nodes, features] = np.where(numeric, np.where(last, thresholds, lowest), child)
    high[nodes, features] = np.where(numeric, np.where(last, highest, thresholds - 1), child)
    return low, high


def log_odds(margins: np.ndarray, epsilon: float) -> np.ndarray:
    """epsilon u / (2 S*) for the commonest class at a margin of j records, with S* = exp(-j epsilon)."""
    grown = np.multiply(margins, epsilon, where=margins > 0, out=np.zeros(np.shape(margins)))
    return epsilon / 2 * np.exp(np.minimum(grown, LARGEST_POWER))


def label_chances(counts: np.ndarray, epsilon: float) -> np.ndarray:
    """The probability ``(n_leaves, n_classes)`` of each label; all classes with the largest count have u = 1."""
    ordered = np.sort(counts, axis=1)
    margins = (ordered[:, -1] - ordered[:, -2]) if counts.shape[1] > 1 else ordered[:, -1]
    commonest = counts == ordered[:, -1:]
    weights = np.where(commonest, 1.0, np.exp(-log_odds(margins, epsilon))[:, None])
    return weights / weights.sum(axis=1, keepdims=True)


def draw_labels(counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """The drawn label ``(n_leaves,)`` of each leaf."""
    below = label_chances(counts, epsilon).cumsum(axis=1)
    return (below[:, :-1] <= rng.random(len(counts))[:, None]).sum(axis=1)


def _labelled(tree: RandomTree, part: Rows, epsilon: float, rng: np.random.Generator) -> Node:
    """The root of the tree with one record of the drawn label in each leaf, and sums of these above."""
    n_nodes, n_classes = len(tree.features), part.n_classes
    cells = tree.leaves_of(part) * n_classes + part.target
    exact = np.bincount(cells, minlength=n_nodes * n_classes).reshape(n_nodes, n_classes)
    counts, leaves = np.zeros((n_nodes, n_classes)), np.flatnonzero(tree.features < 0)
    counts[leaves, draw_labels(exact[leaves], epsilon, rng)] = 1
    for start, stop in reversed(list(pairwise(tree.starts[1:]))):
        np.add.at(counts, tree.parents[start:stop], counts[start:stop])
    return tree.to_nodes(counts)


def train(rows: Rows, epsilon: float, recipe: Recipe, rng: np.random.Generator) -> list[Node]:
    """The roots of random trees, one for each part, which is labelled with the whole budget."""
    domain, most_nodes = Domain.of(rows.schema, recipe.grid), max(MOST_NODES // recipe.n_trees, 1)
    return [
        _labelled(RandomTree.draw(domain, recipe.depth, most_nodes, rng), part, epsilon, rng)
        for part in equal_parts(rows, recipe.n_trees, rng)
    ]


PUBLISHED = Published(
    train=train,
    leaks=(
        "labels are drawn by the exponential mechanism with smooth sensitivity, whose loss grows with the margin"
        " without bound (docs/review.md, 2.13)",
        "parts have equal sizes, so one more record can change two of them (docs/review.md, 2.8)",
    ),
)
