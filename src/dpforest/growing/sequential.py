"""Trees in sequence: each is about what the released trees before it still get wrong. Sees sealed counts, by protocol."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dpforest.common.progress import Step
from dpforest.errors import ParameterError
from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.growing.grower import grow
from dpforest.growing.together import refined
from dpforest.parts.recipe import Recipe, Stages
from dpforest.parts.shape import Facts
from dpforest.privacy.amounts import divide, divide_evenly
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.records.base import MOST_CLASSES, MOST_WEIGHT, AllTrees, Counter, Scored
from dpforest.schema import FINE_STEPS, Bounded, Classes, Target


@dataclass(frozen=True)
class Phase:
    """Some of the trees of a sequence, with a share of the budget and parts in place of the recipe's.

    With ``one_feature_each`` every tree splits on one feature alone; the trees take the features in turn, in random order.
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


@dataclass(frozen=True)
class Sequential(Stages):
    """One tree after the other on all records, which count by their residuals; votes add up to log-odds.

    Before the first tree all residuals are the same, so its records count once. The number of trees is that of the phases.

    Privacy:
        Claim: costs at most ``amount``.
        Because: given the released trees, the weight of a record is a function of that record alone and at most
            MOST_WEIGHT, so an added record changes no other record's weight and moves the counts of one node of a level by
            at most that: each tree costs its budget (``grow``), and trees add up (adaptive sequential composition).
        Assumes: the numbers of trees are public or follow from released values; so does the order of features.
    """

    phases: tuple[Phase, ...]
    in_sequence: ClassVar[bool] = True
    by_residuals: ClassVar[bool] = True
    needs = (Scored,)

    def check(self, recipe: Recipe) -> None:
        """Raise unless the parts of all phases have a proof for weighted records, and the numbers of trees agree."""
        if isinstance(recipe.n_trees, int) and recipe.n_trees != self.n_trees:
            raise ParameterError(
                f"The phases of recipe {recipe.name!r} have {self.n_trees} trees in all; n_trees is {recipe.n_trees}."
            )
        for index, phase in enumerate(self.phases):
            step = replace(recipe, **phase.parts)
            if step.narrow is not None:
                raise ParameterError(
                    f"{type(step.narrow).__name__} of recipe {recipe.name!r} needs records that count once."
                )
            if index or phase.n_trees > 1:
                step.criterion.bound(MOST_WEIGHT)  # refuses if it has no bound for weights

    @property
    def n_trees(self) -> int:
        """The number of trees of all phases."""
        return sum(phase.n_trees for phase in self.phases)

    def accepts(self, target: Target) -> bool:
        return isinstance(target, Classes) and 1 < target.n_values <= MOST_CLASSES

    def train(
        self, counter: Counter, recipe: Recipe, amount: float, gate: Gate, facts: Facts, progress: Callable[[str], None]
    ) -> Forest:
        assert isinstance(counter, Scored)
        counter.start_scores()
        trees: list[Forest] = []
        amounts = divide(amount, [phase.share for phase in self.phases])
        for phase, own in zip(self.phases, amounts, strict=True):
            step = replace(recipe, **phase.parts, n_trees=1)
            budget = step.allocate.plan(divide_evenly(own, phase.n_trees), step.depth)
            features = gate.entropy.generator().permutation(counter.domain.n_features)
            for number in range(phase.n_trees):
                counter.deal(AllTrees(1), gate.entropy)
                if trees:
                    counter.weigh_residuals()
                feature = features[number % len(features)]
                order = np.full((1, budget.depth), feature) if phase.one_feature_each else None
                with gate.ledger.scope(Purpose("tree", tree=len(trees) + 1)):
                    tree = refined(grow(counter, step, budget, gate, facts, feature_order=order), step)
                counter.add_scores(np.rint(SCORE_STEPS * tree.votes).astype(np.int32))
                trees.append(tree)
                progress(Step(f"tree {len(trees)} of {self.n_trees}", len(trees), self.n_trees))
        return Forest.join(trees)


@dataclass(frozen=True)
class SequentialMeans(Stages):
    """One tree after the other, each on the residuals of a bounded target; the means of their leaves add up.

    The first tree sees the target; each later one its distance from the prediction so far, clipped to ``half_width`` (a
    fraction of the range) on both sides.

    Privacy:
        Claim: costs at most ``amount``.
        Because: given the released trees, what is seen of a record is a function of that record alone, in the range that
            the releases of a tree assume: each tree costs its budget (``grow``), and trees add up.
        Assumes: as ``Sequential``.
    """

    half_width: float = 0.25
    in_sequence: ClassVar[bool] = True
    needs = (Scored,)
    targets = (Bounded,)

    def __post_init__(self) -> None:
        if not 1 / FINE_STEPS <= self.half_width <= 1:
            raise ParameterError(f"half_width must lie in [{1 / FINE_STEPS:.2g}, 1], not {self.half_width!r}.")

    def train(
        self, counter: Counter, recipe: Recipe, amount: float, gate: Gate, facts: Facts, progress: Callable[[str], None]
    ) -> Forest:
        share, step, half = (
            divide_evenly(amount, recipe.n_trees),
            replace(recipe, n_trees=1),
            round(self.half_width * FINE_STEPS),
        )
        budget = recipe.allocate.plan(share, recipe.depth)
        assert isinstance(counter, Scored)
        counter.start_scores()
        trees: list[Forest] = []
        for number in range(recipe.n_trees):
            counter.deal(AllTrees(1), gate.entropy)
            if number:
                counter.set_residual_window(half)
            with gate.ledger.scope(Purpose("tree", tree=number + 1)):
                tree = refined(grow(counter, step, budget, gate, facts), step)
            votes = tree.votes if not number else 2 * half / FINE_STEPS * (tree.votes - 0.5)
            steps = np.rint(FINE_STEPS * votes[:, 1:]).astype(np.int32)
            counter.add_scores(steps)
            exact = steps[:, 0] / FINE_STEPS
            votes = np.stack([(1 - exact) if not number else -exact, exact], axis=1)
            trees.append(replace(tree, votes=votes, link="sum"))
            progress(Step(f"tree {number + 1} of {recipe.n_trees}", number + 1, recipe.n_trees))
        return Forest.join(trees)
