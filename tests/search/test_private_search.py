"""A search has scikit-learn's manners, refuses before it spends, is charged once, and keeps its parts apart."""

import json
import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone, is_classifier, is_regressor
from tests.search.small import CLASSES as SCHEMA
from tests.search.small import FEATURES, budget_in, watch
from tests.support.chances import at_least, at_most, seed_coins
from tests.support.crosses import pairwise
from tests.support.encoded import rows_of

import dpforest.search.estimator as search_module
from dpforest import DPForestClassifier, DPForestRegressor, DPSearchCV, get_recipe, list_recipes, load_model
from dpforest.budget import Loss
from dpforest.budget.fits import loss_of_search
from dpforest.budget.totals import Cap
from dpforest.errors import AccountingError, BudgetError, ParameterError, SchemaError, TableError
from dpforest.mechanisms import Entropy, Logarithmic
from dpforest.parts.leaves import NoisyCounts
from dpforest.parts.sampling import PoissonBootstrap
from dpforest.privacy.accountants import zcdp_epsilon, zcdp_rho
from dpforest.privacy.best_of_runs import epsilon_of_one_run
from dpforest.records.vault import Vault
from dpforest.schema import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.search.runs import Space

SPACE = {"recipe": ["auto", "jagannathan-2009"], "max_depth": [2, 3]}
LISTED = Schema({"x": Numeric(0, 1), "z": Categorical(learn=True)}, Classes(["a", "b"]))
NUMBERS = Schema(FEATURES, Bounded(-10, 10))


def table(n_rows=800, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"x": rng.random(n_rows), "z": rng.choice(["u", "v"], n_rows)})
    return X, np.where((X["x"] > 0.5) == (X["z"] == "u"), "a", "b")


def numbers(X):
    return 8 * X["x"].to_numpy() - 4


def make(**changed):
    usual = {"estimator": DPForestClassifier(SCHEMA), "param_distributions": SPACE, "epsilon": 2.0, "mean_runs": 3}
    return DPSearchCV(**(usual | changed))


def records_in(part):
    """The records in a part, by their first value, which occurs once."""
    return {*rows_of(part).columns[0]}


@pytest.fixture(scope="module")
def fitted():
    X, y = table()
    return make().fit(X, y), X, y


def test_a_search_predicts_with_its_best_model(fitted):
    search, X, y = fitted
    assert is_classifier(search)
    assert list(search.classes_) == ["a", "b"]
    assert (search.predict(X) == search.best_estimator_.predict(X)).all()
    assert search.predict_proba(X).shape == (len(X), 2)
    assert search.score(X, y) == np.mean(search.predict(X) == y)
    assert search.n_features_in_ == 2
    assert list(search.best_estimator_.feature_names_in_) == ["x", "z"]
    assert search.best_params_ == {name: getattr(search.best_estimator_, name) for name in SPACE}


def test_a_search_clones_copies_and_pickles(fitted):
    search, X, _ = fitted
    copy = clone(search)
    assert not hasattr(copy, "best_estimator_")
    assert copy.get_params()["mean_runs"] == 3
    assert copy.set_params(estimator__n_trees=5, epsilon=0.5).estimator.n_trees == 5
    again = pickle.loads(pickle.dumps(search))
    assert (again.predict(X) == search.predict(X)).all()


def test_the_statement_and_the_ledger_are_those_of_the_whole_search(fitted, tmp_path):
    search, _, _ = fitted
    model = search.best_estimator_
    assert search.privacy_.epsilon == model.privacy_.epsilon == search.ledger_.spent == model.ledger_.spent == 2.0
    assert search.privacy_.holds
    assert any("how many runs" in text for text in search.privacy_.not_covered)
    *_, selection = search.ledger_.entries()
    law = Logarithmic.with_mean(3)
    assert selection["epsilon"] == pytest.approx(2 - law.of_one_run(2.0))
    model.save(tmp_path / "model.dpf")
    assert load_model(tmp_path / "model.dpf").privacy_ == model.privacy_
    model.save_report(tmp_path / "report.html")


def test_nothing_tells_the_number_of_runs(fitted):
    search, _, _ = fitted
    own = {*search.get_params(deep=False)} | {
        "best_estimator_", "best_params_", "best_score_", "privacy_", "ledger_", "n_features_in_", "feature_names_in_",
    }  # fmt: skip
    assert set(vars(search)) == own
    assert {entry["scope"].split(" / ")[1] for entry in search.ledger_.entries()[:-1]} == {"best run"}


