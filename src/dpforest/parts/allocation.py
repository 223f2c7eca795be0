"""Allocations: how the budget of one tree is divided among its levels and leaves. Sees public values only.

An allocation gives weights to the levels of splits and to the released counts; ``plan`` turns them into amounts.
Levels are numbered 0 .. depth-1 from the root; the leaves are the counts of level ``depth``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from dpforest.errors import ParameterError
from dpforest.privacy.amounts import Number, divide


@dataclass(frozen=True)
class TreeBudget:
    """The amounts that one tree may spend: on the choice of splits of each level, and on the counts of each level.

    ``splits`` has ``depth`` amounts and ``counts`` one more: its last is for the leaves.
    """

    splits: tuple[float, ...]
    counts: tuple[float, ...]

    @property
    def depth(self) -> int:
        """The number of levels of splits."""
        return len(self.splits)

    @property
    def leaves(self) -> float:
        """The amount for the leaves."""
        return self.counts[-1]


class Allocation(Protocol):
    """A rule by which the amount of one tree is divided among its levels and leaves."""

    def plan(self, amount: float, depth: int) -> TreeBudget:
        """The amounts of a tree of ``depth`` levels of splits, which sum to at most ``amount``."""


def spread(amount: float, splits: Sequence[Number], counts: Sequence[Number]) -> TreeBudget:
    """The budget of one tree in proportion to weights, rounded so that its exact sum is at most ``amount``.

    Privacy:
        Claim: a tree that keeps to this budget costs at most ``amount``.
        Because: nodes of one level hold different records, so a level costs its share once; levels and counts add up
            (adaptive sequential composition); each share is rounded down and the leaves take what is left.
        Assumes: ``amount``, depth and weights are public.
    """
    weights = [*splits, *counts]
    if min(weights) < 0 or weights[-1] == 0:
        raise ParameterError("Weights of an allocation must be at least 0, and the leaves need a share.")
    shares = divide(amount, weights)
    return TreeBudget(tuple(shares[: len(splits)]), tuple(shares[len(splits) :]))


@lru_cache(maxsize=1024)  # exact fractions are slow, and a small fit asks for the same budget several times
def _with_shares(amount: float, series: tuple[float, ...], split_share: float | None, count_share: float) -> TreeBudget:
    """The budget of one tree from ``depth + 1`` weights: one for each level of splits, and one for the leaves.

    With ``split_share`` the splits together get that share, in proportion to their part of the series, and the leaves the
    rest. ``count_share`` of each level's weight goes to counts of its nodes.
    """
    if split_share is not None and not 0 < split_share < 1:
        raise ParameterError(f"split_share must lie between 0 and 1, not {split_share!r}.")
    if not 0 <= count_share < 1:
        raise ParameterError(f"count_share must lie in [0, 1), not {count_share!r}.")
    weights = [Fraction(weight) for weight in series]
    if split_share is not None and len(weights) > 1:
        total = sum(weights[:-1])
        weights = [Fraction(split_share) * weight / total for weight in weights[:-1]] + [1 - Fraction(split_share)]
    share = Fraction(count_share)
    splits = [weight * (1 - share) for weight in weights[:-1]]
    counts = [weight * share for weight in weights[:-1]] + [weights[-1]]
    return spread(amount, splits, counts)


def _finite(term: Callable[[int], float], n_terms: int) -> tuple[float, ...]:
    """The terms ``term(0)`` .. ``term(n_terms - 1)``; raises unless they and their sum are finite."""
    try:
        series = tuple(float(term(index)) for index in range(n_terms))
    except OverflowError:
        series = (math.inf,)
    if not math.isfinite(math.fsum(series) if math.inf not in series else math.inf):
        raise ParameterError(f"Weights over {n_terms} layers grow beyond all numbers; use a smaller ratio, q or step.")
    return series


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """The same share of a tree's amount for each level and for the leaves.

    With ``split_share`` the splits together get that share, and the leaves the rest. ``count_share`` of each level's share
    goes to counts of its nodes. The next three divide the amount by other series.

    Privacy: Claim: a tree costs at most ``amount``. Because: see ``spread``. Assumes: as ``spread``.
    """

    split_share: float | None = None
    count_share: float = 0.0

    def plan(self, amount: float, depth: int) -> TreeBudget:
        return _with_shares(amount, self.series(depth), self.split_share, self.count_share)

    def series(self, depth: int) -> tuple[float, ...]:
        """The weights of all levels of splits, and of the leaves."""
        return (1.0,) * (depth + 1)


@dataclass(frozen=True)
class Geometric(Uniform):
    """Each level gets ``ratio`` times the share of the level above; the leaves come last.

    Deeper nodes hold fewer records, so the same noise hurts them more.
    """

    ratio: float = 2 ** (1 / 3)

    def series(self, depth: int) -> tuple[float, ...]:
        if not 0 < self.ratio < math.inf:
            raise ParameterError(f"ratio must be positive, not {self.ratio!r}.")
        return _finite(lambda level: self.ratio**level, depth + 1)


@dataclass(frozen=True)
class Arithmetic(Uniform):
    """Each level gets ``step`` times the root's share more than the level above; the leaves come last."""

    step: float = 1.0

    def series(self, depth: int) -> tuple[float, ...]:
        if not 0 <= self.step < math.inf:
            raise ParameterError(f"step must be at least 0, not {self.step!r}.")
        return _finite(lambda level: 1 + self.step * level, depth + 1)


