"""DiffPRFs: attribute and point by two exponential mechanisms, after Mu et al. (2016), as seeds 003 and 004 describe it.

Paper: a bootstrap forest that takes numbers as they are; one exponential mechanism chooses the attribute, another the cut;
the budget evenly over trees, then over layers [li2022, §1 and §3.3; dong2022, §1].
Kept: two choices at each node (``FeatureFirst``), bootstrap, uniform budget, majority vote.
Departs: both choices are charged, half of the level each; an attribute is scored by its best cut, which has the same
bound; public cuts; no stop on pure nodes; ln(1 + B/T) for each tree (docs/review.md, §2.4, §2.7, §2.9).
"""

from dataclasses import replace

from dpforest.growing.choosing import FeatureFirst
from dpforest.recipes.li_2020 import RECIPE as JOINT

RECIPE = replace(
    JOINT,
    name="mu-2016",
    title="DiffPRFs: first the attribute, then the cut",
    paper="Mu et al., 2016",
    choose=FeatureFirst(),
    has_published_variant=False,
    claim="fails: data-dependent stopping, bootstrap not charged",
)
