"""The Gini criterion on counts. Sees sealed counts."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from dpforest.parts.criteria.base import Criterion, records_only, score_each
from dpforest.privacy.base import Bound
from dpforest.schema import Classes, Target

UNITS = 64  # score units for one record
MOST_SQUARES = 1 << 57  # times UNITS they fit 63 bits


@dataclass(frozen=True)
class GiniCount(Criterion):
    """Negative Gini impurity times size: ``-sum over children of (n - sum(n_c**2) / n)``.

    On counts, because the normalised form has no useful global bound: its denominator depends on the data.

    Privacy:
        Claim: adding a record lowers the score by 0 to 2 records, and never raises it.
        Because: a record of class k falls in one child of size n. The child's impurity rises by
            ((n - n_k)**2 + sum over c != k of n_c**2) / (n (n+1)), which lies in [0, 2n/(n+1)] and is below 2.
            The score is an integer: each child's sum(n_c**2)/n is rounded down to 1/64 record. The real
            change of a child's term is below 128 units, so the change of the rounded term is at most 128,
            and rounding keeps the order, so it has the same sign.
        Assumes: counts are exact integers below 2**31.
    """

    status = "proved"
    targets = (Classes,)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        return score_each(_score, children)

    def bound(self, most: int = 1) -> Bound:
        records_only(self, most)
        return Bound(low=-2 * UNITS, high=0)


@njit(cache=True, nogil=True)
def _score(children, scores):
    for candidate in range(children.shape[0]):
        score = np.int64(0)
        for child in range(children.shape[1]):
            size, squares = 0, 0
            for count in children[candidate, child]:
                size += count
                squares += count * count
            if size == 0:
                continue
            if squares < MOST_SQUARES:
                score += np.int64(np.uint64(UNITS * squares) // np.uint64(size)) - UNITS * size
            else:
                score += UNITS * (squares // size - size) + UNITS * (squares % size) // size
        scores[candidate] = score
