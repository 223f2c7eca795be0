"""DiffPID3: one greedy tree, after Friedman and Schuster (2010).

Paper: one tree; at each node a noisy size and an exponential-mechanism choice of the attribute by the Gini index with its
global sensitivity, each at B/(2 delta); no stop at nodes of one class; little can be pruned, as only leaves have class
counts [fletcher2015, §4]. The authors' own paper also stops where a cell would hold less than the noise and has the other
criteria.
Kept: one tree, multiway splits, the three criteria, stop and pruning on released counts. The stop counts as values the
children of a split: those of a category, two of a number.
Departs: weights exp(epsilon u / w) with the monotone width w (Gini 2, max 1) instead of exp(epsilon u / 2w); class counts
instead of sizes, which costs the same and lets every node be pruned; numeric features by public cuts; B/(2 delta - 1), as
leaves then need no second query; leaves at level delta (docs/review.md, §2.1).
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
    has_published_variant=True,
    claim="holds, but not with the level more that the paper on DPDF runs",
)
