"""Books about a secret sample: what may be spent on it costs the budget of the table and no more, and is kept in files."""

import json
import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.gates import scale_of_a_count
from tests.support.strategies import FIXED

from dpforest.errors import AccountingError, BudgetError, ParameterError
from dpforest.model.file import DAMAGE
from dpforest.privacy.accountants import MOST_DELTA, ZCDP, Pure, make_accountant, zcdp_epsilon, zcdp_rho
from dpforest.privacy.amounts import divide, exact, round_down, round_up
from dpforest.privacy.amplification import SHARE_STEPS, outside_sample
from dpforest.privacy.events import THRESHOLD_DELTA, Mechanism
from dpforest.privacy.ledger import Ledger

STEPS = SHARE_STEPS
DELTA = 1e-6
SHARES = (Fraction(1, 2), Fraction(1, 16), Fraction(700_001, STEPS), Fraction(1, STEPS))
# Pure; zCDP; zCDP with lists; pure with lists: delta and the part of it that is for lists.
DELTAS = {"pure": (0.0, 0.0), "zcdp": (DELTA, 0.0), "zcdp with lists": (DELTA, 1e-7), "pure with lists": (DELTA, DELTA)}
every_share = pytest.mark.parametrize("share", SHARES, ids=str)
every_delta = pytest.mark.parametrize(("delta", "listed"), DELTAS.values(), ids=DELTAS.keys())


def uncapped(accountant, amount):
    """The loss on the table of an amount on the sample, without the cap at the stated epsilon."""
    of_unit = accountant.of_unit(amount)
    return outside_sample(zcdp_epsilon(of_unit, accountant.noise_delta), accountant.share)


def true_pure_loss(accountant, amount):
    """log(1 + q (exp(rows * amount) - 1)) in 60 digits."""
    inside, share = exact(amount) * accountant.rows, accountant.share
    inside, share = (Decimal(part.numerator) / Decimal(part.denominator) for part in (inside, share))
    return (1 + share * (inside.exp() - 1)).ln()


# --- budgets --------------------------------------------------------------------------------------------------------


@every_share
@every_delta
@pytest.mark.parametrize("rows", [1, 3])
def test_the_whole_budget_of_a_sample_costs_epsilon_on_the_table_and_no_more(share, delta, listed, rows):
    for epsilon in (0.1, 3.0):
        accountant = make_accountant(epsilon, delta, rows, listed, share)
        assert accountant.share == share
        assert (accountant.delta, accountant.threshold_delta, accountant.rows) == (delta, listed, rows)
        assert epsilon * (1 - 1e-6) <= accountant.epsilon_of(accountant.budget) <= epsilon
        assert accountant.epsilon_of(accountant.budget * 1.01) > epsilon
        assert accountant.epsilon_of(0.0) == 0.0
        assert accountant.epsilon_of(math.inf) == math.inf
        if isinstance(accountant, ZCDP):
            assert epsilon * (1 - 1e-6) <= uncapped(accountant, accountant.budget) <= epsilon * (1 + 1e-9)


@every_share
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_the_pure_budget_of_a_sample_is_safe_in_exact_arithmetic_and_a_billionth_more_is_not(share, rows):
    for epsilon in (1e-3, 0.1, 1.0, 7.7, 300.0):
        accountant = make_accountant(epsilon, 0.0, rows, share=share)
        with localcontext(prec=60):
            assert true_pure_loss(accountant, accountant.budget) <= Decimal(repr(epsilon))
            assert true_pure_loss(accountant, accountant.budget * (1 + 1e-9)) > Decimal(repr(epsilon))
            for part in (0.01, 0.5, 0.99):
                amount = part * accountant.budget
                assert true_pure_loss(accountant, amount) <= Decimal(repr(accountant.epsilon_of(amount)))


@every_share
@every_delta
def test_a_sample_may_spend_more_than_the_table_and_the_smaller_it_is_the_more(share, delta, listed):
    of_table, of_sample = (make_accountant(1.0, delta, 2, listed, part) for part in (Fraction(1), share))
    of_half = replace(of_sample, share=share / 2)  # which need not be a share that may be asked for
    assert of_table.budget < of_sample.budget < of_half.budget
    assert of_table.record_epsilon < of_sample.record_epsilon < of_half.record_epsilon
    assert type(of_table) is type(of_sample)
    assert of_sample.epsilon_of(of_table.budget) < 1.0


