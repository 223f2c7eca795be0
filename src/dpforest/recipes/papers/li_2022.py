"""Out-of-bag weights, after Li, Qin, Luo and Zheng (2022).

Paper: Algorithm 1 grows t trees on bootstraps, each node by the best of a random features; about a third of the records
are out of a tree's bag. Algorithm 2 tests each tree on these: the noisy mean over classes of its error rates (eq. 4) gives
its weight (eq. 5), decreases of the Gini index, summed over nodes and weighted by trees, those of the features (eqs. 6 to
9), which are sorted into best, pruned and removable (eqs. 11 and 12). Algorithm 3 grows T trees on new bootstraps: a tree
draws b features that were not removed, leaves out those that are pruned, gets a budget by its weight (eqs. 10 and 13) and
splits on the others in the order of their weight, with budgets by weight (eqs. 14 and 15); the exponential mechanism cuts
numbers, the Laplace mechanism protects the counts of leaves, and the trees vote. T = 50, depth 5, five features.
Kept: both stages on (Poisson) bootstraps, ln(1 + e) inside for e outside; noise on all class counts of the test, e/t a tree,
by a third of the records; eqs. 4 to 12, 14 and 15 on released counts; a = b = k; the order of features; binary splits, as
eq. 7 has them; majority vote.
Departs: the first forest is private too, on ``first_share`` of the budget, has 10 trees (the paper does not say how many)
and draws features at each node (step 1 says for each tree, the input at splitting). The records that test are held out by a
coin each and train no tree: those out of one bag are in another, so their losses would add up. Tree shares sum to the budget
(eq. 13 spends 1/T of it). Leaves have half of a tree's (``leaf_share``), levels the rest, also what features beyond the
depth would have: section 4.1 names 1/(d + 1) of a feature's budget for the nodes of its level, and leaves have no feature.
Discrete features are split by private choices too, all among public cuts and values, by permute-and-flip for the least Gini
index times size (step 9 asks for the largest index). Nodes do not stop when they are pure. Noise may not make an error or a
weight negative: an error is at least that of one record, a weight a hundredth of the largest; and a tree whose features are
all pruned, or which finds fewer than b, takes what there is (docs/review.md, §2.4, §2.5, §2.6, §2.9, §2.11, §3).
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpforest import parts
from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.growing.earlier import descend
from dpforest.growing.grower import Together
from dpforest.mechanisms import Entropy
from dpforest.privacy.amounts import divide
from dpforest.privacy.bounds import Sensitivity
from dpforest.privacy.events import Purpose
from dpforest.privacy.sealed import Sealed
from dpforest.recipes.papers.li_2020 import RECIPE as CART
from dpforest.records.base import Counter
from dpforest.schema import Classes


@dataclass(frozen=True)
class OutOfBag(parts.Stages):
    """A first forest and held-out records give weights of features; a second forest divides its budget by these weights.

    ``n_first`` trees on the training part choose among ``n_features`` features at each node; a tree of the second stage
    draws as many. It gets its share of the budget by the sum of their weights [li2022, eqs. 10 and 13], its leaves
    ``leaf_share`` of that, its levels the rest, each by its feature's weight (eqs. 14 and 15).

    Privacy:
        Claim: costs at most ``amount``.
        Because: a coin for each record says whether it is held out; given the coins an added record is in one part, so the
            two compose in parallel, whatever the second stage takes from what the held-out part released. The training
            part spends ``first_share`` on the first stage and the rest on the second, which add up. Held-out records pay
            for the numbers of each class that each tree gets right and wrong: a record is in one leaf of a tree, so it
            adds 1 to one of these numbers for each tree; L1 is n_first and L2**2 is n_first. Weights follow from released
            values. Tree shares sum to the second stage's amount, and each tree draws its sample anew.
        Assumes: the coin of a record does not depend on other records; the sampling's own proof.
    """

    n_first: int = 10
    first_share: float = 0.3
    held_out: float = 1 / 3
    held_out_budget: float = 1.0  # share of the budget that held-out records pay; they are other records, so 1 is free
    n_features: int = 5
    leaf_share: float = 0.5
    targets = (Classes,)

    def __post_init__(self) -> None:
        shares = (self.first_share, self.held_out, self.leaf_share)
        # What is left beside a share must be less than all, in floating point too.
        if not all(0 < 1 - share < 1 for share in shares) or not 0 < self.held_out_budget <= 1:
            raise ParameterError(
                "first_share, held_out and leaf_share must lie in (0, 1), eps_oob (a share of the budget) in (0, 1]."
            )
        if not all(type(number) is int and number >= 1 for number in (self.n_first, self.n_features)):
            raise ParameterError("n_first and k must be whole numbers of at least 1.")

    def train(self, job: parts.Job, amount: float) -> Forest:
        gate, ledger = job.gate, job.gate.ledger
        training, held = job.counter.hold_out(self.held_out, gate.entropy)
        first_amount, second_amount = divide(amount, [self.first_share, 1 - self.first_share])
        held_amount, _ = divide(amount, [self.held_out_budget, 1 - self.held_out_budget])
        with ledger.scope("records by a coin each", "parallel"):
            with ledger.scope("training part") as part, ledger.scope("first stage"):
                propose = replace(job.recipe.propose, n_features=self.n_features)
                whole = replace(job.recipe, n_trees=self.n_first, propose=propose)
                first = Together().train(replace(job, counter=training, recipe=whole), first_amount)
            with ledger.scope("held-out part"):
                tested, moves = count_tested(held, first, gate.entropy), Sensitivity(self.n_first, self.n_first)
                noisy, _ = gate.add_noise(tested, moves, held_amount, "errors of trees")
            weights = feature_weights(first, tree_errors(noisy))
            with ledger.inside(part), ledger.scope("second stage"):
                return self._second(replace(job, counter=training), second_amount, weights)

    def _second(self, job: parts.Job, amount: float, weights: np.ndarray) -> Forest:
        """The released trees of the second stage, by weights ``(n_features,)``; costs at most ``amount``."""
        recipe, rng = job.recipe, job.gate.entropy.generator()
        orders = [self._order(weights, rng) for _ in range(recipe.n_trees)]
        amounts = divide(amount, [float(weights[order].sum()) for order in orders])
        trees = []
        for index, (drawn, share) in enumerate(zip(orders, amounts, strict=True)):
            order = drawn[: recipe.depth]
            allocate = parts.Weighted(tuple(weights[order].tolist()), self.leaf_share)
            single = replace(recipe, n_trees=1, depth=len(order), allocate=allocate)
            with job.gate.ledger.scope(Purpose("tree", tree=index + 1)):
                trees.append(Together().train(replace(job, recipe=single), share, order[None]))
        return Forest.join(trees)

    def _order(self, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The features that a tree of the second stage splits on, by falling weight: without those of eqs. 11 and 12."""
        mean, spread = weights.mean(), weights.std()
        kept = np.flatnonzero(weights >= mean - 3 * spread)
        drawn = rng.permutation(kept)[: self.n_features]
        best = drawn[weights[drawn] >= mean - 1.5 * spread]
        chosen = best if len(best) else drawn
        return chosen[np.argsort(-weights[chosen], kind="stable")]


