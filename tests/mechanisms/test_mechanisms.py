"""Samplers have exactly their stated law, and what the gate runs tells neighbours apart by no more than it charges."""

import itertools
import math
import os
from collections import Counter
from fractions import Fraction

import numba
import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.support.chances import FAILURE
from tests.support.gates import scale_of
from tests.support.laws import (
    assert_drawn_from,
    assert_law,
    assert_same_law,
    exact_law,
    exponential_law,
    on_coins,
    permute_and_flip_law,
)

from dpforest import Classes, DPForestClassifier, Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.mechanisms import (
    Entropy,
    Exponential,
    Gaussian,
    GeometricNoise,
    KNorm,
    PermuteAndFlip,
    Rate,
    choices,
    exact,
    noise,
)
from dpforest.mechanisms import entropy as entropy_module
from dpforest.mechanisms.entropy import KeyedEntropy
from dpforest.mechanisms.exact import DENOMINATOR_BITS, MOST_DIFFERENCE, NUMERATOR_BITS
from dpforest.privacy.accountants import Pure, make_accountant
from dpforest.privacy.bounds import Bound, Sensitivity
from dpforest.privacy.sealed import Sealed
from dpforest.records.coins import draw_kept

dp.enable_features("contrib")

# Every statistical test below fails a sound sampler with probability FAILURE. Seeds are fixed: it fails always or never.
N_DRAWS = 50_000


# --- laws in closed form, written without the library ---------------------------------------------------------------


def geometric_law(rate: float, most: int) -> dict[int, float]:
    ratio = math.exp(-rate)
    return {k: (1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-most, most + 1)}


def gaussian_law(variance: float, most: int) -> dict[int, float]:
    weights = {k: math.exp(-k * k / (2 * variance)) for k in range(-most, most + 1)}
    total = sum(weights.values())
    return {k: weight / total for k, weight in weights.items()}


# --- exact laws of the code itself ----------------------------------------------------------------------------------
# The source of each sampler runs on coins that branch, one level of samplers at a time: a sampler is run on exact
# coins for the samplers below it, whose own laws were established the same way.


@pytest.mark.parametrize("n", [2, 3, 5, 7, 8, 9, 13, 64, 100])
def test_uniform_below_takes_the_low_bits_of_a_word_and_asks_again_when_they_are_too_large(n):
    n_patterns = 1 << (n - 1).bit_length()
    taken = []
    for low_bits in range(n_patterns):
        high_bits = (0xDEADBEEF12345678 * (low_bits + 1)) % 2**64 // n_patterns * n_patterns
        cursor = np.zeros(2, dtype=np.int64)
        value = exact.uniform_below(n, np.array([high_bits + low_bits], dtype=np.uint64), cursor)
        if not cursor[1]:
            taken.append(int(value))
    assert sorted(taken) == list(range(n))


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 4), (1, 4), (3, 8), (5, 7), (7, 7)])
def test_bernoulli_succeeds_on_exactly_its_share_of_equally_likely_words(numerator, denominator):
    n_successes = 0
    for word in range(denominator):
        words, cursor = np.array([word], dtype=np.uint64), np.zeros(2, dtype=np.int64)
        n_successes += bool(exact.bernoulli(numerator, denominator, words, cursor))
    assert n_successes == numerator


def test_one_word_decides_a_flip_of_exp_minus_one_as_its_first_six_terms_do():
    outcomes = Counter()
    for word in range(1 << 16):
        words, cursor = np.array([word], dtype=np.uint16), np.zeros(2, dtype=np.int64)
        outcome = bool(exact.bernoulli_exp_one(words, cursor))
        outcomes["more" if cursor[1] else outcome] += 1
    # Von Neumann's flips of 1/2 .. 1/7: the first failure comes at k with probability 1/(k-1)! - 1/k!.
    chances = {k: Fraction(1, math.factorial(k - 1)) - Fraction(1, math.factorial(k)) for k in range(2, 8)}
    n_used = 13 * math.factorial(7)
    assert outcomes[True] == n_used * sum(chances[k] for k in (3, 5, 7))
    assert outcomes[False] == n_used * sum(chances[k] for k in (2, 4, 6))
    assert outcomes["more"] == 13 + (1 << 16) - n_used


