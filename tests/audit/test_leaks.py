"""Whatever gates, parts and estimators show of rows, or take without paying for it, is found."""

import logging
import math
import warnings
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from tests.audit.broken import COUNTS, GREEDY, first_findings, with_gate
from tests.support.encoded import opened

from dpforest import DPForestClassifier
from dpforest.audit.cases import generate
from dpforest.audit.replay import _factor, replay
from dpforest.audit.subject import Subject
from dpforest.audit.tape import Query
from dpforest.errors import TableError
from dpforest.growing import target
from dpforest.growing.learnt import LearnedGrid, Zooms
from dpforest.parts.criteria import MaxOperator, SquaredError
from dpforest.parts.leaves import NoisyCounts, TwoBinMean
from dpforest.parts.sampling import EveryRecord, PoissonBootstrap
from dpforest.privacy.accountants import Pure, make_accountant
from dpforest.privacy.bounds import Bound, Sensitivity
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.schema import TARGET_STEPS

pytestmark = pytest.mark.slow

ONE, LABEL = Sensitivity(1, 1), Bound(0, 1)


def counts_are_empty(values):
    return not opened(values).any()


def amount_by_size(values, amount, gate, label):
    return gate.add_noise(values, ONE, amount / (1 + counts_are_empty(values)), label)


def sensitivity_by_size(values, amount, gate, label):
    return gate.add_noise(values, Sensitivity(1 + counts_are_empty(values), 4), amount, label)


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


def ties_by_exact_counts(values, amount, gate, label):
    counts, variance = gate.add_noise(values, ONE, amount, label)
    return np.where(opened(values) == 1, counts, counts.clip(0)), variance


# How a leaf leaks, and the finding that it must have.
LEAKING = {
    amount_by_size: ("question", "amount of 'leaves'"),
    sensitivity_by_size: ("question", "bound of 'leaves'"),
    scope_by_size: ("question", "scope of 'leaves'"),
    mechanism_by_size: ("question", "runs of 'leaves'"),
    mask_of_present_labels: ("question", "candidates of 'leaves'"),
    groups_of_present_labels: ("question", "candidates of "),
    shape_by_empty_leaves: ("question", "shape of 'leaves'"),
    sizes_of_full_tables_too: ("question", "label"),
    charge_twice_if_empty: ("public value", "ledger_."),
    halves_of_counts: ("not an integer", "what 'leaves' is handed"),
    a_ledger_of_its_own: ("public value", "forest_.counts"),
    ties_by_exact_counts: ("public value", "forest_.counts"),
}


def with_leaf(release):
    """A subject whose leaves release ``release(values, amount, gate, label)``: counts and their variance, or labels."""

    class Leaf(NoisyCounts):
        def release(self, statistics, amount, gate, target, label, most=1):
            released = release(statistics, amount, gate, label)
            return released if isinstance(released, tuple) else (np.eye(target.n_values)[released], 0.0)

    return Subject(replace(COUNTS, leaf=Leaf()))


@pytest.mark.parametrize("release", LEAKING, ids=lambda part: part.__name__)
def test_a_part_whose_questions_depend_on_rows_is_caught_where_it_asks(release):
    kind, what = LEAKING[release]
    findings = [finding for finding in first_findings(with_leaf(release)) if finding.kind == kind and what in finding.what]
    assert findings
    if kind == "question":
        assert "tests/audit/test_leaks.py" in findings[0].where
        assert findings[0].where.endswith(f" in {release.__name__}")


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


def test_a_sensitivity_too_small_in_l2_alone_costs_too_much_with_delta_only():
    recipe = replace(COUNTS, criterion=SquaredError(), leaf=ShortMeans(), tasks=("regression",))
    findings = {True: [], False: []}
    for seed in range(30):
        case = generate(seed, recipe.tasks)
        findings[case.delta > 0] += replay(Subject(recipe), case)[1]
    assert {finding.kind for finding in findings[False]} == {"bound"}
    assert {finding.kind for finding in findings[True]} == {"bound", "charge", "loss"}
    # What is lost in all is found at the last release that a record moved, which may be the range of the target.
    assert all("test_leaks.py" in finding.where for finding in findings[True] if finding.kind != "loss")


LEARNT = replace(COUNTS, name="learnt grid", learned_grid=LearnedGrid(Zooms(2, 0.5)))
RANGED = replace(
    COUNTS, criterion=SquaredError(), leaf=TwoBinMean(), tasks=("regression",), target_range=target.TargetRange()
)


@pytest.mark.parametrize("recipe", [LEARNT, RANGED], ids=["grid", "range"])
def test_a_learnt_grid_and_a_range_of_the_target_are_sound(recipe):
    assert not first_findings(Subject(recipe), 30)


class FreeBootstrap(PoissonBootstrap):
    """A bootstrap whose trees are charged as if every record were in each of them once."""

    amount_per_tree, scopes = EveryRecord.amount_per_tree, EveryRecord.scopes


def test_a_bootstrap_that_is_charged_as_if_no_record_came_twice_is_caught():
    kinds = {finding.kind for finding in first_findings(Subject(replace(COUNTS, sample=FreeBootstrap())))}
    assert kinds == {"bound", "charge", "loss"}


