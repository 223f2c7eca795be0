"""Leaf releases: what leaves publish about their records. Sees sealed statistics, through ``Sealed.map`` and the gate."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from dpforest.errors import AccountingError, ParameterError
from dpforest.parts.part import Part
from dpforest.privacy.bounds import Bound, Sensitivity
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.schema import TARGET_STEPS, Bounded, Classes, Target

PARTS = 20  # ``mass`` is a whole number of these parts of the weight of a margin


class LeafRelease(Part, Protocol):
    """A way in which leaves (or inner nodes) release counts of their records. Every node is released, empty or not."""

    status: str  # "proved", if the cost has a proof here
    residuals: ClassVar[bool] = False  # whether ``statistics`` are ``sum_residuals`` instead of counts

    def noise(self, target: Target) -> tuple[float, float, float] | None:
        """The factors of the covariance of a node's noisy counts (see ``forest.bands``); None if they are independent."""
        return None

    def release(
        self, statistics: Sealed[np.ndarray], amount: float, gate: Gate, target: Target, purpose: Purpose, most: int = 1
    ) -> tuple[np.ndarray, float]:
        """Released counts ``(n_nodes, n_values)`` in records of full weight, and the variance of the noise in each.

        A record adds 0 .. ``most`` to the statistics of its leaf, and ``most`` is full weight.
        """


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


@dataclass(frozen=True)
class TwoBinMean(LeafRelease):
    """Noisy sums of 1-z and z for z the target's fraction of its range; the mean is their ratio.

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
        """The factors of ``bands``; the margin has twice the stated variance, the size 2/mass**2 times it."""
        return 1.0, 1.0, ((PARTS / round(PARTS * self.mass)) ** 2 - 1) / 2


def check_mass(mass: float) -> None:
    if not 1 / PARTS <= mass <= 1:
        raise ParameterError(f"mass must lie in [{1 / PARTS}, 1], not {mass!r}.")


def rotated_sensitivity(parts: int, most: int) -> Sensitivity:
    """The sensitivity of (20 G, parts W) to one record of weight up to ``most``."""
    return Sensitivity((PARTS + parts) * most, (PARTS**2 + parts**2) * most**2)


def low_and_high(sums: np.ndarray) -> np.ndarray:
    """Sums of S - z and of z ``(n_leaves, 2)`` on a grid of S steps, from counts and sums."""
    return np.stack([TARGET_STEPS * sums[:, 0] - sums[:, 1], sums[:, 1]], axis=1)


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
        """The factors of ``bands``; a sum's variance is 2C/(C-1) times the stated one, the size's 1/mass**2 times that."""
        n = target.n_values
        own, of_size = 2 * (n - 1) / n, 2 * n / (n - 1) * (PARTS / round(PARTS * self.mass)) ** 2
        return own, own, (of_size - n * own) / n**2


def residual_sensitivity(parts: int, most: int) -> Sensitivity:
    """The sensitivity of (20 g, parts w) to one record of weight up to ``most``."""
    return Sensitivity((2 * PARTS + parts) * most, (2 * PARTS**2 + parts**2) * most**2)
