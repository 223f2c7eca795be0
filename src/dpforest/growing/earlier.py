"""A fit that starts from a released model, kept or not by a private choice. Sees sealed counts.

The trees of an earlier model are public values, so what they say of a record is a function of that record alone, and new
trees may follow them as they follow one another. But the earlier records may have been others. So a small part of the budget
buys one bit: whether the earlier model is better than knowing nothing about the records of this fit.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.growing.target import count_below, edges_within
from dpforest.mechanisms import Entropy
from dpforest.parts.recipe import Recipe
from dpforest.parts.shape import Facts
from dpforest.parts.voting import LogShares
from dpforest.privacy.bounds import Bound
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT, AllTrees, Counter, SealedTable
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Bounded, Classes, Target

KEPT = "earlier model"  # the kind of purpose of the choice
# The choice gets what makes its noise that of a hundredth of the records, as far as that is between these shares.
RECORDS, LEAST_SHARE, MOST_SHARE = 150.0, 0.01, 0.08
# Leads of scores are counted in bins, from the least to the largest, in steps.
LARGEST, N_BINS = 8, 256
WIDTH = 2 * LARGEST * SCORE_STEPS // N_BINS
LEADS = (np.arange(N_BINS) - N_BINS // 2 + 0.5) * WIDTH / SCORE_STEPS  # in the middles of bins, as log-odds
# The log-loss of a record counts up to so much more than that of knowing nothing.
MOST_OVER = 2.4
# How far from a bounded target a prediction counts as nothing but wrong, as a fraction of the range.
HALF_WIDTH = 0.25
MOST_NEAR = TARGET_STEPS // 2  # the score of a record that is predicted exactly
HURDLE = 5  # by how much a record must be nearer to the model than to its mean, as scores count it
OUTSIDE = 4  # a record outside of the earlier range of the target weighs as much as so many inside
MOST_SCORE = 1 << 29  # of a record, in steps; see ``add_scores``
# Class shares of a leaf that stand for 0, so that it has log-odds.
LEAST_LEAF_SHARE = 0.001


def additive(forest: Forest) -> Forest:
    """The forest with additive votes; raises for several trees with other votes."""
    if not len(forest.released):  # a file does not keep which counts are sums
        forest = replace(forest, released=forest.is_leaf)
    if forest.link != "shares":
        return forest
    if forest.n_trees > 1:
        raise ParameterError(
            f"The earlier model has {forest.n_trees} trees that vote each for itself; new trees can only follow trees that "
            "add up, as those of the recipe 'auto' do, or a single tree."
        )
    if isinstance(forest.target, Classes):
        shares = np.maximum(forest.shares, LEAST_LEAF_SHARE)
        shares /= shares.sum(axis=1, keepdims=True)
        vote = LogShares()
        return replace(forest, shares=shares, votes=vote.of_shares(shares), link=vote.link, draws=False)
    means = np.rint(FINE_STEPS * forest.shares[:, 1]) / FINE_STEPS
    return replace(forest, votes=np.stack([1 - means, means], axis=1), link="sum", draws=False)


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
    for number in range(forest.n_trees):
        tree = forest.only(np.arange(forest.n_trees) == number)
        descend(counter, tree, gate.entropy)
        counter.add_scores(in_steps(tree))


def descend(counter: Counter, forest: Forest, entropy: Entropy) -> None:
    """Move all records to the leaves of each tree of a released forest."""
    counter.deal(AllTrees(forest.n_trees), entropy)
    for level in forest.level_slices()[:-1]:
        routes = forest.routes[forest.splits[level]]  # of no meaning at leaves, which have no feature to follow
        counter.descend(level.start, forest.features[level], routes, forest.first_children[level])


def is_better(counter: Counter, forest: Forest, amount: float, gate: Gate) -> bool:
    """Whether the earlier model does better on the records than knowing nothing or, of a bounded target, its own mean.

    Privacy:
        Claim: costs ``amount``.
        Because: the earlier model does not depend on the records (it is public, or was released and is charged elsewhere).
            Given it, each option scores the sum over records of a whole number in 0 .. w that follows from the record alone,
            with w = MOST_WEIGHT for classes and MOST_NEAR for a bounded target. An added record raises each score by 0 .. w:
            the choice is monotone, of width w.
        Assumes: records count once.
    """
    is_classes = isinstance(counter.target, Classes)
    scores = _class_scores(counter, forest, gate) if is_classes else _mean_scores(counter, forest, gate)
    return bool(gate.select(scores, None, option_bound(counter.target), amount, Purpose(KEPT))[0])


def covers(source: SealedTable, target: Bounded, amount: float, gate: Gate) -> bool:
    """Whether most targets lie within the range that an earlier fit released, by a released choice.

    Privacy:
        Claim: costs ``amount``.
        Because: the range does not depend on the records. One option scores the number of records within it, the other
            OUTSIDE times the number of those beside it: an added record raises one of them, by 1 or by OUTSIDE. So the
            choice is monotone, of width OUTSIDE.
        Assumes: as ``is_better``.
    """
    public = source.schema.target
    assert isinstance(public, Bounded)
    ends = np.array([target.range[0], np.nextafter(target.range[1], np.inf)])
    edges = edges_within(ends, public)
    scores = source.count_targets(edges).map(partial(range_scores, edges, ends, public.range[0]))
    return bool(gate.select(scores, None, Bound(0, OUTSIDE), amount, Purpose(KEPT, "range"))[0])


def range_scores(edges: np.ndarray, ends: np.ndarray, low: float, counts: np.ndarray) -> np.ndarray:
    """Scores ``(1, 2)`` of leaving and of keeping the range, by records per number of edges at or below."""
    below, up_to = count_below(edges, counts, ends, low)
    return np.array([[OUTSIDE * (counts.sum() - (up_to - below)), up_to - below]])


def share_of(facts: Facts) -> float:
    """The share of the budget that the choices take."""
    product = facts.n_rows * facts.epsilon if facts.n_rows > 0 else 0.0
    return min(max(RECORDS / max(product, 1.0), LEAST_SHARE), MOST_SHARE)


def option_bound(target: Target) -> Bound:
    """The least and the greatest change of an option's score when a record is added; proved in ``is_better``."""
    return Bound(0, MOST_WEIGHT if isinstance(target, Classes) else MOST_NEAR)


