"""Noisy class counts, as what a leaf releases. Sees sealed statistics."""

from dataclasses import dataclass

import numpy as np

from dpforest.parts.leaves.base import LeafRelease
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.schema import Classes, Target


@dataclass(frozen=True)
class NoisyCounts(LeafRelease):
    """The number of records of each class in a leaf, with noise.

    Privacy:
        Claim: all leaves of a tree together cost ``amount``.
        Because: an added record raises one count of one leaf by its weight, so L1 and L2 sensitivity are ``most``.
        Assumes: leaves hold different records; every class of the schema is released, present or not.
    """

    status = "proved"
    targets = (Classes,)

    def release(
        self, statistics: Sealed[np.ndarray], amount: float, gate: Gate, target: Target, purpose: Purpose, most: int = 1
    ) -> tuple[np.ndarray, float]:
        counts, variance = gate.add_noise(statistics, Sensitivity(most, most**2), amount, purpose)
        return counts / most, variance / most**2
