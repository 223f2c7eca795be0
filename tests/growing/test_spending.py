"""Every stage, and every level that asks nothing, leaves a ledger that adds up to the budget."""

import numpy as np
import pytest
from tests.support.strategies import MIXED, THREE, TWO, mixed_table, recipe_of

from dpforest import Classes, DPForestClassifier, Numeric, Schema, get_recipe, list_recipes
from dpforest.parts.allocation import EveryQuery, Harmonic
from dpforest.parts.proposals import Menu, OneChildPerValue, Thresholds
from dpforest.parts.sampling import Disjoint, EveryRecord, PoissonBootstrap
from dpforest.parts.shape import NoisySize
from dpforest.parts.voting import Majority
from dpforest.privacy.amounts import exact
from dpforest.privacy.composition import priced
from dpforest.privacy.events import Scope
from dpforest.recipes.papers import li_2022
from dpforest.recipes.papers.guan_2020 import SelectiveAggregation
from dpforest.recipes.papers.li_2022 import OutOfBag
from dpforest.recipes.papers.liu_2022 import TwoPhase
from dpforest.recipes.papers.rana_2015 import ClassMeans
from dpforest.schema.grid import Grid

RECIPES = [recipe["name"] for recipe in list_recipes()]


# --- ledgers of stages ----------------------------------------------------------------------------------------------


def outline(scope):
    """A scope as nested lists: kind (with copies), then labels and scopes."""
    kind = scope.kind if scope.copies == 1 else f"{scope.copies} x {scope.kind}"
    inside = [outline(part) if isinstance(part, Scope) else part.label for part in scope.children]
    return [f"{scope.label}: {kind}", *inside]


def fitted(delta=0.0, epsilon=0.7, n_trees=4, **parts):
    X, y, _ = mixed_table(120, seed=4)
    recipe = recipe_of(n_trees=n_trees, **parts)
    return DPForestClassifier(TWO, epsilon, delta, recipe=recipe, random_state=6).fit(X, y)


def assert_exact_total(ledger):
    assert (1 - 1e-9) * ledger.accountant.budget <= ledger.total <= ledger.accountant.budget


def cost(ledger, scope):
    return priced(scope, ledger.accountant).cost


TREE = ["splits of level 0", "splits of level 1", "leaves"]


@pytest.mark.parametrize(
    ("parts", "first", "delta"),
    [
        ({"stages": TwoPhase(0.25)}, ["tree: sequential", *TREE], 0.0),
        ({"stages": TwoPhase(0.25)}, ["tree: sequential", *TREE], 1e-6),
        (
            {"stages": TwoPhase(0.5), "sample": PoissonBootstrap()},
            ["each tree: 2 x sequential", ["Poisson bootstrap: bootstrap", *TREE]],
            0.0,
        ),
    ],
)
def test_the_ledger_of_two_phases_adds_them_up_and_only_the_first_pays_for_a_bootstrap(parts, first, delta):
    ledger = fitted(delta, **parts).ledger_
    n_second = 2 if "sample" in parts else 3
    second = ["second phase: sequential", [f"each tree: {n_second} x sequential", *TREE]]
    assert outline(ledger.root) == ["fit: sequential", ["first phase: sequential", first], second]
    assert_exact_total(ledger)


def test_two_phases_with_no_second_tree_spend_everything_on_the_first():
    for alpha, n_trees in [(1.0, 4), (0.5, 1)]:
        ledger = fitted(stages=TwoPhase(alpha), n_trees=n_trees).ledger_
        assert [child.label for child in ledger.root.children] == ["first phase"]
        assert_exact_total(ledger)


