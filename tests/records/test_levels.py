"""Counts of each level are those of a slow twin, however records are split, weighed, and dealt anew."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import naive
from tests.support.strategies import FIXED, SEEDS, WORDS, bounded, grids, put_at, random_codes, schemas

from dpforest import Bounded, Classes, Numeric, Schema
from dpforest.common import work as workers
from dpforest.common.work import Workers
from dpforest.records import kernels
from dpforest.records.counter import MemoryCounter
from dpforest.schema import FINE_STEPS, TARGET_STEPS
from dpforest.schema.domain import Domain, Grid

NONE = np.empty((0, 0), dtype=np.uint8)
TWO_SIDES = Classes(["below", "above"])
# The features that each node of a level wants, from a random generator, their shape, and what their parents wanted.
MASKS = {
    "all": lambda rng, shape, above: np.ones(shape, dtype=bool),
    "alike": lambda rng, shape, above: np.tile(above.any(axis=0) & (rng.random(shape[1]) < 0.8), (shape[0], 1)),
    "shrinking": lambda rng, shape, above: above & (rng.random(shape) < 0.9),
    "drawn": lambda rng, shape, above: rng.random(shape) < 0.7,
    "few": lambda rng, shape, above: rng.random(shape) < 0.25,
}


@st.composite
def trees(draw):
    """Encoded records at the roots of trees that will be split at random; some begin with residuals."""
    targets = st.one_of(st.sampled_from([Classes(WORDS[:2]), Classes(WORDS[:4])]), bounded)
    schema, rng = draw(schemas(targets)), np.random.default_rng(draw(SEEDS))
    n_records, n_copies = draw(st.sampled_from([0, 1, 30, 60, 60, 60])), draw(st.sampled_from([1, 1, 1, 2]))
    tree = table_of(Domain.of(schema, draw(grids)), schema.target, n_records, rng, n_copies, draw(st.integers(1, 2)))
    if draw(st.booleans()):
        tree.weights = rng.integers(0, 256, (n_copies, n_records)).astype(np.uint8)
    if isinstance(tree.target, Classes) and n_copies == 1 and draw(st.sampled_from([True, False, False])):
        tree.scores, tree.weights = random_scores(tree, draw(st.sampled_from([3, 700, 30_000]))), NONE
    return tree


def table_of(domain, target, n_records, rng, n_copies=1, n_roots=1):
    n_fine = target.width if isinstance(target, Classes) else FINE_STEPS + 1
    return SimpleNamespace(
        domain=domain, target=target, rng=rng, n_roots=n_roots, weights=NONE, scores=None,
        codes=random_codes(domain, n_records, rng), fine_codes=rng.integers(0, n_fine, n_records),
        positions=rng.integers(0, n_roots, (n_copies, n_records)).astype(np.int32),
    )  # fmt: skip


def full_tree(target, n_records=200, n_features=3, n_roots=1):
    """Records of some features of nine codes."""
    domain = Domain.of(Schema({f"x{index}": Numeric(0, 8) for index in range(n_features)}, target), Grid(8))
    return table_of(domain, target, n_records, np.random.default_rng(0), n_roots=n_roots)


def random_scores(tree, most):
    return tree.rng.integers(-most, most + 1, (tree.codes.shape[1], tree.target.n_values)).astype(np.int32)


def counter_of(tree, n_jobs=1):
    counter = MemoryCounter(tree.codes, tree.fine_codes, tree.domain, tree.target, Workers(n_jobs))
    if tree.scores is not None:
        put_at(counter, np.arange(len(tree.scores))).start_scores()
        counter.add_scores(tree.scores)
    counter._start(tree.positions.copy(), tree.weights)
    if tree.scores is not None:
        counter.spread_residuals()
    return counter


def expected_counts(tree, counter, positions, first, wanted):
    """What slow twins count; what each record counts as is compared with twins in other tests."""
    if counter._residuals is not None:
        residuals = counter._residuals[:, : tree.target.width + 1].astype(int)
        return naive.sum_residual_codes(tree.codes, tree.domain, residuals, positions, first, wanted)
    target, labels = (tree.target, counter._target_codes) if counter._sides is None else (TWO_SIDES, counter._sides)
    return naive.count_codes(tree.codes, tree.domain, target, labels, counter._weights, positions, first, wanted)


def expected_nodes(tree, counter, positions, first, n_nodes):
    weights = counter._weights if counter._sides is None else NONE
    return naive.count_nodes(tree.target, counter._target_codes, weights, positions, first, n_nodes)


def random_splits(tree, wanted, first):
    """A split of each node of a level, or a leaf; children follow one another after the level."""
    domain, rng, n_nodes = tree.domain, tree.rng, len(wanted)
    features, first_children = np.full(n_nodes, -1), np.full(n_nodes, -1)
    routes = np.zeros((n_nodes, domain.n_codes.max()), dtype=np.uint16)
    parents, leaves = [], rng.choice([0.0, 0.3])
    for node in range(n_nodes):
        if rng.random() < leaves:
            continue
        # Mostly a feature that was counted, as the grower takes them.
        offered = np.flatnonzero(wanted[node]) if wanted[node].any() and rng.random() < 0.9 else range(domain.n_features)
        features[node] = feature = rng.choice(offered)
        n_codes = domain.n_codes[feature]
        n_children = int(rng.integers(2, min(n_codes, 4) + 1)) if n_codes > 1 else 1
        own = [*range(n_children), *rng.integers(0, n_children, n_codes - n_children)]
        routes[node, :n_codes] = rng.permutation(own)
        first_children[node] = first + n_nodes + len(parents)
        parents += [node] * n_children
    return (features, routes, first_children), np.array(parents, dtype=int)


def change(counter, tree, n_nodes):
    """Have records of one tree count as something else from now on."""
    counter.start_scores()
    votes = tree.rng.integers(-2000, 2000, (n_nodes, len(counter._scores))).astype(np.int32)
    counter.add_scores(votes)
    which = tree.rng.integers(2) or counter._residuals is not None
    if isinstance(tree.target, Classes):
        (counter.spread_residuals if which else counter.weigh_residuals)()
    elif which:
        counter.set_residual_window(FINE_STEPS // 4)
    else:
        counter.weigh_distances(0, tree.rng.integers(0, TARGET_STEPS + 1, n_nodes), 500)


def check_levels(tree, masks, n_jobs=1):
    """Every level equals its twin; some are counted or split in part, and records may change or be dealt anew."""
    counter, positions, first, n_nodes = counter_of(tree, n_jobs), tree.positions, 0, tree.n_roots
    above, rng = np.ones((n_nodes, tree.domain.n_features), dtype=bool), tree.rng
    for _ in range(4):
        wanted, is_changed = masks(rng, (n_nodes, tree.domain.n_features), above), rng.random(3) < (0.3, 0.3, 0.1)
        if is_changed[0] and len(positions) == 1:
            change(counter, tree, first + n_nodes)
        middle, is_half = n_nodes // 2, n_nodes > 1 and rng.random() < 0.2
        blocks = [[(0, n_nodes)]] * 5 + [[(0, middle), (middle, n_nodes)], [(0, middle)], []]
        for begin, end in [(0, middle)] if is_half else blocks[rng.integers(len(blocks))]:
            own = (first + begin, wanted[begin:end])
            assert counter.count_codes(*own)._value.tolist() == expected_counts(tree, counter, positions, *own)
        if is_changed[1] and len(positions) == 1:
            change(counter, tree, first + n_nodes)
        if is_changed[2]:
            positions = rng.integers(first, first + n_nodes, positions.shape).astype(np.int32)
            counter._start(positions.copy(), rng.integers(0, 256, positions.shape).astype(np.uint8))
        split, parents = random_splits(tree, wanted, first)
        if is_half:  # the others are leaves
            split[0][middle:], split[2][middle:], parents = -1, -1, parents[parents < middle]
        counter.descend(first, *(own[:middle] if is_half else own for own in split))
        positions = np.array(naive.descend(tree.codes, positions, first, *split), dtype=int).reshape(positions.shape)
        if rng.random() < 0.5:  # else records move while they are counted
            n_all = first + n_nodes + len(parents)
            found = counter.count_nodes(0, n_all)._value.tolist()
            assert found == expected_nodes(tree, counter, positions, 0, n_all)
            assert counter._positions.tolist() == positions.tolist()
        first, n_nodes, above = first + n_nodes, len(parents), wanted[parents]
        if not n_nodes:
            return


@pytest.mark.slow
@pytest.mark.parametrize(("n_jobs", "n_examples"), [(1, 250), (3, 80)], ids=["one thread", "three threads"])
def test_every_level_equals_its_twin(monkeypatch, n_jobs, n_examples):
    monkeypatch.setattr(workers, "THREAD_CELLS", 0)
    parts, n_parts = Workers.parts, set()
    monkeypatch.setattr(Workers, "parts", lambda *asked: n_parts.add(len(parts(*asked))) or parts(*asked))

    @settings(FIXED, max_examples=n_examples)
    @given(trees(), st.sampled_from([*MASKS]))
    def check(tree, masks):
        check_levels(tree, MASKS[masks], n_jobs)

    check()
    assert max(n_parts) == n_jobs


@settings(FIXED, max_examples=15)
@given(trees(), st.sampled_from([*MASKS]))
def test_every_level_of_some_trees_equals_its_twin(tree, masks):
    check_levels(tree, MASKS[masks])


def test_any_number_of_features_is_counted_together():
    for n_features, counts_as in product(range(1, 11), ("one", "a weight", "residuals")):
        tree = full_tree(Classes(WORDS[:3]), 60, n_features)
        if counts_as == "a weight":
            tree.weights = tree.rng.integers(0, 256, (1, 60)).astype(np.uint8)
        if counts_as == "residuals":
            tree.scores = random_scores(tree, 700)
            tree.scores[::5] = tree.rng.choice([-(1 << 29), -40_000, 0, 40_000, 1 << 29], tree.scores[::5].shape)
        check_levels(tree, MASKS["drawn"])


ONE_MORE = kernels.ROWS_AT_ONCE + 1
LONG = {
    "classes, every feature": (Classes(["a", "b", "c"]), np.ones((3, 3), dtype=bool), False),
    "classes, few features": (Classes(["a", "b"]), np.eye(3, dtype=bool), False),
    "a bounded target": (Bounded(0, 1), np.ones((3, 3), dtype=bool), False),
    "residuals of two classes": (Classes(WORDS[:2]), ~np.eye(3, dtype=bool), True),
    "residuals of four classes": (Classes(WORDS[:4]), ~np.eye(3, dtype=bool), True),
}


@pytest.mark.slow
@pytest.mark.parametrize(("target", "wanted", "is_spread"), LONG.values(), ids=LONG)
def test_more_records_than_are_worked_on_at_once_are_all_counted(target, wanted, is_spread):
    tree = full_tree(target, ONE_MORE, n_roots=3)
    if is_spread:  # the last record is of the second class, and sure to be of the first
        tree.scores = random_scores(tree, 700)
        tree.fine_codes[-1], tree.scores[-1] = 1, [1 << 29, *[-(1 << 29)] * (target.n_values - 1)]
    else:
        tree.weights = tree.rng.integers(0, 256, (1, ONE_MORE)).astype(np.uint8)
        tree.weights[0, -1] = 255
    counter = counter_of(tree)
    assert counter.count_codes(0, wanted)._value.tolist() == expected_counts(tree, counter, tree.positions, 0, wanted)
    if is_spread:
        assert counter._residuals[-1, : target.width + 1].tolist() == naive.whole_residuals(tree.scores[-1].tolist(), 1)
