"""Soft agreement: how far a split sends records to opposite sides of the node's centre. Sees sealed counts."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpforest.parts.criteria.base import Criterion
from dpforest.privacy.base import Bound
from dpforest.schema import Bounded, Target


@dataclass(frozen=True)
class SoftAgreement(Criterion):
    """The weight on each child's side of the centre: ``max(below_left + above_right, above_left + below_right)``.

    A record of a bounded target counts as below or above its node's released centre, weighted by its capped distance (see
    ``growing.centres``). Linear in the difference between the children, so its signal stands out of the noise earlier
    than squared error's.

    Privacy:
        Claim: adding a record of weight 0 .. most raises the score by 0 .. most.
        Because: it falls in one child, on one side, and so adds its weight to exactly one of the two sums.
        Assumes: counts are exact integers; centres are released; an added record changes no other record's weight.
    """

    status = "proved"
    targets = (Bounded,)
    sees: ClassVar[str] = "centre"

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        below, above = children[..., 0], children[..., 1]
        return np.maximum(below[..., 0] + above[..., 1], above[..., 0] + below[..., 1])

    def bound(self, most: int = 1) -> Bound:
        return Bound(low=0, high=most)
