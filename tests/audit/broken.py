"""Broken twins of sound recipes: each has one mistake that an audit must find, and is sound but for it.

A twin that no replay can see is one whose mistake lies inside a sampler: there only what was drawn can tell.
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
from tests.support.strategies import recipe_of

from dpforest import Categorical, DPForestClassifier, Schema
from dpforest.audit.replay import replay_many
from dpforest.audit.subject import Subject
from dpforest.mechanisms import Entropy, Rate
from dpforest.parts.allocation import LeavesOnly, Uniform
from dpforest.parts.criteria import UNITS, GiniCount
from dpforest.parts.leaves import NoisyCounts, PrivateLabel
from dpforest.parts.proposals import Menu
from dpforest.parts.recipe import Narrow
from dpforest.parts.sampling import Disjoint, SecretSample
from dpforest.privacy import accountants
from dpforest.privacy.amplification import inside_sample, outside_sample
from dpforest.privacy.bounds import Bound, Sensitivity
from dpforest.privacy.gate import Gate
from dpforest.records import vault as vault_module
from dpforest.records.coins import NO_WEIGHTS
from dpforest.records.counter import MemoryCounter
from dpforest.records.vault import Vault

# Random splits and all of the budget in the leaves, so that what is wrong there shows undiluted.
COUNTS = recipe_of(
    name="random splits, noisy counts", propose=Menu(random=True), allocate=LeavesOnly(), depth=1, tasks=("classification",)
)
LABELS = replace(COUNTS, name="random splits, private labels", leaf=PrivateLabel())
DEALT = replace(COUNTS, name="random splits, disjoint trees", sample=Disjoint(), n_trees=3)
GREEDY = replace(COUNTS, name="greedy splits", propose=Menu(), allocate=Uniform(split_share=0.9))
SAMPLED = replace(COUNTS, name="random splits, secret sample", secret_sample=SecretSample(3.0))


def first_findings(subject, n_pairs=60):
    """The findings of the first cases that have any."""
    for start in range(0, n_pairs, 10):
        replays = replay_many(subject, 10, first_case=start)
        if replays.findings:
            return replays.findings
    return ()


def with_gate(gate):
    """A classifier that opens sealed values by another kind of gate."""

    def make_gate(ledger, random_state):
        return gate(ledger, Entropy(random_state))

    parts = {"_make_gate": staticmethod(make_gate), "__module__": gate.__module__}
    return type(f"With{gate.__name__}", (DPForestClassifier,), parts)


def with_counter(counter):
    """A classifier whose records are counted by another kind of counter."""
    return patched((vault_module, "MemoryCounter", counter))


def with_sample(sampled):
    """A classifier whose secret samples are drawn by ``sampled(vault, share, entropy)``."""
    return patched((Vault, "sampled", sampled))


def patched(*changes):
    """A classifier that is fitted with other attributes of some classes or modules: their owner, name and value."""

    def fit(self, *arguments, **named):
        with ExitStack() as stack:
            for change in changes:
                stack.enter_context(patch.object(*change))
            return DPForestClassifier.fit(self, *arguments, **named)

    return type("Patched", (DPForestClassifier,), {"fit": fit, "__module__": __name__})


# --- mistakes of the gate -------------------------------------------------------------------------------------------


class QuietGate(Gate):
    """Noise is a fifth too small: it runs at 5/4 of the rate that was paid for."""

    factor = Fraction(5, 4)

    def add_noise(self, values, sensitivity, amount, label):
        less = Sensitivity(sensitivity.l1 / self.factor, sensitivity.l2_squared / self.factor**2)
        return super().add_noise(values, less, amount, label)


class FaintGate(QuietGate):
    """Noise has half of its scale."""

    factor = Fraction(2)


class FloatGate(Gate):
    """Laplace and normal noise in floating point: which numbers can come out depends on the count that went in."""

    def _add_noise(self, values, spread):
        rng = self.entropy.generator()
        if isinstance(spread, Rate):
            return values + rng.laplace(scale=spread.denominator / spread.numerator, size=values.shape)
        return values + rng.normal(scale=float(spread) ** 0.5, size=values.shape)


class OneStreamGate(Gate):
    """Trees draw from generators of one seed: the leaves of the second half get the noise of the first half again."""

    def _add_noise(self, values, spread):
        n_drawn = -(-len(values) // 2)
        noise = super()._add_noise(np.zeros((n_drawn, *values.shape[1:]), dtype=np.int64), spread)
        return values + np.concatenate([noise, noise])[: len(values)]


# --- mistakes of parts ----------------------------------------------------------------------------------------------


class HalvedGini(GiniCount):
    """The bound is halved: one record for an impurity that can rise by two."""

    def bound(self, most=1):
        return Bound(low=-UNITS, high=0)


class ByPosition(MemoryCounter):
    """Rows are dealt in turn: a new first row moves every other row to another tree."""

    def deal(self, assignment, entropy):
        order = np.arange(self._target_codes.size, dtype=np.int32)
        self._start((order % assignment.n_trees)[None], NO_WEIGHTS)


class EqualParts(MemoryCounter):
    """A shuffle is cut into parts of equal size: a new row moves others between them."""

    def deal(self, assignment, entropy):
        order = entropy.generator().permutation(self._target_codes.size).astype(np.int32)
        self._start((order % assignment.n_trees)[None], NO_WEIGHTS)


@dataclass(frozen=True)
class PureNodes(Narrow):
    """Nodes stop when the exact counts say that one class is left."""

    share: float = 0.5

    def narrow(self, candidates, counter, first, amount, gate, label):
        seen = []
        counter.count_nodes(first, len(candidates.indices)).map(seen.append)
        mixed = (seen[0] > 0).sum(axis=1) > 1
        return replace(candidates, valid=candidates.valid & mixed[:, None])


class BestOfThree(PrivateLabel):
    """Three choices of a label are charged as if each were about other records; the commonest is released."""

    def release(self, statistics, amount, gate, target, label, most=1):
        with gate.ledger.scope("three choices", "parallel"):
            chosen = [gate.select(statistics, None, Bound(0, most), amount, label) for _ in range(3)]
        votes = np.eye(target.n_values)[chosen].sum(axis=0)
        return np.eye(target.n_values)[votes.argmax(axis=1)], 0.0


class MeanOfTwo(NoisyCounts):
    """Counts are released a second time for a better mean, and nobody charges for that."""

    def release(self, statistics, amount, gate, target, label, most=1):
        counts, variance = gate.add_noise(statistics, Sensitivity(most, most**2), amount, label)
        again = gate._add_noise(statistics._value, Rate.below(Fraction(amount) / most))
        return (counts + again) / (2 * most), variance / most**2 / 2


class PresentClasses(NoisyCounts):
    """A class that no record of a leaf has is left at 0, without noise."""

    def release(self, statistics, amount, gate, target, label, most=1):
        counts, variance = gate.add_noise(statistics, Sensitivity(most, most**2), amount, label)
        present = []
        statistics.map(lambda exact: present.append(exact > 0))
        return np.where(present[0], counts, 0) / most, variance / most**2


class SeenCategories(DPForestClassifier):
    """The categories of a column are those that occur in it."""

    def fit(self, X, y=None, **how):
        declared, features = self.schema, dict(self.schema.features)
        for place, (name, feature) in enumerate(features.items()):
            seen = sorted({value for value in X[:, place] if isinstance(value, str | int)}, key=str)
            if isinstance(feature, Categorical) and seen:
                features[name] = Categorical(seen)
        self.schema = Schema(features, declared.target, declared.n_rows)
        try:
            return super().fit(X, y, **how)
        finally:
            self.schema = declared


# --- mistakes with secret samples -----------------------------------------------------------------------------------


def of_rows(choose):
    """A way to draw samples: the rows that ``choose(columns, n_rows, entropy)`` names by index."""

    def sampled(vault, share, entropy):
        rows = vault._used()
        chosen = np.asarray(choose(rows.columns, rows.n_rows, entropy), dtype=np.int64)
        return vault._of(rows.taken(vault._wanted, chosen, vault._workers))

    return sampled


@of_rows
def every_second(columns, n_rows, entropy):
    """A sample of every second row: a new first row brings all those that were left out."""
    return np.arange(0, n_rows, 2)


@of_rows
def exact_half(columns, n_rows, entropy):
    """A sample of exactly half of the rows, by lot: a new row moves others in and out."""
    return np.sort(entropy.generator().permutation(n_rows)[: n_rows // 2])


@of_rows
def even_ranks(columns, n_rows, entropy):
    """A sample of the rows whose first value has an even rank among all: a new value moves the ranks of those above it."""
    return np.flatnonzero(np.argsort(np.argsort([str(value) for value in columns[0]], kind="stable")) % 2 == 0)


def no_coins(vault, share, entropy):
    """No sample is drawn, and what is charged is that of one."""
    return vault


def of_half_the_share(formula):
    """What a sample costs is taken to be what one of half its share does."""
    return lambda epsilon, share: formula(epsilon, share / 2 if share < 1 else share)


# --- all of them, beside what they would be without their mistake -----------------------------------------------------

FORMULAS = [(accountants, formula.__name__, of_half_the_share(formula)) for formula in (inside_sample, outside_sample)]


def _twin(name, original, classifier=DPForestClassifier, **parts):
    return Subject(replace(original, name=name, **parts), classifier=classifier), Subject(original)


_PAIRS = [
    _twin("noise too small", COUNTS, with_gate(QuietGate)),
    _twin("bound halved", GREEDY, criterion=HalvedGini()),
    _twin("rows by position", DEALT, with_counter(ByPosition)),
    _twin("equal parts", DEALT, with_counter(EqualParts)),
    _twin("pure nodes", COUNTS, narrow=PureNodes()),
    _twin("categories from data", COUNTS, SeenCategories),
    _twin("choices charged once", LABELS, leaf=BestOfThree()),
    _twin("forgotten charge", COUNTS, leaf=MeanOfTwo()),
    _twin("absent classes", COUNTS, leaf=PresentClasses()),
    _twin("shared generator", replace(DEALT, n_trees=2), with_gate(OneStreamGate)),
    _twin("float noise", COUNTS, with_gate(FloatGate)),
    _twin("sample by position", SAMPLED, with_sample(every_second)),
    _twin("sample of exactly half", SAMPLED, with_sample(exact_half)),
    _twin("sample by rank", SAMPLED, with_sample(even_ranks)),
    _twin("amplified by half the share", SAMPLED, patched(*FORMULAS)),
]
TWINS: dict[str, Subject] = {broken.name: broken for broken, _ in _PAIRS}
ORIGINALS: dict[str, Subject] = {broken.name: sound for broken, sound in _PAIRS}
