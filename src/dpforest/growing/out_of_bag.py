"""Out-of-bag stages: a first forest tells which features matter, a second one spends its budget by that."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpforest.allocation import Weighted
from dpforest.errors import ParameterError
from dpforest.growing.together import Together
from dpforest.privacy.amounts import divide
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.gate import Gate
from dpforest.recipe import Recipe
from dpforest.records.base import Counter
from dpforest.rules import Facts
from dpforest.schema import Classes, Target
from dpforest.tree import Forest


@dataclass(frozen=True)
class OutOfBag:
    """Weights of trees and features from a first forest and held-out records; a second forest that follows them.

    First stage: ``n_first`` trees on the training part. Their error counts on the held-out part give tree weights Q = 1/B
    [li2022, eq. 5]; impurity decreases of released counts, weighted by Q, give feature weights (eqs. 6 to 9); features
    below mean - 3 sd are removed, those below mean - 1.5 sd pruned (eqs. 11 and 12). Second stage: each tree draws
    ``n_features`` features, splits on them in the order of their weight, and gets its share of the budget by their sum
    (eqs. 10 and 13), a level by its feature's weight (eqs. 14 and 15).

    Privacy:
        Claim: costs at most ``amount``.
        Because: a coin for each record says whether it is held out; the two parts compose in parallel. The training part
            spends ``first_share`` on the first stage and the rest on the second, which add up. Held-out records pay
            for the error counts: one record is an error of at most ``n_first`` trees, so L1 is n_first and L2**2 is
            n_first. Weights follow from released values. Tree shares sum to the second stage's amount.
        Assumes: coins are exact.
    """

    n_first: int = 10
    first_share: float = 0.3
    held_out: float = 0.1
    held_out_budget: float = 1.0  # share of the budget that held-out records pay; they are other records, so 1 is free
    n_features: int = 5

    def __post_init__(self) -> None:
        shares = (self.first_share, self.held_out)
        if not all(0 < share < 1 for share in shares) or not 0 < self.held_out_budget <= 1:
            raise ParameterError("first_share and held_out must lie in (0, 1), eps_oob (a share of the budget) in (0, 1].")
        if not all(type(number) is int and number >= 1 for number in (self.n_first, self.n_features)):
            raise ParameterError("n_first and k must be whole numbers of at least 1.")

    def accepts(self, target: Target) -> bool:
        return isinstance(target, Classes)

    def train(
        self, shards: Counter, recipe: Recipe, amount: float, gate: Gate, facts: Facts, progress: Callable[[str], None]
    ) -> Forest:
        training, held = shards.hold_out(self.held_out, gate.entropy)
        first_amount, second_amount = divide(amount, [self.first_share, 1 - self.first_share])
        held_amount, _ = divide(amount, [self.held_out_budget, 1 - self.held_out_budget])
        ledger = gate.ledger
        with ledger.scope("records by a coin each", "parallel"):
            with ledger.scope("training part") as part, ledger.scope("first stage"):
                first = Together().train(
                    training, replace(recipe, n_trees=self.n_first), first_amount, gate, facts, progress
                )
            with ledger.scope("held-out part"):
                errors = held.count_errors(first, np.eye(self.n_first, dtype=bool))
                noisy, _ = gate.add_noise(errors, Sensitivity(self.n_first, self.n_first), held_amount, "errors of trees")
            weights = feature_weights(first, noisy)
            with ledger.inside(part), ledger.scope("second stage"):
                return self._second(training, recipe, second_amount, gate, facts, progress, weights)

    def _second(
        self,
        training: Counter,
        recipe: Recipe,
        amount: float,
        gate: Gate,
        facts: Facts,
        progress: Callable[[str], None],
        weights: np.ndarray,
    ) -> Forest:
        rng = gate.entropy.generator()
        orders = [self._order(weights, recipe.depth, rng) for _ in range(recipe.n_trees)]
        amounts = divide(amount, [float(weights[order].sum()) for order in orders])
        trees = []
        for place, (order, share) in enumerate(zip(orders, amounts, strict=True)):
            single = replace(recipe, n_trees=1, depth=len(order), allocate=Weighted(tuple(weights[order].tolist())))
            with gate.ledger.scope(f"tree {place + 1}"):
                trees.append(Together().train(training, single, share, gate, facts, progress, order[None]))
        return Forest.join(trees)

    def _order(self, weights: np.ndarray, depth: int, rng: np.random.Generator) -> np.ndarray:
        """The features of one tree, from the heaviest down."""
        mean, spread = weights.mean(), weights.std()
        kept = np.flatnonzero(weights >= mean - 3 * spread)
        drawn = rng.permutation(kept)[: self.n_features]
        best = drawn[weights[drawn] >= mean - 1.5 * spread]
        chosen = best if len(best) else drawn
        return chosen[np.argsort(-weights[chosen], kind="stable")][:depth]


def feature_weights(forest: Forest, errors: np.ndarray) -> np.ndarray:
    """Weight of each feature, above 0 and with sum 1, from released trees and their noisy errors [li2022, eq. 5-9]."""
    tree_weights = 1 / np.maximum(errors, 1.0)
    weights = tree_weights @ _decreases(forest)
    # A feature that no tree used still gets a little, so that every level has a budget.
    weights = weights + 0.01 * max(float(weights.max()), 1e-12)
    return weights / weights.sum()


def _decreases(forest: Forest) -> np.ndarray:
    """Decrease of impurity due to each feature in each tree, as the counts have it, noise and all; as shares of a tree."""
    impurity = np.maximum(forest.counts, 0).sum(axis=1) * (1 - np.square(forest.shares).sum(axis=1))
    below = np.zeros(forest.n_nodes)
    children = np.flatnonzero(forest.parents >= 0)
    np.add.at(below, forest.parents[children], impurity[children])
    inner = np.flatnonzero(~forest.is_leaf)
    decreases = np.zeros((forest.n_trees, forest.domain.n_features))
    np.add.at(decreases, (forest.trees[inner], forest.features[inner]), np.maximum(impurity - below, 0)[inner])
    totals = decreases.sum(axis=1, keepdims=True)
    return np.divide(decreases, totals, out=decreases, where=totals > 0)
