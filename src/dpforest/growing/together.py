"""The usual order of trees: all grow at once. Sees sealed counts, by protocol."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpforest.forest.tree import Forest
from dpforest.growing.grower import grow
from dpforest.parts.postprocess import plain_shares
from dpforest.parts.recipe import Recipe, Stages
from dpforest.parts.shape import Facts
from dpforest.privacy.gate import Gate
from dpforest.records.base import Counter


@dataclass(frozen=True)
class Together(Stages):
    """All trees grow at once, level by level, on the records that the sampling assigns to them.

    Privacy:
        Claim: costs at most ``amount``.
        Because: a tree costs at most its budget (``grow``), trees add up as their sampling proves, and the share of a tree
            is chosen so that all of them together cost at most ``amount``.
        Assumes: the number of trees is public or follows from released values.
    """

    def train(
        self,
        counter: Counter,
        recipe: Recipe,
        amount: float,
        gate: Gate,
        facts: Facts,
        progress: Callable[[str], None],
        feature_order: np.ndarray | None = None,
    ) -> Forest:
        sample, n_trees = recipe.sample, recipe.n_trees
        counter.deal(sample.assignment(n_trees), gate.entropy)
        budget = recipe.allocate.plan(sample.amount_per_tree(gate.ledger.accountant, amount, n_trees), recipe.depth)
        with sample.scopes(gate.ledger, n_trees):
            forest = grow(counter, recipe, budget, gate, facts, progress, feature_order)
        return refined(forest, recipe)


def refined(forest: Forest, recipe: Recipe) -> Forest:
    """The forest after the recipe's post-processing, with its votes; a function of released values."""
    forest = forest.summed()
    if not any(getattr(step, "gives_shares", False) for step in recipe.refine[:1]):
        forest = plain_shares(forest)
    for step in recipe.refine:
        forest = step.refine(forest)
    return replace(forest, votes=recipe.vote.votes(forest), link=recipe.vote.link, draws=recipe.vote.draws)
