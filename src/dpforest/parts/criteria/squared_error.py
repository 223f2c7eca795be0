"""The squared error criterion for a bounded target. Sees sealed counts."""

from dataclasses import dataclass

import numpy as np

from dpforest.parts.criteria.base import Criterion, records_only
from dpforest.privacy.base import Bound
from dpforest.schema import TARGET_STEPS, Bounded, Target

UNITS = 64  # score units for one squared range


@dataclass(frozen=True)
class SquaredError(Criterion):
    """Negative sum of squared distances from the mean of the child, in units of the squared range.

    Privacy:
        Claim: adding a record lowers the score by 0 to 1 squared range, and never raises it.
        Because: a record z in a child with mean m and size n adds n/(n+1) (z - m)**2 < range**2 to its sum of
            squares and changes no other child. The term of a child is rounded down twice: its (sum z)**2/n to
            whole squared steps, which keeps the order because the sum of squares is whole, then the result to
            1/64 squared range. Rounding keeps the order, and a real change below 64 units is at most 64 after it.
        Assumes: z is an integer in 0 .. TARGET_STEPS; fewer than 2**31 records.
    """

    status = "proved"
    targets = (Bounded,)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        sizes, sums, squares = children[..., 0], children[..., 1], children[..., 2]
        divisors = np.maximum(sizes, 1)
        mean, rest = np.divmod(sums, divisors)
        # (sum z)**2 / n = sum*mean + mean*rest + rest**2/n, each piece within 64 bits. Rounding rest**2/n up
        # rounds the squared error down.
        error = squares - sums * mean - mean * rest + (-(rest * rest)) // divisors
        return -(UNITS * error // TARGET_STEPS**2).sum(axis=-1)

    def bound(self, most: int = 1) -> Bound:
        records_only(self, most)
        return Bound(low=-UNITS, high=0)
