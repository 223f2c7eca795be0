"""Fits of a sequence of steps on encoded records, under a gate that remembers; and small recipes for them."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from tests.support.encoded import facts_about, opened
from tests.support.strategies import recipe_of
from tests.support.targets import NUMBER, classes

from dpforest import Numeric, Schema
from dpforest.growing.sequential import Phase, Sequential
from dpforest.mechanisms import Entropy
from dpforest.parts.allocation import LeavesOnly, Uniform
from dpforest.parts.criteria import MaxOperator
from dpforest.parts.leaves import NoisyCounts, Rotated
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.proposals import Menu
from dpforest.parts.recipe import Job
from dpforest.parts.routes import Routes
from dpforest.parts.voting import LogShares
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.counter import MemoryCounter
from dpforest.schema.grid import Grid

GRID = Grid(6)
CONSTANT = Phase(0.1, 1, {"depth": 0, "allocate": LeavesOnly(), "refine": (EvenShrinkage(1.0),), "vote": LogShares(1.0)})


class Watching(Gate):
    """Keeps what it was handed and what was stated."""

    def __init__(self, ledger, entropy):
        super().__init__(ledger, entropy)
        self.noised, self.joint = [], []

    def add_noise(self, values, sensitivity, amount, purpose):
        self.noised.append(opened(values).copy())
        return super().add_noise(values, sensitivity, amount, purpose)

    def add_joint_noise(self, values, blocks, amount, purpose):
        self.joint.append((opened(values).copy(), blocks))
        return super().add_joint_noise(values, blocks, amount, purpose)


def gate_of(epsilon, delta=0.0, seed=3):
    return Watching(Ledger(make_accountant(epsilon, delta)), Entropy(seed))


def recipe_with(*steps, grid=GRID, leaf=None, batches=1):
    n_trees = sum(step.n_trees for step in steps)
    return recipe_of(
        stages=Sequential(steps, batches), criterion=MaxOperator(), leaf=leaf or Rotated(0.3), refine=(EvenShrinkage(3.0),),
        vote=LogShares(0.5), n_trees=n_trees, depth=2, grid=grid, tasks=("classification",),
    )  # fmt: skip


def run_steps(steps, domain, codes, labels, epsilon, delta=0.0, seed=3, n_classes=2, batches=1):
    """A fit of steps on encoded records: the forest, the gate and the counter with the scores that it is left with."""
    target, gate = classes(n_classes), gate_of(epsilon, delta, seed)
    recipe = recipe_with(*steps, leaf=None if n_classes == 2 else NoisyCounts(), batches=batches)
    labels = np.asarray(labels, dtype=np.int64)
    counter = MemoryCounter(np.asarray(codes).astype(domain.dtype), labels, domain, target)
    facts = facts_about(domain, target, n_rows=float(len(labels)), n_trees=recipe.n_trees, epsilon=epsilon, delta=delta)
    amount = gate.ledger.accountant.budget
    forest = recipe.stages.train(Job(counter, recipe, gate, facts), amount)
    return SimpleNamespace(forest=forest, gate=gate, counter=counter, codes=codes, labels=labels)


def spent_on(fit, *words):
    """What all charges with one of some words in their label or scope cost, in the unit of the ledger."""
    entries, unit = fit.gate.ledger.entries(), fit.gate.ledger.unit
    return [entry[unit] for entry in entries if any(word in f"{entry['scope']} {entry['label']}" for word in words)]


def plain_sums(maps, weights, codes, labels):
    """The sums over records of their maps: those of the second class weighted, less those of the first."""
    found = []
    for feature, table in maps:
        for number in range(table.shape[1]):
            total = 0
            for code, label in zip(codes[feature].tolist(), labels, strict=True):
                total += (1 if label else -1) * int(weights[label]) * int(table[code, number])
            found.append(total)
    return found


@dataclass(frozen=True)
class OneCutEach:
    """A candidate for each numeric feature: its first cut."""

    def fixed(self, domain):
        return Routes.of_runs(domain, *np.array([(feature, 0, 1, 2) for feature in range(domain.n_features)]).T)

    def drawn(self, domain, n_nodes, rng):
        return None


TINY = {"x": Numeric(0, 2), "z": Numeric(0, 2)}
TINY_TWO, TINY_THREE, TINY_NUMBER = (Schema(TINY, target) for target in (classes(2), classes(3), NUMBER))
# Votes so loud that the second tree finds records it must trust fully and records it may forget.
ADDITIVE = {
    "criterion": MaxOperator(), "stages": Sequential((Phase(1.0, 2),)), "leaf": NoisyCounts(), "refine": (EvenShrinkage(),),
    "vote": LogShares(60.0), "allocate": Uniform(split_share=0.65), "propose": Menu((OneCutEach(),)), "grid": Grid(2),
    "n_trees": 2, "depth": 1,
}  # fmt: skip
