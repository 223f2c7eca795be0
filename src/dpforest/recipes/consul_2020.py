"""DiPriMe: median trees, after Consul and Williamson (2020).

Paper: trees on disjoint parts (``part=True``) or on all records; at each node the median of each of K features by the
exponential mechanism, then the feature with the least squared error; rho of the budget to splits, the rest to noisy
counts or means (Algorithms 1 to 3).
Kept: parts, balance, squared error (Gini for classes), K, rho, mean of the trees.
Departs: one choice among all cuts of K features that weighs balance and quality alike, instead of K medians charged once; a
public grid instead of a draw between data points; two-bin means instead of noise scaled by the leaf's size; records
dealt by a draw each (docs/review.md, §2.2, §2.3, §2.7, §2.8).
"""

from dpforest.allocation import Uniform
from dpforest.criteria import Balance, GiniCount, Mixture, SquaredError
from dpforest.domain import Grid
from dpforest.leaves import NoisyCounts, TwoBinMean
from dpforest.postprocess import NonNegative
from dpforest.proposals import Menu, OneAgainstRest, RandomSubsets, Thresholds
from dpforest.recipe import ByTarget, Recipe
from dpforest.sampling import Disjoint, EveryRecord
from dpforest.voting import MeanOfShares

RECIPE = Recipe(
    name="consul-2020",
    title="DiPriMe: balanced splits, on disjoint parts or all records",
    paper="Consul and Williamson, 2020",
    sample=Disjoint(),
    grid=Grid(bins=32),
    propose=Menu((Thresholds(), OneAgainstRest(), RandomSubsets(2)), n_features=5),
    criterion=ByTarget(
        classes=Mixture(((GiniCount(), 1), (Balance(), 1))), bounded=Mixture(((SquaredError(), 1), (Balance(), 1)))
    ),
    allocate=Uniform(split_share=0.5),
    leaf=ByTarget(classes=NoisyCounts(), bounded=TwoBinMean()),
    refine=(NonNegative(),),
    vote=MeanOfShares(),
    n_trees=10,
    depth=5,
    tasks=("classification", "regression"),
    parameters={
        "part": ("sample", {True: Disjoint(), False: EveryRecord()}),
        "rho": "allocate.split_share",
        "k": "propose.n_features",
    },
    has_published_variant=True,
    claim="fails: a median drawn between data points, K medians charged once, means scaled by the leaf's size",
)
