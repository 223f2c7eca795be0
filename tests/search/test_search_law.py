"""The number of runs has its law, and the best of them tells neighbours apart by no more than is charged, and by no less.

With delta this is shown exactly, on toys that come near to what is allowed: a toy has few outcomes, so that its laws can be
written down. Its rho is the least for which it is zCDP, by a grid of orders.
"""

import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy import stats
from tests.search.small import law_of_best

from dpforest.budget import Budget
from dpforest.budget.chain import losses_from_json, losses_to_json
from dpforest.budget.fits import loss_of_search
from dpforest.budget.totals import Cap
from dpforest.errors import ParameterError
from dpforest.mechanisms import Entropy, Logarithmic
from dpforest.privacy.accountants import log_of, zcdp_epsilon, zcdp_rho
from dpforest.privacy.amounts import exact
from dpforest.privacy.best_of_runs import concentrated, epsilon_of_one_run, log_delta_of_best

# Each statistical test fails a sound sampler with this probability. Seeds are fixed: it fails always or never.
FAILURE = 1e-6
N_DRAWS = 20_000


def law_of_runs(gamma: float, most: int) -> np.ndarray:
    """Probabilities of 1 .. most runs."""
    k = np.arange(1, most + 1)
    return (1 - gamma) ** k / (k * -math.log(gamma))


@pytest.mark.slow
@pytest.mark.parametrize("mean_runs", [1.5, 4.0, 30.0])
def test_numbers_of_runs_have_the_logarithmic_law(mean_runs):
    law, entropy = Logarithmic.with_mean(mean_runs), Entropy(7)
    drawn = np.array([law.draw(entropy) for _ in range(N_DRAWS)])
    chances = law_of_runs(float(law.gamma), 20_000)
    last = int(np.flatnonzero(N_DRAWS * chances > 10)[-1]) + 1
    observed = [*np.bincount(np.minimum(drawn, last + 1), minlength=last + 2)[1:]]
    expected = N_DRAWS * np.array([*chances[:last], 1 - chances[:last].sum()])
    assert stats.chisquare(observed, expected).pvalue > FAILURE


@pytest.mark.slow
@pytest.mark.parametrize("mean_runs", [1.0, 1.001, 1.5, 4.0, 30.0, 1000.0, 10_000.0])
def test_the_expected_number_of_runs_is_the_one_that_is_asked_for(mean_runs):
    gamma = float(Logarithmic.with_mean(mean_runs).gamma)
    if gamma == 1:
        assert mean_runs == 1
        return
    most = int(60 / gamma) + 1
    assert math.fsum(law_of_runs(gamma, most) * np.arange(1, most + 1)) == pytest.approx(mean_runs, rel=1e-4)


def test_one_run_on_average_is_always_one_and_costs_no_more_than_a_run():
    law = Logarithmic.with_mean(1)
    assert {law.draw(Entropy(seed)) for seed in range(200)} == {1}
    assert law.best_of_runs(0.7) == pytest.approx(0.7, rel=1e-9)


def log_ratio(law, run, neighbour):
    """The largest logarithm of how much likelier an outcome is the best; outcomes are in order, the last is best."""
    return np.abs(np.log(law_of_best(law, run[::-1]) / law_of_best(law, neighbour[::-1]))).max()


def pairs_of_runs(factor: Fraction):
    """Pairs of runs whose chances differ by at most ``factor``, exactly, with two or three outcomes."""
    for index in range(1, 20):
        p = Fraction(index, 20)
        for other in (p / factor, 1 - (1 - p) / factor, 1 - factor * (1 - p), factor * p):
            if 0 < other < 1 and 1 / factor <= other / p <= factor and 1 / factor <= (1 - other) / (1 - p) <= factor:
                yield [p, 1 - p], [other, 1 - other]
    # The worst: nearly all of the chance is at the two ends, as with randomised response, and a rare outcome lies between.
    end, rare = 1 / (factor + 1), Fraction(1, 10**6)
    run, neighbour = [factor * (end - rare), factor * rare, end], [end - rare, rare, factor * end]
    assert sum(run) == sum(neighbour) == 1
    yield run, neighbour