def count_tested(held: Counter, forest: Forest, entropy: Entropy) -> Sealed[np.ndarray]:
    """Sealed numbers of held-out records ``(n_trees, n_classes, 2)`` of each class that each tree gets right, and wrong."""
    descend(held, forest, entropy)
    return held.count_nodes(0, forest.n_nodes).map(partial(_right_and_wrong, forest))


def _right_and_wrong(forest: Forest, counts: np.ndarray) -> np.ndarray:
    """Numbers of records ``(n_trees, n_classes, 2)`` that trees get right, and wrong, from class counts of all nodes."""
    leaves, values = np.flatnonzero(forest.is_leaf)[:, None], np.arange(counts.shape[1])
    is_wrong = (forest.votes.argmax(axis=1)[leaves] != values).astype(np.int64)
    tested = np.zeros((forest.n_trees, len(values), 2), dtype=np.int64)
    np.add.at(tested, (forest.trees[leaves], values, is_wrong), counts[leaves[:, 0]])
    return tested


def tree_errors(tested: np.ndarray) -> np.ndarray:
    """The error rate of each tree ``(n_trees,)``, as the mean over classes, by noisy counts [li2022, eq. 4].

    All trees are tested on the same records, so the size of a class is the mean of its noisy sizes over trees. A class that
    seems to be absent is left out. Errors that seem to be less than one record are taken as one, so that no tree is perfect.
    """
    sizes = tested.sum(axis=2).mean(axis=0)
    rates = np.clip(tested[..., 1] / np.maximum(sizes, 1), 0, 1)
    is_there = sizes >= 1
    errors = rates @ is_there / max(np.count_nonzero(is_there), 1)
    return np.asarray(np.maximum(errors, 1 / max(sizes.sum(), 1)))


def feature_weights(forest: Forest, errors: np.ndarray) -> np.ndarray:
    """Weights ``(n_features,)`` above 0 with sum 1, from released trees and their errors [li2022, eqs. 5 to 9].

    The printed weights have another sum, which no later equation depends on.
    """
    weights = 1 / errors @ _importances(forest)
    # A feature that no tree used still gets a little, so that every level has a budget.
    weights = np.maximum(weights, 0.01 * max(float(weights.max()), 1e-12))
    return np.asarray(weights / weights.sum())


def _importances(forest: Forest) -> np.ndarray:
    """The sums ``(n_trees, n_features)`` of the decreases of the Gini index over the nodes that split on each feature.

    Eqs. 6 to 8 of [li2022], as the released counts have it, noise and all: a node counts whatever its size, and its
    children are weighed by their sizes within it.
    """
    gini = 1 - np.square(forest.shares).sum(axis=1)
    sizes = np.maximum(forest.counts, 0).sum(axis=1)
    children = np.flatnonzero(forest.parents >= 0)
    parents, n_nodes = forest.parents[children], forest.n_nodes
    below = np.bincount(parents, sizes[children] * gini[children], n_nodes)
    held = np.bincount(parents, sizes[children], n_nodes)
    decreases = np.where(held > 0, np.maximum(gini - below / np.maximum(held, 1e-9), 0), 0)
    inner = np.flatnonzero(~forest.is_leaf)
    importances = np.zeros((forest.n_trees, forest.domain.n_features))
    np.add.at(importances, (forest.trees[inner], forest.features[inner]), decreases[inner])
    return importances


RECIPE = replace(
    CART,
    name="li-2022",
    title="Out-of-bag weights: features in order of importance",
    paper="Li, Qin, Luo and Zheng, Mathematics 2022",
    stages=OutOfBag(),
    n_trees=50,
    depth=5,
    parameters={
        "eps_oob": "stages.held_out_budget",
        "k": "stages.n_features",
        "n_first": "stages.n_first",
        "first_share": "stages.first_share",
        "held_out": "stages.held_out",
        "leaf_share": "stages.leaf_share",
    },
    claim="fails: weights from a forest that is not private, false parallel composition",
)
