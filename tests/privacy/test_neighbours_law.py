"""What each kind of neighbour loses, also a person with k rows: docs/neighbours.md row by row, on laws of small tables."""

import math
import re
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from tests.support.gates import scale_of, scale_of_a_count
from tests.support.laws import renyi

from dpforest import Classes, DPForestClassifier, Numeric, Schema
from dpforest.budget import Loss
from dpforest.budget.fits import row_epsilon
from dpforest.errors import AccountingError, ParameterError
from dpforest.parts.criteria import MaxOperator
from dpforest.privacy.accountants import ZCDP, Pure, make_accountant, zcdp_epsilon, zcdp_log_delta, zcdp_rho
from dpforest.privacy.amounts import exact
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.privacy.statement import Before, Statement, group_loss, row_loss

POINTS = np.arange(-400, 401) / 8
PAGE = (Path(__file__).parents[2] / "docs" / "neighbours.md").read_text("utf-8")
# A row of class 1 or -1 adds that to the released lead of one class, as leaves of two classes release it.
PERSONS = [rows for n_rows in range(5) for rows in product((-1, 1), repeat=n_rows)]


def drawn(table, most):
    """The law of the lead that is counted, as shares by value, if of each person ``most`` rows are drawn."""
    law = {0: 1.0}
    for rows in table:
        subsets = list(combinations(rows, min(most, len(rows))))
        sums = [(lead + sum(kept), share / len(subsets)) for lead, share in law.items() for kept in subsets]
        law = {lead: math.fsum(share for found, share in sums if found == lead) for lead, _ in sums}
    return law


def noisy(table, most, loss):
    """The logarithm of the law of the lead with noise, of which ``loss(distance)`` is minus the logarithm."""
    parts = [math.log(share) - loss(abs(POINTS - lead)) for lead, share in drawn(table, most).items()]
    return np.logaddexp.reduce(parts, axis=0)


def pure_loss(pairs, most, rate):
    """The largest log-ratio of the laws of two tables with geometric noise, over pairs of tables."""
    laws = (([noisy(table, most, lambda x: rate * x) for table in pair]) for pair in pairs)
    return max(float(abs(one - other).max()) for one, other in laws)


def one_row_more():
    """Pairs of tables in which one person has a row more; another person is beside them."""
    others = [(), (-1, 1)]
    return [([rows, other], [(*rows, new), other]) for rows in PERSONS for new in (-1, 1) for other in others]


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 12.0])
def test_one_row_more_of_a_person_loses_two_steps_of_a_used_row_and_nearly_all_of_it(most, epsilon):
    worst = pure_loss(one_row_more(), most, make_accountant(epsilon, 0.0, most).budget)
    stated = row_epsilon([Loss.pure(epsilon)], 0.0, most, may_sample=False)
    assert stated == pytest.approx(2 * epsilon / most)
    # The page also has the exact value, which a person with as many rows as are used attains.
    assert worst == pytest.approx(math.log1p(most / (most + 1) * math.expm1(2 * epsilon / most)), rel=1e-9)
    assert worst <= stated
    if epsilon == 12.0:
        assert worst > 0.9 * stated


def test_of_persons_with_one_used_row_a_row_loses_more_than_the_person():
    assert pure_loss(one_row_more(), 1, 1.0) == pytest.approx(1.4338, abs=1e-4)
    assert pure_loss([([rows], [()]) for rows in PERSONS], 1, 1.0) <= 1 + 1e-12


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_person_loses_epsilon_and_one_that_is_replaced_twice_that(most):
    rate = make_accountant(1.0, 0.0, most).budget
    removed = [([rows, (-1, 1)], [(), (-1, 1)]) for rows in PERSONS]
    assert 0.999 < pure_loss(removed, most, rate) <= 1 + 1e-9
    replaced = [([one], [other]) for one, other in combinations(PERSONS, 2)]
    assert 1.999 < pure_loss(replaced, most, rate) <= group_loss(1.0, 0.0, 2)[0] + 1e-9


