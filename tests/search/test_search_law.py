"""The number of runs has its law, and the best of them tells neighbours apart by no more than is charged, and by no less."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from tests.search.small import law_of_best

from dpforest.mechanisms import Entropy, Logarithmic

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
