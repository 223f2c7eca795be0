"""The runs of a private search: each trains on one part of the records and scores on the other. Sees sealed sums."""

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dpforest.fitting import fit_sealed
from dpforest.mechanisms import Entropy, Logarithmic
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.best_of_runs import charge_selection
from dpforest.privacy.bounds import Sensitivity
from dpforest.privacy.events import Purpose, Scope
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.base import SealedTable
from dpforest.schema import TARGET_STEPS, Classes, Schema
from dpforest.search.candidates import Candidate, Model


@dataclass(frozen=True)
class Run:
    """The output of one run, which is released if the run is the best."""

    candidate: Candidate
    model: Model
    hits: float
    misses: float
    scored: Ledger

    @property
    def rank(self) -> float:
        """The figure by which runs are compared; larger is better."""
        # Both sums have their own noise, and one falls as the other rises: their difference says more than either.
        return self.hits - self.misses

    @property
    def share(self) -> float:
        """The noisy share of hits."""
        hits, misses = max(self.hits, 0.0), max(self.misses, 0.0)
        return hits / (hits + misses) if hits + misses > 0 else math.nan


def run(training: SealedTable, held_out: SealedTable, candidate: Candidate, model: Any, entropy: Entropy) -> Run:
    """One run: the model of a candidate, fitted to the training part, and its noisy score on the held-out part."""
    fit_sealed(model, training)
    gate = Gate(Ledger(make_accountant(model.epsilon, model.delta)), entropy)
    most = _most_per_record(model.schema)
    amount = gate.ledger.accountant.budget
    sums, _ = gate.add_noise(held_out.hits(model.forest_), Sensitivity(most, most**2), amount, "hits and misses")
    hits, misses = (float(value) / most for value in sums[0])
    return Run(candidate, model, hits, misses, gate.ledger)


def _most_per_record(schema: Schema) -> int:
    """The most that a record adds to hits and misses together."""
    return 1 if isinstance(schema.target, Classes) else TARGET_STEPS


def best_run(candidates: Iterable[Candidate], one_run: Callable[[Candidate], Run]) -> Run:
    """The run with the best noisy score, the first of those that tie; all others are forgotten."""
    best = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning of a run that is not the best would tell of it
        for candidate in candidates:
            found = one_run(candidate)
            if best is None or found.rank > best.rank:
                best = found
    assert best is not None
    return best


def ledger_of(best: Run, law: Logarithmic, epsilon: float) -> Ledger:
    """The ledger of the search: both parts of the best run in parallel, then what being the best of several costs."""
    ledger = Ledger(make_accountant(epsilon, best.model.delta))
    ledger.proof = best.model.privacy_.proof
    with ledger.scope("best run", "parallel") as scope:
        parts = {"training part": best.model.ledger_, "held-out part": best.scored}
        assert all(len(part.books) == 1 for part in parts.values())
        scope.children += [Scope(Purpose(name), children=part.root.children) for name, part in parts.items()]
    charge_selection(ledger, law, best.scored.accountant.budget)
    return ledger
