"""Trees that take turns on batches, in memory, against slow twins: one batch is counted, and all records keep scores."""

import numpy as np
import pytest
from tests.conformance.conformance import random_splits
from tests.support import naive
from tests.support.encoded import opened
from tests.support.laws import GivenDraws
from tests.support.strategies import random_codes
from tests.support.targets import NUMBER, classes

from dpforest import Categorical, Classes, Numeric, Schema
from dpforest.common import work
from dpforest.common.work import Workers
from dpforest.forest.tree import SCORE_STEPS
from dpforest.mechanisms import Entropy
from dpforest.records.base import AllTrees, OneTree
from dpforest.records.counter import MemoryCounter
from dpforest.schema import FINE_STEPS, TARGET_STEPS
from dpforest.schema.domain import Domain, Grid

MOST_SCORE = 1 << 29
ENTROPY = Entropy(1)
TARGETS = {"two classes": classes(2), "three classes": classes(3), "a number": NUMBER}
# What records count as in a tree; see ``Table.count_as``.
WAYS = {
    "plain": "two classes", "weights of two": "two classes", "weights of three": "three classes",
    "residuals of two": "two classes", "residuals of three": "three classes", "a window": "a number",
}  # fmt: skip
every_way = pytest.mark.parametrize("way", WAYS)
HALF = FINE_STEPS // 8


class Table:
    """A counter beside plain arrays of the same records, in the order that they were given in; the first code names one."""

    def __init__(self, kind, n_records, batches, n_batches, n_jobs=1):
        target, rng = TARGETS[kind], np.random.default_rng(n_records)
        names = Categorical(range(max(n_records, 1)))
        schema = Schema({"record": names, "x": Numeric(0, 4), "c": Categorical(["a", "b"])}, target)
        self.domain, self.target = Domain.of(schema, Grid(4)), target
        self.codes = random_codes(self.domain, n_records, rng)
        self.codes[0] = np.arange(n_records)
        is_class = isinstance(target, Classes)
        self.labels = rng.integers(0, target.n_values if is_class else FINE_STEPS + 1, n_records)
        self.n_scores = target.n_values if is_class else 1
        self.seen = self.labels if is_class else np.array([*map(naive.seen_code_of, self.labels.tolist())], dtype=int)
        self.batches, self.n_batches = np.asarray(batches), n_batches
        self.scores = np.zeros((n_records, self.n_scores), dtype=int)
        self.counter = MemoryCounter(self.codes.copy(), self.labels, self.domain, target, Workers(n_jobs))
        self.counter.start_scores()
        self.counter.divide(n_batches, GivenDraws(self.batches))

    def kept_scores(self):
        """The scores that the counter has, in the order of names."""
        return self.counter._scores[:, np.argsort(self.counter._codes[0])].T

    def members(self, batch):
        return np.ones(len(self.labels), dtype=bool) if batch is None else self.batches == batch

    def start_tree(self, way, batch):
        """Take a turn, deal, and say what records count as."""
        self.counter.take_turn(batch)
        self.counter.deal(AllTrees(1), ENTROPY)
        self.count_as(way, self.members(batch))

    def count_as(self, way, members):
        if way.startswith("weights"):
            self.counter.weigh_residuals()
        elif way.startswith("residuals"):
            self.counter.spread_residuals()
        elif way == "a window":
            self.counter.set_residual_window(HALF)
            seen = np.clip(self.labels - self.scores[:, 0] + HALF, 0, 2 * HALF) * TARGET_STEPS // (2 * HALF)
            self.seen = np.where(members, seen, self.seen)

    def expect(self, way, positions, members, first, n_nodes):
        """Codes and nodes of the members as slow twins count them."""
        at, wanted = [np.asarray(positions)[0, members]], np.ones((n_nodes, self.domain.n_features), dtype=bool)
        known, residuals = (self.target, self.seen[members]), self.residuals()[members]
        weights = [residuals[:, -1]] if way.startswith("weights") else []
        nodes = naive.count_nodes(*known, weights, at, first, n_nodes)
        if way.startswith("residuals"):
            return naive.sum_residual_codes(self.codes[:, members], self.domain, residuals, at, first, wanted), nodes
        return naive.count_codes(self.codes[:, members], self.domain, *known, weights, at, first, wanted), nodes

    def residuals(self):
        if not isinstance(self.target, Classes):
            return np.zeros((len(self.labels), 1), dtype=int)
        rows = [naive.whole_residuals(*record) for record in zip(self.scores.tolist(), self.labels.tolist(), strict=True)]
        return np.array(rows, dtype=int).reshape(len(rows), self.n_scores + 1)

    def grow(self, way, batch, rng, most=SCORE_STEPS):
        """A tree of random splits and votes on one batch, which counts as slow twins say; all records get its votes."""
        self.start_tree(way, batch)
        members, positions, first, n_open = self.members(batch), [[0] * len(self.labels)], 0, 1
        while n_open:
            codes, nodes = self.expect(way, positions, members, first, n_open)
            wanted = np.ones((n_open, self.domain.n_features), dtype=bool)
            assert opened(self.counter.count_codes(first, wanted)).tolist() == codes
            assert opened(self.counter.count_nodes(first, n_open)).tolist() == nodes
            if first > 4:
                break
            splits, n_children = random_splits(self.domain, first, n_open, rng)
            self.counter.descend(*splits)
            positions = naive.descend(self.codes, positions, *splits)
            first, n_open = first + n_open, n_children
        if isinstance(self.target, Classes):
            sums, leaves = self.residuals()[members], np.array(positions[0], dtype=int)[members]
            expected = [sums[leaves == node].sum(axis=0).tolist() for node in range(first + n_open)]
            assert opened(self.counter.sum_residuals(0, first + n_open)).tolist() == expected
        values = rng.integers(-most, most + 1, (first + n_open, self.n_scores)).astype(np.int32)
        self.counter.add_scores(values)
        self.scores = self.scores + values[np.array(positions[0], dtype=int)]

    def add_by_code(self, features, rng):
        """Scores for each code of some features, which all records get, whatever the turn."""
        values = [rng.integers(-5_000, 5_000, (self.domain.n_codes[k], self.n_scores)) for k in features]
        self.counter.add_by_code(features, values)
        for feature, own in zip(features, values, strict=True):
            self.scores = self.scores + own[self.codes[feature]]


