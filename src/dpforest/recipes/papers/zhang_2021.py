"""DPRFMaxTree: the criterion F_Max, after Zhang et al. (2021).

Paper: 50 CART trees on bootstraps, B/t each; the exponential mechanism cuts numbers and chooses, of a random subset, the
attribute with the best F_Max, the max operator weighted by class sizes (eqs. 4.11 to 4.13 of the thesis); a new division
of the budget (§4.6.2). The depth is not reported (Table 4.1); the experiments use two attributes of each table (§4.6.2).
Kept: a private choice of attribute and cut, CART, random subsets, bootstrap, number of trees, majority vote, and F_Max in
one reading, ``WeightedMajority``: eq. 4.11 does not say over what its inner sum and its maximum run; with the maximum
over values, nothing would be better than an attribute that divides nothing.
Departs: F_Max is not monotone, so its width is 2 and the rate half of what a monotone score has; permute-and-flip; public
cuts; no stop on pure nodes, though it is common (§3.1); ln(1 + B/T) for each tree. What the new division is, no
source says: layers have equal shares. Depth and ``k`` are those of ``li-2020``; which two attributes were used is not
said, so all are offered (docs/review.md, §2.4, §2.9, §2.11, §3).
"""

from dataclasses import replace

from dpforest import parts
from dpforest.recipes.papers.li_2020 import RECIPE as CART

RECIPE = replace(
    CART,
    name="zhang-2021",
    title="DPRFMaxTree: F_Max on CART trees",
    paper="Zhang et al., 2021",
    criterion=parts.WeightedMajority(),
    n_trees=50,
    has_published_variant=False,
    claim="fails: bootstrap not charged",
)
