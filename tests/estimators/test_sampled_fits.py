"""Fits on a secret sample: what is drawn, spent, stated, kept and shown, and where all rows are used as before.

Fits have fresh coins. What is asserted holds for all of them, or fails with the chance that is stated.
"""

import json
import math
import warnings
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from tests.cli.command import done
from tests.support.crosses import pairwise
from tests.support.planted import assert_same_forest
from tests.support.stated import epsilon_of

from dpforest import Budget, DPForestClassifier, DPForestRegressor, DPSearchCV, list_recipes, load_model
from dpforest.budget import Loss
from dpforest.cli.console import output
from dpforest.errors import AccountingError, NothingLearntWarning, ParameterError
from dpforest.privacy.ledger import Ledger
from dpforest.schema import Bounded, Categorical, Classes, Numeric, Schema
from dpforest.show.plan import explain
from dpforest.show.report.content import report_content

N_ROWS, SAMPLE = 4000, {"sample_rows": 1000}
FEATURES = {"age": Numeric(0, 100), "city": Categorical(["Oslo", "Rome", "Bonn"])}
SCHEMA = Schema(FEATURES, Classes(["no", "yes"], name="says"))
DECLARED = replace(SCHEMA, n_rows=N_ROWS)
LEARNT = replace(SCHEMA, features={**FEATURES, "city": Categorical(learn=True)})
MEANS = Schema(FEATURES, Bounded(0, 100, name="says"))


NOTE = "the sample is part of the guarantee, which holds as long as nobody learns who was in it"


@cache
def table(n_rows=N_ROWS):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.uniform(0, 100, n_rows), "city": rng.choice(["Oslo", "Rome", "Bonn"], n_rows)})


def labels(X):
    return np.where((X["age"] > 50) | (X["city"] == "Oslo"), "yes", "no")


def fitted(schema=SCHEMA, n_rows=N_ROWS, params=SAMPLE, **settings):
    X, groups = table(n_rows), settings.pop("groups", None)
    is_means = isinstance(schema.target, Bounded)
    model = (DPForestRegressor if is_means else DPForestClassifier)(schema, **{"recipe_params": params, **settings})
    return model.fit(X, X["age"].to_numpy() if is_means else labels(X), groups=groups)