def test_a_search_of_numbers_scores_by_the_mean_absolute_error(monkeypatch):
    """Seeded. For another seed: the mean of 800 held-out errors, whose deviation is below 0.6 and of which none is above 3,
    is off by 0.15 with a chance of 2 exp(-800 * 0.15**2 / 2 / (0.6**2 + 0.15)) < 1e-7 (Bernstein), and noise of epsilon
    3.8 on their sum, in units of 20, is as much with one of 2 exp(-3.8 * 0.15 * 800 / 20) < 1e-9.
    """
    seed_coins(monkeypatch)
    X, _ = table(4000)
    y = numbers(X)
    search = DPSearchCV(DPForestRegressor(NUMBERS), {"max_depth": [2, 4]}, epsilon=5, mean_runs=2).fit(X, y)
    assert is_regressor(search)
    assert not hasattr(search, "predict_proba")
    error = np.abs(search.predict(X) - y).mean()
    assert search.best_score_ == pytest.approx(-error, abs=0.3)


def test_the_noisy_score_is_about_the_accuracy_of_the_model(monkeypatch):
    """Seeded. For another seed: of 1,600 held-out records a model with an accuracy above 0.9 hits a share that is 0.05 off
    with a chance of 2 exp(-1600 * 0.05**2 / 2 / (0.09 + 0.05 / 3)) < 1e-7 (Bernstein); noise of epsilon 2.5 is far less.
    """
    seed_coins(monkeypatch)
    X, y = table(8000)
    search = make(epsilon=4).fit(X, y)
    assert search.best_score_ == pytest.approx(search.score(X, y), abs=0.06)


def test_the_better_candidate_is_found_if_it_was_tried(monkeypatch):
    """Seeded. One level cannot see the two features of the rule: its accuracy is below 0.6. A run draws two levels, and then
    144 of 150 have an accuracy above 0.7, with a chance of 0.48; none of 25 does with one of 0.52**25 < 1e-7.
    """
    seed_coins(monkeypatch)
    X, y = table(2000)
    monkeypatch.setattr(Logarithmic, "draw", lambda *_: 25)
    forest = DPForestClassifier(SCHEMA, recipe="jagannathan-2009", n_trees=5)
    search = DPSearchCV(forest, {"max_depth": [1, 2]}, epsilon=4).fit(X, y)
    assert search.best_params_ == {"max_depth": 2}


def forest(schema=SCHEMA, **settings):
    return {"estimator": DPForestClassifier(schema, **settings)}


# What may not be asked of a search: numbers, estimators, spaces.
REFUSED = [
    *({"epsilon": value} for value in (0, math.inf, "1")),
    *({"mean_runs": value} for value in (0.5, True, math.nan, 1e9)),
    {"held_out": 0}, {"held_out": 1}, {"budget": "budget.db"}, {"estimator": "forest"},
    forest(delta=1.0), forest(LISTED, delta=1e-6), forest(random_state=0), forest(max_rows_per_person=2),
    forest(recipe="dong-2022", variant="published"), forest("assume-public"), forest(None),
    {"estimator": DPForestRegressor(SCHEMA)},
    *({"param_distributions": {name: [value]}} for name, value in (
        ("epsilon", 5), ("delta", 0.1), ("budget", None), ("random_state", 1), ("schema", SCHEMA), ("variant", "published"),
        ("max_rows_per_person", 3), ("nonsense", 1), ("recipe_params", {"no_such": 1}),
    )),
    *({"param_distributions": space} for space in (
        {"max_depth": []}, {"max_depth": 3}, {"recipe": "auto"}, [], [3], None, {"max_depth": [2, 0]},
        {"recipe": ["auto", "no-such-recipe"]}, {"max_depth": stats.randint(-9, -5)},
    )),
]  # fmt: skip


@pytest.mark.parametrize("changed", REFUSED, ids=lambda changed: str(changed)[:60])
def test_refusals_come_before_anything_is_charged(changed, tmp_path, monkeypatch):
    X, y = table(50)
    budget = budget_in(tmp_path, 3.0)
    monkeypatch.setattr(search_module.Vault, "hold_out", lambda *_: pytest.fail("Rows were used."))
    search = make(**({"budget": budget} | changed))
    for _ in range(5):  # whichever candidates are drawn
        with pytest.raises((ParameterError, SchemaError)):
            search.fit(X, y)
    assert budget.history() == []


