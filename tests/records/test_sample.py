"""The secret sample: gaps have exactly their law, records are kept independently, wherever they stand.

A draw is a number u of which 64 bits come first, as four words of 16 bits, the lowest first. Statistical tests fail a sound
sampler with a probability of at most ``FAILURE``; their seeds are fixed, so that they fail always or never.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import FAILURE, at_least, at_most
from tests.support.laws import assert_drawn_from
from tests.support.strategies import FIXED, SEEDS

from dpforest.mechanisms import Entropy, entropy
from dpforest.mechanisms.exact import draw_below
from dpforest.records.sample import FAR, MOST_POWERS, _decided, draw_gaps, draw_kept, draw_words, powers

STEPS = 1 << 20
HALF, QUARTER, LARGE, SMALL = Fraction(1, 2), Fraction(1, 4), Fraction(3, 4), Fraction(1, 16)
TINY, THIRD, ODD = Fraction(1, STEPS), Fraction(1, 3), Fraction(37_777, STEPS)
SHARES = [HALF, LARGE, SMALL, THIRD, ODD, Fraction(1, 1000), TINY, Fraction(STEPS - 1, STEPS)]
ALL_ONES = (1 << 64) - 1


def words_of(*numbers):
    """Numbers of 64 bits as the words that a kernel reads."""
    return np.array([number >> shift & 0xFFFF for number in numbers for shift in (0, 16, 32, 48)], dtype=np.uint16)


def entropy_of(*numbers):
    """A source whose next words are these numbers."""
    source = Entropy(0)
    source._words = words_of(*numbers)
    return source


def gaps_of(share, numbers, guess=1.0):
    """What the kernel makes of numbers of 64 bits, if its first guess is off by a factor."""
    draws, cursor = np.empty(len(numbers), dtype=np.int64), np.zeros(2, dtype=np.int64)
    scale = guess / math.log1p(-float(share))
    assert draw_gaps(words_of(*numbers), cursor, 0, powers(share), scale, draws) == len(numbers)
    assert cursor.tolist() == [4 * len(numbers), 0]
    return draws.tolist()


# --- the table ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [*SHARES, Fraction(511, 512)], ids=str)
def test_the_table_has_the_first_bits_of_the_exact_powers_no_two_of_which_are_the_same(share):
    table = powers(share)
    assert table.dtype == np.uint64
    assert 0 < len(table) <= min(math.ceil(FAR / share), MOST_POWERS)
    for power in (*range(1, min(len(table), 200)), len(table)):
        assert int(table[power - 1]) == (1 - share) ** power * 2**64 // 1
    assert (table[1:] < table[:-1]).all()  # so that one comparison decides


# --- single draws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [*SHARES, Fraction(255, 256), Fraction(511, 512)], ids=str)
def test_a_number_below_a_power_passes_it_one_above_does_not_and_one_that_begins_as_it_is_left_open(share):
    table = [int(entry) for entry in powers(share)]
    places = [*range(1, min(len(table), 200) + 1), len(table)]
    assert gaps_of(share, [table[g - 1] for g in places]) == [-g for g in places]
    apart = [g for g in places if table[g - 1] > 1 << 20]  # else a number beside a power may be that of the next
    assert gaps_of(share, [table[g - 1] - 1 for g in apart]) == apart
    assert gaps_of(share, [table[g - 1] + 1 for g in apart]) == [g - 1 for g in apart]
    assert gaps_of(share, [ALL_ONES]) == [0]


@pytest.mark.parametrize("share", [HALF, LARGE, SMALL, THIRD, ODD, TINY], ids=str)
def test_a_gap_is_the_number_of_exact_powers_above_the_number(share):
    rng = np.random.default_rng(4)
    # Of all sizes, so that all gaps occur, and those beyond the table.
    far = 0.07 if share == TINY else 10
    numbers = [int(number) for number in 2.0**64 * np.exp(-rng.uniform(0, far, 4 if share == TINY else 60))] + [0, ALL_ONES]
    n_most, found = len(powers(share)), gaps_of(share, numbers)
    assert max(found) == n_most
    for number, gap in zip(numbers, found, strict=True):
        # u lies in number .. number + 1, in units of 2**-64.
        assert 0 <= gap <= n_most
        assert number + 1 <= (1 - share) ** gap * 2**64
        assert gap == n_most or number >= (1 - share) ** (gap + 1) * 2**64


def test_a_bad_first_guess_changes_no_gap():
    numbers = [int(number) for number in 2.0**64 * np.exp(-np.random.default_rng(6).uniform(0, 10, 200))]
    for guess in (0.0, 0.01, 0.5, 2.0, 100.0):
        assert gaps_of(SMALL, numbers, guess) == gaps_of(SMALL, numbers)


@pytest.mark.parametrize("share", [LARGE, SMALL, THIRD, ODD, TINY], ids=str)
@pytest.mark.parametrize("power", [1, 7, 200])
def test_a_number_that_begins_as_a_power_is_decided_by_the_bits_that_follow(share, power):
    rest, bits = (1 - share) ** power * 2**64 % 1, []
    for _ in range(3):
        rest *= 2**64
        bits.append(rest.numerator // rest.denominator)
        rest -= bits[-1]
    for n_equal, bit in enumerate(bits):
        for off, expected in ((-1, power), (1, power - 1)):
            if 0 <= bit + off <= ALL_ONES:
                source = entropy_of(*bits[:n_equal], bit + off)
                assert _decided(power, share, source) == expected
                assert source._cursor[0] == 4 * (n_equal + 1)
    for number, expected in ((0, power), (ALL_ONES, power - 1)):
        if bits[0] not in (0, ALL_ONES):
            assert _decided(power, share, entropy_of(number)) == expected


def test_a_number_is_never_below_a_power_that_ends_with_its_first_bits():
    # 1/2 and 3/4 to a small power have no bits beyond the first 64: u is at least as large, and equal is not below.
    for share, power in ((HALF, 1), (HALF, 16), (QUARTER, 3)):
        for number in (1, ALL_ONES):
            assert _decided(power, share, entropy_of(number)) == power - 1
        assert _decided(power, share, entropy_of(0, 0, 5)) == power - 1


def test_a_record_is_kept_or_not_by_the_bits_that_follow_if_the_first_ones_are_equal():
    # The first draw begins as the first power; the last number decides whether record 0 is passed over.
    n_draws = math.ceil(n_wanted(THIRD, 1) + 4 * math.sqrt(n_wanted(THIRD, 1))) + 1
    first = [int(powers(THIRD)[0])] + [ALL_ONES] * (n_draws - 1)
    assert draw_kept(1, THIRD, entropy_of(*first, 0)).tolist() == []
    assert draw_kept(1, THIRD, entropy_of(*first, ALL_ONES)).tolist() == [0]


def n_wanted(share, n_records):
    """The expected number of draws, as the sampler has it at the beginning."""
    return (n_records + 1) * float(share) / (1 - float(1 - share) ** len(powers(share)))


# --- words that run out ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [draw_gaps, draw_words], ids=["gaps", "words"])
def test_a_draw_that_runs_out_of_words_goes_on_with_the_same_words(kernel):
    words = np.random.default_rng(2).integers(0, 1 << 16, 120, dtype=np.uint16)

    def run(there, cursor, first, values):
        known = (powers(SMALL), 1 / math.log1p(-float(SMALL))) if kernel is draw_gaps else ()
        return kernel(there, cursor, first, *known, values)

    kind = np.int64 if kernel is draw_gaps else np.uint64
    whole, cursor = np.zeros(30, dtype=kind), np.zeros(2, dtype=np.int64)
    assert run(words, cursor, 0, whole) == 30
    for n_there in range(120):
        values, cursor = np.zeros(30, dtype=kind), np.zeros(2, dtype=np.int64)
        done = run(words[:n_there], cursor, 0, values)
        assert (done, cursor.tolist()) == (n_there // 4, [4 * done, 0])
        assert run(words, cursor, done, values) == 30
        assert values.tolist() == whole.tolist()
        assert cursor.tolist() == [120, 0]


@FIXED
@given(SEEDS, st.sampled_from([HALF, SMALL, ODD, LARGE]), st.integers(0, 3), st.integers(0, 3000))
def test_a_sample_does_not_depend_on_how_many_words_are_fetched_at_once(seed, share, n_before, n_records):
    found = []
    for first, most in ((2048, 1 << 20), (1, 1), (3, 7), (2048, 4096)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(entropy, "FIRST_WORDS", first)
            patch.setattr(entropy, "MOST_WORDS", most)
            source = Entropy(seed)
            # Draws of one word each: what follows does not begin where words are fetched.
            source.run(draw_below, n_before, 1 << 16, np.empty(n_before, dtype=np.int64))
            found.append(draw_kept(n_records, share, source).tolist())
    assert found[1:] == found[:-1]


@pytest.mark.parametrize("share", [HALF, SMALL, ODD], ids=str)
def test_records_at_the_end_change_no_coin_of_those_before(share):
    most = draw_kept(3000, share, Entropy(5))
    for n_records in (0, 1, 2, 3, 17, 900, 2999):
        kept = draw_kept(n_records, share, Entropy(5))
        assert kept.tolist() == most[most < n_records].tolist()


# --- samples --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", SHARES, ids=str)
def test_indices_of_a_sample_increase_and_are_those_of_records(share):
    for n_records in (0, 1, 2, 5, 1000):
        for _ in range(20):
            kept = draw_kept(n_records, share, Entropy())
            assert kept.dtype == np.int64
            assert (np.diff(kept, prepend=-1) > 0).all()
            assert (kept < n_records).all()


def test_a_sample_of_all_records_has_all_of_them_and_takes_no_coins():
    source = Entropy(0)
    for n_records in (0, 1, 7):
        assert draw_kept(n_records, Fraction(1), source).tolist() == [*range(n_records)]
    assert source._words.size == 0


def test_the_source_of_coins_may_draw_the_sample_itself():
    asked = []

    class Watched(Entropy):
        def sample_records(self, draw, n_records, share):
            asked.append((n_records, share))
            return draw(n_records - 1, share, Entropy(3))

    assert draw_kept(50, HALF, Watched(0)).tolist() == draw_kept(49, HALF, Entropy(3)).tolist()
    assert asked == [(50, HALF)]


def mask(n_records, share, source):
    kept = np.zeros(n_records, dtype=np.int64)
    kept[draw_kept(n_records, share, source)] = 1
    return kept


def law_of_patterns(share, n_records):
    """The probability of each set of records, as a number with a bit for each record that is kept."""
    share = float(share)
    return {
        pattern: share ** pattern.bit_count() * (1 - share) ** (n_records - pattern.bit_count())
        for pattern in range(1 << n_records)
    }


def small_tables(share, source, n_records, n_tables=3000):
    """Which of a few records are kept, as a number with a bit for each, in many tables of so many records."""
    return np.array([mask(n_records, share, source) @ (1 << np.arange(n_records)) for _ in range(n_tables)])


def windows(share, source, n_records=600_000):
    """Which records of a long table are kept, as numbers with a bit for each of four neighbours."""
    return mask(n_records, share, source).reshape(-1, 4) @ (1 << np.arange(4))


def gaps(share, source, n_records=1_500_000):
    """How many records are passed over before each that is kept."""
    return np.diff(draw_kept(n_records, share, source), prepend=-1) - 1


def law_of_gaps(share, most=400):
    share = float(share)
    return {gap: share * (1 - share) ** gap for gap in range(most)}


def kept_at_ends(share, source, n_tables=2000, n_records=150):
    """In how many tables the first two records and the last two are kept."""
    return sum(mask(n_records, share, source)[[0, 1, -2, -1]] for _ in range(n_tables))


def larger(share):
    return share * Fraction(11, 10)


@pytest.mark.parametrize("share", [LARGE, Fraction(5, 8)], ids=str)
def test_every_set_of_a_few_records_is_as_likely_as_independent_coins_make_it(share):
    assert_drawn_from(small_tables(share, Entropy(1), 4), law_of_patterns(share, 4))
    with pytest.raises(AssertionError):
        assert_drawn_from(small_tables(larger(share), Entropy(1), 4), law_of_patterns(share, 4))


@pytest.mark.parametrize("share", [Fraction(7, 8), HALF, SMALL, ODD], ids=str)
def test_neighbours_in_a_long_table_are_kept_independently(share):
    assert_drawn_from(windows(share, Entropy(2)), law_of_patterns(share, 4))
    with pytest.raises(AssertionError):
        assert_drawn_from(windows(larger(share), Entropy(2)), law_of_patterns(share, 4))


@pytest.mark.parametrize("share", [LARGE, Fraction(13, 16)], ids=str)
def test_records_at_both_ends_of_a_table_are_kept_as_often_as_others(share):
    # Each of four records may be kept too often or too rarely.
    low, high = (bound(2000, float(share), FAILURE / 8) for bound in (at_least, at_most))
    for is_fair, own in ((True, share), (False, larger(share))):
        kept = kept_at_ends(own, Entropy(3))
        assert bool(((low <= kept) & (kept <= high)).all()) == is_fair


@pytest.mark.parametrize("share", [QUARTER, LARGE], ids=str)
def test_gaps_are_geometric(share):
    assert_drawn_from(gaps(share, Entropy(4)), law_of_gaps(share))
    with pytest.raises(AssertionError):
        assert_drawn_from(gaps(larger(share), Entropy(4)), law_of_gaps(share))


def test_gaps_go_on_beyond_the_table_of_powers():
    found, end = gaps(QUARTER, Entropy(6)), len(powers(QUARTER))
    low, high = (bound(found.size, float(1 - QUARTER) ** (end + 1), FAILURE / 2) for bound in (at_least, at_most))
    assert 0 < low <= np.count_nonzero(found > end) <= high  # else the end of the table would be taken for a gap


@pytest.mark.parametrize(
    ("share", "n_records"), [(SMALL, 200_000), (ODD, 300_000), (Fraction(1, 1000), 5_000_000), (TINY, 200 * STEPS)], ids=str
)
def test_a_sample_has_as_many_records_as_independent_coins_keep(share, n_records):
    low, high = (bound(n_records, float(share), FAILURE / 2) for bound in (at_least, at_most))
    assert low <= len(draw_kept(n_records, share, Entropy(7))) <= high
    if share != TINY:  # of which too few are kept
        assert not low <= len(draw_kept(n_records, larger(share), Entropy(7))) <= high


def test_two_samples_of_one_source_are_independent():
    source = Entropy(9)
    both = mask(100_000, QUARTER, source) + 2 * mask(100_000, QUARTER, source)
    assert_drawn_from(both, law_of_patterns(QUARTER, 2))
