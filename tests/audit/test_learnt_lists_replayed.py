"""Replays of fits that learn lists: sound ones are clean, and gates that name more than they pay for are found."""

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.audit.broken import COUNTS, with_gate

from dpforest import Categorical, Classes, Schema, get_recipe
from dpforest.audit.cases import Case
from dpforest.audit.replay import replay
from dpforest.audit.subject import Subject
from dpforest.growing import learnt
from dpforest.mechanisms import Gaussian, Rate
from dpforest.mechanisms.thresholds import threshold
from dpforest.privacy import gate as gates
from dpforest.privacy.amounts import divide_evenly
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger

SCHEMA = Schema({"a": Categorical(learn=True), "b": Categorical(learn=True), "c": Categorical([0, 1])}, Classes([0, 1]), 60)
ROWS = tuple((*row, label) for row in [("x", 7, 0)] * 20 + [("y", "z", 1)] * 8 + [(None, "rare", 0)] for label in (0, 1))
# A value that others have, one that nobody has, a missing one, and some that have no text.
EXTRAS = [("x", 7, 0, 1), ("new", "newer", 1, 0), ("x", "only here", 0, 0), (None, [1], 0, 1), (b"x", 3.5, None, 0)]
CASES = [Case(seed, SCHEMA, ROWS, extra, seed % 2 == 0, seed % 3 == 0, 8.0, 0.05, 1, 1) for seed, extra in enumerate(EXTRAS)]
SOUND = {
    "zCDP": COUNTS,
    "pure but for lists": replace(COUNTS, without_delta=True),
    "bootstrap": replace(get_recipe("patil-singh-2014"), n_trees=1),
}


def findings_of(recipe, gate=Gate):
    subject = Subject(recipe, classifier=with_gate(gate))
    return [finding for case in CASES for finding in replay(subject, case)[1]]


@pytest.mark.parametrize("name", SOUND)
def test_fits_that_learn_lists_tell_neighbours_apart_by_what_they_paid_for_alone(name):
    assert findings_of(SOUND[name]) == []
    fits, _ = replay(Subject(SOUND[name]), CASES[1])
    lists = [query for query in fits[0].tape.queries if query.purpose.kind == "list of values"]
    assert [query.purpose.step for query in lists] == ["a", "b"]
    assert any(run.named for query in lists for run in query.runs)
    assert {query.runs[0].mechanism for query in lists} == {"gaussian" if name == "zCDP" else "geometric"}


class LoudGate(Gate):
    """Noise of lists that is a fifth too small."""

    def _named(self, counts, scale, least):
        if isinstance(scale, Rate):
            return super()._named(counts, Rate.below(Fraction(5 * scale.numerator, 4 * scale.denominator)), least)
        return super()._named(counts, Gaussian.rounded(scale * Fraction(16, 25)), least)


class GenerousGate(Gate):
    """Names every value that occurs."""

    def _named(self, counts, scale, least):
        return super()._named(counts, scale, -(10**9))


class FreeGate(Gate):
    """Takes twenty times the delta that was asked for, and enters none."""

    def name_frequent(self, counts, amount, delta, purpose):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gates, "THRESHOLD_DELTA", "forgotten")
            return super().name_frequent(counts, amount, 20 * delta, purpose)


@pytest.mark.parametrize("recipe", ["zCDP", "pure but for lists"])
@pytest.mark.parametrize(("gate", "kind"), [(LoudGate, "question"), (GenerousGate, "bound"), (FreeGate, "bound")])
def test_a_gate_that_names_more_than_it_pays_for_is_caught(recipe, gate, kind):
    assert {finding.kind for finding in findings_of(SOUND[recipe], gate)} == {kind}


def test_lists_whose_deltas_add_up_to_more_than_their_book_has_are_caught(monkeypatch):
    monkeypatch.setattr(Ledger, "_check_thresholds", lambda *_: None)
    monkeypatch.setattr(
        learnt, "divide_evenly", lambda amount, n: amount if amount == CASES[0].delta else divide_evenly(amount, n)
    )
    found = findings_of(SOUND["pure but for lists"])
    assert {(finding.kind, finding.where) for finding in found} == {("loss", "lists")}


@pytest.mark.parametrize("recipe", ["zCDP", "pure but for lists"])
def test_a_threshold_that_is_one_too_small_is_caught_where_one_table_has_a_new_value(recipe, monkeypatch):
    monkeypatch.setattr(gates, "threshold", lambda *how: threshold(*how) - 1)
    found = findings_of(SOUND[recipe])
    assert {(finding.kind, finding.what) for finding in found} == {
        ("bound", f"delta of 'list of values: {name}'") for name in "ab"
    }
    assert {finding.case.extra for finding in found} == {EXTRAS[1], EXTRAS[2]}