@every_share
def test_the_epsilon_that_a_record_of_the_sample_sees_pays_for_its_budget(share):
    for rows in (1, 4):
        pure, zcdp = (make_accountant(1.0, delta, rows, share=share) for delta in (0.0, DELTA))
        assert pure.record_epsilon == pure.budget
        assert zcdp_rho(zcdp.record_epsilon, zcdp.noise_delta) == pytest.approx(zcdp.budget, rel=1e-6)


@every_share
@pytest.mark.parametrize("listed", [0.0, 0.1, 0.5, 0.999])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 3e-4, 0.009, 0.01, 0.3])
def test_what_fails_on_a_sample_fails_on_the_table_with_at_most_delta(share, listed, delta):
    accountant = ZCDP(1.0, delta, threshold_delta=round_down(exact(delta) * exact(listed)), share=share)
    of_lists, of_noise = exact(accountant.threshold_delta), exact(accountant.noise_delta)
    assert of_noise > 0
    assert share * (of_noise + of_lists) <= exact(delta)
    assert of_noise <= exact(delta) / share - of_lists
    # As much as that, but for the cap, which takes nothing of what was given.
    most = max(exact(delta), min(exact(delta) / share, exact(MOST_DELTA)))
    assert (most - of_lists) * (1 - Fraction(1, 10**12)) <= of_noise <= most - of_lists


def test_without_a_sample_lists_leave_the_rest_of_delta_to_the_noise():
    for listed in (0.0, 1e-7):
        accountant = make_accountant(1.0, DELTA, threshold_delta=listed)
        assert accountant.share == 1
        assert exact(accountant.noise_delta) == exact(DELTA) - exact(listed)
        assert make_accountant(1.0, DELTA, threshold_delta=listed, share=Fraction(1)) == accountant


NO_SHARES = [0, Fraction(0), Fraction(-1, 2), Fraction(3, 2), 2, math.nan, Fraction(STEPS + 1, STEPS)]
TOO_FINE = [Fraction(1, 3), Fraction(1, 1000), Fraction(1, 2 * STEPS), 1 - Fraction(1, 2 * STEPS)]


@pytest.mark.parametrize("share", NO_SHARES + TOO_FINE, ids=str)
@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_a_share_that_is_no_probability_above_zero_or_finer_than_its_step_is_refused(share, delta):
    with pytest.raises(ParameterError) as caught:
        make_accountant(1.0, delta, share=share)
    assert str(caught.value) == f"The share of a sample must be a multiple of 1 / 1,048,576 in (0, 1], not {share}."


@FIXED
@given(st.integers(1, STEPS))
def test_every_multiple_of_the_step_is_a_share_and_a_float_has_it_exactly(steps):
    share = Fraction(steps, STEPS)
    assert make_accountant(1.0, 0.0, share=share).share == share == Fraction(float(share))


def test_a_budget_without_end_has_no_sample():
    for delta in (0.0, DELTA):
        assert make_accountant(math.inf, delta, 2, share=Fraction(1, 2)) == Pure(math.inf, 2)


def test_a_sample_lets_a_budget_be_that_would_be_too_small_for_the_table():
    with pytest.raises(ParameterError, match="too little for noise"):
        make_accountant(1e-10, 0.0)
    accountant = make_accountant(1e-10, 0.0, share=Fraction(1, 1024))
    assert accountant.epsilon_of(accountant.budget) <= 1e-10


# --- laws of what the gate draws ------------------------------------------------------------------------------------


def delta_of_a_count(variance, rows, share, epsilon):
    """The exact delta, at epsilon, of a count with discrete Gaussian noise and a person of so many rows, or without."""
    deviation = math.sqrt(variance)
    outputs = np.arange(-math.ceil(14 * deviation), math.ceil(14 * deviation) + rows + 1)
    weights = np.exp(-(np.subtract.outer(outputs, [0, rows]) ** 2) / (2 * variance))
    without, with_one = (weights / weights.sum(axis=0)).T
    larger = (1 - float(share)) * without + float(share) * with_one
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in [(larger, without), (without, larger)])