@pytest.mark.parametrize(
    ("sample", "delta"),
    [(Disjoint(), 0.0), (Disjoint(), 1e-6), (EveryRecord(), 0.0), (EveryRecord(), 1e-6), (PoissonBootstrap(), 0.0)],
)
def test_the_ledger_of_selective_aggregation_has_both_parts_beside_each_other(sample, delta):
    ledger = fitted(delta, sample=sample, stages=SelectiveAggregation(0.3, 2), vote=Majority()).ledger_
    (parts,) = ledger.root.children
    assert outline(parts)[0] == "records by a coin each: parallel"
    training, held = parts.children
    assert (training.label, held.label) == ("training part", "held-out part")
    rounds = [f"drop tree of subset 1, round {n}" for n in (1, 2)]
    assert outline(held) == ["held-out part: sequential", *rounds, "choose ensemble of subset 1"]
    assert len({charge.amount for charge in held.children}) == 1
    assert cost(ledger, training) <= exact(ledger.accountant.budget)
    assert cost(ledger, held) <= exact(ledger.accountant.budget)
    assert_exact_total(ledger)


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
@pytest.mark.parametrize("held_out_budget", [1.0, 0.25])
def test_the_ledger_of_out_of_bag_puts_both_stages_in_the_training_part(held_out_budget, delta):
    stages = OutOfBag(n_first=3, held_out_budget=held_out_budget)
    ledger = fitted(delta, stages=stages, n_trees=2, vote=Majority()).ledger_
    one_tree = ["tree: sequential", *TREE]
    assert outline(ledger.root) == [
        "fit: sequential",
        [
            "records by a coin each: parallel",
            [
                "training part: sequential",
                ["first stage: sequential", ["each tree: 3 x sequential", *TREE]],
                ["second stage: sequential", ["tree 1: sequential", one_tree], ["tree 2: sequential", one_tree]],
            ],
            ["held-out part: sequential", "errors of trees"],
        ],
    ]
    training, held = ledger.root.children[0].children
    budget = ledger.accountant.budget
    assert float(cost(ledger, training)) == pytest.approx(budget)
    assert float(cost(ledger, training.children[0])) == pytest.approx(0.3 * budget)
    assert float(cost(ledger, held)) == pytest.approx(held_out_budget * budget)
    assert_exact_total(ledger)


@pytest.mark.parametrize(("given", "leaf_share"), [({}, 0.5), ({"leaf_share": 0.75}, 0.75)])
def test_a_second_tree_gets_its_share_by_all_its_features_its_levels_by_their_own_and_the_leaves_theirs(
    given, leaf_share, monkeypatch
):
    weights, orders = np.array([0.1, 0.2, 0.3, 0.4]), iter([[3, 2, 1], [3, 1, 0], [2, 1, 0]])
    monkeypatch.setattr(li_2022, "feature_weights", lambda forest, errors: weights)
    monkeypatch.setattr(OutOfBag, "_order", lambda *drawn: np.array(next(orders)))
    ledger = fitted(stages=OutOfBag(n_first=2, **given), n_trees=3, vote=Majority()).ledger_
    second = ledger.root.children[0].children[0].children[1]
    # Three features a tree, two levels: eq. 10 is about all that are drawn, eqs. 14 and 15 about those that have a level.
    totals = [float(cost(ledger, tree)) for tree in second.children]
    assert totals == pytest.approx(0.7 * ledger.accountant.budget * np.array([0.9, 0.7, 0.6]) / 2.2)
    for tree, total, shares in zip(second.children, totals, [(4 / 7, 3 / 7), (2 / 3, 1 / 3), (3 / 5, 2 / 5)], strict=True):
        amounts = {charge.label: charge.amount / total for charge in tree.children[0].children}
        splits = [(1 - leaf_share) * share for share in shares]
        assert [amounts[label] for label in TREE] == pytest.approx([*splits, leaf_share])


# --- trees dropped by their errors ----------------------------------------------------------------------------------


def test_every_round_and_last_choice_of_every_subset_has_the_same_share():
    stages = SelectiveAggregation(0.3, subset_size=3)
    held = fitted(n_trees=7, stages=stages, vote=Majority()).ledger_.root.children[0].children[1]
    # Of seven trees, subsets of three, two and two: where one round is played, nothing is left to choose.
    assert [charge.label for charge in held.children] == [
        "drop tree of subset 1, round 1",
        "drop tree of subset 1, round 2",
        "choose ensemble of subset 1",
        "drop tree of subset 2, round 1",
        "drop tree of subset 3, round 1",
    ]
    assert [charge.amount for charge in held.children] == pytest.approx([0.7 / 5] * 5)


def test_without_rounds_all_trees_stay_and_held_out_records_pay_nothing():
    model = fitted(n_trees=7, stages=SelectiveAggregation(0.3, 0), vote=Majority())
    assert model.forest_.n_trees == 7
    assert model.ledger_.root.children[0].children[1].children == []


