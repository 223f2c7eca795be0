"""DP-ERT: extremely random trees, the baseline of Consul and Williamson (2020).

Paper: random splits; all of the budget to noisy counts or means; on disjoint parts or all records.
Kept: all of it.
Departs: thresholds from public bounds; two-bin means instead of noise scaled by the leaf's size (docs/review.md, §2.2).
"""

from dataclasses import replace

from dpforest.allocation import LeavesOnly
from dpforest.proposals import Menu, RandomSubsets, Thresholds
from dpforest.recipes.consul_2020 import RECIPE as MEDIANS
from dpforest.sampling import Disjoint, EveryRecord

RECIPE = replace(
    MEDIANS,
    name="consul-2020-ert",
    title="DP-ERT: random splits, budget in the leaves",
    propose=Menu((Thresholds(), RandomSubsets(1)), random=True),
    allocate=LeavesOnly(),
    parameters={"part": ("sample", {True: Disjoint(), False: EveryRecord()})},
    claim="holds for classification with public bounds; fails for regression: means scaled by the leaf's size",
)
