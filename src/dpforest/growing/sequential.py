"""Trees in sequence: each is about what the released trees before it still get wrong. Sees sealed counts, by protocol."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from dpforest.common.work import Step
from dpforest.errors import ParameterError
from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.growing.earlier import follow
from dpforest.growing.grower import grow, refined
from dpforest.parts.part import Part
from dpforest.parts.recipe import Job, Recipe, Stages
from dpforest.privacy.amounts import add, divide, divide_evenly
from dpforest.privacy.events import Purpose
from dpforest.records.base import MOST_CLASSES, MOST_WEIGHT, AllTrees
from dpforest.schema import FINE_STEPS, Bounded, Classes, Target


def rounds(n_trees: int, n_batches: int) -> int:
    """The most trees, of ``n_trees`` taking turns on batches, that one record is in."""
    return math.ceil(n_trees / min(n_batches, n_trees))


@dataclass
class Ensemble(Job):
    """A sequence under way: what its steps ask, and the trees released so far."""

    n_planned: int = 1  # of trees, as progress counts them: a step of another kind is one
    trees: list[Forest] = field(default_factory=list)
    n_batches: int = 1
    n_before: int = 0  # of ``trees``, those that were there before the run

    @property
    def prior(self) -> float:
        """The log-odds of the second of two classes by the first tree, if it is one leaf; else 0."""
        is_leaf = bool(self.trees) and self.trees[0].n_nodes == 1
        return float(self.trees[0].votes[0, 1] - self.trees[0].votes[0, 0]) if is_leaf else 0.0

    @property
    def n_grown(self) -> int:
        """The number of trees so far."""
        return sum(tree.n_trees for tree in self.trees)

    def in_turn(self, n_trees: int) -> Iterator[int]:
        """The number of each of ``n_trees`` trees, while counts are about the batch of records whose turn it is.

        The trees of a round are in a parallel scope of the ledger. A single tree has all records, as all have without
        batches.
        """
        if self.n_batches == 1 or n_trees == 1:
            yield from range(n_trees)
            return
        for first in range(0, n_trees, self.n_batches):
            with self.gate.ledger.scope(Purpose("batches", round=first // self.n_batches + 1), "parallel"):
                for batch in range(min(self.n_batches, n_trees - first)):
                    self.counter.take_turn(batch)
                    yield first + batch
        self.counter.take_turn(None)

    def start_tree(self, sees: str = "target") -> None:
        """Put all records at a root in turn, for a criterion that ``sees`` it; later trees weigh them."""
        self.counter.deal(AllTrees(1), self.gate.entropy)
        if sees == "residuals":
            self.counter.spread_residuals()
        elif self.trees:
            self.counter.weigh_residuals()

    def add(self, tree: Forest) -> None:
        """Add the votes of a tree to the scores of the records, which are at its leaves."""
        self.counter.add_scores(np.rint(SCORE_STEPS * tree.votes).astype(np.int32))
        self.trees.append(tree)
        done = min(len(self.trees) - self.n_before, self.n_planned)
        self.progress(Step(f"tree {done} of {self.n_planned}", done, self.n_planned))


class SequenceStep(Part, Protocol):
    """One of the steps of a sequence; it may follow from what the steps before it have released."""

    share: float  # of the budget, at most
    n_trees: int  # the number of trees that it grows, as users count them

    def train(self, run: Ensemble, amount: float) -> float:
        """What is left of ``amount`` after it has released trees and added them to the run."""


@dataclass(frozen=True)
class Phase(SequenceStep):
    """Some of the trees of a sequence, with a share of the budget and parts in place of the recipe's.

    With ``one_feature_each`` every tree splits on one feature alone; the trees take the features in turn, in random order.

    Privacy:
        Claim: costs at most ``amount``.
        Because: each of its rounds has an equal part of it, which is what a tree costs (``grow``). Trees of a round are
            about different records, so a round costs what one of them does; without batches it is one tree.
        Assumes: as ``Sequential``.
    """

    share: float
    n_trees: int
    parts: Mapping[str, Any] = field(default_factory=dict)
    one_feature_each: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or self.n_trees < 1:
            raise ParameterError(
                f"A phase needs a share in (0, 1] and at least one tree, not {self.share!r}, {self.n_trees!r}."
            )

    def train(self, run: Ensemble, amount: float) -> float:
        step, gate = replace(run.recipe, **self.parts, n_trees=1), run.gate
        budget = step.allocate.plan(divide_evenly(amount, rounds(self.n_trees, run.n_batches)), step.depth)
        rng = gate.entropy.generator()
        features = rng.permutation(run.counter.domain.n_features) if self.one_feature_each else np.empty(0, dtype=np.int64)
        for number in run.in_turn(self.n_trees):
            run.start_tree(step.criterion.sees)
            order = np.full((1, budget.depth), features[number % len(features)]) if self.one_feature_each else None
            with gate.ledger.scope(Purpose("tree", tree=run.n_grown + 1)):
                run.add(refined(grow(Job(run.counter, step, gate, run.facts), budget, order), step))
        return 0.0


@dataclass(frozen=True)
class Sequential(Stages):
    """Steps in sequence on all records, weighted by residuals; the votes of trees add up to log-odds.

    Before the first tree all residuals are alike, so its records count once, unless the criterion sees residuals. The number
    of trees is that of the phases.

    With ``batches``, each record is in one of them, drawn for that record alone, and the trees of a phase take turns: each
    is grown on one batch, and may spend as many times more. Without delta that is the same signal, rows times epsilon, for a
    fraction of the counting.

    With ``start``, a forest that was released before, its trees come first, and the first new tree is about what they get
    wrong.

    Privacy:
        Claim: costs at most ``amount``.
        Because: given the released trees, those of ``start`` among them, the weight of a record is a function of that record
            alone and at most MOST_WEIGHT, so an added record changes no other record's weight and moves the counts of one
            node of a level by at most that: each tree costs its budget (``grow``), each other step its own, and they add up
            (adaptive sequential composition), whatever a step makes of released values. What a step leaves follows from
            released values too, and is divided among those that come later. Given the draws, an added record is counted in
            one batch only, and its draw depends on no other record: whatever the trees of a round release, those of other
            batches have the same law with and without it, given what was released before. So a round costs what its dearest
            tree costs (parallel composition, which may be adaptive), and rounds add up.
        Assumes: the numbers of trees are public or follow from released values; so does the order of features.
    """

    phases: tuple[SequenceStep, ...]
    batches: int = 1
    start: Forest | None = None
    in_sequence: ClassVar[bool] = True
    by_residuals: ClassVar[bool] = True
    can_start: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise ParameterError(f"Trees take turns on at least one batch, not {self.batches!r}.")

    def check(self, recipe: Recipe) -> None:
        """Raise unless the parts of all phases have a proof for weighted records, and the numbers of trees agree."""
        if isinstance(recipe.n_trees, int) and recipe.n_trees != self.n_trees:
            raise ParameterError(
                f"The phases of recipe {recipe.name!r} have {self.n_trees} trees in all; n_trees is {recipe.n_trees}."
            )
        for index, phase in enumerate(self.phases):
            if not isinstance(phase, Phase):
                if self.start is not None:
                    raise ParameterError(
                        f"{type(phase).__name__} of recipe {recipe.name!r} cannot follow an earlier model: it does not look "
                        "at what that gets wrong."
                    )
                phase.check(recipe)
                continue
            step = replace(recipe, **phase.parts, stages=replace(self, phases=()), n_trees=0)
            step.check_parts()
            if step.narrow is not None:
                raise ParameterError(
                    f"{type(step.narrow).__name__} of recipe {recipe.name!r} needs records that count once."
                )
            if index or phase.n_trees > 1 or self.start is not None:
                step.criterion.bound(MOST_WEIGHT)  # refuses if it has no bound for weights

    @property
    def n_trees(self) -> int:
        """The number of trees of all phases."""
        return sum(phase.n_trees for phase in self.phases)

    def accepts(self, target: Target) -> bool:
        fits = isinstance(target, Classes) and 1 < target.n_values <= MOST_CLASSES
        return fits and all(phase.accepts(target) for phase in self.phases)

    def train(self, job: Job, amount: float) -> Forest:
        n_planned = sum(max(phase.n_trees, 1) for phase in self.phases)
        run = Ensemble(**vars(job), n_planned=n_planned, n_batches=self.batches)
        run.counter.start_scores()
        if self.start is not None:
            follow(run.counter, self.start, run.gate)
            run.trees, run.n_before = [self.start], 1
        if self.batches > 1:
            run.counter.divide(self.batches, run.gate.entropy)
        for index, phase in enumerate(self.phases):
            own, later = divide(amount, [phase.share, sum(other.share for other in self.phases[index + 1 :])])
            amount = add(later, phase.train(run, own))
        return Forest.join(run.trees)


@dataclass(frozen=True)
class SequentialMeans(Stages):
    """One tree after the other, each on the residuals of a bounded target; the means of their leaves add up.

    The first tree sees the target, unless it follows those of ``start``, a forest that was released before; each later one
    its distance from the prediction so far, clipped to ``half_width`` (a fraction of the range) on both sides, of which it
    adds the share ``rate``.

    Privacy:
        Claim: costs at most ``amount``.
        Because: given the released trees, what is seen of a record is a function of that record alone, in the range that
            the releases of a tree assume: each tree costs its budget (``grow``), and trees add up.
        Assumes: as ``Sequential``.
    """

    half_width: float = 0.25
    rate: float = 1.0
    start: Forest | None = None
    in_sequence: ClassVar[bool] = True
    can_start: ClassVar[bool] = True
    targets = (Bounded,)

    def __post_init__(self) -> None:
        if not 1 / FINE_STEPS <= self.half_width <= 1:
            raise ParameterError(f"half_width must lie in [{1 / FINE_STEPS:.2g}, 1], not {self.half_width!r}.")
        if not 0 < self.rate <= 1:
            raise ParameterError(f"The rate must lie in (0, 1], not {self.rate!r}.")

    def train(self, job: Job, amount: float) -> Forest:
        counter, recipe, gate = job.counter, job.recipe, job.gate
        step, half = replace(recipe, n_trees=1), round(self.half_width * FINE_STEPS)
        budget = recipe.allocate.plan(divide_evenly(amount, recipe.n_trees), recipe.depth)
        counter.start_scores()
        trees: list[Forest] = []
        if self.start is not None:
            follow(counter, self.start, gate)
            trees.append(self.start)
        n_before = sum(tree.n_trees for tree in trees)
        for number in range(recipe.n_trees):
            counter.deal(AllTrees(1), gate.entropy)
            if trees:
                counter.set_residual_window(half)
            with gate.ledger.scope(Purpose("tree", tree=n_before + number + 1)):
                tree = refined(grow(Job(counter, step, gate, job.facts), budget), step)
            votes = tree.votes if not trees else self.rate * 2 * half / FINE_STEPS * (tree.votes - 0.5)
            steps = np.rint(FINE_STEPS * votes[:, 1:]).astype(np.int32)
            counter.add_scores(steps)
            exact = steps[:, 0] / FINE_STEPS
            votes = np.stack([-exact if trees else 1 - exact, exact], axis=1)
            trees.append(replace(tree, votes=votes, link="sum"))
            job.progress(Step(f"tree {number + 1} of {recipe.n_trees}", number + 1, recipe.n_trees))
        return Forest.join(trees)
