"""Random trees by signal-to-noise ratio, after Fletcher and Islam (2015, reference [14] of the thesis).

Paper: numbers are cut into 5 bins of equal width (§4.3.1 of the thesis); B/t for each tree (§4.4.1); t is the largest number
<= m for which theta = sqrt(2) C t/B < n/d**2, d the mean number of values, so that trees have a depth of 3 (eq. 4.38);
random trees, a child for each value, a feature once on a path; rows are taken to divide evenly, and growth stops where a
node would hold theta or less (§4.5.3); noisy class counts of each leaf, those above are sums; nodes with a signal-to-noise
ratio below 1 are pruned (eq. 4.40); the most confident node of a path predicts, and the class of highest confidence wins
(§4.5.2).
Kept: all of that but the last step; no other limit of depth. Readings: trees on all records, as B/t says; a node is split if
children of a feature with the mean number of values would hold more than theta, so that eq. 4.38 gives three layers (asked
of the node itself, it would give three levels of splits); the square root of eq. 4.40 covers the number of leaves, as in
eq. 4.39 (see ``PruneBySignal``); a pruned node takes with it what is below it, its parent then speaks.
Departs: the number of rows is bought with 2 % of the budget or declared (docs/review.md, §2.17); there is one tree even if
eq. 4.38 allows none; class shares of the most confident nodes, counts below 0 taken as 0, are averaged over trees, for a
forest adds up votes; values outside of the lists and missing ones have children of their own, which are expected to hold
nothing and not split; a public cap on nodes; geometric noise on integers (§2.18).
"""

from dataclasses import replace

from dpforest import parts
from dpforest.recipes.papers.jagannathan_2009 import RECIPE as RANDOM_TREES
from dpforest.schema.grid import Grid

RECIPE = replace(
    RANDOM_TREES,
    name="fletcher-islam-2015-snr",
    title="Random multiway trees, pruned by signal-to-noise",
    paper="Fletcher and Islam, 2015 [thesis, reference 14]",
    grid=Grid(bins=5),
    propose=parts.Menu((parts.OneChildPerValue(),), random=True),
    stop=parts.EstimatedSupport(),
    refine=(parts.PruneBySignal(),),
    vote=parts.MostConfidentNode(),
    n_trees=parts.SupportedTrees(),
    depth=parts.AllFeatures(),
    parameters={"least_snr": "refine.0.least", "bins": "grid.bins"},
    claim="holds if the number of rows is public",
)
