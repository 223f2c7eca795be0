"""Noisy sums of the residuals of all classes, as what a leaf releases. Sees sealed statistics."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpforest.parts.leaves.base import LeafRelease
from dpforest.parts.leaves.rotated import PARTS, check_mass
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import 
from dpforest.schema import Classes, Target


@dataclass(frozen=True)
class ResidualSums(LeafRelease):
    """The sums of the residuals of each class with little noise, and of all weights with more; see ``Rotated``.

    A record of class y that the trees give shares p adds g = (1[c = y] - p_c) / cap for each class c, scaled down to
    g_y = 1 where it is more, and its weight w = min(1, (1 - p_y)/cap), with cap = (C-1)/C. The counts are
    (W + (C-1) g_c)/C: they sum to the weight of the leaf, and before the first tree they are its class counts.

    Privacy:
        Claim: all leaves of a tree together cost ``amount``.
        Because: in parts of 1/most of a record, -g_c are whole numbers >= 0 for c != y that sum to g_y <= most (each
            is rounded down), so L1 of g is 2 g_y <= 2 most and L2**2 is at most 2 most**2; w <= most. With g
            scaled by 20 and w by m = 20 mass (rounded), in one leaf L1 <= (40 + m) most, L2**2 <= (2 20**2 + m**2) most**2.
        Assumes: leaves hold different records; an added record changes no other record's residuals.
    """

    mass: float = 0.15
    status = "proved"
    residuals: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_mass(self.mass)

    def accepts(self, target: Target) -> bool:
        return isinstance(target, Classes) and target.n_values > 1

    def release(
        self, statistics: Sealed[np.ndarray], amount: float, gate: Gate, target: Target, purpose: Purpose, most: int = 1
    ) -> tuple[np.ndarray, float]:
        parts, n_classes = round(PARTS * self.mass), target.n_values
        factors = np.array([PARTS] * n_classes + [parts])
        released, variance = gate.add_noise(
            statistics.map(lambda sums: factors * sums), residual_sensitivity(parts, most), amount, purpose
        )
        lead = released[:, :-1] / (PARTS * most)
        lead -= lead.mean(axis=1, keepdims=True)
        size = released[:, -1] / (parts * most)
        counts = (size[:, None] + (n_classes - 1) * lead) / n_classes
        # Half the variance of a centred lead, as in ``Rotated``: what shrinkage should be measured by.
        return counts, variance / (PARTS * most) ** 2 * (n_classes - 1) / n_classes / 2

    def noise(self, target: Target) -> tuple[float, float, float]:
        """The factors of ``bands``; a sum has 2C/(C-1) times the stated variance, the size 1/mass**2 times that."""
        n = target.n_values
        own, of_size = 2 * (n - 1) / n, 2 * n / (n - 1) * (PARTS / round(PARTS * self.mass)) ** 2
        return own, own, (of_size - n * own) / n**2


def residual_sensitivity(parts: int, most: int) -> Sensitivity:
    """The sensitivity of (20 g, parts w) to one record of weight up to ``most``."""
    return Sensitivity((2 * PARTS + parts) * most, (2 * PARTS**2 + parts**2) * most**2)
