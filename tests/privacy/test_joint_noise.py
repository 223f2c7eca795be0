"""Joint noise of the gate: charged with what it runs at, exact without privacy, and Gaussian where rho is counted."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpforest.errors import ParameterError
from dpforest.mechanisms import Entropy, Gaussian, KNorm, Rate
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.amounts import exact
from dpforest.privacy.bounds import Blocks
from dpforest.privacy.events import Mechanism, Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed

BLOCKS = Blocks((1, 3, 1, 2), 64)
VALUES = np.array([5, -70, 0, 2**40, 1, -1, 12])
PURPOSE = Purpose("linear", "first look")


def gate_of(epsilon=1.0, delta=0.0, seed=0):
    return Gate(Ledger(make_accountant(epsilon, delta)), Entropy(seed))


def charge_of(gate):
    (charge,) = gate.ledger.books[-1].root.children
    return charge


def test_blocks_know_how_many_numbers_they_have_and_how_far_all_of_them_move_in_l2():
    assert (BLOCKS.n_values, BLOCKS.l2_squared) == (7, 4 * 64**2)
    assert Blocks((9,), 5).l2_squared == 25


@pytest.mark.parametrize("amount", [0.001, 0.1, 1.0])
def test_joint_noise_is_one_draw_of_the_mechanism_at_the_rate_that_it_is_charged_with(amount):
    gate = gate_of(seed=7)
    released, variances = gate.add_joint_noise(Sealed(VALUES), BLOCKS, amount, PURPOSE)
    charge = charge_of(gate)
    rate = Rate.below(exact(amount) / BLOCKS.l1)
    ratio = Fraction(rate.numerator, rate.denominator)
    assert (charge.purpose, charge.amount) == (PURPOSE, amount)
    assert charge.mechanism == Mechanism("k-norm", {"l1": Fraction(64), "rate": ratio})
    assert (1 - Fraction(1, 60_000)) * exact(amount) < ratio * 64 <= exact(amount)
    assert released.dtype == np.int64
    assert (released - VALUES).tolist() == KNorm().draw(BLOCKS.sizes, rate, Entropy(7)).tolist()
    assert variances.tolist() == KNorm.variances(BLOCKS.sizes, rate).tolist()


def test_noise_of_a_huge_amount_is_no_sharper_than_is_offered_and_the_ledger_says_so():
    gate = gate_of(1e6)
    gate.add_joint_noise(Sealed(VALUES), BLOCKS, 1e5, PURPOSE)
    charge = charge_of(gate)
    assert charge.amount == 1e5
    assert charge.mechanism.parameters == {"l1": 64, "rate": Fraction(1, BLOCKS.n_values)}


def test_values_stay_as_they_are_and_are_released_exactly_without_privacy():
    gate, before = gate_of(math.inf), VALUES.copy()
    released, variances = gate.add_joint_noise(Sealed(VALUES), BLOCKS, math.inf, PURPOSE)
    assert released.tolist() == before.tolist()
    assert variances.tolist() == [0.0] * 7
    assert (charge_of(gate).mechanism.name, gate.ledger.spent) == ("exact", math.inf)
    released += 1
    assert VALUES.tolist() == before.tolist()
    gate_of().add_joint_noise(Sealed(VALUES), BLOCKS, 0.5, PURPOSE)
    assert VALUES.tolist() == before.tolist()


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_with_delta_joint_noise_is_gaussian_for_all_blocks_together(share):
    gate = gate_of(1.0, 1e-6, seed=8)
    amount = share * gate.ledger.accountant.budget
    released, variances = gate.add_joint_noise(Sealed(VALUES), BLOCKS, amount, PURPOSE)
    charge = charge_of(gate)
    variance = charge.mechanism.parameters["variance"]
    assert charge.amount == amount
    assert charge.mechanism == Mechanism("gaussian", {"l2_squared": Fraction(4 * 64**2), "variance": variance})
    # A record that moves each block by all of its L1, in one number, loses the amount and no more.
    assert (1 - Fraction(1, 10**6)) * exact(amount) < Fraction(4 * 64**2) / (2 * variance) <= exact(amount)
    assert variances.tolist() == [float(variance)] * 7
    assert (released - VALUES).tolist() == Gaussian().draw((7,), variance, Entropy(8)).tolist()


@pytest.mark.parametrize(("delta", "amount"), [(0.0, 1e-16), (1e-6, 1e-20)])
def test_joint_noise_that_would_not_fit_is_refused_before_it_is_charged(delta, amount):
    gate = gate_of(1.0, delta)
    with pytest.raises(ParameterError, match="Raise epsilon"):
        gate.add_joint_noise(Sealed(VALUES), BLOCKS, amount, PURPOSE)
    assert gate.ledger.entries() == []