@pytest.mark.parametrize(
    ("changed", "X", "y", "error"),
    [
        ({}, "table.parquet", None, Exception),
        ({}, table(50)[0], None, ValueError),
        ({}, table(50)[0][["x"]], table(50)[1], TableError),
        ({}, table(50)[0], table(40)[1], TableError),
        (forest(delta=1e-6), *table(50), BudgetError),  # of a budget that has none
    ],
)
def test_what_does_not_fit_the_table_or_the_budget_is_refused_uncharged(changed, X, y, error, tmp_path):
    budget = budget_in(tmp_path, 3.0)
    with pytest.raises(error):
        make(budget=budget, **changed).fit(X, y)
    assert budget.history() == []


def test_a_search_is_charged_to_its_budget_once_and_in_full(tmp_path):
    X, y = table(200)
    budget = budget_in(tmp_path, 3.0)
    search = clone(make(budget=budget, mean_runs=20)).fit(X, y)
    (entry,) = budget.history()
    assert (entry["what"], entry["state"]) == ("search", "settled")
    assert budget.spent == 2.0
    assert any("ward" in note for note in search.privacy_.notes)
    assert search.best_estimator_.budget is None
    with pytest.raises(BudgetError):
        clone(search).fit(X, y)
    assert budget.spent == 2.0


def test_the_store_does_not_tell_how_long_a_search_took(tmp_path, monkeypatch):
    """The time of a search tells how many runs there were, and these are secret."""
    X, y = table(100)
    budget = budget_in(tmp_path, 3.0)
    states = []
    watch(monkeypatch, search_module, "best_run", lambda *_: states.append(budget.history()[0]["state"]))
    make(budget=budget).fit(X, y)
    assert states == ["settled"]
    assert len(budget.export()["entries"]) == 3  # create, reserve, settle: all before the first run


class Counting:
    """A distribution that remembers how often it was asked."""

    def __init__(self):
        self.n = 0

    def rvs(self, random_state=None):
        self.n += 1
        return self.n


def test_a_distribution_that_remembers_its_draws_does_not_tell_the_number_of_runs():
    drawn = Space(None, {"max_depth": Counting()}).draw(6, Entropy(None))
    assert drawn == [{"max_depth": 1}] * 6


def test_a_schema_that_was_read_off_rows_is_refused():
    X, y = table(100)
    learned = DPForestClassifier("assume-public", random_state=0).fit(X, y).schema_
    with pytest.raises(SchemaError, match="read off rows"):
        make(estimator=DPForestClassifier(learned)).fit(X, y)


def test_a_search_that_fails_is_charged_in_full(tmp_path, monkeypatch):
    X, y = table(200)
    budget = budget_in(tmp_path, 3.0)
    monkeypatch.setattr(search_module, "run", lambda *_: 1 / 0)
    search = make(budget=budget)
    with pytest.raises(ZeroDivisionError):
        search.fit(X, y)
    assert budget.spent == 2.0
    assert not hasattr(search, "best_estimator_")


def test_runs_that_are_not_the_best_leave_no_warning(monkeypatch):
    X, y = table(100)
    watch(monkeypatch, search_module, "run", lambda *_: warnings.warn("a run", stacklevel=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().fit(X, y)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5])
def test_parts_hold_each_record_once_in_their_shares_and_one_more_moves_no_other(share):
    X, y = table(20_000)
    y = y.astype(object)
    y[:500] = None
    vault = Vault.seal(X, y, SCHEMA)
    training, held_out = map(records_in, vault.hold_out(share, Entropy(3)))
    assert not training & held_out
    assert training | held_out == records_in(vault) == {*X["x"][500:]}
    # Seeded; over all seeds the chance of a failure is 1e-6 on each side.
    assert at_least(19_500, share) <= len(held_out) <= at_most(19_500, share)
    fewer = Vault.seal(X[:-1], y[:-1], SCHEMA).hold_out(share, Entropy(3))
    for less, all_records in zip(map(records_in, fewer), (training, held_out), strict=True):
        assert less == all_records - {X["x"].iloc[-1]}


