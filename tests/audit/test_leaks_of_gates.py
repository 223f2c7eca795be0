"""Gates that take more than they pay for are found."""

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from tests.audit.broken import COUNTS, LABELS, first_findings, with_gate

from dpforest.audit.subject import Subject
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger

pytestmark = pytest.mark.slow


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
    NarrowGate: (COUNTS, {"charge", "loss"}),
    SharpGate: (LABELS, {"bound", "charge", "loss"}),
    LateGate: (COUNTS, {"charge"}),
    RichGate: (COUNTS, {"charge", "loss"}),
}


@pytest.mark.parametrize("gate", BROKEN_GATES, ids=lambda gate: gate.__name__)
def test_a_gate_that_takes_more_than_it_pays_for_is_caught(gate):
    recipe, kinds = BROKEN_GATES[gate]
    findings = first_findings(Subject(recipe, classifier=with_gate(gate)))
    assert {finding.kind for finding in findings} == kinds
    assert any("dpforest/parts/leaves/" in finding.where for finding in findings)
    if gate is NarrowGate:
        assert all(finding.case.delta > 0 for finding in findings)
