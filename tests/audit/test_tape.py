"""The coins of a tape: those of a record stay when another record comes first or last."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.support.naive import plant

from dpforest import Classes, Numeric, Schema
from dpforest.audit.tape import TapeEntropy
from dpforest.records.base import OneTree, Poisson
from dpforest.records.coins import draw_kept, draw_roots
from dpforest.records.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

IDENTITIES = Domain.of(Schema({"record": Numeric(0, 200, integer=True)}, Classes([0, 1])), Grid(bins=201))
TARGET = Classes([0, 1])


def counter_of(records):
    return MemoryCounter(np.asarray(records, dtype=IDENTITIES.dtype)[None], np.asarray(records) % 2, IDENTITIES, TARGET)


def disjoint_coins(records, entropy):
    return draw_roots(OneTree(5), len(records), entropy)[0]


def bootstrap_coins(records, entropy):
    return draw_roots(Poisson(3), len(records), entropy)[1]


def hold_out_coins(records, entropy):
    training, held = counter_of(records).hold_out(0.4, entropy)
    assert sorted([*training._codes[0], *held._codes[0]]) == sorted(records)
    return np.isin(records, held._codes[0])[None]


def error_coins(records, entropy):
    counter = counter_of(records)
    # Two of five trees are wrong about even records, three about odd ones.
    forest = plant(IDENTITIES, TARGET, *[[9.0, 1.0]] * 3, *[[1.0, 9.0]] * 2)
    counter.deal_by_errors(replace(forest, votes=forest.counts), 4, entropy)
    return counter._weights


def sample_coins(records, entropy):
    kept = draw_kept(len(records), Fraction(1, 2), entropy)
    assert sorted({*kept}) == kept.tolist()
    return np.isin(np.arange(len(records)), kept)[None]


COINS = [sample_coins, disjoint_coins, bootstrap_coins, hold_out_coins, error_coins]


@pytest.mark.parametrize("extra_first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("coins", COINS, ids=lambda coins: coins.__name__)
def test_the_coins_of_other_records_stay_when_a_record_comes_first_or_last(coins, extra_first):
    for seed, n_records in [(0, 0), (1, 1), (2, 2), (3, 40), (4, 150)]:
        others = list(range(n_records))
        larger = [200, *others] if extra_first else [*others, 200]
        before, after = TapeEntropy(seed, extra_first), TapeEntropy(seed, extra_first, has_extra=True)
        for _ in range(2):  # a later draw of the same fit is coupled too
            smaller_coins, larger_coins = coins(others, before), coins(larger, after)
            np.testing.assert_array_equal(larger_coins[:, 1:] if extra_first else larger_coins[:, :-1], smaller_coins)
            assert coins is not sample_coins or larger_coins[0, 0 if extra_first else -1]  # it is in every sample


@pytest.mark.parametrize("coins", COINS, ids=lambda coins: coins.__name__)
def test_coins_of_a_tape_differ_between_records_trees_draws_and_seeds(coins):
    entropy, records = TapeEntropy(5, False), list(range(150))
    first, second, other = coins(records, entropy), coins(records, entropy), coins(records, TapeEntropy(6, False))
    assert all(len(set(row.tolist())) > 1 for row in first)
    assert len({row.tobytes() for row in first}) == len(first)
    assert first.tobytes() != second.tobytes()
    assert first.tobytes() != other.tobytes()


def test_a_tape_knows_how_often_the_extra_record_is_in_a_bootstrap():
    for seed in range(20):
        entropy = TapeEntropy(seed, seed % 2 == 0)
        counts = bootstrap_coins(list(range(9)), entropy)
        assert entropy.n_drawn_last == max(1, counts[:, 0 if seed % 2 == 0 else -1].max())


def test_public_coins_of_a_tape_are_the_same_in_both_fits_and_new_each_time():
    one, two = TapeEntropy(8, True), TapeEntropy(8, True)
    drawn = [one.generator().random() for _ in range(5)]
    assert drawn == [two.generator().random() for _ in range(5)]
    assert len(set(drawn)) == 5
