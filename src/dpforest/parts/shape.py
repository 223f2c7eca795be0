"""Rules for the number of trees and their depth. Sees public facts and a released number of rows.

A rule that ``needs_rows`` is given the number of rows that the schema declares, or else one that was bought with budget.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dpforest.parts.part import Part


@dataclass(frozen=True)
class Facts:
    """All that a recipe may plan with: public values, and a number of rows that is public or was released."""

    n_rows: float  # 0 if it is neither declared nor released
    epsilon: float
    delta: float
    n_features: int
    n_numeric: int
    mean_children: float  # mean number of children of a split, over features
    n_classes: int | None  # None for a bounded target
    n_trees: int = 1
    n_earlier: int = 0  # the number of trees of an earlier model that the fit starts from


@runtime_checkable
class Rule(Part, Protocol):
    """A rule that gives the depth or the number of trees."""

    def value(self, facts: Facts) -> int:
        """A whole number of at least 1."""


@dataclass(frozen=True)
class HalfTheFeatures(Rule):
    """A depth of m/2 levels for m features, rounded up: 7 for 13 [jagannathan2009; suihkonen2023, §4.5.1 and Table 5.1]."""

    def value(self, facts: Facts) -> int:
        return max(1, (facts.n_features + 1) // 2)


@dataclass(frozen=True)
class AllFeatures(Rule):
    """A depth of m levels for m features, the most that a tree can have if each feature is used once on a path."""

    def value(self, facts: Facts) -> int:
        return facts.n_features


@dataclass(frozen=True)
class HalfUntested(Rule):
    """The least depth at which under half of the numeric features are expected to be untested [suihkonen2023, eq. 4.37].

    On a path of depth d of random splits, s ((s-1)/s)**d of s numeric features are untested. Categorical features can be
    tested once, so half of their number is added, rounded down (``HalfTheFeatures`` rounds up).
    """

    def value(self, facts: Facts) -> int:
        s = facts.n_numeric
        depth = 0
        while s > 1 and s * ((s - 1) / s) ** depth >= s / 2:
            depth += 1
        return max(1, depth + (facts.n_features - s) // 2 + (s == 1))


@dataclass(frozen=True)
class LogRows(Rule):
    """The natural logarithm of the number of rows, rounded [suihkonen2023, §4.5.1 on Bojarski et al.]."""

    needs_rows = True

    def value(self, facts: Facts) -> int:
        return max(1, round(math.log(max(facts.n_rows, 2))))


@dataclass(frozen=True)
class SupportedTrees(Rule):
    """The largest number of trees t <= m for which sqrt(2) C t / epsilon < rows / d**2 [suihkonen2023, eq. 4.38].

    d is the mean number of values of a feature, each of which is a child of its split.
    """

    needs_rows = True

    def value(self, facts: Facts) -> int:
        if math.isinf(facts.epsilon):
            return facts.n_features
        room = facts.n_rows * facts.epsilon / (math.sqrt(2) * (facts.n_classes or 2) * facts.mean_children**2)
        return min(max(math.ceil(room) - 1, 1), facts.n_features)


@dataclass(frozen=True)
class FilledLeaves(Rule):
    """The largest depth at which trees of private medians have no empty leaf, but for a ``chance`` [consul2020, Theorem 2].

    The paper's "depth that will have no empty leaves with high probability". A leaf of a tree of d levels is empty if it has
    N/2**d records fewer than its even part, by symmetry half of the tail of Theorem 2, and 2**d leaves add up. ``rho``,
    ``n_choices`` (2 as printed; K + 1 for ``Medians``, of which each is charged) and ``part`` are those of the recipe: a
    level has rho * epsilon / d, and trees share the rows if ``part`` is set, else the budget.

    What the theorem takes for granted: numbers without ties (on a public grid: cuts that halve every node), records that
    are dealt evenly, and one feature a node. With K features the one that is chosen may be the one whose median is farthest
    off, and the promise is void. It asks for much: at the paper's own settings (Table 1, 529 records a tree) the tail
    sums to 0.62, for banknote (Table 2) to more than 1.
    """

    chance: float = 0.05
    rho: float = 0.5
    n_choices: int = 2
    part: bool = True
    needs_rows = True

    def value(self, facts: Facts) -> int:
        depth = 1
        while self.risk(facts, depth + 1) <= self.chance:
            depth += 1
        return depth

    def risk(self, facts: Facts, depth: int) -> float:
        """An upper bound, by Theorem 2, on the chance that some leaf is empty; 1 for less than one record a leaf."""
        n_rows = facts.n_rows / facts.n_trees if self.part else facts.n_rows
        epsilon = facts.epsilon if self.part else facts.epsilon / facts.n_trees
        even = n_rows / 2**depth
        if even < 1:
            return 1.0
        return min(1.0, 2 ** (depth - 1) * median_tail(even, depth, self.rho * epsilon / (self.n_choices * depth)))


def median_tail(distance: float, depth: int, epsilon: float) -> float:
    """An upper bound on the chance that a leaf's size is ``distance`` or more from its even part [consul2020, Theorem 2].

    ``epsilon`` is that of one median. It is the smaller of the theorem's two bounds. They are about d Laplace draws, of
    scale 1/epsilon at the last level and half of that at each level above: the size of a child is that of its parent halved,
    plus a draw.
    """
    steps = epsilon * distance
    gamma = 8 * (1 - 4.0**-depth) / 3
    beta = math.sqrt((math.sqrt(1 - 2 / math.e) + 1) / 2)
    if steps <= 0:
        return 1.0
    return min(1.0, gamma / steps**2, 2 * math.exp(-min(steps**2 / (4 * gamma), steps * beta / 2)))


def variance_preserving_trees(
    epsilon: float, n_features: int, first_squares: float, second_squares: float, n_first: int, n_second: int,
    mean_ratio: float,
) -> int:  # fmt: skip
    """The largest number of trees that keeps the variance of attributes [suihkonen2023, eq. 4.35].

    ``first_squares`` and ``second_squares`` are S1 and S2, ``mean_ratio`` is m1/m2. The bound reads
    x + 3 sqrt(x) (1 - 1/sqrt(M)) <= right side with x = t/sqrt(M), so it is solved for sqrt(x).

    Privacy: none is claimed by this rule; it is a relaxation that does not give differential privacy, and its inputs are
    facts about records. For researchers who compare it with a budget.
    """
    root = math.sqrt(n_features)
    right = first_squares * (1 - 1 / (n_first + 1)) + mean_ratio**2 * second_squares * (1 - 1 / n_second) + 36 / epsilon**2
    slope = 3 * (1 - 1 / root)
    return max(0, math.floor(root * ((-slope + math.sqrt(slope**2 + 4 * right)) / 2) ** 2))


def label_preserving_trees(epsilon: float, share: float, least_leaf: int) -> int:
    """The largest number of trees that keeps the variance of labels [suihkonen2023, eq. 4.36].

    Privacy: as ``variance_preserving_trees``.
    """
    return math.floor((least_leaf * (least_leaf + 1) + 1 / epsilon**2) / (share * (1 - share)))
