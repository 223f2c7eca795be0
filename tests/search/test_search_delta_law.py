"""With delta the best of runs is as close on neighbours as is claimed: exactly, on toys that come near to what is allowed.

A toy has few outcomes, so that its laws can be written down. Its rho is the least for which it is zCDP, by a grid of orders.
"""

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from tests.search.small import law_of_best

from dpforest.budget import Budget
from dpforest.budget.chain import losses_from_json, losses_to_json
from dpforest.budget.fits import loss_of_search
from dpforest.budget.totals import Cap
from dpforest.errors import ParameterError
from dpforest.mechanisms import Logarithmic
from dpforest.privacy.accountants import log_of, zcdp_epsilon, zcdp_rho
from dpforest.privacy.amounts import exact
from dpforest.privacy.best_of_runs import concentrated, epsilon_of_one_run, log_delta_of_best

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


def delta_at(epsilon, run, other):
    return float(np.maximum(run - math.exp(epsilon) * other, 0).sum())


def test_the_law_of_the_best_is_the_sum_over_numbers_of_runs():
    law, run = Logarithmic.with_mean(4), np.array([0.2, 0.05, 0.75])
    gamma, k = float(law.gamma), np.arange(1, 3_000)[:, None]
    at_most = np.append(np.cumsum(run[::-1])[::-1], 0)  # the chance of this outcome or a worse one
    chances = (1 - gamma) ** k / (k * -math.log(gamma))
    assert law_of_best(law, run) == pytest.approx(-np.diff((chances * at_most**k).sum(axis=0)), abs=1e-13)
    assert law.mean == pytest.approx((chances * k).sum(), rel=1e-9)


@pytest.mark.parametrize(("mean", "rho", "order", "between"), TOYS)
def test_divergences_of_the_best_are_at_most_what_is_claimed_and_nearly_that(mean, rho, order, between):
    law, toy = Logarithmic.with_mean(mean), worst_toy(mean, rho, order, between)
    own, found = rho_of(*toy) * GRID, [law_of_best(law, run) for run in toy]
    for each in (1.01, 1.5, 3, order, 4 * order):
        claimed = law.divergence(each, own)
        for pair in (found, found[::-1]):
            assert divergences(*pair, np.array([each]))[0] <= claimed
    assert divergences(*found, np.array([order]))[0] > 0.9 * law.divergence(order, own)


@pytest.mark.parametrize(("mean", "rho", "order", "between"), TOYS)
def test_delta_of_the_best_is_at_most_what_is_claimed_and_more_than_that_of_a_tenth_less(mean, rho, order, between):
    law, toy = Logarithmic.with_mean(mean), worst_toy(mean, rho, order, between)
    own, found = rho_of(*toy) * GRID, [law_of_best(law, run) for run in toy]
    loss, is_missed = math.log(found[0][1] / found[1][1]), []
    for epsilon in (0.3 * loss, 0.8 * loss, 0.9 * loss, 0.95 * loss, 0.98 * loss):
        exact = max(delta_at(epsilon, *pair) for pair in (found, found[::-1]))
        assert exact <= math.exp(log_delta_of_best(law, own, epsilon))
        is_missed.append(exact > math.exp(log_delta_of_best(law, 0.9 * own, epsilon)))
    assert any(is_missed)


def ties(law, run, ranks):
    """The law of the best if outcomes of equal rank tie, and the first run of them is kept."""
    found = np.zeros(len(run))
    for rank, chance in zip(np.unique(ranks)[::-1], law_of_best(law, ranked(run, ranks)), strict=True):
        own = ranks == rank
        found[own] = chance * run[own] / run[own].sum()
    return found


def ranked(run, ranks):
    return np.array([run[ranks == rank].sum() for rank in np.unique(ranks)[::-1]])


def gaussian(centre, variance, most=60):
    values = np.arange(-most, most + 1)
    masses = np.exp(-((values - centre) ** 2) / (2 * variance))
    return masses / masses.sum()


@pytest.mark.parametrize("mean", [1.5, 10, 200])
@pytest.mark.parametrize("variance", [8.0, 40.0])
def test_noisy_counts_ranked_in_any_way_keep_the_claim(mean, variance):
    law, rng, rho = Logarithmic.with_mean(mean), np.random.default_rng(3), 1 / (2 * variance)
    runs = gaussian(0, variance), gaussian(1, variance)  # of a discrete Gaussian; what is cut off is below 1e-16
    values = np.arange(len(runs[0]))
    drawn = rng.permutation(values), rng.integers(0, 5, values.size)
    for ranks in (values, -values, np.abs(values - 60), values // 7, *drawn):
        found = [ties(law, run, ranks) for run in runs]
        assert found[0].sum() == pytest.approx(1)
        for epsilon in (0.2, 0.5, 1.0, 1.5):
            claimed = math.exp(log_delta_of_best(law, rho, epsilon))
            assert max(delta_at(epsilon, *pair) for pair in (found, found[::-1])) <= claimed + 1e-14


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


@pytest.mark.parametrize(("mean", "rho", "order", "between"), TOYS)
def test_the_best_is_zcdp_with_the_rho_that_a_budget_adds_up(mean, rho, order, between):
    law, toy = Logarithmic.with_mean(mean), worst_toy(mean, rho, order, between)
    found = [law_of_best(law, run) for run in toy]
    assert rho_of(*found) <= concentrated(law, rho_of(*toy))


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
