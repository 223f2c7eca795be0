"""The margin and the mass of a leaf, with unequal noise, as what a leaf releases. Sees sealed statistics."""

from dataclasses import dataclass

import numpy as np

from dpforest.errors import AccountingError, ParameterError
from dpforest.parts.leaves.base import LeafRelease
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.schema import TARGET_STEPS, Bounded, Target

# ``mass`` as a whole number of parts of the margin's weight.
PARTS = 20


@dataclass(frozen=True)
class Rotated(LeafRelease):
    """The lead of one of two classes over the other with little noise, and their sum with more.

    The vote of a leaf depends on its margin G = W1 - W0 first and on its mass W = W1 + W0 much less, so W is scaled by
    ``mass`` before both get the same noise: its own noise is 1/mass times as wide. The counts are (W - G)/2 and (W + G)/2.
    A bounded target has two classes too, low and high (see ``forest.tree``).

    Privacy:
        Claim: all leaves of a tree together cost ``amount``.
        Because: with m = 20 mass, rounded to a whole number, an added record of weight w <= most moves 20 G by at most 20 w
            and m W by m w, in one leaf: L1 is at most (20 + m) most and L2**2 at most (20**2 + m**2) most**2. For a value z
            of S steps, G = 2z - S lies in -S .. S and W = S, so S takes the place of most.
        Assumes: leaves hold different records; an added record changes no other record's weight.
    """

    mass: float = 0.15
    status = "proved"

    def __post_init__(self) -> None:
        check_mass(self.mass)

    def accepts(self, target: Target) -> bool:
        return target.n_values == 2

    def release(
        self, statistics: Sealed[np.ndarray], amount: float, gate: Gate, target: Target, purpose: Purpose, most: int = 1
    ) -> tuple[np.ndarray, float]:
        if isinstance(target, Bounded):
            if most != 1:
                raise AccountingError("Rotated sums of a bounded target have no bound for weighted records.")
            statistics, most = statistics.map(low_and_high), TARGET_STEPS
        parts = round(PARTS * self.mass)
        rotated = statistics.map(
            lambda counts: np.stack([PARTS * (counts[:, 1] - counts[:, 0]), parts * counts.sum(axis=1)], axis=1)
        )
        released, variance = gate.add_noise(rotated, rotated_sensitivity(parts, most), amount, purpose)
        margin = released[:, 0] / (PARTS * most)
        size = released[:, 1] / (parts * most)
        # The variance of a count, as if the margin were the difference of two.
        return np.stack([size - margin, size + margin], axis=1) / 2, variance / (PARTS * most) ** 2 / 2

    def noise(self, target: Target) -> tuple[float, float, float]:
        """The factors of ``bands``; the margin has twice the stated variance, the size 1/mass**2 times that."""
        return 1.0, 1.0, ((PARTS / round(PARTS * self.mass)) ** 2 - 1) / 2


def check_mass(mass: float) -> None:
    if not 1 / PARTS <= mass <= 1:
        raise ParameterError(f"mass must lie in [{1 / PARTS}, 1], not {mass!r}.")


def rotated_sensitivity(parts: int, most: int) -> Sensitivity:
    """The sensitivity of (20 G, parts W) to one record of weight up to ``most``."""
    return Sensitivity((PARTS + parts) * most, (PARTS**2 + parts**2) * most**2)


def low_and_high(sums: np.ndarray) -> np.ndarray:
    """Sums of S - z and of z ``(n_leaves, 2)``, z on a grid of S steps, from numbers of records and sums of z."""
    return np.stack([TARGET_STEPS * sums[:, 0] - sums[:, 1], sums[:, 1]], axis=1)