@pytest.mark.parametrize("mean_runs", [1.5, 4.0, 30.0, 1000.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_the_best_of_runs_differs_between_neighbours_by_what_is_charged_and_not_by_less(mean_runs, epsilon):
    law = Logarithmic.with_mean(mean_runs)
    worst = max(log_ratio(law, *runs) for runs in pairs_of_runs(Fraction(math.exp(epsilon))))
    charged = law.best_of_runs(epsilon)
    assert 0.999 * charged < worst <= charged * (1 + 1e-8)  # 1e-8 for the test's own floats
    assert charged <= 2 * epsilon * (1 + 1e-9)


def test_random_runs_never_differ_by_more_than_is_charged():
    rng = np.random.default_rng(5)
    for _ in range(300):
        epsilon, law = rng.uniform(0.05, 3), Logarithmic.with_mean(rng.uniform(1.01, 50))
        # Tilting by one of exp(0) .. exp(epsilon) and dividing by the sum changes chances by at most exp(epsilon).
        run = rng.dirichlet(np.full(rng.integers(2, 7), 0.7)) + 1e-6
        tilted = run * np.exp(epsilon * rng.integers(0, 2, len(run)))
        assert log_ratio(law, run / run.sum(), tilted / tilted.sum()) <= law.best_of_runs(epsilon) + 1e-6


@pytest.mark.parametrize("mean_runs", [1.0, 1.2, 10.0, 10_000.0])
@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 20.0, 500.0])
def test_what_one_run_may_cost_is_as_much_as_the_whole_allows(mean_runs, epsilon):
    law = Logarithmic.with_mean(mean_runs)
    one = law.of_one_run(epsilon)
    assert epsilon / 2 * (1 - 1e-9) <= one <= epsilon
    assert law.best_of_runs(one) <= epsilon
    assert law.best_of_runs(one * (1 + 1e-9)) > epsilon
    with localcontext(prec=250):
        gamma, shrunk = Decimal(law.gamma.numerator) / law.gamma.denominator, (-Decimal(one)).exp()
        exact = Decimal(one) + ((1 + gamma * shrunk) / (shrunk + gamma)).ln()
        assert exact <= Decimal(epsilon)


# --- with delta ---------------------------------------------------------------------------------------------------------

ORDERS = 1 + np.geomspace(1e-3, 1e4, 8_000)
# The grid of orders misses no more of rho.
GRID = 1 + 1e-5
# The mean number of runs; about the rho of a run; the order that sees most of its loss; the chance of an outcome in between.
TOYS = [
    (10, 0.02, 20, 1e-4), (100, 0.02, 20, 1e-4), (3, 0.1, 8, 1e-4), (100, 0.1, 20, 1e-14), (10, 0.5, 8, 1e-8),
    (100, 0.5, 8, 1e-8),
]  # fmt: skip


def log_moments(run, other, orders):
    """Logarithms of the sum of run**order * other**(1 - order), for each order."""
    exponents = np.outer(orders, np.log(run)) + np.outer(1 - orders, np.log(other))
    return np.logaddexp.reduce(exponents, axis=1)


def divergences(run, other, orders):
    return log_moments(run, other, orders) / (orders - 1)


def rho_of(run, other):
    return max((divergences(*pair, ORDERS) / ORDERS).max() for pair in ((run, other), (other, run)))


def worst_toy(mean, rho, order, between):
    """Chances of three outcomes, the best first, for a run on each of two tables.

    The best outcome is as much likelier on the other table as zCDP allows, at the chance where that matters most; the one in
    between as much less likely as the moment of this order allows.
    """
    gamma = float(Logarithmic.with_mean(mean).gamma)
    far = np.linspace(40, 1e-6, 200_000)
    other = np.exp(-(np.maximum(np.sqrt(far) - math.sqrt(rho), 0) ** 2))
    u, v = (gamma + (1 - gamma) * chance for chance in (np.exp(-far), other))
    place = int(np.argmax((order - 1) * np.log(v) - order * np.log(u)))
    rare = between * math.exp(-order * rho - math.log(1 / between) / (order - 1))
    run, neighbour = [math.exp(-far[place]), between], [float(other[place]), rare]
    return np.array([*run, 1 - sum(run)]), np.array([*neighbour, 1 - sum(neighbour)])


