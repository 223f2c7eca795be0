"""A relaxed forest made private, after Rana, Gupta and Venkatesh (2015).

Paper: trees for two classes on bootstraps, each with the whole epsilon, which protects variances and not records: eqs. 4.35
and 4.36 of the thesis bound the number of trees for which it does. Information gain chooses; a numeric feature that is
chosen is cut half-way between the noisy means of its classes (eq. 4.7). There is no depth: a node is not split if a child
would hold fewer records than a least leaf size, a small fraction of all.
Kept: bootstrap, information gain, cuts between noisy class means; the least leaf size, as a share ``least_leaf`` of the
records (1 %; the thesis gives no value). ``parts.shape`` has the two bounds. Readings, where the thesis is silent: noisy
class counts in leaves, majority vote, and 4 features for a node, about the root of the 15 of the paper's credit table, for
eq. 4.35 counts a feature in one of sqrt(M) trees.
Departs: the budget is shared among trees, and the bounds say nothing about it (5 trees); a record comes k ~ Poisson(1)
times, so a tree has ln(1 + B/T). Class means are ratios of noisy two-bin sums, on a public grid; their middle is taken over
all classes with a sum above 0; and every numeric feature that a node may use offers its cut before one is chosen, for half
of the level's budget (``threshold_share``). Splits are undone by the released counts of their children, after all leaves are
counted: how many records a child would hold is not known before, and the counts of leaves have less noise than the sums
behind class means. So depth bounds the trees too (4). For shares counts below 0 are taken as 0, and a leaf with none above 0
says what its parent says (docs/review.md, §1, §2.9, §2.11).
"""

from dpforest.growing.class_means import ClassMeans
from dpforest.parts.allocation import Uniform
from dpforest.parts.criteria import EntropyCount
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.postprocess import LeastLeaf, NonNegative
from dpforest.parts.proposals import Menu
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import PoissonBootstrap
from dpforest.parts.voting import Majority

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
    refine=(LeastLeaf(), NonNegative()),
    vote=Majority(),
    n_trees=5,
    depth=4,
    parameters={"k": "propose.n_features", "threshold_share": "narrow.share", "least_leaf": "refine.0.share"},
    claim="not differential privacy by design: losses of trees are not added up",
)