def test_a_run_trains_and_scores_on_its_own_part(monkeypatch):
    X, y = table(500)
    seen = {"parts": [], "encode": [], "hits": []}
    watch(monkeypatch, search_module, "run", lambda *given: seen["parts"].append([records_in(part) for part in given[:2]]))
    for name in ("encode", "hits"):
        watch(monkeypatch, Vault, name, lambda vault, *_, name=name: seen[name].append(records_in(vault)))
    make(mean_runs=5).fit(X, y)
    for (training, held_out), trained, scored in zip(*seen.values(), strict=True):
        assert not training & held_out
        assert training | held_out == {*X["x"]}
        assert training == trained == seen["parts"][0][0]
        assert scored == held_out


def test_hits_are_what_the_estimator_predicts_right():
    X, y = table(600)
    for recipe in ("auto", "bojarski-2015", "jagannathan-2009"):
        model = DPForestClassifier(SCHEMA, recipe=recipe, epsilon=3).fit(X, y)
        ((hits, misses),) = Vault.seal(X, y, SCHEMA).hits(model.forest_)._value
        assert hits == (model.predict(X) == y).sum()
        assert hits + misses == 600


def test_candidates_may_come_from_distributions_and_several_spaces():
    X, y = table(200)
    space = [{"recipe": ["auto"], "max_depth": stats.randint(2, 5)}, {"recipe": ["jagannathan-2009"], "n_trees": [3]}]
    found = make(param_distributions=space, mean_runs=4).fit(X, y).best_params_
    assert set(found) in ({"recipe", "max_depth"}, {"recipe", "n_trees"})


def test_a_declared_number_of_rows_is_that_of_the_training_part(monkeypatch):
    X, y = table(1000)
    schema = Schema(FEATURES, Classes(["a", "b"]), n_rows=1000)
    seen = []
    search = DPSearchCV(DPForestClassifier(schema), {"max_depth": [2]}, epsilon=1, held_out=0.25, mean_runs=1)
    watch(monkeypatch, search_module, "run", lambda training, *_: seen.append(training.schema.n_rows))
    search.fit(X, y)
    assert seen == [750]
    assert search.best_estimator_.schema_ is search.estimator.schema or search.best_estimator_.schema_.n_rows == 1000


def test_a_table_without_rows_gives_a_model_and_no_error():
    X, y = table(10)
    for search in (make().fit(X[:0], y[:0]), make().fit([], [])):
        assert search.predict(X).shape == (10,)


class OwnLeaf(NoisyCounts):
    """Somebody's own, of which nothing is known."""


class OwnRecipes:
    """A distribution of recipes."""

    def rvs(self, random_state=None):
        return "jagannathan-2009"


OWN = replace(get_recipe("jagannathan-2009"), name="mine", leaf=OwnLeaf())
SPACES = {
    "list": {"recipe": ["auto", "mu-2016", OWN]},
    "lists": [{"recipe": ["auto"]}, {"recipe": [OWN]}],
    "list beside a distribution": {"recipe": ["auto", OWN], "max_depth": stats.randint(1, 3)},
    "distribution": {"recipe": OwnRecipes()},
}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_own_recipes_among_the_candidates_are_said_whichever_is_the_best(space, tmp_path):
    budget = budget_in(tmp_path)
    X, y = table(20)
    for _ in range(5):  # whatever the draws
        search = make(param_distributions=space, mean_runs=1.5, budget=budget, epsilon=1.0).fit(X, y)
        assert search.privacy_.own_recipe
        assert any("OwnLeaf" in part or "OwnRecipes" in part for part in search.privacy_.outside)
        assert search.ledger_.proof == search.privacy_.proof
    assert {entry["what"] for entry in budget.history()} == {"search with own recipes"}


# --- with delta: one book of rho for each run, and a charge by its divergence -------------------------------------------

DELTA = 1e-6
X, Y = table(400)
LAW = Logarithmic.with_mean(3)


def make_with_delta(space=None, **changed):
    usual = {"param_distributions": space or {"max_depth": [1, 2]}, "epsilon": 1.0, **forest(delta=DELTA, n_trees=2)}
    return make(**(usual | changed))


@pytest.fixture(scope="module")
def with_delta():
    return make_with_delta().fit(X, Y)


