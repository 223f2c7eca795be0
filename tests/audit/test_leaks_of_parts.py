"""Parts whose questions depend on rows, or whose claims are false, are found where they ask."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.audit.broken import COUNTS, GREEDY, first_findings
from tests.support.encoded import opened

from dpforest.audit.cases import generate
from dpforest.audit.replay import _factor, replay
from dpforest.audit.subject import Subject
from dpforest.audit.tape import Query
from dpforest.growing import learned_grid, target_range, target_scale
from dpforest.growing.learned_grid import LearnedGrid, Zooms
from dpforest.growing.sequential import Phase, Sequential
from dpforest.parts.criteria import MaxOperator, ResidualGain, SquaredError
from dpforest.parts.leaves import NoisyCounts, ResidualSums, TwoBinMean
from dpforest.parts.postprocess import EvenShrinkage
from dpforest.parts.recipe import Narrow
from dpforest.parts.sampling import EveryRecord, PoissonBootstrap
from dpforest.parts.voting import LogShares
from dpforest.privacy.accountants import Pure, make_accountant
from dpforest.privacy.base import Bound, Sensitivity
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.schema import TARGET_STEPS

pytestmark = pytest.mark.slow

ONE, LABEL = Sensitivity(1, 1), Bound(0, 1)


def counts_are_empty(values):
    return not opened(values).any()


def amount_by_size(values, amount, gate, label):
    return gate.add_noise(values, ONE, amount / (1 + counts_are_empty(values)), label)


def sensitivity_by_size(values, amount, gate, label):
    return gate.add_noise(values, Sensitivity(1 + counts_are_empty(values), 4), amount, label)


def bound_by_size(values, amount, gate, label):
    return gate.select(values, None, Bound(0, 1 + counts_are_empty(values)), amount, label)


def label_by_size(values, amount, gate, label):
    return gate.add_noise(values, ONE, amount, "empty leaves" if counts_are_empty(values) else label)


def scope_by_size(values, amount, gate, label):
    with gate.ledger.scope("leaves", copies=1 + counts_are_empty(values)):
        return gate.add_noise(values, ONE, amount / 2, label)


def mechanism_by_size(values, amount, gate, label):
    return gate.select(values, None, LABEL, amount, label, "exponential" if counts_are_empty(values) else "permute-and-flip")


def mask_of_present_labels(values, amount, gate, label):
    counts = opened(values)
    return gate.select(values, (counts > 0) | ~counts.any(axis=1, keepdims=True), LABEL, amount, label)


def groups_of_present_labels(values, amount, gate, label):
    counts = opened(values)
    return gate.select(values, None, LABEL, amount, label, distinct=np.where(counts > 0, np.arange(counts.shape[1]), 0))


def shape_by_empty_leaves(values, amount, gate, label):
    held, variance = gate.add_noise(values.map(lambda counts: counts[counts.any(axis=1)]), ONE, amount, label)
    return np.full(opened(values).shape, held.sum()), variance


def sizes_of_full_tables_too(values, amount, gate, label):
    if not counts_are_empty(values):
        gate.add_noise(values.map(lambda counts: counts.sum(axis=1)), ONE, amount / 2, "sizes")
    return gate.add_noise(values, ONE, amount / 2, label)


def charge_twice_if_empty(values, amount, gate, label):
    if counts_are_empty(values):
        gate.ledger.charge("nothing", "none", 0.0)
    return gate.add_noise(values, ONE, amount, label)


def halves_of_counts(values, amount, gate, label):
    return gate.add_noise(values.map(lambda counts: counts / 2), ONE, amount, label)


def a_ledger_of_its_own(values, amount, gate, label):
    return Gate(Ledger(make_accountant(amount, 0.0)), gate.entropy).add_noise(values, ONE, amount, label)


def exact_counts(values, amount, gate, label):
    return opened(values), 1.0


def ties_by_exact_counts(values, amount, gate, label):
    counts, variance = gate.add_noise(values, ONE, amount, label)
    return np.where(opened(values) == 1, counts, counts.clip(0)), variance


# How a leaf leaks, and the finding that it must have.
LEAKING = {
    amount_by_size: ("question", "amount of 'leaves'"),
    sensitivity_by_size: ("question", "bound of 'leaves'"),
    bound_by_size: ("question", "bound of 'leaves'"),
    label_by_size: ("question", "label"),
    scope_by_size: ("question", "scope of 'leaves'"),
    mechanism_by_size: ("question", "runs of 'leaves'"),
    mask_of_present_labels: ("question", "candidates of 'leaves'"),
    groups_of_present_labels: ("question", "candidates of "),
    shape_by_empty_leaves: ("question", "shape of 'leaves'"),
    sizes_of_full_tables_too: ("question", "label"),
    charge_twice_if_empty: ("public value", "ledger_."),
    halves_of_counts: ("not an integer", "what 'leaves' is handed"),
    a_ledger_of_its_own: ("public value", "forest_.counts"),
    exact_counts: ("public value", "forest_.counts"),
    ties_by_exact_counts: ("public value", "forest_.counts"),
}


def with_leaf(release):
    """A subject whose leaves release ``release(values, amount, gate, label)``: counts and their variance, or labels."""

    class Leaf(NoisyCounts):
        def release(self, statistics, amount, gate, target, label, most=1):
            released = release(statistics, amount, gate, label)
            return released if isinstance(released, tuple) else (np.eye(target.n_values)[released], 0.0)

    return Subject(replace(COUNTS, leaf=Leaf()))


@pytest.mark.parametrize("release", LEAKING, ids=lambda part: part.__name__)
def test_a_part_whose_questions_depend_on_rows_is_caught_where_it_asks(release):
    kind, what = LEAKING[release]
    findings = [finding for finding in first_findings(with_leaf(release)) if finding.kind == kind and what in finding.what]
    assert findings
    if kind == "question":
        assert "tests/audit/test_leaks_of_parts.py" in findings[0].where
        assert findings[0].where.endswith(f" in {release.__name__}")


@dataclass(frozen=True)
class ExactSize(Narrow):
    """Nodes of fewer than ``least`` records stop, by their exact size."""

    least: int
    share: float = 0.5

    def narrow(self, candidates, counter, first, amount, gate, label):
        sizes = opened(counter.count_nodes(first, len(candidates.indices))).sum(axis=1)
        return replace(candidates, valid=candidates.valid & (sizes >= self.least)[:, None])


@pytest.mark.parametrize(("least", "seed"), [(1, 0), (3, 3), (9, 85), (20, 6), (100, 16)])
def test_stopping_by_exact_size_is_caught_wherever_the_limit_is(least, seed):
    """The seed is that of the first generated case that finds it."""
    subject = Subject(replace(COUNTS, narrow=ExactSize(least)))
    assert "question" in {finding.kind for finding in replay(subject, generate(seed, subject.tasks))[1]}


class Falling(MaxOperator):
    """Says that scores fall; they rise by as much."""

    def bound(self, most=1):
        return Bound(-most, 0)


def test_a_direction_that_is_wrong_is_caught():
    findings = first_findings(Subject(replace(GREEDY, criterion=Falling())))
    assert {finding.kind for finding in findings} == {"bound"}
    assert all("moves by 0 .. 1, stated -1 .. 0" in item.detail or "moves by 1 .. 1" in item.detail for item in findings)


RESIDUALS = replace(
    GREEDY, name="residuals", criterion=ResidualGain(), leaf=ResidualSums(), stages=Sequential((Phase(1.0, 2),)),
    refine=(EvenShrinkage(),), vote=LogShares(60.0), n_trees=2,
)  # fmt: skip


class ShortGain(ResidualGain):
    """The bound is a tenth too small on both sides."""

    def bound(self, most=1):
        less = most * 9 // 10
        return Bound(-less, less)


class RisingGain(ResidualGain):
    """Half of the bound: it says that scores rise, but residuals that offset each other lower them."""

    def bound(self, most=1):
        return Bound(0, most)


def findings_of_two_trees(recipe, n_pairs=30):
    """The findings of cases that ask for no other number of trees than the phases have."""
    cases = (replace(generate(seed, recipe.tasks), n_trees=None) for seed in range(n_pairs))
    return [finding for case in cases for finding in replay(Subject(recipe), case)[1]]


def test_a_choice_by_residuals_is_sound():
    assert not findings_of_two_trees(RESIDUALS)


@pytest.mark.parametrize("criterion", [ShortGain(), RisingGain()], ids=lambda part: type(part).__name__)
def test_a_choice_by_residuals_whose_bound_is_too_small_is_caught(criterion):
    findings = findings_of_two_trees(replace(RESIDUALS, criterion=criterion))
    assert {finding.kind for finding in findings} == {"bound", "charge", "loss"}
    assert all("splits of level" in finding.what for finding in findings if finding.kind != "loss")


class ShortMeans(TwoBinMean):
    """The L2 sensitivity of two bins is understated; L1 is right."""

    def release(self, statistics, amount, gate, target, label, most=1):
        bins = statistics.map(lambda sums: np.stack([TARGET_STEPS * sums[:, 0] - sums[:, 1], sums[:, 1]], axis=1))
        released, variance = gate.add_noise(bins, Sensitivity(TARGET_STEPS, TARGET_STEPS**2 // 2), amount, label)
        return released / TARGET_STEPS, variance / TARGET_STEPS**2


def test_a_sensitivity_too_small_in_l2_alone_costs_too_much_with_delta_only():
    recipe = replace(COUNTS, criterion=SquaredError(), leaf=ShortMeans(), tasks=("regression",))
    findings = {True: [], False: []}
    for seed in range(30):
        case = generate(seed, recipe.tasks)
        findings[case.delta > 0] += replay(Subject(recipe), case)[1]
    assert {finding.kind for finding in findings[False]} == {"bound"}
    assert {finding.kind for finding in findings[True]} == {"bound", "charge", "loss"}
    # What is lost in all is found at the last release that a record moved, which may be the range of the target.
    assert all("test_leaks_of_parts.py" in finding.where for finding in findings[True] if finding.kind != "loss")


LEARNT = replace(COUNTS, name="learnt grid", learned_grid=LearnedGrid(Zooms(2, 0.5)))
RANGED = replace(
    COUNTS, criterion=SquaredError(), leaf=TwoBinMean(), tasks=("regression",), target_range=target_range.TargetRange()
)
# Bounds of choices that are too narrow: one direction is denied, or a price forgotten; and what is found in whose choice.
NARROW_BOUNDS = {
    "no fall of the middle": (LEARNT, learned_grid, "middle_bound", lambda: Bound(0, 1), "'grid"),
    "no rise of the middle": (LEARNT, learned_grid, "middle_bound", lambda: Bound(-1, 0), "'grid"),
    "location": (RANGED, target_scale, "location_bound", lambda: Bound(-1, 0), "location of the target"),
    "spread": (RANGED, target_scale, "spread_bound", lambda within: Bound(0, within - 1), "spread of the target"),
    "range": (RANGED, target_range, "range_bound", lambda prices: Bound(-target_range.UNIT, 0), "range of the target"),
}


@pytest.mark.parametrize("recipe", [LEARNT, RANGED], ids=["grid", "range"])
def test_a_learnt_grid_and_a_range_of_the_target_are_sound(recipe):
    assert not first_findings(Subject(recipe), 30)


@pytest.mark.parametrize("name", NARROW_BOUNDS)
def test_a_choice_whose_scores_move_farther_than_stated_is_caught(name, monkeypatch):
    recipe, module, place, bound, what = NARROW_BOUNDS[name]
    monkeypatch.setattr(module, place, bound)
    findings = first_findings(Subject(recipe))
    assert "bound" in {finding.kind for finding in findings}
    assert all(what in finding.what for finding in findings if finding.kind == "bound")


class FreeBootstrap(PoissonBootstrap):
    """A bootstrap whose trees are charged as if every record were in each of them once."""

    amount_per_tree, scopes = EveryRecord.amount_per_tree, EveryRecord.scopes


def test_a_bootstrap_that_is_charged_as_if_no_record_came_twice_is_caught():
    kinds = {finding.kind for finding in first_findings(Subject(replace(COUNTS, sample=FreeBootstrap())))}
    assert kinds == {"bound", "charge", "loss"}


def test_what_a_bootstrap_costs_is_found_by_its_own_charges():
    ledger, queries = Ledger(Pure(10.0)), []
    for _ in range(2):
        with ledger.scope("Poisson bootstrap", "bootstrap"):
            for label in ("splits", "leaves"):
                ledger.charge(label, "geometric", 0.25)
                queries.append(Query(Purpose(label), None, 0.25, None, "", ledger.books[-1], ledger.open_scopes))
    factors = [float(_factor(query, [(query, query) for query in queries])) for query in queries]
    assert factors == pytest.approx([math.expm1(0.5) / 0.5] * 4)