QUARTER = Fraction(1, 4)
PERSONS = {"epsilon": 3.0, "max_rows_per_person": 3, "groups": np.arange(N_ROWS) // 2}
LISTS = replace(LEARNT, n_rows=N_ROWS)
# How a model is fitted, the units of its books, and the share of the last; None if it follows from a measured number.
MODELS = {
    "pure": ({"schema": DECLARED}, ["epsilon"], QUARTER),
    "pure, rows measured": ({}, ["epsilon", "epsilon"], None),
    "zCDP": ({"schema": DECLARED, "delta": 1e-6}, ["rho"], QUARTER),
    "zCDP, rows measured": ({"delta": 1e-6}, ["epsilon", "rho"], None),
    "lists": ({"schema": LISTS, "delta": 1e-5, "epsilon": 2.0}, ["rho"], QUARTER),
    "lists, rows measured": ({"schema": LEARNT, "delta": 1e-5, "epsilon": 2.0}, ["epsilon", "rho"], None),
    "lists and a bootstrap": (
        {"schema": LISTS, "delta": 1e-5, "recipe": "patil-singh-2014", "n_trees": 2}, ["epsilon"], QUARTER
    ),
    "a number": ({"schema": replace(MEANS, n_rows=N_ROWS)}, ["epsilon"], QUARTER),
    "a number, zCDP, rows measured": ({"schema": MEANS, "delta": 1e-6}, ["epsilon", "rho"], None),
    "a number without bounds": (
        {"schema": Schema(FEATURES, Bounded(name="says"), n_rows=N_ROWS), "epsilon": 4.0}, ["epsilon"], QUARTER
    ),
    "persons": ({"schema": DECLARED, **PERSONS}, ["epsilon"], QUARTER),
    "persons, zCDP": ({"schema": DECLARED, "delta": 1e-6, **PERSONS}, ["rho"], QUARTER),
    "disjoint trees": ({"schema": DECLARED, "recipe": "fletcher-islam-2017", "n_trees": 4}, ["epsilon"], QUARTER),
}  # fmt: skip


@cache
def model_of(name):
    return fitted(**MODELS[name][0])


each_model = pytest.mark.parametrize(
    "name", [name if name in ("pure", "zCDP") else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
with_and_without_delta = pytest.mark.parametrize("delta", [0.0, 1e-6])


# --- what is spent ----------------------------------------------------------------------------------------------------


@each_model
def test_a_fit_on_a_sample_spends_its_epsilon_and_no_more_and_states_and_keeps_it(name, tmp_path):
    model, (_, units, share) = model_of(name), MODELS[name]
    ledger = model.ledger_
    assert [book.accountant.unit for book in ledger.books] == units
    assert 0.97 * model.epsilon < ledger.spent <= model.epsilon
    # The loss is found again from what the ledger says, by the formula of amplification.
    assert epsilon_of(ledger.to_dict()) == pytest.approx(ledger.spent, rel=1e-6)
    assert (ledger.delta, model.privacy_.delta) == (model.delta, model.delta)
    assert sum(Fraction(str(book.accountant.delta)) for book in ledger.books) <= Fraction(str(model.delta))
    assert ledger.sample_share == ledger.books[-1].accountant.share < 1
    # The measured number has noise of a few rows: that it is off by 1,000 has a chance of exp(-20) or less.
    assert share in (None, ledger.sample_share)
    assert 0.2 < ledger.sample_share < 0.34
    assert all(book.accountant.share == 1 for book in ledger.books[:-1])
    assert (model.privacy_.holds, model.privacy_.epsilon) == (True, ledger.spent)
    (note,) = [note for note in model.privacy_.notes if "secret sample" in note]
    about, rest = note.removeprefix("trained on a secret sample of about ").split(" rows: ")
    assert abs(int(about.replace(",", "")) - 1000) <= 10
    who = "person" if model.max_rows_per_person else "record"
    assert rest == f"each {who} took part with probability {float(ledger.sample_share):.2g}; {NOTE}"
    assert note in report_content(model)["notes"]
    model.save(tmp_path / "model.dpf")
    again = load_model(tmp_path / "model.dpf")
    assert again.ledger_ == Ledger.from_json(ledger.to_json()) == ledger
    assert (again.ledger_.sample_share, again.ledger_.spent) == (ledger.sample_share, ledger.spent)
    assert again.privacy_ == model.privacy_


def test_a_sample_is_charged_more_than_the_table_loses_and_is_all_a_forest_holds():
    assert model_of("pure").ledger_.total == pytest.approx(math.log1p(4 * math.expm1(1.0)))  # above 2
    # Without noise that counts: at this epsilon all of it together is a few records. The sample is of 1,000 +- 27; that it
    # is off by 200 has a chance of less than 1e-12.
    model = fitted(DECLARED, epsilon=50.0, recipe="jagannathan-2009", n_trees=1, max_depth=1)
    assert abs(model.forest_.counts[model.forest_.is_leaf].sum() - 1000) < 200


@with_and_without_delta
def test_a_model_from_a_sample_has_learnt_something(delta):
    # Two thirds of the labels are the same. The fit is seeded.
    X = table()
    assert fitted(DECLARED, delta=delta, random_state=0).score(X, labels(X)) > 0.8


@pytest.mark.slow
@with_and_without_delta
@pytest.mark.parametrize("recipe", [recipe["name"] for recipe in list_recipes()])
def test_every_recipe_can_be_fitted_to_a_sample(recipe, delta):
    try:
        model = fitted(DECLARED, delta=delta, recipe=recipe, n_trees=2, max_depth=2)
    except AccountingError:  # which has no analysis with delta, on any table
        assert delta > 0
        return
    assert model.ledger_.sample_share == QUARTER
    assert 0.9 < model.ledger_.spent <= 1.0
    assert epsilon_of(model.ledger_.to_dict()) == pytest.approx(model.ledger_.spent, rel=1e-6)


# --- where no sample is drawn -----------------------------------------------------------------------------------------


def steps_of(**settings):
    X, steps = table(), []
    DPForestClassifier(DECLARED, n_trees=2, max_depth=1, **settings).fit(X, labels(X), progress=steps.append)
    return steps


@pytest.mark.slow
@with_and_without_delta
@pytest.mark.parametrize("schema", [SCHEMA, DECLARED], ids=["rows measured", "rows declared"])
def test_a_table_that_is_not_large_is_used_as_a_whole_and_so_is_any_if_that_is_asked_for(schema, delta):
    settings = {"delta": delta, "random_state": 2, "n_trees": 3, "max_depth": 2}
    plain = fitted(schema, params=None, **settings)
    for rows in (0, float(10 * N_ROWS), 10 * N_ROWS):
        other = fitted(schema, params={"sample_rows": rows}, **settings)
        assert_same_forest(plain.forest_, other.forest_)
        assert plain.ledger_ == other.ledger_
    assert plain.ledger_.sample_share == 1
    assert "sample_share" not in plain.ledger_.to_json()
    assert not any("sample" in note for note in plain.privacy_.notes)


def test_without_privacy_no_sample_is_drawn_and_progress_says_when_one_is():
    model = fitted(DECLARED, epsilon=math.inf, recipe="jagannathan-2009", n_trees=1, max_depth=1)
    assert model.ledger_.sample_share == 1
    assert model.forest_.counts[model.forest_.is_leaf].sum() == N_ROWS
    assert steps_of(recipe_params=SAMPLE)[:2] == ["sample drawn", "encoded"]
    for settings in ({}, {"epsilon": math.inf, "recipe_params": SAMPLE}):
        assert "sample drawn" not in steps_of(**settings)


@pytest.mark.parametrize(
    "settings", [{}, {"schema": DECLARED}, {"schema": DECLARED, **PERSONS}], ids=["", "rows", "persons"]
)
def test_a_budget_is_charged_the_loss_on_the_table_for_a_sample_without_delta(tmp_path, settings):
    unit = "person" if "groups" in settings else "record"
    budget = Budget.open(tmp_path / "budget.db", dataset="people", epsilon=2.0, delta=1e-5, unit=unit)
    model = fitted(**settings | {"epsilon": 0.75}, budget=budget)
    assert model.ledger_.sample_share < 1
    (release,) = budget.history()
    assert release["loss"] == Loss.of_ledger(model.ledger_)
    assert release["loss"].within(release["outcomes"][0])
    assert 0.97 * 0.75 < release["loss"].epsilon <= 0.75
    assert budget.spent <= 0.75


# --- odd tables and parameters ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dpforest.errors.NothingLearntWarning")  # there is next to nothing to learn
@pytest.mark.parametrize(("n_rows", "delta", "declared"), pairwise([0, 1, 5], [0.0, 1e-6], [None, 1, 1000]))
def test_a_table_of_next_to_no_rows_can_be_sampled(n_rows, delta, declared):
    model = fitted(replace(SCHEMA, n_rows=declared), n_rows, {"sample_rows": 1}, delta=delta, n_trees=2, max_depth=2)
    assert model.ledger_.spent <= 1.0
    assert (model.ledger_.sample_share < 1) or declared != 1000
    assert model.predict(table(10)).shape == (10,)


def test_a_number_of_rows_that_is_none_is_refused_before_a_charge():
    for rows in (-1, 0.5, math.nan, math.inf, -math.inf, "many", [5], None, 10**400):
        model = DPForestClassifier(SCHEMA, recipe_params={"sample_rows": rows})
        with pytest.raises(ParameterError, match="sample_rows"):
            model.fit(table(10), labels(table(10)))
        assert not hasattr(model, "ledger_")


# --- what people see --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pure", "zCDP", "zCDP, rows measured"])
def test_ledger_and_report_say_that_charges_are_about_a_sample(name, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "width", 300)
    model, path, page = model_of(name), tmp_path / "model.dpf", tmp_path / "report.html"
    model.save(path)
    shown, found = " ".join(done("ledger", path).split()), json.loads(done("ledger", path, "--json"))["books"]
    share, book = float(model.ledger_.sample_share), model.ledger_.books[-1]
    about = f"on a secret sample of {share:.3g} of the records"
    assert f"Book {len(found)}: {book.accountant.unit} = {book.total:.6g} {about}, stated as epsilon = " in shown
    assert [each.get("sample_share", 1.0) for each in found] == [*[1.0] * (len(found) - 1), share]
    if name == "zCDP":
        assert "stated as epsilon = 1 at delta = 4e-06" in shown
    model.save_report(page)
    twin = (tmp_path / "report.json").read_text()
    assert NOTE in page.read_text()
    assert NOTE in twin
    assert Ledger.from_dict(json.loads(twin)["whole_ledger"]) == model.ledger_
    assert about in twin  # also where the loss is said to add up, for charges of a sample add up to more
    done("report", path, "--out", page)
    assert NOTE in page.read_text()


# --- plans ------------------------------------------------------------------------------------------------------------


def lines_of(plan, what):
    return [line for line in plan.choices if line.what == what]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "delta", "most"),
    [
        (SCHEMA, 0.0, 2_500_000), (SCHEMA, 1e-6, 2_500_000), (MEANS, 0.0, 2_500_000), (LEARNT, 1e-6, 2_500_000),
        (replace(SCHEMA, target=Classes(list("abc"))), 0.0, 3_750_000),
    ],
    ids=["pure", "zCDP", "means", "lists", "three classes"],
)  # fmt: skip
def test_the_plan_of_a_table_that_is_too_large_has_a_line_on_the_sample(schema, delta, most):
    for n_rows, has_line in ((most, False), (most + 1, True)):
        assert bool(lines_of(explain(schema, n_rows, 1.0, delta), "secret sample")) == has_line
    large = explain(schema, 10**8, 1.0, delta)
    (line,) = lines_of(large, "secret sample")
    assert line.value == f"about {most * 4 // 5:,} rows"
    assert [found.value for found in lines_of(large, "rows")] == ["100,000,000"]
    if most == 2_500_000:
        assert "epsilon = 1 of the table is 4.46 of the sample" in line.why
        (product,) = lines_of(large, "rows x epsilon")
        assert float(product.value.replace(",", "")) == pytest.approx(2_000_000 * 4.46, rel=0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dpforest.errors.NothingLearntWarning")
@with_and_without_delta
def test_the_plan_of_a_large_table_is_what_a_fit_on_it_does(delta):
    """A fit on no rows: what is charged follows from the declared number alone."""
    schema = replace(SCHEMA, n_rows=10**8)
    model = DPForestClassifier(schema, epsilon=1.0, delta=delta).fit([], [])
    assert float(model.ledger_.sample_share) == pytest.approx(0.02, rel=1e-4)
    assert model.ledger_.spent <= 1.0
    plan = explain(schema, None, 1.0, delta)
    (releases,) = lines_of(plan, "releases")
    assert releases.value == ("zCDP" if model.ledger_.unit == "rho" else "pure epsilon")
    assert sum(float(line.value.rstrip("%")) for line in plan.shares) == pytest.approx(100, abs=0.5)


# --- doubts -----------------------------------------------------------------------------------------------------------


def told_by(schema, X, y, kind=DPForestClassifier, **settings):
    """A model and the doubts of its fit, which is seeded: a test here passes always or never."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = kind(schema, random_state=1, **settings).fit(X, y)
    return model, [str(warning.message) for warning in told if warning.category is NothingLearntWarning]


@pytest.mark.slow
@with_and_without_delta
def test_a_small_share_of_a_large_table_is_not_taken_for_next_to_nothing(delta):
    X = table(60_000)
    schema, params = replace(SCHEMA, n_rows=60_000), {"sample_rows": 1200}
    model, told = told_by(schema, X, labels(X), delta=delta, recipe_params=params)
    assert told == []
    # The trees hold less than a tenth of the declared rows, which would be a doubt without a sample.
    assert model.forest_.held.sizes[0] + 3 * model.forest_.held.size_deviations[0] < 6000
    assert report_content(model)["forest"]["odd"] == []
    _, told = told_by(SCHEMA, X, labels(X), delta=delta, recipe_params=params)
    assert told == []


def test_labels_that_do_not_match_are_told_on_a_sample_too():
    X = table(60_000)
    upper = [label.upper() for label in labels(X)]
    model, told = told_by(replace(SCHEMA, n_rows=60_000), X, upper, recipe_params={"sample_rows": 6000}, epsilon=2.0)
    assert model.ledger_.sample_share < 1
    assert len(told) == 1
    assert "declares 60,000 rows" in told[0]


# --- a search ---------------------------------------------------------------------------------------------------------


def search_of(schema, params=None, **settings):
    estimator = DPForestClassifier(schema, recipe_params=params, n_trees=2)
    return DPSearchCV(estimator, {"max_depth": [1, 2]}, epsilon=2.0, mean_runs=2.0, **settings)


def test_runs_of_a_search_draw_no_sample_and_refuse_one_before_anything_is_spent(tmp_path):
    X, budget = table(), Budget.open(tmp_path / "budget.db", dataset="people", epsilon=5.0)
    as_candidate = search_of(DECLARED, budget=budget).set_params(param_distributions={"recipe_params": [SAMPLE]})
    for search in (search_of(DECLARED, SAMPLE, budget=budget), as_candidate):
        with pytest.raises(ParameterError, match="sample_rows asks for a secret sample"):
            search.fit(X, labels(X))
    assert budget.spent == 0.0
    search = search_of(replace(SCHEMA, n_rows=10**8)).fit(X, labels(X))
    assert 1.9 < search.ledger_.spent <= 2.0
    assert search.ledger_.sample_share == 1
    assert not any("secret sample" in note for note in search.privacy_.notes)