def test_of_records_one_loses_epsilon_one_that_is_replaced_two_and_k_together_k():
    """Where records are protected all rows are used; persons are not known."""
    everything = 99
    assert 0.999 < pure_loss(one_row_more(), everything, 1.0) <= 1 + 1e-9
    replaced = [([(-1, *rows)], [(1, *rows)]) for rows in PERSONS]
    assert 1.999 < pure_loss(replaced, everything, 1.0) <= group_loss(1.0, 0.0, 2)[0] + 1e-9
    for k in (2, 3, 4):
        together = [([rows, (-1, 1)], [(), (-1, 1)]) for rows in PERSONS if len(rows) == k]
        assert k - 0.001 < pure_loss(together, everything, 1.0) <= group_loss(1.0, 0.0, k)[0] + 1e-9


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("order", [1.5, 6.0])
def test_with_delta_one_row_more_of_a_person_loses_four_times_the_rho_of_a_used_row_and_nearly_all_of_it(most, order):
    """Rényi divergences of leads with Gaussian noise of variance 1/2, so that a used row has rho = 1, on a fine grid."""
    worst = 0.0
    for both in one_row_more():
        laws = [noisy(table, most, np.square) for table in both]
        laws = [law - np.logaddexp.reduce(law) for law in laws]
        for one, other in (laws, laws[::-1]):
            worst = max(worst, float(np.logaddexp.reduce(order * one + (1 - order) * other)) / (order - 1))
    assert worst <= 4 * order * (1 + 1e-9)
    if order == 6.0:
        assert worst > 0.9 * 4 * order


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_epsilon_of_a_row_is_that_of_four_times_its_rho_at_the_same_delta(most):
    rho, outcomes = zcdp_rho(1.0, 1e-6), [Loss.pure(1.0), Loss(math.inf, zcdp_rho(1.0, 1e-6))]
    stated = row_epsilon(outcomes[1:], 1e-6, most, may_sample=False)
    assert stated == pytest.approx(zcdp_epsilon(4 * rho / most**2, 1e-6), rel=1e-9)
    # With 10 % less it would be another delta.
    assert zcdp_log_delta(4 * rho / most**2, 0.9 * stated) > math.log(1e-6)
    # Of a part without delta and of more than 2 rho is its epsilon, which does not fall with the square of the rows.
    assert row_epsilon([Loss.pure(4.0) + Loss(math.inf, 0.0)], 1e-6, most, may_sample=False) is None
    # A fit that may end without delta loses the larger of both, whichever way it ends.
    assert row_epsilon(outcomes, 1e-6, most, may_sample=False) == max(stated, 2.0 / most)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("share", [Fraction(1, 64), Fraction(1, 4), Fraction(1)])
def test_on_a_sample_a_row_loses_at_most_what_the_person_does_or_of_one_row_twice_that(most, share):
    """The person takes part by a coin, and then k rows are drawn; by brute force for persons of up to four rows."""
    rate, worst = make_accountant(1.0, 0.0, most, share=share).budget, 0.0
    absent = noisy([()], most, lambda x: rate * x)
    for pair in one_row_more()[::2]:  # nobody is beside them
        laws = [noisy(table, most, lambda x: rate * x) for table in pair]
        if share < 1:
            laws = [np.logaddexp(math.log(share) + law, math.log1p(-share) + absent) for law in laws]
        worst = max(worst, float(abs(laws[0] - laws[1]).max()))
    assert worst <= row_epsilon([Loss.pure(1.0)], 0.0, most, may_sample=True) + 1e-9
    assert row_epsilon([Loss.pure(1.0)], 1e-6, most, may_sample=True) is None


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_loss_of_a_row_is_the_same_for_every_outcome_of_a_fit(delta):
    schema = Schema({"x": Numeric(0, 1)}, Classes([0, 1]), n_rows=60)
    rows, ids = np.random.default_rng(0).random((60, 1)), np.arange(60) // 3
    model = DPForestClassifier(schema, epsilon=1.0, delta=delta, max_rows_per_person=1)
    found = {model.fit(rows, rows[:, 0] > 0.5, groups=ids).privacy_.row_epsilon for _ in range(3)}
    assert len(found) == 1
    assert found.pop() == pytest.approx(2.0 if not delta else 2.11, abs=0.01)


def test_a_record_in_fits_of_records_and_of_persons_loses_what_a_row_loses_in_each():
    """With one used row a person a row can lose 1.434 at epsilon = 1, so that 1 + 1 would not cover both fits."""
    before = Before(1.0, 0.0, "person", True, "auto", None, None, 2.0)
    assert Statement(1.0, 0.0, holds=True, earlier=(before,)).in_all == (3.0, 0.0, "record")
    assert Statement(1.0, 0.0, holds=True, unit="person", earlier=(before,)).in_all == (2.0, 0.0, "person")
    # Files of earlier versions have the loss of the person only: one person with the row for one without it.
    unknown = Before(1.0, 1e-6, "person", True, "auto", None, None)
    assert row_loss(unknown) == (2.0, pytest.approx(1e-6 * (1 + math.e)))
    epsilon, delta, unit = Statement(1.0, 0.0, holds=True, earlier=(unknown,)).in_all
    assert (epsilon, delta, unit) == (3.0, pytest.approx(1e-6 * (1 + math.e)), "record")


