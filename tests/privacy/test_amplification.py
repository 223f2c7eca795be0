"""What a release from a secret sample costs: the formulas are rounded to the safe side, and exact laws attain them.

High precision is that of ``decimal``. Laws are enumerated as fractions: exp(epsilon) is a rational number there.
"""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.strategies import FIXED

from dpforest.privacy import amplification
from dpforest.privacy.amounts import exact
from dpforest.privacy.amplification import SHARE_STEPS, inside_sample, outside_sample

CLOSE = Decimal("1e-12")
STEPS = SHARE_STEPS
SHARES = [Fraction(1, 2), Fraction(1, 16), Fraction(3, 4), Fraction(1, 3), Fraction(1, STEPS), Fraction(STEPS - 1, STEPS)]
EPSILONS = (1e-9, 3e-5, 0.1, 0.7, 1.0, 3.0, 20.0, 300.0, 690.0, 696.0, 700.0, 701.0, 800.0, 5000.0)
some_shares = st.integers(1, STEPS - 1).map(lambda steps: Fraction(steps, STEPS))
some_epsilons = st.one_of(st.floats(1e-9, 1e-3), st.floats(1e-3, 690), st.floats(690, 701), st.floats(701, 900))


def decimal(number):
    """The decimal that a float or a fraction stands for."""
    found = exact(number)
    return Decimal(found.numerator) / Decimal(found.denominator)


def true_outside(epsilon, share):
    return (1 + decimal(share) * (decimal(epsilon).exp() - 1)).ln()


def true_inside(epsilon, share):
    return (1 + (decimal(epsilon).exp() - 1) / decimal(share)).ln()


def assert_outside(found, epsilon, share):
    """The check of a formula for the loss on the table: never below the true one, and next to it."""
    with localcontext(prec=50):
        true = true_outside(epsilon, share)
        assert true <= decimal(found) <= true * (1 + CLOSE)


def assert_inside(found, epsilon, share):
    """The check of a formula for what may be spent on the sample: never above the true one, and next to it."""
    with localcontext(prec=50):
        true = true_inside(epsilon, share)
        assert true * (1 - CLOSE) <= decimal(found) <= true


# --- formulas -------------------------------------------------------------------------------------------------------


@FIXED
@given(some_epsilons, some_shares)
@example(math.nextafter(700.0, 0), Fraction(1, 2))
@example(math.nextafter(700.0, 800), Fraction(1, 2))
@example(math.nextafter(1.0, 2), Fraction(1, STEPS))
def test_both_formulas_are_safe_and_close_for_any_numbers(epsilon, share):
    assert_outside(outside_sample(epsilon, share), epsilon, share)
    assert_inside(inside_sample(epsilon, share), epsilon, share)


@pytest.mark.parametrize("share", SHARES, ids=str)
def test_both_formulas_are_safe_and_close_at_their_edges(share):
    for epsilon in EPSILONS:
        assert_outside(outside_sample(epsilon, share), epsilon, share)
        assert_inside(inside_sample(epsilon, share), epsilon, share)


@FIXED
@given(some_epsilons, some_shares)
def test_the_formulas_are_inverse_and_what_is_allowed_inside_never_costs_more_than_epsilon(epsilon, share):
    inside = inside_sample(epsilon, share)
    assert epsilon * (1 - 1e-12) <= outside_sample(inside, share) <= epsilon
    with localcontext(prec=50):
        assert true_outside(inside, share) <= decimal(epsilon)
    assert inside_sample(outside_sample(epsilon, share), share) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("share", SHARES[:2], ids=str)
def test_the_loss_grows_where_the_formula_changes(share):
    near = [700 + k * 1e-9 for k in range(-50, 51)]
    assert all(a < b for a, b in itertools.pairwise(outside_sample(epsilon, share) for epsilon in near))


@pytest.mark.parametrize("formula", [outside_sample, inside_sample], ids=["outside", "inside"])
def test_a_sample_of_all_records_and_a_budget_without_end_are_left_as_they_are(formula):
    for epsilon in (*EPSILONS, math.inf):
        assert formula(epsilon, Fraction(1)) == epsilon
    for share in SHARES:
        assert formula(math.inf, share) == math.inf
    assert outside_sample(0.0, Fraction(1, 2)) == 0.0


