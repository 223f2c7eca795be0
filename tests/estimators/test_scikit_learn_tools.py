"""The estimators are scikit-learn's: they pass its checks and work inside its pipelines, searches and calibrations."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

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


def means(**parameters):
    return DPForestRegressor(BOUNDED, random_state=0, **parameters)


# Every check that scikit-learn offers must pass.


@pytest.mark.slow
@parametrize_with_checks([DPForestClassifier("assume-public", epsilon=INF), DPForestRegressor("assume-public")])
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)


@pytest.mark.night
@parametrize_with_checks([DPForestClassifier("assume-public"), DPForestRegressor("assume-public", epsilon=INF)])
def test_scikit_learn_check_passes_with_and_without_noise(estimator, check):
    check(estimator)


@pytest.mark.parametrize("make", [DPForestClassifier, DPForestRegressor])
def test_parameters_are_kept_as_given_and_survive_a_clone(make):
    given = {
        "schema": SCHEMA, "epsilon": 0.5, "delta": 1e-6, "recipe": "auto", "variant": "private", "n_trees": 3,
        "max_depth": 2, "recipe_params": {}, "random_state": 7, "n_jobs": 2, "max_rows_per_person": 3, "budget": None,
        "earlier_model": None,
    }  # fmt: skip
    if make is DPForestClassifier:
        given["class_weight"] = {"no": 2.0}
    kept = make(**given).get_params()
    assert kept == clone(make(**given)).get_params() == make().set_params(**given).get_params() == given
    assert all(kept[name] is value for name, value in given.items())


def test_each_estimator_is_of_its_kind_and_says_where_it_is_not_fitted():
    assert is_classifier(DPForestClassifier())
    assert is_regressor(DPForestRegressor())
    cloned = clone(model(n_trees=1).fit(X, Y))
    assert not [name for name in vars(cloned) if name.endswith("_")]
    for ask in (
        check_is_fitted,
        lambda forest: forest.predict(X),
        lambda forest: forest.predict_proba(X),
        lambda forest: forest.predict_log_proba(X),
        lambda forest: forest.feature_importances_,
        lambda forest: forest.save("never.dpf"),
    ):
        with pytest.raises(NotFittedError):
            ask(cloned)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_pickled_model_predicts_and_states_the_same(delta):
    for forest in (DPForestClassifier(SCHEMA, delta=delta).fit(X, Y), means(delta=delta).fit(X, X["age"])):
        twin = pickle.loads(pickle.dumps(forest))
        assert (twin.predict(X) == forest.predict(X)).all()
        assert (twin.privacy_, twin.ledger_) == (forest.privacy_, forest.ledger_)
        assert twin.forest_.rules() == forest.forest_.rules()


# --- pipelines and searches -----------------------------------------------------------------------------------------


def columns(**options):
    """A step that learns nothing, changes the order of columns, and names those that it gives."""
    parts = [("num", FunctionTransformer(feature_names_out="one-to-one"), ["pay", "age"]), ("cat", "passthrough", ["town"])]
    return ColumnTransformer(parts, **options)


@TABLES
def test_names_of_a_column_transformer_are_those_of_the_schema(output, library):
    piped = make_pipeline(columns(verbose_feature_names_out=False), model()).set_output(transform=output)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncoveredWarning)
        piped.fit(library(X), Y)
    assert [*piped[-1].feature_names_in_] == ["pay", "age", "town"]
    assert (piped.predict(library(X)) == model().fit(X, Y).predict(X)).all()


@TABLES
def test_names_with_the_prefix_of_a_step_may_be_declared_as_they_are_or_are_refused(output, library):
    schema = Schema({"num__age": AGE, "cat__town": TOWN}, SCHEMA.target)
    piped = make_pipeline(columns(), model(schema)).set_output(transform=output).fit(library(X), Y)
    assert [*piped[-1].feature_names_in_] == ["num__age", "cat__town"]  # num__pay is not in the schema, so it is not read
    assert piped.score(library(X), Y) > 0.95
    with pytest.raises(TableError, match=r"Is it 'num__age'\? .* verbose_feature_names_out=False"):
        make_pipeline(columns(), model()).set_output(transform=output).fit(library(X), Y)


@pytest.mark.slow
def test_a_pipeline_is_cloned_cross_validated_and_searched():
    steps = [("columns", columns(verbose_feature_names_out=False)), ("forest", model())]
    piped = Pipeline(steps).set_output(transform="pandas")
    search = GridSearchCV(clone(piped), {"forest__max_depth": [1, 3]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_[-1].forest_.depth == search.best_params_["forest__max_depth"]
    for forest, y in ((piped, Y), (means(epsilon=INF), X["age"])):
        assert min(cross_val_score(forest, X, y, cv=4)) > 0.9


# --- what is handed on ----------------------------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize("wrap", [lambda forest: forest, lambda forest: make_pipeline(FunctionTransformer(), forest)])
def test_groups_are_routed_to_the_fit(wrap, routing):
    forest = model(max_rows_per_person=2).set_fit_request(groups=True)
    fitted = wrap(forest).fit(X, Y, groups=PEOPLE)
    assert (fitted if fitted is forest else fitted[-1]).privacy_.unit == "person"
    with pytest.raises(ParameterError, match="groups is needed"):
        wrap(forest).fit(X, Y)
    with pytest.raises(ValueError, match="groups"):  # which nobody asked for
        cross_validate(model(max_rows_per_person=2), X, Y, cv=2, params={"groups": PEOPLE})


@pytest.mark.slow
def test_groups_are_routed_through_cross_validation_a_search_and_a_calibration(routing):
    forest = model(max_rows_per_person=2).set_fit_request(groups=True)
    for folds in (2, GroupKFold(2)):
        found = cross_validate(forest, X, Y, cv=folds, params={"groups": PEOPLE}, return_estimator=True, error_score="raise")
        assert [each.privacy_.unit for each in found["estimator"]] == ["person", "person"]
        assert min(found["test_score"]) > 0.9
    piped = make_pipeline(FunctionTransformer(), forest)
    search = GridSearchCV(piped, {"dpforestclassifier__max_depth": [2]}, cv=GroupKFold(2), error_score="raise")
    assert search.fit(X, Y, groups=PEOPLE).best_estimator_[-1].privacy_.unit == "person"
    calibrated = CalibratedClassifierCV(forest, cv=2).fit(X, Y, groups=PEOPLE)
    assert [each.estimator.privacy_.unit for each in calibrated.calibrated_classifiers_] == ["person", "person"]


def test_scores_take_weights_of_rows_which_are_routed(routing):
    weights = np.where(Y == "yes", 3.0, 0.5)
    forest = DPForestClassifier(SCHEMA, max_depth=1, random_state=0).fit(X, Y)
    assert forest.score(X, Y, sample_weight=weights) == accuracy_score(Y, forest.predict(X), sample_weight=weights)
    numbers = means().fit(X, X["age"])
    expected = r2_score(X["age"], numbers.predict(X), sample_weight=weights)
    assert numbers.score(X, X["age"], sample_weight=weights) == expected != numbers.score(X, X["age"])
    routed = model(max_depth=1).set_score_request(sample_weight=True)
    found = cross_validate(routed, X, Y, cv=2, params={"sample_weight": np.ones(len(X))}, error_score="raise")
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
