"""Records that are held out or dealt by errors: coins record by record, and what one more record moves."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from tests.support import naive
from tests.support.chances import FAILURE
from tests.support.encoded import opened, random_table, with_one_more
from tests.support.planted import counter_of, hand_made
from tests.support.replay import train
from tests.support.strategies import THREE, TWO, recipe_of

from dpforest import Bounded, Numeric, Schema
from dpforest.audit.tape import TapeEntropy
from dpforest.mechanisms import Entropy
from dpforest.parts.proposals import Menu, OneChildPerValue
from dpforest.parts.voting import Majority
from dpforest.privacy.bounds import Sensitivity
from dpforest.recipes.papers.li_2022 import OutOfBag, count_tested
from dpforest.records.coins import COIN_SIDES
from dpforest.records.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

N_DRAWS = 200_000


# --- records kept apart ---------------------------------------------------------------------------------------------


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
