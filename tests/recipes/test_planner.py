"""The planner is a function of public facts: every line of its tables can be reached, and every plan can be run and paid."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.strategies import FIXED
from tests.support.targets import share_of_range

from dpforest import Bounded, Classes, DPForestRegressor, Numeric, Schema
from dpforest.growing.linear import Order
from dpforest.growing.sequential import Phase, Sequential, SequentialMeans, rounds
from dpforest.mechanisms import Gaussian
from dpforest.parts.allocation import LeavesOnly
from dpforest.parts.criteria import MaxOperator, ResidualGain, SquaredError
from dpforest.parts.shape import Facts
from dpforest.privacy.accountants import make_accountant, zcdp_rho
from dpforest.privacy.amounts import divide, divide_evenly, exact
from dpforest.recipes import get_recipe, planner
from dpforest.recipes.planner import (
    BATCH_ROWS,
    BATCH_SIGNAL,
    MEAN_TREES,
    MEAN_TREES_WITH_DELTA,
    MOST_BATCHES,
    n_batches,
    plan_forest,
)
from dpforest.records.base import MOST_CLASSES, MOST_WEIGHT

TABLES = {
    "two classes": planner.PURE_TWO_CLASSES,
    "more classes": planner.PURE_MORE_CLASSES,
    "two classes with delta": planner.TWO_CLASSES_WITH_DELTA,
    "more classes with delta": planner.MORE_CLASSES_WITH_DELTA,
}
DELTA = 1e-5
N_ROWS = [10**power for power in range(1, 8)]
N_CLASSES = [None, 1, 2, 3, 10, 200]


def facts_of(n_rows=10_000.0, epsilon=1.0, delta=0.0, n_features=12, n_classes=2, share_numeric=1.0):
    return Facts(float(n_rows), epsilon, delta, n_features, round(share_numeric * n_features), 20.0, n_classes)


facts = st.builds(
    facts_of,
    n_rows=st.integers(-50, 50) | st.floats(1, 7).map(lambda power: 10**power),
    epsilon=st.one_of(st.sampled_from([0.001, 1.0, 20.0, math.inf]), st.floats(0.01, 10)),
    delta=st.sampled_from([0.0, 1e-9, DELTA]),
    n_features=st.sampled_from([1, 2, 5, 41, 300]),
    n_classes=st.sampled_from([*N_CLASSES, MOST_CLASSES, MOST_CLASSES + 1]),
    share_numeric=st.sampled_from([0.0, 0.3, 1.0]),
)
# Half of all plans are of those of which nothing is asked.
asked = st.just((None, None)) | st.tuples(st.sampled_from([None, 1, 2, 3, 10, 60, 500]), st.sampled_from([None, 1, 2, 3, 9]))


def phases_of(recipe):
    """The phases of a plan; trees of another kind are one phase."""
    if isinstance(recipe.stages, Sequential):
        return recipe.stages.phases
    return (Phase(1.0, recipe.n_trees),)


def target_of(facts):
    return Bounded(0, 1) if facts.n_classes is None else Classes(list(range(facts.n_classes)))


def reached(monkeypatch, n_classes, delta):
    """The lines that plans for 1 to 10**8 rows take, and the calls for plans of one tree, alone or beside a score."""
    lines, single = [], []
    whole, alone, few = planner.sequential, planner.one_tree, planner.few_rows
    monkeypatch.setattr(planner, "sequential", lambda shape, *rest: lines.append(shape) or whole(shape, *rest))
    monkeypatch.setattr(planner, "one_tree", lambda *rest: single.append(rest) or alone(*rest))
    monkeypatch.setattr(planner, "few_rows", lambda *rest: single.append(rest) or few(*rest))
    plans = [
        plan_forest(facts_of(n_rows, 1.0, delta, 12, n_classes, share_numeric))
        for share_numeric in (0.0, 1.0)
        for n_rows in np.geomspace(1, 1e8, 200)
    ]
    return lines, single, plans


@pytest.mark.parametrize("name", TABLES)
def test_every_line_of_a_table_is_reached(name, monkeypatch):
    found = []
    for number in [2] if name.startswith("two") else [3, 10]:
        with monkeypatch.context() as patch:
            lines, single, _ = reached(patch, number, DELTA if name.endswith("delta") else 0.0)
        found += [line for line in lines if line in TABLES[name]]
        assert single
    assert set(found) == set(TABLES[name])


@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_every_number_of_trees_for_a_bounded_target_is_reached(delta, monkeypatch):
    _, _, plans = reached(monkeypatch, None, delta)
    table = MEAN_TREES_WITH_DELTA if delta else MEAN_TREES
    assert [*table.values()] == sorted({plan.n_trees for plan in plans if not (delta and plan.without_delta)})


@settings(FIXED, max_examples=120)
@given(facts, asked)
def test_every_plan_fits_its_target_has_proved_bounds_and_can_be_paid_to_the_last_bit(facts, asked):
    recipe, target = get_recipe("auto").resolve(facts, *asked), target_of(facts)
    assert plan_forest(facts, *asked) == plan_forest(replace(facts), *asked)
    assert recipe.planner is None
    assert recipe.n_trees >= 1
    assert 1 <= recipe.depth <= 12
    if asked != (None, None):  # what users ask for they get, and then there are no batches
        assert (asked[0] or recipe.n_trees, asked[1] or recipe.depth) == (recipe.n_trees, recipe.depth)
        assert batches_of(recipe) == 1
        assert all(phase.parts.get("depth", recipe.depth) <= recipe.depth for phase in phases_of(recipe))
    assert sum(phase.n_trees for phase in phases_of(recipe)) == recipe.n_trees
    recipe.check(Schema({"x": Numeric(0, 1)}, target))
    phases, n_before, total = phases_of(recipe), 0, Fraction(0)
    shares = [phase.share for phase in phases]
    assert math.fsum(shares) == pytest.approx(1, abs=1e-12)
    assert all(0 < share <= 1 for share in shares)
    budget = make_accountant(min(max(facts.epsilon, 0.01), 1e9), 0.0 if recipe.without_delta else facts.delta).budget
    left = budget
    if recipe.target_range is not None:
        share = share_of_range(recipe.target_range, facts)
        own, left = divide(budget, [share, 1 - share])
        total += exact(own)
    for phase, own in zip(phases, divide(left, shares), strict=True):
        assert own == pytest.approx(left * phase.share, rel=1e-12)
        if not isinstance(phase, Phase):  # a look at all features together
            assert phase.accepts(target)
            total += exact(own)
            continue
        step = replace(recipe, **phase.parts)
        assert step.criterion.accepts(target)
        assert step.leaf.accepts(target)
        assert step.depth >= 1 or step.allocate == LeavesOnly()
        # From the second tree on records are weighted; a tree of random splits chooses nothing.
        if isinstance(recipe.stages, Sequential) and n_before + phase.n_trees > 1 and not step.propose.random:
            step.criterion.bound(MOST_WEIGHT)
        n_before += phase.n_trees
        n_rounds = rounds(phase.n_trees, batches_of(recipe))
        plan = step.allocate.plan(divide_evenly(own, n_rounds), step.depth)
        assert min([*plan.splits, *plan.counts]) >= 0
        total += n_rounds * sum(map(exact, [*plan.splits, *plan.counts]))
    assert exact(budget) * (1 - Fraction(1, 10**9)) < total <= exact(budget)


@pytest.mark.parametrize("n_classes", N_CLASSES)
def test_with_delta_and_few_rows_the_plan_is_the_pure_one(n_classes):
    with_delta, pure = (plan_forest(facts_of(20, 0.5, delta, 12, n_classes)) for delta in (DELTA, 0.0))
    assert with_delta.without_delta
    assert not pure.without_delta
    assert replace(with_delta, without_delta=False) == pure
    assert not plan_forest(facts_of(10**6, 0.5, DELTA, 12, n_classes)).without_delta


@pytest.mark.parametrize("n_classes", N_CLASSES)
def test_where_gaussian_noise_would_not_fit_the_plan_is_pure_however_many_rows(n_classes):
    for epsilon, delta, n_trees in [(1e-5, DELTA, None), (0.01, DELTA, 3_000_000), (0.001, 1e-300, 5_000)]:
        assert plan_forest(facts_of(10**12, epsilon, delta, 12, n_classes), n_trees).without_delta


@pytest.mark.parametrize("n_classes", N_CLASSES)
@pytest.mark.parametrize(("epsilon", "delta", "n_trees"), [(0.005, 1e-12, None), (0.01, 1e-30, None), (0.006, 1e-5, 3000)])
def test_a_planned_leaf_always_has_noise_that_fits(n_classes, epsilon, delta, n_trees):
    recipe = plan_forest(facts_of(10**7, epsilon, delta, 60, n_classes), n_trees)
    if not recipe.without_delta:
        phases = getattr(recipe.stages, "phases", (Phase(1.0, recipe.n_trees),))
        for phase in phases:
            step = replace(recipe, **phase.parts)
            # What is left for trees after the number of rows (2 % of epsilon) and the range of the target.
            share = 0.95 * zcdp_rho(0.98 * epsilon, delta) * phase.share / phase.n_trees
            amount = step.allocate.plan(share, step.depth).leaves
            Gaussian.rounded(Fraction(planner.LARGEST_SQUARE) / (2 * Fraction(amount)))


@pytest.mark.parametrize("n_classes", N_CLASSES)
def test_a_noisy_number_of_rows_of_nothing_or_less_gives_the_plan_for_the_least_signal(n_classes):
    for n_rows, (epsilon, delta) in itertools.product([-1.0, -1e9], [(1.0, 0.0), (1.0, DELTA), (math.inf, 0.0)]):
        one, other = (plan_forest(facts_of(rows, epsilon, delta, 12, n_classes)) for rows in (n_rows, 0))
        assert one == other


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_up_to_one_and_a_half_batches_of_rows_a_plan_depends_on_rows_times_epsilon_only(n_classes):
    most = 1.5 * BATCH_ROWS - 1
    for product in [*N_ROWS[:-2], most / 2]:
        one, other = (plan_forest(facts_of(product / epsilon, epsilon, 0.0, 12, n_classes)) for epsilon in (0.5, 8.0))
        assert one == other
    rows = 20 * BATCH_ROWS
    one, other = (plan_forest(facts_of(rows / epsilon, epsilon, 0.0, 12, n_classes)) for epsilon in (1.0, 80.0))
    assert (one.stages.batches, other.stages.batches) == (MOST_BATCHES["pure"], 1)
    assert one.criterion == other.criterion
    assert one.depth == other.depth


# --- batches --------------------------------------------------------------------------------------------------------


def batches_of(recipe):
    return recipe.stages.batches if isinstance(recipe.stages, Sequential) else 1


def test_without_delta_batches_follow_from_rows_alone_and_are_at_most_sixteen():
    for epsilon, n_classes in itertools.product([0.01, 1.0, 20.0], [2, 3, 10]):
        for n_rows, expected in [(0, 1), (1, 1), (1.49, 1), (1.51, 2), (2, 2), (3.4, 3), (16, 16), (17, 16), (4_000, 16)]:
            assert n_batches(facts_of(n_rows * BATCH_ROWS, epsilon, 0.0, 12, n_classes)) == expected
    assert n_batches(facts_of(-1e9)) == 1


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_with_delta_batches_need_as_much_signal_too_and_are_at_most_four(n_classes):
    for n_rows, signal, expected in [(9, 1.49, 1), (9, 2, 2), (9, 3, 3), (1.4, 9, 1), (2, 9, 2), (9, 9, 4), (99, 99, 4)]:
        epsilon = signal * BATCH_SIGNAL * n_classes / 2 / (n_rows * BATCH_ROWS) * (1 + 1e-12)
        assert n_batches(facts_of(n_rows * BATCH_ROWS, epsilon, DELTA, 12, n_classes)) == expected


@FIXED
@given(facts)
def test_the_number_of_batches_is_a_function_of_rows_epsilon_delta_and_classes(facts):
    other = replace(facts, n_features=facts.n_features + 7, n_numeric=0, mean_children=3.0)
    assert n_batches(facts) == n_batches(replace(facts)) == n_batches(other) >= 1
    assert batches_of(plan_forest(facts)) in (1, n_batches(facts))
    without_noise = replace(facts, n_rows=1e9, epsilon=math.inf)
    assert n_batches(without_noise) == batches_of(plan_forest(without_noise)) == 1


@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_chosen_trees_are_a_multiple_of_batches_and_hardly_more_than_the_table_says(n_classes, delta):
    found = set()
    for n_rows, epsilon in itertools.product([*np.geomspace(1e5, 1e8, 60), 1e10], [0.2, 1.0, 8.0]):
        facts = facts_of(n_rows, epsilon, delta, 12, n_classes)
        recipe = plan_forest(facts)
        if not isinstance(recipe.stages, Sequential):
            continue
        kind = "two classes" if n_classes == 2 else "more classes"
        signal = planner.signal_of(facts)
        line = next(line for line in planner.LINES[kind, delta > 0] if signal < line.below)
        chosen, batches = recipe.stages.phases[-1].n_trees, recipe.stages.batches
        assert chosen % batches == 0
        assert line.n_trees <= chosen < line.n_trees + batches
        found.add(batches)
    assert found == set(range(1, 5)) if delta else {1, 2, 4, 16} <= found <= set(range(1, 17))


def test_a_bounded_target_has_sequential_means_and_one_class_one_tree():
    for n_rows, delta in itertools.product([*N_ROWS, 10**8], [0.0, DELTA]):
        assert plan_forest(facts_of(n_rows, 1.0, delta, 12, 1)).n_trees == 1
        recipe = plan_forest(facts_of(n_rows, 1.0, delta, 12, None))
        assert isinstance(recipe.stages, SequentialMeans)
        assert not hasattr(recipe.stages, "batches")
        assert None not in (recipe.target_range, recipe.centres)


# --- plans that users do not shape ----------------------------------------------------------------------------------


@pytest.mark.parametrize("share_numeric", [0.0, 1.0])
@pytest.mark.parametrize("n_classes", [3, 5, MOST_CLASSES])
def test_few_rows_of_more_than_two_classes_have_one_tree_and_an_order(n_classes, share_numeric):
    for product, n_features in itertools.product([0, 1, 100, 500, 899], [1, 12, 60]):
        recipe = plan_forest(facts_of(2 * product, 0.5, 0.0, n_features, n_classes, share_numeric))
        share = planner.ORDER
        assert recipe.stages == Sequential((Phase(1 - share, 1), Order(share)))
        assert 0.05 <= share <= 0.2
        assert recipe.n_trees == 1


@pytest.mark.parametrize(
    ("has_order", "given", "asked"),
    [
        (True, (500, 1.0, 0.0, 60, 5), ()),
        (False, (500, 1.0, 0.0, 61, 5), ()),  # many features
        (False, (900, 1.0, 0.0, 60, 5), ()),  # many rows
        (False, (500, 1.0, 0.0, 60, 2), ()),  # few classes
        (False, (500, 1.0, 0.0, 60, 1), ()),
        (False, (500, math.inf, 0.0, 60, 5), ()),  # no noise
        (True, (599, 1.0, DELTA, 60, 5), ()),  # with delta few rows have the pure plan
        (False, (600, 1.0, DELTA, 60, 5), ()),
        *((False, (500, 1.0, 0.0, 12, 5), asked) for asked in [(1, None), (3, None), (None, 2), (1, 1), (40, 3)]),
    ],
)
def test_an_order_is_for_few_rows_of_more_than_two_classes_of_which_nothing_is_asked(has_order, given, asked):
    recipe = plan_forest(facts_of(*given), *asked)
    assert any(isinstance(phase, Order) for phase in phases_of(recipe)) == has_order
    if given[3] == 61:
        assert (recipe.stages, recipe.n_trees) == (None, 1)


THIRDS = {3: 2, 12: 5, 100: 34}  # of so many features


@pytest.mark.parametrize("n_classes", [3, 10])
@pytest.mark.parametrize("n_features", THIRDS)
def test_with_delta_more_than_two_classes_are_split_by_residuals(n_features, n_classes):
    # The signal is 2 rows epsilon / classes.
    for signal in (1_500, 2_998, 3_000, 10**6):
        recipe = plan_forest(facts_of(signal * n_classes / 2, 1.0, DELTA, n_features, n_classes))
        assert not recipe.without_delta
        assert recipe.criterion == ResidualGain()
        assert recipe.propose.n_features == (THIRDS[n_features] if signal < 3_000 else None)


@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_two_classes_are_split_by_the_max_operator_below_some_signal(delta):
    for n_rows in (5_000, 20_000, 99_999):
        recipe = plan_forest(facts_of(n_rows, 1.0, delta, 12, 2))
        assert recipe.criterion == MaxOperator()
        assert recipe.propose.n_features == (THIRDS[12] if delta else None)
    above = plan_forest(facts_of(100_000, 1.0, DELTA, 12, 2))
    assert above.propose.n_features is None
    assert above.criterion != MaxOperator()


# --- means without noise --------------------------------------------------------------------------------------------


def test_without_noise_means_are_boosted():
    for n_rows in (-5, 0, 100, 10**6):
        facts = facts_of(n_rows, math.inf, 0.0, 12, None)
        recipe = plan_forest(facts)
        assert (recipe.n_trees, recipe.criterion) == (100, SquaredError())
        assert recipe.stages == SequentialMeans(half_width=1.0, rate=planner.WITHOUT_NOISE.rate)
        assert recipe.centres is None
        assert [plan_forest(facts, n_trees).n_trees for n_trees in (1, 7, 500)] == [1, 7, 500]
        assert get_recipe("auto").resolve(facts, 7, 2).depth == 2


def test_without_noise_boosted_means_follow_a_curve_and_few_trees_less_closely():
    rng = np.random.default_rng(1)
    X = rng.random((1_100, 2))
    y = 0.5 + 0.4 * np.sin(6 * X[:, 0]) * X[:, 1] + rng.normal(0, 0.02, 1_100)
    schema = Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)}, Bounded(0, 1))
    known, new = slice(0, 600), slice(600, None)
    models = [DPForestRegressor(schema, math.inf, n_trees=n, random_state=0).fit(X[known], y[known]) for n in (None, 3)]
    assert [model.forest_.n_trees for model in models] == [100, 3]
    many, few = (model.score(X[new], y[new]) for model in models)
    assert many > 0.9
    assert few < many
