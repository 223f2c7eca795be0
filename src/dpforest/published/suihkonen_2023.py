"""DPRF_thesis as its §5.1 prints it [suihkonen2023]. NOT private: for research.

As printed: what the recipe of that name has as the paper's; a choice of splits has p B / (2 d_m), however many features
take part in it, and a point of a set range divides the values under it from those over or equal.

Readings, where the print leaves a choice:

- Parts have equal sizes.
- The set range [a_L, a_U] is that of the schema, the same at every node; the ten points lie evenly inside it, for no
  value is under a_L.
- Eq. 5.2 takes C from the records of the node, so the categories are those that the node holds.
- "When the child node would have ... less than 4 records" stops the node, whichever child it is.
- "When |A| = 0 would apply to the child node" is another stop than "when all the attribute values in the node data match",
  so A loses members on the way down: the discrete features that were split on, which §4.5.1 says are selected once on a
  path. The K features are drawn from those of A with more than one value in the node, and a child without any is a
  leaf. K is the caller's; the thesis keeps it below the number of features.
- The two classes are the targets 0 and 1, which lie in [-P, P] with P = 1.
- Labels have weights as in its example, exp(epsilon f_c), so the parameter of the noise is all of B / 2, and so is the cost;
  that the mechanism "provides epsilon/2" is true of exp(epsilon f_c / 2), with which the total would not be B. With
  another p than 0.5 it is (1 - p) B, for "p B = B / 2" and "the total is B" are both true there only.

Departs: the signs of eqs. 5.1 to 5.3 are turned, for as they stand they ask for the least balanced split and the largest
error. Not in the paper, which removes records with missing values: a number that is missing counts as over every point, a
category that is missing or not listed as one of two more; with more than two classes the error is that of the
class's index, scaled to [0, 1].
"""

from dataclasses import dataclass

import numpy as np

from dpforest.parts.recipe import Recipe
from dpforest.published.form import Node, Published, Rows, Split, equal_parts, exponential_choice
from dpforest.schema import Categorical, Feature

N_POINTS = 10
LEAST_RECORDS = 4


@dataclass(frozen=True)
class Budgets:
    """The budgets of the choice of a split, of a feature and of a label; P = 1 in eq. 5.3."""

    split: float
    feature: float
    label: float

    @classmethod
    def of(cls, budget: float, max_depth: int, p: float = 0.5) -> "Budgets":
        """The budgets of a tree of ``max_depth`` levels, with ``p`` of its budget for splits."""
        return cls(p * budget / (2 * max_depth), p * budget / (2 * max_depth), (1 - p) * budget)

    @property
    def split_rate(self) -> float:
        """The factor of the balance in the exponent of eqs. 5.1 and 5.2."""
        return self.split / 2

    @property
    def feature_rate(self) -> float:
        """The factor of the summed squared error, N_i times MSE, in the exponent of eq. 5.3."""
        return self.feature / 8


@dataclass(frozen=True)
class Offers:
    """The splits of one feature at one node: child 0 gets ``n_first[k]`` records, below or at ``values[k]``."""

    values: np.ndarray
    n_first: np.ndarray
    n_records: int

    @classmethod
    def of(cls, column: np.ndarray, feature: Feature) -> "Offers":
        """The splits at each category, or at points of the set range; missing numbers never go to child 0."""
        if isinstance(feature, Categorical):
            sizes = np.bincount(column)
            values = np.flatnonzero(sizes)
            return cls(values, sizes[values], len(column))
        points = np.linspace(*feature.range, N_POINTS + 2)[1:-1]
        n_below = np.searchsorted(np.sort(column[~np.isnan(column)]), points)
        return cls(points, n_below, len(column))

    @property
    def balances(self) -> np.ndarray:
        """Minus the difference in size of the two children, for each split."""
        return -np.abs(self.n_records - 2 * self.n_first)


def squared_error(targets: np.ndarray, first: np.ndarray) -> float:
    """N_i times MSE: the sum over both children of squared distances to the mean of the child's targets."""
    children = (targets[first], targets[~first])
    return float(sum(np.square(child - child.mean()).sum() for child in children if len(child)))


