"""The names of frequent values keep their claim, by their exact law on small tables."""

import itertools
import math

import numpy as np
import pytest

from dpforest.errors import AccountingError, BudgetError
from dpforest.mechanisms import Entropy
from dpforest.privacy.accountants import make_accountant, zcdp_log_delta
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed

REACH = 40  # noise beyond has no mass that matters


def gate_of(epsilon, delta, threshold_delta, rows=1):
    return Gate(Ledger(make_accountant(epsilon, delta, rows, threshold_delta)), Entropy(None))


def parameters(gate):
    """What the mechanism says it ran with."""
    return gate.ledger.root.children[-1].mechanism.parameters


def mass(noise, scale):
    """The probability of each value of the noise in -REACH .. REACH."""
    k = np.arange(-REACH, REACH + 1)
    weights = np.exp(-np.abs(k) * scale) if noise == "geometric" else np.exp(-(k**2) / (2 * scale))
    return weights / weights.sum()


def law(counts, noise, scale, least):
    """The probability of each result: for each of the values in order, its noisy count, or None if it is not named."""
    single = []
    for count in counts:
        shown = {None: 1.0}
        if count:
            masses = mass(noise, scale)
            values = count + np.arange(-REACH, REACH + 1)
            shown = {int(value): p for value, p in zip(values, masses, strict=True) if value >= least}
            shown[None] = masses[values < least].sum()
        single.append(shown)
    return {
        keys: math.prod(shown[key] for shown, key in zip(single, keys, strict=True)) for keys in itertools.product(*single)
    }


def hockey_stick(p, q, epsilon):
    """The largest P(S) - e**epsilon Q(S)."""
    return sum(max(0.0, mass - math.exp(epsilon) * q.get(result, 0.0)) for result, mass in p.items())


def neighbours(rows):
    """Small tables of two values, each with a larger one: some of the values do not occur in the smaller."""
    for base in ((0, 0), (4, 0), (4, 3)):
        for more in itertools.product(range(rows + 1), repeat=2):
            if sum(more) == rows:
                yield base, tuple(np.add(base, more).tolist())


def worst_delta(noise, scale, least, rows, epsilon):
    """The least delta that covers all neighbours at an epsilon, in both directions."""
    laws = [[law(counts, noise, scale, least) for counts in pair] for pair in neighbours(rows)]
    return max(hockey_stick(*pair, epsilon) for both in laws for pair in (both, both[::-1]))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_pure_lists_keep_epsilon_and_delta_for_all_neighbours_and_use_them_up(rows):
    gate, epsilon = gate_of(0.8 * rows, 0.02, 0.02, rows), 0.8 * rows
    gate.name_frequent(Sealed({}), 0.8, 0.02, "list")
    ran = parameters(gate)
    rate, least = float(ran["rate"]), int(ran["threshold"])
    assert ran["delta"] == pytest.approx(0.02)
    assert worst_delta("geometric", rate, least, rows, epsilon) <= 0.02 + 1e-9
    # One less as the threshold, or a rate a tenth too large, would be too much for some pair.
    assert worst_delta("geometric", rate, least - 1, rows, epsilon) > 0.02
    small, large = (law((count, 0), "geometric", 1.1 * rate, -REACH) for count in (4, 4 + rows))
    assert hockey_stick(large, small, epsilon) > 0.01


@pytest.mark.parametrize("rows", [1, 2])
def test_zcdp_lists_keep_the_sum_of_both_deltas_for_all_neighbours(rows):
    gate = gate_of(2.0, 0.05, 0.03, rows)
    amount = gate.ledger.accountant.budget
    gate.name_frequent(Sealed({}), amount, 0.03, "list")
    ran, noise_delta = parameters(gate), math.exp(zcdp_log_delta(amount * rows**2, 2.0))
    variance, least = float(ran["variance"]), int(ran["threshold"])
    assert noise_delta <= 0.02 * (1 + 1e-9)
    assert worst_delta("gaussian", variance, least, rows, 2.0) <= 0.05
    assert worst_delta("gaussian", variance, least - 1, rows, 2.0) > 0.03  # the part of lists alone


def test_what_a_list_costs_is_charged_before_anything_is_drawn_with_all_that_it_follows_from():
    gate = gate_of(1.0, 1e-5, 1e-6, rows=4)
    rho = gate.ledger.accountant.budget / 2
    gate.name_frequent(Sealed({"a": 10**6, "b": 1}), rho, 4e-7, "list")
    ran = parameters(gate)
    assert set(ran) == {"l2_squared", "variance", "threshold", "delta"}
    assert ran["l2_squared"] / (2 * ran["variance"]) <= rho
    assert gate.ledger.root.children[-1].amount == rho
    again = Ledger.from_dict(gate.ledger.to_dict())
    assert again == gate.ledger
    assert again.accountant.threshold_delta == 1e-6
    assert again.spent == gate.ledger.spent

    class Refusing(Entropy):
        def run(self, *_):
            raise AssertionError("drawn")

    gate.entropy = Refusing()
    with pytest.raises(BudgetError, match="delta"):
        gate.name_frequent(Sealed({"a": 1}), rho / 4, 7e-7, "list")
    with pytest.raises(BudgetError, match="rho"):
        gate.name_frequent(Sealed({"a": 1}), 2 * rho, 1e-7, "list")
    with pytest.raises(AccountingError, match="inside"), gate.ledger.scope("trees", copies=2):
        gate.name_frequent(Sealed({"a": 1}), rho / 4, 1e-7, "list")
    assert gate.ledger.n_entries == 1


def test_the_order_of_a_list_follows_from_what_was_released_alone():
    counts = {"few": 400, "ß": 9_000, "a": 50_000, "never": 1}
    for order in itertools.permutations(counts):
        gate = Gate(Ledger(make_accountant(1.0, 1e-5, 1, 1e-5)), Entropy(3))
        assert gate.name_frequent(Sealed({key: counts[key] for key in order}), 1.0, 1e-5, "list") == ["a", "ß", "few"]
    exact = Gate(Ledger(make_accountant(math.inf, 0.0)), Entropy(None))
    assert exact.name_frequent(Sealed({"b": 2, "c": 1, "a": 2}), math.inf, 0.0, "list") == ["a", "b", "c"]
