"""Out-of-bag weights, after Li, Qin, Luo and Zheng (2022).

Paper: a bootstrap forest gives out-of-bag errors and feature importances; features are sorted into best, pruned and
removable; a second forest splits on features in order of importance and shares its budget by tree and feature weights
(eqs. 4 to 15, Algorithms 1 to 3).
Kept: the two stages, all weights and sets, cuts by a private choice, noisy leaves, majority vote.
Departs: the first forest is private and its importances come from released counts; held-out records are drawn by a coin
each and compose in parallel, out-of-bag records do not; tree shares sum to the budget (eq. 13 spends 1/T of it)
(docs/review.md, §2.6).
"""

from dpforest.allocation import Uniform
from dpforest.criteria import GiniCount
from dpforest.growing.out_of_bag import OutOfBag
from dpforest.leaves import NoisyCounts
from dpforest.postprocess import NonNegative
from dpforest.proposals import Menu, OneAgainstRest, Thresholds
from dpforest.recipe import Recipe
from dpforest.sampling import EveryRecord
from dpforest.voting import Majority

RECIPE = Recipe(
    name="li-2022",
    title="Out-of-bag weights: features in order of importance",
    paper="Li, Qin, Luo and Zheng, Mathematics 2022",
    sample=EveryRecord(),
    propose=Menu((Thresholds(), OneAgainstRest()), n_features=5),
    criterion=GiniCount(),
    allocate=Uniform(),
    leaf=NoisyCounts(),
    refine=(NonNegative(),),
    vote=Majority(),
    stages=OutOfBag(),
    n_trees=50,
    depth=5,
    parameters={"eps_oob": "stages.held_out_budget", "k": "stages.n_features", "n_first": "stages.n_first"},
    has_published_variant=True,
    claim="fails: weights from a forest that is not private, false parallel composition",
)