def best_of_toy(*toy):
    """The law of the number of runs, the rho of a run, and the law of the best of them on each of two tables."""
    law, runs = Logarithmic.with_mean(toy[0]), worst_toy(*toy)
    return law, rho_of(*runs) * GRID, [law_of_best(law, run) for run in runs]


def delta_at(epsilon, run, other):
    return float(np.maximum(run - math.exp(epsilon) * other, 0).sum())


def test_the_law_of_the_best_is_the_sum_over_numbers_of_runs():
    law, run = Logarithmic.with_mean(4), np.array([0.2, 0.05, 0.75])
    k = np.arange(1, 3_000)[:, None]
    at_most = np.append(np.cumsum(run[::-1])[::-1], 0)  # the chance of this outcome or a worse one
    chances = law_of_runs(float(law.gamma), 2_999)[:, None]
    assert law_of_best(law, run) == pytest.approx(-np.diff((chances * at_most**k).sum(axis=0)), abs=1e-13)
    assert law.mean == pytest.approx((chances * k).sum(), rel=1e-9)


@pytest.mark.parametrize(("mean", "rho", "order", "between"), TOYS)
def test_divergences_of_the_best_are_at_most_what_is_claimed_and_nearly_that(mean, rho, order, between):
    law, own, found = best_of_toy(mean, rho, order, between)
    for each in (1.01, 1.5, 3, order, 4 * order):
        claimed = law.divergence(each, own)
        for pair in (found, found[::-1]):
            assert divergences(*pair, np.array([each]))[0] <= claimed
    assert divergences(*found, np.array([order]))[0] > 0.9 * law.divergence(order, own)
    assert rho_of(*found) <= concentrated(law, own / GRID)  # which a budget adds up


@pytest.mark.parametrize(("mean", "rho", "order", "between"), TOYS)
def test_delta_of_the_best_is_at_most_what_is_claimed_and_more_than_that_of_a_tenth_less(mean, rho, order, between):
    law, own, found = best_of_toy(mean, rho, order, between)
    loss, is_missed = math.log(found[0][1] / found[1][1]), []
    for epsilon in (0.3 * loss, 0.8 * loss, 0.9 * loss, 0.95 * loss, 0.98 * loss):
        exact = max(delta_at(epsilon, *pair) for pair in (found, found[::-1]))
        assert exact <= math.exp(log_delta_of_best(law, own, epsilon))
        is_missed.append(exact > math.exp(log_delta_of_best(law, 0.9 * own, epsilon)))
    assert any(is_missed)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 30.0])
@pytest.mark.parametrize("mean", [1.0, 1.5, 10, 1000])
def test_the_largest_over_cells_is_above_the_true_one_and_near_it(mean, rho):
    law = Logarithmic.with_mean(mean)
    gamma = float(law.gamma)
    far = np.geomspace(1e-8, 400, 400_000)
    u, v = (gamma + (1 - gamma) * np.exp(-x) for x in (far, np.maximum(np.sqrt(far) - math.sqrt(rho), 0) ** 2))
    for order in (1.5, 8.0, 300.0):
        largest = np.append((order - 1) * np.log(v) - order * np.log(u), 0).max()
        true = order * rho + (math.log(gamma * law.mean) + largest) / (order - 1)
        assert true <= law.divergence(order, rho) <= true + 2e-3 * rho**0.5 + 0.003 / (order - 1)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("mean", [1.0, 2.0, 10.0, 1000.0])
def test_a_run_may_cost_as_much_as_the_whole_allows(epsilon, mean):
    law, delta = Logarithmic.with_mean(mean), 1e-6
    one = epsilon_of_one_run(law, epsilon, delta)
    assert 0 < one <= epsilon
    assert log_delta_of_best(law, zcdp_rho(one, delta), epsilon) <= log_of(delta)
    assert log_delta_of_best(law, zcdp_rho(one * (1 + 1e-6), delta), epsilon) > log_of(delta)


