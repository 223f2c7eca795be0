"""Gini criterion on counts."""

from dataclasses import dataclass

import numpy as np

from dpforest.criteria.base import records_only
from dpforest.privacy.base import Bound
from dpforest.schema import Classes, Target

UNITS = 64  # score units for one record


@dataclass(frozen=True)
class GiniCount:
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

    def accepts(self, target: Target) -> bool:
        return isinstance(target, Classes)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        sizes = children.sum(axis=-1)
        divisors = np.maximum(sizes, 1)
        whole, rest = np.divmod(np.square(children).sum(axis=-1), divisors)
        return (UNITS * (whole - sizes) + UNITS * rest // divisors).sum(axis=-1)

    def bound(self, unit: int = 1) -> Bound:
        records_only(self, unit)
        return Bound(low=-2 * UNITS, high=0)
