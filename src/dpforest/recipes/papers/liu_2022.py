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

import math
from dataclasses import dataclass, replace

from dpforest import parts
from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.growing.grower import Together, grow, refined
from dpforest.privacy.amounts import divide, divide_evenly
from dpforest.recipes.papers.first_look import FirstLook
from dpforest.recipes.papers.li_2020 import RECIPE as CART
from dpforest.schema import Classes


@dataclass(frozen=True)
class TwoPhase(parts.Stages):
    """A first fraction ``alpha`` of trees grows as usual, the rest on records weighted by its errors.

    A record takes part in a tree of the second phase with probability v/V, v of the V first trees being wrong about it. The
    printed weights v_i / sum(v) let one record be drawn any number of times.

    Privacy:
        Claim: costs at most ``amount``: each tree of the second phase costs its budget, and trees add up.
        Because: given the released first trees, whether a record takes part depends on that record and its own coins, so an
            added record changes no other's part and adds at most itself, once, to a tree.
        Assumes: the first phase is released; coins are exact.
    """

    alpha: float = 0.5
    targets = (Classes,)

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise ParameterError(f"alpha must lie in (0, 1], not {self.alpha!r}.")

    def train(self, job: parts.Job, amount: float) -> Forest:
        recipe, gate = job.recipe, job.gate
        n_first = min(max(1, math.floor(self.alpha * recipe.n_trees)), recipe.n_trees)
        n_second = recipe.n_trees - n_first
        first_amount, second_amount = divide(amount, [n_first, n_second]) if n_second else (amount, 0.0)
        with gate.ledger.scope("first phase"):
            first = Together().train(replace(job, recipe=replace(recipe, n_trees=n_first)), first_amount)
        if not n_second:
            return first
        job.counter.deal_by_errors(first, n_second, gate.entropy)
        budget = recipe.allocate.plan(divide_evenly(second_amount, n_second), recipe.depth)
        with gate.ledger.scope("second phase"), gate.ledger.scope("each tree", copies=n_second):
            second = grow(replace(job, recipe=replace(recipe, n_trees=n_second)), budget)
        return Forest.join([first, refined(second, recipe)])


RECIPE = replace(
    CART,
    name="liu-2022",
    title="TpDPRF: later trees on what earlier ones get wrong",
    paper="Liu et al., 2022",
    propose=parts.Menu(n_features=0.5),
    allocate=parts.Harmonic(),
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
    has_published_variant=False,
    claim="fails: raw feature selection, one record may be drawn n times",
)
