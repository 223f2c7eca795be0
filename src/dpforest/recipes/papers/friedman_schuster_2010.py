"""DiffPID3: one greedy tree, after Friedman and Schuster (2010).

Paper: one tree; at each node a noisy size and an exponential-mechanism choice of the attribute by the Gini index with its
global sensitivity, each at B/(2 delta); no stop at nodes of one class; little can be pruned, as only leaves have class
counts [fletcher2015, §4]; binary splits by entropy [consul2020, §2.2]. The authors' own paper also stops where a cell, of
the attribute with most values, would hold less than the noise; it has the other criteria, and pays for cuts of numbers.
Kept: one tree, the three criteria (``criterion``), a child for each category, binary splits of numbers, leaves at level
delta, stop and pruning on released counts.
Departs: the max operator unless told otherwise; the stop takes the mean number of children (two of a number), since one long
list would keep all others from being split; weights exp(epsilon u / w) with the monotone width w (Gini count 2, max 1)
instead of exp(epsilon u / 2w), by permute-and-flip; class counts instead of sizes, which costs the same and lets every
node be pruned; B/(2 delta - 1), as leaves then need no second query; numbers by public cuts, which cost nothing
(docs/review.md, §2.1). Noise in whole numbers (§2.18). A node that stops early is asked once more as a leaf. In pruning and
in the vote a count below 0 is 0. Values outside of the lists and missing ones have children of their own.
"""

from dpforest import parts

RECIPE = parts.Recipe(
    name="friedman-schuster-2010",
    title="DiffPID3: one greedy multiway tree",
    paper="Friedman and Schuster, KDD 2010",
    sample=parts.EveryRecord(),
    propose=parts.Menu((parts.OneChildPerValue(numeric=False), parts.Thresholds())),
    criterion=parts.MaxOperator(),
    allocate=parts.EveryQuery(),
    leaf=parts.NoisyCounts(),
    stop=parts.AboveNoise(),
    refine=(parts.PruneByGini(), parts.NonNegative()),
    vote=parts.Majority(),
    depth=4,
    parameters={
        "criterion": ("criterion", {"gini": parts.GiniCount(), "max": parts.MaxOperator(), "entropy": parts.EntropyCount()})
    },
    has_published_variant=True,
    claim="holds",
)
