"""DP-ERT as Consul and Williamson (2020) describe it: random trees. NOT private for a bounded target.

Each node splits a random feature that can still be split: at a random threshold of its public range, or into a random
subset of its categories and the others. All of the budget (``part=True``), or epsilon/N_T, goes to the leaves, which
are those of DiPriMe. Nothing but the leaves looks at records, so for classes the claim holds, and the private variant
is what runs, with its 32 bins.

The paper says "randomly partition" and not how. Here each record is dealt by its own draw, since the claim for classes
holds only then; ``consul_2020`` has the equal parts.
"""

from functools import partial

import numpy as np

from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import EveryRecord
from dpforest.published.consul_2020 import LEAF_LEAK, Ranges, fit_tree, public_ranges, store
from dpforest.published.form import Node, Published, Rows, Split
from dpforest.schema import Categorical


def train(rows: Rows, epsilon: float, recipe: Recipe, rng: np.random.Generator) -> list[Node]:
    """The roots of random trees, whose leaves alone look at records."""
    n_trees, part = recipe.n_trees, not isinstance(recipe.sample, EveryRecord)
    trees = rng.integers(0, n_trees, rows.n_rows)
    parts = [rows.take(trees == tree) for tree in range(n_trees)] if part else [rows] * n_trees
    split = partial(random_split, rng=rng)
    leaf = partial(store, epsilon_2=epsilon if part else epsilon / n_trees, rng=rng)
    return [fit_tree(data, public_ranges(rows.features), recipe.depth, split, leaf) for data in parts]


def random_split(rows: Rows, ranges: Ranges, rng: np.random.Generator) -> Split:
    """A random split of a random feature, from public ranges alone."""
    feature = int(rng.choice(list(ranges)))
    allowed = ranges[feature]
    if isinstance(rows.features[feature], Categorical):
        inside = _random_subset(len(allowed), rng)
        return Split(feature, groups=tuple(tuple(np.array(allowed)[side].tolist()) for side in (inside, ~inside)))
    return Split(feature, cuts=(float(rng.uniform(*allowed)),))


def _random_subset(n: int, rng: np.random.Generator) -> np.ndarray:
    """A mask ``(n,)`` of a random subset, neither empty nor all; each such subset is as likely."""
    while True:
        inside = rng.random(n) < 0.5
        if inside.any() and not inside.all():
            return inside


PUBLISHED = Published(train=train, leaks=(LEAF_LEAK,), sound_for=("classification",))
