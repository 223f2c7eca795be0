"""IG_GR hybrid trees with weighted layers, after Hou et al. (2019).

Paper: 50 trees of 7 layers on bootstraps, B/t each; the exponential mechanism chooses attributes, and cuts of numbers
(§4.3.3 and §4.6.2 of the thesis), by a mixture of the information gain of ID3 and the gain ratio of C4.5 (eqs. 4.8 and
4.9); layer i of d gets a weight 2/(d-i+1), half for class counts and half for the choice, the leaves 1 (eqs. 4.28 to
4.30); Laplace noise on counts (eq. 4.19).
Kept: entropy, a private choice of attribute and cut, the shares of the layers, shape, bootstrap, noisy leaves, majority
vote. Weights are divided by their sum, 4.19; eq. 4.30 takes it for 2d - 1 = 13, which would leave two thirds unspent.
Departs: gain ratio moves by its whole range with one record, so it cannot be used, nor can its weights w1 and w2; its
purpose, to correct the bias towards many values, is met by binary splits, whose gain has none. Counts of inner nodes are
never read, so their half of a layer goes to its choice; a leaf above the last layer has the share of the last. No stop on
pure nodes, though it is common (§3.1); public cuts; permute-and-flip; ln(1 + B/T) for each tree. How many features
a node draws is in no source: half of them, ``k`` (docs/review.md, §2.4, §2.9, §2.11, §2.15, §2.16).
"""

from dataclasses import replace

from dpforest import parts
from dpforest.recipes.papers.li_2020 import RECIPE as CART

RECIPE = replace(
    CART,
    name="hou-2019",
    title="Entropy on binary splits, layers weighted 2/(d-i+1)",
    paper="Hou et al., 2019",
    propose=parts.Menu(n_features=0.5),
    criterion=parts.EntropyCount(),
    allocate=parts.Harmonic(inner=2.0),
    n_trees=50,
    depth=6,  # d = 7 layers, of which the last is leaves
    has_published_variant=False,
    claim="fails: gain ratio has no useful bound, bootstrap not charged",
)
