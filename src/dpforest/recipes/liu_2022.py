"""TpDPRF: two phases, after Liu et al. (2022).

Paper: alpha of 90 trees on bootstraps, the rest on samples weighted by misclassification (Algorithm 4.1 of the thesis);
layer weights 1/(d-i+1) (eqs. 4.31 and 4.32); features chosen by symmetric uncertainty and interaction gain.
Kept: two phases, layer weights, shape, majority vote.
Departs: in the second phase a record takes part at most once, with a probability that depends on itself alone; feature
selection is off, for it looks at records without paying (docs/review.md, §2.10, §2.11).
"""

from dpforest.allocation import Harmonic
from dpforest.criteria import GiniCount
from dpforest.growing.two_phase import TwoPhase
from dpforest.leaves import NoisyCounts
from dpforest.postprocess import NonNegative
from dpforest.proposals import Menu
from dpforest.recipe import Recipe
from dpforest.sampling import PoissonBootstrap
from dpforest.voting import Majority

RECIPE = Recipe(
    name="liu-2022",
    title="TpDPRF: later trees on what earlier ones get wrong",
    paper="Liu et al., 2022",
    sample=PoissonBootstrap(),
    propose=Menu(n_features=0.5),
    criterion=GiniCount(),
    allocate=Harmonic(),
    leaf=NoisyCounts(),
    refine=(NonNegative(),),
    vote=Majority(),
    stages=TwoPhase(alpha=0.5),
    n_trees=90,
    depth=5,
    parameters={"alpha": "stages.alpha"},
    claim="fails: raw feature selection, one record may be drawn n times",
)
