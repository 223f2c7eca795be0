"""DP-ERT: extremely random trees, the baseline of Consul and Williamson (2020).

Paper: "a privatized version of the Extremely Randomized Trees algorithm": splits drawn without looking at records, all of
the budget to noisy counts or means, on disjoint parts or on all records at epsilon/N_T.
Kept: all of it. A feature that can still be split is drawn, then one of its cuts, or a subset of its categories. Trees are
averaged, of which the paper says nothing.
Departs: 32 public bins instead of any threshold of the range; unlisted and missing values, unknown to the paper, are drawn
to a side too, so that a subset of a short list may divide nothing else; two-bin means instead of noise scaled by the
leaf's size, noise in whole numbers, records dealt by a draw each (docs/review.md, §2.2, §2.8, §2.18).
"""

from dataclasses import replace

from dpforest import parts
from dpforest.recipes.papers.consul_2020 import RECIPE as MEDIANS

RECIPE = replace(
    MEDIANS,
    name="consul-2020-ert",
    title="DP-ERT: random splits, budget in the leaves",
    choose=None,
    propose=parts.Menu((parts.Thresholds(), parts.RandomSubsets(1)), random=True),
    allocate=parts.LeavesOnly(),
    parameters={"part": ("sample", {True: parts.Disjoint(), False: parts.EveryRecord()})},
    claim="holds for classification with public bounds; fails for regression: means scaled by the leaf's size",
)
