"""dpRFMV, dpRFTA and dpRFPA: complete random binary trees, after Bojarski et al. (2015).

Paper: O(log n) complete random binary trees of depth 14 (also 6), B/t each; every node draws its feature evenly; two
classes; Laplace noise on the statistics of leaves; majority vote, threshold averaging (class 1 if its mean share is above a
half) or probabilistic averaging (class 1 is drawn by it) [suihkonen2023, §4.2, §4.4.1, §4.5.1 and Figure 4.4].
Kept: all of it, for any number of classes. Its theorems, which bound errors by the number of trees, are not in the thesis.
Readings: log n is the natural logarithm, rounded; trees on all records, as B/t says; the statistics of a leaf are its class
counts (a count and a total would have an L1 sensitivity of 2); a number is cut at random on a public grid, a category is
split from the rest, and so is what is missing or not listed.
Departs: log n of a declared or noisy number of rows (docs/review.md, §2.17); a node draws among the features that can
still divide it, and is a leaf if none can; for shares counts below 0 are taken as 0, and a leaf with none above 0 says what
its parent says; a public cap on nodes, which 17 trees of depth 14 would pass; geometric noise on integers (§2.18).
"""

from dataclasses import replace

from dpforest import parts
from dpforest.recipes.papers.jagannathan_2009 import RECIPE as RANDOM_TREES

RECIPE = replace(
    RANDOM_TREES,
    name="bojarski-2015",
    title="dpRFMV/TA/PA: complete random binary trees",
    paper="Bojarski, Choromanska, Choromanski and LeCun, 2015",
    propose=parts.Menu(random=True),
    vote=parts.Majority(),
    n_trees=parts.LogRows(),
    depth=14,
    parameters={
        "vote": (
            "vote",
            {"majority": parts.Majority(), "threshold": parts.MeanOfShares(), "probabilistic": parts.ProbabilisticAverage()},
        )
    },
    claim="holds if both class counts get noise and the number of trees is public",
)
