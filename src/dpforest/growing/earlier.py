"""A fit that starts from a released model: whether that is worth keeping is a private choice. Sees sealed counts.

The trees of an earlier model are public values, so what they say of a record is a function of that record alone, and new
trees may follow them as they follow one another. But the earlier records may have been others. So a small part of the budget
buys one bit: whether the earlier model is better than knowing nothing about the records of this fit.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.parts.recipe import Recipe
from dpforest.parts.shape import Facts
from dpforest.parts.voting import LogShares
from dpforest.privacy.amounts import divide
from dpforest.privacy.base import Bound
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT, AllTrees, Counter, Scored, Valued
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Classes, Target

KEPT = "earlier model"  # the kind of purpose of the choice
# The choice gets what makes its noise that of a hundredth of the records, as far as that is between these shares.
RECORDS, LEAST_SHARE, MOST_SHARE = 150.0, 0.01, 0.08
# Leads of scores are counted in bins, from the least to the largest, in steps.
LARGEST, N_BINS = 8, 256
WIDTH = 2 * LARGEST * SCORE_STEPS // N_BINS
# The log-loss of a record counts up to so much more than that of knowing nothing.
MOST_OVER = 2.4
# How far from a bounded target a prediction counts as nothing but wrong, as a fraction of the range.
HALF_WIDTH = 0.25
MOST_NEAR = TARGET_STEPS // 2  # the score of a record that is predicted exactly
MOST_SCORE = 1 << 29  # of a record, in steps; see ``Scored``
# Class shares of a leaf that stand for 0, so that it has log-odds.
LEAST_LEAF_SHARE = 0.001


def additive(forest: Forest) -> Forest:
    """The forest with votes that add up; raises for trees that vote otherwise, unless there is only one."""
    known = {} if len(forest.released) else {"released": forest.is_leaf}
    if forest.link != "shares":
        return replace(forest, **known)
    if forest.n_trees > 1:
        raise ParameterError(
            f"The earlier model has {forest.n_trees} trees that vote each for itself; new trees can only follow trees that "
            "add up, as those of the recipe 'auto' do, or a single tree."
        )
    if isinstance(forest.target, Classes):
        shares = np.maximum(forest.shares, LEAST_LEAF_SHARE)
        shares /= shares.sum(axis=1, keepdims=True)
        vote = LogShares()
        return replace(forest, **known, shares=shares, votes=vote.of_shares(shares), link=vote.link, draws=False)
    means = np.rint(FINE_STEPS * forest.shares[:, 1]) / FINE_STEPS
    return replace(forest, **known, votes=np.stack([1 - means, means], axis=1), link="sum", draws=False)


def starting(recipe: Recipe, forest: Forest | None) -> Recipe:
    """The recipe with stages that start from a released forest, if there is one; raises if they cannot."""
    if forest is None:
        return recipe
    if recipe.stages is None or not recipe.stages.can_start:
        raise ParameterError(
            f"Recipe {recipe.name!r} cannot start from an earlier model: its trees do not follow one another. Use recipe="
            "'auto', or leave out earlier_model."
        )
    stages: Any = recipe.stages
    return replace(recipe, stages=replace(stages, start=forest))


def in_steps(forest: Forest) -> np.ndarray:
    """The votes of nodes as counters add them up, in whole steps ``(n_nodes, n_scores)``."""
    votes = SCORE_STEPS * forest.votes if isinstance(forest.target, Classes) else FINE_STEPS * forest.votes[:, 1:]
    return np.clip(np.rint(votes), -MOST_SCORE, MOST_SCORE).astype(np.int32)


def follow(counter: Counter, forest: Forest, gate: Gate) -> None:
    """Add the votes of a released forest to the scores of all records, one tree after the other."""
    width = counter.domain.route_width
    for number in range(forest.n_trees):
        tree = forest.only(np.arange(forest.n_trees) == number)
        counter.deal(AllTrees(1), gate.entropy)
        for level in tree.level_slices()[:-1]:
            inner = ~tree.is_leaf[level]
            routes = np.zeros((len(inner), width), dtype=np.uint16)
            routes[inner] = tree.routes[tree.splits[level][inner], :width]
            counter.descend(level.start, tree.features[level], routes, tree.first_children[level])
        cast(Scored, counter).add_scores(in_steps(tree))


def is_kept(counter: Counter, forest: Forest, facts: Facts, amount: float, gate: Gate) -> tuple[bool, float]:
    """Whether the earlier model is kept, by how well it does on the records, and what is left of ``amount``.

    Privacy:
        Claim: costs at most the share of ``amount`` that it takes.
        Because: the earlier model does not depend on the records (it is public, or was released and is charged elsewhere).
            Given it, each option scores the sum over records of a whole number in 0 .. w that follows from the record alone,
            with w = MOST_WEIGHT for classes and MOST_NEAR for a bounded target. An added record raises each score by 0 .. w:
            the choice is monotone, of width w.
        Assumes: records count once; the share follows from public or released facts.
    """
    own, rest = divide(amount, [share_of(facts), 1 - share_of(facts)])
    is_classes = isinstance(counter.target, Classes)
    scores = _class_scores(counter, forest, gate) if is_classes else _mean_scores(counter, forest, gate)
    chosen = gate.select(scores, None, option_bound(counter.target), own, Purpose(KEPT))
    return bool(chosen[0]), rest


def share_of(facts: Facts) -> float:
    """The share of the budget that the choice takes."""
    product = facts.n_rows * facts.epsilon if facts.n_rows > 0 else 0.0
    return min(max(RECORDS / max(product, 1.0), LEAST_SHARE), MOST_SHARE)


def option_bound(target: Target) -> Bound:
    """The least and the greatest change of an option's score when a record is added; proved in ``is_kept``."""
    return Bound(0, MOST_WEIGHT if isinstance(target, Classes) else MOST_NEAR)


