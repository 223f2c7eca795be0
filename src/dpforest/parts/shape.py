"""Rules for the number of trees, their depth, and which nodes may be split. Sees public and released values only.

A rule that ``needs_rows`` is given the number of rows that the schema declares, or else one that was bought with budget.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpforest.errors import ParameterError
from dpforest.parts.part import Part


@dataclass(frozen=True)
class Facts:
    """All that a recipe may plan with: public values, and a public or released number of rows."""

    n_rows: float  # 0 if it is neither declared nor released
    epsilon: float
    delta: float
    n_features: int
    n_numeric: int
    mean_children: float  # mean number of children of a split, over features
    n_classes: int | None  # None for a bounded target
    n_trees: int = 1
    n_earlier: int = 0  # the number of trees of an earlier model that the fit starts from


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
    """A depth of m levels for m features, as if each were used once on a path."""

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
        """A bound, by Theorem 2, on the chance of an empty leaf; 1 below one record a leaf."""
        n_rows = facts.n_rows / facts.n_trees if self.part else facts.n_rows
        epsilon = facts.epsilon if self.part else facts.epsilon / facts.n_trees
        even = n_rows / 2**depth
        if even < 1:
            return 1.0
        return min(1.0, 2 ** (depth - 1) * median_tail(even, depth, self.rho * epsilon / (self.n_choices * depth)))


def median_tail(distance: float, depth: int, epsilon: float) -> float:
    """A bound on the chance that a leaf's size is ``distance`` off its even part [consul2020, Theorem 2].

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


class Stop(Part, Protocol):
    """A rule on released values for which open nodes may be split further."""

    def may_split(self, counts: np.ndarray | None, variance: float, reached: np.ndarray, facts: Facts) -> np.ndarray:
        """A mask ``(n_open,)`` of the open nodes that may be split.

        ``counts`` ``(n_open, n_values)`` and ``variance`` are what was released at this level, if anything; ``reached``
        ``(n_open,)`` is the share of all rows that each node would hold if every split above it had divided its rows evenly
        among the values that the schema lists.
        """


@dataclass(frozen=True)
class NoisySize(Stop):
    """Splits nodes with released counts of at least ``least`` in sum, unless one class has them all.

    Privacy: Claim: costs nothing. Because: it reads released counts. Assumes: they are released at every level.
    """

    least: float = 100.0

    def __post_init__(self) -> None:
        if not self.least >= 0:
            raise ParameterError(f"min_size must be a number of at least 0, not {self.least!r}.")

    def may_split(self, counts: np.ndarray | None, variance: float, reached: np.ndarray, facts: Facts) -> np.ndarray:
        assert counts is not None, "NoisySize needs counts at every level"
        sizes = counts.sum(axis=1)
        return (sizes >= self.least) & (counts.max(axis=1) < sizes)


@dataclass(frozen=True)
class AboveNoise(Stop):
    """Splits nodes whose children would hold more records of a class, on average, than a standard deviation of the noise.

    The rule of DiffPID3: stop when size / (values * classes) < sqrt(2) / epsilon, but with the mean number of values over
    features instead of the largest. A binary split of numbers has two.

    Privacy: Claim: costs nothing. Because: it reads released counts. Assumes: they are released at every level.
    """

    def may_split(self, counts: np.ndarray | None, variance: float, reached: np.ndarray, facts: Facts) -> np.ndarray:
        assert counts is not None, "AboveNoise needs counts at every level"
        return counts.sum(axis=1) / (facts.mean_children * counts.shape[1]) >= math.sqrt(variance)


@dataclass(frozen=True)
class EstimatedSupport(Stop):
    """Splits nodes if evenly divided children would hold more than sqrt(2) C t / epsilon records.

    The support threshold of the signal-to-noise forest [suihkonen2023, eq. 4.38 and §4.5.3]. Splits above count with
    the values that they have, the next one with the mean number of values, as in eq. 4.38.

    Privacy: Claim: costs nothing. Because: it reads schema, splits and rows. Assumes: rows are public or released.
    """

    needs_rows = True

    def may_split(self, counts: np.ndarray | None, variance: float, reached: np.ndarray, facts: Facts) -> np.ndarray:
        threshold = math.sqrt(2) * (facts.n_classes or 2) * facts.n_trees / facts.epsilon
        return facts.n_rows * reached / facts.mean_children > threshold
