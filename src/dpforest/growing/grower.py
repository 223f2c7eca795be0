"""The loop over levels that grows all trees at once. Sees sealed counts and the public trees so far; never rows."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpforest.common.progress import Step
from dpforest.forest.tree import Forest
from dpforest.growing.choosing import Joint, Level, choose
from dpforest.growing.growth import Growth
from dpforest.parts.allocation import TreeBudget
from dpforest.parts.recipe import Recipe
from dpforest.parts.routes import Candidates, Routes
from dpforest.parts.shape import Facts
from dpforest.privacy.amounts import add, divide
from dpforest.privacy.events import COUNTS, LEAVES, SPLITS, Purpose
from dpforest.privacy.gate import Gate
from dpforest.records.base import MOST_WEIGHT, Counter


def grow(
    counter: Counter,
    recipe: Recipe,
    budget: TreeBudget,
    gate: Gate,
    facts: Facts,
    progress: Callable[[str], None] = lambda step: None,
    feature_order: np.ndarray | None = None,
) -> Forest:
    """The forest of ``recipe.n_trees`` trees, of at most ``budget.depth`` levels of splits, with released leaves.

    ``feature_order`` ``(n_trees, depth)`` fixes the feature that each level of each tree splits on.

    Privacy:
        Claim: one tree costs at most the sum of its budget.
        Because: given the released splits above, the node of a record is a function of that record alone, so an added
            record changes the counts of one node of a level: all choices of a level cost its amount once
            (parallel composition), and levels and leaves add up (adaptive sequential composition). A node that
            offers one candidate or none asks nothing. Stopping rules read released values. A node that stops early is a
            leaf; a record is in one leaf only, so its counts may have the whole amount of the leaves.
        Assumes: add/remove neighbours; how trees add up is proved in ``parts.sampling``.
    """
    rng = gate.entropy.generator()
    growth, fixed = Growth(counter.domain, recipe.n_trees), recipe.propose.fixed(counter.domain)
    inner: list[tuple[np.ndarray, np.ndarray, float]] = []
    # Amounts of levels that had nothing to ask. Which those are follows from released values, so the leaves may have them.
    unspent: list[float] = []
    for level in range(budget.depth):
        counts, variance = None, 0.0
        if budget.counts[level] > 0:
            statistics, purpose = counter.count_nodes(growth.first, growth.n_open), Purpose(COUNTS, level=level)
            counts, variance = recipe.leaf.release(
                statistics, budget.counts[level], gate, counter.target, purpose, counter.most_per_node
            )
            inner.append((np.arange(growth.first, growth.first + growth.n_open), counts, variance))
        candidates = _offered(recipe, growth, fixed, None if feature_order is None else feature_order[:, level], rng)
        if recipe.stop is not None:
            candidates.valid[~recipe.stop.may_split(counts, variance, growth.reached, facts)] = False
        candidates, chosen, rest = _chosen(recipe, counter, gate, growth, candidates, level, budget.splits[level])
        unspent.append(rest)
        first = growth.first
        counter.descend(first, *growth.split(candidates, chosen))
        progress(Step(f"level {level + 1} of {budget.depth}", level + 1, budget.depth))
        if not growth.n_open:
            unspent += [*budget.splits[level + 1 :], *budget.counts[level + 1 : -1]]
            break
    forest = growth.finish(counter.target)
    for nodes, counts, variance in inner:
        forest = forest.with_counts(nodes, counts, variance)
    forest = _with_leaves(forest, counter, recipe, add(budget.leaves, *unspent), gate)
    progress("leaves")
    return forest


def _offered(
    recipe: Recipe, growth: Growth, fixed: Routes | None, features: np.ndarray | None, rng: np.random.Generator
) -> Candidates:
    """The candidates of each open node; ``features`` ``(n_trees,)`` leaves each tree one feature to split on."""
    if features is None:
        return recipe.propose.propose(growth.domain, fixed, growth.reach, rng)
    allowed = features[growth.open_trees, None] == np.arange(growth.domain.n_features)
    fixed = None if fixed is None else fixed.of_features(features)
    return recipe.propose.propose(growth.domain, fixed, growth.reach, rng, allowed)


def _chosen(
    recipe: Recipe, counter: Counter, gate: Gate, growth: Growth, candidates: Candidates, level: int, amount: float
) -> tuple[Candidates, np.ndarray, float]:
    """The remaining candidates, the released choice among them, and the unspent part of ``amount``.

    The choice ``(n_open,)`` is the index of a candidate of each open node, or -1 for a node that becomes a leaf.
    """
    purpose, n_before = Purpose(SPLITS, level=level), gate.ledger.n_charges
    if recipe.centres is not None and (candidates.valid.sum(axis=1) > 1).any():
        share, amount = divide(amount, [recipe.centres.share, 1 - recipe.centres.share])
        recipe.centres.release(counter, growth.first, growth.n_open, share, gate, purpose)
    if recipe.narrow is not None:
        share, rest = divide(amount, [recipe.narrow.share, 1 - recipe.narrow.share])
        candidates = recipe.narrow.narrow(candidates, counter, growth.first, share, gate, purpose)
        amount = rest if gate.ledger.n_charges > n_before else amount
    n_before, distinct = gate.ledger.n_charges, recipe.distinct_roots and level == 0
    parts = (counter, growth.first, gate, purpose, recipe.criterion, recipe.select, distinct)
    chosen = choose(recipe.choose or Joint(), Level(candidates, *parts), amount)
    return candidates, chosen, amount if gate.ledger.n_charges == n_before else 0.0


def _with_leaves(forest: Forest, counter: Counter, recipe: Recipe, amount: float, gate: Gate) -> Forest:
    """The forest with the counts that its leaves release for ``amount``, and the factors of the noise in them."""
    if (noise := recipe.leaf.noise(counter.target)) is not None:
        forest = replace(forest, noise=np.tile(noise, (recipe.n_trees, 1)))
    leaves = np.flatnonzero(forest.is_leaf)
    if recipe.leaf.residuals:
        sums, most = counter.sum_residuals(0, forest.n_nodes), MOST_WEIGHT
    else:
        sums, most = counter.count_nodes(0, forest.n_nodes), counter.most_per_node
    statistics = sums.map(lambda sums: sums[leaves])
    counts, variance = recipe.leaf.release(statistics, amount, gate, counter.target, Purpose(LEAVES), most)
    return forest.with_counts(leaves, counts, variance)
