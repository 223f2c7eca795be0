"""Record and replay: broken twins and small leaks are found, with their place; the catalogue and the originals are clean.

DPFOREST_AUDIT=full replays 1,000 pairs for each recipe instead of 60.
"""

import json
import logging
import math
import os
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from tests.audit.broken import COUNTS, GREEDY, LABELS, ORIGINALS, TWINS, with_gate
from tests.support.naive import plant

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema, get_recipe, list_recipes
from dpforest.audit.cases import generate
from dpforest.audit.replay import _factor, replay, replay_many, run_fit
from dpforest.audit.subject import Subject
from dpforest.audit.tape import Query, Tape, TapeEntropy
from dpforest.errors import TableError
from dpforest.parts.criteria import MaxOperator, SquaredError
from dpforest.parts.leaves import NoisyCounts, TwoBinMean
from dpforest.parts.recipe import Narrow
from dpforest.parts.sampling import EveryRecord, PoissonBootstrap
from dpforest.privacy.accountants import Pure, make_accountant
from dpforest.privacy.base import Bound, Sensitivity
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.recipes.published.registry import get_published
from dpforest.records.base import OneTree, Poisson
from dpforest.records.draws import draw_roots
from dpforest.records.memory.counter import MemoryCounter
from dpforest.schema import TARGET_STEPS
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow

IS_FULL = os.environ.get("DPFOREST_AUDIT") == "full"
N_PAIRS, N_PAIRS_OF = (1000, {}) if IS_FULL else (60, {"li-2022": 30})  # its fits have many trees and take long
N_TWIN_PAIRS = 40
RECIPES = [recipe["name"] for recipe in list_recipes()]


def opened(sealed):
    """An exact value, as whoever breaks a promise would get it."""
    seen = []
    sealed.map(seen.append)
    return seen[0]


def first_findings(subject, n_pairs=60):
    """The findings of the first cases that have any."""
    for start in range(0, n_pairs, 10):
        replays = replay_many(subject, 10, first_case=start)
        if replays.findings:
            return replays.findings
    return ()


# --- broken twins ---------------------------------------------------------------------------------------------------

COUNTING, CHOOSING, TWIN = "dpforest/parts/leaves/noisy_counts.py", "dpforest/growing/choosing.py", "tests/audit/broken.py"
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
}


@cache
def replays_of_twin(name):
    return replay_many(TWINS[name], N_TWIN_PAIRS)


@cache
def replays_of_original(recipe_name):
    return replay_many(next(sound for sound in ORIGINALS.values() if sound.name == recipe_name), N_TWIN_PAIRS)


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


@pytest.mark.parametrize("name", TWINS)
def test_the_sound_original_of_a_twin_has_no_finding(name):
    replays = replays_of_original(ORIGINALS[name].name)
    assert (replays.findings, replays.n_refused) == ((), 0)
    assert replays.closest > 0.6


def test_replay_sees_all_twins_but_the_one_whose_mistake_is_in_its_coins():
    assert len(TWINS) == 11
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


@cache
def replays_of_recipe(name):
    return replay_many(Subject(name), N_PAIRS_OF.get(name, N_PAIRS))


@pytest.mark.parametrize("name", RECIPES)
def test_no_recipe_of_the_catalogue_has_a_finding(name):
    replays = replays_of_recipe(name)
    assert [str(finding) for finding in replays.findings] == []
    assert replays.n_refused == 0


@pytest.mark.parametrize("name", RECIPES)
def test_one_record_uses_much_of_what_a_recipe_pays_and_never_more(name):
    closest = replays_of_recipe(name).closest
    assert (0.9999 if name in REACHED else 0.4) < closest <= 1 + 1e-9


