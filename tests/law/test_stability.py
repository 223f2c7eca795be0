"""Samplings, batches and held-out records: a record changes one part, draws have their law, accounting covers the loss."""

import itertools
import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.support import naive
from tests.support.chances import FAILURE
from tests.support.encoded import opened, random_table, with_one_more
from tests.support.laws import GivenDraws, assert_even_and_independent, assert_parts_vary
from tests.support.planted import counter_of, hand_made
from tests.support.replay import train
from tests.support.strategies import THREE, TWO, recipe_of
from tests.support.targets import NUMBER

from dpforest.audit.tape import TapeEntropy
from dpforest.mechanisms import Entropy, Rate
from dpforest.parts.proposals import Menu, OneChildPerValue
from dpforest.parts.sampling import Disjoint, EveryRecord, PoissonBootstrap
from dpforest.parts.voting import Majority
from dpforest.privacy.accountants import Pure
from dpforest.privacy.amounts import exact
from dpforest.privacy.bounds import Sensitivity
from dpforest.privacy.ledger import Ledger
from dpforest.recipes.papers.li_2022 import OutOfBag, count_tested
from dpforest.records.base import AllTrees, OneTree, Poisson
from dpforest.records.coins import COIN_SIDES, POISSON_TABLE, draw_poisson, draw_roots
from dpforest.records.counter import MemoryCounter
from dpforest.records.vault import Vault
from dpforest.schema import Bounded, Categorical, Classes, Numeric, Schema
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


# --- records that are held out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("n_rows", [0, 1, 300])
def test_an_appended_record_changes_no_other_records_part(share, n_rows):
    for seed in range(20):
        before = counter_of(n_rows).hold_out(share, Entropy(seed))
        after = counter_of(n_rows + 1).hold_out(share, Entropy(seed))
        assert sum(len(part._target_codes) for part in before) == n_rows
        assert sum(len(part._target_codes) for part in after) == n_rows + 1
        for first, second in zip(before, after, strict=True):
            n_before = len(first._target_codes)
            np.testing.assert_array_equal(first._codes, second._codes[:, :n_before])
            np.testing.assert_array_equal(first._target_codes, second._target_codes[:n_before])


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5])
def test_records_are_held_out_with_the_chance_of_their_coin(share):
    target = Bounded(0, 1)  # whose codes may be the numbers of the records
    domain = Domain.of(Schema({"x": Numeric(0, 1)}, target), Grid(2))
    whole = MemoryCounter(np.zeros((1, N_DRAWS), dtype=np.uint8), np.arange(N_DRAWS), domain, target)
    _, held = whole.hold_out(share, Entropy(7))
    chance = round(share * COIN_SIDES) / COIN_SIDES
    assert abs(chance - share) <= 0.5 / COIN_SIDES
    is_held = np.zeros(N_DRAWS, dtype=int)
    is_held[held._fine] = 1
    law = np.array([1 - chance, chance])
    assert stats.chisquare(np.bincount(is_held, minlength=2), law * N_DRAWS).pvalue > FAILURE
    # Successive records are independent.
    pairs = np.bincount(2 * is_held[::2] + is_held[1::2], minlength=4)
    assert stats.chisquare(pairs, np.outer(law, law).ravel() * N_DRAWS / 2).pvalue > FAILURE


def test_errors_are_those_of_the_majority_of_an_ensemble():
    forest, whole = hand_made(5), counter_of(60)
    ensembles = np.array([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 1, 0, 0]], dtype=bool)
    wrong = []
    for trees in ensembles:
        votes = [
            Counter(int(forest.votes[naive.path(forest, tree, record)[-1]].argmax()) for tree in np.flatnonzero(trees))
            for record in whole._codes.T
        ]
        winners = [max(range(2), key=lambda label, vote=vote: (vote[label], -label)) for vote in votes]
        wrong.append(sum(w != label for w, label in zip(winners, whole._target_codes, strict=True)))
    assert opened(whole.count_errors(forest, ensembles)).tolist() == wrong


def test_each_class_is_tested_tree_by_tree_on_the_released_splits():
    recipe = recipe_of(n_trees=4, depth=3, grid=Grid(6), vote=Majority())
    whole = counter_of(300, schema=THREE)
    forest = train(recipe, THREE, whole._codes, whole._target_codes).forest
    assert forest.depth == 3
    tested = opened(count_tested(whole, forest, Entropy(0)))
    for tree, choices in enumerate(forest.choices(whole._codes)):
        for label in range(3):
            own = choices[whole._target_codes == label]
            assert tested[tree, label].tolist() == [(own == label).sum(), (own != label).sum()]


@pytest.mark.parametrize("n_trees", [1, 4])
def test_any_added_record_adds_one_to_one_number_of_each_tree_that_is_tested_and_at_most_one_to_each_of_errors(n_trees):
    forest, whole, cells, raised = hand_made(n_trees), counter_of(40), set(), set()
    ensembles = np.random.default_rng(3).random((12, n_trees)) < 0.6
    tested, errors = (opened(found) for found in asked_of(whole, forest, ensembles))
    for record, label in itertools.product(naive.all_records(whole.domain)[::13], range(2)):
        more = MemoryCounter(*with_one_more(whole._codes, whole._target_codes, record, label), whole.domain, whole.target)
        more_tested, more_errors = (opened(found) for found in asked_of(more, forest, ensembles))
        move = more_tested - tested
        assert move.min() == 0
        assert move.sum(axis=(1, 2)).tolist() == [1] * n_trees  # so L1 and L2**2 are the number of trees, and never less
        assert move[:, 1 - label].sum() == 0
        cells |= set(map(tuple, np.argwhere(move).tolist()))
        raised |= set((more_errors - errors).tolist())
    assert len(cells) == n_trees * 2 * 2
    # So minus the errors, the scores of a choice among ensembles, move by -1 or 0: both ends of Bound(-1, 0).
    assert raised == {0, 1}


