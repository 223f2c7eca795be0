"""Estimators and scores on a budget: every fit is recorded, none passes the cap."""

import math
import pickle
from contextlib import suppress

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

from dpforest import Bounded, Budget, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema, fitting
from dpforest.budget import Loss
from dpforest.errors import AccountingError, BudgetError, BudgetStoreError, ParameterError
from dpforest.evaluation import evaluate_privately
from dpforest.recipes import get_recipe, list_recipes
from dpforest.search import DPSearchCV

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X = RNG.random((400, 2))
Y = (X[:, 0] > 0.5).astype(int)
SCHEMA = Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)}, Classes([0, 1]))
KNOWN_ROWS = Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)}, Classes([0, 1]), n_rows=400)


def test_a_fit_reserves_and_settles_what_its_ledger_says(budget):
    model = DPForestClassifier(SCHEMA, epsilon=1.0, budget=budget).fit(X, Y)
    (release,) = budget.history()
    assert (release["what"], release["state"]) == ("fit auto", "settled")
    assert release["loss"] == Loss.of_ledger(model.ledger_)
    assert budget.spent == model.privacy_.epsilon == 1.0
    assert "this fit was charged to the budget of 'ward-7'" in model.privacy_.notes


@pytest.mark.parametrize("schema", [SCHEMA, KNOWN_ROWS], ids=["rows bought", "rows known"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (1.0, 1e-6), (0.1, 1e-9), (10.0, 1e-3)])
@pytest.mark.parametrize("recipe", ["auto", "fletcher-islam-2017"])
def test_a_cap_admits_one_fit_of_its_own_size(path, schema, epsilon, delta, recipe):
    budget = Budget.open(path, dataset="exact", epsilon=epsilon, delta=delta)
    DPForestClassifier(schema, epsilon=epsilon, delta=delta, recipe=recipe, budget=budget).fit(X, Y)
    assert 0 < budget.spent <= epsilon
    with pytest.raises(BudgetError, match=r"asks .* is left of a cap of"):
        DPForestClassifier(schema, epsilon=epsilon, delta=delta, recipe=recipe, budget=budget).fit(X, Y)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", [recipe["name"] for recipe in list_recipes()])
def test_no_recipe_charges_more_than_was_reserved(path, name, delta):
    budget = Budget.open(path, dataset="all", epsilon=100.0, delta=1e-6)
    is_classes = "classification" in get_recipe(name).tasks
    schema = SCHEMA if is_classes else Schema(dict(SCHEMA.features), Bounded(0, 1))
    kind = DPForestClassifier if is_classes else DPForestRegressor
    # A recipe may have no analysis with a delta; it is settled by what was charged, too.
    with suppress(AccountingError):
        kind(schema, epsilon=1.0, delta=delta, recipe=name, n_trees=2, max_depth=2, budget=budget).fit(X, Y)
    (release,) = budget.history()
    assert release["state"] == "settled"
    assert any(release["loss"].within(outcome) for outcome in release["outcomes"])


def test_a_refused_fit_touches_no_rows_and_keeps_the_older_model(budget, monkeypatch):
    model = DPForestClassifier(SCHEMA, epsilon=2.0, budget=budget).fit(X, Y)
    forest = model.forest_

    def touched(*_, **__):
        raise AssertionError("rows were touched")

    monkeypatch.setattr(fitting, "fit_forest", touched)
    with pytest.raises(BudgetError, match=r"asks .* for epsilon = 2 "):
        model.fit(X, Y)
    assert model.forest_ is forest
    assert len(budget.history()) == 1


LEARNED = DPForestClassifier("assume-public", random_state=0, n_trees=1, max_depth=1)
NOT_PRIVATE = {
    "no noise": {"epsilon": math.inf},
    "seeded": {"random_state": 1},
    "bounds off rows": {"schema": "assume-public"},
    "as printed": {"recipe": "dong-2022", "variant": "published"},
    "bounds that were read off rows once": {},
}


@pytest.mark.parametrize("title", NOT_PRIVATE)
def test_a_fit_that_is_not_private_is_refused_before_anything(budget, title):
    wrong = NOT_PRIVATE[title] or {"schema": LEARNED.fit(X, Y).schema_}
    with pytest.raises(ParameterError, match=r"private releases only|assume"):
        DPForestClassifier(**{"schema": SCHEMA, "budget": budget, **wrong}).fit(X, Y)
    assert budget.history() == []


@pytest.mark.parametrize("wrong", ["budget.db", 3.0, {}])
def test_a_budget_is_a_budget(wrong):
    with pytest.raises(ParameterError, match=r"Budget\.open"):
        DPForestClassifier(SCHEMA, budget=wrong).fit(X, Y)


