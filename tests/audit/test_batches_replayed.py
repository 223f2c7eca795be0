"""Trees in sequence, also behind an earlier model, under audit: twins are found whose batches are not what is charged."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.audit.broken import GREEDY, with_counter
from tests.support.given_draws import GivenDraws

from dpforest import Bounded, DPForestClassifier, DPForestRegressor
from dpforest.audit.cases import generate
from dpforest.audit.replay import replay
from dpforest.audit.subject import Subject
from dpforest.errors import NothingLearntWarning
from dpforest.growing.sequential import Phase, Sequential
from dpforest.parts.criteria import MaxOperator, ResidualGain
from dpforest.parts.leaves import ResidualSums
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.voting import LogShares
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
def findings_of(name, counter=MemoryCounter, n_pairs=30):
    """The findings of cases that ask for no other number of trees than the phases have, and the pairs of fits."""
    recipe = RECIPES[name]
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


# --- fits from an earlier model --------------------------------------------------------------------------------------

TASKS = ("classification", "regression")
# The path of the model that fits start from.
STARTS: list[str] = []


class Started:
    """Fits start from the last of the earlier models."""

    def fit(self, X, y=None, **others):
        self.earlier_model = STARTS[-1]
        return super().fit(X, y, **others)


class StartedClassifier(Started, DPForestClassifier):
    pass


class StartedRegressor(Started, DPForestRegressor):
    pass


def replays(folder, seeds):
    """For each case whose fits succeed: the findings, whether the earlier model was kept, and the task.

    The earlier model is of some rows of the case; both tables of a case start from the same.
    """
    subject = Subject("auto", classifier=StartedClassifier, regressor=StartedRegressor)
    for seed in seeds:
        case = generate(seed, TASKS)
        kind = DPForestRegressor if isinstance(case.schema.target, Bounded) else DPForestClassifier
        rows, target = case.tables()[0]
        STARTS.append(str(folder / f"{len(STARTS)}.dpf"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingLearntWarning)
            kind(case.schema, epsilon=5.0, delta=0.1, random_state=seed).fit(rows[::2], target[::2]).save(STARTS[-1])
        (first, _), findings = replay(subject, case)
        if not first.failed:
            yield findings, first.public.get("forest_.n_earlier") != "int 0", subject.parts.task(case.schema)


def test_fits_from_an_earlier_model_are_sound(tmp_path):
    found = list(replays(tmp_path, range(16)))
    assert [str(finding) for findings, _, _ in found for finding in findings] == []
    # Kept and left, of both tasks.
    assert {(kept, task) for _, kept, task in found} == {(kept, task) for kept in (True, False) for task in TASKS}
    assert len(found) > 9
