"""Every allocation spends its amount to the last digit and no more, in the published proportions."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.strategies import FIXED

from dpforest.errors import ParameterError
from dpforest.parts.allocation import (
    Arithmetic,
    EveryQuery,
    Geometric,
    Harmonic,
    LeavesOnly,
    Linear,
    Uniform,
    Weighted,
    spread,
)
from dpforest.privacy.amounts import add, divide, exact, round_down

ALLOCATIONS = [
    Uniform(), Geometric(), Geometric(ratio=0.5), Arithmetic(), Arithmetic(step=0), Linear(), Linear(q=1.7, slope=0.9),
    Harmonic(), Harmonic(inner=2.0),
]  # fmt: skip
WITH_SPLIT_SHARE = [Uniform, Geometric, Arithmetic, Harmonic]
WITH_COUNT_SHARE = [*WITH_SPLIT_SHARE, Linear]

amounts = st.floats(1e-6, 1e6)
shares = st.floats(0.01, 0.99)


def check_spends(plan, amount, depth):
    parts = [*plan.splits, *plan.counts]
    assert len(plan.splits) == plan.depth == depth
    assert len(plan.counts) == depth + 1
    assert min(parts) >= 0
    assert plan.leaves > 0
    total = sum(map(exact, parts))
    assert exact(amount) * (1 - Fraction(1, 10**12)) <= total <= exact(amount)


@pytest.mark.slow
@pytest.mark.parametrize("allocation", [*ALLOCATIONS, LeavesOnly(), EveryQuery()], ids=repr)
def test_the_exact_sum_is_the_amount_and_never_above(allocation):
    @FIXED
    @given(amounts, st.integers(1, 15))
    def check(amount, depth):
        check_spends(allocation.plan(amount, depth), amount, depth)

    check()


@pytest.mark.parametrize("kind", WITH_SPLIT_SHARE)
def test_the_exact_sum_is_the_amount_whatever_the_shares(kind):
    @FIXED
    @given(amounts, st.integers(1, 15), shares, shares)
    def check(amount, depth, split_share, count_share):
        check_spends(kind(split_share=split_share, count_share=count_share).plan(amount, depth), amount, depth)

    check()


def per_level(plan):
    """What each level gets for splits and counts together; the leaves come last."""
    return [split + count for split, count in zip([*plan.splits, 0.0], plan.counts, strict=True)]


@pytest.mark.parametrize("kind", WITH_COUNT_SHARE)
def test_count_share_divides_what_a_level_gets_and_leaves_the_rest_alone(kind):
    plain, counted = kind().plan(1.0, 4), kind(count_share=0.3).plan(1.0, 4)
    assert plain.counts[:-1] == (0.0,) * 4
    assert per_level(counted) == pytest.approx(per_level(plain), rel=1e-12)
    assert counted.counts[:-1] == pytest.approx([0.3 * share for share in plain.splits], rel=1e-12)


@pytest.mark.parametrize("kind", WITH_SPLIT_SHARE)
def test_split_share_is_what_all_levels_get_together_in_the_same_proportions(kind):
    plain, shared = kind().plan(1.0, 4), kind(split_share=0.3, count_share=0.5).plan(1.0, 4)
    assert shared.leaves == pytest.approx(0.7, rel=1e-12)
    total = sum(plain.splits)
    assert per_level(shared)[:-1] == pytest.approx([0.3 * share / total for share in plain.splits], rel=1e-12)


@pytest.mark.parametrize(
    "allocation", [*ALLOCATIONS, EveryQuery(), *(kind(count_share=0.1) for kind in WITH_COUNT_SHARE)], ids=repr
)
def test_an_infinite_amount_goes_to_every_step_that_has_a_share(allocation):
    plan = allocation.plan(math.inf, 3)
    of_levels = math.inf if getattr(allocation, "count_share", 1) else 0.0
    assert plan.splits == (math.inf,) * 3
    assert plan.counts == (*[of_levels] * 3, math.inf)


def test_leaves_only_gives_everything_to_the_leaves():
    for amount in (0.3, math.inf):
        plan = LeavesOnly().plan(amount, 3)
        assert plan.splits == (0.0,) * 3
        assert plan.counts == (0.0, 0.0, 0.0, amount)


SERIES = [
    (Uniform(), (1, 1, 1, 1)), (Geometric(ratio=3.0), (1, 3, 9, 27)), (Geometric(ratio=0.5), (8, 4, 2, 1)),
    (Arithmetic(step=0.25), (4, 5, 6, 7)), (Arithmetic(step=4.0), (1, 5, 9, 13)),
]  # fmt: skip


@pytest.mark.parametrize(("allocation", "series"), SERIES, ids=str)
def test_levels_and_leaves_are_in_the_proportions_of_their_series(allocation, series):
    assert per_level(allocation.plan(2.0, 3)) == pytest.approx([2.0 * part / sum(series) for part in series], rel=1e-12)


def dong_layer(i, epsilon, q, d, h):
    """Layer i of h [dong2022, equations 10 to 12]."""
    if q == 1:
        return (2 * epsilon - h * d * (h + 1 - 2 * i)) / (2 * h)
    first = (2 * (1 - q) * epsilon - (h - 1) * (1 - q) * h * d) / (2 * (1 - q**h))
    return first * q ** (i - 1) + (i - 1) * d


@pytest.mark.parametrize("h", [2, 3, 9])
@pytest.mark.parametrize("slope", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("q", [1.0, 1.05, 1.5, 3.0])
def test_linear_equals_its_published_layers_with_the_leaves_as_the_last(q, slope, h):
    epsilon = 0.8
    d = slope * 2 * epsilon / (h * (h - 1))
    expected = [dong_layer(i, epsilon, q, d, h) for i in range(1, h + 1)]
    assert per_level(Linear(q=q, slope=slope).plan(epsilon, h - 1)) == pytest.approx(expected, rel=1e-9)


# --- as papers print them -------------------------------------------------------------------------------------------

LAYERS = pytest.mark.parametrize("layers", [2, 3, 4, 7, 10])  # the leaves are the last


@LAYERS
def test_harmonic_is_equations_4_29_and_4_31_of_the_thesis(layers):
    for inner in (1, 2):
        weights = [Fraction(inner, layers - i + 1) for i in range(1, layers)] + [Fraction(1)]
        expected = [0.8 * float(weight / sum(weights)) for weight in weights]
        assert per_level(Harmonic(inner=float(inner)).plan(0.8, layers - 1)) == pytest.approx(expected, rel=1e-12)


@LAYERS
def test_the_ratio_of_equation_4_33_spends_the_budget_and_equation_4_34_as_printed_more_than_it(layers):
    root = 2 ** (1 / 3)
    printed = [(1 - root) * root ** (i + 1) / (1 - root**layers) for i in range(1, layers + 1)]
    assert sum(printed) == pytest.approx(2 ** (2 / 3))
    mended = [share / sum(printed) for share in printed]
    assert per_level(Geometric().plan(1.0, layers - 1)) == pytest.approx(mended)


def test_weighted_levels_are_in_proportion_to_their_weights_and_the_leaves_get_their_share():
    plan = Weighted((0.5, 0.1, 0.4, 9.0), leaf_share=0.25).plan(2.0, 3)
    assert plan.splits == pytest.approx([0.75, 0.15, 0.6])
    assert plan.leaves == pytest.approx(0.5)


# --- refusals -------------------------------------------------------------------------------------------------------

BAD = [
    *[(Geometric, {"ratio": ratio}) for ratio in (0, -1, math.nan, math.inf)],
    *[(Arithmetic, {"step": step}) for step in (-0.1, math.nan, math.inf)],
    *[(Linear, {"q": q}) for q in (0.9, 0, -1, math.nan, math.inf)],
    *[(Linear, {"slope": slope}) for slope in (-0.1, 1, 2, math.nan, math.inf)],
    *[(Harmonic, {"inner": inner}) for inner in (0.0, -1.0, math.nan)],
    *[(kind, {"count_share": share}) for kind in WITH_COUNT_SHARE for share in (-0.1, 1, math.nan)],
    *[(kind, {"split_share": share}) for kind in WITH_SPLIT_SHARE for share in (0, 1, -0.1, math.nan)],
    # Series that leave the range of numbers.
    (Geometric, {"ratio": 1e100}), (Geometric, {"ratio": 1e-200}), (Linear, {"q": 1e100}), (Arithmetic, {"step": 1e308}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "parameters"), BAD, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_parameter_outside_its_range_is_refused(kind, parameters):
    with pytest.raises(ParameterError):
        kind(**parameters).plan(1.0, 10)


@pytest.mark.parametrize(("splits", "counts"), [([1, -1], [1]), ([1], [1, 0]), ([1], [-1, 2]), ([0], [0, 0])])
def test_weights_below_zero_and_leaves_without_a_share_are_refused(splits, counts):
    with pytest.raises(ParameterError):
        spread(1.0, splits, counts)


def test_weights_that_are_equal_and_mean_different_numbers_are_told_apart():
    # 0.1 stands for one tenth; the fraction of the same binary value is a little more than that.
    same = Fraction(0.1)
    assert same == 0.1
    for weight in (0.1, same, 0.1):
        first, rest = divide(1.0, [weight, 1])
        assert first == round_down(exact(weight) / (exact(weight) + 1))
        assert exact(first) + exact(rest) <= 1


@FIXED
@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 1e-9, 3.7]), max_size=5))
def test_a_sum_of_amounts_is_the_exact_one_rounded_down(given_amounts):
    assert add(*given_amounts) == round_down(sum(map(exact, given_amounts), Fraction(0)))
    assert add(*given_amounts, math.inf) == math.inf
