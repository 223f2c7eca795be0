"""Exact arithmetic on budgets: shares are floats, but their sums are checked as fractions. Public values only."""

import math
from collections.abc import Sequence
from fractions import Fraction

Number = float | Fraction


def round_down(value: Fraction) -> float:
    """The largest float that is not above ``value``."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def round_up(value: Fraction) -> float:
    """The smallest float that is not below ``value``."""
    return -round_down(-value)


def divide(amount: float, weights: Sequence[Number]) -> list[float]:
    """Shares of ``amount`` in proportion to weights, whose exact sum is at most ``amount``; the last takes the rest."""
    if math.isinf(amount):
        return [math.inf if weight else 0.0 for weight in weights]
    unit = Fraction(amount) / sum((Fraction(weight) for weight in weights), Fraction(0))
    shares = [round_down(unit * Fraction(weight)) for weight in weights[:-1]]
    return [*shares, round_down(Fraction(amount) - sum(map(Fraction, shares)))]


def divide_evenly(amount: float, n_parts: int) -> float:
    """The largest float whose ``n_parts``-fold is not above ``amount``."""
    return amount if math.isinf(amount) else round_down(Fraction(amount) / n_parts)


def add(*amounts: float) -> float:
    """The sum, rounded down."""
    return math.inf if math.inf in amounts else round_down(sum(map(Fraction, amounts), Fraction(0)))
