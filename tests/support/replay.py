"""Fits that are replayed: run again on a neighbouring table with the same released values.

What the gate is handed may then move within the stated bound, in one node of a tree; charges and forest must be the same.
And what the mechanisms ran at says what the move really costs.
"""

from fractions import Fraction
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
from tests.support.strategies import random_codes

from dpforest import Classes
from dpforest.growing import grower
from dpforest.growing.growth import Growth
from dpforest.growing.out_of_bag import OutOfBag
from dpforest.growing.target_range import widened
from dpforest.growing.together import Together
from dpforest.growing.two_phase import TwoPhase
from dpforest.mechanisms import Entropy, Exponential, Gaussian, Geometric, PermuteAndFlip
from dpforest.mechanisms.exact import draw_below
from dpforest.parts.sampling import Disjoint
from dpforest.parts.shape import Facts
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.base import Bound
from dpforest.privacy.events import COUNTS, LEAVES, SPLITS, as_purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.draws import draw_poisson
from dpforest.records.memory.counter import MemoryCounter
from dpforest.schema import FINE_STEPS
from dpforest.schema.domain import Domain


def opened(sealed):
    seen = []
    sealed.map(seen.append)
    return seen[0]


class CoupledEntropy(Entropy):
    """Coins of records come record by record, so that one more record at the end leaves those of the others alone."""

    n_records = 0

    def __init__(self, seed):
        super().__init__(seed)
        self._seed, self._n_calls, self._n_generators = seed, 0, 0

    def run(self, kernel, n_items, *arguments):
        if kernel is not draw_below and kernel is not draw_poisson:
            super().run(kernel, n_items, *arguments)
            return
        # A bootstrap weighs each record 0 or 1 here: bounds are about one record, and weights are proved elsewhere.
        most, values = arguments if kernel is draw_below else (2, arguments[1])
        self._n_calls += 1
        if n_items:
            rng = np.random.default_rng([self._seed, self._n_calls])
            values[:] = rng.integers(0, most, size=(self.n_records, n_items // self.n_records)).T.ravel()

    def generator(self):
        self._n_generators += 1
        return np.random.default_rng([self._seed, self._n_generators, 1])


class WatchedGate(Gate):
    """Keeps what it is handed and what it releases; with a script it releases that instead of its own draws."""

    ran = None  # the mechanism that ran last, and its rate or variance

    def __init__(self, ledger, entropy, script=None):
        super().__init__(ledger, entropy)
        self.queries, self.released, self._script = [], [], None if script is None else iter(script)

    def select(self, scores, valid, bound, amount, label, mechanism=None, distinct=None):
        self._keep(as_purpose(label), scores, bound, amount, valid)
        return self._released(super().select(scores, valid, bound, amount, label, mechanism, distinct))

    def add_noise(self, values, sensitivity, amount, label):
        self._keep(as_purpose(label), values, sensitivity, amount)
        return self._released(super().add_noise(values, sensitivity, amount, label))

    def _keep(self, purpose, sealed, stated, amount, valid=None):
        scope, values = [scope.label for scope in self.ledger._open], opened(sealed).copy()
        query = {"label": str(purpose), "scope": scope, "values": values, "stated": stated, "valid": valid}
        self.queries.append(SimpleNamespace(**query, amount=amount, unit=self.ledger.unit, trees=_trees_of(purpose)))

    def _released(self, drawn):
        released = drawn if self._script is None else next(self._script)
        self.queries[-1].ran = WatchedGate.ran
        self.released.append(released)
        return released


class WatchedGrowth(Growth):
    """The growth that is under way."""

    current = None

    def __init__(self, *arguments):
        super().__init__(*arguments)
        WatchedGrowth.current = self


def _trees_of(purpose):
    """The tree of each row that is asked about; None for questions about whole trees or all records."""
    if purpose.kind in (SPLITS, COUNTS):
        return WatchedGrowth.current.open_trees
    if purpose.kind != LEAVES:
        return None
    forest = WatchedGrowth.current.finish(Classes([0]))
    return forest.trees[forest.is_leaf]


def couple(monkeypatch):
    """Lets coins be drawn record by record, and gates see the growth under way and the mechanisms that run."""
    monkeypatch.setattr(grower, "Growth", WatchedGrowth)
    for name in ("deal", "hold_out", "deal_by_errors"):
        monkeypatch.setattr(MemoryCounter, name, _noting_records(getattr(MemoryCounter, name)))
    for mechanism, method in ((PermuteAndFlip, "select"), (Exponential, "select"), (Geometric, "draw"), (Gaussian, "draw")):
        monkeypatch.setattr(mechanism, method, _noting_strength(getattr(mechanism, method)))


def _noting_records(method):
    def wrapped(self, *arguments):
        CoupledEntropy.n_records = self._target_codes.size
        return method(self, *arguments)

    return wrapped


def _noting_strength(method):
    def wrapped(self, *arguments, **named):
        at = named.get("rate", arguments[-2])
        exact = Gaussian.rounded(at) if isinstance(self, Gaussian) else Fraction(at.numerator, at.denominator)
        WatchedGate.ran = (self.name, exact)
        return method(self, *arguments, **named)

    return wrapped


def facts_of(domain, target, n_rows=3000.0, n_trees=3, epsilon=1.0, delta=0.0):
    n_classes = len(target.labels) if isinstance(target, Classes) else None
    n_numeric = int(domain.is_numeric.sum())
    mean_children = float(domain.n_codes.mean() - 1)
    return Facts(n_rows, epsilon, delta, domain.n_features, n_numeric, mean_children, n_classes, n_trees)


def random_table(schema, grid, n_rows, seed):
    """Random codes and target codes; the label follows the first feature, so that splits have something to find."""
    domain, rng = Domain.of(schema, grid), np.random.default_rng(seed)
    codes = random_codes(domain, n_rows, rng)
    if isinstance(schema.target, Classes):
        labels = (codes[0] > domain.n_codes[0] // 2) + (rng.random(n_rows) < 0.2)
        return domain, codes, labels % len(schema.target.labels)
    return domain, codes, rng.integers(0, FINE_STEPS + 1, n_rows)


@lru_cache
def _accountant(delta):
    """One for all replays: finding the rho of a budget takes longer than a small fit."""
    return make_accountant(1.0, delta)


def train(recipe, schema, codes, labels, script=None, seed=5, delta=0.0):
    """One fit on encoded records, with a gate that can be asked what it saw."""
    domain = Domain.of(schema, recipe.grid)
    ledger = Ledger(_accountant(delta))
    gate, amount = WatchedGate(ledger, CoupledEntropy(seed), script), ledger.accountant.budget
    counter = MemoryCounter(codes, labels, domain, schema.target)
    if recipe.first_look is not None:
        recipe, amount = recipe.first_look.release(counter, recipe, amount, gate)
    stages = recipe.stages or Together()
    facts = facts_of(domain, schema.target, n_trees=recipe.n_trees)
    window = (0, FINE_STEPS)
    if recipe.target_range is not None:
        window, amount = recipe.target_range.release(counter, amount, gate)
    forest = stages.train(counter, recipe, amount, gate, facts, lambda step: None)
    gate.forest = forest if recipe.target_range is None else widened(forest, window)
    return gate


def with_one_more(codes, labels, record, label):
    """The table with one record appended."""
    return np.column_stack([codes, record]).astype(codes.dtype), np.append(labels, label)


def resolved(recipe, schema, n_trees=3, depth=2, **facts):
    domain = Domain.of(schema, recipe.grid)
    return recipe.resolve(facts_of(domain, schema.target, **facts), n_trees, depth)


def assert_same_release(first, second):
    """The two fits were offered, asked, charged and released the same."""
    assert first.ledger == second.ledger
    for one, two in zip(first.queries, second.queries, strict=True):
        assert (one.label, one.scope, one.values.shape) == (two.label, two.scope, two.values.shape)
        assert (one.stated, np.array(one.valid).tolist()) == (two.stated, np.array(two.valid).tolist())
    for name, value in vars(first.forest).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, getattr(second.forest, name), err_msg=name)


def moved_by_tree(before, after):
    """How each row of each tree moved; questions about whole trees are one row."""
    trees = np.zeros(1, dtype=int) if before.trees is None else before.trees
    move = (after.values - before.values).reshape(len(trees), -1)
    move = move if before.valid is None else np.where(before.valid, move, 0)
    return {int(tree): move[trees == tree] for tree in np.unique(trees)}


def assert_within_what_was_paid(query, rows):
    """The moved rows of one tree are one node's, and within the bound that the gate was told."""
    moving, stated = rows[rows.any(axis=1)], query.stated
    assert len(moving) <= 1, query.label
    if isinstance(stated, Bound):
        assert (stated.low <= moving).all(), query.label
        assert (moving <= stated.high).all(), query.label
    else:
        assert np.abs(rows).sum() <= stated.l1, query.label
        assert np.square(rows).sum() <= stated.l2_squared, query.label


def true_cost(before, after):
    """What the move of a query costs at the rate or variance that its mechanism really ran at, in the ledger's unit.

    By the law of each mechanism, not by the bound that was stated: the spread of the scores' moves among the candidates of a
    node for a choice, the norm of the move for noise.
    """
    name, at = before.ran
    move = after.values.astype(object) - before.values.astype(object)
    if name == "geometric":
        return at * int(np.abs(move).sum())
    if name == "gaussian":
        return int(np.square(move).sum()) / (2 * at)
    valid = np.ones(move.shape, dtype=bool) if before.valid is None else before.valid
    spreads = [max(row[held]) - min(row[held]) for row, held in zip(move, valid, strict=True) if held.any()]
    range_of_losses = at * sum(spreads)  # only one node's scores move; the sum would show if others did
    return range_of_losses**2 / 8 if before.unit == "rho" else range_of_losses


def check_neighbours(recipe, schema, seed, n_rows=400, delta=0.0):
    """Replays a fit with one more record, for a few records; gives the queries that some record moved."""
    _, codes, labels = random_table(schema, recipe.grid, n_rows, seed)
    one, moved = train(recipe, schema, codes, labels, seed=seed, delta=delta), []
    _, records, their_labels = random_table(schema, recipe.grid, 4, seed + 100)
    for record, label in zip(records.T, their_labels, strict=True):
        two = train(recipe, schema, *with_one_more(codes, labels, record, label), one.released, seed, delta)
        assert_same_release(one, two)
        moved += assert_moves(recipe, one.queries, two.queries)
    return moved


def assert_moves(recipe, before, after):
    moved_labels, moved_trees, moved_parts = [], set(), set()
    for first, second in zip(before, after, strict=True):
        for tree, rows in moved_by_tree(first, second).items():
            assert_within_what_was_paid(first, rows)
            if rows.any():
                moved_labels.append(first.label)
                moved_trees.add((tuple(first.scope), tree))
                moved_parts.add(next((part for part in first.scope if part in ("training part", "held-out part")), ""))
    # Parts by a coin and disjoint trees compose in parallel: a record may be in one of them only.
    assert len(moved_parts) <= 1
    if isinstance(recipe.sample, Disjoint) and not isinstance(recipe.stages, TwoPhase | OutOfBag):
        assert len(moved_trees) <= 1
    return moved_labels
