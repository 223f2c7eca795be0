"""DPGDF: greedy trees on disjoint parts, selectively aggregated, after Guan et al. (2020).

Paper: 50 trees on samples without replacement; numeric values averaged by fives; half of the budget to splits, half to
leaves, spread over layers (eq. 4.34 of the thesis); trees that do not help are dropped (Algorithm 4.2).
Kept: disjoint parts, Gini, half and half, depth m/2, aggregation, majority vote.
Departs: records are dealt by a draw each; public cuts; a record is in one leaf, so every leaf gets all of the leaf half
(eq. 4.34 as printed sums to 1.59 of it); aggregation by private choices on held-out records
(docs/review.md, §2.8, §2.11, §2.12, §2.16).
"""

from dpforest.allocation import Uniform
from dpforest.criteria import GiniCount
from dpforest.growing.selective import SelectiveAggregation
from dpforest.leaves import NoisyCounts
from dpforest.postprocess import NonNegative
from dpforest.proposals import Menu
from dpforest.recipe import Recipe
from dpforest.rules import HalfTheFeatures
from dpforest.sampling import Disjoint
from dpforest.voting import Majority

RECIPE = Recipe(
    name="guan-2020",
    title="DPGDF: greedy trees on disjoint parts, selectively aggregated",
    paper="Guan et al., 2020",
    sample=Disjoint(),
    propose=Menu(n_features=0.5),
    criterion=GiniCount(),
    allocate=Uniform(split_share=0.5),
    leaf=NoisyCounts(),
    refine=(NonNegative(),),
    vote=Majority(),
    stages=SelectiveAggregation(),
    n_trees=50,
    depth=HalfTheFeatures(),
    parameters={"held_out": "stages.held_out", "n_rounds": "stages.n_rounds"},
    claim="fails: averages of neighbouring records, exact aggregation, layers that sum to 1.59",
)
