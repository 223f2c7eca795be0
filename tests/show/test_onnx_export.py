"""The graph of ONNX gives what the model predicts."""

import builtins
import datetime
import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given
from tests.show.export_cases import HOSTILE, RECIPES, chain_forest, fitted, hostile_model, mixed_table
from tests.support.strategies import FIXED, SEEDS

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import DPForestError
from dpforest.show.export.listed import texts_of
from dpforest.show.export.onnx import input_names, onnx_model

INF = float("inf")


def session(model_bytes):
    onnx.checker.check_model(model_bytes, full_check=True)
    return onnxruntime.InferenceSession(model_bytes, providers=["CPUExecutionProvider"])


def scored(forest, columns):
    """Outputs by name, for lists of values that the inputs take as they are."""
    graph = session(onnx_model(forest))
    feeds = {}
    for node, values in zip(graph.get_inputs(), columns, strict=True):
        dtype = object if node.type == "tensor(string)" else np.float64
        feeds[node.name] = np.array(values, dtype=dtype).reshape(-1, 1)
    return dict(zip([node.name for node in graph.get_outputs()], graph.run(None, feeds), strict=True))


def inputs_of(table):
    """The columns of a table as the documentation says: missing text is empty."""
    return [
        ["" if v is None else v for v in table[c]] if table[c].dtype == object else table[c].to_numpy(float) for c in table
    ]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_probabilities_of_every_recipe_are_equal(recipe):
    model, table = fitted(recipe)
    found = scored(model.forest_, inputs_of(table))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(table), rtol=0, atol=1e-12)
    likeliest = model.classes_[model.predict_proba(table).argmax(axis=1)]
    assert found["label"].tolist() == likeliest.tolist()


@pytest.mark.parametrize("recipe", ["auto", "consul-2020", "consul-2020-ert"])
def test_predictions_of_regression_are_equal(recipe):
    model, table = fitted(recipe, Bounded(-3, 12.5))
    found = scored(model.forest_, inputs_of(table))["prediction"]
    assert found.shape == (len(table), 1)
    np.testing.assert_allclose(found[:, 0], model.predict(table), rtol=0, atol=1e-12)


@pytest.mark.slow
@FIXED
@given(SEEDS)
def test_numbers_at_cuts_beyond_bounds_and_missing_are_encoded_alike(seed):
    rng = np.random.default_rng(seed)
    lower = float(rng.choice([-5, 0, 3.5]))
    schema = Schema(
        {"x": Numeric(lower, lower + float(rng.choice([1, 7, 1000])), integer=bool(rng.integers(2)))}, Classes([0, 1])
    )
    model = DPForestClassifier(schema, recipe="jagannathan-2009", n_trees=3).fit(np.full((5, 1), lower), [0, 1, 0, 1, 1])
    cuts = model.forest_.domain.cuts[0]
    values = np.concatenate(
        [cuts, np.nextafter(cuts, -INF), np.nextafter(cuts, INF), [INF, -INF, np.nan, lower, 1e300, 0.0, -0.0]]
    )
    found = scored(model.forest_, [values])
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(values[:, None]), rtol=0, atol=1e-12)
    assert found["label"].dtype == np.int64


@pytest.mark.parametrize("n_rows", [0, 1])
def test_few_rows_are_scored(n_rows):
    model, table = fitted("auto")
    found = scored(model.forest_, inputs_of(table[:n_rows]))
    assert found["probabilities"].shape == (n_rows, 2)
    assert found["label"].shape == (n_rows,)


def test_many_trees_are_walked_at_once():
    model, table = fitted("fletcher-islam-2017", n_trees=500)
    found = scored(model.forest_, inputs_of(table))
    assert model.forest_.n_trees == 500
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(table), rtol=0, atol=1e-12)


def test_deep_trees_are_walked_to_their_end():
    forest, values = chain_forest(depth=14)
    expected = forest.predict(np.searchsorted(forest.domain.cuts[0], values, side="right")[None].astype(np.uint8))
    np.testing.assert_allclose(scored(forest, [values])["probabilities"], expected, rtol=0, atol=1e-12)


def test_a_forest_without_splits_is_scored():
    forest, values = chain_forest(depth=0)
    assert scored(forest, [values])["probabilities"].shape == (len(values), 2)