def test_the_factor_of_odds_in_a_statement_is_rounded_up():
    assert math.exp(0.4) < 1.495
    assert "at most 1.5 (e^epsilon) times" in str(Statement(0.4, 0.0, holds=True))


def test_every_statement_leads_to_the_page_of_neighbours():
    assert str(Statement(1.0, 0.0, holds=True)).endswith("docs/neighbours.md.")
    for words in ("one row more", "is replaced", "2ε/k", "**not promised**"):
        assert words in PAGE


# --- persons with k rows ---------------------------------------------------------------------------------------------

KS = (1, 2, 3, 7, 10, 1000)


def loss_of_equal_rows(k, rate):
    """Worst log-ratio of a count with geometric noise that k rows of one person move by k."""
    return k * rate


def zcdp_loss(k, variance):
    """The rho of a count with Gaussian noise that k rows of one person move by k."""
    return Fraction(k * k) / (2 * variance)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 10, 500])
@pytest.mark.parametrize("epsilon", [0.8, 1.0, 8.0])
def test_k_equal_rows_lose_what_is_stated_and_nearly_all_of_it_and_more_with_the_noise_for_a_row_fewer(k, epsilon):
    rho = exact(zcdp_rho(epsilon, 1e-6))
    assert (
        exact(epsilon) * 999 / 1000
        < loss_of_equal_rows(k, scale_of_a_count(make_accountant(epsilon, 0.0, k)))
        <= exact(epsilon)
    )
    assert rho * 999 / 1000 < zcdp_loss(k, scale_of_a_count(make_accountant(epsilon, 1e-6, k))) <= rho
    if k > 1:
        assert loss_of_equal_rows(k, scale_of_a_count(make_accountant(epsilon, 0.0, k - 1))) > exact(epsilon)
        assert zcdp_loss(k, scale_of_a_count(make_accountant(epsilon, 1e-6, k - 1))) > rho


def scores(k, weight, added):
    """Scores of a split by each of two features, on a table to which ``added`` equal records are added.

    The first feature tells classes apart, but for k / 2 records that the second tells better. In the second, the added
    records fall where the other class leads by more than k.
    """
    table = np.zeros((2, 2, 2), dtype=np.int64)  # by first feature, second feature, class
    table[0, 1, 0] = table[1, 0, 1] = 4 * k
    table[0, 0, 1] = k // 2
    table[0, 0, 0] = added
    children = weight * np.stack([table.sum(axis=1), table.sum(axis=0)])
    return MaxOperator().score(children, Classes([0, 1]))


@pytest.mark.parametrize("weight", [1, 255], ids=["records", "weighted"])
@pytest.mark.parametrize("k", [2, 4, 10, 100])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_k_equal_rows_lose_by_a_choice_of_the_max_operator_what_is_stated_and_nearly_all_of_it(k, weight, epsilon):
    """Fails if the accountant multiplies, or divides, by 0.9 k**2."""
    accountant = make_accountant(epsilon, 1e-6, k)
    zeros, bound = Sealed(np.zeros((1, 2), dtype=np.int64)), MaxOperator().bound(weight)
    rate = float(scale_of(accountant, "select", zeros, None, bound, accountant.budget, "split"))
    before, after = (rate * scores(k, weight, added) for added in (0, k))
    laws = [law - np.logaddexp.reduce(law) for law in (before, after)]
    worst = max(renyi(*pair, alpha) / alpha for pair in (laws, laws[::-1]) for alpha in (1.001, 1.5, 2.0, 5.0, 20.0))
    assert worst <= accountant.of_unit(accountant.budget) * (1 + 1e-9)
    assert worst > 0.97 * k**2 * accountant.budget


