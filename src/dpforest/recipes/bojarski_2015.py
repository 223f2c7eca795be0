"""dpRFMV, dpRFTA and dpRFPA: complete random binary trees, after Bojarski et al. (2015).

Paper: O(log n) complete random binary trees of depth 14 (also 6) on all records, B/t each; every node draws its feature
evenly; two classes; noisy counts in each leaf; majority vote, threshold averaging (the mean share of class 1 is above a
half) or probabilistic averaging (class 1 is drawn by it) [suihkonen2023, §4.2, §4.5.1 and Figure 4.4].
Kept: all of it, for any number of classes; log n is the natural logarithm, rounded.
Departs: log n from a bought or declared number of rows; both class counts get noise, not a count and a total, whose L1
sensitivity is 2; the cut, of which the sources say nothing, is drawn from a public grid; a public cap on nodes, which
17 trees of depth 14 would pass (docs/review.md, §2.17).
"""

from dpforest.allocation import LeavesOnly
from dpforest.criteria import GiniCount
from dpforest.leaves import NoisyCounts
from dpforest.postprocess import NonNegative
from dpforest.proposals import Menu
from dpforest.recipe import Recipe
from dpforest.rules import LogRows
from dpforest.sampling import EveryRecord
from dpforest.voting import Majority, MeanOfShares, ProbabilisticAverage

RECIPE = Recipe(
    name="bojarski-2015",
    title="dpRFMV/TA/PA: complete random binary trees",
    paper="Bojarski, Choromanska, Choromanski and LeCun, 2015",
    sample=EveryRecord(),
    propose=Menu(random=True),
    criterion=GiniCount(),  # never asked: one random candidate leaves nothing to choose
    allocate=LeavesOnly(),
    leaf=NoisyCounts(),
    refine=(NonNegative(),),
    vote=Majority(),
    n_trees=LogRows(),
    depth=14,
    parameters={
        "vote": ("vote", {"majority": Majority(), "threshold": MeanOfShares(), "probabilistic": ProbabilisticAverage()})
    },
    claim="holds if both class counts get noise and the number of trees is public",
)
