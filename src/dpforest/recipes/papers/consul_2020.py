"""DiPriMe: median trees, after Consul and Williamson (2020).

Paper: trees on disjoint parts (``part=True``) or on all records at epsilon/N_T; at each node a median of each of K features
by exp(-epsilon_1 |N - 2j| / 2), the point uniform between two records, or one of all subsets of the categories by the same
law; then the feature with the least squared error; rho of the budget to splits, evenly over the levels, the rest to
Laplace counts or means; a leaf at the depth or where nothing can be split (Algorithms 1 to 3).
Kept: parts, K, rho, levels, balance as exp(-epsilon |left - right| / 2), sum of squares (Gini for classes, which is twice it
for two), all subsets of up to 6 categories, ranges that shrink with the splits, depth; N_T = 10, K = 5 and depth 5 as in
Table 2 (Table 1: K = 10). At an infinite epsilon, and by ``medians="first"``, the two stages: a median of each feature, then
one of these. Trees are averaged, class shares or means, of which the paper says nothing.
Departs: by default, ``medians="joint"``, one choice among all splits of K features that weighs balance and error alike, each
by what one record can move it; ``balance`` is lambda, the weight of balance (the paper has none). In two stages each
of the K medians is paid, so a choice has 1/(K + 1) of a level, not 1/2 (docs/review.md, §2.7). 32 public bins and no draw
between records (§2.3); of equally good cuts the first is taken, with noise a random one. The K features are drawn of
all, not of those that can still be split. 8 random subsets of more than 6 categories. Unlisted and missing values, unknown
to the paper, go with the last category or bin, in a random subset to either side, and may be split off.
Permute-and-flip, noise in whole numbers (§2.18); the error at rate epsilon/R^2 instead of epsilon/8B^2, two-bin means
instead of noise scaled by the leaf's size (§2.2); records dealt by a draw each (§2.8). What Theorems 1 to 3 promise:
``parts.shape.FilledLeaves``, §2.19.
"""

from dpforest import parts
from dpforest.growing.choosing import Medians
from dpforest.schema.grid import Grid

RECIPE = parts.Recipe(
    name="consul-2020",
    title="DiPriMe: balanced splits, on disjoint parts or all records",
    paper="Consul and Williamson, 2020",
    sample=parts.Disjoint(),
    grid=Grid(bins=32),
    propose=parts.Menu((parts.Thresholds(), parts.AllSubsets(6), parts.RandomSubsets(8, beyond=6)), n_features=5),
    criterion=parts.ByTarget(classes=parts.GiniCount(), bounded=parts.SquaredError()),
    choose=Medians(jointly=True),
    allocate=parts.Uniform(split_share=0.5),
    leaf=parts.ByTarget(classes=parts.NoisyCounts(), bounded=parts.TwoBinMean()),
    refine=(parts.NonNegative(),),
    vote=parts.MeanOfShares(),
    n_trees=10,
    depth=5,
    tasks=("classification", "regression"),
    parameters={
        "part": ("sample", {True: parts.Disjoint(), False: parts.EveryRecord()}),
        "rho": "allocate.split_share",
        "k": "propose.n_features",
        "medians": ("choose.jointly", {"joint": True, "first": False}),
        "balance": "choose.weight",
    },
    has_published_variant=True,
    claim="fails: a median drawn between data points, K medians charged once, means scaled by the leaf's size",
)
