"""The protocol of a leaf release. Sees sealed statistics, through ``Sealed.map`` and the gate."""

from typing import ClassVar, Protocol

import numpy as np

from dpforest.parts.part import Part
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.schema import Target


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
