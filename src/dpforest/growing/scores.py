"""A linear score of records: released sums of public maps of all features, and trees that add it up. Sees sealed sums."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.growing.earlier import LARGEST
from dpforest.growing.sequential import Ensemble
from dpforest.parts.voting import LogShares
from dpforest.privacy.bounds import Blocks
from dpforest.privacy.events import Purpose
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import MOST_WEIGHT, AllTrees
from dpforest.schema import Numeric, Target
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


def rarity(prior: float) -> float:
    """The share of the rarer of two classes whose log-odds are ``prior``."""
    return 1 / (1 + math.exp(min(abs(prior), 30.0)))


def class_weights(prior: float) -> np.ndarray:
    """The weights ``(2,)`` of records of the two classes, by which the classes balance if the prior log-odds are right."""
    return np.rint(MOST_WEIGHT * np.exp([min(prior, 0.0), min(-prior, 0.0)])).astype(np.int64)


def n_full(n_rows: float, weights: np.ndarray, prior: float) -> float:
    """The number of records of full weight whose sums would differ as much if all were drawn anew."""
    share = rarity(prior)
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


def additive(forest: Forest, scores: np.ndarray) -> Forest:
    """The forest with votes that add ``scores`` ``(n_nodes, n_classes)`` to the log-odds of the classes."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    return replace(forest.summed(), shares=shares, votes=LogShares().of_shares(shares), link=LogShares.link)