def test_with_delta_ten_runs_leave_more_for_each_than_without_or_are_refused():
    law = Logarithmic.with_mean(10)
    assert epsilon_of_one_run(law, 1.0, 0.0) == law.of_one_run(1.0) < 0.52
    assert 0.69 < epsilon_of_one_run(law, 1.0, 1e-6) < 0.71
    with pytest.raises(ParameterError, match="leaves a run of 10 nothing to spend"):
        epsilon_of_one_run(law, 0.001, 0.001)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [2.0, 10.0, 100.0])
def test_the_theorem_as_another_house_has_it_asks_for_a_little_more(mean):
    law, delta = Logarithmic.with_mean(mean), 1e-6
    accountant = RdpAccountant([*(1 + np.geomspace(0.1, 300, 600))])
    run = dp_event.ZCDpEvent(zcdp_rho(epsilon_of_one_run(law, 1.0, delta), delta))
    accountant.compose(dp_event.RepeatAndSelectDpEvent(run, mean, 0))
    assert 1.0 <= accountant.get_epsilon(delta) < 1.3


def test_one_run_is_zcdp_as_it_is():
    law = Logarithmic(Fraction(1))
    assert concentrated(law, 0.3) == pytest.approx(0.3, rel=1e-9)
    assert zcdp_epsilon(zcdp_rho(epsilon_of_one_run(law, 2.0, 1e-6), 1e-6), 1e-6) == pytest.approx(2.0, rel=1e-6)


GUIDE = (Path(__file__).parents[2] / "docs/guide/search.md").read_text("utf-8")


@pytest.mark.slow
def test_the_table_of_the_guide_is_what_runs_get():
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", GUIDE, re.MULTILINE)
    assert len(rows) == 7
    for mean, pure, with_delta, single in (map(float, row) for row in rows):
        law = Logarithmic.with_mean(mean)
        gamma = float(law.gamma)
        found = law.of_one_run(1.0), epsilon_of_one_run(law, 1.0, 1e-6)
        assert found == pytest.approx((pure, with_delta), abs=6e-4)
        assert single == pytest.approx(1 if gamma == 1 else (1 - gamma) / -math.log(gamma), abs=6e-3)


def test_so_many_searches_fit_into_a_cap_as_the_guide_says():
    law = Logarithmic.with_mean(10)
    for epsilon, n_searches in ((1.0, 0), (1.1, 1), (3.0, 3)):
        cap = Cap(epsilon, 1e-6)
        one = cap.sums(loss_of_search(law, 1.0, 1e-6, cap.order)).divergence
        assert int(cap.divergence / one) == n_searches
    assert "fits into a cap of (1.1, 10⁻⁶), three into (3, 10⁻⁶)" in GUIDE


@pytest.mark.parametrize("above", [(1.5, 1e-6), (9.0, 1e-6), (3.0, 1e-9)])
def test_a_search_is_charged_by_a_divergence_that_holds_for_the_data_set_above_too(tmp_path, above):
    law, run = Logarithmic.with_mean(10), zcdp_rho(epsilon_of_one_run(Logarithmic.with_mean(10), 1.0, 1e-6), 1e-6)
    Budget.open(tmp_path / "b.db", "hospital", *above)
    ward = Budget.open(tmp_path / "b.db", "ward", 3.0, 1e-6, belongs_to="hospital")
    caps = [ward.cap, Cap(*above)]
    assert ward.order == max(cap.order for cap in caps)
    (loss,) = losses_from_json(losses_to_json([loss_of_search(law, 1.0, 1e-6, ward.order)]))
    assert loss.divergence == law.divergence(ward.order, run)
    assert all(cap.sums(loss).divergence == exact(loss.divergence) for cap in caps)
    # A divergence of a lower order than that of a cap tells nothing there.
    lower, highest = loss_of_search(law, 1.0, 1e-6, ward.order - 1), max(caps, key=lambda cap: cap.order)
    assert highest.sums(lower).divergence == Fraction(highest.order) * exact(lower.rho)
