"""The ledger: charged before noise, joint noise too, never beyond the budget, added up exactly, kept when a fit fails."""

import itertools
import math
import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.strategies import recipe_of

from dpforest import Classes, DPForestClassifier, Numeric, Schema
from dpforest.errors import AccountingError, BudgetError, DPForestError, ParameterError
from dpforest.mechanisms import Entropy, Gaussian, GeometricNoise, KNorm, Rate
from dpforest.mechanisms import Gaussian as GaussianNoise
from dpforest.parts.allocation import Uniform
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.sampling import Disjoint, EveryRecord, PoissonBootstrap
from dpforest.privacy import gate as gate_module
from dpforest.privacy.accountants import Pure, make_accountant
from dpforest.privacy.amounts import exact
from dpforest.privacy.bounds import Blocks, Bound, Sensitivity
from dpforest.privacy.events import Mechanism, Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed

UNIT = Sensitivity(1, 1)
SCHEMA = Schema({"x": Numeric(0, 1), "z": Numeric(0, 1)}, Classes([0, 1]))
RNG = np.random.default_rng(81)
X = RNG.random((80, 2))
Y = (X[:, 0] > 0.5).astype(int)


def ledger_of(epsilon: float = 1.0, delta: float = 0.0) -> Ledger:
    return Ledger(make_accountant(epsilon, delta))


def release(gate: Gate, what: str, amount: float):
    if what == "choice":
        return gate.select(Sealed(np.zeros((1, 3), dtype=np.int64)), None, Bound(0, 1), amount, "split")
    if what == "joint noise":
        return gate.add_joint_noise(Sealed(np.zeros(3, dtype=np.int64)), Blocks((1, 2), 1), amount, "sums")
    return gate.add_noise(Sealed(np.zeros(3, dtype=np.int64)), UNIT, amount, "counts")


# --- charged first --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["choice", "noise", "joint noise"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_charge_stands_before_the_mechanism_runs_and_after_it_fails(what, delta, monkeypatch):
    ledger = ledger_of(1.0, delta)
    totals = []

    def fail(*_, **__):
        totals.append(ledger.total)
        raise RuntimeError("broken sampler")

    for mechanism in gate_module.CHOICES.values():
        monkeypatch.setattr(type(mechanism), "select", fail)
    for mechanism in (GeometricNoise, GaussianNoise, KNorm):
        monkeypatch.setattr(mechanism, "draw", fail)
    with pytest.raises(RuntimeError, match="broken sampler"):
        release(Gate(ledger, Entropy(0)), what, 0.01)
    assert totals == [0.01]
    assert ledger.total == 0.01
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize(
    ("what", "part"), [("choice", 0.0), *itertools.product(["choice", "noise", "joint noise"], [0.5, math.inf, -0.01])]
)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_the_gate_refuses_draws_no_random_word_and_enters_nothing(what, delta, part, monkeypatch):
    def refuse(n_bytes):
        raise AssertionError("a random word was drawn")

    monkeypatch.setattr(os, "urandom", refuse)
    ledger = ledger_of(1.0, delta)
    ledger.charge("first", "geometric", 0.7 * ledger.accountant.budget)
    before = ledger.to_json()
    with pytest.raises(BudgetError if part > 0 else (DPForestError, ValueError)):
        release(Gate(ledger, Entropy()), what, part * ledger.accountant.budget)
    assert ledger.to_json() == before


def test_a_mechanism_that_the_accountant_does_not_know_is_refused_before_anything_is_charged():
    ledger = ledger_of(1.0)
    scores = Sealed(np.zeros((1, 2), dtype=np.int64))
    with pytest.raises(AccountingError):
        Gate(ledger, Entropy(0)).select(scores, None, Bound(0, 1), 0.1, "split", "report-noisy-max")
    assert ledger.entries() == []


def test_an_overspend_says_what_was_asked_what_is_left_and_the_budget():
    ledger = ledger_of(1.0)
    ledger.charge("splits", "permute-and-flip", 0.75)
    with pytest.raises(BudgetError, match=r"'leaves' asks for epsilon = 0\.5, but 0\.25 of 1 is left") as caught:
        ledger.charge("leaves", "geometric", 0.5)
    assert "Nothing was released" in str(caught.value)
    ledger.charge("leaves", "geometric", 0.25)
    assert ledger.total == ledger.spent == 1.0


