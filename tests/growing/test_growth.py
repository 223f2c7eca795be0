"""Trees grow level by level, ask only what the plan pays for, and spend what they were given."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import naive
from tests.support.strategies import FIXED, MIXED, SEEDS, domains, menus, mixed_table, recipe_of

from dpforest import Bounded, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import AccountingError, ParameterError
from dpforest.growing import choosing as choosing_module
from dpforest.growing import growth as growth_module
from dpforest.growing.choosing import FeatureFirst, Medians
from dpforest.growing.grower import grow
from dpforest.growing.growth import Growth
from dpforest.mechanisms import Entropy
from dpforest.mechanisms.geometric import Geometric as GeometricNoise
from dpforest.mechanisms.rates import Rate
from dpforest.parts.allocation import Arithmetic, Geometric, Harmonic, LeavesOnly, Linear, Uniform
from dpforest.parts.criteria import Balance, EntropyCount, MaxOperator, Mixture, SquaredError
from dpforest.parts.leaves import NoisyMargin, PrivateLabel, TwoBinMean
from dpforest.parts.postprocess import Consistency, NonNegative, Prune, Shrinkage
from dpforest.parts.proposals import Candidates, Menu, OneAgainstRest, OneChildPerValue, RandomSubsets, Thresholds
from dpforest.parts.sampling import Disjoint, EveryRecord, PoissonBootstrap
from dpforest.parts.voting import ConfidenceWeighted, Majority, MostConfidentNode, PooledMargins
from dpforest.privacy.accountants import Pure
from dpforest.privacy.amounts import exact
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.memory.counter import MemoryCounter
from dpforest.schema.domain import Domain, Grid

TWO = Schema(MIXED, Classes([0, 1]))
THREE = Schema(MIXED, Classes([0, 1, 2]))
MEAN = Schema(MIXED, Bounded(0, 1))


def split_at_random(grown, n_levels=3):
    """Splits open nodes at random, some not at all; gives each level what it was before and what the split returned."""
    growth, menu, rng = grown
    fixed = menu.fixed(growth.domain)
    for _ in range(n_levels):
        if not growth.n_open:
            return
        candidates = menu.propose(growth.domain, fixed, growth.reach, rng)
        chosen = np.array([rng.choice(np.flatnonzero(valid)) if valid.any() else -1 for valid in candidates.valid])
        chosen[rng.random(len(chosen)) < 0.2] = -1
        before = growth.first, growth.reach
        yield before, candidates, chosen, growth.split(candidates, chosen)


@st.composite
def growths(draw):
    return Growth(draw(domains()), draw(st.integers(1, 3))), draw(menus), np.random.default_rng(draw(SEEDS))


@FIXED
@given(growths())
def test_children_follow_one_another_right_after_the_nodes_of_their_level(grown):
    growth = grown[0]
    for (first, reach), _, chosen, (features, _, first_children) in split_at_random(grown):
        assert growth.first == first + len(reach)
        assert ((features >= 0) == (chosen >= 0)).all()
        assert (first_children[features < 0] == -1).all()
        starts = [*first_children[features >= 0], growth.first + growth.n_open]
        assert starts[0] == growth.first
        assert (np.diff(starts) >= 2).all()


@FIXED
@given(growths())
def test_what_children_can_hold_partitions_what_their_parent_can_hold(grown):
    growth, domain = grown[0], grown[0].domain
    for (_, reach), candidates, chosen, (features, routes, first_children) in split_at_random(grown):
        starts = [*first_children[features >= 0], growth.first + growth.n_open]
        for node, (start, stop) in zip(np.flatnonzero(features >= 0), pairwise(starts), strict=True):
            children = growth.reach[start - growth.first : stop - growth.first]
            own = slice(domain.offsets[features[node]], domain.offsets[features[node] + 1])
            others = np.ones(domain.total_codes, dtype=bool)
            others[own] = False
            assert (children[:, others] == reach[node, others]).all()
            assert (children[:, own].sum(axis=0) == reach[node, own]).all()
            assert children[:, own].any(axis=1).all()
            for code in np.flatnonzero(reach[node, own]):
                assert children[routes[node, code], own][code]
            before = candidates.routes.children(candidates.indices[node, chosen[node] : chosen[node] + 1])[0]
            held = np.flatnonzero(reach[node, own])
            together = {(a, b) for a in held for b in held if before[a] == before[b]}
            assert together == {(a, b) for a in held for b in held if routes[node, a] == routes[node, b]}


@FIXED
@given(growths())
def test_a_finished_forest_is_numbered_level_by_level_and_its_links_agree(grown):
    growth = grown[0]
    assert list(split_at_random(grown))
    forest = growth.finish(Classes(["a", "b"]))
    assert forest.n_trees == growth.n_trees
    assert forest.parents[: forest.n_trees].tolist() == [-1] * forest.n_trees
    assert (np.diff(forest.levels) >= 0).all()
    assert np.isnan(forest.counts).all()
    for node in range(forest.n_trees, forest.n_nodes):
        parent = forest.parents[node]
        assert forest.levels[node] == forest.levels[parent] + 1
        assert forest.trees[node] == forest.trees[parent]
        indices = np.flatnonzero(forest.parents == parent) - forest.first_children[parent]
        assert indices.tolist() == list(range(len(indices)))
        assert set(forest.routes[forest.splits[parent]]) >= set(indices)
    assert ((forest.splits >= 0) == ~forest.is_leaf).all()
    assert len(forest.routes) == (~forest.is_leaf).sum()


def test_a_multiway_split_makes_only_children_that_records_can_reach():
    domain = Domain.of(Schema({"x": Numeric(0, 4), "z": Numeric(0, 1)}, Classes(["a", "b"])), Grid(4))
    growth, binary, multiway = Growth(domain, 1), Menu((Thresholds(),)), Menu((OneChildPerValue(),))
    candidates = binary.propose(domain, binary.fixed(domain), growth.reach, np.random.default_rng(0))
    growth.split(candidates, np.array([1]))  # x < 2
    candidates = multiway.propose(domain, multiway.fixed(domain), growth.reach, np.random.default_rng(0))
    _, routes, first_children = growth.split(candidates, np.array([0, 0]))
    assert growth.n_open == 2 + 3  # bins 0 and 1; bins 2 and 3, and missing
    assert first_children.tolist() == [3, 5]
    assert routes[0, :2].tolist() == [0, 1]
    assert routes[1, 2:5].tolist() == [0, 1, 2]


@FIXED
@given(growths(), st.integers(3, 12))
def test_no_forest_passes_the_cap_on_nodes(grown, most_nodes):
    growth = grown[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth_module, "MOST_NODES", most_nodes)
        assert list(split_at_random(grown))
    forest = growth.finish(Classes(["a", "b"]))
    assert forest.n_nodes <= most_nodes
    for record in naive.all_records(growth.domain)[:50]:
        assert forest.is_leaf[naive.path(forest, 0, record)[-1]]


@pytest.mark.parametrize("most_nodes", [7, 8])
def test_nodes_are_split_until_the_next_split_would_pass_the_cap(monkeypatch, most_nodes):
    monkeypatch.setattr(growth_module, "MOST_NODES", most_nodes)
    X, y, _ = mixed_table(50, seed=0)
    model = DPForestClassifier(TWO, recipe=recipe_of(depth=4), random_state=0).fit(X, y)
    assert model.forest_.n_nodes == 7
    assert len(model.predict(X)) == 50


def labels(model):
    return [entry["label"] for entry in model.ledger_.entries()]


def test_a_level_of_random_splits_asks_for_no_counts_and_costs_nothing(monkeypatch):
    def refuse(self, first, wanted):
        raise AssertionError("A random split asked for counts.")

    monkeypatch.setattr(MemoryCounter, "count_codes", refuse)
    X, y, _ = mixed_table(50, seed=0)
    model = DPForestClassifier(TWO, recipe=recipe_of(propose=Menu(random=True), depth=3), random_state=0).fit(X, y)
    assert model.forest_.depth == 3
    assert labels(model) == ["leaves"]
    assert model.ledger_.total == 1.0  # the leaves get what the levels did not need


def test_a_level_with_nothing_to_choose_costs_nothing_and_ends_the_tree():
    schema = Schema({"x": Numeric(0, 1)}, Classes([0, 1]))
    model = DPForestClassifier(schema, recipe=recipe_of(grid=Grid(1), depth=4), random_state=0)
    model.fit(np.array([[0.5], [np.nan]]), [0, 1])
    # One bin and missing: a single candidate at the root, none below.
    assert model.forest_.n_nodes == 3
    assert labels(model) == ["leaves"]


def test_choosing_with_nothing_paid_for_splits_is_refused_and_charges_nothing():
    X, y, _ = mixed_table(50, seed=0)
    for epsilon, delta in [(1.0, 0.0), (1.0, 1e-6), (math.inf, 0.0)]:
        model = DPForestClassifier(TWO, epsilon=epsilon, delta=delta, recipe=recipe_of(allocate=LeavesOnly()))
        with pytest.raises(ParameterError):
            model.fit(X, y)
        assert labels(model) == []


def grown(recipe, epsilon, n_rows=60, target=TWO.target):
    X, y, _ = mixed_table(n_rows, seed=2)
    domain = Domain.of(TWO, recipe.grid)
    columns = [np.array(column.tolist()) for column in X.T]
    codes = np.array(
        [
            [naive.code_of(value, part, cuts) for value in column]
            for column, part, cuts in zip(columns, domain.features, domain.cuts, strict=True)
        ],
        dtype=domain.dtype,
    )
    entropy, ledger = Entropy(3), Ledger(Pure(epsilon))
    counter = MemoryCounter(codes, np.asarray(y), domain, target)
    counter.deal(recipe.sample.assignment(recipe.n_trees), entropy)
    plan = recipe.allocate.plan(epsilon, recipe.depth)
    forest = grow(counter, recipe, plan, Gate(ledger, entropy), recipe.n_trees)
    return forest, plan, ledger, codes, y


def test_counts_of_inner_levels_are_released_when_the_plan_pays_for_them():
    forest, plan, ledger, _, _ = grown(recipe_of(allocate=Uniform(count_share=0.25), depth=2), epsilon=1.0)
    assert [(entry["label"], entry["epsilon"]) for entry in ledger.entries()] == [
        ("counts of level 0", plan.counts[0]),
        ("splits of level 0", plan.splits[0]),
        ("counts of level 1", plan.counts[1]),
        ("splits of level 1", plan.splits[1]),
        ("leaves", plan.leaves),
    ]
    for nodes, amount in [(forest.levels == 0, plan.counts[0]), (forest.is_leaf, plan.leaves)]:
        variance = GeometricNoise.variance(Rate.below(Fraction(amount)))
        np.testing.assert_allclose(forest.variances[nodes], variance)


def test_counts_of_inner_levels_stay_sealed_when_the_plan_does_not_pay_for_them():
    forest, _, ledger, _, _ = grown(recipe_of(depth=2), epsilon=1.0)
    assert np.isnan(forest.counts[~forest.is_leaf]).all()
    assert not np.isnan(forest.counts[forest.is_leaf]).any()
    assert [entry["label"] for entry in ledger.entries()] == ["splits of level 0", "splits of level 1", "leaves"]


def test_without_noise_each_node_has_the_count_of_the_records_that_walk_through_it():
    forest, _, _, codes, y = grown(recipe_of(allocate=Uniform(count_share=0.25), n_trees=2, depth=3), epsilon=math.inf)
    counts = np.zeros_like(forest.counts)
    for tree in range(2):
        for record, label in zip(codes.T, y, strict=True):
            counts[naive.path(forest, tree, record), label] += 1
    assert forest.counts.tolist() == counts.tolist()
    assert (forest.variances == 0).all()


PARTS = {
    "uniform": {"allocate": Uniform()},
    "uniform with a share for splits": {"allocate": Uniform(split_share=0.3)},
    "uniform with inner counts": {"allocate": Uniform(count_share=0.5)},
    "geometric": {"allocate": Geometric()},
    "arithmetic": {"allocate": Arithmetic()},
    "linear": {"allocate": Linear(q=1.5, slope=0.4, count_share=0.5)},
    "harmonic": {"allocate": Harmonic(count_share=0.1)},
    "leaves only": {"allocate": LeavesOnly(), "propose": Menu(random=True)},
    "margin": {"leaf": NoisyMargin()},
    "private label": {"leaf": PrivateLabel()},
    "majority": {"vote": Majority()},
    "pooled margins": {"vote": PooledMargins()},
    "confidence-weighted": {"vote": ConfidenceWeighted()},
    "most confident node": {"vote": MostConfidentNode()},
    "disjoint": {"sample": Disjoint(), "n_trees": 5},
    "every record": {"sample": EveryRecord(), "n_trees": 3},
    "one against rest": {"propose": Menu((OneAgainstRest(),))},
    "some features": {"propose": Menu(n_features=3)},
    "multiway": {"propose": Menu((OneChildPerValue(),))},
    "random subsets": {"propose": Menu((RandomSubsets(3), Thresholds()))},
    "max operator": {"criterion": MaxOperator()},
    "entropy": {"criterion": EntropyCount()},
    "balance": {"criterion": Balance()},
    "mixture": {"criterion": Mixture(((MaxOperator(), 2), (Balance(), 1)))},
    "permute-and-flip": {"select": "permute-and-flip"},
    "exponential": {"select": "exponential"},
    "all refinements": {
        "allocate": Uniform(count_share=0.5),
        "refine": (NonNegative(), Consistency(), Shrinkage(), Prune()),
    },
}
LOSSES = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])


def check_spends_its_budget(model):
    accountant = model.ledger_.accountant
    assert (1 - 1e-9) * accountant.budget <= model.ledger_.total <= accountant.budget
    assert (1 - 1e-6) * model.epsilon <= model.ledger_.spent <= model.epsilon
    assert model.privacy_.epsilon == model.ledger_.spent


@pytest.mark.slow
@LOSSES
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_a_recipe_of_any_parts_trains_and_spends_exactly_its_budget(parts, delta):
    X, y, _ = mixed_table(60, seed=1)
    model = DPForestClassifier(TWO, epsilon=0.7, delta=delta, recipe=recipe_of(**parts)).fit(X, y)
    check_spends_its_budget(model)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@LOSSES
@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_forest_of_no_record_or_of_one_spends_exactly_its_budget_too(n_rows, delta):
    X, y, _ = mixed_table(n_rows, seed=1, n_classes=3)
    model = DPForestClassifier(THREE, epsilon=0.7, delta=delta, recipe=recipe_of(n_trees=2)).fit(X, y)
    check_spends_its_budget(model)


@LOSSES
@pytest.mark.parametrize("sample", [EveryRecord(), Disjoint()], ids=["every record", "disjoint"])
def test_a_recipe_for_regression_trains_and_spends_exactly_its_budget(sample, delta):
    X, _, y = mixed_table(60, seed=1)
    recipe = recipe_of(criterion=SquaredError(), leaf=TwoBinMean(), sample=sample, n_trees=3)
    model = DPForestRegressor(MEAN, epsilon=0.7, delta=delta, recipe=recipe).fit(X, y)
    check_spends_its_budget(model)
    assert ((model.predict(X) >= 0) & (model.predict(X) <= 1)).all()


@pytest.mark.parametrize("n_trees", [1, 7])
def test_a_bootstrap_spends_exactly_its_budget_in_pure_epsilon(n_trees):
    X, y, _ = mixed_table(60, seed=1)
    recipe = recipe_of(sample=PoissonBootstrap(), n_trees=n_trees, allocate=Uniform(count_share=0.2))
    check_spends_its_budget(DPForestClassifier(TWO, epsilon=0.7, recipe=recipe).fit(X, y))


def test_a_bootstrap_under_zcdp_is_refused_and_charges_nothing():
    X, y, _ = mixed_table(60, seed=1)
    model = DPForestClassifier(TWO, epsilon=0.7, delta=1e-6, recipe=recipe_of(sample=PoissonBootstrap(), n_trees=3))
    with pytest.raises(AccountingError, match="bootstrap"):
        model.fit(X, y)
    assert labels(model) == []
    assert model.ledger_.total == 0


@pytest.mark.parametrize("n_trees", [1, 4])
def test_every_part_works_without_privacy_too(n_trees):
    X, y, _ = mixed_table(60, seed=1)
    for sample in (EveryRecord(), Disjoint(), PoissonBootstrap()):
        model = DPForestClassifier(TWO, epsilon=math.inf, recipe=recipe_of(sample=sample, n_trees=n_trees)).fit(X, y)
        assert model.ledger_.spent == math.inf
        assert (model.forest_.variances == 0).all()


# --- public caps ----------------------------------------------------------------------------------------------------


def test_a_level_has_no_more_open_nodes_than_there_is_room_for_the_codes_that_they_can_hold(monkeypatch):
    monkeypatch.setattr(growth_module, "MOST_REACH", 10 * Domain.of(TWO, recipe_of().grid).total_codes)
    X, y, _ = mixed_table(90, seed=6)
    recipe = recipe_of(propose=Menu(random=True), allocate=LeavesOnly(), n_trees=3, depth=9)
    forest = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y).forest_
    assert max(level.stop - level.start for level in forest.level_slices()) == 10


@pytest.mark.parametrize("part", [None, FeatureFirst(), Medians()], ids=lambda part: type(part).__name__)
def test_nodes_beyond_the_most_scores_of_a_level_stay_leaves_and_the_budget_is_spent(part, monkeypatch):
    X, y, _ = mixed_table(90, seed=6)
    recipe = recipe_of(choose=part, n_trees=3, depth=3)
    n_candidates = recipe.propose.fixed(Domain.of(TWO, recipe.grid)).n_routes
    whole = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y).forest_
    monkeypatch.setattr(choosing_module, "MOST_SCORES", 3 * n_candidates + 1)  # of three nodes
    forest = DPForestClassifier(TWO, math.inf, recipe=recipe, random_state=1).fit(X, y).forest_
    n_split = [np.count_nonzero(forest.features[level] >= 0) for level in forest.level_slices()]
    assert n_split == [3, 3, 3, 0]
    assert forest.features[:6].tolist() == whole.features[:6].tolist()  # the roots and the first nodes below are as before
    assert (forest.features[6:9] == -1).all()
    assert exact(DPForestClassifier(TWO, 0.7, recipe=recipe, random_state=1).fit(X, y).ledger_.total) <= exact(0.7)


def test_a_choice_among_all_splits_makes_no_table_of_features_as_large_as_its_scores(monkeypatch):
    def refuse(candidates):
        raise MemoryError

    monkeypatch.setattr(Candidates, "features", property(refuse))
    X, y, _ = mixed_table(30, seed=6)
    assert DPForestClassifier(TWO, recipe=recipe_of()).fit(X, y).forest_.depth == 2