def table_of(kind, n_batches=3):
    return Table(kind, 40, np.random.default_rng(2).integers(0, n_batches, 40), n_batches)


# Numbers of records, batches and threads; with few records, or all of them in batches of an even number, some are empty.
@every_way
@pytest.mark.parametrize(("n_records", "n_batches", "n_jobs"), [(40, 1, 1), (50, 3, 3), (30, 4, 1), (0, 2, 1), (3, 16, 1)])
def test_a_batch_is_counted_alone_and_all_records_keep_the_scores_of_all_trees(
    monkeypatch, way, n_records, n_batches, n_jobs
):
    monkeypatch.setattr(work, "THREAD_CELLS", 0)
    rng = np.random.default_rng(3)
    batches = rng.integers(0, n_batches, n_records) if n_batches % 2 else 2 * np.arange(n_records) % n_batches
    table = Table(WAYS[way], n_records, batches, n_batches, n_jobs)
    for batch in [*range(min(n_batches, 4)), *rng.integers(0, n_batches, 4).tolist(), None, 0, None, n_batches - 1]:
        table.counter.take_turn(int(rng.integers(n_batches)))  # in which nothing is asked
        table.grow(way, batch, rng)
        table.add_by_code([[], [1], [2, 1], [0, 1, 2], [1, 1]][rng.integers(5)], rng)
    for _ in range(2):
        table.counter.take_turn(None)
        assert table.kept_scores().tolist() == table.scores.tolist()
    if n_batches % 2 == 0:
        table.start_tree("plain", 1)
        assert not opened(table.counter.count_nodes(0, 1)).any()


def test_leads_and_values_are_those_of_the_batch_in_turn():
    table, rng = table_of("three classes"), np.random.default_rng(5)
    for batch in (0, 1, 2, None):
        table.grow("plain", batch, rng, most=300)
        members = table.members(batch)
        expected = naive.count_leads(table.scores[members].tolist(), table.labels[members].tolist(), 64, 10)
        assert opened(table.counter.count_leads(64, 10)).tolist() == expected
    numbers = table_of("a number")
    for batch in (2, 0, None):
        numbers.start_tree("plain", batch)
        expected = np.bincount(numbers.seen[numbers.members(batch)], minlength=TARGET_STEPS + 1)
        assert opened(numbers.counter.count_values(0, 1)).tolist() == [expected.tolist()]


def test_sides_of_centres_are_those_of_the_batch_in_turn():
    table = table_of("a number")
    for batch in (1, None):
        table.start_tree("plain", batch)
        table.counter.weigh_distances(0, np.array([500]), 102)
        sides = [naive.side_of(value, 500, 102, 255) for value in table.seen[table.members(batch)].tolist()]
        counts = opened(table.counter.count_codes(0, np.ones((1, 3), dtype=bool)))[0, table.domain.offsets[1] :]
        assert counts[: table.domain.n_codes[1]].sum(axis=0).tolist() == np.sum(sides, axis=0).tolist()


