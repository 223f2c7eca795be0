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
# Every decimal of this many digits is the shortest decimal of some float.
DIGITS = 15


# Cached, because a fit adds up the same few amounts many times. Typed, because a fraction that equals a float may differ
# from the decimal of that float.
@lru_cache(maxsize=4096, typed=True)
def exact(value: Number) -> Fraction:
    """The exact fraction that an amount stands for: of a float its shortest decimal, a fraction unchanged."""
    return value if isinstance(value, Fraction) else Fraction(repr(float(value)))


def round_down(value: Fraction) -> float:
    """The largest float whose decimal is not above ``value``."""
    nearest = float(value)
    return nearest if exact(nearest) <= value else math.nextafter(nearest, -math.inf)


def round_up(value: Fraction) -> float:
    """The smallest float whose decimal is not below ``value``."""
    return -round_down(-value) + 0.0  # no minus zero


def sum_up(amounts: Sequence[float]) -> float:
    """The sum of amounts, rounded up."""
    return math.inf if math.inf in amounts else round_up(sum(map(exact, amounts), Fraction(0)))


def round_up_short(value: Fraction) -> float:
    """The smallest decimal of ``DIGITS`` digits that is not below ``value``.

    So few digits do not show what the rounding of shares has left over.
    """
    up = Context(prec=DIGITS, rounding=ROUND_CEILING)
    return float(up.divide(Decimal(value.numerator), Decimal(value.denominator)))


def float_above(value: float) -> float:
    """A float whose own binary value is at least the decimal of ``value``; as an argument for functions of floats."""
    return value if Fraction(value) >= exact(value) else math.nextafter(value, math.inf)


def float_below(value: float) -> float:
    """A float whose own binary value is at most the decimal of ``value``; as an argument for functions of floats."""
    return -float_above(-value)


def as_written(value: Any) -> float:
    """A number of any type as a float, rounded down; raises if it is no number or too large."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        raise TypeError("not a number")
    if isinstance(value, numbers.Integral):
        return round_down(Fraction(int(value)))
    if isinstance(value, Fraction | Decimal) and math.isfinite(value):
        return round_down(Fraction(value))
    # By its own shortest decimal: a float of 32 bits that shows as 0.2 means 0.2.
    return float(str(value))


def divide(amount: float, weights: Sequence[Number]) -> list[float]:
    """Amounts in proportion to ``weights`` with an exact sum of at most ``amount``; the last takes the rest."""
    if math.isinf(amount):
        return [math.inf if weight else 0.0 for weight in weights]
    return list(_divided(amount, tuple(weights), tuple(map(type, weights))))


# Cached as ``exact`` is, and for the same reasons by type.
@lru_cache(maxsize=1024)
def _divided(amount: float, weights: tuple[Number, ...], types: tuple[type, ...]) -> tuple[float, ...]:
    """What ``divide`` gives for a finite amount."""
    unit = exact(amount) / sum(map(exact, weights), Fraction(0))
    shares = [round_down(unit * exact(weight)) for weight in weights[:-1]]
    return (*shares, round_down(exact(amount) - sum(map(exact, shares))))


def divide_evenly(amount: float, n_parts: int) -> float:
    """The largest float that, taken ``n_parts`` times, is not above ``amount``."""
    return amount if math.isinf(amount) else round_down(exact(amount) / n_parts)


def add(*amounts: float) -> float:
    """The exact sum of amounts, rounded down to a float."""
    given = [amount for amount in amounts if amount]
    if math.inf in given:
        return math.inf
    return round_down(sum(map(exact, given), Fraction(0))) if len(given) > 1 else sum(given, 0.0)
