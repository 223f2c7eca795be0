"""What tighter accounting and searches could buy: kept rows are private, and the ways to compose are what they say."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as losses
from scipy.stats import norm
from tests.benchmarks.small import BENCH

from benchmarks import accounting, search
from benchmarks.core.results import NotMeasured, read_rows
from benchmarks.profiles import Step, epsilon_of, gaussian_rho, halves, pair, steps_of, worst
from dpforest import Classes, DPForestClassifier, Numeric, Schema
from dpforest.privacy.accountants import make_accountant, zcdp_rho
from dpforest.privacy.ledger import Ledger

# --- kept rows ----------------------------------------------------------------------------------------------------------


def test_every_kept_row_has_spent_its_epsilon_and_no_more():
    rows = read_rows(BENCH / "search.jsonl")
    assert len(rows) == sum(len(search.keys(case, 10)) for case in search.CASES)
    assert all(0.98 * row["epsilon"] <= row["spent"] <= row["epsilon"] for row in rows)


def test_every_kept_fit_is_private_and_every_pair_complete():
    rows = read_rows(BENCH / "accounting.jsonl", accounting.QUESTION)
    assert len(rows) == sum(2 * len(accounting.EPSILONS) * n for n in accounting.TABLES.values())
    assert all(row["holds"] and row["epsilon_spent"] <= row["parameters"]["epsilon"] for row in rows)
    assert len(read_rows(BENCH / "accounting.jsonl", accounting.LEDGERS)) == len(accounting.TABLES) * len(
        accounting.EPSILONS
    )


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-6), (4.0, 1e-5)])
def test_one_gaussian_release_has_the_rho_that_dp_accounting_finds(epsilon, delta):
    rho = accounting.gaussian_rho(epsilon, delta)
    sigma = 1 / math.sqrt(2 * rho)
    release = losses.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4, use_connect_dots=True)
    assert release.get_epsilon_for_delta(delta) == pytest.approx(epsilon, rel=1e-3)
    assert accounting.gaussian_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-6)
    assert 1.14 < rho / zcdp_rho(epsilon, delta) < 1.23


# --- the bound by one Gaussian --------------------------------------------------------------------------------------


def curve(variance, epsilon):
    """The delta of Gaussian noise whose loss has this variance, at each epsilon."""
    move = math.sqrt(variance)
    return norm.cdf(move / 2 - epsilon / move) - np.exp(epsilon + norm.logcdf(-move / 2 - epsilon / move))


def excess(s, v, t, share=1.0):
    """By how much a choice with the losses t and t - s, and noise of variance v after it, passes the bound by one Gaussian.

    ``share`` makes the bound wrong: it takes that part of the squared range for all of it.
    """
    bound = v * v / (v - share * s**2 / 4)
    epsilon = np.linspace(-8, 8, 801) * math.sqrt(bound)
    chance = math.expm1(t - s) / math.expm1(-s)
    both = chance * curve(v, epsilon - t) + (1 - chance) * curve(v, epsilon - t + s)
    return float((both - curve(bound, epsilon)).max())


@pytest.mark.parametrize("s", [1e-3, 0.02, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("ratio", [0.26, 0.5, 1.0, 5.0, 100.0])
def test_a_choice_and_noise_after_it_lose_no_more_than_the_gaussian_that_bounds_them(s, ratio):
    for t in np.linspace(0.02, 0.98, 13) * s:
        assert excess(s, ratio * s**2, t) < 1e-14
    # The bound is that of ``gaussian_rho``: noise of variance v comes last.
    steps = [Step(True, s), Step(False, math.sqrt(ratio) * s)]
    if ratio >= 0.5:
        assert 2 * gaussian_rho(steps) == pytest.approx(ratio**2 / (ratio - 0.25) * s**2)
    if s in (0.02, 0.3) and ratio >= 5:  # nine tenths of a choice would not be enough
        assert excess(s, ratio * s**2, s / 2, share=0.9) > 1e-6


@pytest.mark.parametrize("variance", [20.0, 100.0])
def test_noise_on_integers_and_what_follows_it_lose_no_more_than_the_gaussian_that_bounds_them(variance):
    """By the sum over all noise: a count that a record moves by 1, then noise whose loss has the least variance allowed."""
    noise = np.arange(-150, 151)
    chances = np.exp(-(noise**2) / (2 * variance))
    at = (2 * noise - 1) / (2 * variance)  # the loss, without the record: of a value over the chance to be one higher
    for share, holds in ((1.0, True), (0.9, False)):
        v = 4 / variance / (variance - 4)
        bound = v + share / variance
        epsilon = np.linspace(-7, 7, 141) * math.sqrt(bound)
        with_record = (chances * np.exp(at)) / chances.sum()
        both = sum(chance * curve(v, epsilon - loss) for chance, loss in zip(with_record, at, strict=True))
        assert ((both - curve(bound, epsilon)).max() < 1e-12) == holds


def test_noise_that_is_too_narrow_and_charges_that_are_not_in_sequence_are_not_composed():
    with pytest.raises(NotMeasured, match="narrow"):
        gaussian_rho([Step(False, 1.0, 3.0)])
    ledger = Ledger(make_accountant(1.0, 1e-6))
    with ledger.scope("trees", "parallel"):
        ledger.charge("leaves", "gaussian", 1e-3)
    with pytest.raises(NotMeasured, match="sequence"):
        steps_of(ledger.books[0])


# --- curves on a grid -----------------------------------------------------------------------------------------------


def test_curves_on_a_grid_are_ordered_and_agree_with_dp_accounting():
    s, n, delta = 0.06, 60, 1e-5
    choices = [Step(True, s)] * n
    even, most, pairs = (epsilon_of(choices, delta, by) for by in (halves, worst, pair))
    bound = accounting.gaussian_epsilon(gaussian_rho(choices), delta)
    assert even < most < bound < pairs
    chance = 1 / (1 + math.exp(-s / 2))
    laws = [{0: math.log(chance), 1: math.log1p(-chance)}, {0: math.log1p(-chance), 1: math.log(chance)}]
    theirs = losses.from_two_probability_mass_functions(*laws, value_discretization_interval=1e-5).self_compose(n)
    assert even == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=5e-3)
    noise = [Step(False, 0.02)] * 100
    assert epsilon_of(noise, delta, worst) == pytest.approx(accounting.gaussian_epsilon(0.02, delta), rel=5e-3)


@pytest.mark.slow
def test_steps_of_a_book_have_the_sizes_that_its_amounts_are_for():
    schema = Schema({"x": Numeric(0, 1)}, Classes([0, 1]), n_rows=3_000)
    X = np.linspace(0, 1, 3_000)[:, None]
    book = DPForestClassifier(schema, 1.0, 1e-6).fit(X, (X[:, 0] > 0.4).astype(int)).ledger_.books[0]
    steps = steps_of(book)
    rho = math.fsum(step.size**2 / (8 if step.is_choice else 2) for step in steps)
    assert rho == pytest.approx(book.total, rel=1e-4)
    assert {step.is_choice for step in steps} == {True, False}
