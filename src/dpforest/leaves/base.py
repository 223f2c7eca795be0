"""What a leaf release is: sealed statistics of groups of records in, released counts out."""

from typing import Protocol

import numpy as np

from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.schema import Target


class LeafRelease(Protocol):
    """Releases what leaves (or inner nodes) hold. Every node of the public structure is released, empty or not.

    Where the noises of the counts of a node depend on each other, a method ``noise(target)`` gives the factors of ``bands``.
    """

    status: str

    def accepts(self, target: Target) -> bool:
        """Whether the release has a meaning for this target."""

    def release(
        self, statistics: Sealed[np.ndarray], amount: float, gate: Gate, target: Target, label: str, unit: int = 1
    ) -> tuple[np.ndarray, float]:
        """Counts ``(n_nodes, n_values)`` in records, and the variance of the noise in each.

        A record adds 0 .. ``unit`` to the statistics of its leaf; counts are in records of full weight.
        """
