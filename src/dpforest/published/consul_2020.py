"""DiPriMe as Consul and Williamson (2020) print it, for classes and bounded targets. NOT private.

Algorithms 1 to 3 and §3 of the paper, with its names: T.ind and T.val are the feature of a ``Split`` and its threshold x_a,
or the categories B and the others, A are the features that a node may still split on, R_A their
public ranges, K the number of features that a node looks at, epsilon_1 and epsilon_2 the budgets of a choice and of a
leaf. ``part=True`` cuts the shuffled records into equal parts, one for each tree; else each tree sees all records at
epsilon/N_T.

Where the print leaves something open:

- epsilon_1 is rho*epsilon/(2*d_max) as in line 12 of Algorithm 1; the text has twice that and spends half of it.
- The attribute is chosen by exp(-epsilon_1*N_i*MSE/(8*B^2)) as in the text; line 52 of Algorithm 3 has no N_i.
- B is 1, since a bounded target is scaled to [0, 1]. Two classes are the targets 0 and 1. More classes get half the sum
  of the squared errors of their indicators, which is the same thing for two.
- j runs over 1 .. N. "In case of error" means that there is no (j+1)-th value: an empty node, j = N, or only missing
  values left, which sort last and go right.
- A split of categories counts once, not as B and as its complement; unlisted and missing values go right. Of more than 10
  categories, 512 random subsets are weighed, since all of them would take too long.
- A noisy mean is clipped to the range of the target; an empty leaf, whose mean has no sensitivity, gets a uniform draw.
- Votes are averaged: class shares, with counts below 0 taken as 0, or means.
- An inner node keeps the sum of what its leaves keep.
- The thesis (eqs. 4.14 to 4.16) writes the exponents without their minus signs, and the threshold as a choice among all
  points of the range.
"""

from collections.abc import Callable
from functools import cache, partial

import numpy as np

from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import EveryRecord
from dpforest.published.form import Node, Published, Rows, Split, equal_parts, exponential_choice, laplace
from dpforest.schema import Categorical, Classes, Feature

MOST_ENUMERATED = 10
N_RANDOM_SUBSETS = 512

# R_A: the bounds of a numeric feature, the possible codes of a categorical one. Its keys are A.
Ranges = dict[int, tuple[float, float] | tuple[int, ...]]


def train(rows: Rows, epsilon: float, recipe: Recipe, rng: np.random.Generator) -> list[Node]:
    """The roots of all trees: FitForest, Algorithm 2."""
    n_trees, part = recipe.n_trees, not isinstance(recipe.sample, EveryRecord)
    parts = equal_parts(rows, n_trees, rng) if part else [rows] * n_trees
    budget = recipe.allocate.plan(epsilon if part else epsilon / n_trees, recipe.depth)
    n_drawn = recipe.propose.n_drawn(len(rows.columns))
    split = partial(find_split, epsilon_1=budget.splits[0] / 2, n_features=n_drawn, rng=rng)
    leaf = partial(store, epsilon_2=budget.leaves, rng=rng)
    return [fit_tree(data, public_ranges(rows.features), recipe.depth, split, leaf) for data in parts]


def public_ranges(features: tuple[Feature, ...]) -> Ranges:
    """R_A at the root: the public ranges of the features that can be split on at all."""
    ranges: Ranges = {}
    for index, feature in enumerate(features):
        if not isinstance(feature, Categorical):
            ranges[index] = feature.range
        elif feature.n_values > 1:
            ranges[index] = tuple(range(feature.n_values))
    return ranges


def fit_tree(
    rows: Rows,
    ranges: Ranges,
    n_levels: int,
    find_split: Callable[[Rows, Ranges], Split],
    store: Callable[[Rows], np.ndarray],
) -> Node:
    """The root of one tree: FitTree, Algorithm 1."""
    if n_levels == 0 or not ranges:
        return Node(store(rows))
    split = find_split(rows, ranges)
    left = split.route(rows.columns[split.feature]) == 0
    children = [
        fit_tree(rows.take(side), below, n_levels - 1, find_split, store)
        for side, below in zip((left, ~left), split_range(ranges, split), strict=True)
    ]
    return Node(children[0].counts + children[1].counts, split, children)


def split_range(ranges: Ranges, split: Split) -> tuple[Ranges, Ranges]:
    """SplitRange, Algorithm 3: the ranges of both children, without a feature that cannot be split any more."""
    a = split.feature
    if split.groups:
        inside, outside = split.groups
        return _narrow(ranges, a, inside, len(inside) > 1), _narrow(ranges, a, outside, len(outside) > 1)
    (lower, upper), x = ranges[a], split.cuts[0]
    return _narrow(ranges, a, (lower, x), lower < x), _narrow(ranges, a, (x, upper), x < upper)


def _narrow(ranges: Ranges, feature: int, allowed: tuple, can_be_split: bool) -> Ranges:
    """The ranges with one feature's replaced, or without that feature if it cannot be split."""
    if can_be_split:
        return ranges | {feature: allowed}
    return {index: other for index, other in ranges.items() if index != feature}