@pytest.mark.parametrize(("delta", "amount", "refusal"), [(0.0, 1000.0, BudgetError), (1e-6, 1e-4, AccountingError)])
def test_a_charge_too_large_to_be_computed_or_without_analysis_is_refused_and_not_entered(delta, amount, refusal):
    ledger = ledger_of(1.0, delta)
    with ledger.scope("sample", "bootstrap"), pytest.raises(refusal):
        ledger.charge("leaves", ledger.accountant.noise, amount)
    assert ledger.entries() == []


def test_ten_tenths_are_one_and_no_more_fits():
    # The float 0.1 is above a tenth, but stands for the decimal.
    ledger = ledger_of(1.0)
    for _ in range(10):
        ledger.charge("step", "geometric", 0.1)
    assert ledger.total == ledger.spent == 1.0
    with pytest.raises(BudgetError, match="but 0 of 1 is left"):
        ledger.charge("step", "geometric", 5e-324)


@pytest.mark.parametrize("amount", [-0.1, -math.inf, math.nan])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_an_amount_that_is_negative_or_no_number_is_refused_and_not_entered(amount, delta):
    ledger = ledger_of(1.0, delta)
    with pytest.raises((DPForestError, ValueError)):
        ledger.charge("refund", "gaussian", amount)
    assert ledger.entries() == []
    assert ledger.total == 0


# --- how charges add up ---------------------------------------------------------------------------------------------


def enter(ledger: Ledger, parts: list) -> None:
    """Amounts, and scopes as (kind, copies, parts), one after another."""
    for part in parts:
        if isinstance(part, float):
            ledger.charge("step", "geometric", part)
            continue
        kind, copies, inside = part
        with ledger.scope("part", kind, copies):
            enter(ledger, inside)


SEQUENCES = [("sequential", 1, [amount, 0.125]) for amount in (0.5, 2.0, 1.0)]
SCOPES = {
    "the sum, times its copies": ([("sequential", 3, [0.5, 0.25]), 1.0], 3 * 0.75 + 1.0),
    "the dearest of parallel parts": ([("parallel", 1, SEQUENCES)], 2.125),
    "copies of a parallel scope": ([("parallel", 3, [0.5, 1.0])], 3.0),
    "parallel parts as dear as each other": ([("parallel", 1, [("sequential", 1, [1.0])] * 5)], 1.0),
    "exp - 1 of what is in a bootstrap": ([("sequential", 2, [("bootstrap", 1, [0.5, 0.25])])], 2 * math.expm1(0.75)),
}


@pytest.mark.parametrize(("parts", "cost"), SCOPES.values(), ids=SCOPES)
def test_a_scope_costs(parts, cost):
    ledger = ledger_of(10.0)
    enter(ledger, parts)
    assert cost <= ledger.total <= cost * (1 + 1e-14)


def test_a_charge_in_a_scope_is_checked_as_what_it_adds_to_the_total():
    ledger = ledger_of(1.0)
    with ledger.scope("each tree", copies=4):
        with pytest.raises(BudgetError):
            ledger.charge("leaves", "geometric", 0.3)
        ledger.charge("leaves", "geometric", 0.25)
    with pytest.raises(BudgetError), ledger.scope("sample", "bootstrap"):
        ledger.charge("leaves", "geometric", 1e-3)
    assert ledger.total == 1.0


def test_charges_of_a_scope_stay_when_its_block_fails_and_later_charges_are_outside_it():
    ledger = ledger_of(1.0)
    with pytest.raises(BudgetError), ledger.scope("each tree", copies=2):  # noqa: PT012
        ledger.charge("splits", "permute-and-flip", 0.25)
        ledger.charge("leaves", "geometric", 0.75)
    ledger.charge("again", "geometric", 0.5)
    assert ledger.total == 1.0
    assert [entry["scope"] for entry in ledger.entries()] == ["fit / each tree", "fit"]


