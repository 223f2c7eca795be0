"""RFDPP-Gini as printed: Li et al. (2020), as two later papers [li2022; dong2022] describe it. NOT private.

CART trees on bootstraps; B/T for each tree, the same for each layer, one half of a layer for counts and one for
splits. The half for splits is shared by the m continuous features among those drawn and one more share for all
discrete ones. Each continuous feature gets an interval between neighbouring data values by the exponential mechanism,
weighted by its length; discrete features are judged by their exact Gini index; the least of all is taken exactly.
Counts get Laplace noise.

Where the texts are open: what they do not say of it is taken from DiffPRF_linear, which becomes it for q = 1 and d = 0
[dong2022, Algorithm 3], but for the exponential mechanism, which is that of [li2022, step 9 of Algorithm 3] with a minus:
sensitivity 2, the cut drawn evenly inside the chosen interval. [li2022] has the Laplace mechanism deal with discrete
features; [dong2022] reserves a share for them and compares them exactly, as here. Leaves get the half for counts of
their layer, as all nodes do; a node that no drawn feature divides is a leaf; trees vote by majority.
"""

import numpy as np

from dpforest.parts.recipe import Recipe
from dpforest.published.form import Node, Published, Rows, bootstrap, laplace
from dpforest.published.trees import Choice, Sample, draw_features, grow, least_gini, noise_scale


def train(rows: Rows, epsilon: float, recipe: Recipe, rng: np.random.Generator) -> list[Node]:
    """The roots of the trees of RFDPP-Gini."""
    half = epsilon / recipe.n_trees / (recipe.depth + 1) / 2
    return [_tree(Sample(bootstrap(rows, rng)[0]), half, recipe, rng) for _ in range(recipe.n_trees)]


def _tree(sample: Sample, half: float, recipe: Recipe, rng: np.random.Generator) -> Node:
    """The root of a tree that spends ``half`` on the counts of each layer and as much on its splits."""

    def choose(records: np.ndarray, level: int) -> Choice | None:
        features = draw_features(recipe.propose.n_features, sample.n_features, rng)
        share = half / (np.count_nonzero(sample.is_continuous[features]) + 1)
        return least_gini([splits.draw_choice(-1.0, share, rng) for splits in sample.offers(features, records)])

    scale = noise_scale(half)
    return grow(sample, recipe.depth, choose, lambda counts, level: laplace(counts, scale, rng))


PUBLISHED = Published(
    train=train,
    leaks=(
        "whether a node is split depends on whether its records are exactly pure (docs/review.md, 2.4)",
        "splits of discrete features, and the best of all features, are exact minima (docs/review.md, 2.5)",
        "a bootstrap may hold a record many times, and only one is charged (docs/review.md, 2.9)",
        "cuts lie between the smallest and the largest value of the records (docs/review.md, 2.11)",
    ),
)
