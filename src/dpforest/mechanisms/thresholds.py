"""Thresholds for partition selection: a value held by one record is almost never released. Public values only."""

import math
from fractions import Fraction
from functools import lru_cache

from dpforest.errors import ParameterError
from dpforest.mechanisms.exact import Rate

# More than the relative error of a tail: a few roundings of 2**-53 each, which an exponent of at most 745 magnifies.
MARGIN = 2.0**-30
# Tails below are not told apart, since floats lose their digits there; delta must not be below.
LEAST_TAIL = 2.0**-1000


@lru_cache(maxsize=256)
def threshold(scale: Rate | Fraction, delta: Fraction, rows: int = 1) -> int:
    """The least threshold that values of at most ``rows`` records reach with probability at most ``delta``.

    ``scale`` is the rate of two-sided geometric noise or the variance of discrete Gaussian noise.
    """
    if delta < LEAST_TAIL:
        raise ParameterError("The delta of a list is below 2**-1000, too little for any threshold. Raise delta.")
    low, step = rows, 1
    while reach(low + step, scale, rows) > delta:
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reach(middle, scale, rows) > delta else (low, middle)
    return high


def reach(least: int, scale: Rate | Fraction, rows: int = 1) -> float:
    """The probability, rounded up, that any value of only ``rows`` records reaches the threshold ``least``.

    Each value has noise of its own, so it is at most the sum of g(m) = P(m + noise >= least) over these values, m being the
    records of each. Up to ``least`` the steps of g grow, so g lies below its chord from 1 to ``rows``, and g(m) / m is
    largest at one of the ends: the sum is at most the larger of ``rows`` * g(1), for as many values, and g(``rows``), for
    one. ``least`` must be at least ``rows``.
    """
    one, many = (tail(least - m, scale) for m in (1, rows))
    return max(rows * one, many)


def tail(least: int, scale: Rate | Fraction) -> float:
    """The probability that noise is at least ``least`` >= 0, rounded up; 1 for Gaussian noise within its deviation.

    Geometric noise of rate s: exp(-s least) / (1 + exp(-s)). Gaussian noise of variance v: with f(x) = exp(-x**2 / 2v), the
    sum of f over all integers is at least sqrt(2 pi v) (Poisson's formula) and at least f(0) = 1. From sqrt(v) on f is
    convex, so f(k) is at most its mean over k - 1/2 .. k + 1/2, and the sum from ``least`` at most the integral from
    least - 1/2, which is sqrt(pi v / 2) erfc((least - 1/2) / sqrt(2v)).
    """
    if isinstance(scale, Rate):
        rate = scale.numerator / scale.denominator
        found = math.exp(-rate * least) / (1 + math.exp(-rate))
    else:
        deviation, begin = math.sqrt(scale), least - 0.5
        if begin < deviation * (1 + MARGIN):
            return 1.0
        integral = math.sqrt(math.pi / 2) * deviation * math.erfc(begin / (math.sqrt(2) * deviation))
        found = integral / max(1.0, math.sqrt(2 * math.pi) * deviation)
    return min(1.0, max(found * (1 + MARGIN), LEAST_TAIL))
