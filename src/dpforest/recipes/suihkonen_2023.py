"""DPRF_thesis: median splits and private labels, after Suihkonen (2023).

Paper: disjoint parts; at each node the best of ten cuts for each of K features by balance, then the feature with the least
squared error (eqs. 5.1 to 5.3), half of the budget; labels by permute-and-flip, the other half; stop at pure, small
or constant nodes; majority vote.
Kept: parts, ten cuts of a set range, K, half and half, permute-and-flip labels, depth m/2, majority vote.
Departs: one choice a node that weighs balance and Gini alike; listed categories, not those of the node; no stop but
depth; records dealt by a draw each (docs/review.md, §2.4, §2.7, §2.8, §2.11, §2.14).
"""

from dpforest.allocation import Uniform
from dpforest.criteria import Balance, GiniCount, Mixture
from dpforest.domain import Grid
from dpforest.leaves import PrivateLabel
from dpforest.proposals import Menu
from dpforest.recipe import Recipe
from dpforest.rules import HalfTheFeatures
from dpforest.sampling import Disjoint
from dpforest.voting import Majority

RECIPE = Recipe(
    name="suihkonen-2023",
    title="DPRF_thesis: balanced splits on ten cuts, private labels",
    paper="Suihkonen, master's thesis, University of Helsinki 2023",
    sample=Disjoint(),
    grid=Grid(bins=11),
    propose=Menu(n_features=5),
    criterion=Mixture(((GiniCount(), 1), (Balance(), 1))),
    allocate=Uniform(split_share=0.5),
    leaf=PrivateLabel(),
    vote=Majority(),
    n_trees=9,
    depth=HalfTheFeatures(),
    parameters={"k": "propose.n_features"},
    has_published_variant=True,
    claim="fails: data-dependent stopping and categories, K medians charged once",
)
