"""Schemas by name, groups and weights of scores work inside scikit-learn's pipelines, searches and calibrations."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import ParameterError, TableError, UncoveredWarning

INF = float("inf")
RNG = np.random.default_rng(0)
X = pd.DataFrame({"town": RNG.choice(["north", "south"], 300), "age": RNG.uniform(18, 90, 300), "pay": RNG.random(300)})
Y = np.where(X["age"] > 50, "yes", "no")
PEOPLE = np.repeat(np.arange(100), 3)
AGE, TOWN, PAY = Numeric(0, 120), Categorical(["north", "south"]), Numeric(0, 1)
SCHEMA = Schema({"age": AGE, "pay": PAY, "town": TOWN}, Classes(["no", "yes"]))
BOUNDED = Schema(SCHEMA.features, Bounded(0, 120))
TABLES = pytest.mark.parametrize(("output", "library"), [("pandas", pd.DataFrame), ("polars", pl.from_pandas)])


def model(schema=SCHEMA, **parameters):
    return DPForestClassifier(schema, epsilon=INF, random_state=0, **parameters)


def columns(**options):
    """A step that learns nothing, changes the order of columns, and names those that it gives."""
    parts = [("num", FunctionTransformer(feature_names_out="one-to-one"), ["pay", "age"]), ("cat", "passthrough", ["town"])]
    return ColumnTransformer(parts, **options)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@TABLES
def test_names_of_a_column_transformer_are_those_of_the_schema(output, library):
    piped = make_pipeline(columns(verbose_feature_names_out=False), model()).set_output(transform=output)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncoveredWarning)
        piped.fit(library(X), Y)
    assert [*piped[-1].feature_names_in_] == ["pay", "age", "town"]
    assert (piped.predict(library(X)) == model().fit(X, Y).predict(X)).all()


@TABLES
def test_names_with_the_prefix_of_a_step_may_be_declared_as_they_are(output, library):
    schema = Schema({"num__age": AGE, "cat__town": TOWN}, SCHEMA.target)
    piped = make_pipeline(columns(), model(schema)).set_output(transform=output).fit(library(X), Y)
    assert [*piped[-1].feature_names_in_] == ["num__age", "cat__town"]  # num__pay is not in the schema, so it is not read
    assert piped.score(library(X), Y) > 0.95


@TABLES
def test_names_with_a_prefix_that_the_schema_lacks_are_refused_with_the_way_on(output, library):
    piped = make_pipeline(columns(), model()).set_output(transform=output)
    with pytest.raises(TableError, match=r"Is it 'num__age'\? .* verbose_feature_names_out=False"):
        piped.fit(library(X), Y)


@pytest.mark.slow
def test_a_step_that_learns_is_still_named_where_columns_are_transformed():
    scaled = ColumnTransformer(
        [("num", MinMaxScaler(), ["age", "pay"])], remainder="passthrough", verbose_feature_names_out=False
    )
    piped = make_pipeline(scaled, model()).set_output(transform="pandas")
    with pytest.warns(UncoveredWarning, match="'columntransformer' \\(ColumnTransformer\\)"):
        piped.fit(X, Y)
    assert any("ColumnTransformer" in note for note in piped[-1].privacy_.notes)
    public = clone(scaled).set_output(transform="pandas").fit(X)  # as if on rows that are public
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncoveredWarning)
        make_pipeline(FrozenEstimator(public), model()).fit(X, Y)


@pytest.mark.slow
def test_a_pipeline_is_cloned_and_searched():
    piped = Pipeline([("columns", columns(verbose_feature_names_out=False)), ("forest", model())]).set_output(
        transform="pandas"
    )
    search = GridSearchCV(clone(piped), {"forest__max_depth": [1, 3]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_[-1].forest_.depth == search.best_params_["forest__max_depth"]


@pytest.mark.parametrize("wrap", [lambda forest: forest, lambda forest: make_pipeline(FunctionTransformer(), forest)])
def test_groups_are_routed_to_the_fit(wrap, routing):
    forest = model(max_rows_per_person=2).set_fit_request(groups=True)
    fitted = wrap(forest).fit(X, Y, groups=PEOPLE)
    assert (fitted if fitted is forest else fitted[-1]).privacy_.unit == "person"
    with pytest.raises(ParameterError, match="groups is needed"):
        wrap(forest).fit(X, Y)


@pytest.mark.slow
def test_groups_are_routed_through_cross_validation_and_a_search(routing):
    forest = model(max_rows_per_person=2).set_fit_request(groups=True)
    for folds in (2, GroupKFold(2)):
        found = cross_validate(forest, X, Y, cv=folds, params={"groups": PEOPLE}, return_estimator=True, error_score="raise")
        assert [each.privacy_.unit for each in found["estimator"]] == ["person", "person"]
        assert min(found["test_score"]) > 0.9
    piped = make_pipeline(FunctionTransformer(), forest)
    search = GridSearchCV(piped, {"dpforestclassifier__max_depth": [2]}, cv=GroupKFold(2), error_score="raise")
    assert search.fit(X, Y, groups=PEOPLE).best_estimator_[-1].privacy_.unit == "person"


@pytest.mark.slow
def test_groups_are_routed_through_a_calibration(routing):
    forest = model(max_rows_per_person=2).set_fit_request(groups=True)
    calibrated = CalibratedClassifierCV(forest, cv=2).fit(X, Y, groups=PEOPLE)
    assert [each.estimator.privacy_.unit for each in calibrated.calibrated_classifiers_] == ["person", "person"]


def test_without_a_request_nobody_hands_groups_on(routing):
    with pytest.raises(ValueError, match="groups"):
        cross_validate(model(max_rows_per_person=2), X, Y, cv=2, params={"groups": PEOPLE})


def test_scores_take_weights_of_rows():
    weights = np.where(Y == "yes", 3.0, 0.5)
    forest = DPForestClassifier(SCHEMA, max_depth=1, random_state=0).fit(X, Y)
    assert forest.score(X, Y, sample_weight=weights) == accuracy_score(Y, forest.predict(X), sample_weight=weights)
    means = DPForestRegressor(BOUNDED, random_state=0).fit(X, X["age"])
    expected = r2_score(X["age"], means.predict(X), sample_weight=weights)
    assert means.score(X, X["age"], sample_weight=weights) == expected != means.score(X, X["age"])


def test_weights_of_scores_are_routed(routing):
    forest = model(max_depth=1).set_score_request(sample_weight=True)
    found = cross_validate(forest, X, Y, cv=2, params={"sample_weight": np.ones(len(X))}, error_score="raise")
    assert min(found["test_score"]) > 0.8


def test_a_calibration_of_a_frozen_forest_spends_nothing_more():
    forest = DPForestClassifier(SCHEMA, random_state=0).fit(X[:150], Y[:150])
    rules, spent = forest.forest_.rules(), forest.ledger_.spent
    calibrated = CalibratedClassifierCV(FrozenEstimator(forest)).fit(X[150:], Y[150:])
    assert calibrated.predict_proba(X).shape == (300, 2)
    assert (forest.forest_.rules(), forest.ledger_.spent) == (rules, spent)


@pytest.mark.slow
def test_tools_of_inspection_read_a_fitted_forest():
    forest = model().fit(X, Y)
    [found] = partial_dependence(forest, X, ["age"], grid_resolution=5, kind="average")["average"]
    assert found[0] < 0.2 < 0.8 < found[-1]
    [by_town] = partial_dependence(forest, X, ["town"], categorical_features=["town"])["average"]
    assert by_town.shape == (2,)
    importances = permutation_importance(forest, X, Y, n_repeats=2, random_state=0).importances_mean
    assert importances.argmax() == list(X).index("age")


@pytest.mark.parametrize("recipe", ["auto", "fletcher-islam-2017"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_logarithms_of_probabilities_are_minus_infinity_at_zero_without_a_warning(recipe):
    forest = DPForestClassifier(SCHEMA, recipe=recipe, n_trees=1, random_state=0).fit(X, Y)
    shares, logs = forest.predict_proba(X), forest.predict_log_proba(X)
    assert (logs == np.where(shares > 0, np.log(np.where(shares > 0, shares, 1)), -INF)).all()
    assert np.isneginf(logs).any() == (recipe != "auto")
