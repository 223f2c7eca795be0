"""K-norm noise: its code has exactly its stated law, and blocks that move together cost what one of them does."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from tests.support.gates import scale_of
from tests.support.laws import assert_drawn_from, assert_law, assert_same_law, exact_law, on_coins

from dpforest.errors import ParameterError
from dpforest.mechanisms import Entropy, GeometricNoise, KNorm, Rate
from dpforest.mechanisms import noise as noise_module
from dpforest.privacy.accountants import Pure
from dpforest.privacy.bounds import Blocks
from dpforest.privacy.sealed import Sealed

# Statistical tests fail a sound sampler with a probability of 1e-6 (chances.FAILURE). Seeds are fixed: always or never.
SIZES = [(1, 1), (1, 2), (2,), (1, 1, 2), (3,)]
N_DRAWS = 10_000


# --- the law, written without the library ---------------------------------------------------------------------------


def norm(point, sizes) -> int:
    """The largest L1 of a block."""
    ends = list(itertools.accumulate(sizes))
    return max(sum(abs(value) for value in point[end - size : end]) for end, size in zip(ends, sizes, strict=True))


def ball(sizes, radius):
    """All points of a norm of at most ``radius``."""
    cube = itertools.product(range(-radius, radius + 1), repeat=sum(sizes))
    return [point for point in cube if norm(point, sizes) <= radius]


def n_in_block(size: int, radius: int) -> int:
    """How many points of ``size`` integers have an L1 of at most ``radius``: so many are not zero, each with two signs."""
    return sum(2**n * math.comb(size, n) * math.comb(radius, n) for n in range(min(size, radius) + 1))


def n_of_norm(sizes, k: int) -> int:
    """How many points have exactly this norm."""
    within, inside = (math.prod(n_in_block(size, radius) for size in sizes) for radius in (k, k - 1))
    return within - inside if k else within


def k_norm_law(sizes, rate: float, most: int) -> dict[tuple[int, ...], float]:
    """The probabilities of the points of a norm of at most ``most``."""
    total = math.fsum(n_of_norm(sizes, k) * math.exp(-rate * k) for k in range(int((40 + 20 * len(sizes)) / rate)))
    return {point: math.exp(-rate * norm(point, sizes)) / total for point in ball(sizes, most)}


def exact_variances(sizes, rate: float, most: int) -> np.ndarray:
    """The variance of each number, summed over the ball that a point is drawn from and over its coordinate."""
    chances = np.array([math.exp(-rate * k) * math.prod(n_in_block(size, k) for size in sizes) for k in range(most)])
    chances /= chances.sum()
    of_blocks = []
    for size in sizes:
        points = np.array([n_in_block(size - 1, k) if size > 1 else 1 for k in range(most)], dtype=float)
        squares = [2 * (np.arange(k + 1) ** 2 * points[k::-1]).sum() / n_in_block(size, k) for k in range(most)]
        of_blocks.append(float(chances @ np.array(squares)))
    return np.repeat(of_blocks, sizes)


def sizes_and_terms(sizes):
    """What the code is handed of the blocks: their sizes, and the terms of their factorials in order."""
    return np.array(sizes), np.sort(np.concatenate([np.arange(1, size + 1) for size in sizes]))


def draws_of(sizes, rate: Rate, seed: int, n_draws: int = N_DRAWS) -> np.ndarray:
    """Draws ``(n_draws, n_values)`` of the compiled sampler."""
    words = Entropy(seed)
    return np.array([KNorm().draw(sizes, rate, words) for _ in range(n_draws)])


# --- exact laws of the code itself, on coins that branch ------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("radius", [0, 1, 2])
def test_the_code_fills_a_ball_with_each_of_its_points_equally_often(sizes, radius):
    run = on_coins(noise_module._fill_ball, "uniform_below", "next_word")

    def fill(coins):
        noise = np.empty(sum(sizes), dtype=np.int64)
        return tuple(noise.tolist()) if run(radius, sizes, noise, coins, [0, 0]) else "void"

    law, left = exact_law(fill, 1e-12)
    each = 1 / math.prod(2**size * math.comb(radius + size, size) for size in sizes)
    points = dict.fromkeys(ball(sizes, radius), each)
    assert_law(law, left, points | {"void": 1 - each * len(points)})


def chance_of_radius(sizes, radius: int) -> float:
    """The chance that the code keeps a sum of geometric draws that is ``radius``."""
    n_drawn = []

    def given(numerator, denominator, coins, cursor):
        n_drawn.append(1)
        if len(n_drawn) > sum(sizes) + 1:
            raise LookupError("drawn again")
        return radius if len(n_drawn) == 1 else 0

    run = on_coins(noise_module._draw_k_norm, "bernoulli", geometric=given, _fill_ball=lambda *_: True)

    def kept(coins):
        n_drawn.clear()
        try:
            return run(coins, [0, 0], 0, 1, 1, *sizes_and_terms(sizes), np.empty(sum(sizes), dtype=np.int64))
        except LookupError:
            return 0
        finally:
            assert len(n_drawn) >= sum(sizes) + 1

    law, left = exact_law(kept, 0.0)
    assert left == 0
    return law[1]


@pytest.mark.parametrize("sizes", [*SIZES, (1,), (2, 2), (1,) * 6, (1, 4, 2)], ids=str)
def test_the_code_keeps_a_radius_in_proportion_to_the_points_of_its_ball(sizes):
    n_values = sum(sizes)
    # A sum of n + 1 geometric draws is k in C(k+n, n) ways; a ball is filled in so many, by ``_fill``.
    ways = lambda k: math.prod(math.comb(k + size, size) for size in sizes)  # noqa: E731
    for radius in (0, 1, 2, 3, 7, 50, 10_000):
        expected = Fraction(ways(radius), math.comb(radius + n_values, n_values)) * Fraction(
            math.prod(map(math.factorial, sizes)), math.factorial(n_values)
        )
        assert chance_of_radius(sizes, radius) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(
    ("sizes", "tolerance"),
    [((1, 1), 1e-6), ((2,), 1e-6), ((1, 2), 1e-3), ((3,), 1e-3), pytest.param((1, 1, 2), 1e-3, marks=pytest.mark.slow)],
    ids=str,
)
def test_the_code_of_k_norm_noise_has_its_law(sizes, tolerance):
    n_values, rate = sum(sizes), 3
    sums = range(40)
    chances = [(1 - math.exp(-rate)) ** (n_values + 1) * math.comb(k + n_values, k) * math.exp(-rate * k) for k in sums]
    assert math.fsum(chances) == pytest.approx(1)
    place = itertools.count()

    def sum_first(numerator, denominator, coins, cursor):
        """All of the sum at the first of the geometric draws of a round, and nothing at the others."""
        assert (numerator, denominator) == (rate, 1)
        if next(place) % (n_values + 1):
            return 0
        coins.begin_round("sum")
        return coins.pick(chances)

    fill = on_coins(noise_module._fill_ball, "uniform_below", "next_word")
    run = on_coins(noise_module._draw_k_norm, "bernoulli", geometric=sum_first, _fill_ball=fill)

    def draw(coins):
        nonlocal place
        place, noise = itertools.count(), np.empty(n_values, dtype=np.int64)
        assert run(coins, [0, 0], 0, rate, 1, *sizes_and_terms(sizes), noise) == 1
        return tuple(noise.tolist())

    law, left = exact_law(draw, tolerance, restarts_at="sum")
    assert_law(law, left, k_norm_law(sizes, rate, 10 if n_values < 4 else 7))


# --- the compiled sampler, fixed seeds ------------------------------------------------------------------------------


def numbered(points, most: int) -> np.ndarray:
    """A number for each point, by its place in a box; what lies outside has the number -1."""
    points = np.atleast_2d(points)
    inside = (np.abs(points) <= most).all(axis=1)
    return np.where(inside, (points + most) @ (2 * most + 1) ** np.arange(points.shape[1]), -1)


@pytest.mark.parametrize(
    ("sizes", "rate", "most"), [((1, 2), Rate(1, 1), 10), ((3,), Rate(5, 2), 5), ((1, 1, 2), Rate(1, 1), 5)], ids=str
)
def test_compiled_k_norm_noise_has_its_law(sizes, rate, most):
    law = k_norm_law(sizes, rate.numerator / rate.denominator, most)
    draws = draws_of(sizes, rate, 61)
    assert (draws.shape, draws.dtype) == ((N_DRAWS, sum(sizes)), np.int64)
    assert_drawn_from(numbered(draws, most), dict(zip(numbered(list(law), most).tolist(), law.values(), strict=True)))


@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (1,) * 12, (5, 1, 1, 3)], ids=str)
def test_the_norm_of_compiled_noise_of_a_small_rate_has_its_law(sizes):
    rate, most = Rate.below(Fraction(1, 3 * sum(sizes))), 12 * sum(sizes) ** 2 + 400
    ratio = rate.numerator / rate.denominator
    logs = [math.log(n_of_norm(sizes, k)) - ratio * k for k in range(most)]
    weights = np.exp(np.array(logs) - max(logs))
    draws = [norm(point, sizes) for point in draws_of(sizes, rate, 62, N_DRAWS // 5).tolist()]
    assert_drawn_from(np.array(draws), dict(enumerate((weights / weights.sum()).tolist())))


def plain_draws(sizes, rate: float, n_draws: int, seed: int) -> np.ndarray:
    """An independent sampler, in floating point: geometric noise for each number, thinned out to the law.

    No number is larger than the norm, so the mean of their sizes is not: exp(-rate (norm - mean)) is a probability.
    """
    rng, n_values, kept = np.random.default_rng(seed), sum(sizes), []
    while len(kept) < n_draws:
        share = -math.expm1(-rate / n_values)
        proposed = rng.geometric(share, (n_draws, n_values)) - rng.geometric(share, (n_draws, n_values))
        flips = rng.random(n_draws)
        for point, flip in zip(proposed.tolist(), flips.tolist(), strict=True):
            if flip < math.exp(rate * (sum(map(abs, point)) / n_values - norm(point, sizes))):
                kept.append(point)
    return np.array(kept[:n_draws])


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "rate"), [((1, 1), Rate(1, 2)), ((1, 2), Rate(1, 7)), ((2, 2), Rate(1, 4))], ids=str)
def test_k_norm_noise_agrees_with_a_plain_sampler_in_its_numbers_its_norm_and_its_sums(sizes, rate):
    ours = draws_of(sizes, rate, 63)
    theirs = plain_draws(sizes, rate.numerator / rate.denominator, N_DRAWS, 64)
    for seen in (
        lambda points: points[:, 0],
        lambda points: points[:, -1],
        lambda points: points.sum(axis=1),
        lambda points: points[:, 0] - points[:, -1],
        lambda points: np.abs(points).sum(axis=1),
        lambda points: np.array([norm(point, sizes) for point in points.tolist()]),
    ):
        assert_same_law(seen(ours), seen(theirs))


@pytest.mark.parametrize(("sizes", "n_halvings"), [*((sizes, 4) for sizes in [*SIZES, (1,) * 7]), ((1, 6), 5)], ids=str)
def test_the_stated_variances_are_the_exact_ones_up_to_a_part_of_about_the_rate(sizes, n_halvings):
    rate = 2.0**-n_halvings
    exact = exact_variances(sizes, rate, int((40 + 6 * sum(sizes)) / rate))
    stated = KNorm.variances(sizes, Rate(1, 2**n_halvings))
    assert stated.shape == (sum(sizes),)
    assert np.abs(stated / exact - 1).max() < rate


def test_many_blocks_of_one_number_have_noise_a_root_of_six_smaller_than_noise_for_each():
    n_blocks, rate = 400, Rate(1, 1 << 20)
    of_each = GeometricNoise.variance(Rate(1, n_blocks << 20))  # the same loss, divided evenly
    assert of_each / KNorm.variances((1,) * n_blocks, rate)[0] == pytest.approx(6, rel=0.01)


def test_a_rate_is_limited_to_one_over_the_number_of_values_and_never_raised():
    rates = [Rate(1, 1), Rate(3, 8), Rate(1, 7), Rate(1, 1 << 40), Rate(9, 2)]
    for rate, n_values in itertools.product(rates, [1, 2, 7, 4096]):
        limited = KNorm.limited(rate, n_values)
        as_fraction = Fraction(rate.numerator, rate.denominator)
        assert Fraction(limited.numerator, limited.denominator) == min(as_fraction, Fraction(1, n_values))
        if as_fraction * n_values <= 1:
            assert limited is rate


# --- running out of words -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(1, 1), (1, 1, 2), (3,)], ids=str)
@pytest.mark.parametrize("rate", [Rate(1, 1), Rate(1, 3), Rate(77, 1 << 20)], ids=str)
def test_a_draw_that_runs_out_of_words_begins_again_with_the_same_words(sizes, rate):
    words = np.random.default_rng(65).integers(0, 1 << 16, 4000, dtype=np.uint16)
    more = (rate.numerator, rate.denominator, *sizes_and_terms(sizes))
    whole, cursor = np.empty(sum(sizes), dtype=np.int64), np.zeros(2, dtype=np.int64)
    for _ in range(3):
        begin = int(cursor[0])
        assert noise_module._draw_k_norm(words, cursor, 0, *more, whole) == 1
        end = int(cursor[0])
        for n_there in range(begin, end):
            noise, again = np.empty(sum(sizes), dtype=np.int64), np.array([begin, 0])
            assert noise_module._draw_k_norm(words[:n_there], again, 0, *more, noise) == 0
            assert again.tolist() == [begin, 0]
            assert noise_module._draw_k_norm(words, again, 0, *more, noise) == 1
            assert (noise.tolist(), again.tolist()) == (whole.tolist(), [end, 0])


# --- neighbours: what the gate runs is worth no more than what it charges -------------------------------------------


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("l1", "epsilon"), [(1, 0.1), (2, 0.4), (3, 0.6), (2, 3.0)])
def test_joint_noise_tells_neighbours_apart_by_at_most_epsilon_and_nearly_that(sizes, l1, epsilon):
    values = Sealed(np.zeros(sum(sizes), dtype=np.int64))
    rate = float(scale_of(Pure(100.0), "add_joint_noise", values, Blocks(sizes, l1), epsilon, "sums"))
    # Sharper noise is not offered, whatever was paid.
    attained = min(epsilon, l1 / sum(sizes))
    most = 2 if sum(sizes) == 4 else 3
    # The same constant for all points cancels in a ratio, so that the box need not hold all of the mass.
    law = k_norm_law(sizes, rate, most + l1)
    outputs = [point for point in ball(sizes, most) if all(value >= 0 for value in point)]
    shifts = [shift for shift in ball(sizes, l1) if norm(shift, sizes) == l1 or sum(sizes) < 4]
    worst = max(
        abs(math.log(law[tuple(map(sum, zip(output, shift, strict=True)))] / law[output]))
        for output, shift in itertools.product(outputs, shifts)
    )
    assert 0.9 * attained < worst <= attained * (1 + 1e-12)


def test_noise_that_would_not_fit_64_bits_is_refused():
    assert KNorm.limited(Rate(1, 1 << 48), 4096) == Rate(1, 1 << 48)
    with pytest.raises(ParameterError, match="more than 61 bits"):
        KNorm.limited(Rate(1, 1 << 49), 4096)
