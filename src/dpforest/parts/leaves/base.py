"""What a leaf release is: sealed statistics of groups of records in, released counts out."""

from typing import ClassVar, Protocol

import numpy as np

from dpforest.parts.part import Part
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.schema import Target


class LeafRelease(Part, Protocol):
    """Releases what leaves (or inner nodes) hold. Every node of the public structure is released, empty or not."""

    status: str
    residuals: ClassVar[bool] = False  # wants ``sum_residuals`` instead of counts

    def noise(self, target: Target) -> tuple[float, float, float] | None:
        """The factors of ``bands`` where the noises of the counts of a node depend on each other."""
        return None

    def release(
        self, statistics: Sealed[np.ndarray], amount: float, gate: Gate, target: Target, purpose: Purpose, most: int = 1
    ) -> tuple[np.ndarray, float]:
        """Counts ``(n_nodes, n_values)`` in records, and the variance of the noise in each.

        A record adds 0 .. ``most`` to the statistics of its leaf; counts are in records of full weight.
        """
