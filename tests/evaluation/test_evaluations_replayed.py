"""Evaluations replayed on a neighbouring table: with the release frozen, nothing that is shown differs."""

import math

import numpy as np
import pandas as pd
import pytest

from dpforest.audit.replay import Fit, differences, flattened, unpaid_moves
from dpforest.audit.tape import Diverged, Tape
from dpforest.evaluation import scoring
from dpforest.evaluation.cells import Cells
from dpforest.evaluation.scoring import score_privately
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.records.scoring import Tally
from dpforest.show.report.html import evaluation_page


def evaluated(model, X, y, monkeypatch, script=None, ids=None):
    """One evaluation under the tape of the audit; with the questions of another as its script, it has its release."""
    tape = Tape(7, extra_first=False, script=script, has_extra=script is not None)
    monkeypatch.setattr(scoring, "Gate", lambda ledger, entropy: tape.watch(Gate(ledger, entropy)))
    cells = Cells.of(model, "z", model, 0.5)
    parts = [(X[part], y[part], None if ids is None else ids[part]) for part in (slice(100), slice(100, None))]
    found = score_privately(cells, parts, 1.0, None if ids is None else 2)
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


@pytest.mark.parametrize("kind", ["classifier_of_two", "regressor"])
def test_one_person_with_any_id_and_rows_changes_nothing_that_is_shown(kind, request, monkeypatch):
    model, X, y = request.getfixturevalue(kind)
    ids = np.array([*np.arange(200) // 3, *[None] * 5], dtype=object)
    first = evaluated(model, X[:200], y[:200], monkeypatch, ids=ids[:200])
    for odd in (7777, "text", None, math.nan, ("a", 1), b"\xff", 10**5000):
        ids[200:] = [odd] * 5
        second = evaluated(model, X[:205], y[:205], monkeypatch, first.tape.queries, ids)
        assert differences(first, second) == []


def test_a_record_that_is_counted_twice_is_found(classifier_of_two, monkeypatch):
    model, X, y = classifier_of_two

    def twice(self):
        return sealed(self).map(lambda counts: counts + np.roll(counts, 1, axis=2))

    sealed = Tally.sealed
    monkeypatch.setattr(Tally, "sealed", twice)
    assert {finding.kind for finding in findings(model, X[:200], y[:200], monkeypatch)} >= {"bound", "charge"}


def test_subgroups_that_are_shown_only_if_they_occur_are_found(classifier_of_two, monkeypatch):
    model, X, y = classifier_of_two

    def occurring(self, parts, people):
        seen = []
        whole = count(self, parts, people)
        whole.map(lambda counts: seen.append(np.flatnonzero(counts.any(axis=(1, 2, 3)))))
        object.__setattr__(self, "by", None if len(seen[0]) < 4 else self.by)
        return whole if self.by else Sealed(np.zeros(self.shape, dtype=np.int64))

    count = Cells.count
    monkeypatch.setattr(Cells, "count", occurring)
    with pytest.raises(Diverged):
        list(findings(model, X[:200], y[:200], monkeypatch))
