"""A linear score of all features: steps of a sequence that release it and choose by it. Sees sealed sums, by protocol."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.growing.earlier import LARGEST, LEADS, N_BINS, WIDTH
from dpforest.growing.labelled import LabelledRule, additive, choose_rule, cut_scores
from dpforest.growing.sequential import Ensemble, Phase, SequenceStep, Sequential
from dpforest.parts.recipe import Recipe
from dpforest.privacy.amounts import add, divide
from dpforest.privacy.bounds import Blocks, Bound
from dpforest.privacy.events import Purpose
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT, AllTrees
from dpforest.schema import Classes, Numeric, Target
from dpforest.schema.domain import Domain
from dpforest.schema.grid import Grid

# A map has whole steps in -STEPS .. STEPS.
STEPS = 64
# Public caps: a category list that is longer has no map, since each value is a number to release; and numbers in all.
MOST_CATEGORIES, MOST_NUMBERS = 64, 4096
# What is assumed of the variance of the map of a number; that of one of b categories is 1/(b+1).
SPREAD = 0.3
N_CUTS = 32  # among which a rule chooses
# What is kept of a release that does not stand out of its noise: enough to order records.
LEAST_TRUST = 0.05
Maps = tuple[tuple[int, np.ndarray], ...]  # features, each with the map of its codes ``(n_codes, n_numbers)``


@dataclass(frozen=True)
class Direction:
    """A released score of records: what each code of some features adds to it."""

    values: Maps  # features, each with the values of its codes ``(n_codes,)``; they add up to LARGEST at most
    usual: float  # the score of a usual record
    signal: float  # by how many standard deviations of noise and chance the release is larger than they are
    trust: float  # the share of it that is no noise
    noise: tuple[float, ...]  # for each feature, its standard deviation as a part of the values; 0 if it differs among them

    @property
    def features(self) -> list[int]:
        """The features that have values."""
        return [feature for feature, _ in self.values]

    def in_steps(self, slope: float) -> list[np.ndarray]:
        """The votes of each feature's codes in whole steps, each ``(n_codes, 2)``, which add ``slope`` times the score."""
        return [in_steps(slope * values) for _, values in self.values]


def linear_maps(domain: Domain, grid: Grid, categories: bool) -> Maps:
    """The maps of features: numbers by their place, two categories by -1 and 1, and more by a number for each.

    The place of a bin is its rank among the bins of its feature, if its cuts were learnt or there are no bounds, else its
    middle between the bounds. "Other" and missing are at 0.
    """
    found: list[tuple[int, np.ndarray]] = []
    for feature, n_codes in enumerate(domain.n_codes.tolist()):
        n_values = int(domain.n_values[feature])
        if domain.is_numeric[feature]:
            table = _places(domain, grid, feature)[:, None] if n_values > 1 else np.empty((0, 0))
        elif n_values == 2:
            table = np.array([[-1.0], [1.0]])
        else:
            table = np.eye(n_values) if categories and 2 < n_values <= MOST_CATEGORIES else np.empty((0, 0))
        if len(table) and sum(each.shape[1] for _, each in found) + table.shape[1] <= MOST_NUMBERS:
            found.append((feature, _padded(table, n_codes)))
    return tuple(found)


def even_maps(domain: Domain, grid: Grid) -> Maps:
    """The maps of numbers by how far they are from the middle, in -1 .. 1."""
    return tuple(
        (feature, _padded(2 * np.abs(_places(domain, grid, feature)[:, None]) - 1, int(domain.n_codes[feature])))
        for feature in np.flatnonzero(domain.is_numeric & (domain.n_values > 2))[:MOST_NUMBERS].tolist()
    )


def _places(domain: Domain, grid: Grid, feature: int) -> np.ndarray:
    """The place of each bin of a number, in -1 .. 1."""
    part, cuts = domain.number(feature), domain.cuts[feature]
    if isinstance(part, Numeric) and part.has_bounds and np.array_equal(cuts, grid.cuts(part)):
        low, high = part.range
        edges = np.concatenate([[low], cuts, [high]])
        return (edges[:-1] - low + edges[1:] - low) / (high - low) - 1
    return np.linspace(-1, 1, len(cuts) + 1)


def _padded(table: np.ndarray, n_codes: int) -> np.ndarray:
    """The map in whole steps ``(n_codes, n_numbers)``, with zeros for codes beyond its own."""
    steps = np.zeros((n_codes, table.shape[1]), dtype=np.int64)
    steps[: len(table)] = np.rint(STEPS * table)
    return steps


def class_weights(prior: float) -> np.ndarray:
    """The weights ``(2,)`` of records of the two classes, by which the classes balance if the prior log-odds are right."""
    return np.rint(MOST_WEIGHT * np.exp([min(prior, 0.0), min(-prior, 0.0)])).astype(np.int64)


def n_full(n_rows: float, weights: np.ndarray, prior: float) -> float:
    """The number of records of full weight whose sums would differ as much if all were drawn anew."""
    share = 1 / (1 + math.exp(min(abs(prior), 30.0)))  # of the rarer class
    return max(n_rows, 0.0) * float(np.sort(np.square(weights / MOST_WEIGHT)) @ [1 - share, share])