@pytest.mark.parametrize(("kind", "copies"), [("paralel", 1), ("sequential", 0), ("sequential", -1)])
def test_a_scope_that_the_ledger_does_not_know_is_refused(kind, copies):
    ledger = ledger_of(1.0)
    with pytest.raises((DPForestError, ValueError)), ledger.scope("trees", kind, copies):
        ledger.charge("leaves", "geometric", 0.5)


# --- leaks ----------------------------------------------------------------------------------------------------------


def test_a_leak_makes_the_total_infinite_and_is_listed_with_its_reason():
    ledger = ledger_of(1.0)
    ledger.charge("splits", "permute-and-flip", 0.5)
    with ledger.scope("parts", "parallel"):
        ledger.leak("stop", "the paper stops on exact counts")
    assert ledger.total == ledger.spent == math.inf
    assert [(leak.label, leak.reason) for leak in ledger.leaks] == [("stop", "the paper stops on exact counts")]


def test_charges_are_still_entered_and_still_capped_after_a_leak():
    # A published algorithm opens some values and pays for others; its mechanisms must run after the leak too.
    ledger = ledger_of(1.0)
    ledger.leak("stop", "the paper stops on exact counts")
    ledger.charge("leaves", "geometric", 0.5)
    assert [entry["label"] for entry in ledger.entries()] == ["stop", "leaves"]
    with pytest.raises(BudgetError):
        ledger.charge("more", "geometric", 0.75)


class LeakyLeaf(NoisyCounts):
    """A leaf that opens its counts."""

    def release(self, statistics, amount, gate, target, label, most=1):
        gate.ledger.leak(label, "counts are printed as they are")
        return statistics._value.astype(float), 0.0


def test_a_model_whose_fit_leaked_warns_and_states_no_privacy_and_the_reason():
    model = DPForestClassifier(SCHEMA, epsilon=1.0, recipe=recipe_of(leaf=LeakyLeaf()))
    with pytest.warns(Warning, match="counts are printed as they are"):
        model.fit(X, Y)
    assert model.privacy_.epsilon == math.inf
    assert not model.privacy_.holds
    assert model.privacy_.reasons == ("leaves: counts are printed as they are",)


# --- whole fits -----------------------------------------------------------------------------------------------------


ACCOUNTANTS = st.one_of(
    st.builds(make_accountant, st.floats(1e-6, 1e4), st.just(0.0)),
    st.builds(make_accountant, st.floats(1e-3, 50), st.sampled_from([1e-9, 1e-6, 1e-2])),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(ACCOUNTANTS, st.sampled_from([Disjoint(), EveryRecord(), PoissonBootstrap()]), st.data())
def test_no_depth_or_number_of_trees_overspends_or_leaves_a_rest(accountant, sampling, data):
    depth, n_trees = data.draw(st.integers(1, 15)), data.draw(st.integers(1, 300))
    if isinstance(sampling, PoissonBootstrap) and not isinstance(accountant, Pure):
        sampling = EveryRecord()
    ledger = Ledger(accountant)
    plan = Uniform().plan(sampling.amount_per_tree(accountant, accountant.budget, n_trees), depth)
    with sampling.scopes(ledger, n_trees):
        for amount in (*plan.splits, *plan.counts):
            assert amount >= 0
            if amount:
                ledger.charge("step", "geometric", amount)
    budget = exact(accountant.budget)
    assert (1 - Fraction(1, 10**9)) * budget < exact(ledger.total) <= budget
    assert ledger.spent <= accountant.epsilon


def test_a_ledger_is_shown_by_its_total_and_number_of_charges():
    ledger = Ledger(make_accountant(1.0, 0.0))
    ledger.charge("counts", "geometric", 0.25)
    assert repr(ledger) == "Ledger(spent=0.25, charges=1)"


# --- joint noise -----------------------------------------------------------------------------------------------------

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
def test_noise_that_would_not_fit_is_refused_before_it_is_charged(delta, amount):
    gate = gate_of(1.0, delta)
    with pytest.raises(ParameterError, match="Raise epsilon"):
        gate.add_joint_noise(Sealed(VALUES), BLOCKS, amount, PURPOSE)
    with pytest.raises(ParameterError, match="Raise epsilon"):
        gate.add_noise(Sealed(VALUES), Sensitivity(1, 1), amount / BLOCKS.l1, "counts")
    assert gate.ledger.entries() == []
