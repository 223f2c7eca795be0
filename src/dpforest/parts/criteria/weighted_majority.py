"""F_Max: the max operator weighted by the share of the winning class. Sees sealed counts."""

from dataclasses import dataclass

import numpy as np

from dpforest.parts.criteria.base import Criterion, records_only
from dpforest.privacy.base import Bound
from dpforest.schema import Classes, Target

UNITS = 64  # score units for one record


@dataclass(frozen=True)
class WeightedMajority(Criterion):
    """``sum over children of (M / n) * M`` with M the largest class count, one reading of F_Max [suihkonen2023, eq. 4.11].

    Privacy:
        Claim: adding a record moves the score by more than -1 and at most 1 record; it is not monotone.
        Because: it falls in one child. If the maximum rises, (M+1)**2/(n+1) - M**2/n = (2M+1)/(n+1) - M**2/(n (n+1)),
            which is at most 1 because (n - M)**2 >= 0, and at least 0; if not, the change is -M**2/(n (n+1)) >= -n/(n+1).
            Each child's term is rounded down to 1/64 record, so the integer change is within -64 .. 64.
        Assumes: counts are exact integers below 2**31.
    """

    status = "proved"
    targets = (Classes,)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        divisors = np.maximum(children.sum(axis=-1), 1)
        whole, rest = np.divmod(np.square(children.max(axis=-1)), divisors)
        return (UNITS * whole + UNITS * rest // divisors).sum(axis=-1)

    def bound(self, most: int = 1) -> Bound:
        records_only(self, most)
        return Bound(low=-UNITS, high=UNITS)
