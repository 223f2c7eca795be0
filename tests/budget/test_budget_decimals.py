"""A budget counts in decimals: 0.2 is a fifth, whatever the float is, and what is lost is never more."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget.stores import spend

from dpforest import Budget, Classes, DPForestClassifier, DPSearchCV, Numeric, Schema, load_model
from dpforest.budget import Cap, Loss, handle
from dpforest.budget.chain import losses_from_json, losses_to_json
from dpforest.budget.totals import Account
from dpforest.errors import BudgetDamagedError, BudgetError, ParameterError, shown_down, shown_up
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.amounts import (
    as_written,
    divide,
    divide_evenly,
    exact,
    float_above,
    float_below,
    round_down,
    round_up,
    round_up_short,
)

rng = np.random.default_rng(0)
X = rng.random((300, 1))
Y = (X[:, 0] > 0.5).astype(int)
SCHEMA = Schema({"x": Numeric(0, 1)}, Classes([0, 1]))
floats = st.floats(1e-9, 1e6)
fractions = st.fractions(Fraction(1, 10**9), 10**6)


def small(**parameters):
    return DPForestClassifier(SCHEMA, **{"n_trees": 1, "max_depth": 1, "recipe": "jagannathan-2009", **parameters})


# Numbers


@given(floats, floats)
def test_a_float_stands_for_the_shortest_decimal_that_reads_as_it(value, other):
    assert exact(value) == exact(np.float64(value)) == Fraction(Decimal(repr(value)))
    assert float(exact(value)) == value
    assert (value < other) == (exact(value) < exact(other))
    assert Fraction(float_below(value)) <= exact(value) <= Fraction(float_above(value))
    assert math.nextafter(float_below(value), math.inf) >= float_above(value)


@given(fractions)
def test_rounded_decimals_are_on_their_side_and_next_to_the_value(value):
    low, high = round_down(value), round_up(value)
    assert exact(low) <= value < exact(math.nextafter(low, math.inf))
    assert exact(math.nextafter(high, 0)) < value <= exact(high)
    assert value <= exact(round_up_short(value)) <= value * (1 + Fraction(1, 10**14))
    assert exact(as_written(value)) <= value


@given(floats, st.lists(st.floats(0.01, 1), min_size=1, max_size=9), st.integers(1, 50))
def test_shares_sum_to_at_most_the_decimal(amount, weights, n):
    assert sum(map(exact, divide(amount, weights))) <= exact(amount)
    assert n * exact(divide_evenly(amount, n)) <= exact(amount)


def test_a_fraction_that_equals_a_float_is_not_its_decimal():
    assert exact(0.1) == Fraction(1, 10)
    assert exact(Fraction(0.1)) == Fraction(0.1) != Fraction(1, 10)
    assert exact(0.1) == Fraction(1, 10)


@pytest.mark.parametrize(
    "value", [0.2, np.float64(0.2), np.float32(0.2), np.longdouble("0.2"), Decimal("0.2"), Fraction(1, 5)]
)
def test_a_fifth_of_any_type_is_a_fifth(value):
    assert as_written(value) == 0.2
    assert make_accountant(value, 0.0).epsilon == make_accountant(1.0, value).delta == 0.2
    assert Cap(value, 0.0) == Cap(0.2, 0.0)


@pytest.mark.parametrize(
    "wrong", ["1", None, True, 1j, math.nan, 10**400, Decimal("nan"), Decimal("snan"), -1, np.array([1.0])]
)
def test_what_is_no_positive_number_is_refused(wrong):
    with pytest.raises(ParameterError, match="epsilon must be"):
        make_accountant(wrong, 0.0)


# What runs is at most what is counted


# What fits under a cap


FILLING = {
    "fits": (5, lambda budget: small(epsilon=0.2, budget=budget, n_trees=3, max_depth=2).fit(X, Y)),
    "ten fits": (10, lambda budget: small(epsilon=0.1, budget=budget).fit(X, Y)),
    "searches": (5, lambda budget: DPSearchCV(
        small(), {"n_trees": [1, 2]}, epsilon=0.2, mean_runs=1.5, budget=budget).fit(X, Y)),
    "fits of persons": (5, lambda budget: small(epsilon=0.2, budget=budget, max_rows_per_person=3).fit(
        X, Y, groups=np.arange(300) // 2)),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILLING)
def test_tenths_and_fifths_fill_a_cap_of_one(path, kind):
    n_fits, fit = FILLING[kind]
    budget = Budget.open(path, dataset="a", epsilon=1, unit="person" if "persons" in kind else "record")
    for _ in range(n_fits):
        model = fit(budget)
        assert model.privacy_.epsilon == model.ledger_.spent == 1 / n_fits
    assert (budget.spent, budget.left) == (1.0, 0.0)
    with pytest.raises(BudgetError, match=f"asks .* epsilon = {1 / n_fits}, but nothing is left"):
        fit(budget)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=12))
@settings(deadline=None, max_examples=50)
def test_thousandths_are_admitted_exactly_while_their_sum_is_at_most_one(thousandths):
    account, total = Account(Cap(1.0, 0.0)), 0
    for number, part in enumerate(thousandths, 1):
        fits = total + part <= 1000
        assert account.admits([Loss.pure(part / 1000)]) == fits
        if fits:
            account.reserve(number, [Loss.pure(part / 1000)])
            total += part
    assert account.spent == total / 1000


def test_a_model_with_a_decimal_epsilon_can_be_saved(tmp_path):
    model = small(epsilon=Decimal("0.2"), delta=Fraction(0)).fit(X, Y)
    model.save(tmp_path / "m.dpf")
    assert load_model(tmp_path / "m.dpf").epsilon == model.privacy_.epsilon == 0.2


# What is written down


@given(st.one_of(floats, st.just(math.inf)), floats)
def test_losses_are_written_as_the_decimals_that_they_are(epsilon, rho):
    loss = Loss(epsilon, rho)
    text = json.dumps(losses_to_json([loss]))
    assert losses_from_json(json.loads(text)) == (loss,)


def test_an_entry_whose_losses_are_numbers_is_none_of_a_budget(path, monkeypatch):
    """A number may be a little less than the decimal that was lost."""
    monkeypatch.setattr(handle, "losses_to_json", lambda losses: [[loss.epsilon, loss.rho] for loss in losses])
    budget = Budget.open(path, dataset="a", epsilon=1)
    with pytest.raises(BudgetDamagedError, match="not an amount"):
        spend(budget, 0.2)


def test_what_is_shown_to_people_is_rounded_to_the_safe_side():
    assert (shown_down(0.19999999999999998), shown_up(0.20000000000000004)) == ("0.199999", "0.200001")
    assert (shown_down(0.2), shown_up(0.2), shown_down(2.0, 4), shown_up(math.inf)) == ("0.2", "0.2", "2", "inf")
