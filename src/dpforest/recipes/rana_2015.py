"""A relaxed forest made private, after Rana, Gupta and Venkatesh (2015).

Paper: each tree gets the whole epsilon, which protects variances and not records; a numeric feature is cut half-way between
noisy class means (eq. 4.7 of the thesis), information gain chooses; leaves hold a least share of the rows; eqs. 4.35
and 4.36 bound the number of trees.
Kept: class-mean thresholds, information gain, majority vote, bootstrap. ``dpforest.rules`` has the two bounds.
Departs: the budget is shared among trees, ln(1 + B/T) each; class means are ratios of noisy two-bin sums; depth instead of a
least number of records (docs/review.md, §1, §3.2).
"""

from dpforest.allocation import Uniform
from dpforest.criteria import EntropyCount
from dpforest.growing.class_means import ClassMeans
from dpforest.leaves import NoisyCounts
from dpforest.postprocess import NonNegative
from dpforest.proposals import Menu
from dpforest.recipe import Recipe
from dpforest.sampling import PoissonBootstrap
from dpforest.voting import Majority

RECIPE = Recipe(
    name="rana-2015",
    title="Class-mean thresholds, information gain",
    paper="Rana, Gupta and Venkatesh, ICDM 2015",
    sample=PoissonBootstrap(),
    propose=Menu(n_features=4),
    narrow=ClassMeans(),
    criterion=EntropyCount(),
    allocate=Uniform(),
    leaf=NoisyCounts(),
    refine=(NonNegative(),),
    vote=Majority(),
    n_trees=5,
    depth=4,
    parameters={"k": "propose.n_features", "threshold_share": "narrow.share"},
    claim="not differential privacy by design: losses of trees are not added up",
)
