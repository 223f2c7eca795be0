"""DiffPRF_linear as printed: Algorithm 3 of Dong et al. (2022). NOT private.

CART trees on bootstraps. Line 17 takes the highest ``1 - softmax(e'/(2*sensitivity) * Gini)``. The softmax grows with
the Gini index whatever the budget e', so this is the exact minimum, and nothing is drawn. Leaves are labelled by the
exact majority (line 9). The Laplace noise of line 12 is added to counts that no later line reads; it is not computed
here. So layers, q and d reach the output only through the test that the budget is not used up (line 8), which eq. 12
never fails: the budget changes nothing.

Where the text is open: the least number of samples of a node that is split is two, for the paper gives none; m features
are drawn at every node, also where all are discrete; a node that none of them divides is a leaf; nodes keep their exact
class counts, of which only the majority votes.
"""

from typing import Any

import numpy as np

from dpforest.parts.recipe import Recipe
from dpforest.published.form import Node, Published, Rows, bootstrap
from dpforest.published.trees import Choice, Sample, draw_features, exact_best, grow


def train(rows: Rows, epsilon: float, recipe: Recipe, rng: np.random.Generator) -> list[Node]:
    """The roots of the trees of Algorithm 3."""
    layers = layer_budgets(epsilon, recipe)
    return [_tree(Sample(bootstrap(rows, rng)[0]), layers, recipe, rng) for _ in range(recipe.n_trees)]


def layer_budgets(epsilon: float, recipe: Recipe) -> list[float]:
    """The budget of each layer of a tree, from the root to the leaves [dong2022, eq. 12], of B/T together."""
    allocate: Any = recipe.allocate
    return [epsilon / recipe.n_trees * share for share in allocate.layers(recipe.depth + 1)]


def _tree(sample: Sample, layers: list[float], recipe: Recipe, rng: np.random.Generator) -> Node:
    """The root of a tree with a budget for each of its layers, the last of which are leaves."""

    def choose(records: np.ndarray, level: int) -> Choice | None:
        if layers[level] <= 0:
            return None
        features = draw_features(recipe.propose.n_features, sample.n_features, rng)
        return exact_best(sample, features, records)

    return grow(sample, len(layers) - 1, choose, lambda counts, level: counts)


PUBLISHED = Published(
    train=train,
    leaks=(
        "whether a node is split depends on whether its records are exactly pure (docs/review.md, 2.4)",
        "splits are exact minima, leaves exact majorities, and no noise is used (docs/review.md, 2.5)",
        "a bootstrap may hold a record many times, and only one is charged (docs/review.md, 2.9)",
        "cuts are midpoints of values of the records (docs/review.md, 2.11)",
    ),
)
