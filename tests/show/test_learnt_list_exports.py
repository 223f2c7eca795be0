"""A model with learnt lists predicts in every export what it predicts itself."""

import json

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from tests.show.test_sql_export import check_classes, scored

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema

SCHEMA = Schema(
    {"town": Categorical(learn=True), "size": Categorical(learn=True), "x": Numeric(0, 1)}, Classes(["no", "yes"])
)


@pytest.fixture(scope="module")
def found():
    """A model and rows to score: values that are named and that are not, missing ones, and whole numbers."""
    rng = np.random.default_rng(2)
    town = rng.choice(["Oslo", "it's", 'a"b', "東京"], 4000).astype(object)
    town[::7] = [f"small {index}" for index in range(len(town[::7]))]
    town[::40] = None
    table = pd.DataFrame({"town": town, "size": rng.integers(1, 4, 4000), "x": rng.random(4000)})
    y = np.where(np.isin(town, ["Oslo", "東京"]) ^ (table["size"] == 2), "yes", "no")
    model = DPForestClassifier(SCHEMA, epsilon=4.0, delta=1e-5, n_trees=6).fit(table, y)
    assert sorted(map(len, model.forest_.domain.lists.values())) == [3, 4]
    return model, table[:120].reset_index(drop=True)


def test_a_query_reads_numbers_as_digits_and_texts_as_they_are(found):
    model, table = found
    check_classes(model, table, scored(model.to_sql("people"), table))


def test_a_runtime_of_onnx_takes_texts(found):
    model, table = found
    session = onnxruntime.InferenceSession(model.to_onnx(), providers=["CPUExecutionProvider"])
    inputs = {
        "town": table["town"].fillna("").to_numpy(str).astype(object)[:, None],
        "size": table["size"].astype(str).to_numpy(object)[:, None],
        "x": table["x"].to_numpy()[:, None],
    }
    probabilities = session.run(None, inputs)[1]
    np.testing.assert_allclose(probabilities, model.predict_proba(table), atol=1e-6)


def test_the_forest_of_scikit_learn_and_the_json_have_the_lists(found):
    model, table = found
    np.testing.assert_allclose(model.to_sklearn().predict_proba(table), model.predict_proba(table), atol=1e-12)
    assert json.dumps(model.forest_.domain.lists["town"])[1:-1] in json.dumps(json.loads(model.to_json()))
