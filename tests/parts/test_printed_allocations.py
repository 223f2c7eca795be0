"""Budgets over layers at the papers' own numbers: thesis eqs. 4.28 to 4.34."""

from math import isclose

import pytest

from dpforest.parts.allocation import EveryQuery, Geometric, Harmonic

DEPTHS = (2, 4, 7, 10)


@pytest.mark.parametrize("layers", DEPTHS)
def test_every_query_is_equation_4_28(layers):
    plan = EveryQuery().plan(1.0, layers - 1)
    assert all(isclose(share, 1 / (2 * layers - 1)) for share in (*plan.splits, *plan.counts))


@pytest.mark.parametrize("layers", DEPTHS)
def test_harmonic_weights_of_two_are_equation_4_29(layers):
    weights = [2 / (layers - i + 1) for i in range(1, layers)] + [1.0]
    plan = Harmonic(inner=2.0).plan(3.0, layers - 1)
    expected = [3.0 * weight / sum(weights) for weight in weights]
    assert (*plan.splits, plan.leaves) == pytest.approx(expected)


@pytest.mark.parametrize("layers", DEPTHS)
def test_harmonic_weights_are_equations_4_31_and_4_32(layers):
    shares = sum(1 / i for i in range(1, layers + 1))
    plan = Harmonic().plan(1.0, layers - 1)
    assert (*plan.splits, plan.leaves) == pytest.approx([1 / shares / (layers - i + 1) for i in range(1, layers + 1)])


@pytest.mark.parametrize("layers", DEPTHS)
def test_the_ratio_of_equation_4_33_spends_the_budget_and_equation_4_34_as_printed_more_than_it(layers):
    root = 2 ** (1 / 3)
    printed = [(1 - root) * root ** (i + 1) / (1 - root**layers) for i in range(1, layers + 1)]
    assert sum(printed) == pytest.approx(2 ** (2 / 3))
    plan = Geometric().plan(1.0, layers - 1)
    mended = [share / sum(printed) for share in printed]
    assert (*plan.splits, plan.leaves) == pytest.approx(mended)
