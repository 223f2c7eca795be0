"""Trees in sequence under audit: nothing is found, and twins are whose batches or bounds are not what is charged."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.audit.broken import GREEDY, with_counter
from tests.support.given_draws import GivenDraws

from dpforest.audit.cases import generate
from dpforest.audit.replay import replay
from dpforest.audit.subject import Subject
from dpforest.growing.sequential import Phase, Sequential
from dpforest.parts.criteria import MaxOperator, ResidualGain
from dpforest.parts.leaves import ResidualSums
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.voting import LogShares
from dpforest.privacy.bounds import Bound
from dpforest.records.counter import MemoryCounter

pytestmark = pytest.mark.slow

# Votes that hardly count, so that a record keeps its weight and uses in each of its trees what was charged.
TURNS = replace(
    GREEDY, name="trees in turn", criterion=MaxOperator(), leaf=ResidualSums(), refine=(EvenShrinkage(),),
    stages=Sequential((Phase(0.2, 1), Phase(0.8, 4)), batches=2), vote=LogShares(1e-6), n_trees=5,
)  # fmt: skip
RECIPES = {
    "weights": TURNS,
    "residuals": replace(TURNS, criterion=ResidualGain()),
    "one round": replace(TURNS, stages=Sequential((Phase(1.0, 3),), batches=5), n_trees=3),
    "votes that count": replace(TURNS, vote=LogShares(1.0)),
    "no batches": replace(
        TURNS, criterion=ResidualGain(), stages=Sequential((Phase(1.0, 2),)), vote=LogShares(60.0), n_trees=2
    ),
}


class BatchesByPosition(MemoryCounter):
    """Batches are parts of the table, one after the other: a new row moves others across their borders."""

    def divide(self, n_batches, entropy):
        n_records = self._target_codes.size
        super().divide(n_batches, GivenDraws(np.arange(n_records) * n_batches // max(n_records, 1)))


class EqualBatches(MemoryCounter):
    """Batches are equal parts of a shuffle: a new row moves others."""

    def divide(self, n_batches, entropy):
        order = entropy.generator().permutation(self._target_codes.size)
        super().divide(n_batches, GivenDraws(order % n_batches))


class AllInTurn(MemoryCounter):
    """All trees of a round are about all records, and the ledger takes it that they are not."""

    def take_turn(self, batch):
        super().take_turn(None)


@cache
def findings_of(name, counter=MemoryCounter, n_pairs=30, **parts):
    """The findings of cases that ask for no other number of trees than the phases have, and the pairs of fits."""
    recipe = replace(RECIPES[name], **parts)
    subject = Subject(recipe, classifier=with_counter(counter))
    cases = (replace(generate(seed, recipe.tasks), n_trees=None) for seed in range(n_pairs))
    replays = [replay(subject, case) for case in cases]
    return [finding for _, findings in replays for finding in findings], [fits for fits, _ in replays]


@pytest.mark.parametrize("name", RECIPES)
def test_trees_in_sequence_are_sound(name):
    findings, fits = findings_of(name)
    assert [str(finding) for finding in findings] == []
    # Targets of one class are refused.
    assert sum(first.failed for first, _ in fits) < len(fits) // 3
    units = {query.unit for first, _ in fits for query in first.tape.queries}
    assert units == {"epsilon", "rho"}


def test_a_record_moves_what_is_asked_about_its_own_batch_and_nothing_else():
    n_moved = 0
    for first, second in findings_of("weights")[1]:
        moved = {}
        for one, two in zip(first.tape.queries, second.tape.queries, strict=True):
            if any(scope.purpose.kind == "batches" for scope in one.scopes) and (one.values != two.values).any():
                index = [scope.purpose.kind for scope in one.scopes].index("batches")
                moved.setdefault(id(one.scopes[index]), set()).add(one.scopes[index + 1].label)
        assert all(len(trees) == 1 for trees in moved.values())
        n_moved += len(moved)
    assert n_moved > 12


@pytest.mark.parametrize("name", ["weights", "residuals"])
@pytest.mark.parametrize("counter", [BatchesByPosition, EqualBatches], ids=lambda kind: kind.__name__)
def test_batches_that_a_new_row_moves_others_between_are_caught(counter, name):
    kinds = {finding.kind for finding in findings_of(name, counter)[0]}
    assert "bound" in kinds
    assert kinds <= {"bound", "charge", "loss"}


@pytest.mark.parametrize("name", ["weights", "one round"])
def test_trees_of_a_round_that_share_records_are_caught_by_what_a_record_loses(name):
    findings = findings_of(name, AllInTurn)[0]
    assert {finding.kind for finding in findings} == {"loss"}
    assert {finding.what for finding in findings} == {"one record uses more than all charges together"}


class ShortGain(ResidualGain):
    """The bound is a tenth too small on both sides."""

    def bound(self, most=1):
        less = most * 9 // 10
        return Bound(-less, less)


class RisingGain(ResidualGain):
    """Half of the bound: it says that scores rise, but residuals that offset each other lower them."""

    def bound(self, most=1):
        return Bound(0, most)


@pytest.mark.parametrize("criterion", [ShortGain(), RisingGain()], ids=lambda part: type(part).__name__)
def test_a_choice_by_residuals_whose_bound_is_too_small_is_caught(criterion):
    findings = findings_of("no batches", criterion=criterion)[0]
    assert {finding.kind for finding in findings} == {"bound", "charge", "loss"}
    assert all("splits of level" in finding.what for finding in findings if finding.kind != "loss")
