"""DPDF as its Algorithm 1 prints it [fletcher2015]. NOT private: for research.

As printed: beta / (tau (2 delta - 1)) for each query (line 2), though line 16 goes a level deeper and asks 2 delta + 1
of them; the attribute choice (lines 17 and 32) with a sensitivity read off noisy sizes; a child for each value of the
attribute (line 20); strict ``<`` in the pruning (line 43), on noisy counts as they are. The text counts leaves as a
level, so delta is the depth of the recipe plus one.

Readings, where the paper says two things or none:

- A size is the sum of the noisy counts with their signs (line 15), not of their absolute values (eq. 26). With those the
  noise of an empty node would pass for records, and no class could ever be all of a node, for which line 16 stops.
- Eq. 27 prunes at equal quality too; line 43 does not.
- The ``end if`` of line 34 closes an ``if root`` that line 33 is in: other nodes leave the root attributes alone.
- The confidence that weighs a vote is a share of noisy counts, those below 0 taken as 0; a leaf with none above 0 votes as
  its parent.

Not in the paper, where every record has a listed value: a record whose value is missing or not listed counts as one of the
last value, in training and in prediction; an attribute with one value is left out; numeric features are cut into bins of
equal width, as [consul2020] does for it; once every attribute has been a root, any may be one again.
"""

from dataclasses import dataclass, field

import numpy as np

from dpforest.parts.recipe import Recipe
from dpforest.parts.shape import NoisySize
from dpforest.published.form import Node, Published, Rows, exponential_choice, laplace
from dpforest.published.trees import Values, prune_tree, split_records


def epsilon_per_query(beta: float, tau: int, delta: int) -> float:
    """The budget of each query, out of the budget beta of the forest: line 2, eq. 10."""
    return beta / (tau * (2 * delta - 1))


def local_sensitivity(size: float) -> float:
    """The most that one record changes the normalised Gini of ``size`` records: line 17, eq. 11."""
    return 1 - (size / (size + 1)) ** 2 - (1 / (size + 1)) ** 2


def choice_rate(epsilon: float, noisy_size: float) -> float:
    """The factor of the Gini in the exponent of Q2, with the sensitivity at a noisy size: line 32, eq. 8."""
    sensitivity = local_sensitivity(noisy_size)
    return epsilon / (2 * sensitivity) if sensitivity > 0 else np.inf


@dataclass
class Dpdf:
    """The procedures of Algorithm 1 on one table; ``root_attributes`` is its global A_root."""

    table: Values
    epsilon: float
    delta: int
    least: float
    rng: np.random.Generator
    root_attributes: list[int] = field(default_factory=list)

    def build_tree(self, records: np.ndarray, left: np.ndarray, d: int) -> Node:
        """The node of some records and all below: lines 12 to 26; ``left`` are the attributes that no node above uses."""
        counts = laplace(self.table.rows.class_counts(records), 1 / self.epsilon, self.rng)
        node, size = Node(counts), counts.sum()
        if d > self.delta or not (size >= self.least and (counts < size).all() and len(left)):
            return node
        chosen = self.splitting_attribute(records, left, size, root=d == 1)
        attribute = self.table.attributes[chosen]
        node.split, left = attribute.split, left[left != chosen]
        node.children = [self.build_tree(part, left, d + 1) for part in split_records(records, attribute)]
        return node

    def splitting_attribute(self, records: np.ndarray, left: np.ndarray, noisy_size: float, root: bool) -> int:
        """The drawn attribute of a node, by lines 27 to 36."""
        fresh = np.setdiff1d(left, self.root_attributes) if root else left
        offered = fresh if len(fresh) else left
        rate = choice_rate(self.epsilon, noisy_size)
        chosen = int(offered[exponential_choice(self.table.gini(records)[offered], rate, self.rng)])
        if root:
            self.root_attributes.append(chosen)
        return chosen


def train(rows: Rows, epsilon: float, recipe: Recipe, rng: np.random.Generator) -> list[Node]:
    """The roots of the pruned trees, by lines 1 to 11."""
    assert isinstance(recipe.stop, NoisySize), "DPDF stops at noisy sizes"
    tau, delta = recipe.n_trees, recipe.depth + 1
    forest = Dpdf(Values.of(rows, recipe), epsilon_per_query(epsilon, tau, delta), delta, recipe.stop.least, rng)
    everything = np.arange(rows.n_rows), np.arange(len(forest.table.attributes))
    trees = [forest.build_tree(*everything, d=1) for _ in range(tau)]
    for tree in trees:
        prune_tree(tree)
    return trees


PUBLISHED = Published(
    train=train,
    leaks=(
        "the choice of attributes is scaled by noisy sizes, so its loss has no bound (docs/review.md, 2.1)",
        "a tree asks 2 delta + 1 queries on a budget for 2 delta - 1, as line 16 goes a level too deep"
        " (docs/review.md, 2.1)",
    ),
)
