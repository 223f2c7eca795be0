"""Whatever an estimator shows of its rows is found."""

import logging
import warnings
from dataclasses import replace

import numpy as np
import pytest
from tests.audit.broken import COUNTS, first_findings

from dpforest import DPForestClassifier
from dpforest.audit.replay import replay_many
from dpforest.audit.subject import Subject
from dpforest.errors import ParameterError, TableError
from dpforest.parts.leaves import TwoBinMean
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed

pytestmark = pytest.mark.slow


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


def test_a_recipe_whose_every_fit_is_refused_does_not_pass():
    with pytest.raises(ParameterError, match=r"Every fit of recipe .* was refused, so nothing could be tried"):
        replay_many(Subject(replace(COUNTS, leaf=TwoBinMean())), 5)
