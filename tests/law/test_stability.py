"""Samplings and batches: a record changes one part, draws have their law, bootstrap accounting covers the loss."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.support.chances import FAILURE
from tests.support.encoded import opened
from tests.support.given_draws import GivenDraws
from tests.support.laws import assert_even_and_independent, assert_parts_vary
from tests.support.targets import NUMBER

from dpforest.audit.tape import TapeEntropy
from dpforest.mechanisms import Entropy, Rate
from dpforest.parts.sampling import Disjoint, EveryRecord, PoissonBootstrap
from dpforest.privacy.accountants import Pure
from dpforest.privacy.amounts import exact
from dpforest.privacy.ledger import Ledger
from dpforest.records.base import AllTrees, OneTree, Poisson
from dpforest.records.coins import POISSON_TABLE, draw_poisson, draw_roots
from dpforest.records.counter import MemoryCounter
from dpforest.records.vault import Vault
from dpforest.schema import Categorical, Classes, Numeric, Schema
from dpforest.schema.domain import Domain, Grid

N_DRAWS = 200_000
SCHEMA = Schema({"x": Numeric(0, 1), "c": Categorical(["a", "b"])}, Classes(["no", "yes"]))


def counts_by_tree(n_records: int, n_trees: int, sampling, seed: int) -> np.ndarray:
    """What each tree holds of the first records of one fixed table, ``(n_trees, total_codes, n_classes)``."""
    rng = np.random.default_rng(71)
    x, c, y = rng.random(500), rng.choice(["a", "b"], 500), rng.choice(["no", "yes"], 500)
    table = {"x": x[:n_records], "c": c[:n_records]}
    vault = Vault.seal(pd.DataFrame(table), y[:n_records], SCHEMA)
    counter = vault.encode(Domain.of(SCHEMA, Grid(bins=8)))
    counter.deal(sampling.assignment(n_trees), Entropy(seed))
    return opened(counter.count_codes(0, np.ones((n_trees, 2), dtype=bool)))


@pytest.mark.slow
@pytest.mark.parametrize("n_trees", [2, 3, 10, 64])
@pytest.mark.parametrize("n_records", [0, 1, 9, 100])
def test_adding_a_record_changes_exactly_one_disjoint_tree_by_exactly_that_record(n_records, n_trees):
    for seed in range(20):
        before = counts_by_tree(n_records, n_trees, Disjoint(), seed)
        move = counts_by_tree(n_records + 1, n_trees, Disjoint(), seed) - before
        assert np.count_nonzero(move.any(axis=(1, 2))) == 1
        # One cell for each of the two features, raised by one.
        assert sorted(move[move != 0].tolist()) == [1, 1]


@pytest.mark.parametrize("n_trees", [1, 3, 7])
def test_the_trees_of_other_records_stay_when_a_record_is_appended(n_trees):
    for seed in range(20):
        before, _ = draw_roots(OneTree(n_trees), 300, Entropy(seed))
        after, weights = draw_roots(OneTree(n_trees), 301, Entropy(seed))
        assert after.shape == (1, 301)
        assert weights.size == 0
        np.testing.assert_array_equal(after[:, :300], before)
        assert 0 <= after[0, 300] < n_trees


def test_disjoint_draws_are_even_and_independent_and_parts_vary_in_size():
    assert_even_and_independent(draw_roots(OneTree(7), N_DRAWS, Entropy(72))[0][0], 7)
    assert_parts_vary(lambda seed: draw_roots(OneTree(2), 50, Entropy(seed))[0][0])


@pytest.mark.parametrize("n_trees", [1, 4])
def test_every_record_is_in_every_tree_once(n_trees):
    roots, weights = draw_roots(AllTrees(n_trees), 11, Entropy(74))
    assert weights.size == 0
    np.testing.assert_array_equal(roots, np.repeat(np.arange(n_trees)[:, None], 11, axis=1))
    before = counts_by_tree(30, n_trees, EveryRecord(), 0)
    after = counts_by_tree(31, n_trees, EveryRecord(), 0)
    assert ((after - before).sum(axis=(1, 2)) == 2).all()


def test_the_poisson_table_is_the_cumulative_law_rounded_up_by_less_than_two_units():
    with localcontext(prec=60):
        below = Decimal(0)
        for k, entry in enumerate(POISSON_TABLE.tolist()):
            below += Decimal(-1).exp() / math.factorial(k)
            assert below * 2**64 <= entry < below * 2**64 + 2


def test_a_word_stands_for_the_number_of_table_entries_that_it_reaches():
    entries = POISSON_TABLE.tolist()
    words = np.array([0, *(e - 1 for e in entries), *entries, 2**64 - 1], dtype=np.uint64)
    weights = np.zeros(len(words), dtype=np.uint8)
    assert draw_poisson(words.view(np.uint16), np.zeros(2, dtype=np.int64), 0, POISSON_TABLE, weights) == len(words)
    assert weights.tolist() == [0, *range(15), *range(1, 16), 15]


def test_bootstrap_weights_have_the_poisson_law():
    roots, weights = draw_roots(Poisson(2), N_DRAWS // 2, Entropy(75))
    assert roots.shape == weights.shape == (2, N_DRAWS // 2)
    seen = np.bincount(np.minimum(weights.ravel(), 6), minlength=7)
    law = np.append(stats.poisson(1).pmf(np.arange(6)), stats.poisson(1).sf(5))
    assert stats.chisquare(seen, law * weights.size).pvalue > FAILURE


def test_bootstrap_weights_of_one_record_in_two_trees_are_independent():
    _, weights = draw_roots(Poisson(2), N_DRAWS, Entropy(76))
    first, second = np.minimum(weights, 3).astype(int)
    table = np.bincount(4 * first + second, minlength=16).reshape(4, 4)
    assert stats.chi2_contingency(table).pvalue > FAILURE


def test_a_bootstrapped_record_counts_with_its_weight_in_each_tree():
    _, weights = draw_roots(Poisson(3), 40, Entropy(77))
    counts = counts_by_tree(40, 3, PoissonBootstrap(), 77)
    # Each of the two features holds every record once.
    assert counts.sum(axis=(1, 2)).tolist() == (2 * weights.sum(axis=1)).tolist()


# --- batches --------------------------------------------------------------------------------------------------------


def batches_of(n_records, n_batches, entropy, target=SCHEMA.target):
    """The batch of each record, in the order that they were given in."""
    names = np.tile(np.arange(n_records, dtype=np.uint16), (2, 1))
    counter = MemoryCounter(names, np.zeros(n_records, dtype=np.int64), Domain.of(SCHEMA, Grid(bins=2)), target)
    counter.start_scores()
    counter.divide(n_batches, entropy)
    found = np.full(n_records, -1)
    for batch, (first, end) in enumerate(counter._batches):
        found[counter._codes[0, first:end]] = batch
    assert (found >= 0).all()
    assert len(counter._batches) == n_batches
    return found


@pytest.mark.parametrize("target", [SCHEMA.target, NUMBER], ids=["classes", "a number"])
def test_a_record_is_in_the_batch_that_was_drawn_for_it(target):
    for drawn in itertools.product(range(3), repeat=4):
        assert batches_of(4, 3, GivenDraws(np.array(drawn)), target).tolist() == list(drawn)


@pytest.mark.parametrize("n_batches", [1, 2, 3, 7, 16])
def test_batches_are_even_and_independent(n_batches):
    assert_even_and_independent(batches_of(40_000, n_batches, Entropy(81)), n_batches)


def test_batches_vary_in_size():
    assert_parts_vary(lambda seed: batches_of(50, 2, Entropy(seed)))


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


# --- bootstraps -----------------------------------------------------------------------------------------------------

AMOUNTS = st.floats(min_value=1e-9, max_value=500.0)


@settings(deadline=None)
@given(AMOUNTS)
def test_the_cost_of_a_bootstrap_is_at_least_exp_minus_one(amount):
    cost = Decimal(repr(Pure(1.0).bootstrap(amount)))
    with localcontext(prec=60):
        true = Decimal(repr(amount)).exp() - 1
        assert true <= cost <= true * (1 + Decimal(10) ** -15 * max(1, int(amount)))


@settings(deadline=None)
@given(AMOUNTS, st.integers(1, 500))
def test_trees_on_bootstraps_never_cost_more_than_their_budget_and_leave_none_of_it(amount, n_trees):
    accountant = Pure(amount)
    inside = PoissonBootstrap().amount_per_tree(accountant, amount, n_trees)
    cost = n_trees * exact(accountant.bootstrap(inside))
    assert (1 - Fraction(1, 10**9)) * exact(amount) < cost <= exact(amount)


@pytest.mark.parametrize("sampling", [Disjoint(), EveryRecord(), PoissonBootstrap()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("n_trees", [1, 3, 30])
def test_the_share_of_a_tree_fills_the_ledger_and_no_more(sampling, n_trees):
    for epsilon in (0.1, 1.0, 7.3):
        ledger = Ledger(Pure(epsilon))
        share = sampling.amount_per_tree(ledger.accountant, epsilon, n_trees)
        with sampling.scopes(ledger, n_trees):
            ledger.charge("leaves", "geometric", share)
        assert (1 - 1e-9) * epsilon < ledger.total <= epsilon


def poisson_weights() -> np.ndarray:
    """The law of one drawn weight, from the table that the kernel reads."""
    edges = np.array([0, *POISSON_TABLE.tolist(), 2**64], dtype=object)
    return np.array([float(Fraction(int(part), 2**64)) for part in np.diff(edges)])


@pytest.mark.parametrize("amount", [0.05, 1.0, 3.0])
@pytest.mark.parametrize("n_others", [0, 1, 4])
def test_a_noisy_count_of_a_bootstrap_loses_at_most_its_charge_and_nearly_that(amount, n_others):
    accountant = Pure(amount)
    inside = accountant.inside_bootstrap(amount)
    rate = Rate.below(accountant.strength("geometric", inside))
    ratio = rate.numerator / rate.denominator
    without = np.array([1.0])
    for _ in range(n_others):
        without = np.convolve(without, poisson_weights())
    with_record = np.convolve(without, poisson_weights())

    def log_law(counts: np.ndarray) -> np.ndarray:
        released = np.arange(-20, 140)
        noise = np.exp(-ratio * np.abs(released[:, None] - np.arange(len(counts))))
        return np.log(noise @ counts)

    worst = float(np.abs(log_law(with_record) - log_law(without)).max())
    assert 0.9 * math.expm1(ratio) < worst <= math.expm1(ratio) * (1 + 1e-12)
    assert worst <= amount
