"""Balance criterion: medians as splits."""

from dataclasses import dataclass

import numpy as np

from dpforest.privacy.base import Bound
from dpforest.schema import Target


@dataclass(frozen=True)
class Balance:
    """Records outside the largest child; min(left, right) for a binary split, so the best threshold is the median.

    Same law as exp(-(epsilon/2) |left - right|), but monotone, so no factor 2 is hidden in its constant.

    Privacy:
        Claim: adding a record of weight 0 .. unit raises the score by 0 .. unit.
        Because: the sum of all weights rises by its weight and the size of the largest child by 0 .. weight.
        Assumes: counts are exact integers.
    """

    status = "proved"

    def accepts(self, target: Target) -> bool:
        return True

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        sizes = target.sizes(children)
        return sizes.sum(axis=-1) - sizes.max(axis=-1)

    def bound(self, unit: int = 1) -> Bound:
        return Bound(low=0, high=unit)
