"""Trees in two phases: the second is grown on what the first gets wrong. Sees sealed counts, by protocol."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.growing.grower import grow
from dpforest.growing.together import Together, refined
from dpforest.parts.recipe import Recipe, Stages
from dpforest.parts.shape import Facts
from dpforest.privacy.amounts import divide, divide_evenly
from dpforest.privacy.gate import Gate
from dpforest.records.base import Counter
from dpforest.schema import Classes


@dataclass(frozen=True)
class TwoPhase(Stages):
    """A fraction ``alpha`` of the trees grows as usual; the others on records drawn by how many of those trees err on them.

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

    def train(
        self, counter: Counter, recipe: Recipe, amount: float, gate: Gate, facts: Facts, progress: Callable[[str], None]
    ) -> Forest:
        n_first = min(max(1, math.floor(self.alpha * recipe.n_trees)), recipe.n_trees)
        n_second = recipe.n_trees - n_first
        first_amount, second_amount = divide(amount, [n_first, n_second]) if n_second else (amount, 0.0)
        with gate.ledger.scope("first phase"):
            first = Together().train(counter, replace(recipe, n_trees=n_first), first_amount, gate, facts, progress)
        if not n_second:
            return first
        counter.deal_by_errors(first, n_second, gate.entropy)
        budget = recipe.allocate.plan(divide_evenly(second_amount, n_second), recipe.depth)
        with gate.ledger.scope("second phase"), gate.ledger.scope("each tree", copies=n_second):
            second = grow(counter, replace(recipe, n_trees=n_second), budget, gate, facts, progress)
        return Forest.join([first, refined(second, recipe)])