@dataclass(frozen=True)
class Grower:
    """Grows one tree on one part of the rows."""

    part: Rows
    targets: np.ndarray  # classes as numbers in [0, 1]
    budgets: Budgets
    max_depth: int
    n_features: int
    rng: np.random.Generator

    def grow(self, records: np.ndarray, depth: int = 0, used: frozenset[int] = frozenset()) -> Node:
        """The node of some records and all below; ``used`` are the discrete features that were split on above."""
        class_counts = self.part.class_counts(records)
        if depth == self.max_depth or np.count_nonzero(class_counts) <= 1:
            return self._leaf(class_counts)
        split = self._choose(records, used)
        if split is None:
            return self._leaf(class_counts)
        parts = [records[side] for side in self._sides(split, records)]
        if min(map(len, parts)) < LEAST_RECORDS:
            return self._leaf(class_counts)
        used |= {split.feature} if split.groups else set()
        children = [self.grow(part, depth + 1, used) for part in parts]
        return Node(children[0].counts + children[1].counts, split, children)

    def _sides(self, split: Split, records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masks ``(n_records,)`` of the records that a split sends to child 0, and to child 1."""
        first = split.route(self.part.columns[split.feature][records]) == 0
        return first, ~first

    def _choose(self, records: np.ndarray, used: frozenset[int]) -> Split | None:
        """A split of one of K random features; None if no feature is left with two values."""
        columns = enumerate(self.part.columns)
        left = [feature for feature, column in columns if feature not in used and not _is_constant(column[records])]
        drawn = self.rng.permutation(left)[: self.n_features].astype(int)
        if not len(drawn):
            return None
        splits = [self._halve(feature, records) for feature in drawn.tolist()]
        errors = np.array([squared_error(self.targets[records], self._sides(split, records)[0]) for split in splits])
        return splits[exponential_choice(-errors, self.budgets.feature_rate, self.rng)]

    def _halve(self, feature: int, records: np.ndarray) -> Split:
        """A split of one feature, drawn so that it halves the records as well as possible."""
        column, part = self.part.columns[feature][records], self.part.features[feature]
        offers = Offers.of(column, part)
        value = offers.values[exponential_choice(offers.balances, self.budgets.split_rate, self.rng)]
        if isinstance(part, Categorical):
            return Split(feature, groups=((int(value),), ()))
        return Split(feature, cuts=(float(value),))

    def _leaf(self, class_counts: np.ndarray) -> Node:
        """A leaf with one record of the drawn label."""
        # Permute-and-flip is the largest count after one-sided exponential noise.
        noisy = class_counts + self.rng.exponential(1 / self.budgets.label, len(class_counts))
        return Node(np.eye(len(noisy))[noisy.argmax()])


def _is_constant(column: np.ndarray) -> bool:
    missing = np.isnan(column)
    return bool(missing.all() or (not missing.any() and (column == column[0]).all()))


def train(rows: Rows, epsilon: float, recipe: Recipe, rng: np.random.Generator) -> list[Node]:
    """The roots of trees, one for each part, which has the whole budget."""
    n_drawn = recipe.propose.n_drawn(len(rows.columns))
    budgets = Budgets.of(epsilon, recipe.depth, recipe.allocate.split_share)  # type: ignore[attr-defined]  # is uniform
    roots = []
    for part in equal_parts(rows, recipe.n_trees, rng):
        targets = part.target / max(part.n_classes - 1, 1)
        grower = Grower(part, targets, budgets, recipe.depth, n_drawn, rng)
        roots.append(grower.grow(np.arange(part.n_rows)))
    return roots


PUBLISHED = Published(
    train=train,
    leaks=(
        "nodes stop by exact values: one class, a child with fewer than 4 records, nothing to split (docs/review.md, 2.4)",
        "each of K features has its split drawn from the same records, but one draw is charged (docs/review.md, 2.7)",
        "parts have equal sizes, so one more record can change two of them (docs/review.md, 2.8)",
        "features are offered if they vary in the node, and categories if it holds them (docs/review.md, 2.11)",
    ),
    lacks=("medians",),
)
