"""The level loop, all trees at once. Sees sealed counts and public trees; never rows."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpforest.common.progress import Step
from dpforest.forest.tree import Forest
from dpforest.growing.choosing import Joint, Level, choose
from dpforest.growing.growth import Growth
from dpforest.parts.allocation import Plan
from dpforest.parts.recipe import Recipe
from dpforest.parts.shape import Facts
from dpforest.privacy.amounts import add, divide
from dpforest.privacy.events import COUNTS, LEAVES, SPLITS, Purpose
from dpforest.privacy.gate import Gate
from dpforest.records.base import MOST_WEIGHT, Counter, Scored


def grow(
    counter: Counter,
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
    domain, rng = counter.domain, gate.entropy.generator()
    growth, fixed = Growth(domain, recipe.n_trees), recipe.propose.fixed(domain)
    inner: list[tuple[np.ndarray, np.ndarray, float]] = []
    # Amounts of levels that had nothing to ask. Which those are follows from released values, so the leaves may have them.
    left: list[float] = []
    for level in range(plan.depth):
        counts, variance = None, 0.0
        if plan.counts[level] > 0:
            statistics = counter.count_nodes(growth.first, growth.n_open)
            purpose = Purpose(COUNTS, level=level)
            counts, variance = recipe.leaf.release(
                statistics, plan.counts[level], gate, counter.target, purpose, counter.most_per_node
            )
            inner.append((np.arange(growth.first, growth.first + growth.n_open), counts, variance))
        allowed, offered = None, fixed
        if feature_order is not None:
            allowed = feature_order[growth.open_trees, level, None] == np.arange(domain.n_features)
            offered = fixed.of_features(feature_order[:, level]) if fixed is not None else None
        candidates = recipe.propose.propose(domain, offered, growth.reach, rng, allowed)
        if recipe.stop is not None:
            candidates.valid[~recipe.stop.may_split(counts, variance, growth.reached, facts)] = False
        amount, n_before, purpose = plan.splits[level], gate.ledger.n_charges, Purpose(SPLITS, level=level)
        if recipe.centres is not None and (candidates.valid.sum(axis=1) > 1).any():
            share, amount = divide(amount, [recipe.centres.share, 1 - recipe.centres.share])
            recipe.centres.turn(counter, growth.first, growth.n_open, share, gate, purpose)
        if recipe.narrow is not None:
            share, rest = divide(amount, [recipe.narrow.share, 1 - recipe.narrow.share])
            candidates = recipe.narrow.narrow(candidates, counter, growth.first, share, gate, purpose)
            amount = rest if gate.ledger.n_charges > n_before else amount
        n_before, distinct = gate.ledger.n_charges, recipe.distinct_roots and level == 0
        parts = (counter, growth.first, gate, purpose, recipe.criterion, recipe.select, distinct)
        chosen = choose(recipe.choose or Joint(), Level(candidates, *parts), amount)
        if gate.ledger.n_charges == n_before:
            left.append(amount)
        first = growth.first
        counter.descend(first, *growth.split(candidates, chosen))
        progress(Step(f"level {level + 1} of {plan.depth}", level + 1, plan.depth))
        if not growth.n_open:
            left += [*plan.splits[level + 1 :], *plan.counts[level + 1 : -1]]
            break
    forest = growth.finish(counter.target)
    if (noise := recipe.leaf.noise(counter.target)) is not None:
        forest = replace(forest, noise=np.tile(noise, (recipe.n_trees, 1)))
    for nodes, counts, variance in inner:
        forest = forest.with_counts(nodes, counts, variance)
    leaves = np.flatnonzero(forest.is_leaf)
    if recipe.leaf.residuals:
        assert isinstance(counter, Scored)
        sums, most = counter.sum_residuals(0, forest.n_nodes), MOST_WEIGHT
    else:
        sums, most = counter.count_nodes(0, forest.n_nodes), counter.most_per_node
    statistics, amount = sums.map(lambda sums: sums[leaves]), add(plan.leaves, *left)
    counts, variance = recipe.leaf.release(statistics, amount, gate, counter.target, Purpose(LEAVES), most)
    progress("leaves")
    return forest.with_counts(leaves, counts, variance)
