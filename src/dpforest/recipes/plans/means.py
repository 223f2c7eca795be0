"""Plans of the default recipe for a bounded target: trees in sequence whose means add up."""

import math
from dataclasses import replace

from dpforest.growing.centres import Centres
from dpforest.growing.learned_grid import LearnedGrid
from dpforest.growing.sequential import SequentialMeans
from dpforest.growing.target_range import TargetRange
from dpforest.parts.allocation import Geometric
from dpforest.parts.criteria import SoftAgreement, SquaredError
from dpforest.parts.leaves import Rotated, TwoBinMean
from dpforest.parts.postprocess import LEAST_WEIGHT, Shrinkage
from dpforest.parts.recipe import Recipe
from dpforest.parts.shape import Facts
from dpforest.recipes.plans.classes import WITHOUT_NOISE
from dpforest.recipes.plans.sketch import SKETCH, public_cuts, rows_epsilon

# The number of trees, while rows * epsilon is below the key.
MEAN_TREES = {200_000.0: 1, math.inf: 3}
MEAN_TREES_WITH_DELTA = {5_000.0: 2, 30_000.0: 3, math.inf: 5}
COARSE_GRID = 1_000.0  # rows * epsilon below which fewer cuts are easier to choose from


def sequential_means(facts: Facts, n_trees: int | None) -> Recipe:
    """The recipe for a bounded target: trees in sequence, whose depth and default number follow from rows * epsilon."""
    if math.isinf(facts.epsilon):
        return _boosted_means(facts, n_trees)
    has_delta, product = facts.delta > 0, rows_epsilon(facts)
    planned = next(n for below, n in (MEAN_TREES_WITH_DELTA if has_delta else MEAN_TREES).items() if product < below)
    splits, centres, leaves = (0.5, 0.15, 0.35) if has_delta else (0.5, 0.2, 0.3)
    return replace(
        SKETCH,
        grid=public_cuts(32 if product < COARSE_GRID else 128, facts),
        learned_grid=LearnedGrid(far_only=True),
        criterion=SoftAgreement(),
        centres=Centres(share=centres / (splits + centres)),
        target_range=TargetRange(),
        allocate=Geometric(ratio=1.2, split_share=1 - leaves),
        leaf=Rotated(0.6) if has_delta else TwoBinMean(),
        refine=(Shrinkage(strength=4.0),),
        stages=SequentialMeans(),
        n_trees=n_trees or planned,
        depth=min(max(round(math.log2(max(product, 1)) - 7), 1), 12),
    )


def _boosted_means(facts: Facts, n_trees: int | None) -> Recipe:
    """The recipe for a bounded target without noise: what ordinary boosting does."""
    shape = WITHOUT_NOISE
    return replace(
        SKETCH,
        grid=public_cuts(shape.bins, facts),
        learned_grid=LearnedGrid(),
        criterion=SquaredError(),
        target_range=TargetRange(),
        leaf=TwoBinMean(),
        refine=(Shrinkage(strength=0.0, least=LEAST_WEIGHT),),
        stages=SequentialMeans(half_width=1.0, rate=shape.rate),
        n_trees=n_trees or shape.n_trees,
        depth=shape.depth,
    )
