"""The mean of a bounded target from two noisy sums, as what a leaf releases. Sees sealed statistics."""

from dataclasses import dataclass

import numpy as np

from dpforest.errors import AccountingError
from dpforest.parts.leaves.base import LeafRelease
from dpforest.parts.leaves.rotated import low_and_high
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.schema import TARGET_STEPS, Bounded, Target


@dataclass(frozen=True)
class TwoBinMean(LeafRelease):
    """Noisy sums of 1-z and of z, with z the target as a fraction of its range; the mean is the second over their total.

    An empty leaf needs no special case, and no noise is scaled by a private size.

    Privacy:
        Claim: all leaves of a tree together cost ``amount``.
        Because: on the grid of S steps an added record of value z adds S-z to one sum and z to the other of one
            leaf: L1 = S exactly, L2**2 = (S-z)**2 + z**2 <= S**2.
        Assumes: leaves hold different records; z is clipped to its public range.
    """

    status = "proved"
    targets = (Bounded,)

    def release(
        self, statistics: Sealed[np.ndarray], amount: float, gate: Gate, target: Target, purpose: Purpose, most: int = 1
    ) -> tuple[np.ndarray, float]:
        if most != 1:
            raise AccountingError("TwoBinMean has no bound for weighted records.")
        bins = statistics.map(low_and_high)
        released, variance = gate.add_noise(bins, Sensitivity(TARGET_STEPS, TARGET_STEPS**2), amount, purpose)
        return released / TARGET_STEPS, variance / TARGET_STEPS**2
