"""Trees of printed algorithms: binary by the exact Gini index, or with a child for each value. NOT private: sees rows.

A binary split of a continuous feature lies between two neighbouring values of the node's records (missing values go right);
one of a discrete feature sets one value that the node holds against the rest. Trees with a child for each value are those of
DPDF and DiffPID3, as [fletcher2015] has them, and of SuLQ-ID3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpforest.parts.recipe import Recipe
from dpforest.published.form import Node, Rows, Split
from dpforest.schema import Categorical
from dpforest.schema.domain import Domain

# The papers name the sensitivity of the Gini index and give no number; 2 is that of its count form.
GINI_SENSITIVITY = 2.0
# A budget of nothing gives noise alone.
LEAST_BUDGET = 1e-12


@dataclass(frozen=True)
class Choice:
    """A split, with its Gini index: at a cut of a continuous feature, or of one value of a discrete one against the rest."""

    split: Split
    gini: float


@dataclass(frozen=True)
class Splits:
    """All splits of one feature that divide a node, with the Gini index after each.

    ``lows`` and ``highs`` are the neighbouring values of a continuous feature, ``indices`` the values of a discrete one.
    """

    feature: int
    ginis: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    indices: np.ndarray

    @property
    def is_continuous(self) -> bool:
        return len(self.lows) > 0

    def midpoint(self, split: int) -> float:
        """The cut of a split at the mean of its two neighbouring values."""
        low, high = float(self.lows[split]), float(self.highs[split])
        middle = (low + high) / 2
        # A value equal to the cut goes right, so the cut must lie above the lower one, however close the two are.
        return middle if low < middle else high

    def inside(self, split: int, rng: np.random.Generator) -> float:
        """A cut of a split drawn evenly between its two neighbouring values."""
        low, high = float(self.lows[split]), float(self.highs[split])
        point = high - (high - low) * rng.random()
        return point if low < point else high

    def draw(self, sign: float, rate: float, rng: np.random.Generator) -> int:
        """The index of a split drawn with weight ``exp(rate * sign * gini)`` times the length of its interval."""
        scores = sign * self.ginis
        if np.isinf(rate):
            return int(scores.argmax())
        return int((rate * scores + np.log(self.highs - self.lows) + rng.gumbel(size=len(scores))).argmax())

    def draw_choice(self, sign: float, budget: float, rng: np.random.Generator) -> Choice:
        """A split of a continuous feature by the exponential mechanism, or the exact best one of a discrete feature."""
        if not self.is_continuous:
            return self.best_choice()
        drawn = self.draw(sign, budget / (2 * GINI_SENSITIVITY), rng)
        return self.at_cut(drawn, self.inside(drawn, rng))

    def best_choice(self) -> Choice:
        """The split with the least Gini index, at a midpoint; the first of several."""
        best = int(self.ginis.argmin())
        return self.at_cut(best, self.midpoint(best)) if self.is_continuous else self.at_value(best)

    def at_cut(self, split: int, cut: float) -> Choice:
        return Choice(Split(self.feature, cuts=(cut,)), float(self.ginis[split]))

    def at_value(self, split: int) -> Choice:
        return Choice(Split(self.feature, groups=((int(self.indices[split]),), ())), float(self.ginis[split]))


@dataclass(frozen=True)
class Sample:
    """The records of one tree, and the splits that divide some of them."""

    rows: Rows

    @property
    def n_features(self) -> int:
        return len(self.rows.columns)

    @cached_property
    def is_continuous(self) -> np.ndarray:
        return np.array([not isinstance(part, Categorical) for part in self.rows.features])

    @cached_property
    def _ranked(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each feature its sorted distinct values and the rank of each record: ranks sort faster than floats."""
        return [np.unique(column, return_inverse=True) for column in self.rows.columns]

    def offers(self, features: np.ndarray, records: np.ndarray) -> list[Splits]:
        """For each of the features that divides the records, its splits."""
        offers = [self.splits(feature, records) for feature in features]
        return [splits for splits in offers if len(splits.ginis)]

    def splits(self, feature: int, records: np.ndarray) -> Splits:
        """All splits of a feature that divide the records, with their exact Gini indices."""
        values, counts = self._counts_by_value(feature, records)
        none = np.empty(0)
        if not self.is_continuous[feature]:
            left = counts if len(values) > 1 else counts[:0]
            return Splits(int(feature), gini_after(left, counts.sum(axis=0)), none, none, values[: len(left)])
        known = values[~np.isnan(values)]
        left = counts[: len(known)].cumsum(axis=0)[:-1]
        return Splits(int(feature), gini_after(left, counts.sum(axis=0)), known[:-1], known[1:], none)

    def _counts_by_value(self, feature: int, records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distinct values of the records, in order, and the class counts ``(n_values, n_classes)`` of each."""
        values, ranks = self._ranked[feature]
        n_classes = self.rows.n_classes
        # One sort by value and class together.
        keys, n_records = np.unique(ranks[records] * n_classes + self.rows.target[records], return_counts=True)
        held, index = np.unique(keys // n_classes, return_inverse=True)
        counts = np.zeros((len(held), n_classes))
        counts[index, keys % n_classes] = n_records
        return values[held], counts


def gini_after(left: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The Gini index after each split, weighted by size [dong2022, eq. 6].

    ``left`` ``(n_splits, n_classes)`` are the class counts of left children, ``total`` those of the node.
    """
    right = total - left
    squares = np.square(left).sum(axis=1) / left.sum(axis=1) + np.square(right).sum(axis=1) / right.sum(axis=1)
    return 1 - squares / total.sum()


def least_gini(choices: list[Choice]) -> Choice | None:
    """The choice of least Gini index, compared exactly; the first of several, or None if there is none."""
    return min(choices, key=lambda choice: choice.gini, default=None)


def exact_best(sample: Sample, features: np.ndarray, records: np.ndarray) -> Choice | None:
    """The split of least Gini index of some features, at a midpoint or value; None without one."""
    return least_gini([splits.best_choice() for splits in sample.offers(features, records)])


def draw_features(wanted: float | None, n_features: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of drawn features in rising order: ``wanted`` of them, that fraction if below 1, or all for None."""
    if wanted is None:
        return np.arange(n_features)
    n_drawn = int(np.ceil(wanted * n_features)) if wanted < 1 else min(int(wanted), n_features)
    return np.sort(rng.choice(n_features, n_drawn, replace=False))


def grow(
    sample: Sample,
    depth: int,
    choose: Callable[[np.ndarray, int], Choice | None],
    keep: Callable[[np.ndarray, int], np.ndarray],
) -> Node:
    """The root of a tree that stops at pure or single-record nodes, at ``depth``, or without a choice.

    ``choose(records, level)`` gives the split of a node, ``keep(class counts, level)`` the counts that it keeps.
    """

    def node_of(records: np.ndarray, level: int) -> Node:
        counts = sample.rows.class_counts(records)
        node = Node(keep(counts, level))
        # One record is pure, and so is none.
        is_leaf = level == depth or np.count_nonzero(counts) < 2
        choice = None if is_leaf else choose(records, level)
        if choice is None:
            return node
        node.split = choice.split
        sides = node.split.route(sample.rows.columns[node.split.feature][records])
        node.children = [node_of(records[sides == side], level + 1) for side in (0, 1)]
        return node

    return node_of(np.arange(sample.rows.n_rows), 0)


def noise_scale(budget: float) -> float:
    """The scale of Laplace noise on counts; 0 for an infinite budget."""
    return 1 / max(LEAST_BUDGET, budget)


# What the printed strict comparison takes for equal.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Attribute:
    """One attribute: a split with a child for each bin or listed category, and the child ``values`` of each record."""

    split: Split
    values: np.ndarray


@dataclass(frozen=True)
class Values:
    """A table of attributes; ``cells`` numbers value v of attribute a and class c consecutively."""

    attributes: tuple[Attribute, ...]
    rows: Rows
    first: np.ndarray
    cells: np.ndarray  # (n_records, n_attributes)

    @classmethod
    def of(cls, rows: Rows, recipe: Recipe) -> "Values":
        """The table of the rows, with numbers in the bins of the recipe, without attributes of one value."""
        offered = attributes_of(rows, Domain.of(rows.schema, recipe.grid))
        attributes = tuple(each for each in offered if each.split.n_children > 1)
        first = np.cumsum([0, *(attribute.split.n_children for attribute in attributes)])
        cells = np.empty((rows.n_rows, len(attributes)), dtype=np.int64)
        for column, attribute in enumerate(attributes):
            cells[:, column] = (first[column] + attribute.values) * rows.n_classes + rows.target
        return cls(attributes, rows, first, cells)

    def counts(self, records: np.ndarray) -> np.ndarray:
        """Exact class counts ``(first[-1], n_classes)`` of some records, for each value of each attribute."""
        n_classes = self.rows.n_classes
        return np.bincount(self.cells[records].ravel(), minlength=self.first[-1] * n_classes).reshape(-1, n_classes)

    def gini(self, records: np.ndarray) -> np.ndarray:
        """The normalised Gini ``(n_attributes,)`` of a split of some records, at most 0: eq. 4; 0 without records."""
        if not len(records):
            return np.zeros(len(self.attributes))
        counts = self.counts(records)
        sizes = counts.sum(axis=1)
        impure = sizes - np.square(counts).sum(axis=1) / np.maximum(sizes, 1)
        return -np.add.reduceat(impure, self.first[:-1]) / len(records)


def attributes_of(rows: Rows, domain: Domain) -> list[Attribute]:
    """All features of a table as attributes; numbers have the bins of the domain as values."""
    attributes = []
    for index, (column, feature) in enumerate(zip(rows.columns, rows.features, strict=True)):
        if isinstance(feature, Categorical):
            split = Split(index, groups=tuple((value,) for value in range(feature.n_values)))
        else:
            split = Split(index, cuts=tuple(domain.cuts[index].tolist()))
        attributes.append(Attribute(split, split.route(column)))
    return attributes


def split_records(records: np.ndarray, attribute: Attribute) -> list[np.ndarray]:
    """The records of each value of an attribute, as a list of index arrays."""
    values = attribute.values[records]
    order = np.argsort(values, kind="stable")
    return np.split(records[order], np.searchsorted(values[order], np.arange(1, attribute.split.n_children)))


def prune_tree(node: Node) -> None:
    """Remove the children of nodes by lines 37 to 50, in one walk from the leaves up."""
    for child in node.children:
        prune_tree(child)
    if not node.children or any(child.children for child in node.children):
        return
    sizes = np.array([child.counts.sum() for child in node.children])
    qualities = np.array([_quality(child.counts) for child in node.children])
    if sizes.sum() != 0 and (sizes * qualities).sum() / sizes.sum() < _quality(node.counts) - ROUNDING:
        node.split, node.children = None, []


def _quality(counts: np.ndarray) -> float:
    """The Gini of one node by eq. 22, which is at most 0 if no count is below 0."""
    size = counts.sum()
    return float(np.square(counts / size).sum() - 1) if size != 0 else 0.0
