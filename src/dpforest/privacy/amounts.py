"""Exact arithmetic on budgets: a float stands for the decimal that it is written as. Public values only.

People write 0.2 and mean 1/5, and so does JSON; the float is a little more than that. So wherever a loss or a budget is
added, compared or divided, a float is its shortest decimal (``exact``): five times 0.2 is 1. Results are rounded to floats
whose decimals are on the safe side. Larger floats have larger decimals, so floats may be compared as they are.
"""

import math
import numbers
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

Number = float | Fraction
# All decimals of so many digits are the shortest of some float.
DIGITS = 15


# A fit adds up the same few amounts many times. By type, for a fraction may equal a float, and not its decimal.
@lru_cache(maxsize=4096, typed=True)
def exact(value: Number) -> Fraction:
    """The shortest decimal that reads as a float, as a fraction; a fraction is what it is."""
    return value if isinstance(value, Fraction) else Fraction(repr(float(value)))


def round_down(value: Fraction) -> float:
    """The largest float whose decimal is not above ``value``."""
    nearest = float(value)
    return nearest if exact(nearest) <= value else math.nextafter(nearest, -math.inf)


def round_up(value: Fraction) -> float:
    """The smallest float whose decimal is not below ``value``."""
    return -round_down(-value) + 0.0  # no minus zero


def round_up_short(value: Fraction) -> float:
    """The smallest decimal of ``DIGITS`` digits that is not below ``value``: what roundings of shares left does not show."""
    up = Context(prec=DIGITS, rounding=ROUND_CEILING)
    return float(up.divide(Decimal(value.numerator), Decimal(value.denominator)))


def float_above(value: float) -> float:
    """A float that is itself, not only by its decimal, at least the decimal of ``value``; for functions of floats."""
    return value if Fraction(value) >= exact(value) else math.nextafter(value, math.inf)


def float_below(value: float) -> float:
    """As ``float_above``, at most the decimal."""
    return -float_above(-value)


def as_written(value: Any) -> float:
    """The float for a number that a person wrote, of any type, rounded down; raises if it is none or too large."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        raise TypeError("not a number")
    if isinstance(value, numbers.Integral):
        return round_down(Fraction(int(value)))
    if isinstance(value, Fraction | Decimal) and math.isfinite(value):
        return round_down(Fraction(value))
    # By its own shortest decimal: a float of 32 bits that shows as 0.2 means 0.2.
    return float(str(value))


def divide(amount: float, weights: Sequence[Number]) -> list[float]:
    """Shares of ``amount`` in proportion to weights, whose exact sum is at most ``amount``; the last takes the rest."""
    if math.isinf(amount):
        return [math.inf if weight else 0.0 for weight in weights]
    unit = exact(amount) / sum(map(exact, weights), Fraction(0))
    shares = [round_down(unit * exact(weight)) for weight in weights[:-1]]
    return [*shares, round_down(exact(amount) - sum(map(exact, shares)))]


def divide_evenly(amount: float, n_parts: int) -> float:
    """The largest float whose ``n_parts``-fold is not above ``amount``."""
    return amount if math.isinf(amount) else round_down(exact(amount) / n_parts)


def add(*amounts: float) -> float:
    """The sum, rounded down."""
    return math.inf if math.inf in amounts else round_down(sum(map(exact, amounts), Fraction(0)))
