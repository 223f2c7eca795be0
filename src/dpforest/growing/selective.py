"""Selective aggregation: trees that do not help are dropped, by votes on records kept apart."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpforest.errors import ParameterError
from dpforest.growing.together import Together
from dpforest.privacy.amounts import divide_evenly
from dpforest.privacy.base import Bound
from dpforest.privacy.gate import Gate
from dpforest.recipe import Recipe
from dpforest.records.base import Counter
from dpforest.rules import Facts
from dpforest.schema import Classes, Target
from dpforest.tree import Forest


@dataclass(frozen=True)
class SelectiveAggregation:
    """Trains on most records, then ``n_rounds`` times drops the tree without which the rest errs least on the others.

    At the end the best of all ensembles met on the way is chosen [suihkonen2023, Algorithm 4.2].

    Privacy:
        Claim: costs at most ``amount``.
        Because: a coin for each record says whether it is held out, so training and aggregation are about different records
            (parallel). A choice scores ensembles by minus their errors; an added record lowers each score by 0 or
            1, so the width is 1. The choices share ``amount`` evenly and add up.
        Assumes: coins are exact; the trees are released.
    """

    held_out: float = 0.2
    n_rounds: int = 5

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1 or type(self.n_rounds) is not int or self.n_rounds < 0:
            raise ParameterError(
                f"held_out must lie in (0, 1) and n_rounds be at least 0: {self.held_out!r}, {self.n_rounds!r}."
            )

    def accepts(self, target: Target) -> bool:
        return isinstance(target, Classes)

    def train(
        self, shards: Counter, recipe: Recipe, amount: float, gate: Gate, facts: Facts, progress: Callable[[str], None]
    ) -> Forest:
        training, held = shards.hold_out(self.held_out, gate.entropy)
        with gate.ledger.scope("records by a coin each", "parallel"):
            with gate.ledger.scope("training part"):
                forest = Together().train(training, recipe, amount, gate, facts, progress)
            with gate.ledger.scope("held-out part"):
                return forest.only(self._choose(forest, held, amount, gate))

    def _choose(self, forest: Forest, held: Counter, amount: float, gate: Gate) -> np.ndarray:
        n_rounds = min(self.n_rounds, forest.n_trees - 1)
        share = divide_evenly(amount, n_rounds + 1)
        ensembles = [np.ones(forest.n_trees, dtype=bool)]
        for place in range(n_rounds):
            smaller = ensembles[-1] & ~np.eye(forest.n_trees, dtype=bool)
            scores = held.count_errors(forest, smaller).map(lambda errors: -errors[None])
            dropped = gate.select(scores, ensembles[-1][None], Bound(-1, 0), share, f"drop tree, round {place + 1}")
            ensembles.append(smaller[dropped[0]])
        scores = held.count_errors(forest, np.array(ensembles)).map(lambda errors: -errors[None])
        return ensembles[gate.select(scores, None, Bound(-1, 0), share, "choose ensemble")[0]]