@every_way
def test_targets_which_may_be_the_callers_own_stay_as_they_were(way):
    table, rng = table_of(WAYS[way]), np.random.default_rng(9)
    table.labels.flags.writeable = False
    table.counter = MemoryCounter(table.codes.copy(), table.labels, table.domain, table.target)
    before = table.labels.copy()
    table.counter.start_scores()
    for n_batches in (3, 2):
        table.batches = np.random.default_rng(n_batches).integers(0, n_batches, len(table.labels))
        table.counter.divide(n_batches, GivenDraws(table.batches[table.counter._codes[0]]))
        for batch in (0, 1, None):
            table.grow(way, batch, rng)
    table.counter.add_by_code([1], [np.ones((table.domain.n_codes[1], table.n_scores), dtype=np.int32)])
    np.testing.assert_array_equal(table.labels, before)


@pytest.mark.parametrize("half_width", [1, 3, HALF])
def test_a_window_of_one_batch_leaves_what_is_seen_of_the_others(half_width):
    table, rng = table_of("a number"), np.random.default_rng(10)
    table.grow("plain", 0, rng, most=FINE_STEPS)
    table.counter.take_turn(1)
    table.counter.deal(AllTrees(1), ENTROPY)
    table.counter.set_residual_window(half_width)
    own = np.clip(table.labels - table.scores[:, 0] + half_width, 0, 2 * half_width) * TARGET_STEPS // (2 * half_width)
    for batch, seen in [(1, own), (0, table.seen), (2, table.seen)]:
        table.start_tree("plain", batch)
        expected = np.bincount(seen[table.members(batch)], minlength=TARGET_STEPS + 1)
        assert opened(table.counter.count_values(0, 1)).tolist() == [expected.tolist()]


def test_trees_of_a_later_deal_are_those_of_the_records_in_turn():
    table = table_of("two classes")
    roots = np.random.default_rng(11).integers(0, 2, 40)
    table.counter.take_turn(1)
    names = table.counter._codes[0]
    table.counter.deal(OneTree(2), GivenDraws(roots[names]))
    members = table.members(1)
    expected = naive.count_nodes(table.target, table.labels[members], [], [roots[members]], 0, 2)
    assert opened(table.counter.count_nodes(0, 2)).tolist() == expected
    table.counter.deal(AllTrees(3), ENTROPY)
    table.start_tree("plain", None)
    assert opened(table.counter.count_nodes(0, 3)).sum() == 40  # each record once


def test_votes_of_a_tree_that_grows_on_are_added_where_its_leaves_were():
    table, down = table_of("two classes"), np.zeros((2, int(table_of("two classes").domain.n_codes.max())), dtype=np.uint16)
    table.start_tree("plain", 0)
    table.counter.descend(0, np.array([1]), down[:1], np.array([1]))
    table.counter.add_scores(np.array([[0, 0], [5, 6]], dtype=np.int32))
    table.counter.descend(1, np.array([1]), down[:1], np.array([2]))
    table.counter.add_scores(np.array([[0, 0], [0, 0], [30, 40]], dtype=np.int32))
    table.counter.take_turn(None)
    assert table.kept_scores().tolist() == [[35, 46]] * 40


def test_scores_by_code_are_kept_within_their_range_after_all_were_added():
    table = table_of("two classes", n_batches=1)
    beyond = MOST_SCORE + 5
    up, down = ([np.full((table.domain.n_codes[k], 2), sign * beyond) for k in (1, 2)] for sign in (1, -1))
    table.counter.add_by_code([1, 2], [up[0], down[1]])
    assert not table.kept_scores().any()
    table.counter.add_by_code([1, 2], up)
    assert (table.kept_scores() == MOST_SCORE).all()
    table.counter.add_by_code([1, 2], [up[0], down[1]])
    assert (table.kept_scores() == MOST_SCORE).all()
    table.counter.add_by_code([2], [down[1]])
    assert (table.kept_scores() == -5).all()
    table.counter.add_by_code([1, 2], down)
    assert (table.kept_scores() == -MOST_SCORE).all()


def test_as_many_values_as_features_are_needed():
    table = table_of("two classes")
    with pytest.raises(ValueError, match="zip"):
        table.counter.add_by_code([1, 2], [np.zeros((table.domain.n_codes[1], 2), dtype=int)])