def test_units_must_agree(path, budget):
    people = np.arange(400) // 2
    with pytest.raises(ParameterError, match="unit 'record'"):
        DPForestClassifier(SCHEMA, max_rows_per_person=2, budget=budget).fit(X, Y, groups=people)
    of_people = Budget.open(path, dataset="people", epsilon=1.0, unit="person")
    with pytest.raises(ParameterError, match="unit 'person'"):
        DPForestClassifier(SCHEMA, budget=of_people).fit(X, Y)
    DPForestClassifier(SCHEMA, max_rows_per_person=2, budget=of_people).fit(X, Y, groups=people)
    assert 0.99 < of_people.spent <= 1.0
    with pytest.raises(ParameterError, match="It cannot protect persons: charge it to a budget for the unit 'record'"):
        DPSearchCV(DPForestClassifier(SCHEMA), {"n_trees": [1, 2]}, epsilon=1.0, budget=of_people).fit(X, Y)


@pytest.mark.parametrize("rows", [2, 3, 7])
def test_a_fit_for_persons_with_delta_is_within_what_it_reserved(path, rows):
    budget = Budget.open(path, dataset="people", epsilon=1.0, delta=1e-6, unit="person")
    DPForestClassifier(SCHEMA, delta=1e-6, max_rows_per_person=rows, budget=budget).fit(X, Y, groups=np.arange(400) // 2)
    assert 0 < budget.spent <= 1.0


def test_a_clone_charges_the_same_store(budget):
    model = DPForestClassifier(SCHEMA, epsilon=1.0, budget=budget)
    clone(clone(model)).fit(X, Y)
    pickle.loads(pickle.dumps(model)).fit(X, Y)
    assert budget.spent == 2.0
    assert clone(model).get_params()["budget"] == budget


def test_a_grid_search_in_two_processes_stops_at_the_cap(path):
    budget = Budget.open(path, dataset="search", epsilon=2.5)
    model = DPForestClassifier(SCHEMA, epsilon=0.5, budget=budget, max_depth=2)
    search = GridSearchCV(model, {"n_trees": [1, 2]}, cv=2, n_jobs=2, error_score="raise").fit(X, Y)
    # Two settings on two folds, and the best one on all rows.
    assert len(budget.history()) == 5
    assert budget.spent == 2.5
    assert search.best_estimator_.budget == budget
    with pytest.raises(BudgetError):
        search.fit(X, Y)
    assert len(budget.history()) == 5
    budget.verify()


def test_cross_validation_that_hides_errors_still_stops_spending(path):
    budget = Budget.open(path, dataset="search", epsilon=1.0)
    model = DPForestClassifier(SCHEMA, epsilon=0.5, budget=budget, max_depth=2)
    with pytest.warns(FitFailedWarning, match="fits failed"):
        scores = cross_val_score(model, X, Y, cv=4)
    assert np.isnan(scores).sum() == 2
    assert budget.spent == 1.0


def test_a_failed_fit_costs_what_it_had_charged(budget):
    seen = []

    def stop(step):
        seen.append(step)
        raise KeyboardInterrupt

    model = DPForestClassifier(SCHEMA, epsilon=1.0, budget=budget)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, progress=stop)
    (release,) = budget.history()
    assert release["state"] == "settled"
    assert release["loss"] == Loss.of_ledger(model.ledger_)
    assert 0 < budget.spent < 1.0


def test_a_store_that_is_deleted_during_the_fit_gives_no_model(path, budget):
    def delete(step):
        path.unlink(missing_ok=True)

    model = DPForestClassifier(SCHEMA, epsilon=1.0, budget=budget)
    with pytest.raises(BudgetStoreError, match="no budget at"):
        model.fit(X, Y, progress=delete)
    assert not hasattr(model, "forest_")
    assert model.ledger_.spent == 1.0


def test_a_private_score_is_charged(budget):
    model = DPForestClassifier(SCHEMA, epsilon=1.0, budget=budget).fit(X, Y)
    evaluate_privately(model, X, Y, 0.5, budget=budget)
    assert budget.spent == 1.5
    assert [release["what"] for release in budget.history()] == ["fit auto", "score"]
    with pytest.raises(BudgetError):
        evaluate_privately(model, X, Y, 2.0, budget=budget)
    with pytest.raises(ParameterError):
        evaluate_privately(model, X, Y, math.inf, budget=budget)


def test_fits_of_both_kinds_add_up_by_the_smaller_of_the_ways(path):
    budget = Budget.open(path, dataset="mixed", epsilon=3.0, delta=1e-6)
    DPForestClassifier(SCHEMA, epsilon=1.0, budget=budget).fit(X, Y)
    assert budget.spent == 1.0
    DPForestClassifier(KNOWN_ROWS, epsilon=1.0, delta=1e-6, recipe="fletcher-islam-2017", budget=budget).fit(X, Y)
    # Alone 1 and 1; by zCDP alone the pure fit would count rho = 1/2, which is more than the cap.
    assert 1.0 < budget.spent < 3.0