@pytest.mark.parametrize("k", range(8, 12))
def test_a_flip_of_exp_minus_one_that_no_word_decides_goes_on_with_flips_of_an_eighth(k):
    # Word 0 has no failure among the first six; then flips succeed until k fails.
    words, cursor = np.array([0, *[0] * (k - 8), 1], dtype=np.uint16), np.zeros(2, dtype=np.int64)
    assert bool(exact.bernoulli_exp_one(words, cursor)) == (k % 2 == 1)
    assert cursor.tolist() == [len(words), 0]


# The samplers below each flip, and fractions p/q, r/s of which it is about the product.
FLIPS = {
    "bernoulli_exp_product": (
        ("bernoulli", "uniform_below"),
        [(0, 1, 1, 1), (1, 1, 1, 1), (1, 3, 1, 1), (99, 100, 1, 1), (2, 3, 4, 5), (5, 5, 0, 7)],
    ),
    "bernoulli_exp": (
        ("bernoulli_exp_product", "bernoulli_exp_one"),
        [(0, 5), (1, 2), (1, 65536), (1, 1), (7, 4), (10, 3), (24, 5), (12, 1)],
    ),
    "bernoulli_exp_square": (
        ("bernoulli_exp_product", "bernoulli_exp_one"),
        [(0, 3, 0, 3), (1, 2, 1, 2), (7, 4, 9, 4), (1, 5, 9, 4), (9, 4, 1, 5)],
    ),
}


@pytest.mark.parametrize(("name", "given"), [(name, given) for name, (_, cases) in FLIPS.items() for given in cases])
def test_the_code_of_a_flip_succeeds_with_probability_exp_of_minus_the_product_of_its_fractions(name, given):
    run = on_coins(getattr(exact, name), *FLIPS[name][0])
    law, left = exact_law(lambda coins: bool(run(*given, coins, [0, 0])))
    chance = math.exp(-math.prod(given[::2]) / math.prod(given[1::2]))
    assert_law(law, left, {True: chance, False: 1 - chance})


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 1), (3, 1), (1, 2), (2, 3), (5, 4), (1, 8)])
def test_the_code_of_geometric_noise_has_the_geometric_law_with_one_side_and_with_two(numerator, denominator):
    sized = on_coins(exact.geometric, "uniform_below", "bernoulli_exp_product", "bernoulli_exp_one")
    signed = on_coins(exact.two_sided_geometric, "next_word", geometric=sized)
    two_sided = geometric_law(numerator / denominator, 400)
    rest = 1 - math.exp(-numerator / denominator)
    one_sided = {k: rest * math.exp(-k * numerator / denominator) for k in range(401)}
    for run, expected in ((sized, one_sided), (signed, two_sided)):
        draw = lambda coins, run=run: int(run(numerator, denominator, coins, [0, 0]))  # noqa: E731
        law, left = exact_law(draw, 1e-9, restarts_at="uniform_below")
        assert_law(law, left, expected)


