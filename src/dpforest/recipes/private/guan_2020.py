"""DPGDF: greedy trees on disjoint parts, selectively aggregated, after Guan et al. (2020).

Paper: 50 trees of depth m/2 on samples without replacement, so that each has the whole budget; numeric values are sorted
and averaged by fives; half of the budget is divided evenly among the inner layers, whose attributes and cuts the
exponential mechanism chooses by the Gini index, half goes to the counts of leaves, spread over layers (eqs. 4.33 and 4.34
of the thesis). Selective aggregation: trees are split into random subsets; of each, t - 1 rounds drop the tree without
which the rest errs least, and the best ensemble of the rounds stays (Algorithm 4.2); what is left is combined, and this
is repeated until a criterion is met.
Kept: disjoint parts, Gini, half and half (``split_share``), 50 trees, depth m/2, random subsets, all rounds of Algorithm
4.2 (``n_rounds`` asks for fewer) and its last choice, noisy leaf counts, majority vote.
Departs: records are dealt by a draw each; binary splits at public cuts; a record is in one leaf, so every leaf gets all of
the leaf half (eq. 4.34 as printed sums to 1.59 of it); errors are those on held-out records, and each round is a private
choice; choices by permute-and-flip; a public cap on nodes; one pass over the subsets, since each costs as much as the
first and no criterion is given. The thesis gives no size of the subsets (here 10), no test records (a fifth is held out)
and no number of features at a node (half of them, ``k``) (docs/review.md, §2.8, §2.11, §2.12, §2.16).
"""

from dpforest.growing.selective import SelectiveAggregation
from dpforest.parts.allocation import Uniform
from dpforest.parts.criteria import GiniCount
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.postprocess import NonNegative
from dpforest.parts.proposals import Menu
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import Disjoint
from dpforest.parts.shape import HalfTheFeatures
from dpforest.parts.voting import Majority

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
    parameters={
        "split_share": "allocate.split_share",
        "k": "propose.n_features",
        "held_out": "stages.held_out",
        "n_rounds": "stages.n_rounds",
        "subset_size": "stages.subset_size",
    },
    claim="fails: averages of neighbouring records, exact aggregation, layers that sum to 1.59",
)
