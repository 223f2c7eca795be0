"""Batches of records: each is as likely as any other, no record's depends on another's, and none moves when one is added."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from tests.support.chances import FAILURE
from tests.support.given_draws import GivenDraws
from tests.support.targets import NUMBER, classes

from dpforest import Numeric, Schema
from dpforest.audit.tape import TapeEntropy
from dpforest.mechanisms import Entropy
from dpforest.records.memory.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

TARGET = classes(2)
DOMAIN = Domain.of(Schema({"x": Numeric(0, 1)}, TARGET), Grid(2))
N_DRAWS = 40_000


def batches_of(n_records, n_batches, entropy, target=TARGET):
    """The batch of each record, in the order that they were given in."""
    names = np.arange(n_records, dtype=np.uint16)[None]
    counter = MemoryCounter(names, np.zeros(n_records, dtype=np.int64), DOMAIN, target)
    counter.start_scores()
    counter.divide(n_batches, entropy)
    found = np.full(n_records, -1)
    for batch, (first, end) in enumerate(counter._batches):
        found[counter._codes[0, first:end]] = batch
    assert (found >= 0).all()
    assert len(counter._batches) == n_batches
    return found


@pytest.mark.parametrize("target", [TARGET, NUMBER], ids=["classes", "a number"])
def test_a_record_is_in_the_batch_that_was_drawn_for_it(target):
    for drawn in itertools.product(range(3), repeat=4):
        assert batches_of(4, 3, GivenDraws(np.array(drawn)), target).tolist() == list(drawn)


@pytest.mark.parametrize("n_batches", [1, 2, 3, 7, 16])
def test_every_batch_is_as_likely_as_any_other(n_batches):
    sizes = np.bincount(batches_of(N_DRAWS, n_batches, Entropy(81)), minlength=n_batches)
    assert len(sizes) == n_batches
    assert n_batches == 1 or stats.chisquare(sizes).pvalue > FAILURE


def test_every_way_to_divide_three_records_is_as_likely_as_any_other():
    entropy = Entropy(82)
    ways = Counter(tuple(batches_of(3, 2, entropy).tolist()) for _ in range(4_000))
    assert len(ways) == 8
    assert stats.chisquare([*ways.values()]).pvalue > FAILURE


def test_batches_of_successive_records_are_independent():
    drawn = batches_of(N_DRAWS, 5, Entropy(83))
    assert stats.chisquare(np.bincount(5 * drawn[::2] + drawn[1::2], minlength=25)).pvalue > FAILURE


def test_sizes_of_batches_vary_as_independent_draws_do():
    # Equal parts of a shuffle would have no variance at all.
    entropy = Entropy(84)
    sizes = np.array([np.count_nonzero(batches_of(50, 2, entropy)) for _ in range(2_000)])
    edges = np.arange(18, 33)
    chances = np.diff([0.0, *stats.binom(50, 0.5).cdf(edges), 1.0])
    seen = np.bincount(np.searchsorted(edges, sizes), minlength=len(chances))
    assert stats.chisquare(seen, chances * 2_000).pvalue > FAILURE


@pytest.mark.parametrize("n_batches", [2, 3, 16])
def test_records_stay_in_their_batches_when_one_is_appended(n_batches):
    for seed in range(20):
        before, after = (batches_of(n_records, n_batches, Entropy(seed)) for n_records in (300, 301))
        np.testing.assert_array_equal(after[:-1], before)


@pytest.mark.parametrize("extra_first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("n_records", [0, 1, 2, 40])
def test_of_two_fits_on_a_tape_records_have_the_same_batches(n_records, extra_first):
    own = slice(1, None) if extra_first else slice(n_records)
    for seed in range(20):
        tapes = TapeEntropy(seed, extra_first), TapeEntropy(seed, extra_first, has_extra=True)
        few, more = (batches_of(n, 3, tape) for n, tape in zip((n_records, n_records + 1), tapes, strict=True))
        np.testing.assert_array_equal(more[own], few)
