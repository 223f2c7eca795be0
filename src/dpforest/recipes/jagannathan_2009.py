"""Private-RDT: random decision trees with noisy leaves, after Jagannathan, Pillaipakkamnatt and Wright (2009).

Paper: ten random trees on all records (five will do), one child for each value, a feature once on a path, depth m/2, B/t for
each tree; class counts of leaves with Laplace(t/B) noise; the prediction is the mean of the class shares
[suihkonen2023, §4.2, §4.4.1 and §4.5.1].
Kept: all of it; the claim holds.
Departs: category lists come from the schema, and values outside of them and missing ones have children of their own;
numbers, which the paper does not have, are split at a random public cut, more than once on a path; m/2 is rounded
up; a public cap on nodes; geometric noise on integers.
"""

from dpforest.allocation import LeavesOnly
from dpforest.criteria import GiniCount
from dpforest.leaves import NoisyCounts
from dpforest.postprocess import NonNegative
from dpforest.proposals import Menu, OneChildPerValue, Thresholds
from dpforest.recipe import Recipe
from dpforest.rules import HalfTheFeatures
from dpforest.sampling import EveryRecord
from dpforest.voting import MeanOfShares

RECIPE = Recipe(
    name="jagannathan-2009",
    title="Private-RDT: random multiway trees, budget in the leaves",
    paper="Jagannathan, Pillaipakkamnatt and Wright, ICDM workshops 2009",
    sample=EveryRecord(),
    propose=Menu((OneChildPerValue(numeric=False), Thresholds()), random=True),
    criterion=GiniCount(),  # never asked: one random candidate leaves nothing to choose
    allocate=LeavesOnly(),
    leaf=NoisyCounts(),
    refine=(NonNegative(),),
    vote=MeanOfShares(),
    n_trees=10,
    depth=HalfTheFeatures(),
    claim="holds",
)
