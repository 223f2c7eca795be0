"""Rules for the shape of a forest: public facts in, a number out.

A rule that ``needs_rows`` is given a number of rows that the schema declares or that was bought with budget.
"""

import math
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Facts:
    """What a recipe may plan with: public values, and a number of rows that is public or was released."""

    n_rows: float
    epsilon: float
    delta: float
    n_features: int
    n_numeric: int
    mean_children: float  # mean number of children of a split, over features
    n_classes: int | None  # None for a bounded target
    n_trees: int = 1


class Rule(Protocol):
    """Gives a depth or a number of trees."""

    needs_rows: bool

    def value(self, facts: Facts) -> int:
        """A whole number of at least 1."""


@dataclass(frozen=True)
class HalfTheFeatures:
    """m/2 levels for m features [jagannathan2009; suihkonen2023, §4.5.1]."""

    needs_rows = False

    def value(self, facts: Facts) -> int:
        return max(1, facts.n_features // 2)


@dataclass(frozen=True)
class HalfUntested:
    """The least depth at which under half of the numeric features are expected to be untested [suihkonen2023, eq. 4.37].

    On a path of depth d of random splits, s ((s-1)/s)**d of s numeric features are untested. Categorical features can be
    tested once, so half of them adds its number; this is the m/2 of ``HalfTheFeatures``.
    """

    needs_rows = False

    def value(self, facts: Facts) -> int:
        s = facts.n_numeric
        depth = 0
        while s > 1 and s * ((s - 1) / s) ** depth >= s / 2:
            depth += 1
        return max(1, depth + (facts.n_features - s) // 2 + (s == 1))


@dataclass(frozen=True)
class LogRows:
    """The logarithm of the number of rows [suihkonen2023, §4.5.1 on Bojarski et al.]."""

    needs_rows = True

    def value(self, facts: Facts) -> int:
        return max(1, round(math.log(max(facts.n_rows, 2))))


@dataclass(frozen=True)
class SupportedTrees:
    """The largest number of trees t <= m for which sqrt(2) C t / epsilon < rows / d**2 [suihkonen2023, eq. 4.38].

    d is the mean number of values of a feature, each of which is a child of its split.
    """

    needs_rows = True

    def value(self, facts: Facts) -> int:
        if math.isinf(facts.epsilon):
            return facts.n_features
        room = facts.n_rows * facts.epsilon / (math.sqrt(2) * (facts.n_classes or 2) * facts.mean_children**2)
        return min(max(math.ceil(room) - 1, 1), facts.n_features)


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
