"""Group privacy: a person with k rows gets what was asked for, and no less noise would do."""

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.support.gates import scale_of, scale_of_a_count
from tests.support.laws import renyi

from dpforest.budget import Loss
from dpforest.budget.fits import row_epsilon
from dpforest.errors import AccountingError, ParameterError
from dpforest.parts.criteria import MaxOperator
from dpforest.privacy.accountants import ZCDP, Pure, make_accountant, zcdp_rho
from dpforest.privacy.amounts import exact
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.privacy.statement import Statement
from dpforest.schema import Classes

KS = (1, 2, 3, 7, 10, 1000)


def pure_loss(k, rate):
    """Worst log-ratio of a count with geometric noise that k rows of one person move by k."""
    return k * rate


def zcdp_loss(k, variance):
    """The rho of a count with Gaussian noise that k rows of one person move by k."""
    return Fraction(k * k) / (2 * variance)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 10, 500])
@pytest.mark.parametrize("epsilon", [0.8, 1.0, 8.0])
def test_k_equal_rows_lose_what_is_stated_and_nearly_all_of_it_and_more_with_the_noise_for_a_row_fewer(k, epsilon):
    rho = exact(zcdp_rho(epsilon, 1e-6))
    assert exact(epsilon) * 999 / 1000 < pure_loss(k, scale_of_a_count(make_accountant(epsilon, 0.0, k))) <= exact(epsilon)
    assert rho * 999 / 1000 < zcdp_loss(k, scale_of_a_count(make_accountant(epsilon, 1e-6, k))) <= rho
    if k > 1:
        assert pure_loss(k, scale_of_a_count(make_accountant(epsilon, 0.0, k - 1))) > exact(epsilon)
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
