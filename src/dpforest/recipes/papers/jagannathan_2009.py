"""Private-RDT: random decision trees with noisy leaves, after Jagannathan, Pillaipakkamnatt and Wright (2009).

Paper: ten random trees (five will do, with more variance), a discrete feature once on a path, depth m/2, which is not always
best, B/t for each tree [suihkonen2023, §4.2, §4.4.1, §4.5.1 and Table 4.1]; class counts of leaves with Laplace(t/B) noise
(eq. 4.3).
Kept: all of it; the claim holds. Readings, where the thesis is silent: trees on all records, as B/t says; a child for each
value; the prediction is the mean of the class shares, for which counts below 0 are taken as 0.
Departs: a leaf with no count above 0 says what its parent says; category lists come from the schema, and values outside of
them and missing ones have children of their own; numbers, which the paper does not have, are split at a random public cut,
or missing ones from the rest, more than once on a path; m/2 is rounded up; a public cap on nodes, which ten trees of depth
11 on mushroom would pass; geometric noise on integers (docs/review.md, §2.11, §2.18).
"""

from dpforest import parts

RECIPE = parts.Recipe(
    name="jagannathan-2009",
    title="Private-RDT: random multiway trees, budget in the leaves",
    paper="Jagannathan, Pillaipakkamnatt and Wright, ICDM workshops 2009",
    sample=parts.EveryRecord(),
    propose=parts.Menu((parts.OneChildPerValue(numeric=False), parts.Thresholds()), random=True),
    criterion=parts.GiniCount(),  # never asked: one random candidate leaves nothing to choose
    allocate=parts.LeavesOnly(),
    leaf=parts.NoisyCounts(),
    refine=(parts.NonNegative(),),
    vote=parts.MeanOfShares(),
    n_trees=10,
    depth=parts.HalfTheFeatures(),
    claim="holds",
)
