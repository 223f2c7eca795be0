"""Evaluations replayed on a neighbouring table: with the release frozen, nothing that is shown differs."""

import math

import numpy as np
import pandas as pd
import pytest
from tests.support.scored import classifier, classifier_of_two, regressor

from dpforest.audit.replay import Fit, differences, flattened, unpaid_moves
from dpforest.audit.tape import Diverged, Tape
from dpforest.evaluation import cells as cells_module
from dpforest.evaluation import evaluate_privately, scoring
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.show.report.html import evaluation_page

__all__ = ["classifier", "classifier_of_two", "regressor"]


def evaluated(model, X, y, monkeypatch, script=None):
    """One evaluation under the tape of the audit; with the questions of another as its script, it has its release."""
    tape = Tape(7, extra_first=False, script=script, has_extra=script is not None)
    monkeypatch.setattr(scoring, "Gate", lambda ledger, entropy: tape.watch(Gate(ledger, entropy)))
    found = evaluate_privately(model, [(X[:100], y[:100]), (X[100:], y[100:])], 1.0, by="z", compare=model)
    content = found.to_dict()
    return Fit(tape, dict(flattened("", content)) | {"page": evaluation_page(content, "twin.json")})


def findings(model, X, y, monkeypatch):
    """What tells a table and the same with one record more apart, for several records."""
    odd = [(0.2, "u"), (math.nan, None), (math.inf, "nowhere"), (-3.0, "v")]
    for (x, z), label in zip(odd, (y[0], y[1], y[2], y[3]), strict=True):
        more = pd.concat([X, pd.DataFrame({"x": [x], "z": np.array([z], dtype=object)})], ignore_index=True)
        labels = np.append(y, np.array([label], dtype=y.dtype))
        first = evaluated(model, X, y, monkeypatch)
        second = evaluated(model, more, labels, monkeypatch, first.tape.queries)
        yield from (*differences(first, second), *unpaid_moves(first, second))


@pytest.mark.parametrize("kind", ["classifier", "classifier_of_two", "regressor"])
def test_one_record_moves_what_was_paid_for_alone(kind, request, monkeypatch):
    model, X, y = request.getfixturevalue(kind)
    assert list(findings(model, X[:200], y[:200], monkeypatch)) == []


def test_a_record_that_is_counted_twice_is_found(classifier_of_two, monkeypatch):
    model, X, y = classifier_of_two

    def twice(*arguments):
        return count(*arguments).map(lambda counts: counts + np.roll(counts, 1, axis=2))

    count = cells_module.count_outcomes
    monkeypatch.setattr(cells_module, "count_outcomes", twice)
    assert {finding.kind for finding in findings(model, X[:200], y[:200], monkeypatch)} >= {"bound", "charge"}


def test_subgroups_that_are_shown_only_if_they_occur_are_found(classifier_of_two, monkeypatch):
    model, X, y = classifier_of_two

    def occurring(self, parts):
        seen = []
        whole = count(self, parts)
        whole.map(lambda counts: seen.append(np.flatnonzero(counts.any(axis=(1, 2, 3)))))
        object.__setattr__(self, "by", None if len(seen[0]) < 4 else self.by)
        return whole if self.by else Sealed(np.zeros(self.shape, dtype=np.int64))

    count = cells_module.Cells.count
    monkeypatch.setattr(cells_module.Cells, "count", occurring)
    with pytest.raises(Diverged):
        list(findings(model, X[:200], y[:200], monkeypatch))
