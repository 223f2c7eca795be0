"""RFDPP-Gini, after Li et al. (2020), as two later papers describe it [li2022, §1, §3.3, §4.3; dong2022, §1, Table 3].

Paper: a forest of CART trees, equal budgets for trees and for their layers; the Gini index finds feature and point, by one
call of the exponential mechanism for numeric features, the Laplace mechanism for discrete ones. What is not said of it is
said of DiffPRF_linear, which becomes it for q = 1 and d = 0: bootstraps, B/T, half of a layer for class counts that no line
reads, an exact comparison with discrete features, a stop on pure or small nodes, majority vote. [li2022] runs 50 trees of
depth 5 that draw 5 features at a node, [dong2022] 25 trees of 5 to 10 layers.
Kept: CART, Gini, (Poisson) bootstrap, uniform budget, noisy leaves, majority vote; the shape and ``k`` of [li2022].
Departs: one choice among all cuts and categories of the drawn features, by permute-and-flip on the Gini index times size,
instead of one for each numeric feature and an exact comparison; public cuts; no stop on pure or small nodes; ln(1 + B/T)
for each tree; inner counts get nothing (docs/review.md, §2.4, §2.5, §2.9, §2.11, §2.16, §3).
"""

from dpforest import parts

RECIPE = parts.Recipe(
    name="li-2020",
    title="RFDPP-Gini: bootstrap CART forest, one joint choice a node",
    paper="Li et al., 2020",
    sample=parts.PoissonBootstrap(),
    propose=parts.Menu(n_features=5),
    criterion=parts.GiniCount(),
    allocate=parts.Uniform(),
    leaf=parts.NoisyCounts(),
    refine=(parts.NonNegative(),),
    vote=parts.Majority(),
    n_trees=50,
    depth=5,
    parameters={"k": "propose.n_features"},
    has_published_variant=True,
    claim="fails: exact choice among discrete features, data-dependent stopping, bootstrap not charged",
)
