"""What one record adds to what is counted for an evaluation, and that with the release frozen nothing else shows it."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from tests.support.encoded import opened
from tests.support.scored import CUTS, LABELS, classifier, classifier_of_two, regressor

from dpforest import Bounded, Classes
from dpforest.audit.replay import Fit, differences, flattened, unpaid_moves
from dpforest.audit.tape import Diverged, Tape
from dpforest.evaluation import scoring
from dpforest.evaluation.cells import Cells
from dpforest.evaluation.scoring import score_privately
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.records.scoring import MASS, Tally, group_codes
from dpforest.show.report.html import evaluation_page

__all__ = ["classifier", "classifier_of_two", "regressor"]

SHAPE = (2, 2, 3, 4)  # subgroups, right or wrong of another model, classes, bins


def counted(y, predicted, found, others, groups):
    tally = Tally(SHAPE)
    tally.add_outcomes(y, predicted, Classes(LABELS), found, others, groups)
    return opened(tally.sealed())


def moves():
    """The L1 and squared L2 moves of the counts by each possible record."""
    y, places = (
        np.array(["a", "b", "c"], dtype=object),
        [np.array(each) for each in ([0, 0, 2], [0, 1, 3], [1, 0, 2], [0, 1, 1])],
    )
    before = counted(y, *places)
    for label in (*LABELS, "unlisted", None):
        for place in itertools.product(range(3), range(4), range(3), range(2)):
            more = [np.append(each, value) for each, value in zip(places, place, strict=True)]
            change = counted(np.append(y, [label]), *more) - before
            yield int(np.abs(change).sum()), int(np.square(change).sum())


def test_a_record_moves_one_cell_of_outcomes_by_one():
    assert set(moves()) == {(0, 0), (1, 1)}  # so a sensitivity of 0.9 would be too small


def sums(target, values, predicted, others, groups):
    tally = Tally((2, 3, 3, 3))
    tally.add_errors(np.array(values, dtype=float), np.array(predicted), target, others, groups)
    return opened(tally.sealed())


def test_a_record_moves_the_sums_of_a_number_by_its_mass():
    target, largest = Bounded(-2, 6), 0
    ends = (-2, -1.3, 0.1, 5.9, 6, 900, -math.inf, math.nan)
    before = sums(target, [1.0], [2.0], np.array([0.5]), np.array([0]))
    for value, predicted, other, group in itertools.product(ends, np.linspace(-2, 6, 9), (-2.0, 1.7, 7.5), (0, 1)):
        more = sums(target, [1.0, value], [2.0, predicted], np.array([0.5, other]), np.array([0, group]))
        change = more - before
        assert (change >= 0).all()
        assert change.sum() == (0 if math.isnan(value) else MASS)  # so 0.9 of it would be too small
        assert (change[1 - group] == 0).all()
        largest = max(largest, int(np.square(change).sum()))
    assert 0.9 * MASS**2 < largest <= MASS**2


def test_moments_add_up_to_sums_of_errors_and_squares():
    target, rng = Bounded(-2, 6), np.random.default_rng(0)
    values, predicted, others = (rng.uniform(-2, 6, 500) for _ in range(3))
    z, error, other = (values + 2) / 8, np.abs(values - predicted) / 8, np.abs(values - others) / 8
    found = sums(target, values, predicted, others, np.zeros(500, dtype=int))[0] / MASS
    first, second = np.array([1, 0.5, 0]), np.array([1, 0, 0])
    for axis, x in enumerate((other, z, error)):
        along = found.sum(axis=tuple({0, 1, 2} - {axis}))
        assert along @ first == pytest.approx(x.sum(), abs=500 * 3 / MASS)
        assert along @ second == pytest.approx(np.square(x).sum(), abs=500 * 3 / MASS)
    assert first @ found.sum(axis=1) @ first == pytest.approx((other * error).sum(), abs=500 * 5 / MASS)


def records(model):
    """Records with every kind of value that a cell may depend on, and such as no schema knows."""
    x = (0.0, 0.31, 0.99, -5.0, math.inf, math.nan)
    z = ("u", "v", "unlisted", None)
    y = (*LABELS, "unlisted", None) if isinstance(model.schema_.target, Classes) else (0.0, 3.3, 10.0, -1e9, math.nan)
    return itertools.islice(itertools.product(x, z, y), 0, None, 7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "classifier_of_two", "regressor"])
@pytest.mark.parametrize("by", [None, "z", ("x", CUTS)])
def test_whole_evaluations_move_by_no_more_than_they_state(kind, by, request):
    model, X, y = request.getfixturevalue(kind)
    rows, labels = X[:20], y[:20]
    for other in (None, model):
        cells, largest = Cells.of(model, by, other, 0.5), 0
        before = opened(cells.count([(rows, labels, None)]))
        assert before.shape == cells.shape
        for x, z, label in records(model):
            one = pd.DataFrame({"x": [x], "z": np.array([z], dtype=object)})
            change = opened(cells.count([(rows, labels, None), (one, np.array([label], dtype=y.dtype), None)])) - before
            assert (change >= 0).all()
            largest = max(largest, int(change.sum()))
        assert largest == cells.most == cells.sensitivity.l1


def test_values_outside_the_list_and_missing_ones_have_subgroups(classifier):
    model, _, _ = classifier
    X = pd.DataFrame(
        {"x": [0.1, 0.5, 0.9, math.nan, -math.inf], "z": np.array(["u", "v", "elsewhere", None, 3], dtype=object)}
    )
    assert group_codes(X, model.schema_, 1, model.schema_.features["z"], ()).tolist() == [0, 1, 2, 3, 2]
    assert group_codes(X, model.schema_, 0, None, CUTS).tolist() == [0, 1, 2, 3, 0]  # a cut belongs to what is above it


# --- evaluations replayed --------------------------------------------------------------------------------------------


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