def test_the_statement_says_both_and_the_ledger_how_they_come_about(with_delta, tmp_path):
    model = with_delta.best_estimator_
    assert (with_delta.privacy_.epsilon, with_delta.privacy_.delta, with_delta.ledger_.spent) == (1.0, DELTA, 1.0)
    assert with_delta.privacy_.holds
    assert any("epsilon and delta cover all of its runs" in note for note in with_delta.privacy_.notes)
    charge = with_delta.ledger_.selection
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


def test_both_parts_of_a_run_cost_its_rho_in_one_book(with_delta):
    (book,) = with_delta.ledger_.books
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
    search = make_with_delta(space={"recipe": [recipe]}, mean_runs=1)
    used = []
    watch(monkeypatch, Vault, "hold_out", lambda *_: used.append(1))
    if isinstance(get_recipe(recipe).sample, PoissonBootstrap):
        with pytest.raises(AccountingError, match=f"Candidate {{recipe: '{recipe}'}}: A Poisson bootstrap"):
            search.fit(X, Y)
        assert used == []
    else:
        assert len(search.fit(X, Y).ledger_.books) == 1


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_a_budget_is_charged_the_divergence_of_its_order(tmp_path):
    budget = budget_in(tmp_path, 3.0, DELTA)
    search = make_with_delta(budget=budget).fit(X, Y)
    (entry,) = budget.history()
    cap, one = budget.cap, zcdp_rho(epsilon_of_one_run(LAW, 1.0, DELTA), DELTA)
    assert entry["loss"].divergence == LAW.divergence(cap.order, one)
    assert entry["loss"] == loss_of_search(LAW, 1.0, DELTA, cap.order)
    assert 1.0 <= budget.spent < 2.0  # an order that is the best for the whole cap is not the best for one search
    twice = cap.stated(cap.sums(entry["loss"]).plus(cap.sums(entry["loss"])))
    make_with_delta(budget=budget).fit(X, Y)
    assert budget.spent == twice < 3.0
    search.best_estimator_.save_report(tmp_path / "r.html", budget=budget)
    assert "Rényi divergence" in (tmp_path / "r.html").read_text("utf-8")
    assert json.loads((tmp_path / "r.json").read_text("utf-8"))["budget"]["alike"] == 2


def test_a_search_and_fits_share_a_budget_and_none_passes_its_cap(tmp_path):
    budget = budget_in(tmp_path, 2.0, DELTA)
    make_with_delta(budget=budget).fit(X, Y)
    DPForestClassifier(SCHEMA, epsilon=0.5, delta=DELTA, n_trees=2, max_depth=1, budget=budget).fit(X, Y)
    with pytest.raises(BudgetError):
        make_with_delta(budget=budget, epsilon=1.9).fit(X, Y)
    assert budget.spent < 2.0


def test_a_divergence_that_is_a_tenth_too_small_would_admit_what_the_cap_refuses():
    """The stated epsilon of searches is what their exact divergences have; a tenth less of these gives a smaller one."""
    cap, one = Cap(3.0, DELTA), zcdp_rho(epsilon_of_one_run(LAW, 1.0, DELTA), DELTA)
    loss = loss_of_search(LAW, 1.0, DELTA, cap.order)
    terms = LAW.divergence(cap.order, one) + (math.log(1 / DELTA) - math.log(cap.order)) / (cap.order - 1)
    exact = terms + math.log1p(-1 / cap.order)
    assert cap.stated(cap.sums(loss)) == pytest.approx(exact, rel=1e-9)
    assert cap.stated(cap.sums(Loss(math.inf, loss.rho, 0.9 * loss.divergence, loss.order))) < exact


def test_the_rho_of_the_ledger_is_not_taken_for_that_of_zcdp(with_delta):
    assert zcdp_epsilon(with_delta.ledger_.total, DELTA) == pytest.approx(1.0)
    with pytest.raises(AccountingError, match="best of several runs"):
        Loss.of_ledger(with_delta.ledger_)


def test_a_loss_is_within_another_only_if_its_divergence_is():
    known, unknown = Loss(math.inf, 0.5, 0.2), Loss(math.inf, 0.5)
    assert known.within(unknown)
    assert not unknown.within(known)
    with pytest.raises(AccountingError):
        Loss(1.0, 1.0, -1.0)
