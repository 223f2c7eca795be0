"""DPRF-Gini, after Li et al. (2017).

Paper: bootstrap forest of CART trees; candidate cuts are midpoints of neighbouring data values (eq. 4.5 of the thesis) and
the best one is taken exactly (eq. 4.6); the exponential mechanism with Gini chooses the attribute; Laplace noise on leaf
counts. It reports no shape; the thesis takes that of Patil and Singh, 20 trees of depth 5, for likely (Table 4.1).
Kept: CART, Gini, bootstrap, that shape, noisy leaves, majority vote.
Departs: one choice among all public cuts of all drawn features. Cuts are equally far apart, so each stands for an interval
of the same length: the base measure that a private choice of a point needs. The division of the budget is in no source:
equal layers, ln(1 + B/T) for each tree; nor is the number of features that a node draws, ``k``
(docs/review.md, §2.3, §2.9, §2.11).
"""

from dataclasses import replace

from dpforest.domain import Grid
from dpforest.recipes.li_2020 import RECIPE as JOINT

RECIPE = replace(
    JOINT,
    name="li-2017",
    title="DPRF-Gini: CART with an even grid of cuts",
    paper="Li et al., 2017",
    grid=Grid(bins=64),
    n_trees=20,
    has_published_variant=False,
    claim="fails: cuts at data values, exact choice of the cut",
)
