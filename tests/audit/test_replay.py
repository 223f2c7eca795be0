"""Record and replay: broken twins are found, with their place; the catalogue, trees in sequence and the originals are clean.

Each recipe replays the pairs that once found a twin or used up all that a recipe pays, and ten others; with
DPFOREST_AUDIT=full the first 1,000.
"""

import json
import logging
import os
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.audit.broken import COUNTS, GREEDY, ORIGINALS, TWINS, with_counter
from tests.support.laws import GivenDraws

from dpforest import Bounded, DPForestClassifier, DPForestRegressor, get_recipe, list_recipes
from dpforest.audit.cases import generate
from dpforest.audit.replay import replay, replay_many
from dpforest.audit.subject import Subject
from dpforest.errors import NothingLearntWarning
from dpforest.growing.sequential import Phase, Sequential
from dpforest.parts.criteria import MaxOperator, ResidualGain
from dpforest.parts.leaves import ResidualSums
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.voting import LogShares
from dpforest.published.form import get_published
from dpforest.records.counter import MemoryCounter

pytestmark = pytest.mark.slow

IS_FULL = os.environ.get("DPFOREST_AUDIT") == "full"
STORED = (2, 3, 7, 9, 20, 25, 31, 33, 37)
PAIRS = range(1000) if IS_FULL else (*STORED, *range(1000, 1010))
N_TWIN_PAIRS = 40 if IS_FULL else 12
RECIPES = [recipe["name"] for recipe in list_recipes()]


# --- broken twins ---------------------------------------------------------------------------------------------------

COUNTING, CHOOSING, TWIN = "dpforest/parts/leaves.py", "dpforest/growing/choosing.py", "tests/audit/broken.py"
# The kind of finding that each twin must have, those that may come with it, and the file whose question gives it away.
SEEN = {
    "noise too small": ("charge", {"loss"}, COUNTING),
    "bound halved": ("bound", {"charge", "loss"}, CHOOSING),
    "rows by position": ("bound", {"charge", "loss"}, COUNTING),
    "equal parts": ("bound", {"charge", "loss"}, COUNTING),
    "pure nodes": ("question", set(), COUNTING),
    "categories from data": ("public value", {"question"}, COUNTING),
    "choices charged once": ("loss", set(), TWIN),
    "forgotten charge": ("charge", {"loss"}, TWIN),
    "absent classes": ("public value", set(), TWIN),
    "float noise": ("not an integer", set(), COUNTING),
    "sample by position": ("bound", {"charge", "loss"}, COUNTING),
    "sample of exactly half": ("bound", {"charge", "loss"}, COUNTING),
    "sample by rank": ("bound", {"charge", "loss"}, COUNTING),
    "amplified by half the share": ("loss", set(), COUNTING),
}


@cache
def replays_of_twin(name):
    return replay_many(TWINS[name], N_TWIN_PAIRS)


@pytest.mark.parametrize("name", SEEN)
def test_a_broken_twin_is_caught_with_its_kind_and_its_place(name):
    kind, company, file = SEEN[name]
    findings = replays_of_twin(name).findings
    assert {finding.kind for finding in findings} - company == {kind}
    assert [finding.where for finding in findings if file not in finding.where] == []


@pytest.mark.parametrize("name", SEEN)
def test_the_case_of_a_finding_is_small_and_shows_it_again(name):
    finding = replays_of_twin(name).findings[0]
    assert len(finding.case.rows) <= 3
    assert finding in replay(TWINS[name], finding.case)[1]
    # Every row that is left is needed.
    for place in range(len(finding.case.rows)):
        assert finding not in replay(TWINS[name], finding.case.without([place]))[1]


@pytest.mark.parametrize("sound", {sound.name: sound for sound in ORIGINALS.values()}.values(), ids=lambda one: one.name)
def test_the_sound_original_of_a_twin_has_no_finding(sound):
    replays = replay_many(sound, N_TWIN_PAIRS)
    assert (replays.findings, replays.n_refused) == ((), 0)
    assert replays.closest > 0.6


def test_replay_sees_all_twins_but_the_one_whose_mistake_is_in_its_coins():
    assert len(TWINS) == 15
    assert TWINS.keys() - SEEN.keys() == {"shared generator"}


# --- the catalogue --------------------------------------------------------------------------------------------------

# Criteria of these recipes reach their width in small tables, or all of their budget is in counts and labels.
REACHED = {
    "blum-2005", "jagannathan-2009", "friedman-schuster-2010", "patil-singh-2014", "bojarski-2015",
    "fletcher-islam-2015-dpdf", "fletcher-islam-2015-snr", "fletcher-islam-2017", "consul-2020-ert", "auto",
}  # fmt: skip
WORDS = [
    (name, parameter, word)
    for name in RECIPES
    for parameter, place in get_recipe(name).parameters.items()
    if isinstance(place, tuple)
    for word in place[1]
]


