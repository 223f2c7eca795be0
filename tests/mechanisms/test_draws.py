"""Uniform draws: each value equally likely for each pattern of bits, and nothing depends on when words run out."""

import itertools

import numpy as np
import pytest
from tests.support import naive

from dpforest.mechanisms import Entropy
from dpforest.mechanisms.exact import draw_below

LARGE = [65_535, 65_536, 65_537, 1 << 20, 1 << 24, (1 << 24) + 1, 1 << 32, (1 << 40) + 1]


def words_of(seed, n_words):
    return np.random.default_rng(seed).integers(0, 1 << 16, n_words, dtype=np.uint16)


def drawn(words, n, n_draws):
    """Values and how many words they took; there must be enough."""
    values, cursor = np.full(n_draws, -1), np.zeros(2, dtype=np.int64)
    assert draw_below(words, cursor, 0, n, values) == n_draws
    return values, int(cursor[0])


@pytest.mark.slow
def test_draws_are_those_of_their_twin():
    for n, n_draws in itertools.product([*range(1, 301), *LARGE], (1, 7, 50)):
        words = words_of(n, 800)
        values, n_used = drawn(words, n, n_draws)
        assert (values.tolist(), n_used) == naive.draws_below(words, n, n_draws), n
        assert ((values >= 0) & (values < n)).all()


def n_accepted(n, outcome):
    """For how many 32 bits the next draws are ``outcome``, a number whose digits in base n they are."""
    n_outcomes, k = n ** naive.digits_at_once(n), naive.digits_at_once(n)
    digits = [outcome // n ** (k - 1 - index) % n for index in range(k)]
    values, n_found = np.empty(k, dtype=np.int64), 0
    first, last = (outcome << 32) // n_outcomes, ((outcome + 1) << 32) // n_outcomes
    # Scaling keeps the order, so what lies further away stands for other outcomes.
    for bits in range(max(first - 2, 0), min(last + 3, 1 << 32)):
        cursor = np.zeros(2, dtype=np.int64)
        n_done = draw_below(np.array([bits & 0xFFFF, bits >> 16], dtype=np.uint16), cursor, 0, n, values)
        n_found += n_done == k and values.tolist() == digits
    return n_found


@pytest.mark.slow
@pytest.mark.parametrize(
    "n", [2, 3, 5, 6, 7, 10, 16, 17, 30, 32, 33, 100, 255, 256, 257, 1000, 65_537, (1 << 24) - 1, 1 << 24]
)
def test_as_many_patterns_of_bits_stand_for_each_outcome(n):
    n_outcomes = n ** naive.digits_at_once(n)
    for outcome in (0, 1, n_outcomes // 3, n_outcomes // 2, n_outcomes - 1):
        assert n_accepted(n, outcome) == (1 << 32) // n_outcomes


def refused_bits(n):
    """32 bits that are drawn again, for a reason that shows in the last digit only."""
    n_outcomes = n ** naive.digits_at_once(n)
    firsts = (-(-(outcome << 32) // n_outcomes) for outcome in range(1000, n_outcomes))
    return next(bits for bits in firsts if bits * n_outcomes % (1 << 32) < (1 << 32) % n_outcomes)


@pytest.mark.parametrize("n", [1, 2, 3, 30, 33, 1000, 65_537, (1 << 24) + 1])
def test_more_draws_begin_with_the_draws_of_fewer(n):
    # One more record at the end of a table changes no other record's coins.
    words = words_of(n, 400)
    if n in (3, 30, 33, 1000):
        words[:2] = refused_bits(n) & 0xFFFF, refused_bits(n) >> 16
    most = drawn(words, n, 40)[0].tolist()
    for n_draws in range(40):
        assert drawn(words, n, n_draws)[0].tolist() == most[:n_draws]


@pytest.mark.parametrize("n", [3, 7, 30, 32, 33, 100, 65_535, 65_537, (1 << 24) + 1, (1 << 40) + 1])
def test_a_draw_that_runs_out_of_words_goes_on_with_the_same_words(n):
    words, n_draws = words_of(n, 400), 30
    whole, n_used = drawn(words, n, n_draws)
    for n_there in range(n_used):
        values, cursor = np.full(n_draws, -1), np.zeros(2, dtype=np.int64)
        done = draw_below(words[:n_there], cursor, 0, n, values)
        assert done < n_draws
        assert cursor[1] == 0
        assert draw_below(words, cursor, done, n, values) == n_draws
        assert values.tolist() == whole.tolist()
        assert cursor.tolist() == [n_used, 0]


def test_words_are_fetched_for_what_is_left_to_draw_and_not_much_more():
    fetched, source = [], Entropy(0)
    take = source._source
    source._source = lambda n_bytes: fetched.append(n_bytes) or take(n_bytes)
    source.draw_for_records(draw_below, np.empty(240_000, dtype=np.int64), 2)
    assert 40_000 <= sum(fetched) <= 50_000  # 24 draws from four bytes


def test_a_generator_draws_what_its_seed_gives_whenever_it_is_first_asked():
    first, second = Entropy(5), Entropy(5)
    unused, late = first.generator(), first.generator()
    for _ in range(2):
        seed = int.from_bytes(second._source(16), "little")
    assert late.random(4).tolist() == np.random.Generator(np.random.PCG64(seed)).random(4).tolist()
    assert unused.integers(0, 1 << 60) == Entropy(5).generator().integers(0, 1 << 60)
