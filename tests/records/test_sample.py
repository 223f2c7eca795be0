"""The secret sample keeps records independently, each by a coin of 20 bits; of a person rows are used by lot.

Statistical tests fail a sound sampler with a probability of at most ``FAILURE``; their seeds are fixed, so that they fail
always or never.
"""

import itertools
import math
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.records.holders import objects
from tests.support.chances import FAILURE, at_least, at_most
from tests.support.laws import assert_drawn_from

from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records.coins import draw_kept, toss_coins
from dpforest.records.people import People, draw_below_each, draw_rows, person_indices, read_ids, replace_rows

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


# --- rows of a person ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "most"), [(5, 2), (4, 1), (6, 4)])
def test_every_subset_comes_from_as_many_outcomes_of_the_coins(n_rows, most):
    later = np.arange(most, n_rows)
    subsets = Counter()
    for draws in itertools.product(*(range(rank + 1) for rank in later)):
        order = np.arange(n_rows)
        replace_rows(order, later, later, np.array(draws), most)
        subsets[tuple(sorted(order[:most]))] += 1
    assert len(subsets) == math.comb(n_rows, most)
    assert len(set(subsets.values())) == 1


def test_coins_are_uniform_below_their_own_limit():
    limits = np.tile([1, 2, 3, 7, 300], 20_000)
    draws = np.empty(len(limits), dtype=np.int64)
    Entropy(1).run(draw_below_each, len(draws), limits, draws)
    for limit in (1, 2, 3, 7):
        found = np.bincount(draws[limits == limit], minlength=limit)
        assert len(found) == limit
        assert abs(found - 20_000 / limit).max() < 5 * math.sqrt(20_000 / limit)
    assert draws.max() < 300


def test_a_person_keeps_all_rows_or_as_many_as_allowed():
    persons = np.random.default_rng(0).integers(-1, 50, 600)
    kept = draw_rows(persons, 7, Entropy())
    sizes, used = np.bincount(persons[persons >= 0], minlength=50), np.bincount(persons[kept], minlength=50)
    assert (used == np.minimum(sizes, 7)).all()
    assert not kept[persons < 0].any()
    assert draw_rows(np.empty(0, dtype=np.int64), 7, Entropy()).shape == (0,)


def law_of_kept(persons, most):
    """Exact probabilities of the sets of kept rows, as places in the table."""
    rows_of = [np.flatnonzero(persons == person).tolist() for person in sorted({*persons.tolist()} - {-1})]
    choices = [list(itertools.combinations(rows, min(most, len(rows)))) for rows in rows_of]
    law = Counter(tuple(sorted(sum(parts, ()))) for parts in itertools.product(*choices))
    return {rows: count / sum(law.values()) for rows, count in law.items()}


@pytest.mark.slow
def test_the_law_of_other_persons_rows_does_not_change_with_a_person():
    """On 6,000 draws each, with and without a person who stands first and has many rows."""
    others = np.array([0, 1, 0, 0, 1])
    with_one = np.concatenate([np.full(6, 2), others])
    alone = Counter(tuple(np.flatnonzero(draw_rows(others, 1, Entropy(seed)))) for seed in range(6000))
    beside = Counter(tuple(np.flatnonzero(draw_rows(with_one, 1, Entropy(seed))[6:])) for seed in range(6000))
    law = law_of_kept(others, 1)
    assert set(alone) == set(beside) == set(law)
    for rows, probability in law.items():
        for found in (alone, beside):
            assert found[rows] / 6000 == pytest.approx(probability, abs=5 * math.sqrt(probability / 6000))


AS_COLUMNS = [
    list, objects, pd.Series, pl.Series, lambda ids: pa.chunked_array([pa.array(ids[:2]), pa.array(ids[2:])]),
    lambda ids: pd.Series(ids, dtype="category"),
]  # fmt: skip


@pytest.mark.parametrize("ids", [["b", "a", None, "b"], [7, 3, None, 7], [0.0, 1.5, None, -0.0]], ids=str)
def test_ids_of_any_library_give_the_same_persons_and_missing_ones_none(ids):
    for make in AS_COLUMNS:
        indices = person_indices(read_ids(make(ids)))
        assert indices[2] == -1
        assert indices[0] == indices[3] != indices[1]
        assert min(indices[0], indices[1]) >= 0


def test_whether_two_rows_are_one_persons_does_not_depend_on_other_rows():
    for ids in ([1, "1"], [1, "1", "x", 2.5]):
        assert len(set(person_indices(read_ids(ids)).tolist())) == len(ids)
    ones, halves = [1, 1.0, True], [0.5, Decimal("0.5"), Fraction(1, 2), np.longdouble("0.5"), complex(0.5)]
    for first in range(5):
        assert set(person_indices(read_ids([*halves[first:], *halves[:first]])).tolist()) == {0}
        assert set(person_indices(read_ids(ones[first:] + ones[:first])).tolist()) == {0}
    assert person_indices(read_ids([7, "7", UUID(int=7), UUID(int=7)])).tolist() == [0, 1, 2, 2]


NO_IDS = [
    [1], {}, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), ("a", float("nan")), ("a", 1), frozenset("a"),
]  # fmt: skip


@pytest.mark.parametrize("odd", NO_IDS, ids=str)
def test_what_cannot_be_an_id_is_a_missing_one(odd):
    assert person_indices(read_ids(["a", odd, odd, "a"])).tolist() == [0, -1, -1, 0]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [(np.zeros((3, 2)), "groups"), (np.zeros(3, dtype=complex), "groups"), (np.zeros(3, dtype="M8[s]"), "groups"),
     (np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), "masked")],
    ids=str,
)  # fmt: skip
def test_groups_that_are_no_ids_are_refused_by_their_type(wrong, words):
    with pytest.raises(TableError, match=words):
        read_ids(wrong)


def test_rows_without_a_target_take_nobodys_place():
    target = np.array([-1, -1, -1, 1, 0], dtype=np.int16)
    kept = People(2, Entropy()).leave_out([read_ids(["a"] * 5)], target)
    assert kept.tolist() == target.tolist()
    assert kept.dtype == target.dtype


def test_bytes_are_no_text_and_are_never_compared_with_one():
    """Python can be told to stop at such a comparison, so that one id would end a fit."""
    code = "from dpforest.records.people import person_indices, read_ids; print(person_indices(read_ids(['p', b'p', b'p'])))"
    done = subprocess.run([sys.executable, "-bb", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[0", "1", "1]"]
