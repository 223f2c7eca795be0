"""DiffPID3: one greedy tree, after Friedman and Schuster (2010).

Paper: at each node a noisy count and an exponential-mechanism choice of the attribute, each at B/(2d); stop where noise
outweighs the counts; prune on noisy counts [fletcher2015, §4].
Kept: one tree, multiway splits, the three criteria, stop and pruning on released counts.
Departs: weights exp(epsilon u / w) with the monotone width w (Gini 2, max 1) instead of exp(epsilon u / 2w); class
counts instead of sizes, which costs the same; numeric features by public cuts; the unused last query is spent.
"""

from dpforest.allocation import EveryQuery
from dpforest.criteria import EntropyCount, GiniCount, MaxOperator
from dpforest.growing.stopping import AboveNoise
from dpforest.leaves import NoisyCounts
from dpforest.postprocess import NonNegative, PruneByGini
from dpforest.proposals import Menu, OneChildPerValue, Thresholds
from dpforest.recipe import Recipe
from dpforest.sampling import EveryRecord
from dpforest.voting import Majority

RECIPE = Recipe(
    name="friedman-schuster-2010",
    title="DiffPID3: one greedy multiway tree",
    paper="Friedman and Schuster, KDD 2010",
    sample=EveryRecord(),
    propose=Menu((OneChildPerValue(numeric=False), Thresholds())),
    criterion=MaxOperator(),
    allocate=EveryQuery(),
    leaf=NoisyCounts(),
    stop=AboveNoise(),
    refine=(PruneByGini(), NonNegative()),
    vote=Majority(),
    depth=4,
    parameters={"criterion": ("criterion", {"gini": GiniCount(), "max": MaxOperator(), "entropy": EntropyCount()})},
    claim="holds",
)
