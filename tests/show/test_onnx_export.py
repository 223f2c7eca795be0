"""The graph of ONNX gives what the model predicts."""

import datetime
import json
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from tests.show.exporting import agree, by_onnx, chain_forest, outputs, session
from tests.support.fitted import NAMES, fitted, with_names
from tests.support.strategies import FIXED, SEEDS

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import DPForestError
from dpforest.show.export.json import texts_of
from dpforest.show.export.onnx import input_names

INF = float("inf")


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
    found = outputs(model.forest_, [values])
    agree(found["probabilities"], model.predict_proba(values[:, None]))
    assert found["label"].dtype == np.int64


def test_few_rows_and_many_or_deep_trees_or_none_are_walked_to_their_end():
    model, table = fitted("fletcher-islam-2017", n_trees=500)
    assert model.forest_.n_trees == 500
    agree(by_onnx(model, table), model.predict_proba(table))
    for n_rows in (0, 1):
        assert by_onnx(fitted()[0], table[:n_rows]).shape == (n_rows, 2)
    for depth in (14, 0):
        forest, values = chain_forest(depth)
        codes = np.searchsorted(forest.domain.cuts[0], values, side="right")[None].astype(np.uint8)
        agree(outputs(forest, [values])["probabilities"], forest.predict(codes))


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
    types = {node.name: node.type for node in session(model.to_onnx()).get_outputs()}
    assert types == {"label": type_, "probabilities": "tensor(double)"}
    found = outputs(model.forest_, [[0.1, 0.9]])["label"].tolist()
    expected = model.predict_proba([[0.1], [0.9]]).argmax(axis=1)
    assert found == [(texts_of(labels) if type_ == "tensor(string)" else labels)[index] for index in expected]


def test_texts_of_values_are_unique():
    texts = texts_of([1, "1", "1 (int)", True and 2, (1,), "(1,)"])
    assert texts == ["1 (int) (int)", "1", "1 (int)", "2", "(1,) (tuple)", "(1,)"]
    assert texts_of(["\ud800", "\\ud800"]) == ["\\ud800 (str)", "\\ud800"]


def test_an_empty_text_that_is_listed_is_itself():
    schema = Schema({"x": Categorical(["", "a"])}, Classes(["n", "y"]))
    table = pd.DataFrame({"x": np.array(["", "a", None, "b"] * 5, dtype=object)})
    model = DPForestClassifier(schema, epsilon=50, recipe="jagannathan-2009").fit(table, ["n", "y", "y", "n"] * 5)
    found = outputs(model.forest_, [["", "a", "b"]])["probabilities"]
    agree(found, model.predict_proba(table[["x"]].iloc[[0, 1, 3]]))


def test_hostile_names_become_inputs_and_metadata_is_public():
    model, table = with_names()
    table = table[table["\N{GRINNING FACE}"].notna()]  # the empty text is one of its categories, so it cannot say "missing"
    agree(by_onnx(model, table), model.predict_proba(table))
    names = [node.name for node in session(model.to_onnx()).get_inputs()]
    assert len(set(names)) == len(NAMES)
    assert not {"label", ""} & {*names}
    assert input_names(("age", "", "label", "_1", "input_1")) == ["age", "input_1_", "input_2", "_1", "input_1"]
    content = session(fitted()[0].to_onnx()).get_modelmeta().custom_metadata_map
    assert set(content) == {"produced_by", "features", "inputs", "classes"}
    assert json.loads(content["classes"]) == ["no", "yes"]


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(DPForestError, match=r"dpforest\[onnx\]"):
        fitted()[0].to_onnx()


def test_a_regressor_fitted_on_one_feature_is_scored():
    schema = Schema({"x": Numeric(0, 1)}, Bounded(0, 10))
    rows = np.linspace(0, 1, 60)[:, None]
    model = DPForestRegressor(schema, epsilon=10).fit(rows, 10 * rows[:, 0])
    agree(outputs(model.forest_, [rows])["prediction"][:, 0], model.predict(rows))