def find_split(rows: Rows, ranges: Ranges, epsilon_1: float, n_features: int, rng: np.random.Generator) -> Split:
    """The split of a node by FindSplit, Algorithm 3: balanced splits of K features, of which one by its squared error."""
    features = [int(index) for index in rng.permutation(list(ranges))[:n_features]]
    splits = [balanced_split(rows, index, ranges[index], epsilon_1, rng) for index in features]
    sums = target_sums(rows)
    gains = np.array([explained(rows, sums, split.route(rows.columns[split.feature]) == 0) for split in splits])
    # -N_i * MSE is this plus a constant of the node, which changes no probability.
    return splits[exponential_choice(gains, epsilon_1 / 8, rng)]


def balanced_split(rows: Rows, feature: int, allowed: tuple, epsilon_1: float, rng: np.random.Generator) -> Split:
    """A split by the exponential mechanism that favours children of equal size (lines 34 to 48)."""
    column = rows.columns[feature]
    if isinstance(rows.features[feature], Categorical):
        return Split(feature, groups=_balanced_subset(column, np.array(allowed), epsilon_1, rng))
    return Split(feature, cuts=(_median(column, allowed, epsilon_1, rng),))


def _balanced_subset(column: np.ndarray, allowed: np.ndarray, epsilon_1: float, rng: np.random.Generator) -> tuple:
    subsets = _all_subsets(len(allowed)) if len(allowed) <= MOST_ENUMERATED else _random_subsets(len(allowed), rng)
    n_left = subsets @ np.bincount(column, minlength=allowed[-1] + 1)[allowed]
    chosen = subsets[exponential_choice(-np.abs(len(column) - 2.0 * n_left), epsilon_1 / 2, rng)]
    return tuple(allowed[chosen].tolist()), tuple(allowed[~chosen].tolist())


@cache
def _all_subsets(n: int) -> np.ndarray:
    """A mask ``(n_subsets, n)`` of each way to split n things in two: the subsets, not empty, without the last thing."""
    return (np.arange(1, 2 ** (n - 1))[:, None] >> np.arange(n)) & 1 == 1


def _random_subsets(n: int, rng: np.random.Generator) -> np.ndarray:
    subsets = rng.random((N_RANDOM_SUBSETS, n)) < 0.5
    return subsets[subsets.any(axis=1) & ~subsets.all(axis=1)]


def _median(column: np.ndarray, allowed: tuple[float, float], epsilon_1: float, rng: np.random.Generator) -> float:
    """A threshold between the drawn j-th value and the next, or anywhere beyond the last."""
    n = len(column)
    j = 1 + exponential_choice(-np.abs(n - 2.0 * np.arange(1, n + 1)), epsilon_1 / 2, rng) if n else 0
    if 0 < j < n:
        low, high = np.partition(column, (j - 1, j))[j - 1 : j + 1]
        if not np.isnan(high):
            return float(low + rng.random() * (high - low))
    return float(rng.uniform(*allowed))


def explained(rows: Rows, sums: np.ndarray, left: np.ndarray) -> float:
    """How much smaller the squared error of the target is around the means of two children than around 0."""
    inside = target_sums(rows, left)
    sides = [side for side in (inside, sums - inside) if side.sum() > 0]
    return sum(float(side @ side) / (2 * side.sum()) for side in sides)


def target_sums(rows: Rows, chosen: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Class counts ``(n_classes,)`` of the chosen records, or the sums of 1 - y and y of a bounded target."""
    target = rows.target[chosen]
    if isinstance(rows.schema.target, Classes):
        return np.bincount(target, minlength=rows.n_classes).astype(float)
    high = target.sum()
    return np.array([len(target) - high, high])


def store(rows: Rows, epsilon_2: float, rng: np.random.Generator) -> np.ndarray:
    """The counts that a leaf keeps: noisy class counts, or (1 - mean, mean) with noise scaled by its exact size."""
    if isinstance(rows.schema.target, Classes):
        return laplace(rows.class_counts(), 1 / epsilon_2, rng)
    if rows.n_rows:
        mean = float(np.clip(laplace(rows.target.mean(), 1 / (rows.n_rows * epsilon_2), rng), 0, 1))
    else:
        mean = rng.uniform()
    return np.array([1 - mean, mean])


LEAF_LEAK = (
    "for regression, noise on a leaf's mean is scaled by its exact number of records, and an empty leaf is filled by a "
    "uniform draw (docs/review.md, 2.2)"
)

PUBLISHED = Published(
    train=train,
    leaks=(
        LEAF_LEAK,
        "a threshold is drawn between two neighbouring values of the records, however close (docs/review.md, 2.3)",
        "each node draws K private candidates and pays for one (docs/review.md, 2.7)",
        "with part=True, equal parts of a shuffle: an added record moves others between trees (docs/review.md, 2.8)",
    ),
    lacks=("medians", "balance"),
)