@pytest.mark.parametrize("name", RECIPES)
def test_no_recipe_has_a_finding_and_one_record_uses_much_of_what_it_pays_and_never_more(name):
    replays = [replay_many(Subject(name), 1, first_case=seed) for seed in PAIRS]  # of which none is refused
    assert [str(finding) for each in replays for finding in each.findings] == []
    assert (0.9999 if name in REACHED else 0.4) < max(each.closest for each in replays) <= 1 + 1e-9


@pytest.mark.parametrize(("name", "parameter", "word"), WORDS, ids=str)
def test_no_part_that_a_parameter_puts_into_a_recipe_has_a_finding(name, parameter, word):
    replays = replay_many(Subject(get_recipe(name).with_parameters({parameter: word})), len(PAIRS) // 3)
    assert (replays.findings, replays.n_refused) == ((), 0)


@pytest.mark.parametrize("name", [recipe["name"] for recipe in list_recipes() if recipe["published"]])
def test_a_published_variant_is_found_to_open_exact_values(name):
    # The task for which the printed algorithm keeps its claim runs the private variant.
    tasks = [task for task in get_recipe(name).tasks if task not in get_published(name).sound_for]
    findings = replay_many(Subject(replace(get_recipe(name), tasks=tuple(tasks)), variant="published"), 2).findings
    found = {(finding.what, finding.where) for finding in findings if finding.kind == "opened"}
    assert found == {(f"exact values: {reason}", name) for reason in get_published(name).leaks}


def test_a_printed_algorithm_that_keeps_its_claim_has_no_finding():
    recipe = replace(get_recipe("consul-2020-ert"), tasks=get_published("consul-2020-ert").sound_for)
    assert replay_many(Subject(recipe, variant="published"), 20).findings == ()


def test_what_a_replay_reports_can_be_written_as_json():
    replays = replays_of_twin("noise too small")
    content = json.loads(json.dumps(replays.to_dict()))
    assert content["n_pairs"] == N_TWIN_PAIRS
    assert [item["kind"] for item in content["findings"]] == [finding.kind for finding in replays.findings]
    assert all(item["where"] in item["words"] for item in content["findings"])


def test_replaying_again_finds_the_same():
    first, second = (replay_many(TWINS["rows by position"], 10) for _ in range(2))
    assert (first.findings, first.closest) == (second.findings, second.closest)
    assert [finding.case for finding in first.findings] == [finding.case for finding in second.findings]


def test_a_replay_tells_of_each_pair_and_leaves_logging_and_the_estimator_as_they_were():
    root, told = logging.getLogger(), []
    before = root.level, list(root.handlers), DPForestClassifier._make_gate
    replay_many(Subject(COUNTS), 3, first_case=7, progress=told.append)
    assert told == [1, 2, 3]
    assert (root.level, root.handlers, DPForestClassifier._make_gate) == before


# --- trees in sequence -----------------------------------------------------------------------------------------------

# Votes that hardly count, so that a record keeps its weight and uses in each of its trees what was charged.
TURNS = replace(
    GREEDY, name="trees in turn", criterion=MaxOperator(), leaf=ResidualSums(), refine=(EvenShrinkage(),),
    stages=Sequential((Phase(0.2, 1), Phase(0.8, 4)), batches=2), vote=LogShares(1e-6), n_trees=5,
)  # fmt: skip
IN_TURN = {
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
    recipe = IN_TURN[name]
    subject = Subject(recipe, classifier=with_counter(counter))
    cases = (replace(generate(seed, recipe.tasks), n_trees=None) for seed in range(n_pairs))
    replays = [replay(subject, case) for case in cases]
    return [finding for _, findings in replays for finding in findings], [fits for fits, _ in replays]


@pytest.mark.parametrize("name", IN_TURN)
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


class Started:
    """Fits start from the model at a path."""

    start = ""

    def fit(self, X, y=None, **others):
        self.earlier_model = self.start
        return super().fit(X, y, **others)


KINDS = [type(kind.__name__, (Started, kind), {}) for kind in (DPForestClassifier, DPForestRegressor)]


def test_fits_from_an_earlier_model_are_sound(tmp_path, monkeypatch):
    """The earlier model is of some rows of a case; both tables of the case start from the same."""
    subject, kept = Subject("auto", classifier=KINDS[0], regressor=KINDS[1]), []
    for seed in range(16):
        case = generate(seed, TASKS)
        kind = DPForestRegressor if isinstance(case.schema.target, Bounded) else DPForestClassifier
        rows, target = case.tables()[0]
        monkeypatch.setattr(Started, "start", str(tmp_path / f"{seed}.dpf"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingLearntWarning)
            kind(case.schema, epsilon=5.0, delta=0.1, random_state=seed).fit(rows[::2], target[::2]).save(Started.start)
        (first, _), findings = replay(subject, case)
        assert [str(finding) for finding in findings] == []
        if not first.failed:
            kept.append((first.public.get("forest_.n_earlier") != "int 0", subject.parts.task(case.schema)))
    # Kept and left, of both tasks.
    assert {*kept} == {(is_kept, task) for is_kept in (True, False) for task in TASKS}
    assert len(kept) > 9
