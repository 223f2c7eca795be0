"""TpDPRF: two phases, after Liu et al. (2022).

Paper: alpha of 90 trees of 5 layers on bootstraps, the rest on samples of n records weighted by misclassification,
B/t each (Algorithm 4.1 and Table 4.1 of the thesis; Figure 4.9 has 30 trees of depth 8); layer weights 1/(d-i+1), not
divided further (eqs. 4.31 and 4.32); features that symmetric uncertainty calls irrelevant are deleted, and of the rest the
top p by weight, from normalised interaction gain (IG-RFE), take the place of the random subset of a node (eqs. 4.23
to 4.26).
Kept: two phases, layer weights, shape, majority vote; the selection, on noisy class counts of features and of pairs of
features, for a twentieth of the budget each.
Departs: in the second phase a record takes part at most once, with a probability that depends on itself alone, so samples
are smaller; ln(1 + B/T) for each tree of the first; one selection for all nodes of all trees; pairs of the twelve most
relevant features only, their values in runs that stand out of the noise; public cuts, permute-and-flip
(docs/review.md, §2.9, §2.10, §2.11).
The thesis names no criterion (here Gini on binary splits), no ``alpha`` (half), no ``p`` (half of the features), no
threshold of relevance (what chance and noise show), no weight (the uncertainty and the mean gain, the lightest feature
removed first), and does not say what eta and gamma of Algorithm 4.1 are.
``selection="su"`` looks at single features alone, ``"off"`` draws a random subset at each node; the table
``thesis-choices`` of docs/bench/papers.md has all three.
"""

from dpforest.growing.first_look import FirstLook
from dpforest.growing.two_phase import TwoPhase
from dpforest.parts.allocation import Harmonic
from dpforest.parts.criteria import GiniCount
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.postprocess import NonNegative
from dpforest.parts.proposals import Menu
from dpforest.parts.recipe import Recipe
from dpforest.parts.sampling import PoissonBootstrap
from dpforest.parts.voting import Majority

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
    first_look=FirstLook(select=True, pairs=True),
    stages=TwoPhase(alpha=0.5),
    n_trees=90,
    depth=4,  # d = 5 layers, of which the last is leaves
    parameters={
        "alpha": "stages.alpha",
        "p": "propose.n_features",
        "selection": (
            "first_look",
            {"nig": FirstLook(select=True, pairs=True), "su": FirstLook(select=True), "off": None},
        ),
    },
    claim="fails: raw feature selection, one record may be drawn n times",
)
