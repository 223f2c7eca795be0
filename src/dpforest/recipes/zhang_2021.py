"""DPRFMaxTree: the criterion F_Max, after Zhang et al. (2021).

Paper: 50 CART trees on bootstraps; F_Max weighs the max operator by class sizes (eq. 4.11 of the thesis).
Kept: one reading of F_Max, CART, bootstrap, shape, majority vote.
Departs: F_Max is not monotone, so its width is 2 and the rate half of what a monotone score has; public cuts; no stop on
pure nodes; ln(1 + B/T) for each tree (docs/review.md, §3.1).
"""

from dataclasses import replace

from dpforest.criteria import WeightedMajority
from dpforest.recipes.li_2020 import RECIPE as CART

RECIPE = replace(
    CART,
    name="zhang-2021",
    title="DPRFMaxTree: F_Max on CART trees",
    paper="Zhang et al., 2021",
    criterion=WeightedMajority(),
    n_trees=50,
    depth=4,
    has_published_variant=False,
    claim="fails: the score is not monotone, data-dependent stopping",
)
