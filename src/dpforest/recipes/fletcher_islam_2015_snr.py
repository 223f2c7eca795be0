"""Random trees by signal-to-noise ratio, after Fletcher and Islam (2015, reference [14] of the thesis).

Paper: random multiway trees on all records; the number of trees is the largest t <= m with sqrt(2) C t/B < n/d**2 (eq.
4.38); a node stops when its estimated support falls below sqrt(2) C t/B; one noisy count for each leaf; nodes with a
signal-to-noise ratio below 1 are pruned (eq. 4.40); the most confident node of a path predicts.
Kept: all of that.
Departs: the number of rows is bought with 2 % of the budget or declared; children of a node are pruned together; class
shares of the most confident nodes are averaged over trees (docs/review.md, §2.17).
"""

from dpforest.allocation import LeavesOnly
from dpforest.criteria import GiniCount
from dpforest.domain import Grid
from dpforest.growing.stopping import EstimatedSupport
from dpforest.leaves import NoisyCounts
from dpforest.postprocess import NonNegative, PruneBySignal
from dpforest.proposals import Menu, OneChildPerValue
from dpforest.recipe import Recipe
from dpforest.rules import SupportedTrees
from dpforest.sampling import EveryRecord
from dpforest.voting import MostConfidentNode

RECIPE = Recipe(
    name="fletcher-islam-2015-snr",
    title="Random multiway trees, pruned by signal-to-noise",
    paper="Fletcher and Islam, 2015 [thesis, reference 14]",
    sample=EveryRecord(),
    grid=Grid(bins=5),
    propose=Menu((OneChildPerValue(),), random=True),
    criterion=GiniCount(),  # never asked: one random candidate leaves nothing to choose
    allocate=LeavesOnly(),
    leaf=NoisyCounts(),
    stop=EstimatedSupport(),
    refine=(PruneBySignal(), NonNegative()),
    vote=MostConfidentNode(),
    n_trees=SupportedTrees(),
    depth=8,
    parameters={
        "least_snr": ("refine", {1.0: (PruneBySignal(1.0), NonNegative()), 2.0: (PruneBySignal(2.0), NonNegative())})
    },
    claim="holds if the number of rows is public",
)
