"""Bounds: how far one record can move a score or a vector of counts. Public values only."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """The least and the greatest change of a candidate's score, as integers, when one record is added.

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
    """How far adding one record moves a vector of integers: at most ``l1`` in L1 and sqrt(``l2_squared``) in L2 distance."""

    l1: int
    l2_squared: int


@dataclass(frozen=True)
class Blocks:
    """How far adding one record moves blocks of integers of the given sizes: each of them by at most ``l1`` in L1."""

    sizes: tuple[int, ...]
    l1: int

    @property
    def n_values(self) -> int:
        return sum(self.sizes)

    @property
    def l2_squared(self) -> int:
        """The most that all blocks together move, as the square of L2: no block moves farther in L2 than in L1."""
        return len(self.sizes) * self.l1**2