def asked_of(counter, forest, ensembles):
    """Sealed numbers of records that each tree gets right and wrong, and those that ensembles get wrong."""
    return count_tested(counter, forest, Entropy(0)), counter.count_errors(forest, ensembles)


def test_a_record_that_every_first_tree_gets_wrong_raises_all_their_errors_of_its_class_by_one():
    recipe = recipe_of(stages=OutOfBag(n_first=6, held_out=0.5), n_trees=2, depth=1)
    _, codes, _ = random_table(TWO, recipe.grid, 6000, seed=3)
    labels, moved = np.zeros(6000, dtype=np.int64), set()
    for seed in range(8):
        one = train(recipe, TWO, codes, labels, seed=seed)
        two = train(recipe, TWO, *with_one_more(codes, labels, codes[:, 0], 1), one.queries, seed)
        (before,), (after,) = ([q for q in fit.queries if q.label == "errors of trees"] for fit in (one, two))
        assert before.stated == Sensitivity(6, 6)
        moved.add(tuple(map(tuple, (after.values - before.values).reshape(6, -1).tolist())))
    # All trees say 0: a record of class 1 that is held out is an error of each, one that is not changes nothing.
    assert moved == {((0, 0, 0, 0),) * 6, ((0, 0, 0, 1),) * 6}


def test_first_trees_choose_among_as_many_features_at_a_node_as_second_ones_draw():
    parts = {"propose": Menu((OneChildPerValue(),)), "stages": OutOfBag(n_first=3, n_features=2)}
    recipe = recipe_of(n_trees=2, depth=2, **parts)
    _, codes, labels = random_table(TWO, recipe.grid, 400, seed=1)
    choices = [query for query in train(recipe, TWO, codes, labels).queries if query.valid is not None]
    queries = [query for query in choices if "first stage" in [scope.label for scope in query.scopes]]
    # One split for each of the four features is listed, of which a node may choose among two; further down, some are idle.
    assert [query.valid.sum(axis=1).max() for query in queries] == [2, 2]


# --- records dealt by errors ----------------------------------------------------------------------------------------


def dealt(whole, forest, n_trees, seed):
    whole.deal_by_errors(forest, n_trees, TapeEntropy(seed, extra_first=False))
    return whole._positions, whole._weights


def test_an_added_record_changes_no_other_records_part_in_later_trees_and_takes_part_once_at_most():
    forest = hand_made(4)
    # From table to table the worst record, the number of errors and the number of records change.
    for seed, n_rows in itertools.product(range(20), [*range(12), 80]):
        positions, before = dealt(counter_of(n_rows), forest, 3, seed)
        _, after = dealt(counter_of(n_rows + 1), forest, 3, seed)
        np.testing.assert_array_equal(before, after[:, :n_rows])
        assert after.max(initial=0) <= 1
        assert positions.tolist() == [[tree] * n_rows for tree in range(3)]


def test_changing_the_other_records_does_not_change_whether_a_record_takes_part():
    forest, rng = hand_made(4), np.random.default_rng(8)
    for seed in range(20):
        whole = counter_of(50)
        _, before = dealt(whole, forest, 3, seed)
        shuffled = rng.permutation(49)
        others = whole._codes[:, shuffled], 1 - whole._target_codes[shuffled]
        table = with_one_more(*others, whole._codes[:, 49], whole._target_codes[49])
        _, after = dealt(MemoryCounter(*table, whole.domain, whole.target), forest, 3, seed)
        np.testing.assert_array_equal(before[:, 49], after[:, 49])


def test_a_record_takes_part_with_the_share_of_trees_that_get_it_wrong():
    forest, n_copies = hand_made(5, seed=4), N_DRAWS // 100
    whole = counter_of(100, seed=9)
    n_wrong = (forest.choices(whole._codes) != whole._target_codes).sum(axis=0)
    assert {0, 5} < set(n_wrong.tolist())
    whole.deal_by_errors(forest, n_copies, Entropy(10))
    taken = whole._weights.sum(axis=0, dtype=int)
    assert (taken[n_wrong == 0] == 0).all()
    assert (taken[n_wrong == 5] == n_copies).all()
    for v in set(n_wrong.tolist()) - {0, 5}:
        n, n_taken = n_copies * int((n_wrong == v).sum()), int(taken[n_wrong == v].sum())
        assert stats.chisquare([n_taken, n - n_taken], [n * v / 5, n * (5 - v) / 5]).pvalue > FAILURE


def test_a_record_takes_part_in_two_later_trees_independently():
    forest = hand_made(4, seed=4)
    whole = counter_of(1000, seed=9)
    n_wrong = (forest.choices(whole._codes) != whole._target_codes).sum(axis=0)
    whole.deal_by_errors(forest, 2 * (N_DRAWS // 4000), Entropy(11))
    for v in (1, 2, 3):
        first, second = whole._weights[::2, n_wrong == v], whole._weights[1::2, n_wrong == v]
        seen = np.bincount((2 * first.astype(int) + second).ravel(), minlength=4)
        law = np.outer([1 - v / 4, v / 4], [1 - v / 4, v / 4]).ravel()
        assert stats.chisquare(seen, law * seen.sum()).pvalue > FAILURE