@pytest.mark.parametrize(
    ("labels", "type_"),
    [
        (["b", "a"], "tensor(string)"),
        ([3, 1], "tensor(int64)"),
        ([True, False], "tensor(bool)"),
        ([0.5, 2], "tensor(double)"),
        ([("a", 1), datetime.date(2024, 1, 2)], "tensor(string)"),
        ([2**70, 1], "tensor(double)"),
        ([2**70 + 1, 1], "tensor(string)"),
    ],
)
def test_labels_have_their_own_type_or_text(labels, type_):
    schema = Schema({"x": Numeric(0, 1)}, Classes(labels))
    model = DPForestClassifier(schema, epsilon=50).fit(np.array([[0.1], [0.9]] * 50), labels * 50)
    outputs = {node.name: node.type for node in session(model.to_onnx()).get_outputs()}
    assert outputs == {"label": type_, "probabilities": "tensor(double)"}
    found = scored(model.forest_, [[0.1, 0.9]])["label"].tolist()
    expected = model.predict_proba([[0.1], [0.9]]).argmax(axis=1)
    assert found == [(texts_of(labels) if type_ == "tensor(string)" else labels)[index] for index in expected]


def test_categories_of_every_kind_find_their_code():
    table, schema = mixed_table()
    model = DPForestClassifier(schema, epsilon=50, recipe="jagannathan-2009").fit(table, [0, 1] * (len(table) // 2))
    mixed = dict(zip(schema.features["mixed"].categories, texts_of(schema.features["mixed"].categories), strict=True))
    columns = [
        ["" if value is None else value for value in table["text"]],
        [np.nan if value is None else float(value) for value in table["flag"]],
        table["grade"].to_numpy(float),
        ["" if value is None else mixed.get(value, "never listed") for value in table["mixed"]],
    ]
    found = scored(model.forest_, columns)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(table), rtol=0, atol=1e-12)


def test_texts_of_values_are_unique():
    assert texts_of([1, "1", "1 (int)", True and 2, (1,), "(1,)"]) == [
        "1 (int) (int)",
        "1",
        "1 (int)",
        "2",
        "(1,) (tuple)",
        "(1,)",
    ]
    assert texts_of(["\ud800", "\\ud800"]) == ["\\ud800 (str)", "\\ud800"]


def test_an_empty_text_that_is_listed_is_itself():
    schema = Schema({"x": Categorical(["", "a"])}, Classes(["n", "y"]))
    table = pd.DataFrame({"x": np.array(["", "a", None, "b"] * 5, dtype=object)})
    model = DPForestClassifier(schema, epsilon=50, recipe="jagannathan-2009").fit(table, ["n", "y", "y", "n"] * 5)
    found = scored(model.forest_, [["", "a", "b"]])["probabilities"]
    np.testing.assert_allclose(found, model.predict_proba(table[["x"]].iloc[[0, 1, 3]]), rtol=0, atol=1e-12)


def test_hostile_names_become_inputs_that_runtimes_accept():
    model, table = hostile_model()
    table = table[table["\N{GRINNING FACE}"].notna()]  # the empty text is one of its categories, so it cannot say "missing"
    found = scored(model.forest_, inputs_of(table))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(table), rtol=0, atol=1e-12)
    names = [node.name for node in session(model.to_onnx()).get_inputs()]
    assert len(set(names)) == len(HOSTILE)
    assert "label" not in names
    assert "" not in names


def test_input_names_are_those_of_features_where_possible():
    assert input_names(("age", "", "label", "_1", "input_1")) == ["age", "input_1_", "input_2", "_1", "input_1"]


def test_metadata_says_what_is_public():
    model, _ = fitted("auto")
    content = session(model.to_onnx()).get_modelmeta().custom_metadata_map
    assert set(content) == {"produced_by", "features", "inputs", "classes"}
    assert json.loads(content["classes"]) == ["no", "yes"]


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    model, _ = fitted("auto")
    real = builtins.__import__

    def refusing(name, *arguments, **named):
        if name == "onnx":
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(DPForestError, match=r"dpforest\[onnx\]"):
        model.to_onnx()


def test_a_regressor_fitted_on_one_feature_is_scored():
    schema = Schema({"x": Numeric(0, 1)}, Bounded(0, 10))
    rows = np.linspace(0, 1, 60)[:, None]
    model = DPForestRegressor(schema, epsilon=10).fit(rows, 10 * rows[:, 0])
    np.testing.assert_allclose(scored(model.forest_, [rows])["prediction"][:, 0], model.predict(rows), rtol=0, atol=1e-12)
