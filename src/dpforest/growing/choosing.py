"""Ways in which a node chooses one of its candidate splits. Sees sealed scores; the choice is released."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from dpforest.common.work import Workers
from dpforest.errors import ParameterError
from dpforest.parts.criteria import Balance, Criterion, Mixture
from dpforest.parts.recipe import Choose, Recipe
from dpforest.parts.routes import Candidates, children_in_blocks
from dpforest.privacy.amounts import divide
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import Counter
from dpforest.schema import Target

# Cells of sealed statistics held at once: 64 MB of 64-bit counts.
BLOCK_CELLS = 1 << 23
# A public cap: scores of a level, 512 MB of them. Nodes that would pass it stay leaves.
MOST_SCORES = 1 << 26
# Cells of children that are scored at once: they stay in the processor's cache.
SCORED_CELLS = 1 << 17
# How many times as long it takes to score a candidate of a node as to count a code of a record, roughly.
SCORING_PASSES = 20
ONE_THREAD = Workers()
# The weight of balance is rounded to this part of the criterion's.
WEIGHT_STEPS = 64


@dataclass(frozen=True)
class Level:
    """The candidates of the open nodes of one level, with all that is needed to score them and to choose."""

    candidates: Candidates
    counter: Counter
    first: int  # the first open node
    gate: Gate
    purpose: Purpose
    criterion: Criterion
    mechanism: str | None = None  # None: that of the accountant
    distinct: bool = False  # no two nodes may take the same feature

    def scores(self, *criteria: Criterion) -> list[Sealed[np.ndarray]]:
        """One array of sealed scores ``(n_nodes, n_candidates)`` for each criterion."""
        blocks: list[list[Sealed[np.ndarray]]] = [[] for _ in criteria]
        for block, counts in self.blocks():
            for scored, criterion in zip(blocks, criteria, strict=True):
                own, workers = (criterion, self.counter.domain.offsets, self.counter.target, block), self.counter.workers
                scored.append(counts.map(partial(score, *own, workers=workers)))
        return [Sealed.concatenate(scored) for scored in blocks]

    @property
    def nodes_at_once(self) -> int:
        """The number of nodes whose histograms are held at once."""
        return max(1, BLOCK_CELLS // (self.counter.code_width * self.counter.domain.total_codes))

    def blocks(self) -> Iterator[tuple[Candidates, Sealed[np.ndarray]]]:
        """The candidates of block after block of nodes, with the sealed histograms of the features that they split on."""
        for start in range(0, len(self.candidates.indices), self.nodes_at_once):
            block = self.candidates.block(start, start + self.nodes_at_once)
            yield block, self.counter.count_codes(self.first + start, block.wanted(self.counter.domain.n_features))

    def select(
        self,
        scores: Sealed[np.ndarray],
        valid: np.ndarray,
        criterion: Criterion,
        amount: float,
        step: str | None = None,
        features: np.ndarray | None = None,
    ) -> np.ndarray:
        """The released choice ``(n_nodes,)``: the index of a valid score of each node, or -1 where none is valid.

        ``features`` are those of the scores, for choices in which no two nodes may take the same one.
        """
        bound = criterion.bound(self.counter.most_per_feature)
        purpose = self.purpose if step is None else replace(self.purpose, step=step)
        distinct = features if self.distinct else None
        return self.gate.select(scores, valid, bound, amount, purpose, mechanism=self.mechanism, distinct=distinct)


@dataclass(frozen=True)
class Joint(Choose):
    """One choice of each node, among all its candidates.

    Privacy:
        Claim: the choices of a level cost ``amount`` once.
        Because: a record is in one node of a level and moves its scores within the bound of the criterion.
        Assumes: that bound; nodes hold different records; candidates are public.
    """

    def choose(self, level: Level, amount: float) -> np.ndarray:
        (scores,) = level.scores(level.criterion)
        candidates = level.candidates
        features = candidates.features if level.distinct else None  # as large as the scores
        return level.select(scores, candidates.valid, level.criterion, amount, features=features)


@dataclass(frozen=True)
class FeatureFirst(Choose):
    """Two choices of each node, for half of the amount each: a feature, by its best split, then one of its splits.

    Privacy:
        Claim: the choices of a level cost ``amount`` once.
        Because: the largest of scores that move within a bound moves within it, so each step is a choice by the criterion;
            the second is made among splits that follow from the first, which is released, and the two add up.
        Assumes: as ``Joint``.
    """

    def choose(self, level: Level, amount: float) -> np.ndarray:
        candidates, n_features = level.candidates, level.counter.domain.n_features
        first_amount, second_amount = divide(amount, [1, 1])
        (scores,) = level.scores(level.criterion)
        best = scores.map(partial(_best_of_each_feature, candidates.features, candidates.valid, n_features))
        offered = candidates.wanted(n_features)
        own = np.broadcast_to(np.arange(n_features), offered.shape)
        chosen = level.select(best, offered, level.criterion, first_amount, "feature", features=own)
        valid = candidates.valid & (candidates.features == chosen[:, None])
        return replace(level, distinct=False).select(scores, valid, level.criterion, second_amount, "split")


@dataclass(frozen=True)
class Medians(Choose):
    """A choice of each feature's most balanced split, then of one of these by the criterion [consul2020, Algorithm 3].

    With K features a level makes K + 1 choices, each for the same share. ``jointly`` it makes one choice by a mixture in
    which balance weighs ``weight`` times as much as the criterion, both scaled to width 1: on a small budget one choice
    finds more than K + 1. What it chooses is no longer a median, and an infinite amount has no use for the saving: there
    the two stages are taken.

    Privacy:
        Claim: the choices of a level cost ``amount`` once.
        Because: a choice by ``Balance``, made in the nodes that hold the feature whose turn it is, costs its share, for a
            record is in one node; the last choice is made by the criterion among splits that were released. Turns and the
            last choice add up (adaptive sequential composition), and their shares sum to at most ``amount``. How many turns
            there are follows from the candidates. Jointly it is a ``Joint`` choice by a ``Mixture``.
        Assumes: as ``Joint``; whether the amount is infinite is public.
    """

    jointly: bool = False
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 1 / WEIGHT_STEPS <= self.weight <= WEIGHT_STEPS:
            raise ParameterError(f"balance must lie between 1/{WEIGHT_STEPS} and {WEIGHT_STEPS}, not {self.weight!r}.")

    def check(self, recipe: Recipe) -> None:
        """Raise if the criterion cannot be mixed with balance."""
        self.mixed(recipe.criterion)

    def mixed(self, criterion: Criterion) -> Mixture:
        """The mixture of the criterion and balance by which the joint choice is made."""
        weight = Fraction(round(self.weight * WEIGHT_STEPS), WEIGHT_STEPS)
        return Mixture(((criterion, weight.denominator), (Balance(), weight.numerator)))

    def choose(self, level: Level, amount: float) -> np.ndarray:
        if self.jointly and not math.isinf(amount):
            return Joint().choose(replace(level, criterion=self.mixed(level.criterion)), amount)
        candidates = level.candidates
        features, n_splits = candidates.features, np.zeros((len(candidates.indices), level.counter.domain.n_features), int)
        nodes = np.arange(len(n_splits))[:, None]
        np.add.at(n_splits, (nodes, features), candidates.valid)
        # A feature with one split has nothing to choose; the others of a node take turns.
        has_turn = n_splits > 1
        turns = np.where(has_turn, has_turn.cumsum(axis=1), 0)[nodes, features]
        n_turns, is_chosen_among = int(has_turn.sum(axis=1).max()), bool(((n_splits > 0).sum(axis=1) > 1).any())
        amounts = divide(amount, [1] * (n_turns + is_chosen_among))
        balance, scores = level.scores(Balance(), level.criterion)
        kept = candidates.valid & (turns == 0)
        for turn in range(n_turns):
            valid = candidates.valid & (turns == turn + 1)
            median = replace(level, distinct=False).select(balance, valid, Balance(), amounts[turn], "median")
            found = np.flatnonzero(median >= 0)
            kept[found, median[found]] = True
        if not is_chosen_among:
            return np.where(kept.any(axis=1), kept.argmax(axis=1), -1)
        return level.select(scores, kept, level.criterion, amounts[-1], "feature", features=features)


def choose(part: Choose, level: Level, amount: float) -> np.ndarray:
    """The index of the chosen candidate of each open node ``(n_open,)``, or -1 where none is valid.

    Where no node has two valid candidates, nothing is asked and nothing is spent.
    """
    n_offered = level.candidates.valid.sum(axis=1)
    if n_offered.max(initial=0) <= 1:
        return np.where(n_offered > 0, level.candidates.valid.argmax(axis=1), -1)
    n_most = max(1, MOST_SCORES // level.candidates.n_candidates)
    if n_most < len(n_offered):
        chosen = np.full(len(n_offered), -1)
        chosen[:n_most] = choose(part, replace(level, candidates=level.candidates.block(0, n_most)), amount)
        return chosen
    return part.choose(level, amount)


def score(
    criterion: Criterion,
    offsets: np.ndarray,
    target: Target,
    candidates: Candidates,
    counts: np.ndarray,
    workers: Workers = ONE_THREAD,
) -> np.ndarray:
    """Integer scores ``(n_nodes, n_candidates)`` by histograms ``(n_nodes, total_codes, width)``; 0 where not valid."""
    scores = np.zeros(candidates.valid.shape, dtype=np.int64)
    most = max(1, SCORED_CELLS // (candidates.routes.most_children * counts.shape[2]))

    def score_some(part: int, first: int, end: int) -> None:
        block, own = candidates.block(first, end), scores[first:end].reshape(-1)
        valid = block.valid.reshape(-1)
        for start, stop, children in children_in_blocks(counts[first:end], block, offsets, most):
            own[start:stop][valid[start:stop]] = criterion.score(children, target)

    workers.run(score_some, workers.parts(len(scores), SCORING_PASSES * candidates.n_candidates))
    return scores


def _best_of_each_feature(features, valid, n_features, scores):
    """The largest score ``(n_nodes, n_features)`` of the valid candidates of each feature; a very low one of none."""
    best = np.full((len(scores), n_features), np.iinfo(np.int64).min // 2)
    np.maximum.at(best, (np.arange(len(scores))[:, None], features), np.where(valid, scores, best[0, 0]))
    return best
