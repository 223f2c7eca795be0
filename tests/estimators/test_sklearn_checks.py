"""The estimators are scikit-learn estimators: they pass its checks and work inside its tools."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from dpforest import Bounded, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema

pytestmark = pytest.mark.slow

INF = float("inf")
FEATURES = {"a": Numeric(0, 1), "b": Numeric(0, 1)}
CLASSES = Schema(FEATURES, Classes(["no", "yes"]))
BOUNDED = Schema(FEATURES, Bounded(0, 1))


def expected_failures(estimator):
    """None: every check that scikit-learn offers must pass."""
    return {}


@parametrize_with_checks(
    [
        DPForestClassifier("assume-public"),
        DPForestClassifier("assume-public", epsilon=INF),
        DPForestRegressor("assume-public"),
        DPForestRegressor("assume-public", epsilon=INF),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)


def table(n_rows=400):
    X = np.random.default_rng(0).random((n_rows, 2))
    return X, np.where(X[:, 0] > 0.5, "yes", "no")


@pytest.mark.parametrize("make", [DPForestClassifier, DPForestRegressor])
def test_parameters_are_kept_as_given_and_survive_a_clone(make):
    given = {
        "schema": CLASSES,
        "epsilon": 0.5,
        "delta": 1e-6,
        "recipe": "auto",
        "variant": "private",
        "n_trees": 3,
        "max_depth": 2,
        "recipe_params": {},
        "random_state": 7,
        "n_jobs": 2,
        "max_rows_per_person": 3,
        "budget": None,
        "earlier_model": None,
        **({"class_weight": {"no": 2.0}} if make is DPForestClassifier else {}),
    }
    model = make(**given)
    assert model.get_params() == given
    assert all(model.get_params()[name] is value for name, value in given.items())
    assert clone(model).get_params() == given
    assert make().set_params(**given).get_params() == given


def test_a_clone_of_a_fitted_estimator_is_not_fitted():
    model = clone(DPForestClassifier(CLASSES).fit(*table()))
    assert not [name for name in vars(model) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model, X: model.predict(X),
        lambda model, X: model.predict_proba(X),
        lambda model, X: model.predict_log_proba(X),
        lambda model, X: model.feature_importances_,
        lambda model, X: model.save("never.dpf"),
    ],
    ids=["predict", "predict_proba", "predict_log_proba", "feature_importances_", "save"],
)
def test_an_estimator_that_is_not_fitted_says_so(ask):
    with pytest.raises(NotFittedError):
        ask(DPForestClassifier(CLASSES), table()[0])


def test_each_estimator_is_of_its_kind():
    assert is_classifier(DPForestClassifier())
    assert is_regressor(DPForestRegressor())


def test_a_pipeline_learns_what_the_forest_alone_learns():
    X, y = table()
    bare = DPForestClassifier(CLASSES, epsilon=INF, random_state=0).fit(X, y)
    piped = make_pipeline(FunctionTransformer(), DPForestClassifier(CLASSES, epsilon=INF, random_state=0)).fit(X, y)
    assert (piped.predict(X) == bare.predict(X)).all()
    scaled = make_pipeline(MinMaxScaler(), DPForestClassifier(CLASSES, epsilon=INF, random_state=0)).fit(1000 * X, y)
    assert scaled.score(1000 * X, y) > 0.95


def test_cross_validation_scores_every_fold():
    X, y = table()
    scores = cross_val_score(DPForestClassifier(CLASSES, epsilon=INF, random_state=0), X, y, cv=4)
    assert scores.shape == (4,)
    assert scores.min() > 0.9
    scores = cross_val_score(DPForestRegressor(BOUNDED, epsilon=INF, random_state=0), X, X[:, 0], cv=4)
    assert scores.min() > 0.9


@pytest.mark.parametrize("epsilons", [[0.1, INF], np.array([0.1, INF]), np.logspace(-1, 8, 2), np.array([1, 10**6])])
def test_a_grid_search_over_epsilon_prefers_less_noise(epsilons):
    X, y = table(60)
    # Few records and a deep tree: at the small epsilon leaves hold noise only. Under this seed the order is fixed.
    search = GridSearchCV(DPForestClassifier(CLASSES, max_depth=4, random_state=0), {"epsilon": epsilons}, cv=3)
    search.fit(X, y)
    assert search.best_params_["epsilon"] == epsilons[1]
    assert search.best_estimator_.privacy_.epsilon == pytest.approx(epsilons[1])


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("make", "schema"), [(DPForestClassifier, CLASSES), (DPForestRegressor, BOUNDED)])
def test_a_pickled_model_predicts_and_states_the_same(make, schema, delta):
    X, y = table()
    model = make(schema, delta=delta).fit(X, y if make is DPForestClassifier else X[:, 0])
    twin = pickle.loads(pickle.dumps(model))
    assert (twin.predict(X) == model.predict(X)).all()
    assert twin.privacy_ == model.privacy_
    assert twin.ledger_ == model.ledger_
    assert twin.forest_.rules() == model.forest_.rules()


@pytest.mark.parametrize("epsilon", [np.float64(1), np.float32(1), np.int64(1), 1])
def test_any_real_number_is_an_epsilon(epsilon):
    assert DPForestClassifier(CLASSES, epsilon=epsilon).fit(*table()).privacy_.epsilon == pytest.approx(1)