def _class_scores(counter: Counter, forest: Forest, gate: Gate) -> Sealed[np.ndarray]:
    """Sealed scores ``(1, 2)`` of knowing nothing and of the earlier model, by the log-loss of records."""
    counter.start_scores()
    follow(counter, forest, gate)
    return counter.count_leads(WIDTH, N_BINS).map(partial(lead_scores, lead_gains(counter.target.n_values)))


def lead_gains(n_classes: int) -> np.ndarray:
    """A record's contribution to the score of either option, ``(2, n_bins)``, by the lead of its class.

    It adds to one of them: by how much the log-loss of knowing nothing is smaller than that of the model, or larger. That of
    the model is log(1 + r exp(-lead)), where r stands for the other classes: 1 for one, and for more the root of their
    number, between the best of them alone and all of them as strong as the best.
    """
    over = np.log1p(math.sqrt(n_classes - 1) * np.exp(-LEADS)) - math.log(n_classes)
    gains = np.clip(np.stack([over, -over]) / max(MOST_OVER, math.log(n_classes)), 0, 1)
    return np.floor(MOST_WEIGHT * gains).astype(np.int64)


def lead_scores(gains: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Scores ``(1, 2)`` of the options, for records ``(n_bins, n_classes)`` of each class by the lead of their own."""
    return (gains @ counts.sum(axis=1))[None]


def _mean_scores(counter: Counter, forest: Forest, gate: Gate) -> Sealed[np.ndarray]:
    """Sealed scores ``(1, 2)`` of the earlier model's mean and of the model, by their nearness to the records."""
    found = []
    mean = round(FINE_STEPS * min(max(float(forest.shares[0, 1]), 0.0), 1.0))
    for is_model in (False, True):
        counter.start_scores()
        if is_model:
            follow(counter, forest, gate)
        counter.deal(AllTrees(1), gate.entropy)
        if not is_model:
            counter.add_scores(np.array([[mean]], dtype=np.int32))
        counter.set_residual_window(round(HALF_WIDTH * FINE_STEPS))
        hurdle = 0 if is_model else HURDLE
        found.append(counter.count_values(0, 1).map(partial(near_score, hurdle)))
    return Sealed.concatenate(found).map(lambda scores: scores[None])


def near_score(hurdle: int, counts: np.ndarray) -> np.ndarray:
    """The score ``(1,)`` of predictions: by how many steps each record is nearer than HALF_WIDTH, summed, and a hurdle each.

    ``counts`` ``(1, TARGET_STEPS + 1)`` are records by what is left of their target, which is 0 in the middle.
    """
    steps = np.arange(TARGET_STEPS + 1)
    return counts @ np.minimum(MOST_NEAR - np.abs(steps - MOST_NEAR) + hurdle, MOST_NEAR)
