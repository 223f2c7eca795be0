"""The JSON holds what was released, and is enough to predict from."""

import datetime
import json
import math
from bisect import bisect_right

import numpy as np
import pytest
from tests.show.export_cases import RECIPES, fitted, hostile_model

from dpforest import Bounded, Classes, DPForestClassifier, Numeric, Schema
from dpforest.show.export.json import forest_to_dict


def read(text):
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def code(feature, value):
    if feature["kind"] == "categorical":
        listed = feature["categories"]
        return listed.index(value) if value in listed else len(listed) + (value is None)
    if value is None or math.isnan(value):
        return len(feature["cuts"]) + 1
    return bisect_right(feature["cuts"], min(max(value, feature["lower"]), feature["upper"]))


def predict(forest, record):
    """The reader of docs/guide/export.md: shares of the classes for a record, a dictionary."""
    codes = [code(feature, record[feature["name"]]) for feature in forest["features"]]
    totals = [0.0] * len(forest["nodes"][0]["votes"])
    for node in forest["nodes"][: forest["n_trees"]]:
        while node["children"]:
            split = forest["splits"][node["split"]]
            node = forest["nodes"][node["children"][split["routes"][codes[split["feature"]]]]]
        totals = [total + vote for total, vote in zip(totals, node["votes"], strict=True)]
    if forest["link"] == "softmax":
        totals = [math.exp(total - max(totals)) for total in totals]
    if forest["link"] == "sum":
        totals = [min(max(total, 0), 1) for total in totals]
    return [total / sum(totals) for total in totals]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_plain_python_predicts_from_it(recipe):
    model, table = fitted(recipe)
    forest, rows = read(model.to_json())["forest"], table[:40]
    found = [predict(forest, record) for record in rows.to_dict("records")]
    np.testing.assert_allclose(found, model.predict_proba(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("recipe", ["auto", "consul-2020"])
def test_plain_python_predicts_means_from_it(recipe):
    model, table = fitted(recipe, Bounded(-3, 12.5))
    forest = read(model.to_json())["forest"]
    target = forest["target"]
    shares = np.array([predict(forest, record)[1] for record in table[:40].to_dict("records")])
    found = target["lower"] + (target["upper"] - target["lower"]) * shares
    np.testing.assert_allclose(found, model.predict(table[:40]), rtol=0, atol=1e-12)


def test_it_says_what_was_promised_and_spent():
    model, _ = fitted("auto")
    content = read(model.to_json())
    assert (content["format"], content["version"]) == ("dpforest-release", 1)
    assert content["schema"] == model.schema_.to_dict()
    assert content["privacy"] == model.privacy_.to_dict()
    assert content["ledger"] == model.ledger_.to_dict()
    assert content["made_with"] == model.made_with_
    assert content["estimator"] == "DPForestClassifier"


@pytest.mark.parametrize("recipe", ["auto", "jagannathan-2009", "fletcher-islam-2017"])
def test_nodes_show_what_was_released(recipe):
    forest = fitted(recipe)[0].forest_
    nodes = forest_to_dict(forest)["nodes"]
    assert [node["counts"] for node in nodes] == forest.counts.tolist()
    assert [node["noise_standard_deviation"] for node in nodes] == np.sqrt(forest.variances).tolist()
    assert [node["shares"] for node in nodes] == forest.shares.tolist()
    for rule in forest.rules():
        node = nodes[rule["node"]]
        assert node["condition"] == (rule["conditions"][-1] if rule["conditions"] else "always")
        assert all(nodes[child]["parent"] == rule["node"] for child in node["children"])


def test_labels_that_json_lacks_have_another_form():
    labels = [("a", (1, True)), datetime.date(2024, 1, 2), math.inf, None, "plain"]
    schema = Schema({"x": Numeric(0, 1)}, Classes(labels))
    model = DPForestClassifier(schema).fit(np.zeros((9, 1)), ["plain"] * 9)
    assert read(model.to_json())["schema"]["target"]["labels"] == [
        {"tuple": ["a", {"tuple": [1, True]}]},
        {"type": "date", "text": "2024-01-02"},
        {"type": "float", "text": "inf"},
        None,
        "plain",
    ]


def test_a_model_without_privacy_has_no_infinite_number():
    schema = Schema({"x": Numeric(0, 1)}, Classes([0, 1]))
    model = DPForestClassifier(schema, epsilon=math.inf, recipe="consul-2020").fit(
        np.random.default_rng(1).random((50, 1)), [0, 1] * 25
    )
    assert read(model.to_json())["privacy"]["epsilon"] == "inf"


def test_hostile_names_are_kept_letter_by_letter():
    model, table = hostile_model()
    text = model.to_json()
    forest = read(text)["forest"]
    assert text.isascii()
    assert [feature["name"] for feature in forest["features"]] == [*table.columns]
    found = [predict(forest, record) for record in table[:20].to_dict("records")]
    np.testing.assert_allclose(found, model.predict_proba(table[:20]), rtol=0, atol=1e-12)
