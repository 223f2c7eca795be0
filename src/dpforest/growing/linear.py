"""Steps of a sequence that look at all features together, of two classes and of more. Sees sealed sums, by protocol."""

import math
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.growing.earlier import LARGEST, LEADS, N_BINS, WIDTH
from dpforest.growing.labelled import LabelledRule, choose_rule, cut_scores
from dpforest.growing.scores import (
    N_CUTS,
    Direction,
    Maps,
    add_by_code,
    averaged,
    class_weights,
    direction_of,
    even_maps,
    in_steps,
    linear_maps,
    look_at,
    marginal_trees,
    n_full,
)
from dpforest.growing.sequential import Ensemble, Phase, SequenceStep, Sequential
from dpforest.parts.recipe import Recipe
from dpforest.privacy.amounts import add, divide
from dpforest.privacy.bounds import Bound
from dpforest.privacy.events import Purpose
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT, AllTrees
from dpforest.schema import Classes, Target

# Slopes that a score may be given, and its cuts, as parts of the largest score.
SLOPES, CUTS = 3 / LARGEST * 2.0 ** np.arange(-2, 6), np.linspace(-0.9, 0.9, 49)
# A record's log-loss counts up to that of being wrong by this log-odds.
MOST_WRONG = 3.0
# By how many units of its own noise the choice of a slope must gain: the flattest, and more for each that is twice as steep.
FIRST_HURDLE, HURDLE = 2.0, 0.5
MOST_HURDLE = 1 << 40  # so that differences of scores fit what choices can compute with, however small the budget
# The largest score, as log-odds, where no slope is chosen: it only orders records that all trees hold alike.
LEAST_SCORE = 0.2
# Beside a rule: log-odds for a usual score, and the most for the largest, as parts of the rule's own.
BESIDE_RULE, MOST_BESIDE_RULE = 0.2, 0.9
# The slope of a score that is the rule itself, as a part of the log-odds by its lead.
SLOPE_OF_RULE = 0.7


