"""The max operator: how many records are in the majority class of their child. Sees sealed counts."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from dpforest.parts.criteria.base import Criterion, score_each
from dpforest.privacy.base import Bound
from dpforest.schema import Classes, Target


@dataclass(frozen=True)
class MaxOperator(Criterion):
    """Records that are in the commonest class of their child: ``sum over children of max over classes of n_c``.

    On records weighted by the residuals of two classes it is, up to a constant of the node, the sum of the children's
    absolute gradients.

    Linear in the difference between classes, so its signal stands out of the noise earlier than Gini's, which is
    quadratic; but blind where both children keep the same majority.

    Privacy:
        Claim: adding a record of weight 0 .. most raises the score by 0 .. most.
        Because: it falls in one child, and raises one count there by its weight, so the maximum rises by 0 .. weight.
        Assumes: counts are exact integers; an added record changes no other record's weight.
    """

    status = "proved"
    targets = (Classes,)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        return score_each(_score, children)

    def bound(self, most: int = 1) -> Bound:
        return Bound(low=0, high=most)


@njit(cache=True, nogil=True)
def _score(children, scores):
    for candidate in range(scores.size):
        total = 0
        for child in range(children.shape[1]):
            largest = 0
            for c in range(children.shape[2]):
                largest = max(largest, children[candidate, child, c])
            total += largest
        scores[candidate] = total