@pytest.mark.parametrize("share", SHARES[:3], ids=str)
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_gaussian_count_of_the_sample_keeps_delta_on_the_table_and_that_of_a_smaller_sample_does_not(share, delta, rows):
    for epsilon in (0.5, 1.0, 3.0):
        accountant = make_accountant(epsilon, delta, rows, share=share)
        assert delta_of_a_count(float(scale_of_a_count(accountant)), rows, share, epsilon) <= delta
        other = float(scale_of_a_count(replace(accountant, share=share / 8)))
        assert delta_of_a_count(other, rows, share, epsilon) > delta


# --- ledgers --------------------------------------------------------------------------------------------------------


def sampled_ledger(epsilon=1.0, delta=0.0, own=0.125, share=Fraction(1, 16), rows=1, listed=0.0):
    """A number of rows of the table, from a pure book that is used up, then a book about a secret sample."""
    ledger = Ledger(make_accountant(epsilon, delta, rows))
    ledger.begin(make_accountant(own, 0.0, rows))
    ledger.charge("number of rows", "geometric", ledger.accountant.budget)
    ledger.begin(make_accountant(round_down(exact(epsilon) - exact(own)), delta, rows, listed, share))
    return ledger


@every_delta
@pytest.mark.parametrize("rows", [1, 4])
def test_a_book_about_a_sample_adds_to_those_before_what_it_costs_on_the_table(delta, listed, rows):
    ledger = sampled_ledger(delta=delta, rows=rows, listed=listed)
    assert ledger.spent == 0.125
    accountant = ledger.accountant
    for amount in divide(accountant.budget, [1, 1, 2]):
        ledger.charge("leaves", accountant.noise, amount)
        assert ledger.spent == round_up(Fraction(1, 8) + exact(accountant.epsilon_of(ledger.total)))
    assert 1 - 1e-6 < ledger.spent <= 1.0
    with pytest.raises(BudgetError):
        ledger.charge("more", accountant.noise, 1e-12)
    assert ledger.n_entries == 4


@every_delta
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_no_book_follows_one_about_a_sample_whatever_it_has_left(delta, listed, part):
    for ledger in (
        sampled_ledger(delta=delta, listed=listed),
        Ledger(make_accountant(1.0, delta, 1, listed, Fraction(1, 16))),
    ):
        if part:
            ledger.charge("leaves", ledger.accountant.noise, ledger.accountant.budget * part)
        before = ledger.to_dict()
        for more in (
            make_accountant(1e-6, 0.0),
            make_accountant(1e-6, 0.0, share=Fraction(1, 16)),
            make_accountant(1e-6, 0.0, share=Fraction(1, 32)),
            make_accountant(1.0, delta, 1, listed),
            make_accountant(math.inf, 0.0),
        ):
            with pytest.raises(AccountingError, match=r"^A book about a sample is the last one: .+\.$"):
                ledger.begin(more)
            assert ledger.to_dict() == before
        ledger.charge("nothing more", ledger.accountant.noise, 0.0)  # the book about the sample is still the open one
        assert ledger.sample_share == Fraction(1, 16)


def test_a_book_about_a_sample_is_refused_by_what_it_may_cost_on_the_table():
    ledger = Ledger(make_accountant(1.0, 0.0))
    ledger.charge("first", "geometric", 0.5)
    with pytest.raises(BudgetError):
        ledger.begin(make_accountant(math.nextafter(0.5, 1), 0.0, share=Fraction(1, 1024)))
    ledger.begin(make_accountant(0.5, 0.0, share=Fraction(1, 1024)))
    assert ledger.accountant.budget > 1.0  # the budget is about the sample, so it may be more than all of epsilon
    ledger.charge("second", "geometric", ledger.accountant.budget)
    assert ledger.spent <= 1.0


def test_lists_of_a_sample_have_their_part_of_delta_and_no_more():
    ledger = sampled_ledger(delta=DELTA, listed=1e-7)
    named = Mechanism("gaussian", {THRESHOLD_DELTA: exact(1e-7)})
    ledger.charge("a list", named, 1e-4)
    with pytest.raises(BudgetError, match="list"):
        ledger.charge("another list", Mechanism("gaussian", {THRESHOLD_DELTA: Fraction(1, 10**30)}), 1e-4)
    assert ledger.n_entries == 2


