"""The noisy margin between two classes, as what a leaf releases. Sees sealed statistics."""

from dataclasses import dataclass

import numpy as np

from dpforest.parts.leaves.base import LeafRelease
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.schema import Classes, Target


@dataclass(frozen=True)
class NoisyMargin(LeafRelease):
    """The number of records by which one of two classes leads, with one noise instead of two.

    It has half the variance of the difference of two noisy counts. It does not tell how many records there are, so the
    released counts are the lead for the leading class and 0 for the other.

    Privacy:
        Claim: all leaves of a tree together cost ``amount``.
        Because: an added record moves the margin of one leaf by at most its weight, so L1 and L2 sensitivity are ``most``.
        Assumes: leaves hold different records; add/remove neighbours.
    """

    status = "proved"

    def accepts(self, target: Target) -> bool:
        return isinstance(target, Classes) and target.width == 2

    def release(
        self, statistics: Sealed[np.ndarray], amount: float, gate: Gate, target: Target, purpose: Purpose, most: int = 1
    ) -> tuple[np.ndarray, float]:
        margins = statistics.map(lambda counts: counts[:, 1] - counts[:, 0])
        released, variance = gate.add_noise(margins, Sensitivity(most, most**2), amount, purpose)
        return np.maximum(np.stack([-released, released], axis=1), 0) / most, variance / most**2
