"""DPRF-Gini, after Li et al. (2017).

Paper: a random forest; candidate cuts of a number are midpoints of neighbouring data values (eq. 4.5 of the thesis) and the
best one by the Gini index is taken exactly (eq. 4.6), other attributes have a child for each value (eq. 3.4); the
exponential mechanism with Gini chooses the attribute; Laplace noise on leaf counts. It reports no shape; the thesis takes
that of Patil and Singh, 20 trees of depth 5, for likely (Table 4.1). Its budget is divided without sophistication (§4.7).
Kept: Gini, two children for a number, bootstrap, that shape, equal layers, noisy leaves, majority vote.
Departs: one choice by permute-and-flip among all public cuts and categories of all drawn features. Cuts are equally far
apart, so each stands for an interval of the same length: the base measure that a private choice of a point needs. A
category stands against the rest, the commoner way of §3.1: many small leaves would be noise. ln(1 + B/T) for each tree;
no stop on pure nodes, though it is common (§3.1). How many features a node draws is in no source: five, ``k``
(docs/review.md, §2.3, §2.4, §2.9, §2.11).
"""

from dataclasses import replace

from dpforest.recipes.papers.li_2020 import RECIPE as JOINT
from dpforest.schema.grid import Grid

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