@FIXED
@given(st.floats(0, exclude_min=True, allow_infinity=False), some_shares)
@example(696.0, Fraction(1, STEPS))
@example(700.0, Fraction(1, STEPS))
@example(5e-324, Fraction(1, 2))
@example(5e-324, Fraction(STEPS - 1, STEPS))
@example(2.0**-1022, Fraction(1, STEPS))
@example(1e12, Fraction(STEPS - 1, STEPS))
@example(1.7976931348623157e308, Fraction(1, STEPS))
def test_the_search_comes_to_an_end_for_every_number_and_a_sample_may_spend_no_less_than_the_table(epsilon, share):
    left = iter(range(1000))

    def counted(*arguments):
        assert next(left, None) is not None, "the search does not come to an end"
        return outside_sample(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(amplification, "outside_sample", counted)
        inside = inside_sample(epsilon, share)
    assert epsilon <= inside < math.inf
    assert inside == epsilon or outside_sample(inside, share) <= epsilon


# --- exact laws -----------------------------------------------------------------------------------------------------


def noisy_count(n_ones, share, factor, outputs, rows=1):
    """Probabilities of a count of secretly sampled ones with two-sided geometric noise, of exp(epsilon) = ``factor``.

    Each one stands for as many ``rows``, which take part together.
    """
    ratio = 1 / Fraction(factor)
    counts = [math.comb(n_ones, k) * share**k * (1 - share) ** (n_ones - k) for k in range(n_ones + 1)]
    scale = (1 - ratio) / (1 + ratio)
    return [scale * sum(chance * ratio ** abs(o - k * rows) for k, chance in enumerate(counts)) for o in outputs]


def worst_factors(smaller, larger):
    """By how much an output is at most more probable on the larger table, and on the smaller one."""
    pairs = list(zip(smaller, larger, strict=True))
    return max(q / p for p, q in pairs), max(p / q for p, q in pairs)


@pytest.mark.parametrize("n_others", [0, 1, 3])
@pytest.mark.parametrize("factor", [Fraction(3, 2), Fraction(3), Fraction(20)], ids=str)
@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(1, 16)], ids=str)
def test_a_noisy_count_of_a_secret_sample_attains_the_loss_and_never_passes_it(share, factor, n_others):
    outputs = range(-4, n_others + 6)  # beyond these the ratios stay as they are
    added, removed = worst_factors(*(noisy_count(n, share, factor, outputs) for n in (n_others, n_others + 1)))
    assert added == 1 + share * (factor - 1)
    # To miss a record is seen less than to have one: the other bound of the proof is not attained.
    assert removed == 1 / (1 - share + share / factor) < added
    # A float whose decimal is not below the true epsilon.
    epsilon = math.nextafter(math.log(factor), math.inf)
    assert_attained(outside_sample(epsilon, share), added)


def assert_attained(stated, worst):
    """The check that a stated epsilon covers the worst ratio of probabilities, and is nearly that."""
    with localcontext(prec=50):
        true = decimal(worst).ln()
        assert true <= decimal(stated) <= true + Decimal("1e-9")


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(1, 16)], ids=str)
def test_a_person_whose_rows_take_part_together_is_one_unit_with_the_loss_of_all_rows(share):
    factor, rows, outputs = Fraction(3), 3, range(-4, 15)
    added, removed = worst_factors(*(noisy_count(n, share, factor, outputs, rows) for n in (2, 3)))
    assert added == 1 + share * (factor**rows - 1)
    assert removed == 1 / (1 - share + share / factor**rows) < added
    assert_attained(outside_sample(math.nextafter(rows * math.log(factor), math.inf), share), added)


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(1, 16)], ids=str)
def test_two_releases_of_one_sample_are_added_up_before_the_sample_counts_and_not_after(share):
    factors = Fraction(3), Fraction(5, 2)
    outputs = list(itertools.product(range(-3, 5), repeat=2))

    def law(n_ones):
        kept = {0: 1 - share, 1: share} if n_ones else {0: Fraction(1)}
        noise = {k: [noisy_count(k, Fraction(1), factor, range(-3, 5)) for factor in factors] for k in kept}
        return [sum(chance * noise[k][0][a + 3] * noise[k][1][b + 3] for k, chance in kept.items()) for a, b in outputs]

    added, _ = worst_factors(law(0), law(1))
    assert added == 1 + share * (factors[0] * factors[1] - 1)
    assert added > math.prod(1 + share * (factor - 1) for factor in factors)
    epsilons = [math.nextafter(math.log(factor), math.inf) for factor in factors]
    together = math.nextafter(sum(epsilons), math.inf)
    assert_attained(outside_sample(together, share), added)
    with pytest.raises(AssertionError):
        assert_attained(sum(outside_sample(epsilon, share) for epsilon in epsilons), added)
