"""How the recipes of the catalogue divide the budget of a tree among its levels."""

import math
from fractions import Fraction

import pytest

from dpforest.errors import ParameterError
from dpforest.parts.allocation import EveryQuery, Harmonic, Weighted
from dpforest.privacy.accountants import Pure
from dpforest.privacy.amounts import exact
from dpforest.recipes import get_recipe

# Table 1 of the paper: epsilon of each query for budgets 0.1 to 2 and delta = 5 levels.
BUDGETS = (0.1, 0.25, 0.5, 1.0, 2.0)
TABLE_1 = {1: (0.011, 0.028, 0.056, 0.111, 0.222), 4: (0.003, 0.007, 0.014, 0.028, 0.056)}


@pytest.mark.parametrize("n_trees", TABLE_1)
def test_every_query_gives_the_shares_that_the_paper_prints(n_trees):
    recipe = get_recipe("fletcher-islam-2015-dpdf")
    for budget, printed in zip(BUDGETS, TABLE_1[n_trees], strict=True):
        plan = recipe.allocate.plan(recipe.sample.amount_per_tree(Pure(budget), budget, n_trees), recipe.depth)
        amounts = [*plan.splits, *plan.counts]
        assert len(amounts) == 9  # 2 * delta - 1
        assert amounts == pytest.approx([budget / (n_trees * 9)] * 9)
        assert {round(amount, 3) for amount in amounts} == {printed}


@pytest.mark.parametrize("depth", [1, 4, 7])
def test_every_query_sums_to_the_amount_and_an_infinite_one_goes_everywhere(depth):
    for amount in (0.1, 1 / 3, 7.0):
        plan = EveryQuery().plan(amount, depth)
        total = sum(map(exact, (*plan.splits, *plan.counts)))
        assert (1 - Fraction(1, 10**15)) * exact(amount) <= total <= exact(amount)
    assert set(EveryQuery().plan(math.inf, depth).counts) == {math.inf}


@pytest.mark.parametrize("d_m", [2, 3, 7])
def test_harmonic_with_inner_two_is_the_published_weights_with_the_leaves_as_the_last_layer(d_m):
    weights = [Fraction(2, d_m - i + 1) for i in range(1, d_m)] + [Fraction(1)]
    plan = Harmonic(inner=2.0).plan(0.8, d_m - 1)
    expected = [0.8 * float(weight / sum(weights)) for weight in weights]
    assert [*plan.splits, plan.leaves] == pytest.approx(expected)
    assert set(plan.counts[:-1]) == {0.0}


def test_harmonic_with_inner_two_and_half_for_counts_halves_each_layer():
    plan = Harmonic(inner=2.0, count_share=0.5).plan(1.0, 6)
    assert plan.splits == pytest.approx(plan.counts[:-1])
    w = sum(2 / (7 - i + 1) for i in range(1, 7)) + 1
    assert [a + b for a, b in zip(plan.splits, plan.counts, strict=False)] == pytest.approx(
        [2 / (7 - i + 1) / w for i in range(1, 7)]
    )


def test_weighted_levels_are_in_proportion_to_their_weights_and_the_leaves_get_their_share():
    plan = Weighted((0.5, 0.1, 0.4, 9.0), leaf_share=0.25).plan(2.0, 3)
    assert plan.splits == pytest.approx([0.75, 0.15, 0.6])
    assert plan.leaves == pytest.approx(0.5)


@pytest.mark.parametrize("inner", [0.0, -1.0, math.nan])
def test_harmonic_refuses_weights_that_are_not_positive(inner):
    with pytest.raises(ParameterError):
        Harmonic(inner=inner).plan(1.0, 2)
