"""Mixtures: one score that weighs several criteria. Sees sealed counts."""

from dataclasses import dataclass
from functools import cached_property
from math import lcm

import numpy as np

from dpforest.errors import ParameterError
from dpforest.parts.criteria.base import Criterion
from dpforest.privacy.base import Bound
from dpforest.schema import Target


@dataclass(frozen=True)
class Mixture(Criterion):
    """A sum of criteria, each scaled to width 1 and multiplied by a whole-number weight.

    ``Mixture(((GiniCount(), 16), (MaxOperator(), 8)))`` is Gini + lambda * max operator with lambda = 8/16: one
    choice does the work of two, and is paid once.

    Privacy:
        Claim: adding a record moves the score by an integer between the sum of the weighted lows and the sum of the
            weighted highs of its parts; the width is that of one unit times the sum of the weights.
        Because: each part moves within its own bound, and sums of intervals add their ends.
        Assumes: the bounds of the parts.
    """

    parts: tuple[tuple[Criterion, int], ...]
    status = "proved"

    def __post_init__(self) -> None:
        if not self.parts or any(not isinstance(weight, int) or weight < 1 for _, weight in self.parts):
            raise ParameterError("A mixture needs criteria with whole weights of at least 1.")
        if len({criterion.sees for criterion, _ in self.parts}) > 1:
            raise ParameterError("A mixture needs criteria that all see the same: targets, centres or residuals.")

    @property
    def sees(self) -> str:
        return self.parts[0][0].sees

    def accepts(self, target: Target) -> bool:
        return all(criterion.accepts(target) for criterion, _ in self.parts)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        scores, *others = (factor * criterion.score(children, target) for criterion, factor in self._scaled)
        for other in others:
            scores += other
        return scores

    def bound(self, most: int = 1) -> Bound:
        bounds = [(criterion.bound(most), factor) for criterion, factor in self._scaled]
        return Bound(sum(bound.low * factor for bound, factor in bounds), sum(b.high * f for b, f in bounds))

    @cached_property
    def _scaled(self) -> list[tuple[Criterion, int]]:
        """The criteria, each with the factor that scales it."""
        whole = lcm(*(criterion.bound().width for criterion, _ in self.parts))
        return [(criterion, weight * whole // criterion.bound().width) for criterion, weight in self.parts]
