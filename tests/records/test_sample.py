"""The secret sample: records are kept independently, each by a coin of 20 bits, wherever they stand.

Statistical tests fail a sound sampler with a probability of at most ``FAILURE``; their seeds are fixed, so that they fail
always or never.
"""

from fractions import Fraction

import numpy as np
import pytest
from tests.support.chances import FAILURE, at_least, at_most
from tests.support.laws import assert_drawn_from

from dpforest.mechanisms import Entropy
from dpforest.records.coins import draw_kept, toss_coins

STEPS = 1 << 20
HALF, QUARTER, LARGE, SMALL = Fraction(1, 2), Fraction(1, 4), Fraction(3, 4), Fraction(1, 16)
TINY, ODD = Fraction(1, STEPS), Fraction(37_777, STEPS)


def tossed(share, *words):
    """Whether each of some coins is kept, and how many words they took."""
    kept, cursor = np.zeros(len(words), dtype=np.bool_), np.zeros(2, dtype=np.int64)
    done = toss_coins(np.array(words, dtype=np.uint16), cursor, 0, int(share * STEPS), kept)
    assert cursor[1] == 0
    return kept[:done].tolist(), int(cursor[0])


@pytest.mark.parametrize("share", [HALF, LARGE, SMALL, ODD, TINY, 1 - TINY], ids=str)
def test_a_coin_is_kept_exactly_if_its_twenty_bits_are_below_the_share(share):
    high, low = divmod(int(share * STEPS), 16)
    for word in {0, high - 1, high, high + 1, 0xFFFF} & {*range(1 << 16)}:
        if word != high:
            assert tossed(share, word) == ([word < high], 1)
        else:
            for more in (0, low - 1, low, low + 1, 15, 16, 0xFFF0):
                if more >= 0:
                    kept, n_words = tossed(share, word, more, 0 if high else 1)  # the last alone decides on its coin
                    assert (kept[0], n_words) == (more & 15 < low, 3)


def test_coins_that_run_out_of_words_go_on_with_the_same_words():
    words = np.random.default_rng(2).integers(2360, 2363, 120, dtype=np.uint16)  # near the first bits of the share
    whole, cursor = np.zeros(60, dtype=np.bool_), np.zeros(2, dtype=np.int64)
    assert toss_coins(words, cursor, 0, 37_777, whole) == 60
    n_used = int(cursor[0])
    for n_there in range(n_used):
        kept, cursor = np.zeros(60, dtype=np.bool_), np.zeros(2, dtype=np.int64)
        done = toss_coins(words[:n_there], cursor, 0, 37_777, kept)
        assert done < 60
        assert toss_coins(words, cursor, done, 37_777, kept) == 60
        assert (kept.tolist(), int(cursor[0])) == (whole.tolist(), n_used)


@pytest.mark.parametrize("share", [HALF, SMALL, ODD], ids=str)
def test_records_at_the_end_change_no_coin_of_those_before(share):
    most = draw_kept(3000, share, Entropy(5))
    assert (np.diff(most, prepend=-1) > 0).all()
    for n_records in (0, 1, 2, 17, 2999):
        assert draw_kept(n_records, share, Entropy(5)).tolist() == most[most < n_records].tolist()


def test_a_sample_of_all_records_takes_no_coins_and_a_share_between_two_coins_is_refused():
    source = Entropy(0)
    assert draw_kept(7, Fraction(1), source).tolist() == [*range(7)]
    assert source._words.size == 0
    with pytest.raises(ValueError, match=r"multiple of 2\*\*-20"):
        draw_kept(7, Fraction(1, 3), source)


def test_the_source_of_coins_may_draw_the_sample_itself():
    class Watched(Entropy):
        def sample_records(self, draw, n_records, share):
            return draw(n_records - 1, share, Entropy(3))

    assert draw_kept(50, HALF, Watched(0)).tolist() == draw_kept(49, HALF, Entropy(3)).tolist()


def larger(share):
    return Fraction(round(share * STEPS * 11 / 10), STEPS)


def mask(n_records, share, source):
    kept = np.zeros(n_records, dtype=np.int64)
    kept[draw_kept(n_records, share, source)] = 1
    return kept


def windows(share, source, n_records=600_000):
    """Which records of a table are kept, as numbers with a bit for each of four neighbours."""
    return mask(n_records, share, source).reshape(-1, 4) @ (1 << np.arange(4))


def law_of_patterns(share, n_records):
    share, counts = float(share), {pattern: pattern.bit_count() for pattern in range(1 << n_records)}
    return {pattern: share**count * (1 - share) ** (n_records - count) for pattern, count in counts.items()}


@pytest.mark.parametrize("share", [Fraction(7, 8), HALF, SMALL, ODD], ids=str)
def test_neighbours_are_kept_independently_each_with_its_share(share):
    assert_drawn_from(windows(share, Entropy(2)), law_of_patterns(share, 4))
    with pytest.raises(AssertionError):
        assert_drawn_from(windows(larger(share), Entropy(2)), law_of_patterns(share, 4))


@pytest.mark.parametrize(("share", "n_records"), [(SMALL, 200_000), (ODD, 300_000), (TINY, 40 * STEPS)], ids=str)
def test_a_sample_has_as_many_records_as_independent_coins_keep(share, n_records):
    low, high = (bound(n_records, float(share), FAILURE / 2) for bound in (at_least, at_most))
    assert low <= len(draw_kept(n_records, share, Entropy(7))) <= high
    assert share == TINY or not low <= len(draw_kept(n_records, larger(share), Entropy(7))) <= high


def test_two_samples_of_one_source_are_independent():
    source = Entropy(9)
    both = mask(100_000, QUARTER, source) + 2 * mask(100_000, QUARTER, source)
    assert_drawn_from(both, law_of_patterns(QUARTER, 2))
