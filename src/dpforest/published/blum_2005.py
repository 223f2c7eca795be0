"""SuLQ-ID3 as the thesis prints it [suihkonen2023, §4.1]. NOT private: its noise is drawn in floating point.

As printed: what the recipe of that name has as the paper's; Q1 asks for counts n^{v,c}, Q2 for sizes n^v.
Readings: d counts the layer of the leaves, so that B/d is left for them; d layers of Q1 and Q2 would leave nothing. Eq. 4.1
is the entropy that is left, so the smallest is the best gain. n_i divides it alike for all attributes and is left out. A
term whose noisy n^{v,c}/n^v is no share, that is not in (0, 1], adds nothing. A tree ends at its depth or where all
attributes are used; no other stop is printed. Several trees share B.
Not in the thesis: a depth; numeric features are cut into bins of equal width; a value that is missing or not listed counts
as the last one; an attribute with one value is left out, also of m.
"""

from dataclasses import dataclass

import numpy as np

from dpforest.parts.recipe import Recipe
from dpforest.published.form import Node, Published, Rows, laplace
from dpforest.published.trees import Values, split_records


def epsilon_per_query(budget: float, d: int, m: int) -> float:
    """The budget of Q1, and of Q2, for one attribute of one layer."""
    return budget / (2 * d * m)


def gain(counts: np.ndarray, sizes: np.ndarray) -> float:
    """The gain of noisy counts ``(n_values, n_classes)`` and sizes ``(n_values,)``, up to what all attributes share."""
    is_share = (counts > 0) & (counts <= sizes[:, None])
    shares = np.divide(counts, sizes[:, None], out=np.ones(counts.shape), where=is_share)
    return float((counts * np.log2(shares)).sum())


@dataclass(frozen=True)
class Sulq:
    """Grows a tree on one table, with ``per_query`` for Q1 and Q2 and ``leaves`` for a leaf."""

    table: Values
    per_query: float
    leaves: float
    rng: np.random.Generator

    def build(self, records: np.ndarray, left: list[int], n_layers: int) -> Node:
        """The node of some records and all below; ``left`` has the attributes that no node above has used."""
        if n_layers == 1 or not left:
            return Node(laplace(self.table.rows.class_counts(records), 1 / self.leaves, self.rng))
        exact = self.table.counts(records)
        first, scale = self.table.first, 1 / self.per_query
        noisy = {}
        for index in left:
            counts = exact[first[index] : first[index + 1]]
            noisy[index] = laplace(counts, scale, self.rng), laplace(counts.sum(axis=1), scale, self.rng)
        chosen = max(left, key=lambda index: gain(*noisy[index]))
        attribute = self.table.attributes[chosen]
        rest = [index for index in left if index != chosen]
        children = [self.build(part, rest, n_layers - 1) for part in split_records(records, attribute)]
        return Node(noisy[chosen][0].sum(axis=0), attribute.split, children)


def train(rows: Rows, epsilon: float, recipe: Recipe, rng: np.random.Generator) -> list[Node]:
    """The roots of trees of d layers, the leaves among them."""
    table, d, budget = Values.of(rows, recipe), recipe.depth + 1, epsilon / recipe.n_trees
    m = len(table.attributes)
    tree = Sulq(table, epsilon_per_query(budget, d, max(m, 1)), budget / d, rng)
    return [tree.build(np.arange(rows.n_rows), [*range(m)], d) for _ in range(recipe.n_trees)]


PUBLISHED = Published(
    train=train,
    leaks=("noise is drawn in floating point; in real numbers the claim would hold (docs/review.md, 2.18, 2.20)",),
)