def linear_sums(maps: Maps, offsets: np.ndarray, weights: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The weighted sums over records of their maps, negative for the first class, block after block.

    ``counts`` ``(1, total_codes, 2)`` are the histograms of all records.
    """
    signed = counts[0] @ (weights * np.array([-1, 1]))
    return np.concatenate([table.T @ signed[offsets[feature] : offsets[feature + 1]] for feature, table in maps])


def look_at(
    run: Ensemble, counts: Sealed[np.ndarray], weights: np.ndarray, maps: Maps, amount: float, step: str
) -> tuple[np.ndarray, np.ndarray]:
    """The released sums of maps, in records, and the variances of their noise."""
    unit = STEPS * int(weights.max())
    blocks = Blocks(tuple(table.shape[1] for _, table in maps), unit)
    sums = counts.map(partial(linear_sums, maps, run.counter.domain.offsets, weights))
    released, variances = run.gate.add_joint_noise(sums, blocks, amount, Purpose("linear", step))
    return released / unit, np.maximum(variances / unit**2, 1e-9)


def averaged(one: tuple[np.ndarray, np.ndarray], two: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The mean of two looks at the same sums, each weighted by the other's variance, and its variances."""
    (first, noise), (second, other) = one, two
    return (first * other + second * noise) / (noise + other), noise * other / (noise + other)


def direction_of(maps: Maps, sums: np.ndarray, variances: np.ndarray, n_rows: float) -> Direction:
    """The score by released sums, with those of numbers and categories shrunk by their noise (James-Stein).

    The score of a usual record is the standard deviation of scores, if features are independent and spread as is assumed.
    """
    sizes = np.repeat([table.shape[1] for _, table in maps], [table.shape[1] for _, table in maps])
    shrunk, trust, signal = np.zeros_like(sums), LEAST_TRUST, -math.inf
    spread = np.where(sizes == 1, SPREAD, 1 / (sizes + 1))
    parts = np.where(sizes == 1, np.sqrt(variances) / np.where(sums == 0, np.inf, np.abs(sums)), 0)
    # Sums of records that are drawn anew differ too, as if each were of either class by chance.
    variances = variances + n_rows * spread
    for kind in (sizes == 1, sizes > 1):
        if n := int(np.count_nonzero(kind)):
            energy = float((np.square(sums[kind]) / variances[kind]).sum())
            kept = max(1 - n / max(energy, 1e-9), LEAST_TRUST)
            shrunk[kind] = kept * sums[kind]
            trust, signal = max(trust, kept), max(signal, (energy - n) / math.sqrt(2 * n))
    slopes = shrunk / spread
    ends = np.cumsum([table.shape[1] for _, table in maps])
    values = [table @ slopes[end - table.shape[1] : end] for (_, table), end in zip(maps, ends.tolist(), strict=True)]
    unit = LARGEST / max(sum(float(np.abs(each).max()) for each in values), 1e-9)
    usual = max(unit * STEPS * math.sqrt(float((np.square(slopes) * spread).sum())), 1 / SCORE_STEPS)
    scaled = tuple((feature, unit * each) for (feature, _), each in zip(maps, values, strict=True))
    return Direction(scaled, usual, signal, trust, tuple(parts[ends - 1].tolist()))


def in_steps(values: np.ndarray) -> np.ndarray:
    """Votes for the two classes in whole steps ``(n_values, 2)``, which add ``values`` to the log-odds of the second."""
    half = np.rint(SCORE_STEPS * values / 2).astype(np.int32)
    return np.stack([-half, half], axis=1)


def add_by_code(run: Ensemble, features: list[int], steps: list[np.ndarray], shift: np.ndarray) -> None:
    """Add to the scores of records what their code of each feature gives, and ``shift`` ``(1, n_classes)``."""
    run.counter.deal(AllTrees(1), run.gate.entropy)
    run.counter.add_scores(shift)
    run.counter.add_by_code(features, steps)


def marginal_trees(
    domain: Domain, target: Target, features: list[int], steps: list[np.ndarray], shift: np.ndarray, noise: Sequence[float]
) -> Forest:
    """A tree for each feature, with a leaf for each of its codes, and last a tree of one leaf. Nothing is counted in them.

    They vote by ``steps``, one ``(n_codes, n_classes)`` for each feature, and by ``shift`` ``(1, n_classes)``; ``noise`` is
    that of the votes of each feature, as a part of them.
    """
    n_trees, n_codes = len(features), domain.n_codes[features]
    ends, n_leaves = n_trees + 1 + np.cumsum(n_codes), int(n_codes.sum())
    roots, of_leaf = np.arange(n_trees + 1), np.repeat(np.arange(n_trees), n_codes)
    code, none = np.arange(domain.route_width), np.full(n_leaves + 1, -1)
    forest = Forest(
        domain=domain,
        target=target,
        trees=np.concatenate([roots, of_leaf]),
        parents=np.concatenate([np.full(n_trees + 1, -1), of_leaf]),
        levels=np.repeat([0, 1], [n_trees + 1, n_leaves]),
        first_children=np.concatenate([ends - n_codes, none]),
        features=np.concatenate([features, none]),
        splits=np.concatenate([roots[:-1], none]),
        routes=np.where(code < n_codes[:, None], code, 0).astype(np.uint16),
        counts=np.zeros((n_trees + 1 + n_leaves, target.n_values)),
        variances=np.zeros(n_trees + 1 + n_leaves),
        vote_noise=np.array([*noise, 0.0]),
    )
    inner = np.zeros((n_trees, target.n_values))
    return additive(forest, np.concatenate([inner, shift, *steps]) / SCORE_STEPS)


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
class LinearScore(SequenceStep):
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
            classes, of which a record has one, so the look is a look of ``LinearScore``.
        Assumes: as ``LinearScore``; a tree comes before it.
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
