"""One privately chosen label, as what a leaf releases. Sees sealed statistics."""

from dataclasses import dataclass

import numpy as np

from dpforest.parts.leaves.base import LeafRelease
from dpforest.privacy.base import Bound
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.schema import Classes, Target


@dataclass(frozen=True)
class PrivateLabel(LeafRelease):
    """The label of a leaf, chosen by its class counts; released as one record of that class.

    Privacy:
        Claim: all leaves of a tree together cost ``amount``.
        Because: the score of a label is its count; an added record raises one score of one leaf by 0 .. most and
            moves no other, so the width is ``most`` and one choice for each leaf costs ``amount`` once.
        Assumes: leaves hold different records; labels are public.
    """

    status = "proved"
    targets = (Classes,)

    def release(
        self, statistics: Sealed[np.ndarray], amount: float, gate: Gate, target: Target, purpose: Purpose, most: int = 1
    ) -> tuple[np.ndarray, float]:
        labels = gate.select(statistics, None, Bound(0, most), amount, purpose)
        return np.eye(target.n_values)[labels], 0.0
