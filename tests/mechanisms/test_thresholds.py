"""A threshold is the least that keeps its delta, by the exact law of the noise."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from dpforest.errors import ParameterError
from dpforest.mechanisms import Rate
from dpforest.mechanisms.thresholds import reach, tail, threshold

RATES = [Rate(1, 1), Rate(3, 10), Rate(1, 20), Rate(1, 300)]
VARIANCES = [Fraction(1, 50), Fraction(1, 3), Fraction(2), Fraction(40), Fraction(3001, 2), Fraction(10**6)]
DELTAS = [Fraction(1, 10), Fraction(1, 100), Fraction(1, 10**6), Fraction(3, 10**11)]


def exact_tail(least, scale):
    """P(noise >= least), summed up in fifty digits."""
    with localcontext() as context:
        context.prec = 50
        if isinstance(scale, Rate):
            ratio = (-Decimal(scale.numerator) / scale.denominator).exp()
            return ratio**least / (1 + ratio)
        inverse = Decimal(scale.denominator) / (2 * scale.numerator)
        far = least + 20 * math.isqrt(math.ceil(scale)) + 40
        masses = [(-(k * k) * inverse).exp() for k in range(far)]
        return sum(masses[least:]) / (2 * sum(masses) - 1)


def exact_reach(least, scale, rows):
    """The largest sum of P(m + noise >= least) over all ways to divide ``rows`` records among values."""
    best = [Decimal(0)]
    tails = [exact_tail(least - m, scale) for m in range(1, rows + 1)]
    for n in range(1, rows + 1):
        best.append(max(tails[m - 1] + best[n - m] for m in range(1, n + 1)))
    return best[rows]


@pytest.mark.parametrize("scale", RATES + VARIANCES[:5], ids=str)
def test_tails_are_never_too_small_and_hardly_too_large(scale):
    for least in (1, 2, 3, 5, 9, 17, 65, 170):
        exact, stated = exact_tail(least, scale), tail(least, scale)
        assert exact <= stated <= 1
        if isinstance(scale, Rate):
            assert stated <= exact * (1 + Decimal("2e-9"))
        elif least - 0.5 > 1.01 * math.sqrt(scale) and 1 < scale < least**2 < 60 * scale:
            # The error of the mean over a cell of width 1, in which the noise falls by a factor of e**(least / scale).
            assert stated <= float(exact) * (1 + (least / float(scale)) ** 2 / 12)


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("scale", RATES[:3] + VARIANCES[:4], ids=str)
def test_a_threshold_keeps_its_delta_and_one_less_does_not(scale, rows):
    for delta in DELTAS:
        least = threshold(scale, delta, rows)
        exact = Decimal(delta.numerator) / delta.denominator
        assert exact_reach(least, scale, rows) <= exact
        # Below, the bound is 1; and noise that is narrower than a record is bounded less closely.
        if rows == 1 and (isinstance(scale, Rate) or (scale > 1 and least > math.sqrt(scale) + 2.5)):
            assert exact_reach(least - 1, scale, rows) > exact


@pytest.mark.parametrize("scale", [Rate(1, 20), Rate(1, 300), Fraction(40), Fraction(3001, 2)], ids=str)
def test_a_tail_that_were_a_tenth_too_small_would_pass_a_threshold_that_is_not_enough(scale):
    least = threshold(scale, Fraction(1, 10**6))
    delta = Fraction(exact_tail(least - 1, scale)) * Fraction(95, 100)
    assert threshold(scale, delta) > least
    assert 0.9 * reach(least, scale) < delta


def test_thresholds_of_large_noise_are_found_at_once():
    assert threshold(Fraction(1 << 54), Fraction(1, 10**9)) == pytest.approx(5.9978 * 2**27, rel=1e-4)
    assert threshold(Rate(1, 1 << 38), Fraction(1, 10**9)) == pytest.approx(math.log(10**9 / 2) * 2**38, rel=1e-4)


def test_rows_of_one_person_raise_a_threshold_as_many_values_and_as_one_value():
    narrow, wide = Rate(1, 1), Rate(1, 1000)
    assert reach(20, narrow, 5) == tail(15, narrow)  # five records of one value
    assert reach(10**4, wide, 5) == 5 * tail(10**4 - 1, wide)  # five values of one record


def test_a_delta_that_no_float_tells_from_nothing_is_refused_instead_of_looked_for():
    with pytest.raises(ParameterError, match="delta"):
        threshold(Rate(1, 1), Fraction(1, 10**305))
    assert exact_tail(threshold(Rate(1, 1), Fraction(1, 10**300)) - 1, Rate(1, 1)) <= Decimal("1e-300")
