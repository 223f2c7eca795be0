"""DPGDF: greedy trees on disjoint parts, selectively aggregated, after Guan et al. (2020).

Paper: 50 trees of depth m/2 on samples without replacement, so that each has the whole budget; numeric values are sorted
and averaged by fives; half of the budget is divided evenly among the inner layers, whose attributes and cuts the
exponential mechanism chooses by the Gini index, half goes to the counts of leaves, spread over layers (eqs. 4.33 and 4.34
of the thesis). Selective aggregation: trees are split into random subsets; of each, t - 1 rounds drop the tree without
which the rest errs least, and the best ensemble of the rounds stays (Algorithm 4.2); what is left is combined, and this
is repeated until a criterion is met.
Kept: disjoint parts, Gini, half and half (``split_share``), 50 trees, depth m/2, random subsets, all rounds of Algorithm
4.2 (``n_rounds`` asks for fewer) and its last choice, noisy leaf counts, majority vote.
Departs: records are dealt by a draw each; binary splits at public cuts; a record is in one leaf, so every leaf gets all of
the leaf half (eq. 4.34 as printed sums to 1.59 of it); errors are those on held-out records, and each round is a private
choice; choices by permute-and-flip; a public cap on nodes; one pass over the subsets, since each costs as much as the
first and no criterion is given. The thesis gives no size of the subsets (here 10), no test records (a fifth is held out)
and no number of features at a node (half of them, ``k``) (docs/review.md, §2.8, §2.11, §2.12, §2.16).
"""

from dataclasses import dataclass, replace

import numpy as np

from dpforest import parts
from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.growing.grower import Together
from dpforest.privacy.amounts import divide_evenly
from dpforest.privacy.bounds import Bound
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.records.base import Counter
from dpforest.schema import Classes


@dataclass(frozen=True)
class SelectiveAggregation(parts.Stages):
    """Trees grow on most records; some are dropped by held-out errors [suihkonen2023, §4.5.2 and Algorithm 4.2].

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

    def train(self, job: parts.Job, amount: float) -> Forest:
        gate = job.gate
        training, held = job.counter.hold_out(self.held_out, gate.entropy)
        with gate.ledger.scope("records by a coin each", "parallel"):
            with gate.ledger.scope("training part"):
                forest = Together().train(replace(job, counter=training), amount)
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


RECIPE = parts.Recipe(
    name="guan-2020",
    title="DPGDF: greedy trees on disjoint parts, selectively aggregated",
    paper="Guan et al., 2020",
    sample=parts.Disjoint(),
    propose=parts.Menu(n_features=0.5),
    criterion=parts.GiniCount(),
    allocate=parts.Uniform(split_share=0.5),
    leaf=parts.NoisyCounts(),
    refine=(parts.NonNegative(),),
    vote=parts.Majority(),
    stages=SelectiveAggregation(),
    n_trees=50,
    depth=parts.HalfTheFeatures(),
    parameters={
        "split_share": "allocate.split_share",
        "k": "propose.n_features",
        "held_out": "stages.held_out",
        "n_rounds": "stages.n_rounds",
        "subset_size": "stages.subset_size",
    },
    claim="fails: averages of neighbouring records, exact aggregation, layers that sum to 1.59",
)
