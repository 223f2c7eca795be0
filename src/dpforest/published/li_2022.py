"""Out-of-bag budgets as printed: Algorithms 1 to 3 of Li, Qin, Luo and Zheng (2022). NOT private.

What the recipe of that name has as the paper's, with exact Gini indices and Laplace noise on out-of-bag errors. Kept as
printed: tree budgets sum to epsilon/T (eq. 13), a level's counts get a 1/(d+1) share of its feature's budget (section
4.1), noise can make an error, and so a weight, negative, and the exponent of step 9 has the Gini index with a plus
sign, which favours impure splits.

Where the text is open: splits are binary, as eq. 7 has it, of one value against the rest for discrete features (the
exact best); the children of eq. 7 are weighed by their share of the node; t = T; a = b, at most the number of features,
drawn once for a tree of Algorithm 1 (step 1; its input says at splitting); the budget of out-of-bag counts is epsilon
(section 4.1), that of step 9 the feature's, its sensitivity 2, the cut drawn evenly inside the chosen interval; a leaf
has no feature, so its counts get the share of the split above it; with more than two classes eq. 4 averages the error
rates of all that are out of bag; an error of exactly 0 counts as a very small one; a feature that does not divide a
node, or without budget, ends the branch; trees vote by majority.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpforest.parts.recipe import Recipe
from dpforest.published.form import Node, Published, Rows, bootstrap, gini, laplace
from dpforest.published.trees import Choice, Sample, draw_features, exact_best, grow, noise_scale

LEAST_ERROR = 1e-6


def train(rows: Rows, epsilon: float, recipe: Recipe, rng: np.random.Generator) -> list[Node]:
    """The roots of the trees of Algorithm 3, after Algorithms 1 and 2."""
    stages: Any = recipe.stages
    n_drawn = min(int(stages.n_features), len(rows.columns))
    weights = solve_weights(rows, stages.held_out_budget * epsilon, n_drawn, recipe, rng)
    orders = [_order(weights, n_drawn, rng) for _ in range(recipe.n_trees)]
    budgets = feature_budgets(weights, orders, epsilon)
    return [
        _second_tree(Sample(bootstrap(rows, rng)[0]), order, shares, recipe.depth, rng)
        for order, shares in zip(orders, budgets, strict=True)
    ]


def solve_weights(rows: Rows, epsilon: float, n_drawn: int, recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    """Weights ``(n_features,)`` by Algorithms 1 and 2, with the budget ``epsilon`` for out-of-bag counts."""
    importances, errors = [], []
    scale = noise_scale(epsilon / recipe.n_trees)
    for _ in range(recipe.n_trees):
        drawn, left = bootstrap(rows, rng)
        root = _first_tree(Sample(drawn), n_drawn, recipe.depth, rng)
        importances.append(tree_importances(root, len(rows.columns)))
        errors.append(out_of_bag_error(root, rows.take(left), scale, rng))
    return feature_weights(np.array(importances), np.array(errors))


def _first_tree(sample: Sample, n_drawn: int, depth: int, rng: np.random.Generator) -> Node:
    """The root of a tree of Algorithm 1: features drawn once, the exact best split at each node."""
    features = draw_features(n_drawn, sample.n_features, rng)

    def choose(records: np.ndarray, level: int) -> Choice | None:
        return exact_best(sample, features, records)

    return grow(sample, depth, choose, lambda counts, level: counts)


def out_of_bag_error(root: Node, rows: Rows, scale: float, rng: np.random.Generator) -> float:
    """The mean over classes of noisy numbers of errors over exact class sizes [li2022, eq. 4]."""
    wrong = rows.target[_classes(root, rows) != rows.target]
    errors = laplace(np.bincount(wrong, minlength=rows.n_classes), scale, rng)
    sizes = rows.class_counts()
    return float((errors[sizes > 0] / sizes[sizes > 0]).mean()) if rows.n_rows else 0.0


def _classes(root: Node, rows: Rows) -> np.ndarray:
    """The exact majority class of the leaf that each row reaches ``(n_rows,)``."""
    classes = np.empty(rows.n_rows, dtype=np.int64)

    def walk(node: Node, records: np.ndarray) -> None:
        if node.split is None:
            classes[records] = node.counts.argmax()
            return
        sides = node.split.route(rows.columns[node.split.feature][records])
        for side, child in enumerate(node.children):
            walk(child, records[sides == side])

    walk(root, np.arange(rows.n_rows))
    return classes


def tree_importances(root: Node, n_features: int) -> np.ndarray:
    """The sums ``(n_features,)`` of the impurity decreases of each feature in one tree [li2022, eqs. 6 to 8]."""
    importances = np.zeros(n_features)
    for node, feature in _inner(root):
        below = np.array([child.counts for child in node.children])
        importances[feature] += gini(node.counts) - below.sum(axis=1) @ gini(below) / node.counts.sum()
    return importances


def _inner(node: Node) -> Iterator[tuple[Node, int]]:
    """All nodes with children, from this one down, and the features that they split on."""
    if node.split is not None:
        yield node, node.split.feature
        for child in node.children:
            yield from _inner(child)


def feature_weights(importances: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Weights ``(n_features,)`` from importances ``(n_trees, n_features)`` and noisy errors [li2022, eqs. 5 and 9]."""
    tree_weights = 1 / np.where(np.abs(errors) < LEAST_ERROR, LEAST_ERROR, errors)
    return _over(tree_weights @ importances, importances.sum())