# --- what levels did not need ---------------------------------------------------------------------------------------

IDLE = {
    "never split": ({"stop": NoisySize(1e9), "allocate": EveryQuery(), "depth": 4}, ["counts of level 0", "leaves"]),
    "random": ({"propose": Menu(random=True), "allocate": Harmonic(inner=2.0), "depth": 3}, ["leaves"]),
    "random with counts": (
        {"propose": Menu(random=True), "allocate": EveryQuery(), "depth": 2},
        ["counts of level 0", "counts of level 1", "leaves"],
    ),
    "features used up": (
        {"propose": Menu((OneChildPerValue(),)), "allocate": EveryQuery(), "depth": 9, "grid": Grid(2)},
        # Four features: the last has nothing beside it to choose from, and below it nothing is left to split on.
        [f"{what} of level {n}" for n in range(3) for what in ("counts", "splits")]
        + ["counts of level 3", "counts of level 4", "leaves"],
    ),
}
SAMPLINGS = {"every record": EveryRecord(), "disjoint": Disjoint(), "bootstrap": PoissonBootstrap()}


@pytest.mark.parametrize("sample", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize(("parts", "labels"), IDLE.values(), ids=IDLE)
def test_what_levels_did_not_ask_for_goes_to_the_leaves_and_the_total_is_the_budget(parts, labels, sample):
    n_trees = 1 if isinstance(sample, EveryRecord) else 3
    model = fitted(sample=sample, n_trees=n_trees, **parts)
    entries = model.ledger_.entries()
    assert [entry["label"] for entry in entries] == labels
    assert_exact_total(model.ledger_)
    recipe = recipe_of(n_trees=n_trees, **parts)
    plan = recipe.allocate.plan(sample.amount_per_tree(model.ledger_.accountant, 0.7, n_trees), recipe.depth)
    assert entries[-1]["epsilon"] > plan.leaves
    assert sum(entry["epsilon"] for entry in entries) == pytest.approx(sum((*plan.splits, *plan.counts)))


def test_a_level_whose_class_means_leave_one_cut_pays_for_them_and_leaves_the_rest():
    schema = Schema({"x": Numeric(0, 1)}, Classes([0, 1]))
    recipe = recipe_of(narrow=ClassMeans(0.25), propose=Menu((Thresholds(),)), depth=2)
    X = np.linspace(0, 1, 80)[:, None]
    model = DPForestClassifier(schema, 0.7, recipe=recipe, random_state=1).fit(X, (X[:, 0] > 0.5).astype(int))
    entries = model.ledger_.entries()
    assert [entry["label"] for entry in entries] == [*(f"splits of level {n}: class means" for n in range(2)), "leaves"]
    assert [entry["epsilon"] for entry in entries] == pytest.approx([0.7 / 12, 0.7 / 12, 0.7 * 10 / 12])
    assert_exact_total(model.ledger_)


def test_a_level_without_numbers_pays_for_no_class_means_and_gives_all_to_the_choice():
    schema = Schema({"c": MIXED["c"], "d": MIXED["d"]}, Classes([0, 1]))
    X, y, _ = mixed_table(80, seed=3)
    recipe = recipe_of(narrow=ClassMeans(0.25), depth=1)
    model = DPForestClassifier(schema, 0.7, recipe=recipe, random_state=1).fit(X[:, 2:], y)
    entries = [(entry["label"], entry["epsilon"]) for entry in model.ledger_.entries()]
    assert entries == [("splits of level 0", pytest.approx(0.35)), ("leaves", pytest.approx(0.35))]
    assert_exact_total(model.ledger_)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])
def test_every_recipe_spends_exactly_its_budget_at_any_depth(name, delta):
    if delta and isinstance(get_recipe(name).sample, PoissonBootstrap):
        pytest.skip("a bootstrap has no zCDP analysis")
    X, y, _ = mixed_table(120, seed=4, n_classes=3)
    for depth in (1, 4):
        for n_rows in (None, 120):
            schema = Schema(MIXED, THREE.target, n_rows=n_rows)
            model = DPForestClassifier(schema, 0.7, delta, name, n_trees=3, max_depth=depth).fit(X, y)
            assert_exact_total(model.ledger_)
