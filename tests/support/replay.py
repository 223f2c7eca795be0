"""Fits on encoded records under the tape of the audit, and again on a neighbouring table with the same releases.

The audit says what tells two fits apart and what was not paid for. It sees the gate, which is not told whose nodes it is
asked about; here the trees are known, so that a record must also be in one node of each, and in one of disjoint parts.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from tests.support.encoded import facts_about, random_table, vault_of, with_one_more

from dpforest.audit.replay import Fit, differences, flattened, unpaid_moves
from dpforest.audit.tape import Tape
from dpforest.forest.tree import Forest
from dpforest.growing.grower import Together
from dpforest.mechanisms import Entropy
from dpforest.parts.recipe import Job
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.bounds import Sensitivity
from dpforest.privacy.events import COUNTS, LEAVES, SPLITS
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.counter import MemoryCounter
from dpforest.schema.domain import Domain


@dataclass
class Replayed(Fit):
    """A fit with its forest; ``grown`` has each forest that grew, and the number of questions until then."""

    forest: Forest | None = None
    grown: list[tuple[int, Forest]] = field(default_factory=list)

    @property
    def queries(self):
        return self.tape.queries

    def refine(self, forest):
        """A first step of post-processing, which changes nothing."""
        self.grown.append((len(self.queries), forest))
        return forest

    def trees_of_rows(self, index):
        """The tree of each node that a question is about."""
        query = self.queries[index]
        # A choice outside of any scope is that of one small tree.
        if not query.scopes or query.scopes[-1].purpose.kind == "tree":
            return np.zeros(len(query.values), dtype=int)
        forest = next(forest for n_asked, forest in self.grown if n_asked > index)
        return forest.trees[forest.is_leaf if query.purpose.kind == LEAVES else forest.levels == query.purpose.level]


@lru_cache
def _accountant(delta):
    """One for all replays: finding the rho of a budget takes longer than a small fit."""
    return make_accountant(1.0, delta)


def train(recipe, schema, codes, labels, script=None, seed=5, delta=0.0):
    """One fit on encoded records; with the questions of another fit as its script, it has the releases of that one."""
    # A table that is replayed has one record more, the last.
    tape = Tape(seed, extra_first=False, script=script, has_extra=script is not None)
    fit, domain = Replayed(tape), Domain.of(schema, recipe.grid)
    gate = tape.watch(Gate(Ledger(_accountant(delta)), Entropy(seed)))
    amount, target = gate.ledger.accountant.budget, schema.target
    facts = facts_about(domain, target, n_trees=recipe.n_trees)
    if recipe.target_range is not None:
        source = vault_of(schema, labels)
        target, amount = recipe.target_range.release(source, amount, gate, facts)
        labels = source.narrowed(target).encode(domain)._fine
    counter = MemoryCounter(codes, labels, domain, target)
    if recipe.first_look is not None:
        recipe, amount = recipe.first_look.release(counter, recipe, amount, gate)
    facts = replace(facts, n_trees=recipe.n_trees)
    watched = replace(recipe, refine=(fit, *recipe.refine))
    fit.forest = (recipe.stages or Together()).train(Job(counter, watched, gate, facts), amount)
    fit.public = dict(flattened("", {"forest": fit.forest, "ledger": gate.ledger}))
    return fit


def assert_same_release(first, second):
    """The two fits were offered, asked, charged and released the same."""
    assert not (found := differences(first, second)), "\n".join(map(str, found))


def assert_paid(first, second):
    """The fits differ by moves that were paid for, in one node of a tree; gives the labels of the questions that moved."""
    assert_same_release(first, second)
    assert not (found := unpaid_moves(first, second)), "\n".join(map(str, found))
    moved, insides = [], defaultdict(set)
    for index, (before, after) in enumerate(zip(first.queries, second.queries, strict=True)):
        move = after.values - before.values
        move = move if before.valid is None else np.where(before.valid, move, 0)
        if not move.any():
            continue
        moved.append(before.label)
        trees = _moved_trees(first, index, move, max(before.times, after.times))
        for scope, inside in zip(before.scopes, (*before.scopes[1:], None), strict=True):
            if scope.kind == "parallel":
                # Disjoint trees are charged as one.
                insides[id(scope)] |= trees if scope.purpose.kind == "disjoint trees" else {id(inside)}
    # What composes in parallel is about different records, and a record is one of them only.
    assert all(len(inside) == 1 for inside in insides.values()), "a record is in two parts that compose in parallel"
    return moved


def _moved_trees(fit, index, move, times):
    """Trees whose nodes a record moved: one node each, within the stated norms. None for questions not about nodes."""
    query = fit.queries[index]
    if query.purpose.kind not in (SPLITS, COUNTS, LEAVES):
        return {None}
    rows = move.reshape(len(move), -1)
    trees = fit.trees_of_rows(index)[rows.any(axis=1)].tolist()
    assert len(set(trees)) == len(trees), query.label
    if isinstance(query.stated, Sensitivity):
        assert np.abs(rows).sum(axis=1).max() <= times * query.stated.l1, query.label
        assert np.square(rows).sum(axis=1).max() <= times**2 * query.stated.l2_squared, query.label
    return set(trees)


def check_neighbours(recipe, schema, seed, n_rows=400, delta=0.0):
    """Replays a fit with one more record, for a few records; gives the labels of questions that some record moved."""
    _, codes, labels = random_table(schema, recipe.grid, n_rows, seed)
    _, records, their_labels = random_table(schema, recipe.grid, 4, seed + 100)
    seed += 20  # of four seeds from 0 on, some have a coin that holds the added record out, and some do not
    one, moved = train(recipe, schema, codes, labels, seed=seed, delta=delta), []
    for record, label in zip(records.T, their_labels, strict=True):
        two = train(recipe, schema, *with_one_more(codes, labels, record, label), one.queries, seed, delta)
        moved += assert_paid(one, two)
    return moved
