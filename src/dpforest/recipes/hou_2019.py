"""IG_GR hybrid trees with weighted layers, after Hou et al. (2019).

Paper: 50 trees of depth 7 on bootstraps; the score mixes information gain and gain ratio (eqs. 4.8 and 4.9 of the thesis);
layer i gets a weight 2/(d-i+1), the leaves 1 (eq. 4.29).
Kept: entropy, layer weights, shape, bootstrap, majority vote.
Departs: gain ratio moves by its whole range with one record, so it cannot be used; its purpose, to correct the bias towards
many values, is met by binary splits, which have none. No stop on pure nodes; ln(1 + B/T) for each tree
(docs/review.md, §2.15).
"""

from dpforest.allocation import Harmonic
from dpforest.criteria import EntropyCount
from dpforest.leaves import NoisyCounts
from dpforest.postprocess import NonNegative
from dpforest.proposals import Menu
from dpforest.recipe import Recipe
from dpforest.sampling import PoissonBootstrap
from dpforest.voting import Majority

RECIPE = Recipe(
    name="hou-2019",
    title="Entropy on binary splits, layers weighted 2/(d-i+1)",
    paper="Hou et al., 2019",
    sample=PoissonBootstrap(),
    propose=Menu(n_features=0.5),
    criterion=EntropyCount(),
    allocate=Harmonic(inner=2.0),
    leaf=NoisyCounts(),
    refine=(NonNegative(),),
    vote=Majority(),
    n_trees=50,
    depth=6,
    claim="fails: gain ratio has no useful bound, bootstrap not charged",
)