@pytest.mark.parametrize("k", KS)
def test_amounts_of_a_record_and_of_a_person_lead_to_each_other(k):
    for accountant in (Pure(0.7, k), ZCDP(0.7, 1e-5, k)):
        assert accountant.epsilon_of(accountant.budget) <= 0.7
        assert accountant.epsilon_of(accountant.budget) == pytest.approx(0.7, rel=1e-9)
        assert accountant.epsilon_of(math.nextafter(accountant.budget, 1) * 1.01) > 0.7
    assert exact(Pure(0.7, k).budget) * k <= Fraction(7, 10) <= exact(math.nextafter(Pure(0.7, k).budget, 1)) * k
    assert exact(Pure(0.7, k).of_unit(0.1)) >= Fraction(k, 10)
    assert exact(ZCDP(0.7, 1e-5, k).of_unit(0.1)) >= Fraction(k * k, 10)
    assert Pure(math.inf, k).epsilon_of(math.inf) == ZCDP(1.0, 1e-5, k).epsilon_of(math.inf) == math.inf


def test_what_a_record_sees_is_what_the_plan_is_made_for():
    assert Pure(3.0, 3).record_epsilon == 1.0
    assert ZCDP(3.0, 1e-6).record_epsilon == 3.0
    seen = ZCDP(3.0, 1e-6, 3)
    assert zcdp_rho(seen.record_epsilon, 1e-6) == pytest.approx(seen.budget, rel=1e-6)
    assert seen.record_epsilon < 1.0 + 0.05


def test_the_guide_has_the_epsilon_of_one_row_of_a_person():
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "people.md").read_text()
    heads = [(1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (1.0, 1e-6), (3.0, 1e-6)]
    lines = [line.strip("| ").split(" | ") for line in guide.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(line[0]) for line in lines] == [1, 2, 5, 10]
    for k, *cells in lines:
        for (epsilon, delta), cell in zip(heads, cells, strict=True):
            outcomes = [Loss.pure(epsilon), *([Loss(math.inf, zcdp_rho(epsilon, delta))] if delta else [])]
            assert 0 <= float(cell) - row_epsilon(outcomes, delta, int(k), may_sample=False) < 0.01


def test_a_book_about_other_rows_of_a_person_is_refused():
    ledger = Ledger(make_accountant(1.0, 1e-6, 3))
    with pytest.raises(AccountingError, match="3"):
        ledger.begin(make_accountant(0.5, 0.0))
    ledger.begin(make_accountant(0.5, 0.0, 3))


def test_books_of_a_person_add_up_as_persons_lose():
    ledger = Ledger(make_accountant(1.0, 1e-6, 2))
    ledger.begin(make_accountant(0.25, 0.0, 2))
    ledger.charge("number of rows", "geometric", 0.125)
    assert ledger.spent == 0.25
    ledger.begin(make_accountant(0.75, 1e-6, 2))
    ledger.charge("leaves", "gaussian", ledger.accountant.budget)
    assert ledger.spent == pytest.approx(1.0, rel=1e-9)
    assert ledger.spent <= 1.0
    again = Ledger.from_json(ledger.to_json())
    assert again == ledger
    assert again.spent == ledger.spent
    assert again.rows == 2
    assert again != Ledger(make_accountant(1.0, 1e-6))


def test_a_statement_about_persons_survives_and_one_that_makes_no_sense_is_refused():
    statement = Statement(1.0, 0.0, holds=True, unit="person", rows=3, row_epsilon=2 / 3)
    assert Statement.from_dict(statement.to_dict()) == statement
    assert "one person (all rows that carry one id, of which the fit uses at most 3)" in str(statement)
    assert "given person was in the table" in str(statement)
    of_rows = {"row_epsilon": -1}, {"row_epsilon": "x"}, {"row_epsilon": 2.0, "unit": "record", "rows": 1}
    of_units = {"rows": 3, "unit": "record"}, {"rows": 0}, {"rows": 1.5}, {"rows": True}, {"unit": "village"}
    for wrong in of_rows + of_units:
        with pytest.raises(ValueError):
            Statement.from_dict(statement.to_dict() | wrong)


def test_files_from_before_persons_are_about_records():
    content = Statement(1.0, 0.0, holds=True).to_dict()
    ledger = Ledger(make_accountant(1.0, 0.0)).to_dict()
    del content["rows"], ledger["rows_of_unit"]
    assert Statement.from_dict(content).rows == Ledger.from_dict(ledger).rows == 1


@pytest.mark.parametrize("rows", [0, -1, 1.5, True, "3", None])
def test_the_most_rows_of_a_person_is_a_whole_number(rows):
    with pytest.raises(ParameterError, match="whole number"):
        make_accountant(1.0, 0.0, rows)
