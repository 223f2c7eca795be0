"""Stopping rules: which open nodes may be split. Sees public and released values only."""

import math
from dataclasses import dataclass

import numpy as np

from dpforest.errors import ParameterError
from dpforest.parts.recipe import Stop
from dpforest.parts.shape import Facts


@dataclass(frozen=True)
class NoisySize(Stop):
    """Splits nodes whose released counts sum to ``least`` or more, unless one class has all of that sum.

    Privacy:
        Claim: costs nothing.
        Because: it reads released counts.
        Assumes: the allocation has an amount for counts at every level.
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

    Privacy:
        Claim: costs nothing.
        Because: it reads released counts.
        Assumes: the allocation has an amount for counts at every level.
    """

    def may_split(self, counts: np.ndarray | None, variance: float, reached: np.ndarray, facts: Facts) -> np.ndarray:
        assert counts is not None, "AboveNoise needs counts at every level"
        return counts.sum(axis=1) / (facts.mean_children * counts.shape[1]) >= math.sqrt(variance)


@dataclass(frozen=True)
class EstimatedSupport(Stop):
    """Splits nodes whose children would hold more than sqrt(2) C t / epsilon records if rows divided evenly at every split.

    The support threshold of the signal-to-noise forest [suihkonen2023, eq. 4.38 and §4.5.3]. Splits above count with
    the values that they have, the next one with the mean number of values, as in eq. 4.38. Rows are public or released.

    Privacy:
        Claim: costs nothing.
        Because: it reads the schema, earlier splits and a released number of rows.
        Assumes: as said.
    """

    needs_rows = True

    def may_split(self, counts: np.ndarray | None, variance: float, reached: np.ndarray, facts: Facts) -> np.ndarray:
        threshold = math.sqrt(2) * (facts.n_classes or 2) * facts.n_trees / facts.epsilon
        return facts.n_rows * reached / facts.mean_children > threshold
