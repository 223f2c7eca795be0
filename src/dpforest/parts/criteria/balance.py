"""The balance criterion, whose best split is the median. Sees sealed counts."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from dpforest.parts.criteria.base import Criterion
from dpforest.privacy.base import Bound
from dpforest.schema import Classes, Target


@dataclass(frozen=True)
class Balance(Criterion):
    """Records outside the largest child; min(left, right) for a binary split, so the best threshold is the median.

    Same law as exp(-(epsilon/2) |left - right|), but monotone, so no factor 2 is hidden in its constant.

    Privacy:
        Claim: adding a record of weight 0 .. most raises the score by 0 .. most.
        Because: the sum of all weights rises by its weight and the size of the largest child by 0 .. weight.
        Assumes: counts are exact integers.
    """

    status = "proved"

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        scores = np.empty(children.shape[:-2], dtype=np.int64)
        # Records are counted for each class, or in the first of three sums.
        n_counts = target.width if isinstance(target, Classes) else 1
        _score(np.ascontiguousarray(children).reshape(scores.size, *children.shape[-2:]), n_counts, scores.reshape(-1))
        return scores

    def bound(self, most: int = 1) -> Bound:
        return Bound(low=0, high=most)


@njit(cache=True, nogil=True)
def _score(children, n_counts, scores):
    for candidate in range(scores.size):
        total, largest = 0, 0
        for child in range(children.shape[1]):
            size = 0
            for c in range(n_counts):
                size += children[candidate, child, c]
            total += size
            largest = max(largest, size)
        scores[candidate] = total - largest
