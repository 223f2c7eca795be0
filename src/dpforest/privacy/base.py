"""Bounds: how far one record can move a score or a vector of counts. Public values."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """Adding one record moves every candidate's score by an integer in ``low .. high``.

    ``width = high - low`` is the most by which two candidates' changes can differ, and the
    selection weight at budget epsilon is exp(epsilon * score / width). A score that moves one
    way only (``low >= 0`` or ``high <= 0``) thus gets the sharper, monotone constant by itself.
    """

    low: int
    high: int

    @property
    def width(self) -> int:
        return self.high - self.low

    @property
    def monotone(self) -> bool:
        return self.low >= 0 or self.high <= 0


@dataclass(frozen=True)
class Sensitivity:
    """Adding one record moves a vector of integers by at most ``l1`` (sum) and sqrt(``l2_squared``)."""

    l1: int
    l2_squared: int
