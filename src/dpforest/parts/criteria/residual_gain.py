"""The gain of a split by the residuals of all classes. Sees sealed sums."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from dpforest.parts.criteria.base import Criterion, score_each
from dpforest.privacy.base import Bound
from dpforest.schema import Classes, Target


@dataclass(frozen=True)
class ResidualGain(Criterion):
    """How far the children lean to some classes and from others: ``sum over children and classes of max(G_c, 0)``.

    G are the sums of the residuals of the child's records, see ``parts.leaves.ResidualSums``; over all classes they are 0.
    The max operator sees the own class of a record only; this also sees with which others the trees confuse it. For two
    classes the two are the same, up to a factor and a constant of the node.

    Privacy:
        Claim: adding a record of weight 0 .. most moves the score by -most .. most.
        Because: it falls in one child and adds a g in 0 .. most to the sum of its class, which raises that term by 0 .. g,
            and to the others numbers of at most 0 that sum to -g, which lower their terms by 0 .. g in all.
        Assumes: sums are exact integers; an added record changes no other record's residuals.
    """

    status = "proved"
    targets = (Classes,)
    sees: ClassVar[str] = "residuals"

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        return score_each(_score, children)

    def bound(self, most: int = 1) -> Bound:
        return Bound(low=-most, high=most)


@njit(cache=True, nogil=True)
def _score(children, scores):
    n_classes = children.shape[2] - 1  # the last entry is the weight
    for candidate in range(scores.size):
        total = 0
        for child in range(children.shape[1]):
            for c in range(n_classes):
                total += max(children[candidate, child, c], 0)
        scores[candidate] = total
