"""The planner of the default recipe: public facts in, a complete recipe out.

One tree, found by experiment to be the best shape at small rows * epsilon, and its depth and criterion follow from that
product alone.
"""

import math
from dataclasses import replace

from dpforest.allocation import Geometric, Uniform
from dpforest.criteria import Balance, GiniCount, MaxOperator, Mixture, SquaredError
from dpforest.domain import Grid
from dpforest.leaves import NoisyCounts, TwoBinMean
from dpforest.postprocess import Shrinkage
from dpforest.proposals import Menu
from dpforest.recipe import Recipe
from dpforest.rules import Facts
from dpforest.sampling import EveryRecord
from dpforest.voting import MeanOfShares

# rows * epsilon beyond this changes nothing; also stands for an infinite epsilon.
MOST_SIGNAL = 2.0**30
# Parts of lambda: weights in a mixture are whole numbers.
LAMBDA_PARTS = 16


def plan_one_tree(facts: Facts) -> Recipe:
    """The recipe of one tree for these facts."""
    signal = math.log2(min(max(facts.n_rows, 1) * facts.epsilon, MOST_SIGNAL)) if facts.n_rows > 0 else 0.0
    return _regression(signal) if facts.n_classes is None else _classification(signal, facts.n_classes)


def _classification(signal: float, n_classes: int) -> Recipe:
    """Gini once there is much signal, the max operator while there is little: lambda from 4 down to 0.3."""
    weight = min(max(4 - 0.4 * (signal - 6), 0.3), 4)
    return replace(
        SKETCH,
        grid=Grid(bins=16 if n_classes == 2 else 32, geometric=True),
        criterion=Mixture(((GiniCount(), LAMBDA_PARTS), (MaxOperator(), round(LAMBDA_PARTS * weight)))),
        depth=min(max(round((signal - 2) / 2), 1), 8),
        planner=None,
    )


def _regression(signal: float) -> Recipe:
    return replace(
        SKETCH,
        grid=Grid(bins=128),
        criterion=Mixture(((SquaredError(), LAMBDA_PARTS), (Balance(), 1))),
        allocate=Geometric(ratio=1.2, split_share=0.5),
        leaf=TwoBinMean(),
        depth=min(max(round(signal - 7), 1), 12),
        planner=None,
    )


SKETCH = Recipe(
    name="auto",
    title="One tree, its depth and criterion planned from rows * epsilon",
    paper="the library's own",
    sample=EveryRecord(),
    propose=Menu(),
    criterion=GiniCount(),
    allocate=Uniform(split_share=0.5),
    leaf=NoisyCounts(),
    refine=(Shrinkage(strength=2.0),),
    vote=MeanOfShares(),
    tasks=("classification", "regression"),
    planner=plan_one_tree,
    claim="proved",
)