def test_the_share_of_a_ledger_is_that_of_the_sample_that_trees_were_grown_from():
    assert Ledger(make_accountant(1.0, 0.0)).sample_share == 1
    assert Ledger(make_accountant(1.0, 0.0, share=Fraction(3, 8))).sample_share == Fraction(3, 8)
    assert sampled_ledger(share=Fraction(1, 16)).sample_share == Fraction(1, 16)
    assert Ledger(make_accountant(math.inf, 0.0, share=Fraction(1, 2))).sample_share == 1


@pytest.mark.parametrize("share", SHARES[2:], ids=str)
@every_delta
@pytest.mark.parametrize("rows", [1, 4])
def test_a_ledger_comes_back_from_its_file_with_the_share_and_what_it_has_left(share, delta, listed, rows):
    ledger = sampled_ledger(delta=delta, share=share, rows=rows, listed=listed)
    ledger.charge("leaves", ledger.accountant.noise, ledger.accountant.budget / 2)
    back = Ledger.from_json(ledger.to_json())
    assert back == ledger
    assert back.to_json() == ledger.to_json()
    assert (back.sample_share, back.spent, back.total) == (share, ledger.spent, ledger.total)
    assert back.accountant == ledger.accountant
    assert Ledger.from_dict(ledger.to_dict()) == ledger
    with pytest.raises(BudgetError):
        back.charge("leaves", back.accountant.noise, 0.51 * back.accountant.budget)
    back.charge("leaves", back.accountant.noise, 0.49 * back.accountant.budget)
    assert back.spent <= 1.0


@every_share
def test_the_share_of_a_sample_is_written_as_a_number_and_makes_a_ledger_another_one(share):
    first, second = json.loads(sampled_ledger(share=share).to_json())["books"]
    assert "sample_share" not in first
    assert type(second["sample_share"]) is float
    assert Fraction(second["sample_share"]) == share
    assert sampled_ledger(share=share) == sampled_ledger(share=share) != sampled_ledger(share=share + Fraction(1, STEPS))


def changed_share(share):
    content = sampled_ledger().to_dict()
    content["books"][1]["sample_share"] = share
    return content


def test_a_file_with_another_share_is_read_with_it():
    for share in (0.5, 1.0, 3 / STEPS):
        assert Ledger.from_dict(changed_share(share)).sample_share == Fraction(share)


NUMBERS = [0, 0.0, -0.5, 1.5, 2, math.nan, 1e-300, 5e-324, 1 / 3, 0.001, 0.5 / STEPS]
TEXTS = ["0", "-1/2", "2", "half", "nan", "1/16", "0.0625", "1", " 5e-1 ", "1/0", "1e-400", "1/" + "9" * 400]


@pytest.mark.parametrize("share", [*NUMBERS, *TEXTS, None, [1, 2], math.inf, -math.inf, 10**400], ids=lambda v: str(v)[:9])
def test_a_file_with_what_is_no_share_is_refused(share):
    refusal = {"match": r"share of a sample|NaN"} if share in NUMBERS else {}
    with pytest.raises(ValueError if refusal else DAMAGE, **refusal):
        Ledger.from_dict(changed_share(share))


@FIXED
@given(
    st.floats(0.01, 20), st.integers(1, STEPS).map(lambda steps: Fraction(steps, STEPS)), st.floats(0.001, 0.9),
    st.lists(st.floats(0, 0.7), max_size=6), st.sampled_from([1, 2, 7]),
)  # fmt: skip
def test_no_sequence_of_charges_to_table_and_sample_passes_the_budget(epsilon, share, own, parts, rows):
    ledger = Ledger(make_accountant(epsilon, 0.0, rows))
    ledger.charge("number of rows", "geometric", own * ledger.accountant.budget)
    ledger.begin(make_accountant(round_down(exact(epsilon) - exact(ledger.spent)), 0.0, rows, share=share))
    accountant, charged = ledger.accountant, Fraction(0)
    for part in parts:
        amount = part * accountant.budget
        if charged + exact(amount) > exact(accountant.budget):
            with pytest.raises(BudgetError):
                ledger.charge("step", "geometric", amount)
            continue
        ledger.charge("step", "geometric", amount)
        charged += exact(amount)
    assert exact(ledger.spent) <= exact(epsilon)
    with localcontext(prec=60):
        first = exact(own * make_accountant(epsilon, 0.0, rows).budget) * rows
        of_table = Decimal(first.numerator) / Decimal(first.denominator)
        of_sample = true_pure_loss(accountant, charged)
        assert of_table + of_sample <= Decimal(repr(ledger.spent))