def _order(weights: np.ndarray, n_drawn: int, rng: np.random.Generator) -> np.ndarray:
    """The features of one tree of Algorithm 3 by falling weight; none if too few are left to draw from."""
    mean, spread = weights.mean(), weights.std()
    removable = weights < mean - 3 * spread
    pruned = (mean - 3 * spread < weights) & (weights < mean - 1.5 * spread)
    kept = np.flatnonzero(~removable)
    if len(kept) < n_drawn:
        return kept[:0]
    drawn = kept[draw_features(n_drawn, len(kept), rng)]
    best = drawn[~pruned[drawn]]
    return best[np.argsort(-weights[best], kind="stable")]


def feature_budgets(weights: np.ndarray, orders: list[np.ndarray], epsilon: float) -> list[np.ndarray]:
    """For each tree the budgets of its features [li2022, eqs. 10 and 13 to 15]; 0 where it would be negative."""
    totals = np.array([weights[order].sum() for order in orders])
    tree_shares = _over(totals, totals.sum()) / len(orders)
    budgets = []
    for order, total, tree_share in zip(orders, totals, tree_shares, strict=True):
        shares = tree_share * _over(weights[order], total)
        budgets.append(np.multiply(epsilon, shares, out=np.zeros(len(shares)), where=shares > 0))
    return budgets


def _over(values: np.ndarray, total: float) -> np.ndarray:
    """Values as shares of a total; 0 where there is nothing to share."""
    return values / total if total else np.zeros(len(values))


def _second_tree(sample: Sample, order: np.ndarray, budgets: np.ndarray, depth: int, rng: np.random.Generator) -> Node:
    """The root of a tree of Algorithm 3: the feature of each level is set, its cut is drawn, or its best value taken."""

    def choose(records: np.ndarray, level: int) -> Choice | None:
        if budgets[level] <= 0:
            return None
        splits = sample.splits(order[level], records)
        return splits.draw_choice(1.0, budgets[level], rng) if len(splits.ginis) else None

    def keep(counts: np.ndarray, level: int) -> np.ndarray:
        # The counts of a node are paid by the split above it; those of a root by its own.
        budget = budgets[max(level - 1, 0)] / (depth + 1) if len(budgets) else 0.0
        return laplace(counts, noise_scale(budget), rng)

    return grow(sample, min(depth, len(order)), choose, keep)


PUBLISHED = Published(
    lacks=("n_first", "first_share", "held_out", "leaf_share"),
    train=train,
    leaks=(
        "whether a node is split depends on whether its records are exactly pure (docs/review.md, 2.4)",
        "splits of discrete features are the exact minimum of the Gini index (docs/review.md, 2.5)",
        "weights, order of features and budgets follow from a forest grown without noise (docs/review.md, 2.6)",
        "out-of-bag records also train, so the two budgets do not compose in parallel (docs/review.md, 2.6)",
        "a bootstrap may hold a record many times, and only one is charged (docs/review.md, 2.9)",
        "cuts lie between the smallest and the largest value of the records (docs/review.md, 2.11)",
    ),
)
