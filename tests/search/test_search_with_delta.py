"""A search with delta keeps each run in one book of rho, says what it costs, and is charged by its divergence."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from tests.search.small import CLASSES as SCHEMA
from tests.search.small import FEATURES, budget_in
from tests.support.crosses import pairwise

from dpforest import DPForestClassifier, DPForestRegressor, DPSearchCV, get_recipe, list_recipes, load_model
from dpforest.budget import Loss
from dpforest.budget.fits import loss_of_search
from dpforest.budget.totals import Cap
from dpforest.errors import AccountingError, BudgetError
from dpforest.mechanisms import Logarithmic
from dpforest.parts.sampling import PoissonBootstrap
from dpforest.privacy.accountants import zcdp_epsilon, zcdp_rho
from dpforest.privacy.best_of_runs import epsilon_of_one_run
from dpforest.schema import Bounded, Classes, Schema
from dpforest.search import estimator as search_module

DELTA = 1e-6
RNG = np.random.default_rng(0)
X = pd.DataFrame({"x": RNG.random(400), "z": RNG.choice(["u", "v"], 400)})
Y = np.where(X["x"] > 0.5, "a", "b")
LAW = Logarithmic.with_mean(3)


def make(space=None, **changed):
    usual = {"epsilon": 1.0, "mean_runs": 3}
    forest = DPForestClassifier(SCHEMA, delta=DELTA, n_trees=2)
    return DPSearchCV(forest, space or {"max_depth": [1, 2]}, **(usual | changed))


@pytest.fixture(scope="module")
def fitted():
    return make().fit(X, Y)


def test_the_statement_says_both_and_the_ledger_how_they_come_about(fitted, tmp_path):
    model = fitted.best_estimator_
    assert (fitted.privacy_.epsilon, fitted.privacy_.delta, fitted.ledger_.spent) == (1.0, DELTA, 1.0)
    assert fitted.privacy_.holds
    assert any("epsilon and delta cover all of its runs" in note for note in fitted.privacy_.notes)
    charge = fitted.ledger_.selection
    one = zcdp_rho(epsilon_of_one_run(LAW, 1.0, DELTA), DELTA)
    assert charge.mechanism.parameters["gamma"] == LAW.gamma
    assert float(charge.mechanism.parameters["of_one_run"]) == one
    assert float(charge.mechanism.parameters["at_delta"]) == DELTA
    assert charge.amount == pytest.approx(zcdp_rho(1.0, DELTA) - one)
    model.save(tmp_path / "model.dpf")
    again = load_model(tmp_path / "model.dpf")
    assert again.ledger_ == model.ledger_
    assert again.ledger_.selection == charge
    model.save_report(tmp_path / "report.html")
    assert "best of a random number of runs" in (tmp_path / "report.html").read_text("utf-8")


def test_both_parts_of_a_run_cost_its_rho_in_one_book(fitted):
    (book,) = fitted.ledger_.books
    assert book.accountant.unit == "rho"
    one = zcdp_rho(epsilon_of_one_run(LAW, 1.0, DELTA), DELTA)
    (best, _), spent = book.root.children, {}
    for part in best.children:
        spent[part.label] = sum(entry.amount for entry in leaves(part))
    assert spent["held-out part"] == one
    assert 0.9 * one < spent["training part"] <= one * (1 + 1e-12)
    assert any(entry.label == "number of rows" and entry.mechanism.name == "gaussian" for entry in leaves(best))


def leaves(scope):
    return [entry for child in scope.children for entry in (leaves(child) if hasattr(child, "children") else [child])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_rows", "declared", "target"),
    pairwise([0, 30, 400], [False, True], [Classes(["a", "b"]), Classes(["a", "b", "c"]), Bounded(0, 1)]),
    ids=str,
)
def test_plans_that_would_leave_delta_unused_run_in_rho_as_well(n_rows, declared, target):
    schema = Schema(FEATURES, target, n_rows=max(n_rows, 1) if declared else None)
    kind, y = (DPForestClassifier, Y) if isinstance(target, Classes) else (DPForestRegressor, X["x"].to_numpy())
    search = DPSearchCV(kind(schema, delta=DELTA), {"max_depth": [2]}, epsilon=1.0, mean_runs=1).fit(X[:n_rows], y[:n_rows])
    assert [book.accountant.unit for book in search.ledger_.books] == ["rho"]
    assert search.ledger_.spent == 1.0
    assert not any("delta was not used" in note for note in search.privacy_.notes)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [entry["name"] for entry in list_recipes()])
def test_every_recipe_runs_with_delta_or_is_refused_by_name_before_rows_are_used(recipe, monkeypatch):
    search = make(space={"recipe": [recipe]}, mean_runs=1)
    hold_out, used = search_module.Vault.hold_out, []
    monkeypatch.setattr(search_module.Vault, "hold_out", lambda *given: (used.append(1), hold_out(*given))[1])
    if isinstance(get_recipe(recipe).sample, PoissonBootstrap):
        with pytest.raises(AccountingError, match=f"Candidate {{recipe: '{recipe}'}}: A Poisson bootstrap"):
            search.fit(X, Y)
        assert used == []
    else:
        assert len(search.fit(X, Y).ledger_.books) == 1


def test_a_candidate_that_has_no_analysis_with_delta_is_named_and_nothing_is_charged(tmp_path):
    budget = budget_in(tmp_path, 3.0, DELTA)
    with pytest.raises(
        AccountingError, match=r"Candidate {recipe: 'dong-2022', recipe_params: {q: 2}}: A Poisson bootstrap"
    ):
        make(space={"recipe": ["dong-2022"], "recipe_params": [{"q": 2}]}, budget=budget).fit(X, Y)
    assert budget.history() == []
    make(space={"recipe": ["dong-2022"]}).set_params(estimator__delta=0.0).fit(X, Y)


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_a_budget_is_charged_the_divergence_of_its_order(tmp_path):
    budget = budget_in(tmp_path, 3.0, DELTA)
    search = make(budget=budget).fit(X, Y)
    (entry,) = budget.history()
    cap, one = budget.cap, zcdp_rho(epsilon_of_one_run(LAW, 1.0, DELTA), DELTA)
    assert entry["loss"].divergence == LAW.divergence(cap.order, one)
    assert entry["loss"] == loss_of_search(LAW, 1.0, DELTA, cap.order)
    assert 1.0 <= budget.spent < 2.0  # an order that is the best for the whole cap is not the best for one search
    twice = cap.stated(cap.sums(entry["loss"]).plus(cap.sums(entry["loss"])))
    make(budget=budget).fit(X, Y)
    assert budget.spent == twice < 3.0
    search.best_estimator_.save_report(tmp_path / "r.html", budget=budget)
    assert "Rényi divergence" in (tmp_path / "r.html").read_text("utf-8")
    assert json.loads((tmp_path / "r.json").read_text("utf-8"))["budget"]["alike"] == 2


def test_a_search_and_fits_share_a_budget_and_none_passes_its_cap(tmp_path):
    budget = budget_in(tmp_path, 2.0, DELTA)
    make(budget=budget).fit(X, Y)
    DPForestClassifier(SCHEMA, epsilon=0.5, delta=DELTA, n_trees=2, max_depth=1, budget=budget).fit(X, Y)
    with pytest.raises(BudgetError):
        make(budget=budget, epsilon=1.9).fit(X, Y)
    assert budget.spent < 2.0


def test_a_divergence_that_is_a_tenth_too_small_would_admit_what_the_cap_refuses():
    """The stated epsilon of searches is what their exact divergences have; a tenth less of these gives a smaller one."""
    cap, one = Cap(3.0, DELTA), zcdp_rho(epsilon_of_one_run(LAW, 1.0, DELTA), DELTA)
    loss = loss_of_search(LAW, 1.0, DELTA, cap.order)
    terms = LAW.divergence(cap.order, one) + (math.log(1 / DELTA) - math.log(cap.order)) / (cap.order - 1)
    exact = terms + math.log1p(-1 / cap.order)
    assert cap.stated(cap.sums(loss)) == pytest.approx(exact, rel=1e-9)
    assert cap.stated(cap.sums(Loss(math.inf, loss.rho, 0.9 * loss.divergence, loss.order))) < exact


def test_the_rho_of_the_ledger_is_not_taken_for_that_of_zcdp(fitted):
    assert zcdp_epsilon(fitted.ledger_.total, DELTA) == pytest.approx(1.0)
    with pytest.raises(AccountingError, match="best of several runs"):
        Loss.of_ledger(fitted.ledger_)


def test_a_loss_is_within_another_only_if_its_divergence_is():
    known, unknown = Loss(math.inf, 0.5, 0.2), Loss(math.inf, 0.5)
    assert known.within(unknown)
    assert not unknown.within(known)
    with pytest.raises(AccountingError):
        Loss(1.0, 1.0, -1.0)
