"""What each kind of neighbour loses, by brute force: docs/neighbours.md row by row, on exact laws of small tables."""

import math
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from dpforest import Classes, DPForestClassifier, Numeric, Schema
from dpforest.budget import Loss
from dpforest.budget.fits import row_epsilon
from dpforest.privacy.accountants import make_accountant, zcdp_epsilon, zcdp_log_delta, zcdp_rho
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
