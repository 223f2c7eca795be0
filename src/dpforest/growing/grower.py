"""The level loop, all trees at once. Sees sealed counts and public trees; never rows."""

from collections.abc import Callable
from functools import partial

import numpy as np

from dpforest.allocation import Plan
from dpforest.criteria import children_of
from dpforest.growing.growth import Growth
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.proposals import Candidates
from dpforest.recipe import Recipe
from dpforest.records.base import Counter
from dpforest.tree import Forest

# Cells of sealed statistics held at once: 256 MB of 64-bit counts.
BLOCK_CELLS = 1 << 25


def grow(
    shards: Counter,
    recipe: Recipe,
    plan: Plan,
    gate: Gate,
    n_trees: int,
    progress: Callable[[str], None] = lambda step: None,
) -> Forest:
    """Trees of ``plan.depth`` levels with released leaves.

    Privacy:
        Claim: one tree costs at most the sum of its plan.
        Because: given the released splits above, the node of a record is a function of that record alone, so an added
            record changes the counts of one node of a level: all choices of a level cost its amount once
            (parallel composition), and levels and leaves add up (adaptive sequential composition). A node that
            offers one candidate or none asks nothing. No stop looks at a sealed value.
        Assumes: add/remove neighbours; how trees add up is proved in ``sampling``.
    """
    domain, rng = shards.domain, gate.entropy.generator()
    growth, fixed = Growth(domain, n_trees), recipe.propose.fixed(domain)
    inner = []
    for level in range(plan.depth):
        if plan.counts[level] > 0:
            statistics = shards.count_nodes(growth.first, growth.n_open)
            nodes = np.arange(growth.first, growth.first + growth.n_open)
            label = f"counts of level {level}"
            inner.append((nodes, *recipe.leaf.release(statistics, plan.counts[level], gate, shards.target, label)))
        candidates = recipe.propose.propose(domain, fixed, growth.reach, rng)
        chosen = _choose(shards, recipe, growth.first, candidates, plan.splits[level], gate, f"splits of level {level}")
        first = growth.first
        shards.descend(first, *growth.split(candidates, chosen))
        progress(f"level {level + 1} of {plan.depth}")
        if not growth.n_open:
            break
    forest = growth.finish(shards.target)
    for nodes, counts, variance in inner:
        forest = forest.with_counts(nodes, counts, variance)
    leaves = np.flatnonzero(forest.is_leaf)
    statistics = shards.count_nodes(0, forest.n_nodes).map(lambda counts: counts[leaves])
    counts, variance = recipe.leaf.release(statistics, plan.leaves, gate, shards.target, "leaves")
    progress("leaves")
    return forest.with_counts(leaves, counts, variance)


def _choose(
    shards: Counter, recipe: Recipe, first: int, candidates: Candidates, amount: float, gate: Gate, label: str
) -> np.ndarray:
    """The chosen candidate of each open node; -1 where none divides it."""
    if candidates.n_candidates == 1 or not candidates.valid.any():
        return np.where(candidates.valid.any(axis=1), 0, -1)
    target, domain = shards.target, shards.domain
    per_node = target.width * (domain.total_codes + candidates.n_candidates * candidates.routes.most_children)
    n_block = max(1, BLOCK_CELLS // per_node)
    scores = []
    for start in range(0, len(candidates.places), n_block):
        block = candidates.block(start, start + n_block)
        counts = shards.count_codes(first + start, block.wanted(domain.n_features))
        scores.append(counts.map(partial(_score, recipe, block, domain.offsets, target)))
    return gate.select(Sealed.concatenate(scores), candidates.valid, recipe.criterion.bound(), amount, label, recipe.select)


def _score(recipe, block, offsets, target, counts):
    return recipe.criterion.score(children_of(counts, block, offsets), target)
