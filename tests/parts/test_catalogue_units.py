"""The parts that the catalogue added do what their papers print, on forests and counts small enough to check."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from tests.support import naive, strategies
from tests.support.strategies import FIXED, MIXED, SEEDS, classes, domains, forests, mixed_table, recipe_of

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, Numeric, Schema, load_model
from dpforest.errors import DPForestError, ParameterError, SchemaError
from dpforest.forest.tree import Forest
from dpforest.growing import growth as growth_module
from dpforest.growing.choosing import FeatureFirst
from dpforest.growing.class_means import ClassMeans
from dpforest.growing.growth import Growth
from dpforest.growing.out_of_bag import OutOfBag, feature_weights, tree_errors
from dpforest.growing.two_phase import TwoPhase
from dpforest.parts import proposals as proposals_module
from dpforest.parts.allocation import EveryQuery, Harmonic, LeavesOnly, Uniform, Weighted
from dpforest.parts.criteria import GiniCount, MaxOperator, SquaredError, WeightedMajority
from dpforest.parts.leaves import NoisyCounts, TwoBinMean
from dpforest.parts.postprocess import LeastLeaf, PruneByGini, PruneBySignal, plain_shares
from dpforest.parts.proposals import Menu, OneAgainstRest, OneChildPerValue, RandomSubsets, Thresholds
from dpforest.parts.recipe import ByTarget
from dpforest.parts.sampling import Disjoint, EveryRecord
from dpforest.parts.shape import (
    AllFeatures,
    Facts,
    HalfTheFeatures,
    HalfUntested,
    LogRows,
    SupportedTrees,
    label_preserving_trees,
    variance_preserving_trees,
)
from dpforest.parts.stopping import AboveNoise, EstimatedSupport, NoisySize
from dpforest.parts.voting import Majority, MeanOfShares, ProbabilisticAverage
from dpforest.pipeline import public_facts
from dpforest.privacy.accountants import Pure
from dpforest.privacy.amounts import exact
from dpforest.recipes import get_recipe, list_recipes
from dpforest.schema.domain import Domain, Grid

TWO = Schema(MIXED, Classes([0, 1]))
TARGET = Classes(["no", "yes"])
DOMAIN = Domain.of(Schema({"x": Numeric(0, 2), "c": Categorical(["a"])}, TARGET), Grid(2))
# Codes of x: below 1, from 1 on, missing.
ROUTE_X, ROUTE_C = [0, 1, 1], [0, 1, 1]


def facts_of(**given):
    defaults = {
        "n_rows": 1000.0, "epsilon": 1.0, "delta": 0.0, "n_features": 8, "n_numeric": 4, "mean_children": 5.0,
        "n_classes": 2,
    }  # fmt: skip
    return Facts(**defaults | given)


# --- rules ----------------------------------------------------------------------------------------------------------


def test_half_the_features_is_at_least_one_level():
    depths = [HalfTheFeatures().value(facts_of(n_features=m)) for m in (1, 2, 3, 9, 13, 14, 22)]
    assert depths == [1, 1, 2, 5, 7, 7, 11]  # Table 5.1 of the thesis has 7 levels for 13 features and 11 for 22


def test_all_features_are_as_many_levels():
    assert [AllFeatures().value(facts_of(n_features=m)) for m in (1, 8)] == [1, 8]


@pytest.mark.parametrize("n_numeric", [0, 1, 2, 3, 6, 25])
def test_half_untested_is_the_least_depth_at_which_under_half_of_the_numbers_are_expected_untested(n_numeric):
    s = Fraction(n_numeric)
    least = next(d for d in range(99) if s * ((s - 1) / s) ** d < s / 2) if s else 0
    for n_categorical in (1, 2, 9) if n_numeric == 0 else (0, 1, 2, 9):
        facts = facts_of(n_features=n_numeric + n_categorical, n_numeric=n_numeric)
        assert HalfUntested().value(facts) == max(1, least + n_categorical // 2)


def test_log_rows_is_the_natural_logarithm_of_the_rows_and_at_least_one():
    values = [LogRows().value(facts_of(n_rows=n)) for n in (-50.0, 0.0, 3.0, 1000.0, 45222.0, 1e6)]
    assert values == [1, 1, 1, 7, 11, 14]
    assert LogRows().needs_rows


@pytest.mark.parametrize("n_classes", [2, 18])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("n_rows", [-20.0, 0.0, 300.0, 2e3, 4e5])
def test_supported_trees_is_the_largest_number_whose_support_threshold_is_below_rows_over_the_squared_domain(
    n_rows, epsilon, n_classes
):
    facts = facts_of(n_rows=n_rows, epsilon=epsilon, n_classes=n_classes, n_features=12, mean_children=4.2)
    fitting = [t for t in range(1, 13) if math.sqrt(2) * n_classes / (epsilon / t) < n_rows / 4.2**2]
    assert SupportedTrees().value(facts) == max([1, *fitting])


def test_supported_trees_without_noise_are_as_many_as_features():
    assert SupportedTrees().value(facts_of(epsilon=math.inf, n_features=6)) == 6


@FIXED
@given(
    epsilon=st.floats(0.05, 10), n_features=st.integers(1, 200), ratio=st.floats(0, 5),
    squares=st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)), sizes=st.tuples(st.integers(1, 999), st.integers(1, 999)),
)  # fmt: skip
def test_the_trees_that_keep_the_variance_of_attributes_meet_their_bound_and_one_more_does_not(
    epsilon, n_features, squares, sizes, ratio
):
    t = variance_preserving_trees(epsilon, n_features, *squares, *sizes, ratio)
    root = math.sqrt(n_features)
    right = squares[0] * (1 - 1 / (sizes[0] + 1)) + ratio**2 * squares[1] * (1 - 1 / sizes[1]) + 36 / epsilon**2

    def left(trees):
        return trees / root + 3 * math.sqrt(trees / root) * (1 - 1 / root)

    assert left(t) <= right * (1 + 1e-9)
    assert left(t + 1) > right * (1 - 1e-9)


@FIXED
@given(st.floats(0.05, 10), st.floats(0.01, 0.99), st.integers(0, 500))
def test_the_trees_that_keep_the_variance_of_labels_meet_their_bound_and_one_more_does_not(epsilon, share, least_leaf):
    t = label_preserving_trees(epsilon, share, least_leaf)
    right = (least_leaf * (least_leaf + 1) + 1 / epsilon**2) / (share * (1 - share))
    assert t <= right * (1 + 1e-12)
    assert t + 1 > right * (1 - 1e-12)


# --- stopping -------------------------------------------------------------------------------------------------------


def test_noisy_size_splits_nodes_that_are_large_and_seem_mixed():
    counts = np.array([[60, 40], [60, 39], [100, 0], [0, 120], [110, -5], [99, 1], [-3, 103.5]])
    split = NoisySize(100).may_split(counts, 4.0, np.ones(7), facts_of())
    assert split.tolist() == [True, False, False, False, False, True, False]


def test_above_noise_splits_nodes_whose_average_cell_would_hold_the_standard_deviation_of_the_noise():
    # Five values and two classes: ten cells, each to hold sqrt(4) = 2 records.
    counts = np.array([[10, 10], [10, 9], [25, -5], [0, 0]])
    assert AboveNoise().may_split(counts, 4.0, np.ones(4), facts_of()).tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    ("features", "least"),
    [
        ({"x": Numeric(0, 1), "y": Numeric(0, 9, integer=True)}, 8),
        ({"x": Numeric(0, 1), "c": Categorical([*"abcd"])}, 12),
    ],
    ids=["numbers", "a number and four categories"],
)
def test_above_noise_counts_two_values_for_a_number_that_is_cut_in_two(features, least):
    # Two classes and a standard deviation of 2: with a mean of 2 or 3 children, 8 or 12 records fill the cells.
    facts = public_facts(Schema(features, TARGET), get_recipe("friedman-schuster-2010"), epsilon=1.0, delta=0.0)
    counts = np.array([[least, 0], [least - 1, 0], [1, least - 1]])
    assert AboveNoise().may_split(counts, 4.0, np.ones(3), facts).tolist() == [True, False, True]


def test_diffpid3_splits_a_table_of_numbers_at_a_moderate_budget():
    # Each of the root's two counts has noise of about 9 * sqrt(2) / 0.5 = 25, and 4 * 25 of its 1000 records suffice.
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.random(1000), "y": rng.random(1000)})
    schema = Schema({"x": Numeric(0, 1), "y": Numeric(0, 1)}, TARGET)
    model = DPForestClassifier(schema, epsilon=0.5, recipe="friedman-schuster-2010", random_state=0)
    assert model.fit(X, np.where(X["x"] > 0.5, "yes", "no")).forest_.depth > 0


def test_estimated_support_splits_nodes_whose_children_would_hold_more_than_the_threshold():
    facts = facts_of(n_rows=1000.0, n_trees=3, epsilon=0.5, n_classes=2)
    threshold = math.sqrt(2) * 2 * 3 / 0.5
    reached = np.array([1.0, 5 * threshold / 1000, 1.01 * 5 * threshold / 1000, 0.001])
    assert EstimatedSupport().may_split(None, 0.0, reached, facts).tolist() == [True, False, True, False]


def test_the_rows_that_reach_a_node_are_divided_evenly_among_the_listed_values_of_every_split_above():
    domain = Domain.of(Schema({"c": Categorical(["a", "b", "c"]), "x": Numeric(0, 1)}, TARGET), Grid(5))
    growth, menu, rng = Growth(domain, 1), Menu((OneChildPerValue(),)), np.random.default_rng(2)
    shares = []
    for feature in (0, 1):
        candidates = menu.propose(domain, menu.fixed(domain), growth.reach, rng)
        growth.split(candidates, np.where(candidates.valid[:, feature], feature, -1))
        shares.append(growth.reached)
    # Children for "other" and "missing" are expected to get no rows.
    np.testing.assert_allclose(shares[0], [1 / 3] * 3 + [0, 0])
    np.testing.assert_allclose(shares[1], ([1 / 15] * 5 + [0]) * 3 + [0] * 12)


@pytest.mark.parametrize("n_rows", [None, 3000])
def test_a_stop_by_estimated_support_gets_a_number_of_rows_that_is_declared_or_bought(n_rows):
    X, y, _ = mixed_table(3000, seed=1)
    recipe = recipe_of(stop=EstimatedSupport(), propose=Menu(random=True), allocate=LeavesOnly(), depth=3)
    model = DPForestClassifier(Schema(MIXED, Classes([0, 1]), n_rows=n_rows), 2.0, recipe=recipe, random_state=0)
    model.fit(X, y)
    labels = [entry["label"] for entry in model.ledger_.entries()]
    assert labels == ([] if n_rows else ["number of rows"]) + ["leaves"]
    assert model.forest_.depth > 0


# --- allocations ----------------------------------------------------------------------------------------------------

# Table 1 of the paper: epsilon of each query for budgets 0.1 to 2 and delta = 5 levels.
BUDGETS = (0.1, 0.25, 0.5, 1.0, 2.0)
TABLE_1 = {1: (0.011, 0.028, 0.056, 0.111, 0.222), 4: (0.003, 0.007, 0.014, 0.028, 0.056)}


@pytest.mark.parametrize("n_trees", TABLE_1)
def test_every_query_gives_the_shares_that_the_paper_prints(n_trees):
    recipe = get_recipe("fletcher-islam-2015-dpdf")
    for budget, printed in zip(BUDGETS, TABLE_1[n_trees], strict=True):
        plan = recipe.allocate.plan(recipe.sample.amount_per_tree(Pure(budget), budget, n_trees), recipe.depth)
        amounts = [*plan.splits, *plan.counts]
        assert len(amounts) == 9  # 2 * delta - 1
        assert amounts == pytest.approx([budget / (n_trees * 9)] * 9)
        assert {round(amount, 3) for amount in amounts} == {printed}


@pytest.mark.parametrize("depth", [1, 4, 7])
def test_every_query_sums_to_the_amount_and_an_infinite_one_goes_everywhere(depth):
    for amount in (0.1, 1 / 3, 7.0):
        plan = EveryQuery().plan(amount, depth)
        total = sum(map(exact, (*plan.splits, *plan.counts)))
        assert (1 - Fraction(1, 10**15)) * exact(amount) <= total <= exact(amount)
    assert set(EveryQuery().plan(math.inf, depth).counts) == {math.inf}


@pytest.mark.parametrize("d_m", [2, 3, 7])
def test_harmonic_with_inner_two_is_the_published_weights_with_the_leaves_as_the_last_layer(d_m):
    weights = [Fraction(2, d_m - i + 1) for i in range(1, d_m)] + [Fraction(1)]
    plan = Harmonic(inner=2.0).plan(0.8, d_m - 1)
    expected = [0.8 * float(weight / sum(weights)) for weight in weights]
    assert [*plan.splits, plan.leaves] == pytest.approx(expected)
    assert set(plan.counts[:-1]) == {0.0}


def test_harmonic_with_inner_two_and_half_for_counts_halves_each_layer():
    plan = Harmonic(inner=2.0, count_share=0.5).plan(1.0, 6)
    assert plan.splits == pytest.approx(plan.counts[:-1])
    w = sum(2 / (7 - i + 1) for i in range(1, 7)) + 1
    assert [a + b for a, b in zip(plan.splits, plan.counts, strict=False)] == pytest.approx(
        [2 / (7 - i + 1) / w for i in range(1, 7)]
    )


def test_weighted_levels_are_in_proportion_to_their_weights_and_the_leaves_get_their_share():
    plan = Weighted((0.5, 0.1, 0.4, 9.0), leaf_share=0.25).plan(2.0, 3)
    assert plan.splits == pytest.approx([0.75, 0.15, 0.6])
    assert plan.leaves == pytest.approx(0.5)


@pytest.mark.parametrize("inner", [0.0, -1.0, math.nan])
def test_harmonic_refuses_weights_that_are_not_positive(inner):
    with pytest.raises(ParameterError):
        Harmonic(inner=inner).plan(1.0, 2)


# --- the criterion and the choice -----------------------------------------------------------------------------------


def test_the_weighted_majority_is_its_formula_rounded_down_in_each_child():
    tables = np.array(list(itertools.product(range(5), repeat=4))).reshape(-1, 2, 2)
    scores = WeightedMajority().score(tables, TARGET)
    exact = [sum(64 * max(child) ** 2 // max(sum(child), 1) for child in table) for table in tables.tolist()]
    assert scores.tolist() == exact


def test_huge_counts_do_not_overflow_the_weighted_majority():
    for table in np.random.default_rng(15).integers(0, 2**30, size=(200, 2, 2)):
        exact = sum(64 * max(child) ** 2 // sum(child) for child in table.tolist())
        assert int(WeightedMajority().score(table, TARGET)) == exact


@pytest.mark.parametrize("criterion", [GiniCount(), MaxOperator(), WeightedMajority()], ids=["gini", "max", "weighted"])
def test_without_noise_two_steps_choose_what_one_joint_step_chooses(criterion):
    X, y, _ = mixed_table(200, seed=7)
    one, two = (
        DPForestClassifier(TWO, math.inf, recipe=recipe_of(criterion=criterion, choose=choose, depth=4), random_state=0).fit(
            X, y
        )
        for choose in (None, FeatureFirst())
    )
    assert one.forest_.depth == 4
    assert one.forest_.features.tolist() == two.forest_.features.tolist()
    assert one.forest_.routes.tolist() == two.forest_.routes.tolist()


# --- pruning --------------------------------------------------------------------------------------------------------


def planted(*trees, variance=1.0):
    return naive.plant(DOMAIN, TARGET, *trees, variance=variance).summed()


def sizes_of(forest):
    return forest.n_nodes, forest.n_trees


def test_gini_pruning_closes_a_split_whose_children_are_no_purer_on_average():
    useful = (0, ROUTE_X, [[9, 1], [1, 9]], [10, 10])
    idle = (0, ROUTE_X, [[5, 5], [6, 6]], [11, 11])
    # (6 * 0.5 + 2 * 0) / 8 = 0.375 is above the 0.32 of the parent.
    worse = (0, ROUTE_X, [[3, 3], [2, 0]], [8, 2])
    forest = PruneByGini().refine(planted(useful, idle, worse))
    assert sizes_of(forest) == (5, 3)
    assert forest.is_leaf.tolist() == [False, True, True, True, True]
    assert forest.counts.tolist() == [[10, 10], [11, 11], [8, 2], [9, 1], [1, 9]]


def test_gini_pruning_goes_on_upwards_while_all_children_are_leaves():
    idle = (1, ROUTE_C, [[5, 5], [4, 4]], [9, 9])
    forest = PruneByGini().refine(planted((0, ROUTE_X, [idle, [7, 7]], [16, 16])))
    assert sizes_of(forest) == (1, 1)
    assert forest.counts.tolist() == [[16, 16]]


def test_gini_pruning_keeps_an_idle_split_above_a_useful_one():
    useful = (1, ROUTE_C, [[9, 0], [0, 9]], [9, 9])
    forest = PruneByGini().refine(planted((0, ROUTE_X, [useful, [7, 7]], [16, 16])))
    assert forest.n_nodes == 5


def test_gini_pruning_weighs_children_by_their_released_sizes_and_takes_counts_below_zero_as_none():
    # The second child holds nothing; the first is as mixed as the parent.
    forest = PruneByGini().refine(planted((0, ROUTE_X, [[20, 20], [-3, -1]], [5, 5])))
    assert forest.n_nodes == 1
    # The first child is pure once its negative count is taken as none.
    forest = PruneByGini().refine(planted((0, ROUTE_X, [[20, -2], [1, 1]], [5, 5])))
    assert forest.n_nodes == 3


def test_a_split_with_a_child_below_the_least_leaf_is_undone_with_all_that_is_below_it():
    large, small = (1, ROUTE_C, [[20, 20], [9, 1]]), (1, ROUTE_C, [[20, 25], [4, 1]])
    # The least leaf is a tenth of 100 records: of the second tree one child of the small node has five.
    forest = planted((0, ROUTE_X, [large, [25, 25]]), (0, ROUTE_X, [small, [25, 25]]), (0, ROUTE_X, [small, [-2, 2]]))
    kept = LeastLeaf(0.1).refine(forest)
    assert kept.counts[kept.is_leaf & (kept.trees == 0)].tolist() == [[25, 25], [20, 20], [9, 1]]
    assert kept.counts[kept.is_leaf & (kept.trees == 1)].tolist() == [[24, 26], [25, 25]]
    # The third tree's root has a child without records.
    assert kept.counts[kept.trees == 2].tolist() == [[22, 28]]
    assert LeastLeaf(0).refine(forest).n_nodes == forest.n_nodes


def pruned_by_signal(*trees, least=1.0, variance=2.0):
    return PruneBySignal(least).refine(plain_shares(planted(*trees, variance=variance)))


def test_signal_pruning_is_equation_4_40():
    # epsilon = 1: a count has Laplace noise of variance 2, and two classes make the noise of one leaf 2 sqrt(2) = 2.83.
    assert pruned_by_signal((0, ROUTE_X, [[2, 0], [1, 1]])).n_nodes == 1  # 0.71 and 0.71
    kept = pruned_by_signal((0, ROUTE_X, [[2, 1], [1, 2]]))  # 1.06 and 1.06
    assert kept.n_nodes == 3
    # A node over two leaves needs sqrt(2) times as much: 4.
    weak, strong = [(1, ROUTE_C, leaves) for leaves in ([[1, 0], [1, 1]], [[1, 1], [1, 1]])]
    assert pruned_by_signal((0, ROUTE_X, [weak, [0, 0]])).n_nodes == 1
    forest = pruned_by_signal((0, ROUTE_X, [strong, [0, 0]]), least=0.99)
    assert sizes_of(forest) == (3, 1)  # both leaves under it go, the node itself stays
    assert forest.counts.tolist() == [[2, 2], [2, 2], [0, 0]]


def test_a_pruned_node_beside_one_that_stays_says_what_its_parent_says():
    forest = pruned_by_signal((0, ROUTE_X, [[9, 3], [0, 2]]))
    np.testing.assert_allclose(forest.shares, [[9 / 14, 5 / 14], [0.75, 0.25], [9 / 14, 5 / 14]])
    assert forest.counts.tolist() == [[9, 5], [9, 3], [0, 2]]  # as released


def test_a_pruned_node_takes_with_it_what_is_below_it():
    # The first leaf alone would stay (1.41), but with the other the node has no signal.
    weak = (1, ROUTE_C, [[4, 0], [0, -4]])
    forest = pruned_by_signal((0, ROUTE_X, [weak, [9, 0]]))
    assert sizes_of(forest) == (3, 1)
    np.testing.assert_allclose(forest.shares[1], forest.shares[0])


def test_signal_pruning_without_noise_prunes_what_holds_nothing():
    forest = pruned_by_signal(
        (0, ROUTE_X, [(1, ROUTE_C, [[0, 0], [0, 0]]), [1, 0]]), (0, ROUTE_X, [[1, 0], [0, 1]]), variance=0.0
    )
    assert forest.n_nodes == 6
    assert forest.is_leaf.tolist() == [False, False, True, True, True, True]


@pytest.mark.parametrize("least", [-0.1, math.nan, math.inf])
def test_signal_pruning_refuses_what_is_no_ratio(least):
    with pytest.raises(ParameterError, match="least_snr"):
        PruneBySignal(least)


def kept_paths(forest, is_idle):
    """Nodes left when a node over leaves is closed wherever ``is_idle(node, children)``, one node at a time."""
    children = {node: np.flatnonzero(forest.parents == node).tolist() for node in range(forest.n_nodes)}
    for node in reversed(range(forest.n_nodes)):
        below = children[node]
        if below and not any(children[child] for child in below) and is_idle(node, below):
            children[node] = []
    kept, ahead = [], list(range(forest.n_trees))
    while ahead:
        kept.append(ahead.pop(0))
        ahead += children[kept[-1]]
    return kept


@FIXED
@given(forests(classes), st.sampled_from([0.0, 0.5, 1.0, 3.0]))
def test_pruning_by_signal_equals_its_twin(forest, least):
    forest = plain_shares(forest.summed())
    children = {node: np.flatnonzero(forest.parents == node).tolist() for node in range(forest.n_nodes)}

    def leaves(node):
        return [leaf for child in children[node] for leaf in leaves(child)] or [node]

    def ratio(node):
        below = leaves(node)
        noise = forest.counts.shape[1] * math.sqrt(forest.variances[below].mean() * len(below))
        return forest.counts[below].sum() / max(noise, 1e-9)

    ratios = [ratio(node) for node in range(forest.n_nodes)]
    assume(all(abs(value - least) > 1e-6 for value in ratios))
    kept, shares, ahead = [], [], [(node, forest.shares[node], True) for node in range(forest.n_trees)]
    while ahead:
        node, says, stays = ahead.pop(0)
        kept.append(node)
        shares.append(says.tolist())
        below = children[node] if stays and any(ratios[child] >= least for child in children[node]) else []
        for child in below:
            stays = ratios[child] >= least
            ahead.append((child, forest.shares[child if stays else node], stays))
    pruned = PruneBySignal(least).refine(forest)
    assert pruned.counts.tolist() == forest.counts[kept].tolist()
    assert pruned.shares.tolist() == shares


@pytest.mark.slow
@FIXED
@given(forests(classes))
def test_pruning_by_gini_equals_its_twin(forest):
    forest = forest.summed()
    counts = [[Fraction(max(0, int(count))) for count in row] for row in forest.counts]

    def gini(node):
        size = sum(counts[node])
        return 1 - sum((count / size) ** 2 for count in counts[node]) if size else Fraction(1)

    def gain(node, below):
        return sum(sum(counts[child]) * (gini(child) - gini(node)) for child in below)

    inner = [(node, np.flatnonzero(forest.parents == node)) for node in np.flatnonzero(~forest.is_leaf)]
    # A tie may fall either way in floats, unless both sides are nothing.
    assume(all(gain(*pair) or not sum(sum(counts[child]) for child in pair[1]) for pair in inner))
    pruned = PruneByGini().refine(forest)
    kept = kept_paths(forest, lambda node, below: gain(node, below) >= 0)
    assert pruned.counts.tolist() == forest.counts[kept].tolist()


# --- joined and divided forests -------------------------------------------------------------------------------------


def voting(forest):
    forest = plain_shares(forest.summed())
    return replace(forest, votes=MeanOfShares().votes(forest))


@st.composite
def several_forests(draw):
    """Forests of one domain and target."""
    domain, target = draw(domains()), draw(classes)
    trees = st.lists(strategies.nested_trees(domain, target.n_values), min_size=1, max_size=3)
    return [voting(naive.plant(domain, target, *draw(trees))) for _ in range(draw(st.integers(1, 3)))]


def codes_of(domain, n_rows=40):
    records = naive.all_records(domain)
    return np.array(records[:: max(1, len(records) // n_rows)], dtype=domain.dtype).T


def assert_sound(forest):
    """Numbered level by level, roots first, links agree."""
    assert forest.parents[: forest.n_trees].tolist() == [-1] * forest.n_trees
    assert forest.trees[: forest.n_trees].tolist() == list(range(forest.n_trees))
    assert (np.diff(forest.levels) >= 0).all()
    assert sorted(forest.splits[~forest.is_leaf]) == list(range(len(forest.routes)))
    for node in range(forest.n_trees, forest.n_nodes):
        parent = forest.parents[node]
        siblings = np.flatnonzero(forest.parents == parent)
        assert siblings.tolist() == list(range(siblings[0], siblings[-1] + 1))
        assert forest.first_children[parent] == siblings[0]
        assert forest.trees[node] == forest.trees[parent]
        assert forest.levels[node] == forest.levels[parent] + 1


@FIXED
@given(several_forests())
def test_the_votes_of_a_joined_forest_are_the_sums_of_the_votes(parts):
    joined, codes = Forest.join(parts), codes_of(parts[0].domain)
    assert_sound(joined)
    assert joined.n_trees == sum(part.n_trees for part in parts)
    np.testing.assert_allclose(joined.vote(codes), sum(part.vote(codes) for part in parts))
    np.testing.assert_array_equal(joined.choices(codes), np.concatenate([part.choices(codes) for part in parts]))


@FIXED
@given(several_forests(), SEEDS)
def test_some_trees_of_a_forest_vote_as_they_did_in_it(parts, seed):
    joined = Forest.join(parts)
    mask = np.random.default_rng(seed).random(joined.n_trees) < 0.6
    mask[seed % joined.n_trees] = True
    some, codes = joined.only(mask), codes_of(joined.domain)
    assert_sound(some)
    assert some.n_trees == mask.sum()
    for record, votes in zip(codes.T, some.vote(codes), strict=True):
        leaves = [naive.path(joined, tree, record)[-1] for tree in np.flatnonzero(mask)]
        np.testing.assert_allclose(votes, joined.votes[leaves].sum(axis=0))


@FIXED
@given(forests(classes))
def test_a_forest_taken_apart_and_joined_is_the_same_forest(forest):
    forest = voting(forest)
    back = Forest.join([forest.only(mask) for mask in np.eye(forest.n_trees, dtype=bool)])
    for name in ("trees", "parents", "levels", "first_children", "features", "counts", "variances", "shares", "votes"):
        np.testing.assert_array_equal(getattr(back, name), getattr(forest, name), err_msg=name)
    inner = ~forest.is_leaf
    np.testing.assert_array_equal(back.routes[back.splits[inner]], forest.routes[forest.splits[inner]])
    assert back.released.tolist() == forest.released.tolist()


@FIXED
@given(forests(classes))
def test_the_choices_of_trees_are_those_of_the_leaves_that_records_walk_to(forest):
    forest = voting(forest)
    codes = codes_of(forest.domain)
    chosen = [
        [int(forest.votes[naive.path(forest, tree, record)[-1]].argmax()) for record in codes.T]
        for tree in range(forest.n_trees)
    ]
    assert forest.choices(codes).tolist() == chosen


def test_a_joined_forest_is_saved_and_loaded_as_it_is(tmp_path):
    X, y, _ = mixed_table(120, seed=3)
    model = DPForestClassifier(TWO, recipe=recipe_of(stages=TwoPhase(), n_trees=5), random_state=1).fit(X, y)
    assert_sound(model.forest_)
    model.save(tmp_path / "m.dpf")
    back = load_model(tmp_path / "m.dpf")
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.ledger_ == model.ledger_


# --- weights of features --------------------------------------------------------------------------------------------


@FIXED
@given(forests(classes), SEEDS)
def test_feature_weights_are_positive_and_sum_to_one_whatever_the_noise(forest, seed):
    forest, rng = voting(forest), np.random.default_rng(seed)
    for low, high in [(-500, 500), (0, 1), (1, 9), (-9, 0)]:
        errors = tree_errors(rng.integers(low, high, (forest.n_trees, len(forest.target.labels), 2)))
        assert ((errors > 0) & (errors <= 1)).all()
        weights = feature_weights(forest, errors)
        assert weights.shape == (forest.domain.n_features,)
        assert (weights > 0).all()
        assert weights.sum() == pytest.approx(1)


def test_features_of_trees_with_few_errors_weigh_more():
    on_x, on_c = (0, ROUTE_X, [[9, 1], [1, 9]]), (1, ROUTE_C, [[9, 1], [1, 9]])
    forest = voting(planted(on_x, on_c))
    assert feature_weights(forest, np.array([0.1, 0.4])) == pytest.approx([4 / 5, 1 / 5])
    # Below a hundredth of the largest no weight falls, were it of a feature that no tree used.
    for some, errors in [(forest, [0.0001, 1.0]), (voting(planted(on_x)), [0.1])]:
        assert feature_weights(some, np.array(errors)) == pytest.approx([100 / 101, 1 / 101])


def test_the_error_of_a_tree_is_the_mean_of_the_rates_of_its_classes():
    # Right and wrong of 90 records of one class and 10 of the other: the second tree misses the small class.
    tested = np.array([[[81, 9], [9, 1]], [[90, 0], [0, 10]], [[0, 90], [0, 10]], [[90, 0], [10, 0]]])
    # The last makes no error: it gets the weight of one among the hundred records.
    assert tree_errors(tested).tolist() == pytest.approx([0.1, 0.5, 1.0, 0.01])


def test_the_sizes_of_classes_are_averaged_over_trees_and_a_class_that_seems_absent_says_nothing():
    noisy = np.array([[[30, 10], [4, -9], [1, 9]], [[28, 12], [-2, 3], [4, 6]]])
    assert tree_errors(noisy).tolist() == pytest.approx([(10 / 40 + 9 / 10) / 2, (12 / 40 + 6 / 10) / 2])


def test_the_weight_of_a_feature_is_the_sum_of_its_decreases_of_the_gini_index_whatever_the_sizes_of_nodes():
    # Of 1000 records, ten come to a node where the other feature divides them cleanly.
    small = (1, ROUTE_C, [[5, 0], [0, 5]], [5, 5])
    pure, even = 0.0, 0.5
    root = 1 - (495 / 1000) ** 2 - (505 / 1000) ** 2
    side = 1 - (490 / 990) ** 2 - (500 / 990) ** 2
    on_x, on_c = root - (10 * even + 990 * side) / 1000, even - pure
    forest = voting(planted((0, ROUTE_X, [small, [490, 500]], [495, 505]), (0, ROUTE_X, [[9, 1], [1, 9]])))
    # The second tree errs four times as often; trees whose decreases are small have a smaller say in eq. 9.
    expected = np.array([on_x / 0.1 + 0.32 / 0.4, on_c / 0.1])
    assert feature_weights(forest, np.array([0.1, 0.4])) == pytest.approx(expected / expected.sum())


def test_a_tree_of_the_second_stage_splits_on_one_feature_a_level_from_the_heaviest_down():
    X, y, _ = mixed_table(400, seed=5)
    stages = OutOfBag(n_first=3, n_features=4)
    model = DPForestClassifier(TWO, math.inf, recipe=recipe_of(stages=stages, n_trees=6, depth=3), random_state=2)
    forest = model.fit(X, y).forest_
    inner = ~forest.is_leaf

    def features_at(tree, level):
        return set(forest.features[inner & (forest.trees == tree) & (forest.levels == level)].tolist())

    used = [[features_at(tree, level) for level in range(3)] for tree in range(6)]
    for levels in used:
        assert all(len(features) <= 1 for features in levels)
        order = [feature for features in levels for feature in features]
        assert len(order) == len(set(order))
    # Here no feature is light enough to be left out, so all trees follow the same order.
    assert len({tuple(map(tuple, levels)) for levels in used}) == 1


def test_a_tree_draws_its_features_and_takes_them_from_the_heaviest_down():
    weights = np.array([0.05, 0.3, 0.1, 0.2, 0.35])
    drawn = set()
    for seed in range(50):
        drawn.add(tuple(OutOfBag(n_features=3)._order(weights, np.random.default_rng(seed)).tolist()))
    assert drawn == set(itertools.combinations([4, 1, 3, 2, 0], 3))


def test_a_feature_far_below_the_mean_is_removed_and_one_somewhat_below_it_is_left_out_where_others_are_drawn():
    # The first is 4.4 standard deviations below the mean, more than 3; then 2 below, between 1.5 and 3.
    far = np.array([0.01, *[0.0521] * 19])
    somewhat = np.array([0.01, 0.247, 0.247, 0.248, 0.248])
    for seed in range(30):
        rng = np.random.default_rng(seed)
        assert 0 not in OutOfBag(n_features=20)._order(far, rng)
        assert 0 not in OutOfBag(n_features=5)._order(somewhat, rng)
    # Where it is the only one drawn, a feature that is somewhat light is taken; one that was removed is never drawn.
    for weights, taken in [(somewhat, {0, 1, 2, 3, 4}), (far, set(range(1, 20)))]:
        rngs = map(np.random.default_rng, range(400))
        assert {int(OutOfBag(n_features=1)._order(weights, rng)[0]) for rng in rngs} == taken


# --- class means ----------------------------------------------------------------------------------------------------


def test_a_class_that_a_node_does_not_hold_leaves_the_middle_of_class_means_to_the_others():
    schema = Schema({"a": Numeric(0, 1)}, Classes(["low", "mid", "high"]))
    X, y = np.repeat([[0.4], [0.8]], 50, axis=0), np.repeat(["mid", "high"], 50)
    recipe = recipe_of(narrow=ClassMeans(), grid=Grid(10), depth=1)
    model = DPForestClassifier(schema, math.inf, recipe=recipe, random_state=0).fit(X, y)
    assert {rule["rule"] for rule in model.forest_.rules()} == {"always", "a < 0.6", "(0.6 <= a or missing)"}


# --- probabilistic averaging ----------------------------------------------------------------------------------------

CUBE = Schema({name: Numeric(0, 1) for name in "abc"}, Classes(["low", "mid", "high"]))


def cube_model():
    """A model whose single leaf holds shares 0.2, 0.3 and 0.5, and a record of every cell of its domain."""
    middles = (np.arange(24) + 0.5) / 24
    X = np.array(list(itertools.product(middles, repeat=3)))
    recipe = recipe_of(vote=ProbabilisticAverage(), grid=Grid(24), depth=1)
    model = DPForestClassifier(CUBE, math.inf, recipe=recipe, random_state=0).fit(X[:9], ["low"] * 9)
    leaf = voting(naive.plant(model.forest_.domain, CUBE.target, [2, 3, 5]))
    model.forest_ = replace(leaf, draws=True)
    return model, X


def test_probabilistic_averaging_draws_labels_by_their_shares():
    model, X = cube_model()
    np.testing.assert_allclose(model.predict_proba(X[:5]), [[0.2, 0.3, 0.5]] * 5, atol=1e-8)
    predicted = model.predict(X)
    seen = [int((predicted == label).sum()) for label in ("low", "mid", "high")]
    assert stats.chisquare(seen, np.array([0.2, 0.3, 0.5]) * len(X)).pvalue > 1e-6


def test_a_record_gets_the_same_label_each_time_alone_and_in_any_company():
    model, X = cube_model()
    indices = np.random.default_rng(4).permutation(len(X))[:60]
    together = model.predict(X)
    assert (model.predict(X[indices]) == together[indices]).all()
    assert [model.predict(X[[index]])[0] for index in indices[:20]] == together[indices[:20]].tolist()


def test_a_class_without_a_share_is_never_drawn():
    model, X = cube_model()
    for shares in ([0, 4, 0], [1, 0, 0], [0, 0, 2], [3, 0, 1]):
        model.forest_ = replace(model.forest_, votes=np.array([shares], dtype=float))
        drawn = set(model.predict(X).tolist())
        assert drawn == {label for label, share in zip(("low", "mid", "high"), shares, strict=True) if share}


@pytest.mark.parametrize("vote", ["probabilistic", "majority", "threshold"])
def test_a_saved_model_draws_labels_as_before_or_not_at_all(vote, tmp_path):
    X, y, _ = mixed_table(150, seed=2)
    model = DPForestClassifier(
        TWO, recipe="bojarski-2015", recipe_params={"vote": vote}, n_trees=3, max_depth=3, random_state=3
    ).fit(X, y)
    model.save(tmp_path / "m.dpf")
    back = load_model(tmp_path / "m.dpf")
    assert back.forest_.draws is model.forest_.draws is (vote == "probabilistic")
    assert (back.predict(X) == model.predict(X)).all()
    if vote != "probabilistic":
        assert (model.predict(X) == model.classes_[model.predict_proba(X).argmax(axis=1)]).all()


# --- recipes --------------------------------------------------------------------------------------------------------


def test_resolving_takes_the_part_for_the_target_and_numbers_from_rules():
    recipe = recipe_of(
        criterion=ByTarget(GiniCount(), SquaredError()),
        leaf=ByTarget(NoisyCounts(), TwoBinMean()),
        n_trees=LogRows(),
        depth=HalfTheFeatures(),
    )
    for_classes = recipe.resolve(facts_of(n_rows=1000.0, n_features=9), None, None)
    assert (for_classes.criterion, for_classes.leaf) == (GiniCount(), NoisyCounts())
    assert (for_classes.n_trees, for_classes.depth) == (7, 5)
    for_means = recipe.resolve(facts_of(n_classes=None), None, None)
    assert (for_means.criterion, for_means.leaf) == (SquaredError(), TwoBinMean())
    assert recipe.criterion.accepts(TARGET)
    assert recipe.criterion.accepts(Bounded(0, 1))


@pytest.mark.parametrize("number", [3, np.int64(3), np.uint8(3)], ids=lambda number: type(number).__name__)
def test_numbers_of_the_user_come_before_the_rules_of_the_recipe(number):
    recipe = recipe_of(n_trees=LogRows(), depth=HalfUntested())
    resolved = recipe.resolve(facts_of(), number, number)
    assert (resolved.n_trees, resolved.depth) == (3, 3)
    X, y, _ = mixed_table(60, seed=1)
    model = DPForestClassifier(TWO, recipe=recipe, n_trees=number, max_depth=number, random_state=0).fit(X, y)
    assert (model.forest_.n_trees, model.forest_.depth) == (3, 3)


def test_resolving_is_the_same_recipe_where_nothing_is_open():
    recipe = recipe_of(n_trees=2, depth=3)
    assert recipe.resolve(facts_of(), None, None) == recipe


def test_parameters_are_set_where_they_live_and_words_stand_for_parts():
    assert get_recipe("dong-2022").with_parameters({"q": 1.3, "d": 0.2}).allocate == replace(
        get_recipe("dong-2022").allocate, q=1.3, slope=0.2
    )
    assert get_recipe("consul-2020").with_parameters({"part": False}).sample == EveryRecord()
    assert get_recipe("consul-2020").with_parameters({"part": True}).sample == Disjoint()
    assert get_recipe("bojarski-2015").with_parameters({"vote": "majority"}).vote == Majority()
    assert get_recipe("liu-2022").with_parameters({"alpha": 0.25}).stages == TwoPhase(0.25)
    for parameters in (None, {}):
        assert get_recipe("li-2022").with_parameters(parameters) is get_recipe("li-2022")


def test_setting_a_parameter_leaves_the_recipe_of_the_catalogue_as_it_was():
    before = get_recipe("li-2022")
    before.with_parameters({"k": 3, "n_first": 2})
    assert get_recipe("li-2022") == before
    assert before.stages == OutOfBag()


def refused(name, parameters, error=ParameterError):
    X, y, _ = mixed_table(60, seed=1)
    schema = Schema(MIXED, Classes([0, 1]), n_rows=60)
    model = DPForestClassifier(schema, recipe=name, recipe_params=parameters, n_trees=2, max_depth=2)
    with pytest.raises(error) as caught:
        model.fit(X, y)
    assert not hasattr(model, "ledger_") or model.ledger_.entries() == []
    return str(caught.value)


@pytest.mark.parametrize("name", [recipe["name"] for recipe in list_recipes()])
def test_a_parameter_that_the_recipe_does_not_take_is_refused_and_nothing_is_charged(name):
    message = refused(name, {"colour": 1})
    assert "'colour'" in message
    assert all(known in message for known in get_recipe(name).parameters)


WORDS = [
    (recipe["name"], parameter)
    for recipe in list_recipes()
    for parameter in recipe["parameters"]
    if isinstance(get_recipe(recipe["name"]).parameters[parameter], tuple)
]
PLACES = [
    (recipe["name"], parameter)
    for recipe in list_recipes()
    for parameter in recipe["parameters"]
    if (recipe["name"], parameter) not in WORDS
]


@pytest.mark.parametrize(("name", "parameter"), WORDS)
def test_a_word_that_the_parameter_does_not_know_is_refused_and_nothing_is_charged(name, parameter):
    for value in ("best", None, 0.123):
        message = refused(name, {parameter: value})
        assert parameter in message
        assert all(repr(word) in message for word in get_recipe(name).parameters[parameter][1])


@pytest.mark.parametrize(("name", "parameter"), WORDS)
def test_a_list_or_a_table_instead_of_a_word_is_refused_and_nothing_is_charged(name, parameter):
    for value in (["gini"], {}, np.zeros(2)):
        assert parameter in refused(name, {parameter: value})


@pytest.mark.parametrize(("name", "parameter"), PLACES)
def test_a_value_of_a_wrong_type_is_refused_and_nothing_is_charged(name, parameter):
    # The bins of a grid are refused by the schema.
    for value in ("many", object(), [1], {}):
        refused(name, {parameter: value}, error=(ParameterError, SchemaError))


@pytest.mark.parametrize(
    ("name", "parameter"), [("li-2020", "k"), ("dong-2022", "q"), ("liu-2022", "alpha"), ("guan-2020", "held_out")]
)
def test_an_array_instead_of_a_number_is_refused_and_nothing_is_charged(name, parameter):
    refused(name, {parameter: np.zeros(2)})


OUTSIDE = [
    ("consul-2020", {"rho": 1.5}), ("consul-2020", {"k": 0}), ("dong-2022", {"q": 0.5}), ("dong-2022", {"d": 1.0}),
    ("guan-2020", {"held_out": 0.0}), ("guan-2020", {"n_rounds": -1}), ("guan-2020", {"n_rounds": 1.5}),
    ("guan-2020", {"subset_size": 1}), ("guan-2020", {"split_share": 1.0}), ("rana-2015", {"least_leaf": 1.0}),
    ("rana-2015", {"least_leaf": -0.1}), ("li-2022", {"leaf_share": 0.0}), ("li-2022", {"held_out": 1.0}),
    ("li-2022", {"eps_oob": 0.0}), ("li-2022", {"eps_oob": 1.5}), ("li-2022", {"k": 0}), ("li-2022", {"n_first": 2.5}),
    ("li-2022", {"n_first": True}), ("liu-2022", {"alpha": 0.0}), ("liu-2022", {"alpha": math.nan}),
    ("rana-2015", {"threshold_share": 1.0}), ("patil-singh-2014", {"bins": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters"), OUTSIDE, ids=str)
def test_a_value_outside_its_range_is_refused_and_nothing_is_charged(name, parameters):
    refused(name, parameters, error=DPForestError)


# --- blocks of random menus and the cap on nodes --------------------------------------------------------------------

KINDS = (Thresholds(), OneAgainstRest(), OneChildPerValue(), RandomSubsets(2))


@FIXED
@given(domains(), st.integers(1, 11), SEEDS, st.data())
def test_random_splits_drawn_in_blocks_divide_their_own_node_wherever_any_split_does(domain, n_nodes, seed, data):
    reach = data.draw(strategies.reaches(domain, n_nodes))
    menu = Menu((KINDS[2], *data.draw(st.lists(st.sampled_from(KINDS), max_size=2, unique=True))), random=True)
    fixed, rng = menu.fixed(domain), np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposals_module, "BLOCK_NODES", 1 + seed % 4)
        candidates = menu.propose(domain, fixed, reach, rng)
    assert candidates.indices.shape == candidates.valid.shape == (n_nodes, 1)
    for node in range(n_nodes):
        held = [np.flatnonzero(reach[node, a:b]) for a, b in itertools.pairwise(domain.offsets)]
        route, feature = candidates.indices[node, 0], candidates.features[node, 0]
        if candidates.valid[node, 0]:
            assert naive.divides(candidates.routes.children[route], held[feature])
        else:
            # One child for each value divides every node that holds two values of a feature.
            assert all(len(codes) < 2 for codes in held)


@FIXED
@given(domains(), st.integers(2, 9), SEEDS, st.data())
def test_blocks_of_random_splits_keep_to_the_features_that_each_node_may_use(domain, n_nodes, seed, data):
    reach, rng = data.draw(strategies.reaches(domain, n_nodes)), np.random.default_rng(seed)
    allowed = rng.random((n_nodes, domain.n_features)) < 0.5
    menu = Menu((OneChildPerValue(),), random=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposals_module, "BLOCK_NODES", 2)
        candidates = menu.propose(domain, menu.fixed(domain), reach, rng, allowed)
    nodes = np.flatnonzero(candidates.valid[:, 0])
    assert allowed[nodes, candidates.features[nodes, 0]].all()


def assert_splits_divide(forest):
    """Every split sends codes that its node can hold to each of its children, and all to none."""
    domain = forest.domain
    held = [[set(range(n)) for n in domain.n_codes] for _ in range(forest.n_trees)]
    for node in range(forest.n_trees, forest.n_nodes):
        parent = forest.parents[node]
        feature, index = forest.features[parent], node - forest.first_children[parent]
        route = forest.routes[forest.splits[parent]]
        codes = [set(part) for part in held[parent]]
        codes[feature] = {code for code in codes[feature] if route[code] == index}
        assert codes[feature]
        assert codes[feature] != held[parent][feature]
        held.append(codes)


@pytest.mark.parametrize("most_nodes", [3, 10, 61, 400])
@pytest.mark.parametrize("block", [1, 7, 4096])
def test_a_deep_random_forest_stays_below_the_cap_and_all_its_splits_divide(most_nodes, block, monkeypatch):
    monkeypatch.setattr(growth_module, "MOST_NODES", most_nodes)
    monkeypatch.setattr(proposals_module, "BLOCK_NODES", block)
    X, y, _ = mixed_table(90, seed=6)
    recipe = recipe_of(
        propose=Menu((OneChildPerValue(numeric=False), Thresholds(), RandomSubsets(1)), random=True),
        allocate=LeavesOnly(), n_trees=3, depth=9,
    )  # fmt: skip
    model = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y)
    forest = model.forest_
    assert 3 <= forest.n_nodes <= most_nodes
    assert_splits_divide(forest)
    # Every record is in one leaf of each tree.
    leaves = forest.is_leaf
    assert [forest.counts[leaves & (forest.trees == tree)].sum() for tree in range(3)] == [90, 90, 90]


def test_a_random_forest_of_more_nodes_than_a_block_is_whole():
    X, y, _ = mixed_table(300, seed=8)
    recipe = recipe_of(propose=Menu(random=True), allocate=LeavesOnly(), grid=Grid(32), n_trees=4, depth=12)
    forest = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y).forest_
    widest = max(level.stop - level.start for level in forest.level_slices())
    assert widest > proposals_module.BLOCK_NODES
    assert_splits_divide(forest)
    leaves = forest.is_leaf
    assert [forest.counts[leaves & (forest.trees == tree)].sum() for tree in range(4)] == [300] * 4


@pytest.mark.parametrize("allocate", [Uniform(), EveryQuery()], ids=["uniform", "every query"])
def test_a_forest_that_the_cap_holds_back_still_spends_exactly_its_budget(allocate, monkeypatch):
    monkeypatch.setattr(growth_module, "MOST_NODES", 6)
    X, y, _ = mixed_table(60, seed=1)
    model = DPForestClassifier(TWO, 0.7, recipe=recipe_of(allocate=allocate, depth=6), random_state=0).fit(X, y)
    assert model.forest_.n_nodes <= 6
    assert (1 - 1e-9) * 0.7 <= model.ledger_.total <= 0.7


@pytest.mark.parametrize("least", [-1.0, float("nan")])
def test_a_least_size_below_nothing_is_refused(least):
    with pytest.raises(ParameterError, match="min_size"):
        NoisySize(least)
