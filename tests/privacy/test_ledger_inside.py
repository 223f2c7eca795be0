"""Charges inside an earlier scope of a ledger."""

import pytest

from dpforest.errors import DPForestError
from dpforest.privacy.accountants import Pure
from dpforest.privacy.events import Purpose, Scope
from dpforest.privacy.ledger import Ledger


def test_charges_inside_an_earlier_scope_belong_to_it_and_later_ones_do_not():
    ledger = Ledger(Pure(1.0))
    with ledger.scope("parts", "parallel"):
        with ledger.scope("first") as first:
            ledger.charge("a", "geometric", 0.25)
        with ledger.scope("second"):
            ledger.charge("b", "geometric", 0.5)
        with ledger.inside(first), ledger.scope("again"):
            ledger.charge("c", "geometric", 0.5)
    ledger.charge("d", "geometric", 0.25)
    assert [(entry["label"], entry["scope"]) for entry in ledger.entries()] == [
        ("a", "fit / parts / first"),
        ("c", "fit / parts / first / again"),
        ("b", "fit / parts / second"),
        ("d", "fit"),
    ]
    assert ledger.total == 1.0
    assert ledger.n_entries == 4
    assert Ledger.from_json(ledger.to_json()) == ledger


def test_a_charge_inside_an_earlier_scope_is_checked_against_the_budget_and_the_scope_is_left_when_it_fails():
    ledger = Ledger(Pure(1.0))
    with ledger.scope("parts", "parallel"):
        with ledger.scope("first") as first:
            ledger.charge("a", "geometric", 0.75)
        with pytest.raises(DPForestError), ledger.inside(first):
            ledger.charge("b", "geometric", 0.5)
        with ledger.scope("second"):
            ledger.charge("c", "geometric", 1.0)
    assert [entry["scope"] for entry in ledger.entries()] == ["fit / parts / first", "fit / parts / second"]
    assert ledger.n_entries == 2


def test_a_scope_of_another_ledger_is_refused_for_its_charges_would_count_nowhere():
    ledger, other = Ledger(Pure(1.0)), Ledger(Pure(1.0))
    with other.scope("elsewhere") as foreign:
        pass
    for scope in (foreign, Scope(Purpose("nowhere"))):
        with pytest.raises(DPForestError), ledger.inside(scope):  # noqa: PT012
            for _ in range(3):
                ledger.charge("free", "geometric", 1.0)
    assert scope.children == []