@dataclass(frozen=True)
class Harmonic(Uniform):
    """Layer i of h gets a weight 1/(h-i+1): little at the root, most at the leaves [suihkonen2023, eq. 4.31 and 4.32].

    ``inner`` multiplies the weights of all layers but the leaves; 2 gives eq. 4.29.
    """

    inner: float = 1.0

    def series(self, depth: int) -> tuple[float, ...]:
        if not self.inner > 0:
            raise ParameterError(f"inner must be positive, not {self.inner!r}.")
        return (*(self.inner / (depth + 1 - level) for level in range(depth)), 1.0)


@dataclass(frozen=True)
class Linear:
    """Layer i of h gets e1*q**(i-1) + (i-1)*d, with e1 such that the layers sum to the budget [dong2022, eq. 12].

    ``slope`` is d as a share of its largest value 2*budget/(h*(h-1)); q = 1 gives the arithmetic case, slope 0 the
    geometric one, both the uniform one. The leaves are the last layer, h = depth + 1.

    Privacy: Claim: a tree costs at most ``amount``. Because: see ``spread``. Assumes: as ``spread``.
    """

    q: float = 1.0
    slope: float = 0.0
    count_share: float = 0.0

    def plan(self, amount: float, depth: int) -> TreeBudget:
        if not (1 <= self.q < math.inf and 0 <= self.slope < 1):
            raise ParameterError(f"Linear needs q >= 1 and 0 <= slope < 1, not q={self.q!r}, slope={self.slope!r}.")
        return _with_shares(amount, self.layers(depth + 1), None, self.count_share)

    def layers(self, n_layers: int) -> tuple[float, ...]:
        """The amounts of the layers for a budget of 1, from the root to the leaves, as published."""
        h, q = n_layers, self.q
        d = self.slope * 2 / (h * (h - 1)) if h > 1 else 0.0
        share = 1 / h if q == 1 else 1 / math.fsum(_finite(lambda i: q**i, h))
        first = (1 - d * h * (h - 1) / 2) * share
        return _finite(lambda i: first * q**i + i * d, h)


@dataclass(frozen=True)
class EveryQuery:
    """The same share for each choice and for the counts of each level and of the leaves [fletcher2015, eq. 10].

    A tree of ``depth`` levels of splits asks 2*depth + 1 queries; the paper counts the leaves as a level.

    Privacy: Claim: a tree costs at most ``amount``. Because: see ``spread``. Assumes: as ``spread``.
    """

    def plan(self, amount: float, depth: int) -> TreeBudget:
        return spread(amount, [1.0] * depth, [1.0] * (depth + 1))


@dataclass(frozen=True)
class Weighted:
    """Levels of splits in proportion to weights, public or released, and ``leaf_share`` of the amount for the leaves.

    Privacy: Claim: a tree costs at most ``amount``. Because: see ``spread``. Assumes: as ``spread``.
    """

    weights: tuple[float, ...]
    leaf_share: float = 0.5

    def plan(self, amount: float, depth: int) -> TreeBudget:
        return _with_shares(amount, (*self.weights[:depth], 1.0), 1 - self.leaf_share, 0.0)


@dataclass(frozen=True)
class LeavesOnly:
    """All of the amount for the leaves, for trees whose splits are drawn without looking at records.

    A level of splits that offers more than one candidate refuses to run on 0.

    Privacy: Claim: a tree costs at most ``amount``. Because: see ``spread``. Assumes: as ``spread``.
    """

    def plan(self, amount: float, depth: int) -> TreeBudget:
        return spread(amount, [0.0] * depth, [0.0] * depth + [1.0])
