"""Counts of a level are the same whether a child is counted or follows from its parent and its siblings."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import naive
from tests.support.strategies import FIXED, SEEDS, WORDS, bounded, classes, grids, put_at, random_codes, schemas

from dpforest import Bounded, Classes, Numeric, Schema
from dpforest.common import threads as workers
from dpforest.common.threads import Workers
from dpforest.mechanisms import Entropy
from dpforest.records.memory import counter as memory
from dpforest.records.memory import kernels
from dpforest.records.memory.counter import MemoryCounter
from dpforest.schema import FINE_STEPS
from dpforest.schema.domain import Domain, Grid

NONE = np.empty((0, 0), dtype=np.uint8)
TWO_SIDES = Classes(["below", "above"])


def masks_all(rng, shape, above):
    return np.ones(shape, dtype=bool)


def masks_alike(rng, shape, above):
    """One mask for all nodes of a level, which loses features from level to level."""
    return np.repeat(above.any(axis=0, keepdims=True) & (rng.random((1, shape[1])) < 0.8), shape[0], axis=0)


def masks_shrinking(rng, shape, above):
    """What a child wants its parent wanted."""
    return above & (rng.random(shape) < 0.9)


def masks_drawn(rng, shape, above):
    return rng.random(shape) < 0.7


def masks_few(rng, shape, above):
    return rng.random(shape) < 0.25


MASKS = {"all": masks_all, "alike": masks_alike, "shrinking": masks_shrinking, "drawn": masks_drawn, "few": masks_few}


@st.composite
def trees(draw, target):
    """Encoded records at the roots of trees that will be split at random."""
    schema, rng = draw(schemas(target)), np.random.default_rng(draw(SEEDS))
    domain, n_records = Domain.of(schema, draw(grids)), draw(st.sampled_from([0, 1, 12, 60]))
    n_roots, n_copies = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n_fine = schema.target.width if isinstance(schema.target, Classes) else FINE_STEPS + 1
    return SimpleNamespace(
        domain=domain,
        target=schema.target,
        codes=random_codes(domain, n_records, rng),
        fine_codes=rng.integers(0, n_fine, n_records),
        positions=rng.integers(0, n_roots, (n_copies, n_records)).astype(np.int32),
        weights=rng.integers(0, 256, (n_copies, n_records)).astype(np.uint8) if draw(st.booleans()) else NONE,
        n_roots=n_roots,
        most_children=draw(st.sampled_from([2, 4])),
        rng=rng,
        scores=None,
    )


@st.composite
def spread_trees(draw):
    """The same, each record in one tree, with scores of few or many steps by which it adds residuals."""
    tree = draw(trees(st.sampled_from([Classes(WORDS[:2]), Classes(WORDS[:4])])))
    tree.positions, tree.weights = tree.positions[:1], NONE
    tree.scores = random_scores(tree, draw(st.sampled_from([3, 700, 30_000])))
    return tree


def random_scores(tree, most):
    return tree.rng.integers(-most, most + 1, (tree.codes.shape[1], tree.target.n_values)).astype(np.int32)


def seen(tree):
    """The target as trees see it."""
    if isinstance(tree.target, Classes):
        return tree.fine_codes
    return np.array([naive.seen_code_of(int(fine)) for fine in tree.fine_codes], dtype=int)


def counter_of(tree, n_jobs=1):
    counter = MemoryCounter(tree.codes, tree.fine_codes, tree.domain, tree.target, Workers(n_jobs))
    if tree.scores is not None:
        put_at(counter, np.arange(len(tree.scores))).start_scores()
        counter.add_scores(tree.scores)
    counter._start(tree.positions.copy(), tree.weights, tree.n_roots)
    if tree.scores is not None:
        counter.spread_residuals()
    return counter


def expected_counts(tree, positions, first, wanted):
    if tree.scores is None:
        table = (tree.codes, tree.domain, tree.target, seen(tree), tree.weights, positions)
        return naive.count_codes(*table, first, wanted)
    records = zip(tree.scores.tolist(), tree.fine_codes.tolist(), strict=True)
    residuals = np.array([naive.whole_residuals(*record) for record in records], dtype=int)
    residuals = residuals.reshape(-1, tree.target.n_values + 1)
    return naive.sum_residual_codes(tree.codes, tree.domain, residuals, positions, first, wanted)


def random_splits(tree, wanted, first):
    """A split of each node of a level, or a leaf; children follow one another after the level."""
    domain, rng, n_nodes = tree.domain, tree.rng, len(wanted)
    features, first_children = np.full(n_nodes, -1), np.full(n_nodes, -1)
    routes = np.zeros((n_nodes, domain.n_codes.max()), dtype=np.uint16)
    parents = []
    for node in range(n_nodes):
        if rng.random() < 0.2:
            continue
        # Mostly a feature that was counted, as the grower takes them.
        offered = np.flatnonzero(wanted[node]) if wanted[node].any() and rng.random() < 0.9 else range(domain.n_features)
        features[node] = feature = rng.choice(offered)
        n_codes = domain.n_codes[feature]
        n_children = int(rng.integers(2, min(n_codes, tree.most_children) + 1)) if n_codes > 1 else 1
        own = [*range(n_children), *rng.integers(0, n_children, n_codes - n_children)]
        routes[node, :n_codes] = rng.permutation(own)
        first_children[node] = first + n_nodes + len(parents)
        parents += [node] * n_children
    return (features, routes, first_children), np.array(parents, dtype=int)


def check_levels(tree, masks, n_jobs=1, n_levels=4, skip=0.15, in_blocks=0.15):
    """Every level equals its twin; some are not counted at all, or in two blocks of nodes."""
    counter, positions, first = counter_of(tree, n_jobs), tree.positions, 0
    above, n_nodes = np.ones((tree.n_roots, tree.domain.n_features), dtype=bool), tree.n_roots
    for _ in range(n_levels):
        wanted = masks(tree.rng, (n_nodes, tree.domain.n_features), above)
        if tree.rng.random() >= skip:
            edges = [0, n_nodes // 2, n_nodes] if tree.rng.random() < in_blocks else [0, n_nodes]
            blocks = [(a, b) for a, b in pairwise(edges) if a < b]
            counts = [count for a, b in blocks for count in counter.count_codes(first + a, wanted[a:b])._value.tolist()]
            assert counts == expected_counts(tree, positions, first, wanted)
        split, parents = random_splits(tree, wanted, first)
        counter.descend(first, *split)
        positions = np.array(naive.descend(tree.codes, positions, first, *split), dtype=int).reshape(positions.shape)
        n_all = first + n_nodes + len(parents)
        expected = naive.count_nodes(tree.target, seen(tree), tree.weights, positions, 0, n_all)
        assert counter.count_nodes(0, n_all)._value.tolist() == expected
        assert counter._positions.tolist() == positions.tolist()
        first, n_nodes, above = first + n_nodes, len(parents), wanted[parents]
        if not n_nodes:
            return


FEWER = settings(FIXED, max_examples=25)


@pytest.mark.slow
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@FEWER
@given(trees(classes))
def test_every_level_of_classes_equals_its_twin(masks, tree):
    check_levels(tree, masks)


@pytest.mark.slow
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@FEWER
@given(trees(bounded))
def test_every_level_of_a_bounded_target_equals_its_twin(masks, tree):
    check_levels(tree, masks)


@pytest.mark.slow
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@FEWER
@given(spread_trees())
def test_every_level_of_spread_residuals_equals_its_twin(masks, tree):
    check_levels(tree, masks)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [trees(st.one_of(classes, bounded)), spread_trees()], ids=["counts", "residuals"])
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
def test_every_level_equals_its_twin_in_several_threads(monkeypatch, masks, kinds):
    monkeypatch.setattr(workers, "THREAD_CELLS", 0)
    n_parts = []
    parts = Workers.parts
    monkeypatch.setattr(Workers, "parts", lambda *asked: n_parts.append(len(parts(*asked))) or parts(*asked))

    @settings(FIXED, max_examples=15)
    @given(kinds)
    def check(tree):
        check_levels(tree, masks, n_jobs=3)

    check()
    assert 3 in n_parts


@pytest.fixture
def n_derived(monkeypatch):
    """How many nodes of each level were not counted."""
    derived, subtract = [], kernels.subtract_siblings
    monkeypatch.setattr(kernels, "subtract_siblings", lambda *found: derived.append(len(found[1])) or subtract(*found))
    return derived


def full_tree(n_records=200, n_features=3, target=None, seed=0):
    """Records at one root."""
    rng, target = np.random.default_rng(seed), target or Classes(["a", "b"])
    domain = Domain.of(Schema({f"x{index}": Numeric(0, 8) for index in range(n_features)}, target), Grid(8))
    return SimpleNamespace(
        domain=domain, target=target, rng=rng, n_roots=1, most_children=4, weights=NONE,
        codes=random_codes(domain, n_records, rng),
        fine_codes=rng.integers(0, target.width if isinstance(target, Classes) else FINE_STEPS + 1, n_records),
        positions=np.zeros((1, n_records), dtype=np.int32), scores=None,
    )  # fmt: skip


def halves(domain, n_nodes, first):
    """Every node is split in two at the middle of its first feature."""
    routes = np.zeros((n_nodes, domain.n_codes.max()), dtype=np.uint16)
    routes[:, domain.n_codes[0] // 2 : domain.n_codes[0]] = 1
    return np.zeros(n_nodes, dtype=int), routes, first + n_nodes + 2 * np.arange(n_nodes)


LEVELS = {
    "classes": (Classes(["a", "b"]), False),
    "bounded": (Bounded(0, 1), False),
    "residuals of two classes": (Classes(["a", "b"]), True),
    "residuals of three classes": (Classes(["a", "b", "c"]), True),
}


@pytest.mark.parametrize(("target", "is_spread"), LEVELS.values(), ids=LEVELS)
def test_one_child_of_each_split_is_not_counted_if_its_parent_was(n_derived, target, is_spread):
    tree = full_tree(target=target)
    tree.scores = random_scores(tree, 700) if is_spread else None
    counter, first = counter_of(tree), 0
    for n_nodes in (1, 2, 4):
        wanted = np.ones((n_nodes, 3), dtype=bool)
        counts = counter.count_codes(first, wanted)._value
        assert counts.tolist() == expected_counts(tree, counter._positions, first, wanted)
        counter.descend(first, *halves(tree.domain, n_nodes, first))
        first += n_nodes
    assert n_derived == [1, 2]


def passed_over(monkeypatch):
    """The number of times that all records were looked at to count those of each node."""
    passes = []
    for name in ("count_class_nodes", "sum_value_nodes"):
        kernel = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *known, kernel=kernel: passes.append(1) or kernel(*known))
    return passes


def node_counts(tree, counter, first, n_nodes):
    return naive.count_nodes(tree.target, seen(tree), counter._weights, counter._positions, first, n_nodes)


@pytest.mark.parametrize("target", [Classes(["a", "b"]), Bounded(0, 1)], ids=["classes", "bounded"])
def test_no_pass_is_made_to_count_the_children_of_a_counted_level(monkeypatch, target):
    tree, passes = full_tree(target=target), passed_over(monkeypatch)
    tree.weights = tree.rng.integers(0, 256, tree.positions.shape).astype(np.uint8)
    counter, first = counter_of(tree), 0
    for n_nodes in (1, 2, 4):
        counter.count_codes(first, np.ones((n_nodes, 3), dtype=bool))
        counter.descend(first, *halves(tree.domain, n_nodes, first))
        first += n_nodes
        for nodes in [(0, first + 2 * n_nodes), (first, 2 * n_nodes), (first + 1, 1)]:
            assert counter.count_nodes(*nodes)._value.tolist() == node_counts(tree, counter, *nodes)
    assert not passes


def leaf_beside(counter, tree):
    _, routes, _ = halves(tree.domain, 2, 1)
    counter.count_codes(1, np.ones((2, 3), dtype=bool))
    counter.descend(1, np.array([0, -1]), routes, np.array([3, -1]))


def leaf_above(counter, tree):
    leaf_beside(counter, tree)
    counter.count_codes(3, np.ones((2, 3), dtype=bool))
    counter.descend(3, *halves(tree.domain, 2, 3))


def half_a_level(counter, tree):
    counter.count_codes(1, np.ones((1, 3), dtype=bool))
    counter.descend(1, *halves(tree.domain, 1, 2))


def not_counted(counter, tree):
    counter.count_codes(1, np.array([[False, True, True]] * 2))
    counter.descend(1, *halves(tree.domain, 2, 1))


ELSEWHERE = [leaf_beside, leaf_above, half_a_level, not_counted]


@pytest.mark.parametrize("go_on", ELSEWHERE, ids=[each.__name__ for each in ELSEWHERE])
def test_records_that_no_counted_level_accounts_for_are_counted_in_a_pass(monkeypatch, go_on):
    tree, passes = full_tree(), passed_over(monkeypatch)
    counter = counter_of(tree)
    counter.count_codes(0, np.ones((1, 3), dtype=bool))
    counter.descend(0, *halves(tree.domain, 1, 0))
    go_on(counter, tree)
    assert counter.count_nodes(0, 9)._value.tolist() == node_counts(tree, counter, 0, 9)
    assert passes


def test_no_child_is_derived_from_counts_of_before_residuals_were_spread(n_derived):
    tree = full_tree(target=Classes(["a", "b", "c"]))
    counter = counter_of(tree)
    counter.start_scores()
    counter.count_codes(0, np.ones((1, 3), dtype=bool))
    counter.descend(0, *halves(tree.domain, 1, 0))
    counter.spread_residuals()
    tree.scores, wanted = random_scores(tree, 0), np.ones((2, 3), dtype=bool)
    assert counter.count_codes(1, wanted)._value.tolist() == expected_counts(tree, counter._positions, 1, wanted)
    assert not n_derived


def test_spreading_anew_forgets_what_was_counted_by_earlier_scores(n_derived):
    tree = full_tree()
    tree.scores = random_scores(tree, 700)
    counter = counter_of(tree)
    counter.count_codes(0, np.ones((1, 3), dtype=bool))
    counter.descend(0, *halves(tree.domain, 1, 0))
    votes = np.array([[0, 0], [900, -900], [-40, 300]], dtype=np.int32)
    counter.add_scores(votes)
    counter.spread_residuals()
    tree.scores, wanted = tree.scores + votes[counter._positions[0]], np.ones((2, 3), dtype=bool)
    assert counter.count_codes(1, wanted)._value.tolist() == expected_counts(tree, counter._positions, 1, wanted)
    assert not n_derived


def test_no_more_counts_are_kept_than_there_is_room_for(n_derived, monkeypatch):
    monkeypatch.setattr(memory, "KEPT_CELLS", 0)

    @settings(FIXED, max_examples=15)
    @given(trees(st.one_of(classes, bounded)))
    def check(tree):
        check_levels(tree, masks_all)

    check()
    assert not n_derived


def test_what_only_some_children_want_is_derived_for_no_other_feature(n_derived):
    tree = full_tree()
    counter = counter_of(tree)
    counter.count_codes(0, np.ones((1, 3), dtype=bool))
    split = halves(tree.domain, 1, 0)
    counter.descend(0, *split)
    positions = naive.descend(tree.codes, tree.positions, 0, *split)
    for wanted in ([[1, 0, 0], [1, 0, 0]], [[1, 1, 0], [1, 0, 1]]):
        wanted = np.array(wanted, dtype=bool)
        table = (tree.codes, tree.domain, tree.target, tree.fine_codes, NONE, positions)
        assert counter.count_codes(1, wanted)._value.tolist() == naive.count_codes(*table, 1, wanted)
    assert n_derived == [1, 1]


def test_what_the_parent_did_not_want_is_counted(n_derived):
    tree = full_tree()
    counter = counter_of(tree)
    counter.count_codes(0, np.array([[True, False, True]]))
    split = halves(tree.domain, 1, 0)
    counter.descend(0, *split)
    positions, wanted = naive.descend(tree.codes, tree.positions, 0, *split), np.ones((2, 3), dtype=bool)
    table = (tree.codes, tree.domain, tree.target, tree.fine_codes, NONE, positions)
    assert counter.count_codes(1, wanted)._value.tolist() == naive.count_codes(*table, 1, wanted)
    assert n_derived == [0]


def test_a_level_that_was_counted_in_part_is_no_parent(n_derived):
    tree = full_tree()
    counter = counter_of(tree)
    counter.descend(0, *halves(tree.domain, 1, 0))
    counter.count_codes(1, np.ones((1, 3), dtype=bool))  # and not node 2
    counter.descend(1, *halves(tree.domain, 2, 1))
    wanted = np.ones((4, 3), dtype=bool)
    table = (tree.codes, tree.domain, tree.target, tree.fine_codes, NONE, counter._positions)
    assert counter.count_codes(3, wanted)._value.tolist() == naive.count_codes(*table, 3, wanted)
    assert not n_derived


def weigh(counter, tree):
    n_nodes, n_scores = 3, tree.target.n_values if isinstance(tree.target, Classes) else 1
    counter.start_scores()
    counter.add_scores(tree.rng.integers(-2000, 2000, (n_nodes, n_scores)).astype(np.int32))
    counter.weigh_residuals()


def set_residual_window(counter, tree):
    counter.start_scores()
    counter.add_scores(tree.rng.integers(0, FINE_STEPS, (3, 1)).astype(np.int32))
    counter.set_residual_window(FINE_STEPS // 4)


def weigh_distances(counter, tree):
    counter.weigh_distances(1, np.array([300, 700]), 500)


CHANGES = {
    "two classes, weighed by residuals": (Classes(["a", "b"]), weigh),
    "three classes, weighed by residuals": (Classes(["a", "b", "c"]), weigh),
    "seen by residuals": (Bounded(0, 1), set_residual_window),
    "turned around centres": (Bounded(0, 1), weigh_distances),
}


@pytest.mark.parametrize(("target", "change"), CHANGES.values(), ids=CHANGES)
def test_no_child_is_derived_from_counts_of_records_that_counted_differently(n_derived, target, change):
    tree = full_tree(target=target)
    counter = counter_of(tree)
    before = counter.count_codes(0, np.ones((1, 3), dtype=bool))._value
    counter.descend(0, *halves(tree.domain, 1, 0))
    change(counter, tree)
    wanted = np.ones((2, 3), dtype=bool)
    target, labels = (target, counter._target_codes) if counter._sides is None else (TWO_SIDES, counter._sides)
    expected = naive.count_codes(tree.codes, tree.domain, target, labels, counter._weights, counter._positions, 1, wanted)
    assert np.sum(expected) != before.sum()  # else what was kept would do as well
    assert counter.count_codes(1, wanted)._value.tolist() == expected
    assert not n_derived


@pytest.mark.parametrize("change", [weigh, weigh_distances], ids=["weighed", "turned around"])
def test_a_level_that_was_counted_before_records_changed_is_no_parent(change):
    tree = full_tree(target=Classes(["a", "b"]) if change is weigh else Bounded(0, 1))
    counter = counter_of(tree)
    counter.descend(0, *halves(tree.domain, 1, 0))
    counter.count_codes(1, np.ones((2, 3), dtype=bool))
    change(counter, tree)
    counter.descend(1, *halves(tree.domain, 2, 1))
    wanted = np.ones((4, 3), dtype=bool)
    target, labels = (tree.target, counter._target_codes) if counter._sides is None else (TWO_SIDES, counter._sides)
    table = (tree.codes, tree.domain, target, labels, counter._weights, counter._positions)
    assert counter.count_codes(3, wanted)._value.tolist() == naive.count_codes(*table, 3, wanted)


def deal_anew(counter, tree):
    positions = tree.rng.integers(0, 3, tree.positions.shape).astype(np.int32)
    counter._start(positions, NONE)


def deal_by_errors(counter, tree):
    middle = tree.domain.n_codes[0] // 2
    route = [int(code >= middle) for code in range(tree.domain.n_codes[0])]
    votes = [(0, route, [[9, 0], [0, 9]]), [0, 9]]
    forest = naive.plant(tree.domain, tree.target, *votes)
    counter.deal_by_errors(SimpleNamespace(choices=lambda codes: naive_choices(forest, codes), n_trees=2), 3, Entropy(0))


def naive_choices(forest, codes):
    return np.array(
        [[int(np.nanargmax(forest.counts[naive.path(forest, tree, record)[-1]])) for record in codes.T] for tree in range(2)]
    )


@pytest.mark.parametrize("deal", [deal_anew, deal_by_errors], ids=["dealt anew", "dealt by errors"])
def test_new_trees_follow_from_no_earlier_ones(deal):
    tree = full_tree()
    counter = counter_of(tree)
    counter.count_codes(0, np.ones((1, 3), dtype=bool))
    counter.descend(0, *halves(tree.domain, 1, 0))
    deal(counter, tree)
    wanted = np.ones((3, 3), dtype=bool)
    table = (tree.codes, tree.domain, tree.target, tree.fine_codes)
    assert counter.count_codes(0, wanted)._value.tolist() == naive.count_codes(
        *table, counter._weights, counter._positions, 0, wanted
    )


def test_counts_from_before_a_deal_are_no_parents_after_it():
    tree = full_tree()
    counter = counter_of(tree)
    counter.count_codes(0, np.ones((1, 3), dtype=bool))
    n_records = tree.codes.shape[1]
    counter._start(np.zeros((1, n_records), dtype=np.int32), np.full((1, n_records), 2, dtype=np.uint8))
    counter.descend(0, *halves(tree.domain, 1, 0))
    wanted = np.ones((2, 3), dtype=bool)
    table = (tree.codes, tree.domain, tree.target, tree.fine_codes, counter._weights, counter._positions)
    assert counter.count_codes(1, wanted)._value.tolist() == naive.count_codes(*table, 1, wanted)


ONE_MORE = kernels.ROWS_AT_ONCE + 1
LONG = {
    "classes, every feature": (Classes(["a", "b", "c"]), masks_all),
    "classes, few features": (Classes(["a", "b"]), lambda rng, shape, above: np.eye(*shape, dtype=bool)),
    "a bounded target": (Bounded(0, 1), masks_all),
}


@pytest.mark.slow
@pytest.mark.parametrize(("target", "masks"), LONG.values(), ids=LONG)
def test_more_records_than_are_worked_on_at_once_are_all_counted(target, masks):
    tree = full_tree(n_records=ONE_MORE, target=target)
    tree.positions = tree.rng.integers(0, 3, (1, ONE_MORE)).astype(np.int32)
    tree.positions[0, -1] = 0
    tree.weights = tree.rng.integers(0, 256, (1, ONE_MORE)).astype(np.uint8)
    tree.weights[0, -1] = 255
    wanted = masks(tree.rng, (3, 3), None)
    assert counter_of(tree).count_codes(0, wanted)._value.tolist() == expected_counts(tree, tree.positions, 0, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_residuals_of_more_records_than_are_worked_on_at_once_are_all_summed(n_classes):
    tree = full_tree(n_records=ONE_MORE, target=Classes(WORDS[:n_classes]))
    tree.positions = tree.rng.integers(0, 3, (1, ONE_MORE)).astype(np.int32)
    tree.scores = random_scores(tree, 700)
    # The last record is of the second class, and sure to be of the first.
    tree.positions[0, -1], tree.fine_codes[-1], tree.scores[-1] = 0, 1, [1 << 29, *[-(1 << 29)] * (n_classes - 1)]
    wanted = np.array([[True, True, False], [False, True, True], [True, False, True]])
    assert counter_of(tree).count_codes(0, wanted)._value.tolist() == expected_counts(tree, tree.positions, 0, wanted)


def test_the_largest_child_of_a_split_is_the_one_that_is_not_counted():
    # Node 0 splits a feature of 3 codes into children of 5, 9 and 2 records; node 1 is a leaf; the family of node 2
    # would end behind the counted nodes.
    counts = np.zeros((3, 3, 2), dtype=np.int64)
    counts[0] = [[4, 1], [2, 0], [0, 9]]
    counts[2] = [[1, 0], [0, 1], [0, 0]]
    routes = np.array([[0, 2, 1], [0, 0, 0], [0, 1, 1]], dtype=np.uint16)
    known = (counts, np.array([0, 3]), np.array([0, -1, 0]), routes, np.array([7, -1, 10]), 7)
    derived, parents, families = kernels.largest_children(*known, 4)
    assert (derived.tolist(), parents.tolist(), families.tolist()) == ([1], [0], [[0, 3]])
    derived, parents, families = kernels.largest_children(*known, 5)
    assert (derived.tolist(), parents.tolist(), families.tolist()) == ([1, 3], [0, 2], [[0, 3], [3, 5]])
