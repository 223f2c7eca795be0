"""Selective aggregation: trees are dropped by their errors on held-out records. Sees sealed counts, by protocol."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.growing.together import Together
from dpforest.parts.recipe import Recipe, Stages
from dpforest.parts.shape import Facts
from dpforest.privacy.amounts import divide_evenly
from dpforest.privacy.bounds import Bound
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.records.base import Counter
from dpforest.schema import Classes


@dataclass(frozen=True)
class SelectiveAggregation(Stages):
    """Trees grow on most records; some are dropped by their errors on the others [suihkonen2023, §4.5.2 and Algorithm 4.2].

    The trees are split at random into subsets of at most ``subset_size``. In each, round after round drops the tree without
    which the rest of the subset errs least, until one is left or ``n_rounds`` are over, and the best of the ensembles that
    rounds have left stays. What stays of all subsets is the forest.

    Privacy:
        Claim: costs at most ``amount``.
        Because: a coin for each record says whether it is held out, so training and aggregation are about different records
            (parallel). A choice scores ensembles by minus their errors; an added record lowers each score by 0 or
            1, so the width is 1. The choices of all subsets share ``amount`` evenly and add up; their number follows from
            the number of trees.
        Assumes: coins are exact; the trees are released.
    """

    held_out: float = 0.2
    n_rounds: int | None = None
    subset_size: int = 10
    targets = (Classes,)

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise ParameterError(f"held_out must lie in (0, 1), not {self.held_out!r}.")
        if self.n_rounds is not None and (type(self.n_rounds) is not int or self.n_rounds < 0):
            raise ParameterError(f"n_rounds must be a whole number of at least 0, not {self.n_rounds!r}.")
        if type(self.subset_size) is not int or self.subset_size < 2:
            raise ParameterError(f"subset_size must be a whole number of at least 2, not {self.subset_size!r}.")

    def train(
        self, counter: Counter, recipe: Recipe, amount: float, gate: Gate, facts: Facts, progress: Callable[[str], None]
    ) -> Forest:
        training, held = counter.hold_out(self.held_out, gate.entropy)
        with gate.ledger.scope("records by a coin each", "parallel"):
            with gate.ledger.scope("training part"):
                forest = Together().train(training, recipe, amount, gate, facts, progress)
            with gate.ledger.scope("held-out part"):
                return forest.only(self._keep(forest, held, amount, gate))

    def _keep(self, forest: Forest, held: Counter, amount: float, gate: Gate) -> np.ndarray:
        """A mask ``(n_trees,)`` of the trees that stay, over all subsets."""
        n_subsets = -(-forest.n_trees // self.subset_size)
        subsets = np.array_split(gate.entropy.generator().permutation(forest.n_trees), n_subsets)
        most = forest.n_trees if self.n_rounds is None else self.n_rounds
        n_rounds = [min(most, len(subset) - 1) for subset in subsets]
        share = divide_evenly(amount, max(sum(n + (n > 1) for n in n_rounds), 1))
        kept = np.zeros(forest.n_trees, dtype=bool)
        for index, (subset, n) in enumerate(zip(subsets, n_rounds, strict=True)):
            trees = np.isin(np.arange(forest.n_trees), subset)
            kept[trees] = _aggregate(forest.only(trees), held, n, share, gate, index + 1)
        return kept


def _aggregate(forest: Forest, held: Counter, n_rounds: int, share: float, gate: Gate, subset: int) -> np.ndarray:
    """A mask ``(n_trees,)`` of the trees of one subset that stay: the whole subset only if there are no rounds."""
    ensemble, met = np.ones(forest.n_trees, dtype=bool), []

    def choose(ensembles: np.ndarray, purpose: Purpose) -> np.ndarray:
        scores = held.count_errors(forest, ensembles).map(lambda errors: -errors[None])
        return np.asarray(ensembles[gate.select(scores, None, Bound(-1, 0), share, purpose)[0]])

    for index in range(n_rounds):
        smaller = ensemble & ~np.eye(forest.n_trees, dtype=bool)[ensemble]
        ensemble = choose(smaller, Purpose("drop tree", subset=subset, round=index + 1))
        met.append(ensemble)
    return choose(np.array(met), Purpose("choose ensemble", subset=subset)) if n_rounds > 1 else ensemble
