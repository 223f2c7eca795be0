"""The Gini criterion on counts. Sees sealed counts."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from dpforest.parts.criteria.base import Criterion, score_each
from dpforest.privacy.base import Bound
from dpforest.schema import Classes, Target

UNITS = 64  # score units for one record
MOST_SQUARES = 1 << 57  # times UNITS they fit 63 bits
MOST_SIZE = 1 << 31  # its square fits 63 bits
HALF_BITS = 20  # of sizes below 2**41


@dataclass(frozen=True)
class GiniCount(Criterion):
    """Negative Gini impurity times size: ``-sum over children of (n - sum(n_c**2) / n)``.

    On counts, because the normalised form has no useful global bound: its denominator depends on the data.

    Privacy:
        Claim: adding a record of weight 0 .. most lowers the score by 0 to 2 most records, and never raises it.
        Because: a record of class k falls in one child. By the weight n_k of its class there, the child's impurity
            n - sum(n_c**2) / n rises at the rate (1 - s_k)**2 + sum over c != k of s_c**2, s being the classes' shares: a
            number in 0 .. 2. So a weight w raises it by 0 .. 2w. The score is an integer: each child's
            sum(n_c**2) / n is rounded down to 1/64, its size is whole, and a number that rises by at most the whole number
            128 w rises by at most as much after rounding up, and does not fall.
        Assumes: sizes of children are exact integers below 2**41; an added record changes no other record's weight.
    """

    status = "proved"
    targets = (Classes,)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        return score_each(_score, children)

    def bound(self, most: int = 1) -> Bound:
        return Bound(low=-2 * UNITS * most, high=0)


@njit(cache=True, nogil=True)
def _score(children, scores):
    for candidate in range(children.shape[0]):
        score = np.int64(0)
        for child in range(children.shape[1]):
            size, squares = np.int64(0), np.int64(0)
            for c in range(children.shape[2]):
                size += children[candidate, child, c]
                squares += children[candidate, child, c] * children[candidate, child, c]
            if size == 0:
                continue
            if size < MOST_SIZE:  # else the squares may have passed 64 bits
                if squares < MOST_SQUARES:
                    score += np.int64(np.uint64(UNITS * squares) // np.uint64(size)) - UNITS * size
                else:
                    score += UNITS * (squares // size - size) + UNITS * (squares % size) // size
            else:
                score += _large(children[candidate, child], size) - UNITS * size
        scores[candidate] = score


@njit(cache=True, nogil=True)
def _large(counts, size):
    """``UNITS * sum(counts**2) / size``, rounded down, where squares do not fit 64 bits: each is divided in two steps."""
    whole, rest = np.int64(0), np.int64(0)
    for count in counts:
        high, low = count >> HALF_BITS, count & ((1 << HALF_BITS) - 1)
        first = count * high
        second = ((first % size) << HALF_BITS) + count * low
        whole += ((first // size) << HALF_BITS) + second // size
        rest += second % size
    return UNITS * whole + UNITS * rest // size