def _class_scores(counter: Counter, forest: Forest, gate: Gate) -> Sealed[np.ndarray]:
    """Sealed scores ``(1, 2)`` of knowing nothing and of the earlier model, by the log-loss of records."""
    scored = cast(Scored, counter)
    scored.start_scores()
    follow(counter, forest, gate)
    return scored.count_leads(WIDTH, N_BINS).map(partial(lead_scores, lead_gains(counter.target.n_values)))


def lead_gains(n_classes: int) -> np.ndarray:
    """What a record adds to the score of either option, ``(2, n_bins)``, by how far the earlier score of its class leads.

    The loss is log(1 + r exp(-lead)), where r stands for the other classes: 1 for one, and for more the root of their
    number, between the best of them alone and all of them as strong as the best.
    """
    leads = (np.arange(N_BINS) - N_BINS // 2 + 0.5) * WIDTH / SCORE_STEPS
    none, worst = math.log(n_classes), math.log(n_classes) + MOST_OVER
    losses = np.minimum(np.log1p(math.sqrt(n_classes - 1) * np.exp(-leads)), worst)
    return np.floor(MOST_WEIGHT * (1 - np.stack([np.full(N_BINS, none), losses]) / worst)).astype(np.int64)


def lead_scores(gains: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Scores ``(1, 2)`` of the options, for records ``(n_bins, n_classes)`` of each class by the lead of their own."""
    return (gains @ counts.sum(axis=1))[None]


def _mean_scores(counter: Counter, forest: Forest, gate: Gate) -> Sealed[np.ndarray]:
    """Sealed scores ``(1, 2)`` of the mean of the earlier model and of the model, by how near they are to the records."""
    scored, found = cast(Scored, counter), []
    mean = round(FINE_STEPS * min(max(float(forest.shares[0, 1]), 0.0), 1.0))
    for is_model in (False, True):
        scored.start_scores()
        counter.deal(AllTrees(1), gate.entropy)
        if is_model:
            follow(counter, forest, gate)
            counter.deal(AllTrees(1), gate.entropy)
        else:
            scored.add_scores(np.array([[mean]], dtype=np.int32))
        scored.set_residual_window(round(HALF_WIDTH * FINE_STEPS))
        found.append(cast(Valued, counter).count_values(0, 1).map(near_score))
    return Sealed.concatenate(found).map(_one_row)


def near_score(counts: np.ndarray) -> np.ndarray:
    """The score ``(1,)`` of predictions: by how many steps each record is nearer than HALF_WIDTH, summed.

    ``counts`` ``(1, TARGET_STEPS + 1)`` are records by what is left of their target, which is 0 in the middle.
    """
    steps = np.arange(TARGET_STEPS + 1)
    return counts @ (MOST_NEAR - np.abs(steps - MOST_NEAR))


def _one_row(values: np.ndarray) -> np.ndarray:
    return values[None]