@pytest.mark.parametrize(("name", "parameter", "word"), WORDS, ids=str)
def test_no_part_that_a_parameter_puts_into_a_recipe_has_a_finding(name, parameter, word):
    replays = replay_many(Subject(get_recipe(name).with_parameters({parameter: word})), N_PAIRS // 4)
    assert (replays.findings, replays.n_refused) == ((), 0)


@pytest.mark.parametrize("name", [recipe["name"] for recipe in list_recipes() if recipe["published"]])
def test_a_published_variant_is_found_to_open_exact_values(name):
    # The task for which the printed algorithm keeps its claim runs the private variant.
    tasks = [task for task in get_recipe(name).tasks if task not in get_published(name).sound_for]
    findings = replay_many(Subject(replace(get_recipe(name), tasks=tuple(tasks)), variant="published"), 2).findings
    found = {(finding.what, finding.where.split(":")[0]) for finding in findings if finding.kind == "opened"}
    assert found == {(f"exact values: {reason}", "dpforest/pipeline.py") for reason in get_published(name).leaks}


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


def test_progress_is_told_of_each_pair():
    told = []
    replay_many(Subject(COUNTS), 3, first_case=7, progress=told.append)
    assert told == [1, 2, 3]


def test_a_replay_leaves_logging_and_the_estimator_as_they_were():
    root = logging.getLogger()
    before = root.level, list(root.handlers), DPForestClassifier._make_gate
    replay(Subject(COUNTS), generate(1, ("classification",)))
    assert (root.level, root.handlers, DPForestClassifier._make_gate) == before


# --- generated cases ------------------------------------------------------------------------------------------------

N_CASES = 300


@cache
def cases(*tasks):
    return [generate(seed, tasks) for seed in range(N_CASES)]


def is_missing(value):
    return value is None or value != value


def oddities(case, record):
    """What is odd about a record."""
    target = case.schema.target
    for feature, value in zip(case.schema.features.values(), record, strict=False):
        if is_missing(value):
            yield "missing value"
        elif isinstance(feature, Categorical):
            if value not in feature.categories:
                yield "unknown category"
        elif isinstance(value, str):
            yield "text for a number"
        elif math.isinf(value):
            yield "infinite value"
        elif not feature.lower <= value <= feature.upper:
            yield "clipped value"
        elif value in (feature.lower, feature.upper):
            yield "value at its bound"
    if is_missing(record[-1]):
        yield "missing target"
    elif isinstance(target, Classes):
        if record[-1] not in target.labels:
            yield "unknown label"
    elif not target.lower <= record[-1] <= target.upper:
        yield "clipped target"


def traits(case):
    """What is special about the tables of a case."""
    rows, labels = case.rows, Counter(str(row[-1]) for row in case.rows)
    odd_rows = {oddity for row in rows for oddity in oddities(case, row)}
    listed = getattr(case.schema.target, "labels", ())
    yield from {f"{oddity} in the extra record" for oddity in oddities(case, case.extra)}
    yield from {f"{oddity} in the rows" for oddity in odd_rows}
    yield from {f"{oddity} in the extra record alone" for oddity in oddities(case, case.extra) if oddity not in odd_rows}
    yield "extra record " + ("first" if case.extra_first else "last")
    yield "one record " + ("less" if case.larger_first else "more")
    yield f"delta {'above' if case.delta else 'is'} 0"
    yield f"number of rows {'un' * (case.schema.n_rows is None)}declared"
    for name, holds in {
        "empty table": not rows,
        "one row": len(rows) == 1,
        "one class only": len(rows) > 1 and len(labels) == 1 and rows[0][-1] in listed and len(listed) > 1,
        "a single class declared": len(listed) == 1,
        "tied classes": len(labels) > 1 and len(set(labels.values())) == 1,
        "duplicates": len(set(map(str, rows))) < len(rows),
        "duplicate of the extra record": str(case.extra) in map(str, rows),
        "same features, other target": any(
            str(row[:-1]) == str(case.extra[:-1]) and row[-1] != case.extra[-1] for row in rows
        ),
        "default number of trees": case.n_trees is None,
        "default depth": case.max_depth is None,
        "only numeric features": all(isinstance(part, Numeric) for part in case.schema.features.values()),
        "only categorical features": all(isinstance(part, Categorical) for part in case.schema.features.values()),
    }.items():
        if holds:
            yield name


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_generated_cases_have_everything_that_goes_wrong(task):
    seen = Counter(trait for case in cases(task) for trait in traits(case))
    odd = ["missing value", "unknown category", "infinite value", "clipped value", "value at its bound", "missing target"]
    odd += ["unknown label"] if task == "classification" else ["clipped target"]
    places = ("the rows", "the extra record", "the extra record alone")
    wanted = [f"{oddity} in {place}" for oddity in odd for place in places] + [
        "extra record first", "extra record last", "one record less", "one record more", "delta is 0", "delta above 0",
        "number of rows declared", "number of rows undeclared", "empty table", "one row", "tied classes", "duplicates",
        "duplicate of the extra record", "same features, other target", "default number of trees", "default depth",
        "only numeric features", "only categorical features",
    ]  # fmt: skip
    wanted.append("text for a number in the rows")
    wanted += ["one class only", "a single class declared"] if task == "classification" else []
    assert {trait: seen[trait] for trait in wanted if seen[trait] < 3} == {}


def test_fits_on_generated_cases_have_empty_nodes_and_ties_between_candidates():
    seen = Counter()
    for case in cases("classification")[:80]:
        tape = Tape(case.seed, case.extra_first)
        run_fit(Subject(GREEDY), case, *case.tables()[1], tape)
        choices, leaves = [query.values for query in tape.queries[:-1]], tape.queries[-1].values
        seen["empty leaves"] += not leaves.any(axis=1).all()
        seen["full leaves"] += leaves.any(axis=1).all()
        seen["tied best candidates"] += any(
            (np.ptp(np.sort(scores, axis=1)[:, -2:], axis=1) == 0).any() for scores in choices
        )
    assert min(seen.values()) >= 3
    assert len(seen) == 3


def test_generated_cases_make_the_planner_show_its_plans():
    asked = Counter()
    for case in cases("classification", "regression")[:80]:
        tape = Tape(case.seed, case.extra_first)
        run_fit(Subject("auto"), case, *case.tables()[0], tape)
        asked.update(
            {query.label for query in tape.queries} | {scope.label for query in tape.queries for scope in query.scopes}
        )
        asked.update({query.unit for query in tape.queries} | {query.where.split(":")[0] for query in tape.queries})
    leaves = [f"dpforest/parts/leaves/{name}.py" for name in ("noisy_counts", "rotated", "residual_sums", "two_bin_mean")]
    wanted = ["number of rows", "range of the target", "splits of level 0: centres", "splits of level 1", "tree 2", *leaves]
    assert {label: asked[label] for label in [*wanted, "epsilon", "rho"] if asked[label] < 3} == {}


def test_the_case_of_a_number_is_always_the_same():
    assert [str(generate(seed, ("classification",))) for seed in range(50)] == [
        str(case) for case in cases("classification")[:50]
    ]
    assert len({str(case) for case in cases("classification")}) == N_CASES


def test_no_case_has_a_delta_if_none_is_wanted():
    assert {generate(seed, ("regression",), with_delta=False).delta for seed in range(50)} == {0.0}


def test_the_two_tables_of_a_case_differ_by_the_extra_record_at_one_end():
    for case in cases("classification", "regression")[:60]:
        one, two = ([str((*x, t)) for x, t in zip(X, y, strict=True)] for X, y in case.tables())
        smaller, larger = (two, one) if case.larger_first else (one, two)
        assert larger == ([str(case.extra), *smaller] if case.extra_first else [*smaller, str(case.extra)])
        assert case.sign == len(two) - len(one)


def test_a_case_without_some_rows_keeps_the_others_in_order():
    case = next(case for case in cases("classification") if len(case.rows) == 8)
    smaller = case.without([0, 3, 7])
    assert smaller.rows == tuple(case.rows[place] for place in (1, 2, 4, 5, 6))
    assert replace(smaller, rows=case.rows) == case


# --- leaks of an estimator ------------------------------------------------------------------------------------------


def saying(say):
    """A subject whose fits call ``say(model, y, progress)`` at their end."""

    class Classifier(DPForestClassifier):
        def fit(self, X, y, *, progress=lambda step: None):
            super().fit(X, y, progress=progress)
            say(self, y, progress)
            return self

    return Subject(COUNTS, classifier=Classifier)


def fail(error):
    raise error


def fail_because_of(n_rows):
    try:
        fail(KeyError(n_rows))
    except KeyError as error:
        raise TableError("The table cannot be read.") from error


class Hidden:
    """Keeps a number where ``vars`` does not look, and does not show it."""

    __slots__ = ("n_rows",)

    def __init__(self, n_rows):
        self.n_rows = n_rows

    def __repr__(self):
        return "Hidden()"


LOGGER = logging.getLogger("tests.audit")
# What a fit says of its rows, and the name under which it must be found.
LEAKS = {
    "a log line": (lambda model, y, progress: LOGGER.info("%d rows", len(y)), "log lines"),
    "a log line for debugging": (lambda model, y, progress: LOGGER.debug("%d rows", len(y)), "log lines"),
    "a warning": (lambda model, y, progress: warnings.warn(f"{len(y)} rows", stacklevel=1), "warnings"),
    "a warning for an empty table": (
        lambda model, y, progress: len(y) or warnings.warn("The table is empty.", stacklevel=1), "warnings"
    ),
    "an attribute": (lambda model, y, progress: setattr(model, "n_rows_", len(y)), "n_rows_"),
    "an attribute of some models": (lambda model, y, progress: len(y) or setattr(model, "empty_", True), "keys"),
    "an attribute of an attribute": (
        lambda model, y, progress: setattr(model, "summary_", {"rows": [np.zeros(len(y))]}), "summary_.rows[0]"
    ),
    "the sign of a zero": (
        lambda model, y, progress: setattr(model, "zero_", np.array([0.0 if len(y) else -0.0])), "zero_"
    ),
    "an entry of the ledger": (lambda model, y, progress: model.ledger_.charge(f"{len(y)} rows", "none", 0.0), "ledger_"),
    "a printed line": (lambda model, y, progress: print(len(y)), "printed"),
    "an error with a value": (lambda model, y, progress: fail(TableError(f"{len(y)} rows")), "error"),
    "an error for an empty table": (lambda model, y, progress: len(y) or fail(TableError("The table is empty.")), "error"),
    "another kind of error": (lambda model, y, progress: fail((TableError if len(y) else ValueError)("No.")), "error"),
    "a step of progress": (lambda model, y, progress: progress(f"{len(y)} rows"), "progress"),
    "an error caused by one with a value": (lambda model, y, progress: fail_because_of(len(y)), "error"),
    "a log line with an exception": (
        lambda model, y, progress: LOGGER.error("The table cannot be read.", exc_info=KeyError(len(y))), "log lines"
    ),
    "a sealed attribute": (lambda model, y, progress: setattr(model, "sealed_", Sealed(len(y))), "sealed_"),
    "an attribute that hides": (lambda model, y, progress: setattr(model, "hidden_", Hidden(len(y))), "hidden_"),
    "an attribute of the class": (lambda model, y, progress: setattr(type(model), "n_rows_", len(y)), "class.n_rows_"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEAKS)
def test_a_fit_that_shows_something_of_its_rows_is_caught(name):
    say, what = LEAKS[name]
    assert {(finding.kind, finding.what[: len(what)]) for finding in first_findings(saying(say))} == {("public value", what)}


def test_a_table_that_is_refused_before_the_first_question_is_caught():
    class Classifier(DPForestClassifier):
        def fit(self, X, y, *, progress=lambda step: None):
            return super().fit(X, y, progress=progress) if len(y) else fail(TableError("The table is empty."))

    found = {finding.kind for finding in first_findings(Subject(COUNTS, classifier=Classifier))}
    assert found <= {"question", "public value"}
    assert found


def test_a_compiler_that_talks_during_one_of_the_fits_is_no_finding():
    compiler = logging.getLogger("numba.core.byteflow")
    assert first_findings(saying(lambda model, y, progress: compiler.debug("%d", len(y))), 10) == ()


def test_a_model_that_shows_another_ledger_than_the_one_charged_is_caught():
    subject = saying(
        lambda model, y, progress: setattr(model, "ledger_", Ledger(make_accountant(model.epsilon, model.delta)))
    )
    assert {finding.kind for finding in first_findings(subject, 10)} == {"charge"}


def test_fits_that_all_fail_by_a_mistake_of_the_code_are_not_taken_for_sound_ones():
    assert first_findings(saying(lambda model, y, progress: fail(AssertionError("A mistake."))), 10)


def test_fits_that_are_all_refused_are_counted():
    replays = replay_many(Subject(replace(COUNTS, leaf=TwoBinMean())), 5)
    assert (replays.n_refused, replays.findings, replays.closest) == (5, (), 0.0)


# --- leaks of parts -------------------------------------------------------------------------------------------------

ONE, LABEL = Sensitivity(1, 1), Bound(0, 1)


def counts_are_empty(values):
    return not opened(values).any()


def amount_by_size(values, amount, gate, label):
    return gate.add_noise(values, ONE, amount / (1 + counts_are_empty(values)), label)


def sensitivity_by_size(values, amount, gate, label):
    return gate.add_noise(values, Sensitivity(1 + counts_are_empty(values), 4), amount, label)


def bound_by_size(values, amount, gate, label):
    return gate.select(values, None, Bound(0, 1 + counts_are_empty(values)), amount, label)


def label_by_size(values, amount, gate, label):
    return gate.add_noise(values, ONE, amount, "empty leaves" if counts_are_empty(values) else label)


def scope_by_size(values, amount, gate, label):
    with gate.ledger.scope("leaves", copies=1 + counts_are_empty(values)):
        return gate.add_noise(values, ONE, amount / 2, label)


def mechanism_by_size(values, amount, gate, label):
    return gate.select(values, None, LABEL, amount, label, "exponential" if counts_are_empty(values) else "permute-and-flip")


def mask_of_present_labels(values, amount, gate, label):
    counts = opened(values)
    return gate.select(values, (counts > 0) | ~counts.any(axis=1, keepdims=True), LABEL, amount, label)


def groups_of_present_labels(values, amount, gate, label):
    counts = opened(values)
    return gate.select(values, None, LABEL, amount, label, distinct=np.where(counts > 0, np.arange(counts.shape[1]), 0))


def shape_by_empty_leaves(values, amount, gate, label):
    held, variance = gate.add_noise(values.map(lambda counts: counts[counts.any(axis=1)]), ONE, amount, label)
    return np.full(opened(values).shape, held.sum()), variance


def sizes_of_full_tables_too(values, amount, gate, label):
    if not counts_are_empty(values):
        gate.add_noise(values.map(lambda counts: counts.sum(axis=1)), ONE, amount / 2, "sizes")
    return gate.add_noise(values, ONE, amount / 2, label)


def charge_twice_if_empty(values, amount, gate, label):
    if counts_are_empty(values):
        gate.ledger.charge("nothing", "none", 0.0)
    return gate.add_noise(values, ONE, amount, label)


def halves_of_counts(values, amount, gate, label):
    return gate.add_noise(values.map(lambda counts: counts / 2), ONE, amount, label)


def a_ledger_of_its_own(values, amount, gate, label):
    return Gate(Ledger(make_accountant(amount, 0.0)), gate.entropy).add_noise(values, ONE, amount, label)


def exact_counts(values, amount, gate, label):
    return opened(values), 1.0


def ties_by_exact_counts(values, amount, gate, label):
    counts, variance = gate.add_noise(values, ONE, amount, label)
    return np.where(opened(values) == 1, counts, counts.clip(0)), variance


# How a leaf leaks, and the finding that it must have.
LEAKING = {
    amount_by_size: ("question", "amount of 'leaves'"),
    sensitivity_by_size: ("question", "bound of 'leaves'"),
    bound_by_size: ("question", "bound of 'leaves'"),
    label_by_size: ("question", "label"),
    scope_by_size: ("question", "scope of 'leaves'"),
    mechanism_by_size: ("question", "runs of 'leaves'"),
    mask_of_present_labels: ("question", "candidates of 'leaves'"),
    groups_of_present_labels: ("question", "candidates of "),
    shape_by_empty_leaves: ("question", "shape of 'leaves'"),
    sizes_of_full_tables_too: ("question", "label"),
    charge_twice_if_empty: ("public value", "ledger_."),
    halves_of_counts: ("not an integer", "what 'leaves' is handed"),
    a_ledger_of_its_own: ("public value", "forest_.counts"),
    exact_counts: ("public value", "forest_.counts"),
    ties_by_exact_counts: ("public value", "forest_.counts"),
}


def with_leaf(release):
    """A subject whose leaves release ``release(values, amount, gate, label)``: counts and their variance, or labels."""

    class Leaf(NoisyCounts):
        def release(self, statistics, amount, gate, target, label, most=1):
            released = release(statistics, amount, gate, label)
            return released if isinstance(released, tuple) else (np.eye(target.n_values)[released], 0.0)

    return Subject(replace(COUNTS, leaf=Leaf()))


@pytest.mark.parametrize(
    "release",
    LEAKING,
    ids=lambda part: part.__name__,
)
def test_a_part_whose_questions_depend_on_rows_is_caught_where_it_asks(release):
    kind, what = LEAKING[release]
    findings = [finding for finding in first_findings(with_leaf(release)) if finding.kind == kind and what in finding.what]
    assert findings
    if kind == "question":
        assert "tests/audit/test_replay.py" in findings[0].where
        assert findings[0].where.endswith(f" in {release.__name__}")


@dataclass(frozen=True)
class ExactSize(Narrow):
    """Nodes of fewer than ``least`` records stop, by their exact size."""

    least: int
    share: float = 0.5

    def narrow(self, candidates, counter, first, amount, gate, label):
        sizes = opened(counter.count_nodes(first, len(candidates.indices))).sum(axis=1)
        return replace(candidates, valid=candidates.valid & (sizes >= self.least)[:, None])


@pytest.mark.parametrize("least", [1, 3, 9, 20, 100])
def test_stopping_by_exact_size_is_caught_wherever_the_limit_is(least):
    assert "question" in {finding.kind for finding in first_findings(Subject(replace(COUNTS, narrow=ExactSize(least))))}


class Falling(MaxOperator):
    """Says that scores fall; they rise by as much."""

    def bound(self, most=1):
        return Bound(-most, 0)


def test_a_direction_that_is_wrong_is_caught():
    findings = first_findings(Subject(replace(GREEDY, criterion=Falling())))
    assert {finding.kind for finding in findings} == {"bound"}
    assert all("moves by 0 .. 1, stated -1 .. 0" in item.detail or "moves by 1 .. 1" in item.detail for item in findings)


class ShortMeans(TwoBinMean):
    """The L2 sensitivity of two bins is understated; L1 is right."""

    def release(self, statistics, amount, gate, target, label, most=1):
        bins = statistics.map(lambda sums: np.stack([TARGET_STEPS * sums[:, 0] - sums[:, 1], sums[:, 1]], axis=1))
        released, variance = gate.add_noise(bins, Sensitivity(TARGET_STEPS, TARGET_STEPS**2 // 2), amount, label)
        return released / TARGET_STEPS, variance / TARGET_STEPS**2


def test_a_sensitivity_that_is_too_small_in_l2_alone_costs_more_than_its_charge_with_delta_only():
    recipe = replace(COUNTS, criterion=SquaredError(), leaf=ShortMeans(), tasks=("regression",))
    findings = {True: [], False: []}
    for seed in range(30):
        case = generate(seed, recipe.tasks)
        findings[case.delta > 0] += replay(Subject(recipe), case)[1]
    assert {finding.kind for finding in findings[False]} == {"bound"}
    assert {finding.kind for finding in findings[True]} == {"bound", "charge", "loss"}
    assert all("test_replay.py" in finding.where for finding in findings[True])


class FreeBootstrap(PoissonBootstrap):
    """A bootstrap whose trees are charged as if every record were in each of them once."""

    amount_per_tree, scopes = EveryRecord.amount_per_tree, EveryRecord.scopes


def test_a_bootstrap_that_is_charged_as_if_no_record_came_twice_is_caught():
    kinds = {finding.kind for finding in first_findings(Subject(replace(COUNTS, sample=FreeBootstrap())))}
    assert kinds == {"bound", "charge", "loss"}


def test_what_a_bootstrap_costs_is_found_by_its_own_charges_also_where_another_is_charged_alike():
    ledger, queries = Ledger(Pure(10.0)), []
    for _ in range(2):
        with ledger.scope("Poisson bootstrap", "bootstrap"):
            for label in ("splits", "leaves"):
                ledger.charge(label, "geometric", 0.25)
                queries.append(Query(label, None, 0.25, None, "", ledger.books[-1], ledger.open_scopes))
    factors = [float(_factor(query, [(query, query) for query in queries])) for query in queries]
    assert factors == pytest.approx([math.expm1(0.5) / 0.5] * 4)


# --- leaks of the gate ----------------------------------------------------------------------------------------------


@contextmanager
def charging(ledger, charge):
    """Charges go to ``charge(label, mechanism, amount)`` instead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "charge", charge)
        yield


class FreeGate(Gate):
    """Releases counts and forgets to charge."""

    def add_noise(self, values, sensitivity, amount, label):
        with charging(self.ledger, lambda *charge: None):
            return super().add_noise(values, sensitivity, amount, label)


class CheapGate(Gate):
    """Charges half of what it spends."""

    def add_noise(self, values, sensitivity, amount, label):
        charge = self.ledger.charge
        with charging(self.ledger, lambda label, mechanism, amount: charge(label, mechanism, amount / 2)):
            return super().add_noise(values, sensitivity, amount, label)


class RepeatingGate(Gate):
    """Runs its mechanism again where a count came out negative, on the same charge."""

    def add_noise(self, values, sensitivity, amount, label):
        counts, variance = super().add_noise(values, sensitivity, amount, label)
        with charging(self.ledger, lambda *charge: None):
            again, _ = super().add_noise(values, sensitivity, amount, label)
        return np.where(counts < 0, again, counts), variance


class NarrowGate(Gate):
    """Gaussian noise whose variance is a fifth too small."""

    def add_noise(self, values, sensitivity, amount, label):
        if self.ledger.unit == "rho":
            sensitivity = Sensitivity(sensitivity.l1, Fraction(4, 5) * sensitivity.l2_squared)
        return super().add_noise(values, sensitivity, amount, label)


class SharpGate(Gate):
    """Doubles scores on their way to the mechanism."""

    def select(self, scores, valid, bound, amount, label, mechanism=None, distinct=None):
        return super().select(scores.map(lambda values: 2 * values), valid, bound, amount, label, mechanism, distinct)


class LateGate(Gate):
    """Draws first and charges afterwards: where the budget does not suffice, the coins were shown for nothing."""

    def add_noise(self, values, sensitivity, amount, label):
        with charging(self.ledger, lambda *charge: None):
            released = super().add_noise(values, sensitivity, amount, label)
        self.ledger.charge(label, self.ledger.accountant.noise, amount)
        return released


class RichGate(Gate):
    """Charges a ledger that may spend twice the claim, not the one of the estimator."""

    def __init__(self, ledger, entropy):
        super().__init__(Ledger(make_accountant(2 * ledger.epsilon, ledger.delta)), entropy)


BROKEN_GATES = {
    FreeGate: (COUNTS, {"charge", "loss"}),
    CheapGate: (COUNTS, {"loss"}),
    RepeatingGate: (COUNTS, {"bound", "charge", "loss"}),
    NarrowGate: (COUNTS, {"charge", "loss"}),
    SharpGate: (LABELS, {"bound", "charge", "loss"}),
    LateGate: (COUNTS, {"charge"}),
    RichGate: (COUNTS, {"charge", "loss"}),
}


@pytest.mark.parametrize(
    "gate",
    list(BROKEN_GATES),
    ids=lambda gate: gate.__name__,
)
def test_a_gate_that_takes_more_than_it_pays_for_is_caught(gate):
    recipe, kinds = BROKEN_GATES[gate]
    findings = first_findings(Subject(recipe, classifier=with_gate(gate)))
    assert {finding.kind for finding in findings} == kinds
    assert any("dpforest/parts/leaves/" in finding.where for finding in findings)
    if gate is NarrowGate:
        assert all(finding.case.delta > 0 for finding in findings)


# --- coins of records -----------------------------------------------------------------------------------------------

IDENTITIES = Domain.of(Schema({"record": Numeric(0, 200, integer=True)}, Classes([0, 1])), Grid(bins=201))
TARGET = Classes([0, 1])


def counter_of(records):
    return MemoryCounter(np.asarray(records, dtype=IDENTITIES.dtype)[None], np.asarray(records) % 2, IDENTITIES, TARGET)


def disjoint_coins(records, entropy):
    return draw_roots(OneTree(5), len(records), entropy)[0]


def bootstrap_coins(records, entropy):
    return draw_roots(Poisson(3), len(records), entropy)[1]


def hold_out_coins(records, entropy):
    training, held = counter_of(records).hold_out(0.4, entropy)
    assert sorted([*training._codes[0], *held._codes[0]]) == sorted(records)
    return np.isin(records, held._codes[0])[None]


def error_coins(records, entropy):
    counter = counter_of(records)
    # Two of five trees are wrong about even records, three about odd ones.
    forest = plant(IDENTITIES, TARGET, *[[9.0, 1.0]] * 3, *[[1.0, 9.0]] * 2)
    counter.deal_by_errors(replace(forest, votes=forest.counts), 4, entropy)
    return counter._weights


COINS = [disjoint_coins, bootstrap_coins, hold_out_coins, error_coins]


@pytest.mark.parametrize("extra_first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("coins", COINS, ids=lambda coins: coins.__name__)
def test_the_coins_of_other_records_stay_when_a_record_comes_first_or_last(coins, extra_first):
    for seed, n_records in [(0, 0), (1, 1), (2, 2), (3, 40), (4, 150)]:
        others = list(range(n_records))
        larger = [200, *others] if extra_first else [*others, 200]
        before, after = TapeEntropy(seed, extra_first), TapeEntropy(seed, extra_first)
        for _ in range(2):  # a later draw of the same fit is coupled too
            smaller_coins, larger_coins = coins(others, before), coins(larger, after)
            np.testing.assert_array_equal(larger_coins[:, 1:] if extra_first else larger_coins[:, :-1], smaller_coins)


@pytest.mark.parametrize("coins", COINS, ids=lambda coins: coins.__name__)
def test_coins_of_a_tape_differ_between_records_trees_draws_and_seeds(coins):
    entropy, records = TapeEntropy(5, False), list(range(150))
    first, second, other = coins(records, entropy), coins(records, entropy), coins(records, TapeEntropy(6, False))
    assert all(len(set(row.tolist())) > 1 for row in first)
    assert len({row.tobytes() for row in first}) == len(first)
    assert first.tobytes() != second.tobytes()
    assert first.tobytes() != other.tobytes()


def test_a_tape_knows_how_often_the_extra_record_is_in_a_bootstrap():
    for seed in range(20):
        entropy = TapeEntropy(seed, seed % 2 == 0)
        counts = bootstrap_coins(list(range(9)), entropy)
        assert entropy.n_drawn_last == max(1, counts[:, 0 if seed % 2 == 0 else -1].max())


def test_public_coins_of_a_tape_are_the_same_in_both_fits_and_new_each_time():
    one, two = TapeEntropy(8, True), TapeEntropy(8, True)
    drawn = [one.generator().random() for _ in range(5)]
    assert drawn == [two.generator().random() for _ in range(5)]
    assert len(set(drawn)) == 5
