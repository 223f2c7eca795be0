"""The forest for scikit-learn predicts what the model predicts, and nothing can refit it."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted
from tests.show.exporting import summed_values
from tests.support.fitted import NAMES, fitted, with_names

from dpforest import Bounded, DPForestClassifier
from dpforest.errors import TableError


def test_labels_that_are_drawn_are_drawn_alike():
    model, table = fitted()
    drawing = pickle.loads(pickle.dumps(model))
    object.__setattr__(drawing.forest_, "draws", True)
    drawn = drawing.to_sklearn().predict(table)
    assert drawn.tolist() == drawing.predict(table).tolist() != model.predict(table).tolist()


def test_trees_have_the_arrays_of_scikit_learn():
    released = fitted("jagannathan-2009")[0].to_sklearn()
    for released_tree in released.estimators_:
        tree = released_tree.tree_
        inner = tree.children_left >= 0
        assert tree.node_count == tree.n_leaves + inner.sum()
        below = np.concatenate([tree.children_left[inner], tree.children_right[inner]])
        assert sorted(below) == [*range(1, tree.node_count)]  # each node has one parent: no subtree is there twice
        assert (tree.threshold[inner] == 0.5).all()
        assert (tree.feature[inner] < len(released.questions_)).all()
        assert (tree.children_left[inner] == np.flatnonzero(inner) + 1).all()  # depth first, as scikit-learn numbers
        assert tree.value.shape == (tree.node_count, 1, 2)
        assert (tree.n_node_samples >= 0).all()
        assert len(tree.impurity) == tree.node_count
        assert tree.max_depth < tree.node_count


def test_answers_lead_down_the_trees():
    model, table = fitted("fletcher-islam-2015-dpdf")
    released = model.to_sklearn()
    answers, leaves = released.transform(table), released.apply(table)
    assert answers.dtype == np.uint8
    assert answers.shape == (len(table), len(released.questions_))
    for index, tree in enumerate(tree.tree_ for tree in released.estimators_):
        for record in range(20):
            node = 0
            while tree.children_left[node] >= 0:
                yes = answers[record, tree.feature[node]] > tree.threshold[node]
                node = (tree.children_right if yes else tree.children_left)[node]
            assert node == leaves[record, index]


def test_a_question_is_answered_as_it_reads():
    model, table = fitted()
    released = model.to_sklearn()
    answers = released.transform(table)
    asked = {text: index for index, text in enumerate(released.questions_)}
    assert len(asked) == len(released.questions_)
    cuts = [text for text in asked if text.startswith("age < ") and " or" not in text]
    assert cuts
    for text in cuts:
        assert (answers[:, asked[text]] == (table["age"] < float(text.removeprefix("age < ")))).all()


def test_attributes_are_those_of_a_fitted_forest():
    model, table = fitted()
    released = model.to_sklearn()
    check_is_fitted(released)
    assert is_classifier(released)
    assert is_regressor(fitted("auto", Bounded(-3, 12.5))[0].to_sklearn())
    assert (released.n_features_in_, [*released.feature_names_in_]) == (3, [*table.columns])
    assert released.classes_.tolist() == ["no", "yes"]
    assert (released.feature_importances_ == model.feature_importances_).all()
    assert 0 <= released.score(table, model.predict(table)) == 1


@pytest.mark.slow
def test_names_importances_and_columns_of_arrays_are_in_the_order_of_the_schema():
    model, table = fitted()
    exact = clone(model).set_params(schema=replace(model.schema, n_rows=150), epsilon=np.inf)
    turned = exact.fit(table[table.columns[::-1]], np.where(table["age"] > 40, "yes", "no"))
    released = turned.to_sklearn()
    assert [*turned.feature_names_in_] == [*released.feature_names_in_][::-1] == [*turned.schema_.features][::-1]
    assert turned.feature_importances_.tolist() == released.feature_importances_.tolist()[::-1]
    assert released.feature_importances_.argmax() == [*released.feature_names_in_].index("age")
    array = table[[*turned.schema_.features]].to_numpy(object)
    assert released.predict(array).tolist() == released.predict(table).tolist()


def test_nothing_refits_it():
    model, table = fitted()
    released, y = model.to_sklearn(), np.resize(["no", "yes"], len(fitted()[1]))
    before = model.predict_proba(table)
    assert clone(released) is released
    assert released.fit(table, y) is released
    pipeline = make_pipeline(FunctionTransformer(), released).fit(table, y)
    assert (pipeline.predict_proba(table) == before).all()
    assert (cross_val_predict(released, table, y, cv=3, method="predict_proba") == before).all()
    search = GridSearchCV(make_pipeline(FunctionTransformer(), released), {"functiontransformer__validate": [False]}, cv=2)
    assert (search.fit(table, y).predict_proba(table) == before).all()
    assert (released.predict_proba(table) == before).all()


@pytest.mark.slow
def test_it_can_be_calibrated_and_pickled():
    model, table = fitted()
    released, y = model.to_sklearn(), model.predict(table)
    y[:10] = "yes"
    for wrapped in (released, FrozenEstimator(released)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            calibrated = CalibratedClassifierCV(wrapped, cv=3).fit(table, y)
        assert calibrated.predict_proba(table).shape == (len(table), 2)
    again = pickle.loads(pickle.dumps(released))
    assert (again.apply(table) == released.apply(table)).all()
    assert (again.predict(table) == model.predict(table)).all()


def test_it_holds_no_way_to_train_and_refuses_other_tables():
    model, table = fitted()
    released = model.to_sklearn()
    assert not isinstance(released, DPForestClassifier)
    assert set(released.get_params()) == {"forest", "schema", "importances"}
    for wrong in (table[["age"]], table[:0]):
        with pytest.raises(TableError):
            released.predict(wrong)
    hostile = with_names()[0].to_sklearn()
    assert [*hostile.feature_names_in_] == [*NAMES]
    assert isinstance(repr(hostile), str)


def shap_trees(released):
    """The trees as the dictionary that SHAP's ``TreeExplainer`` takes, as the guide shows it."""
    names = {"children_left": "children_left", "children_right": "children_right", "children_default": "children_left"}
    names |= {"features": "feature", "thresholds": "threshold"}
    return {
        "trees": [
            {theirs: getattr(tree, ours) for theirs, ours in names.items()}
            | {"values": tree.value[:, 0], "node_sample_weight": np.ones(tree.node_count)}
            for tree in (each.tree_ for each in released.estimators_)
        ]
    }


@pytest.mark.slow
@pytest.mark.parametrize("target", [None, Bounded(-3, 12.5)], ids=["classes", "mean"])
@pytest.mark.parametrize("recipe", ["auto", "consul-2020"])
def test_values_of_shap_add_up_to_the_votes(recipe, target):
    shap = pytest.importorskip("shap")
    model, table = fitted(recipe, target)
    released = model.to_sklearn()
    answers = released.transform(table).astype(float)
    explainer = shap.TreeExplainer(shap_trees(released), data=answers[:50])
    values = explainer.shap_values(answers[50:60])
    assert values.shape[:2] == (10, len(released.questions_))
    totals = summed_values(released, table[50:60])
    found = explainer.expected_value + values.sum(axis=1)
    np.testing.assert_allclose(found.reshape(totals.shape), totals, atol=1e-5)  # SHAP adds some of it in single precision