@pytest.mark.parametrize("variance", [Fraction(1, 8), Fraction(1), Fraction(7, 3), Fraction(40)])
def test_the_code_of_gaussian_noise_has_the_discrete_gaussian_law(variance):
    numerator, denominator = Gaussian.rounded(variance).as_integer_ratio()
    scale = math.isqrt(numerator // denominator) + 1
    proposals = geometric_law(1 / scale, 60 * scale)
    values, chances = tuple(proposals), tuple(proposals.values())

    def propose(numerator, scale_, words, cursor):
        assert (numerator, scale_) == (1, scale)
        words.begin_round("propose")
        return values[words.pick(chances)]

    run = on_coins(noise._draw_gaussian, "bernoulli_exp_square", two_sided_geometric=propose)

    def draw(coins):
        noise = np.zeros(1, dtype=np.int64)
        assert run(coins, [0, 0], 0, numerator, denominator, scale, noise) == 1
        return int(noise[0])

    law, left = exact_law(draw, 1e-9, restarts_at="propose")
    assert_law(law, left, gaussian_law(numerator / denominator, 60 * scale))


def test_the_variance_of_gaussian_noise_is_rounded_up_by_less_than_one_part_in_a_million():
    rng = np.random.default_rng(20)
    for value in [*10.0 ** rng.uniform(-3, 14, 500), 1.0, 0.5, 3.0]:
        variance = Fraction(value) / 7
        numerator, denominator = Gaussian.rounded(variance).as_integer_ratio()
        assert variance <= Fraction(numerator, denominator) < variance * (1 + Fraction(1, 10**6))


CHOICES = {
    "permute-and-flip": (PermuteAndFlip(), False, permute_and_flip_law),
    "exponential": (Exponential(), True, exponential_law),
}


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("scores", [(0,), (0, 0), (3, 2, 0), (5, 5, 1, 4), (-9, -9, -10, -200)])
def test_the_code_of_a_choice_has_the_law_of_its_mechanism(name, scores):
    _, again, expected = CHOICES[name]
    run = on_coins(choices._select, "uniform_below", "bernoulli_exp")
    # An invalid candidate with the best score must change nothing.
    table = np.array([[*scores, 1000]])
    valid = np.array([[*[True] * len(scores), False]])

    def select(coins):
        chosen = np.full(1, -1)
        assert run(coins, [0, 0], 0, again, table, valid, 2, 5, np.empty(table.shape[1], dtype=np.int64), chosen) == 1
        return int(chosen[0])

    law, left = exact_law(select, restarts_at="uniform_below" if name == "exponential" else None)
    assert_law(law, left, dict(enumerate(expected(scores, 2 / 5))))


# --- compiled samplers against their laws, fixed seeds --------------------------------------------------------------


exact_flip, exact_flip_of_product = exact.bernoulli_exp, exact.bernoulli_exp_square


@numba.njit
def _flip_many(words, cursor, first, p, q, r, s, flips):
    """Flips of a product of two fractions; of the first alone if the other has no denominator."""
    for item in range(first, flips.size):
        begin = cursor[0]
        flips[item] = exact_flip_of_product(p, q, r, s, words, cursor) if s else exact_flip(p, q, words, cursor)
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
    return flips.size


@pytest.mark.parametrize(
    ("p", "q", "r", "s"),
    [*((p, q, 1, 0) for p, q in [(1, 2), (3, 65536), (1, 1), (9, 4), (5 << 45, 1 << 46), (65537, 1 << 14)]),
     (1, 2, 1, 3), (7, 4, 3, 2), (1 << 40, 3 << 40, 9, 4)],
)  # fmt: skip
def test_compiled_flips_succeed_with_probability_exp_of_minus_the_product(p, q, r, s):
    flips = np.zeros(N_DRAWS, dtype=np.int64)
    Entropy(31).run(_flip_many, flips.size, p, q, r, s, flips)
    assert stats.binomtest(int(flips.sum()), flips.size, math.exp(-(p / q) * (r / (s or 1)))).pvalue > FAILURE


@pytest.mark.parametrize("value", [Fraction(1, 100), Fraction(0.3), Fraction(1), Fraction(5, 2)])
def test_compiled_geometric_noise_has_its_law(value):
    rate = Rate.below(value)
    noise = GeometricNoise().draw((N_DRAWS // 2, 2), rate, Entropy(33))
    assert noise.shape == (N_DRAWS // 2, 2)
    ratio = rate.numerator / rate.denominator
    assert_drawn_from(noise.ravel(), geometric_law(ratio, int(40 / ratio) + 1))


@pytest.mark.parametrize("variance", [Fraction(1, 5), Fraction(0.9), Fraction(10), Fraction(3000)])
def test_compiled_gaussian_noise_has_its_law(variance):
    noise = Gaussian().draw((N_DRAWS,), variance, Entropy(34))
    assert_drawn_from(noise, gaussian_law(float(variance), int(12 * math.sqrt(variance)) + 5))


def test_compiled_gaussian_noise_of_very_large_variance_has_its_law():
    variance = Fraction(2**44 + 12345, 3)
    noise = Gaussian().draw((N_DRAWS // 4,), variance, Entropy(35))
    sigma = math.sqrt(variance)
    edges = stats.norm.ppf(np.linspace(0, 1, 41)[1:-1], scale=sigma)
    seen = np.bincount(np.searchsorted(edges, noise), minlength=40)
    assert stats.chisquare(seen).pvalue > FAILURE


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize(
    ("scores", "value"),
    [((3, 2, 0), Fraction(1, 2)), ((0, 0, 0, 0), Fraction(1)), ((-128, 0, -64, -640, -1), Fraction(1, 77))],
)
def test_compiled_choices_have_their_law(name, scores, value):
    mechanism, _, law = CHOICES[name]
    rate = Rate.below(value)
    table = np.tile(np.array(scores, dtype=np.int64), (N_DRAWS, 1))
    chosen = mechanism.select(table, np.ones(table.shape, dtype=bool), rate, Entropy(36))
    assert_drawn_from(chosen, dict(enumerate(law(scores, rate.numerator / rate.denominator))))


@pytest.mark.parametrize("name", CHOICES)
def test_a_candidate_that_is_not_valid_is_never_chosen_and_none_is_chosen_where_none_is_valid(name):
    mechanism, rng = CHOICES[name][0], np.random.default_rng(37)
    scores = rng.integers(-50, 50, size=(5_000, 6))
    valid = rng.random((5_000, 6)) < 0.3
    chosen = mechanism.select(scores, valid, Rate(1, 40), Entropy(37))
    nodes = np.flatnonzero(valid.any(axis=1))
    assert 0 < len(nodes) < 5_000
    assert valid[nodes, chosen[nodes]].all()
    assert (chosen[~valid.any(axis=1)] == -1).all()


@pytest.mark.parametrize("name", CHOICES)
def test_differences_of_scores_beyond_any_table_neither_overflow_nor_stall(name):
    scores = np.array([[0, -(2**61), -(2**50), -3 * MOST_DIFFERENCE]] * 200)
    for rate in (Rate(2**NUMERATOR_BITS - 1, 1), Rate(2**NUMERATOR_BITS - 1, 1 << 17)):
        chosen = CHOICES[name][0].select(scores, np.ones(scores.shape, dtype=bool), rate, Entropy(38))
        assert (chosen == 0).all()


# --- neighbours: what the gate runs is worth no more than what it charges -------------------------------------------


TWO_COUNTS = Sealed(np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("bound", [Bound(0, 1), Bound(-128, 0), Bound(-64, 32)], ids=str)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_choice_tells_neighbouring_scores_apart_by_at_most_epsilon_and_nearly_that(name, bound, epsilon):
    scores = Sealed(np.zeros((1, 2), dtype=np.int64))
    rate = float(scale_of(Pure(100.0), "select", scores, None, bound, epsilon, "choice", name))
    law = CHOICES[name][2]
    gaps = sorted({0, bound.width // 2, bound.width, bound.width * math.ceil(6 / epsilon)})
    moves = sorted({bound.low, (bound.low + bound.high) // 2, bound.high})
    worst = 0.0
    for scores in itertools.product([-gap for gap in gaps], repeat=3):
        before = np.log(law(scores, rate))
        for move in itertools.product(moves, repeat=3):
            after = np.log(law(np.add(scores, move), rate))
            worst = max(worst, float(np.abs(after - before).max()))
    assert 0.9 * epsilon < worst <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("l1", [1, 3, 4096])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_geometric_noise_tells_neighbouring_counts_apart_by_at_most_epsilon_and_nearly_that(l1, epsilon):
    rate = float(scale_of(Pure(100.0), "add_noise", TWO_COUNTS, Sensitivity(l1, l1**2), epsilon, "noise"))
    log_law = lambda k: math.log(math.tanh(rate / 2)) - rate * abs(k)  # noqa: E731
    assert math.exp(log_law(3)) == pytest.approx(geometric_law(rate, 3)[3])
    worst = 0.0
    parts = sorted({0, 1, l1 // 3, l1 // 2, l1 - 1, l1})
    for first, second in itertools.product(parts, parts):
        if first + second > l1:
            continue
        for outputs in itertools.product((-2 * l1, 0, l1 // 2, 2 * l1), repeat=2):
            before = log_law(outputs[0]) + log_law(outputs[1])
            after = log_law(outputs[0] - first) + log_law(outputs[1] + second)
            worst = max(worst, abs(after - before))
    assert 0.9 * epsilon < worst <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("rho", [0.005, 0.1, 2.0])
def test_gaussian_noise_of_neighbouring_counts_diverges_by_at_most_alpha_rho_and_nearly_that(shift, rho):
    accountant = make_accountant(100.0, 1e-6)
    variance = float(scale_of(accountant, "add_noise", TWO_COUNTS, Sensitivity(shift, shift**2), rho, "noise"))
    k = np.arange(-int(60 * math.sqrt(variance) + 60), int(60 * math.sqrt(variance) + 60) + 1)
    log_law = -(k**2) / (2 * variance)
    log_law -= np.log(np.exp(log_law).sum())
    shifted = -((k - shift) ** 2) / (2 * variance) - np.log(np.exp(-((k - shift) ** 2) / (2 * variance)).sum())
    worst = 0.0
    for alpha in (1.01, 1.5, 2.0, 4.0, 8.0):
        divergence = np.logaddexp.reduce(alpha * log_law + (1 - alpha) * shifted) / (alpha - 1)
        worst = max(worst, divergence / alpha)
    assert 0.9 * rho < worst <= rho * (1 + 1e-9)


# --- rates ----------------------------------------------------------------------------------------------------------


USUAL = Fraction(1, 2**38), 2**16


@settings(deadline=None)
@given(st.fractions(*USUAL) | st.fractions(min_value=Fraction(1, 2**DENOMINATOR_BITS), max_value=10**9))
@example(Fraction((2**61 - 1) * 3276899 // 6553600 + 1, 2**61 - 1))
def test_a_rate_is_never_above_its_value_nor_far_below_and_fits_the_arithmetic_of_the_samplers(value):
    rate = Rate.below(value)
    run = Fraction(rate.numerator, rate.denominator)
    assert run <= value
    assert value - run < value / 60_000 or not USUAL[0] <= value <= USUAL[1]
    assert 0 < rate.numerator < 1 << NUMERATOR_BITS
    assert 0 < rate.denominator <= 1 << DENOMINATOR_BITS
    assert rate.numerator * MOST_DIFFERENCE < 2**63


@pytest.mark.parametrize("value", [Fraction(0), Fraction(-1, 3), Fraction(1, 2**56), Fraction(1, 10**30)])
def test_a_rate_that_is_not_positive_or_too_small_is_refused(value):
    with pytest.raises(ParameterError):
        Rate.below(value)


def test_a_gaussian_variance_beyond_the_arithmetic_is_refused():
    with pytest.raises(ParameterError, match="standard deviation"):
        Gaussian().draw((1,), Fraction(2**55), Entropy(0))


# --- agreement with OpenDP ------------------------------------------------------------------------------------------


INTEGERS = dp.vector_domain(dp.atom_domain(T=int))


RATES = {scale: Rate(2, int(2 * scale)) for scale in (0.5, 2.0, 40.0)}
THEIRS = {
    "geometric": (GeometricNoise(), dp.m.make_laplace, dp.l1_distance(T=int), RATES),
    "Gaussian": (Gaussian(), dp.m.make_gaussian, dp.l2_distance(T=float), {s: Fraction(s) ** 2 for s in (0.5, 2.0, 50.0)}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", THEIRS)
def test_noise_agrees_with_opendp(name):
    mechanism, make, distance, cases = THEIRS[name]
    for scale, own in cases.items():
        theirs = make(INTEGERS, distance, scale=scale)([0] * 20_000)
        assert_same_law(mechanism.draw((N_DRAWS,), own, Entropy(41)), np.array(theirs))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "measure"),
    [("permute-and-flip", dp.max_divergence()), ("exponential", dp.zero_concentrated_divergence())],
    ids=["permute-and-flip", "exponential"],
)
def test_choices_agree_with_opendp(name, measure):
    scores = (5, 3, 3, 0, -4)
    opendp = dp.m.make_noisy_max(INTEGERS, dp.linf_distance(T=int), measure, scale=4.0)
    theirs = np.array([opendp(list(scores)) for _ in range(6_000)])
    table = np.tile(np.array(scores, dtype=np.int64), (N_DRAWS, 1))
    ours = CHOICES[name][0].select(table, np.ones(table.shape, dtype=bool), Rate(1, 4), Entropy(43))
    counts = np.array([np.bincount(ours, minlength=5), np.bincount(theirs, minlength=5)])
    assert stats.chi2_contingency(counts).pvalue > FAILURE


# --- random words ---------------------------------------------------------------------------------------------------


def all_draws() -> list[np.ndarray]:
    """What every sampler draws from one stream of words."""
    entropy, rng = Entropy(51), np.random.default_rng(51)
    scores = rng.integers(-300, 1, size=(40, 7))
    valid = rng.random(scores.shape) < 0.8
    draws = [
        GeometricNoise().draw((60,), Rate.below(Fraction(1, 30)), entropy),
        Gaussian().draw((40,), Fraction(50), entropy),
        KNorm().draw((1, 3, 2, 1), Rate.below(Fraction(1, 30)), entropy),
        PermuteAndFlip().select(scores, valid, Rate.below(Fraction(1, 90)), entropy),
        Exponential().select(scores, valid, Rate.below(Fraction(1, 90)), entropy),
    ]
    flips, dealt = np.zeros(100, dtype=np.int64), np.zeros((2, 300), dtype=np.int64)
    entropy.run(_flip_many, flips.size, 5, 3, 1, 0, flips)
    entropy.draw_for_records(exact.draw_below, dealt, 30)
    return [*draws, flips, dealt, draw_kept(3000, Fraction(37_777, 1 << 20), entropy)]


@pytest.mark.parametrize("n_words", [64, 7, 1])
def test_running_out_of_words_changes_nothing(n_words, monkeypatch):
    monkeypatch.setattr(entropy_module, "FIRST_WORDS", 1 << 16)
    at_once = all_draws()
    monkeypatch.setattr(entropy_module, "FIRST_WORDS", n_words)
    monkeypatch.setattr(entropy_module, "MOST_WORDS", n_words)
    for large, small in zip(at_once, all_draws(), strict=True):
        np.testing.assert_array_equal(large, small)


SCHEMA = Schema({"x": Numeric(0, 8), "z": Numeric(0, 8)}, Classes(["no", "yes"]))
X = np.random.default_rng(52).uniform(0, 8, size=(60, 2))
Y = np.where(X[:, 0] > 4, "yes", "no")


def released(model: DPForestClassifier) -> list:
    return [model.forest_.features.tolist(), model.forest_.routes.tolist(), model.forest_.counts.tolist()]


def test_without_a_seed_every_coin_of_a_fit_comes_from_the_operating_system(monkeypatch):
    asked = []

    def predictable(n_bytes: int) -> bytes:
        asked.append(n_bytes)
        return np.random.default_rng([53, len(asked)]).bytes(n_bytes)

    DPForestClassifier(SCHEMA, epsilon=1.0).fit(X, Y)  # kernels that are compiled now would ask for names of files
    monkeypatch.setattr(os, "urandom", predictable)
    fits = []
    for _ in range(2):
        asked.clear()
        fits.append(released(DPForestClassifier(SCHEMA, epsilon=1.0).fit(X, Y)))
        assert sum(asked) > 100
    assert fits[0] == fits[1]


def test_coins_from_a_key_are_drawn_again_by_whoever_has_key_and_number_only():
    def words(key, number):
        drawn = np.empty(5000, dtype=np.int64)  # more than are asked for at once
        KeyedEntropy(key, number).run(exact.draw_below, len(drawn), 1 << 60, drawn)
        return drawn

    key, other = bytes(32), bytes(31) + b"\1"
    np.testing.assert_array_equal(words(key, 3), words(key, 3))
    assert len({*words(key, 3), *words(key, 4), *words(other, 3)}) == 3 * 5000
    with pytest.raises(ValueError, match="256 bits"):
        KeyedEntropy(b"short", 0)
