"""DiffPRFs: attribute and point by two exponential mechanisms, after Mu et al. (2016), as two later papers describe it.

Paper: DiffPRF, a bootstrap forest of ID3 trees, without its need for discrete features; at each node two calls of the
exponential mechanism, for points and for attributes; equal budgets for trees and for their layers [li2022, §1, §3.3;
dong2022, §1]. [li2022, §4.3] runs 50 trees of depth 5 that draw 5 features at a node.
Kept: two choices at each node (``FeatureFirst``), (Poisson) bootstrap, uniform budget, that shape, majority vote.
Departs: which call comes first is not said: here the attribute does, by its best cut, which has the bound of one cut; were
a point chosen for each attribute, each would have to be paid. Half of a level for each choice, by permute-and-flip. No
source has its criterion or its trees (ID3 splits discrete features by value): binary splits by the Gini index times
size, so that it differs from ``li-2020`` by its two choices alone. Public cuts; no stop on pure nodes like DiffPRF's;
ln(1 + B/T) for each tree; noisy leaves (docs/review.md, §2.4, §2.7, §2.9, §2.11, §3).
"""

from dataclasses import replace

from dpforest.growing.choosing import FeatureFirst
from dpforest.recipes.papers.li_2020 import RECIPE as JOINT

RECIPE = replace(
    JOINT,
    name="mu-2016",
    title="DiffPRFs: first the attribute, then the cut",
    paper="Mu et al., 2016",
    choose=FeatureFirst(),
    has_published_variant=False,
    claim="fails: data-dependent stopping, bootstrap not charged",
)