@dataclass(frozen=True)
class Linear(SequenceStep):
    """Two looks at all features together, the second guided by the first, and a choice between their rules.

    If the first look stands out of its noise by ``least_signal``, the second is at the same map, and both are averaged; else
    it is at the *even* map, by which a class that is wider can be told, and the clearer of the two is kept. Then offset and
    slope of the score are chosen. With ``rule_depth`` a small tree with labels (``labelled``) competes with cuts of the
    score; if the tree wins, the score only orders the records of a leaf.

    Privacy:
        Claim: costs at most ``amount``.
        Because: of one feature the map of a record has an L1 of at most STEPS; its sign and weight, at most w, follow from
            its class and released values. So each block of ``Blocks`` moves by at most STEPS w in L1, and one joint draw
            pays for all. Which map the second look is at follows from released values. A slope is scored by a sum over
            records of 0 .. MOST_WEIGHT, by how well their class does, less a public hurdle: an added record raises it by
            0 .. MOST_WEIGHT, so the choice is monotone, of that width. Looks, choices and leads add up.
        Assumes: maps are public or follow from released cuts; records count once.
    """

    share: float
    looks: tuple[float, float]  # shares of the step's own amount
    choice: float  # as ``looks``; what is left goes to the lead of a rule
    least_signal: float = 2.0
    categories: bool = False  # whether features of more than two categories have maps
    rule_depth: int = 0
    n_trees: int = field(default=0, init=False)  # beside one for each feature that has a map

    def accepts(self, target: Target) -> bool:
        return isinstance(target, Classes) and target.n_values == 2

    def train(self, run: Ensemble, amount: float) -> float:
        shares = [*self.looks, self.choice, 1 - sum(self.looks) - self.choice]
        first, second, choice, rest = divide(amount, shares)
        maps = linear_maps(run.counter.domain, run.recipe.grid, self.categories)
        if not maps:
            if not self.rule_depth:
                return amount
            self._choose(run, None, add(first, second, choice), rest)
            return 0.0
        run.counter.deal(AllTrees(1), run.gate.entropy)
        weights = class_weights(0.0 if self.rule_depth else run.prior)
        direction = self._direction(run, maps, weights, first, second)
        # Scores of records before the choice: that of the direction alone. One step more of the second class makes all leads
        # odd, so that none is on the border of two bins.
        before = direction.in_steps(1.0)
        aside = in_steps(np.array([-run.prior])) + np.array([0, 1], dtype=np.int32)
        add_by_code(run, direction.features, before, aside)
        leads = run.counter.count_leads(WIDTH, N_BINS)
        if self.rule_depth:
            slope, offset = self._rule(run, leads, direction, choice, rest)
        else:
            slope, offset = _slope(run, leads, weights, add(choice, rest))
        after, shift = direction.in_steps(slope), in_steps(np.array([offset]))
        features = direction.features
        add_by_code(run, features, [new - old for new, old in zip(after, before, strict=True)], shift - aside)
        run.trees.append(marginal_trees(run.counter.domain, run.counter.target, features, after, shift, direction.noise))
        return 0.0

    def _direction(self, run: Ensemble, maps: Maps, weights: np.ndarray, first: float, second: float) -> Direction:
        """The score that two looks release."""
        domain, grid = run.counter.domain, run.recipe.grid
        counts = run.counter.count_codes(0, np.ones((1, domain.n_features), dtype=bool))
        n_rows = n_full(run.facts.n_rows, weights, run.prior)
        look = look_at(run, counts, weights, maps, first, "first look")
        direction = direction_of(maps, *look, n_rows)
        if direction.signal >= self.least_signal:
            return direction_of(maps, *averaged(look, look_at(run, counts, weights, maps, second, "second look")), n_rows)
        even = even_maps(domain, grid)
        if not even:
            return direction
        other = direction_of(even, *look_at(run, counts, weights, even, second, "even look"), n_rows)
        return max(direction, other, key=lambda each: each.signal)

    def _rule(
        self, run: Ensemble, leads: Sealed[np.ndarray], direction: Direction, amount: float, amount_of_lead: float
    ) -> tuple[float, float]:
        """Slope and offset of the score: as the rule itself if a cut of it wins, else beside the tree that wins."""
        step, prior = N_BINS // N_CUTS, run.prior
        rule = self._choose(run, leads.map(partial(cut_scores, step)), amount, amount_of_lead)
        if rule.cut is not None:
            slope = SLOPE_OF_RULE * rule.odds / direction.usual
            return slope, -prior - slope * (rule.cut * step - N_BINS // 2) * WIDTH / SCORE_STEPS
        usual, most = BESIDE_RULE * direction.trust / direction.usual, MOST_BESIDE_RULE / LARGEST
        return rule.odds * min(usual, most), -prior

    def _choose(
        self, run: Ensemble, scores: Sealed[np.ndarray] | None, amount: float, amount_of_lead: float
    ) -> LabelledRule:
        """The chosen rule; a chosen tree is added to the run."""
        budget = (amount, amount_of_lead)
        rule = choose_rule(run.counter, run.gate, scores, N_CUTS, self.rule_depth, run.facts.n_rows, *budget)
        if rule.tree is not None:
            run.add(rule.tree)
        return rule


@cache
def _losses() -> tuple[np.ndarray, np.ndarray]:
    """Slopes and offsets ``(n_rules, 2)`` of a score, and how well each does ``(n_rules, n_bins, 2)`` by lead and class.

    Leads are of a record's own class. It does by 1 less its log-loss over that of being wrong by MOST_WRONG, at least 0.
    """
    steep = [(slope, -slope * LARGEST * cut) for slope in SLOPES.tolist() for cut in CUTS.tolist()]
    rules = np.array([(LEAST_SCORE / LARGEST, 0.0), *steep])
    slopes, offsets = rules[:, :1], rules[:, 1:]
    odds = np.stack([slopes * LEADS - offsets, slopes * LEADS + offsets], axis=2)
    worst = math.log1p(math.exp(MOST_WRONG))
    return rules, np.clip(1 - np.log1p(np.exp(np.minimum(-odds, MOST_WRONG))) / worst, 0, 1)


def slope_scores(gains: np.ndarray, hurdles: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Scores ``(1, n_rules)`` of slopes and offsets, for records ``(n_bins, 2)`` of each class by the lead of their own."""
    return (np.tensordot(gains, counts, 2) - hurdles)[None]


def _slope(run: Ensemble, leads: Sealed[np.ndarray], weights: np.ndarray, amount: float) -> tuple[float, float]:
    """Slope and offset of the score, chosen by how well records do with it, the classes in balance."""
    rules, gains = _losses()
    accountant = run.gate.ledger.accountant
    unit = 0.0 if math.isinf(amount) else MOST_WEIGHT / float(accountant.strength(accountant.choice, amount))
    hurdles = np.append(0.0, unit * (FIRST_HURDLE + HURDLE * np.repeat(np.arange(len(SLOPES)), len(CUTS))))
    hurdles = np.minimum(np.rint(hurdles), MOST_HURDLE).astype(np.int64)
    scores = leads.map(partial(slope_scores, np.floor(gains * weights).astype(np.int64), hurdles))
    chosen = run.gate.select(scores, None, Bound(0, MOST_WEIGHT), amount, Purpose("linear", "slope"))
    return float(rules[chosen[0], 0]), float(rules[chosen[0], 1])


USUAL, MOST = 0.3, 1.0  # log-odds for the score of a usual record, and for the largest


@dataclass(frozen=True)
class Order(SequenceStep):
    """One look at all features, for several classes, at how the commonest differs from the rest.

    A small tree holds many records alike. The score orders these, and is too small to outvote a leaf that is sure.

    Privacy:
        Claim: costs ``amount``.
        Because: which class is the commonest follows from the first tree, which is released. It and the rest are two
            classes, of which a record has one, so the look is a look of ``Linear``.
        Assumes: as ``Linear``; a tree comes before it.
    """

    share: float
    n_trees: int = field(default=0, init=False)  # beside one for each feature that has a map

    def check(self, recipe: Recipe) -> None:
        """Raise unless a tree comes first."""
        if not (isinstance(recipe.stages, Sequential) and isinstance(recipe.stages.phases[0], Phase)):
            raise ParameterError(f"Order of recipe {recipe.name!r} needs a sequence that starts with a tree.")

    def accepts(self, target: Target) -> bool:
        return isinstance(target, Classes) and target.n_values > 2

    def train(self, run: Ensemble, amount: float) -> float:
        domain, target = run.counter.domain, run.counter.target
        maps = linear_maps(domain, run.recipe.grid, categories=True)
        if not maps:
            return amount
        commonest, odds = _commonest(run.trees[0])
        run.counter.deal(AllTrees(1), run.gate.entropy)
        counts = run.counter.count_codes(0, np.ones((1, domain.n_features), dtype=bool))
        weights, pair = class_weights(odds), counts.map(partial(_against_the_rest, commonest))
        look = look_at(run, pair, weights, maps, amount, "order")
        direction = direction_of(maps, *look, n_full(run.facts.n_rows, weights, odds))
        none = np.zeros((1, target.n_values), dtype=np.int32)
        steps = _steps(direction, commonest, target.n_values)
        trees = marginal_trees(domain, target, direction.features, steps, none, direction.noise)
        votes, n_roots = np.rint(SCORE_STEPS * trees.votes).astype(np.int32), trees.n_trees
        ends = np.cumsum(domain.n_codes[direction.features])
        add_by_code(run, direction.features, np.split(votes[n_roots:], ends[:-1]), votes[n_roots - 1 : n_roots])
        run.trees.append(trees)
        return 0.0


def _commonest(tree: Forest) -> tuple[int, float]:
    """The commonest class in the leaves of a released tree, and its log-odds."""
    sums = np.maximum(tree.counts[tree.is_leaf], 0).sum(axis=0)
    commonest = int(sums.argmax())
    return commonest, math.log((sums[commonest] + 1) / (sums.sum() - sums[commonest] + 1))


def _against_the_rest(commonest: int, counts: np.ndarray) -> np.ndarray:
    """Histograms ``(1, total_codes, 2)`` of the other classes together and of the commonest."""
    own = counts[:, :, commonest]
    return np.stack([counts.sum(axis=2) - own, own], axis=2)


def _steps(direction: Direction, commonest: int, n_classes: int) -> list[np.ndarray]:
    """What each code of each feature adds to the scores of classes, in whole steps ``(n_codes, n_classes)``."""
    factor = min(USUAL * direction.trust / direction.usual, MOST / LARGEST)
    is_own = np.arange(n_classes) == commonest
    return [np.rint(SCORE_STEPS * factor * values[:, None] * is_own).astype(np.int32) for _, values in direction.values]
