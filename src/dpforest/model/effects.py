"""What a model has learnt: how each feature, and each pair of features, moves its prediction. Released values only.

The effect of a value is the partial dependence of the forest on it (``dependence``) less its mean, so it says by how much
the prediction is above or below what it is on average. Its scale is that on which trees add up: log-odds where votes are
log-odds, probability where they are shares, the unit of a bounded target. An interaction is the dependence on two features
less that on each of them. Effects cost nothing: they are a function of the released forest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from dpforest.forest.bands import NORMAL_95, STANDS_OUT
from dpforest.forest.tree import Forest
from dpforest.model.dependence import Dependence, Given, Groups, Response, Term, deviations
from dpforest.model.signal import leaf_release
from dpforest.privacy.ledger import Ledger
from dpforest.schema import Bounded, Categorical, Date
from dpforest.schema.domain import Domain


@dataclass(frozen=True)
class ValuePart:
    """Some values of a feature that the model treats alike: ``lower <= value < upper``, a category, or missing."""

    words: str
    kind: str  # "range", "category", "other" or "missing"
    share: float  # of the records, as released sizes say
    effects: tuple[float, ...]  # one for each output
    bands: tuple[float, ...] | None  # half the width of the 95 % band of each effect; None if it is not known
    lower: float | None = None  # of a range; None where it has no bound; of dates, days or seconds since the start of 1970
    upper: float | None = None


@dataclass(frozen=True)
class Effect:
    """How one feature moves the prediction: an effect for each part of its values."""

    feature: str
    kind: str  # "number", "whole number", "date" or "category"
    strength: float  # the standard deviation of the effect over the records, by released weights
    stands_out: bool | None  # whether some effect is over three standard deviations of its noise; None if that is not known
    parts: tuple[ValuePart, ...]
    left_out: int = 0  # values of a long list for which no effect was worked out


@dataclass(frozen=True)
class Interaction:
    """What two features do together beside what each does alone: an effect for each pair of parts, of the first output."""

    features: tuple[str, str]
    strength: float
    stands_out: bool | None
    parts: tuple[tuple[ValuePart, ...], tuple[ValuePart, ...]]  # of each feature; their effects are left empty
    effects: np.ndarray  # (n_parts of the first, n_parts of the second, n_outputs)
    bands: np.ndarray | None


@dataclass(frozen=True)
class Effects:
    """Effects of all features that the model asks for and of pairs of them, the strongest first.

    ``outputs`` names what moves: the second of two classes, up to six classes, or the target. ``base`` is the mean of each,
    on the same ``scale``: "log-odds", "probability" or "target".
    """

    outputs: tuple[Any, ...]
    scale: str
    base: tuple[float, ...]
    features: tuple[Effect, ...]
    pairs: tuple[Interaction, ...]
    no_band: str | None  # a sentence that says why some or all effects have no band; None if all have one

    def of(self, feature: str) -> Effect | None:
        """The effect of a feature by its name; None if the model does not ask for it."""
        return next((effect for effect in self.features if effect.feature == feature), None)


# Public caps: classes with a curve of their own, groups of codes at which an effect is worked out, features that get a band,
# pairs of features whose interaction is worked out, and groups of each of the two.
MOST_CLASSES, MOST_GROUPS, MOST_BANDS, MOST_PAIRS, MOST_CELLS = 6, 2_000, 40, 16, 16
# In a large tree fewer groups get an effect: as many as make so many numbers, one for each value of each node.
MOST_NUMBERS = 1 << 24
# In a large forest fewer pairs are tried: as many as make so many nodes in all.
MOST_WORK = 1 << 20
# Levels of trees that are looked through: no plan makes so many, but a file may hold them, and each takes a step.
MOST_LEVELS = 256
TOO_DEEP = f"Effects are not worked out: some tree has more than {MOST_LEVELS} levels."
# Neighbouring bins are one part if their effects differ by no more than this part of the largest difference.
ALIKE = 0.005
# Why there is no band, by what the leaves released; see ``signal``.
NO_BAND = {
    "labels": "There is no band: leaves release a label each, and how likely another one was is not known.",
    "printed": "There is no band: how wide the noise of the printed algorithm is was not recorded.",
    "exact": "There is no band, since no noise was added.",
    "votes": "There is no band where leaves vote for a class as a whole, or were released without counts of their own: how "
    "far noise moves these is not known.",
}


@np.errstate(over="ignore", invalid="ignore")  # squares of what a file may hold
def effects_of(forest: Forest, ledger: Ledger, n_pairs: int = 2) -> Effects:
    """The effects of a released forest, with at most ``n_pairs`` interactions."""
    if forest.depth > MOST_LEVELS:
        shown, _, base = _outputs(forest, forest.votes[: forest.n_trees].sum(axis=0))
        return Effects(*_named(forest, shown), tuple(base.tolist()), (), (), TOO_DEEP)
    release = leaf_release(forest, ledger)
    mean = Dependence.of(forest, forest.votes).means[: forest.n_trees].sum(axis=0)  # of all votes
    shown, mixture, shift = _outputs(forest, mean)
    dependence = Dependence.of(forest, forest.votes @ mixture)
    base = dependence.means[: forest.n_trees].sum(axis=0) + shift
    response = Response.of(forest, mixture) if release in ("counts", "lead") else None
    maker = _Maker(dependence, response, counted=release != "labels")
    asked = np.unique(forest.features[~forest.is_leaf]).tolist()
    found = sorted((maker.curve(feature) for feature in asked), key=lambda curve: -curve.strength)
    features = tuple(maker.effect(curve, has_band=index < MOST_BANDS) for index, curve in enumerate(found))
    curves = {curve.groups.feature: curve for curve in found}
    pairs = tuple(maker.interactions(curves, n_pairs)) if n_pairs else ()
    unknown = any(effect.stands_out is None for effect in features[:MOST_BANDS])
    no_band = NO_BAND["votes" if response is not None else release] if unknown else None
    return Effects(*_named(forest, shown), tuple(base.tolist()), features, pairs, no_band)


def _outputs(forest: Forest, mean: np.ndarray) -> tuple[list[int], np.ndarray, np.ndarray]:
    """The shown values, their mixture of votes ``(n_values, n_outputs)``, and what it leaves out.

    Shares are votes over all votes; where these differ from leaf to leaf, to first order around the mean.
    """
    n_values, target = len(mean), forest.target
    total = float(mean.sum()) or 1.0
    common = np.argsort(-mean, kind="stable")[:MOST_CLASSES].tolist()
    shown = [n_values - 1] if n_values <= 2 else sorted(common)
    mixture, shift = np.equal.outer(np.arange(n_values), shown).astype(float), np.zeros(len(shown))
    if forest.link == "shares":
        mixture, shift = (mixture - mean[shown] / total) / total, mean[shown] / total
    elif n_values == 2 and not isinstance(target, Bounded):
        mixture = np.array([[-1.0], [1.0]])
    if isinstance(target, Bounded):
        return shown, target.span * mixture, target.mean_of(shift)
    return shown, mixture, shift


def _named(forest: Forest, shown: list[int]) -> tuple[tuple[Any, ...], str]:
    if isinstance(forest.target, Bounded):
        return (forest.target.name,), "target"
    return tuple(forest.target.labels[index] for index in shown), "log-odds" if forest.link == "softmax" else "probability"


@dataclass(frozen=True)
class _Curve:
    """The centred dependence ``(n_groups, n_outputs)`` on one feature, and the weights of its groups."""

    groups: Groups
    chosen: np.ndarray  # the groups at which it was worked out
    weights: np.ndarray
    values: np.ndarray
    strength: float

    @property
    def given(self) -> Given:
        return Given((self.groups.feature,), (self.groups.codes[self.chosen],))

    @property
    def centring(self) -> np.ndarray:
        """The matrix that takes the weighted mean away from the values."""
        return np.eye(len(self.weights)) - self.weights


@dataclass(frozen=True)
class _Maker:
    """Makes the effects of one forest."""

    dependence: Dependence
    response: Response | None
    counted: bool  # whether records are counted, so that sizes are weights

    @property
    def domain(self) -> Domain:
        return self.dependence.forest.domain

    @cached_property
    def most_groups(self) -> int:
        """The most groups of codes of a feature at which its effect is worked out."""
        forest = self.dependence.forest
        largest = int(np.bincount(forest.trees).max()) * forest.target.n_values
        return max(min(MOST_GROUPS, MOST_NUMBERS // largest), 1)

    def curve(self, feature: int) -> _Curve:
        groups = Groups.of(self.dependence.forest, feature)
        prior = groups.prior(self.domain)
        weights = self.dependence.weights(groups) if self.counted and len(groups) <= self.most_groups else prior
        chosen = np.arange(len(groups))
        if len(groups) > self.most_groups:  # the first ones, and those of "other" and of missing
            ends = np.unique(groups.of_code[int(self.domain.n_values[feature]) :])
            chosen = np.union1d(chosen[: self.most_groups], ends)
        weights = weights[chosen] / weights[chosen].sum()
        values = self.dependence.at(Given((feature,), (groups.codes[chosen],)))
        values -= weights @ values
        return _Curve(groups, chosen, weights, values, _strength(weights, values))

    def effect(self, curve: _Curve, has_band: bool) -> Effect:
        found = self._deviations([(curve.given, curve.centring)]) if has_band else None
        feature = curve.groups.feature
        parts = tuple(self._parts(curve, found))
        n_left = 0 if self.domain.is_numeric[feature] else int(self.domain.n_codes[feature]) - len(parts)
        return Effect(self.domain.names[feature], _kind(self.domain, feature), curve.strength,
                      _stands_out(curve.values, found), parts, n_left)  # fmt: skip

    def _deviations(self, terms: list[Term]) -> np.ndarray | None:
        return None if self.response is None else deviations(self.dependence, self.response, terms)

    def _parts(self, curve: _Curve, noise: np.ndarray | None) -> Iterator[ValuePart]:
        """The parts of a feature, see ``_runs``."""
        feature, place = curve.groups.feature, np.full(len(curve.groups), -1)
        place[curve.chosen] = np.arange(len(curve.chosen))
        of_code = place[curve.groups.of_code]
        n_codes = np.bincount(curve.groups.of_code, minlength=len(curve.groups))[curve.chosen]
        n_bins = int(self.domain.n_values[feature]) if self.domain.is_numeric[feature] else 0
        for start, stop in _runs(of_code, n_bins, curve.values):
            if n_bins == 0 and self.most_groups <= start < int(self.domain.n_values[feature]):
                continue
            groups, weights = of_code[start:stop], (curve.weights / n_codes)[of_code[start:stop]]
            if groups[0] < 0:
                continue
            mean = weights / weights.sum() if weights.sum() > 0 else np.full(len(groups), 1 / len(groups))
            yield ValuePart(
                **_described(self.domain, feature, start, stop),
                share=float(weights.sum()),
                effects=tuple((mean @ curve.values[groups]).tolist()),
                bands=None if noise is None else tuple((NORMAL_95 * noise[groups].max(axis=0)).tolist()),
            )

    def _cells(self, curve: _Curve, shown: np.ndarray) -> Iterator[ValuePart]:
        """A part for each of some groups, from its first code until that of the next one."""
        feature, groups = curve.groups.feature, curve.chosen[shown]
        n_bins, codes = int(self.domain.n_values[feature]), curve.groups.codes[groups].tolist()
        n_alike = np.bincount(curve.groups.of_code, minlength=len(curve.groups))[groups].tolist()
        for index, (code, group) in enumerate(zip(codes, shown.tolist(), strict=True)):
            if self.domain.is_numeric[feature] and code < n_bins:
                following = codes[index + 1] if index + 1 < len(codes) else n_bins
                named = _described(self.domain, feature, code if index else 0, min(following, n_bins))
            else:
                named = _described(self.domain, feature, code, code + 1)
                named["words"] += f" and {n_alike[index] - 1} more" if n_alike[index] > 1 else ""
            yield ValuePart(**named, share=float(curve.weights[group]), effects=(), bands=None)

    def interactions(self, curves: dict[int, _Curve], most: int) -> list[Interaction]:
        """The strongest interactions, among pairs of features of different columns that some path asks for."""
        n_tried = max(2 * most, min(MOST_PAIRS, MOST_WORK // self.dependence.forest.n_nodes))
        found = [self._joint(curves[one], curves[two]) for one, two in likely_pairs(self.dependence)[:n_tried]]
        found = [pair for pair in found if pair[0] > 0]
        return [self._interaction(*pair) for pair in sorted(found, key=lambda pair: -pair[0])[:most]]

    def _joint(self, one: _Curve, two: _Curve) -> tuple[float, _Curve, _Curve, np.ndarray, np.ndarray, np.ndarray]:
        """The strength of an interaction, the two curves, the groups of each at which it is worked out, and its values."""
        rows, columns = (_thinned(curve.weights) for curve in (one, two))
        given = self._grid(one, rows, two, columns)
        weights = np.outer(one.weights[rows], two.weights[columns])
        weights /= weights.sum()
        values = self.dependence.at(given).reshape(len(rows), len(columns), -1)
        values = values - one.values[rows][:, None] - two.values[columns][None]
        values -= np.tensordot(weights, values, 2)
        flat = values.reshape(-1, values.shape[-1])
        return _strength(weights.reshape(-1), flat), one, two, rows, columns, values

    def _grid(self, one: _Curve, rows: np.ndarray, two: _Curve, columns: np.ndarray) -> Given:
        codes = one.groups.codes[one.chosen[rows]], two.groups.codes[two.chosen[columns]]
        features = (one.groups.feature, two.groups.feature)
        return Given(features, (np.repeat(codes[0], len(columns)), np.tile(codes[1], len(rows))))

    def _interaction(
        self, strength: float, one: _Curve, two: _Curve, rows: np.ndarray, columns: np.ndarray, values: np.ndarray
    ) -> Interaction:
        weights = np.outer(one.weights[rows], two.weights[columns]).reshape(-1)
        centring = np.eye(len(weights)) - weights / weights.sum()
        terms = [
            (self._grid(one, rows, two, columns), centring),
            (one.given, -centring @ np.repeat(one.centring[rows], len(columns), axis=0)),
            (two.given, -centring @ np.tile(two.centring[columns], (len(rows), 1))),
        ]
        noise = self._deviations(terms)
        bands = None if noise is None else (NORMAL_95 * noise).reshape(values.shape)
        names = self.domain.names[one.groups.feature], self.domain.names[two.groups.feature]
        parts = tuple(self._cells(one, rows)), tuple(self._cells(two, columns))
        return Interaction(names, strength, _stands_out(values.reshape(-1, values.shape[-1]), noise), parts, values, bands)


def likely_pairs(dependence: Dependence) -> list[tuple[int, int]]:
    """Pairs of features on common paths, first those with the strongest lower splits."""
    forest, means = dependence.forest, dependence.means
    below = np.flatnonzero(forest.parents >= 0)
    squares = np.square(means[below] - means[forest.parents[below]]).sum(axis=1) * dependence.reach[below]
    moved = np.bincount(forest.parents[below], squares, forest.n_nodes)
    nodes = np.flatnonzero(~forest.is_leaf)
    above, keys, scores = forest.parents[nodes], [], []
    while len(nodes := nodes[above >= 0]):
        above = above[above >= 0]
        pair = np.sort([forest.features[nodes], forest.features[above]], axis=0)
        keys.append(pair[0] * forest.domain.n_features + pair[1])
        scores.append(moved[nodes])
        above = forest.parents[above]
    if not keys:
        return []
    found, index = np.unique(np.concatenate(keys), return_inverse=True)
    order = found[np.argsort(-np.bincount(index.reshape(-1), np.concatenate(scores)), kind="stable")]
    pairs = [divmod(int(key), forest.domain.n_features) for key in order]
    return [(one, two) for one, two in pairs if forest.domain.columns[one] != forest.domain.columns[two]]


def _thinned(weights: np.ndarray) -> np.ndarray:
    """At most MOST_CELLS groups, the heaviest of runs that have about the same weight."""
    if len(weights) <= MOST_CELLS:
        return np.arange(len(weights))
    run = np.minimum((np.cumsum(weights) - weights / 2) / weights.sum() * MOST_CELLS, MOST_CELLS - 1).astype(int)
    return np.sort([np.flatnonzero(run == each)[weights[run == each].argmax()] for each in np.unique(run)])


def _strength(weights: np.ndarray, values: np.ndarray) -> float:
    return float(np.sqrt((weights @ np.square(values)).mean()))


def _stands_out(values: np.ndarray, noise: np.ndarray | None) -> bool | None:
    return None if noise is None else bool((np.abs(values) > STANDS_OUT * noise).any())


def _kind(domain: Domain, feature: int) -> str:
    part = domain.features[feature]
    if isinstance(part, Date):
        return "date"
    return "category" if isinstance(part, Categorical) else "whole number" if part.integer else "number"


def _runs(of_code: np.ndarray, n_bins: int, values: np.ndarray) -> list[tuple[int, int]]:
    """The runs of codes of one part: neighbouring bins of nearly equal values, and each other code by itself."""
    starts: list[int] = []
    alike = ALIKE * float(np.ptp(values, axis=0).max(initial=0))
    for code, group in enumerate(of_code[:n_bins].tolist()):
        first = int(of_code[starts[-1]]) if starts else -2
        is_same = group == first or (min(group, first) >= 0 and np.abs(values[group] - values[first]).max() <= alike)
        if not is_same:
            starts.append(code)
    return list(pairwise([*starts, *range(n_bins, len(of_code) + 1)]))


def _described(domain: Domain, feature: int, start: int, stop: int) -> dict[str, Any]:
    """Words, kind and ends of the codes from ``start`` until ``stop`` of a feature."""
    n_values = int(domain.n_values[feature])
    if not domain.is_numeric[feature]:
        kind = "category" if start < n_values else "other" if start == n_values else "missing"
        return {"words": str(domain.words[feature][start]), "kind": kind}
    if start >= n_values:
        return {"words": "missing", "kind": "missing"}
    cuts, words, part = domain.cuts[feature], domain.cut_words[feature], domain.number(feature)
    ends = [None if end is None else part.range[index] for index, end in enumerate((part.lower, part.upper))]
    lower, upper = (float(cuts[start - 1]) if start else ends[0]), (float(cuts[stop - 1]) if stop <= len(cuts) else ends[1])
    low, high = (words[start - 1] if start else None), (words[stop - 1] if stop <= len(cuts) else None)
    said = f"{low} to < {high}" if low and high else f"< {high}" if high else f">= {low}" if low else "known"
    return {"words": said, "kind": "range", "lower": lower, "upper": upper}
