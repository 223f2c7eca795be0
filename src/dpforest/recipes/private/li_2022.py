"""Out-of-bag weights, after Li, Qin, Luo and Zheng (2022).

Paper: Algorithm 1 grows t trees on bootstraps, each node by the best of a random features; about a third of the records
are out of a tree's bag. Algorithm 2 tests each tree on these: the noisy mean over classes of its error rates (eq. 4) gives
its weight (eq. 5), decreases of the Gini index, summed over nodes and weighted by trees, those of the features (eqs. 6 to
9), which are sorted into best, pruned and removable (eqs. 11 and 12). Algorithm 3 grows T trees on new bootstraps: a tree
draws b features that were not removed, leaves out those that are pruned, gets a budget by its weight (eqs. 10 and 13) and
splits on the others in the order of their weight, with budgets by weight (eqs. 14 and 15); the exponential mechanism cuts
numbers, the Laplace mechanism protects the counts of leaves, and the trees vote. T = 50, depth 5, five features.
Kept: both stages on (Poisson) bootstraps, ln(1 + e) inside for e outside; noise on all class counts of the test, e/t a tree,
by a third of the records; eqs. 4 to 12, 14 and 15 on released counts; a = b = k; the order of features; binary splits, as
eq. 7 has them; majority vote.
Departs: the first forest is private too, on ``first_share`` of the budget, has 10 trees (the paper does not say how many)
and draws features at each node (step 1 says for each tree, the input at splitting). The records that test are held out by a
coin each and train no tree: those out of one bag are in another, so their losses would add up. Tree shares sum to the budget
(eq. 13 spends 1/T of it). Leaves have half of a tree's (``leaf_share``), levels the rest, also what features beyond the
depth would have: section 4.1 names 1/(d + 1) of a feature's budget for the nodes of its level, and leaves have no feature.
Discrete features are split by private choices too, all among public cuts and values, by permute-and-flip for the least Gini
index times size (step 9 asks for the largest index). Nodes do not stop when they are pure. Noise may not make an error or a
weight negative: an error is at least that of one record, a weight a hundredth of the largest; and a tree whose features are
all pruned, or which finds fewer than b, takes what there is (docs/review.md, §2.4, §2.5, §2.6, §2.9, §2.11, §3).
"""

from dpforest.growing.out_of_bag import OutOfBag
from dpforest.parts.allocation import Uniform
from dpforest.parts.criteria import GiniCount
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.postprocess import NonNegative
from dpforest.parts.proposals import Menu, OneAgainstRest, Thresholds
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import PoissonBootstrap
from dpforest.parts.voting import Majority

RECIPE = Recipe(
    name="li-2022",
    title="Out-of-bag weights: features in order of importance",
    paper="Li, Qin, Luo and Zheng, Mathematics 2022",
    sample=PoissonBootstrap(),
    propose=Menu((Thresholds(), OneAgainstRest()), n_features=5),
    criterion=GiniCount(),
    allocate=Uniform(),
    leaf=NoisyCounts(),
    refine=(NonNegative(),),
    vote=Majority(),
    stages=OutOfBag(),
    n_trees=50,
    depth=5,
    parameters={
        "eps_oob": "stages.held_out_budget",
        "k": "stages.n_features",
        "n_first": "stages.n_first",
        "first_share": "stages.first_share",
        "held_out": "stages.held_out",
        "leaf_share": "stages.leaf_share",
    },
    has_published_variant=True,
    claim="fails: weights from a forest that is not private, false parallel composition",
)
