"""A linear score that ranks records of the commonest of several classes first. Sees sealed sums."""

import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.growing.linear import (
    LARGEST,
    Direction,
    add_by_code,
    class_weights,
    direction_of,
    linear_maps,
    look_at,
    marginal_trees,
    n_full,
)
from dpforest.growing.sequential import Phase, Run, Sequential, Step
from dpforest.parts.recipe import Recipe
from dpforest.records.base import AllTrees
from dpforest.schema import Classes, Target

USUAL, MOST = 0.3, 1.0  # log-odds for the score of a usual record, and for the largest


@dataclass(frozen=True)
class Order(Step):
    """One look at all features, for several classes, at how the commonest differs from the rest.

    A small tree holds many records alike. The score orders these, and is too small to outvote a leaf that is sure.

    Privacy:
        Claim: costs ``amount``.
        Because: which class is the commonest follows from the first tree, which is released. It and the rest are two
            classes, of which a record has one, so the look is a look of ``Linear``.
        Assumes: as ``Linear``; a tree comes before it.
    """

    share: float
    n_trees: int = field(default=0, init=False)  # beside one for each feature that has a map

    def check(self, recipe: Recipe) -> None:
        """Raise unless a tree comes first."""
        if not (isinstance(recipe.stages, Sequential) and isinstance(recipe.stages.phases[0], Phase)):
            raise ParameterError(f"Order of recipe {recipe.name!r} needs a sequence that starts with a tree.")

    def accepts(self, target: Target) -> bool:
        return isinstance(target, Classes) and target.n_values > 2

    def train(self, run: Run, amount: float) -> float:
        domain, target = run.counter.domain, run.counter.target
        maps = linear_maps(domain, run.recipe.grid, categories=True)
        if not maps:
            return amount
        commonest, odds = _commonest(run.trees[0])
        run.counter.deal(AllTrees(1), run.gate.entropy)
        counts = run.counter.count_codes(0, np.ones((1, domain.n_features), dtype=bool))
        weights, pair = class_weights(odds), counts.map(partial(_against_the_rest, commonest))
        look = look_at(run, pair, weights, maps, amount, "order")
        direction = direction_of(maps, *look, n_full(run.facts.n_rows, weights, odds))
        none = np.zeros((1, target.n_values), dtype=np.int32)
        steps = _steps(direction, commonest, target.n_values)
        trees = marginal_trees(domain, target, direction.features, steps, none, direction.noise)
        votes, n_roots = np.rint(SCORE_STEPS * trees.votes).astype(np.int32), trees.n_trees
        ends = np.cumsum(domain.n_codes[direction.features])
        add_by_code(run, direction.features, np.split(votes[n_roots:], ends[:-1]), votes[n_roots - 1 : n_roots])
        run.trees.append(trees)
        return 0.0


def _commonest(tree: Forest) -> tuple[int, float]:
    """The commonest class in the leaves of a released tree, and its log-odds."""
    sums = np.maximum(tree.counts[tree.is_leaf], 0).sum(axis=0)
    commonest = int(sums.argmax())
    return commonest, math.log((sums[commonest] + 1) / (sums.sum() - sums[commonest] + 1))


def _against_the_rest(commonest: int, counts: np.ndarray) -> np.ndarray:
    """Histograms ``(1, total_codes, 2)`` of the other classes together and of the commonest."""
    own = counts[:, :, commonest]
    return np.stack([counts.sum(axis=2) - own, own], axis=2)


def _steps(direction: Direction, commonest: int, n_classes: int) -> list[np.ndarray]:
    """What each code of each feature adds to the scores of classes, in whole steps ``(n_codes, n_classes)``."""
    factor = min(USUAL * direction.trust / direction.usual, MOST / LARGEST)
    is_own = np.arange(n_classes) == commonest
    return [np.rint(SCORE_STEPS * factor * values[:, None] * is_own).astype(np.int32) for _, values in direction.values]
