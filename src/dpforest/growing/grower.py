"""The level loop, all trees at once. Sees sealed counts and public trees; never rows."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from dpforest.allocation import Plan
from dpforest.criteria import Criterion, children_of
from dpforest.growing.growth import Growth
from dpforest.privacy.amounts import add, divide
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.progress import Step
from dpforest.proposals import Candidates
from dpforest.recipe import Recipe
from dpforest.records.base import Counter
from dpforest.records.residuals import MOST_WEIGHT
from dpforest.rules import Facts
from dpforest.schema import Target
from dpforest.tree import Forest

# Cells of sealed statistics held at once: 64 MB of 64-bit counts.
BLOCK_CELLS = 1 << 23
# Cells of children that are scored at once: they stay in the processor's cache.
SCORED_CELLS = 1 << 17


def grow(
    shards: Counter,
    recipe: Recipe,
    plan: Plan,
    gate: Gate,
    facts: Facts,
    progress: Callable[[str], None] = lambda step: None,
    feature_order: np.ndarray | None = None,
) -> Forest:
    """Trees of ``plan.depth`` levels with released leaves.

    ``feature_order`` ``(n_trees, depth)`` fixes the feature that each level of each tree splits on.

    Privacy:
        Claim: one tree costs at most the sum of its plan.
        Because: given the released splits above, the node of a record is a function of that record alone, so an added
            record changes the counts of one node of a level: all choices of a level cost its amount once
            (parallel composition), and levels and leaves add up (adaptive sequential composition). A node that
            offers one candidate or none asks nothing. Stopping rules read released values. A node that stops early is a
            leaf; a record is in one leaf only, so its counts may have the whole amount of the leaves.
        Assumes: add/remove neighbours; how trees add up is proved in ``sampling``.
    """
    domain, rng = shards.domain, gate.entropy.generator()
    growth, fixed = Growth(domain, recipe.n_trees), recipe.propose.fixed(domain)
    inner: list[tuple[np.ndarray, np.ndarray, float]] = []
    # Amounts of levels that had nothing to ask. Which those are follows from released values, so the leaves may have them.
    left: list[float] = []
    for level in range(plan.depth):
        counts, variance = None, 0.0
        if plan.counts[level] > 0:
            statistics = shards.count_nodes(growth.first, growth.n_open)
            label = f"counts of level {level}"
            counts, variance = recipe.leaf.release(
                statistics, plan.counts[level], gate, shards.target, label, shards.node_unit
            )
            inner.append((np.arange(growth.first, growth.first + growth.n_open), counts, variance))
        allowed, offered = None, fixed
        if feature_order is not None:
            allowed = feature_order[growth.open_trees, level, None] == np.arange(domain.n_features)
            offered = fixed.of_features(feature_order[:, level]) if fixed is not None else None
        candidates = recipe.propose.propose(domain, offered, growth.reach, rng, allowed)
        if recipe.stop is not None:
            candidates.valid[~recipe.stop.may_split(counts, variance, growth.reached, facts)] = False
        amount, n_before = plan.splits[level], gate.ledger.n_charges
        if recipe.centres is not None and (candidates.valid.sum(axis=1) > 1).any():
            share, amount = divide(amount, [recipe.centres.share, 1 - recipe.centres.share])
            recipe.centres.turn(shards, growth.first, growth.n_open, share, gate, f"splits of level {level}")
        if recipe.narrow is not None:
            share, rest = divide(amount, [recipe.narrow.share, 1 - recipe.narrow.share])
            candidates = recipe.narrow.narrow(candidates, shards, growth.first, share, gate, f"splits of level {level}")
            amount = rest if gate.ledger.n_charges > n_before else amount
        choice = _Choice(shards, recipe, growth.first, gate, f"splits of level {level}", apart=level == 0)
        n_before = gate.ledger.n_charges
        chosen = choice.choose(candidates, amount)
        if gate.ledger.n_charges == n_before:
            left.append(amount)
        first = growth.first
        shards.descend(first, *growth.split(candidates, chosen))
        progress(Step(f"level {level + 1} of {plan.depth}", level + 1, plan.depth))
        if not growth.n_open:
            left += [*plan.splits[level + 1 :], *plan.counts[level + 1 : -1]]
            break
    forest = growth.finish(shards.target)
    if hasattr(recipe.leaf, "noise"):
        forest = replace(forest, noise=np.tile(recipe.leaf.noise(shards.target), (recipe.n_trees, 1)))
    for nodes, counts, variance in inner:
        forest = forest.with_counts(nodes, counts, variance)
    leaves = np.flatnonzero(forest.is_leaf)
    if getattr(recipe.leaf, "residuals", False):
        sums, unit = shards.sum_residuals(0, forest.n_nodes), MOST_WEIGHT
    else:
        sums, unit = shards.count_nodes(0, forest.n_nodes), shards.node_unit
    statistics, amount = sums.map(lambda sums: sums[leaves]), add(plan.leaves, *left)
    counts, variance = recipe.leaf.release(statistics, amount, gate, shards.target, "leaves", unit)
    progress("leaves")
    return forest.with_counts(leaves, counts, variance)


class _Choice:
    """The choice of one level: scores are sealed, what is chosen is released."""

    def __init__(self, shards: Counter, recipe: Recipe, first: int, gate: Gate, label: str, apart: bool) -> None:
        self.shards, self.recipe, self.first, self.gate, self.label = shards, recipe, first, gate, label
        self.apart = apart and recipe.distinct_roots

    def choose(self, candidates: Candidates, amount: float) -> np.ndarray:
        """The chosen candidate of each open node; -1 where none divides it."""
        n_offered = candidates.valid.sum(axis=1)
        if candidates.n_candidates == 1 or n_offered.max(initial=0) <= 1:
            return np.where(n_offered > 0, candidates.valid.argmax(axis=1), -1)
        scores = self._scores(candidates)
        select = partial(
            self.gate.select, bound=self.recipe.criterion.bound(self.shards.code_unit), mechanism=self.recipe.select
        )
        features = candidates.features if self.apart or self.recipe.two_step else None
        if not self.recipe.two_step:
            return select(scores, candidates.valid, amount=amount, label=self.label, apart=features)
        # A feature's score is that of its best split: the largest of scores that move within a bound moves within it.
        first_amount, second_amount = divide(amount, [1, 1])
        n_features = self.shards.domain.n_features
        best = scores.map(partial(_best_of_each_feature, features, candidates.valid, n_features))
        chosen = select(best, candidates.wanted(n_features), amount=first_amount, label=f"{self.label}: feature")
        valid = candidates.valid & (features == chosen[:, None])
        return select(scores, valid, amount=second_amount, label=f"{self.label}: split")

    def _scores(self, candidates: Candidates) -> Sealed[np.ndarray]:
        target, domain = self.shards.target, self.shards.domain
        per_node = self.shards.code_width * (domain.total_codes + candidates.n_candidates * candidates.routes.most_children)
        n_block = max(1, BLOCK_CELLS // per_node)
        scores = []
        for start in range(0, len(candidates.places), n_block):
            block = candidates.block(start, start + n_block)
            counts = self.shards.count_codes(self.first + start, block.wanted(domain.n_features))
            scores.append(counts.map(partial(score, self.recipe.criterion, domain.offsets, target, block)))
        return Sealed.concatenate(scores)


def score(
    criterion: Criterion, offsets: np.ndarray, target: Target, candidates: Candidates, counts: np.ndarray
) -> np.ndarray:
    """Scores ``(n_nodes, n_candidates)`` of sealed counts; 0 where a candidate is not valid."""
    scores = np.zeros(candidates.valid.shape, dtype=np.int64)
    per_node = candidates.n_candidates * candidates.routes.most_children * counts.shape[2]
    n_block = max(1, SCORED_CELLS // max(per_node, 1))
    for start in range(0, len(scores), n_block):
        block = candidates.block(start, start + n_block)
        children = children_of(counts[start : start + n_block], block, offsets)
        scores[start : start + n_block][block.valid] = criterion.score(children, target)
    return scores


def _best_of_each_feature(features, valid, n_features, scores):
    best = np.full((len(scores), n_features), np.iinfo(np.int64).min // 2)
    np.maximum.at(best, (np.arange(len(scores))[:, None], features), np.where(valid, scores, best[0, 0]))
    return best