def test_what_a_bootstrap_costs_is_found_by_its_own_charges():
    ledger, queries = Ledger(Pure(10.0)), []
    for _ in range(2):
        with ledger.scope("Poisson bootstrap", "bootstrap"):
            for label in ("splits", "leaves"):
                ledger.charge(label, "geometric", 0.25)
                queries.append(Query(Purpose(label), None, 0.25, None, "", ledger.books[-1], ledger.open_scopes))
    factors = [float(_factor(query, [(query, query) for query in queries])) for query in queries]
    assert factors == pytest.approx([math.expm1(0.5) / 0.5] * 4)


# --- gates --------------------------------------------------------------------------------------------------------------


class FreeGate(Gate):
    """Releases counts and forgets to charge."""

    def add_noise(self, values, sensitivity, amount, label):
        with patch.object(self.ledger, "charge"):
            return super().add_noise(values, sensitivity, amount, label)


class CheapGate(Gate):
    """Charges half of what it spends."""

    def add_noise(self, values, sensitivity, amount, label):
        charge = self.ledger.charge
        with patch.object(self.ledger, "charge", lambda label, mechanism, amount: charge(label, mechanism, amount / 2)):
            return super().add_noise(values, sensitivity, amount, label)


class RepeatingGate(Gate):
    """Runs its mechanism again where a count came out negative, on the same charge."""

    def add_noise(self, values, sensitivity, amount, label):
        counts, variance = super().add_noise(values, sensitivity, amount, label)
        with patch.object(self.ledger, "charge"):
            again, _ = super().add_noise(values, sensitivity, amount, label)
        return np.where(counts < 0, again, counts), variance


class LateGate(Gate):
    """Draws first and charges afterwards: where the budget does not suffice, the coins were shown for nothing."""

    def add_noise(self, values, sensitivity, amount, label):
        with patch.object(self.ledger, "charge"):
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
    LateGate: (COUNTS, {"charge"}),
    RichGate: (COUNTS, {"charge", "loss"}),
}


@pytest.mark.parametrize("gate", BROKEN_GATES, ids=lambda gate: gate.__name__)
def test_a_gate_that_takes_more_than_it_pays_for_is_caught(gate):
    recipe, kinds = BROKEN_GATES[gate]
    findings = first_findings(Subject(recipe, classifier=with_gate(gate)))
    assert {finding.kind for finding in findings} == kinds
    assert any("dpforest/parts/leaves.py" in finding.where for finding in findings)


# --- estimators ---------------------------------------------------------------------------------------------------------


def saying(say):
    """A subject whose fits call ``say(model, n_rows)`` at their end."""

    class Classifier(DPForestClassifier):
        def fit(self, X, y, *, progress=lambda step: None):
            super().fit(X, y, progress=progress)
            self.progress = progress
            try:
                say(self, len(y))
            finally:
                del self.progress
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
# What a fit says of its rows, by its model and their number, and the name under which it must be found.
LEAKS = {
    "a log line": (lambda model, n: LOGGER.info("%d rows", n), "log lines"),
    "a log line for debugging": (lambda model, n: LOGGER.debug("%d rows", n), "log lines"),
    "a log line with an exception": (lambda model, n: LOGGER.error("No.", exc_info=KeyError(n)), "log lines"),
    "a warning": (lambda model, n: warnings.warn(f"{n} rows", stacklevel=1), "warnings"),
    "a warning for an empty table": (lambda model, n: n or warnings.warn("Empty.", stacklevel=1), "warnings"),
    "an attribute": (lambda model, n: setattr(model, "n_rows_", n), "n_rows_"),
    "an attribute of some models": (lambda model, n: n or setattr(model, "empty_", True), "keys"),
    "an attribute of an attribute": (
        lambda model, n: setattr(model, "summary_", {"rows": [np.zeros(n)]}), "summary_.rows[0]"
    ),
    "an attribute of the class": (lambda model, n: setattr(type(model), "n_rows_", n), "class.n_rows_"),
    "an attribute that hides": (lambda model, n: setattr(model, "hidden_", Hidden(n)), "hidden_"),
    "a sealed attribute": (lambda model, n: setattr(model, "sealed_", Sealed(n)), "sealed_"),
    "the sign of a zero": (lambda model, n: setattr(model, "zero_", np.array([0.0 if n else -0.0])), "zero_"),
    "an entry of the ledger": (lambda model, n: model.ledger_.charge(f"{n} rows", "none", 0.0), "ledger_"),
    "a printed line": (lambda model, n: print(n), "printed"),
    "a step of progress": (lambda model, n: model.progress(f"{n} rows"), "progress"),
    "an error with a value": (lambda model, n: fail(TableError(f"{n} rows")), "error"),
    "an error for an empty table": (lambda model, n: n or fail(TableError("The table is empty.")), "error"),
    "an error caused by one with a value": (lambda model, n: fail_because_of(n), "error"),
    "another kind of error": (lambda model, n: fail((TableError if n else ValueError)("No.")), "error"),
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
    assert first_findings(saying(lambda model, n: compiler.debug("%d", n)), 10) == ()


def test_a_model_that_shows_another_ledger_than_the_one_charged_is_caught():
    subject = saying(lambda model, n: setattr(model, "ledger_", Ledger(make_accountant(model.epsilon, model.delta))))
    assert {finding.kind for finding in first_findings(subject, 10)} == {"charge"}


def test_fits_that_all_fail_by_a_mistake_of_the_code_are_not_taken_for_sound_ones():
    assert first_findings(saying(lambda model, n: fail(AssertionError("A mistake."))), 10)
