"""DPDF: a forest with distinct roots, after Fletcher and Islam (AusDM 2015).

Paper: tau trees on all records, class counts at every node and a choice of the attribute, each at beta/(tau (2 delta - 1))
(eqs. 9 and 10); a child for each value, a feature once on a path; a root attribute is used once; stop at noisy size
< 100 or a noisy pure node; prune by Gini (eq. 27); votes weighted by confidence; all rules and sub-rules are printed.
Kept: all of that, with tau = 4 and delta = 5. A size is the sum of the noisy counts as they are (line 15 of Algorithm 1),
not of their absolute values (eq. 26); a tie is pruned (eq. 27, not line 43).
Departs: the Gini count with its global width 2, by permute-and-flip, instead of the normalised Gini with a sensitivity read
off noisy sizes (eq. 11), whose loss is unbounded; delta levels of counts, not delta + 1 as line 16 of Algorithm 1
(docs/review.md, §2.1). Noise in whole numbers (§2.18). A node that stops early is asked once more as a leaf, as its path
has budget left. In pruning and in the vote a count below 0 is 0, and a leaf with none above 0 votes as its parent. Roots
repeat once every feature has been one. Numbers, which the paper does not have, are cut into ``bins`` of equal width; values
outside of the lists and missing ones have children of their own.
"""

from dpforest import parts
from dpforest.schema.grid import Grid

RECIPE = parts.Recipe(
    name="fletcher-islam-2015-dpdf",
    title="DPDF: distinct roots, counts at every node",
    paper="Fletcher and Islam, AusDM 2015",
    sample=parts.EveryRecord(),
    grid=Grid(bins=5),
    propose=parts.Menu((parts.OneChildPerValue(),)),
    criterion=parts.GiniCount(),
    allocate=parts.EveryQuery(),
    leaf=parts.NoisyCounts(),
    stop=parts.NoisySize(least=100),
    refine=(parts.PruneByGini(), parts.NonNegative()),
    vote=parts.ConfidenceWeighted(),
    distinct_roots=True,
    n_trees=4,
    depth=4,  # delta = 5 levels, of which the last is leaves
    parameters={"min_size": "stop.least", "bins": "grid.bins"},
    has_published_variant=True,
    claim="fails: noise scaled by noisy sizes, one query too many",
)
