"""What leaves a model with buckets: every export predicts what the model predicts, or is refused by name."""

import hashlib
import json
from functools import lru_cache

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.conformance.postgres_server import as_root, write_table
from tests.show import test_json_export as reader

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema, load_model
from dpforest.errors import ParameterError
from dpforest.show.report.content import inputs

USUAL_CODE = reader.code
TOWNS = ["Oslo", "it's", "東京", "17", "", "Köln"]


@lru_cache
def model_and_table():
    """A model of text, whole numbers and truth values in buckets, and rows with values that it never saw."""
    rng = np.random.default_rng(8)
    schema = Schema(
        {"age": Numeric(0, 9), "town": Categorical(), "post code": Categorical(buckets=32), "member": Categorical()},
        Classes(["no", "yes"]),
    )
    towns = rng.choice(TOWNS, 600)
    table = pd.DataFrame(
        {"age": rng.integers(0, 10, 600), "town": pd.Series(towns, dtype="str"), "post code": rng.integers(-40, 40, 600),
         "member": rng.random(600) < 0.5}
    )  # fmt: skip
    y = np.where((towns == "Oslo") ^ (table["post code"] > 30), "yes", "no")
    model = DPForestClassifier(schema, epsilon=20, recipe="friedman-schuster-2010", n_trees=4, max_depth=4).fit(table, y)
    rows = table[:60].copy()
    rows["town"] = pd.Series([*TOWNS, None, "elsewhere", "x" * 500, "😀"] * 6, dtype="str")
    rows["post code"] = pd.array([17, 0, -(2**63), 2**63 - 1, None, 5] * 10, dtype="Int64")
    rows["member"] = pd.array([True, False, None] * 20, dtype="boolean")
    return model, rows


def as_arrow(rows):
    return pa.Table.from_pandas(rows.assign(place=range(len(rows))), preserve_index=False)


def test_a_query_in_duckdb_gives_what_the_model_predicts():
    model, rows = model_and_table()
    with duckdb.connect() as connection:
        connection.register("given", as_arrow(rows))
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
        found = connection.execute(model.to_sql("people") + " ORDER BY place").df()
    np.testing.assert_allclose(found[["probability_no", "probability_yes"]], model.predict_proba(rows), rtol=0, atol=1e-12)


@pytest.mark.server
def test_a_query_in_postgresql_gives_what_the_model_predicts(server):
    model, rows = model_and_table()
    table = as_arrow(rows)
    table = table.cast(pa.schema([(f.name, pa.string() if f.name == "town" else f.type) for f in table.schema]))
    with as_root(server) as root:
        name = write_table(root, "bucket people", table)
        found = root.execute(model.to_sql(name) + " ORDER BY place").fetchall()
    probabilities = np.array([row[-2:] for row in found], dtype=float)
    np.testing.assert_allclose(probabilities, model.predict_proba(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("type_", ["DOUBLE", "DECIMAL(9, 2)", "HUGEINT", "DATE"])
def test_a_column_that_databases_write_each_in_their_own_way_is_refused_by_name(type_):
    model, _ = model_and_table()
    value = "DATE '2020-01-01'" if type_ == "DATE" else "17"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE people AS SELECT 1 AS age, CAST({value} AS {type_}) AS town, true AS member")
        connection.execute('ALTER TABLE people ADD COLUMN "post code" INTEGER')
        with pytest.raises(duckdb.Error, match="Column town must be text or whole numbers: cast it"):
            connection.execute(model.to_sql("people"))


def test_onnx_is_refused_by_name_with_what_to_do():
    model, _ = model_and_table()
    with pytest.raises(ParameterError, match=r"Feature 'town' is put into buckets .* Export to SQL, JSON or scikit-learn"):
        model.to_onnx()


def test_scikit_learn_gets_what_the_model_predicts():
    model, rows = model_and_table()
    np.testing.assert_array_equal(model.to_sklearn().predict_proba(rows), model.predict_proba(rows))
    assert any("bucket" in question for question in model.to_sklearn().questions_)


def code_by_the_rule(feature, value):
    """The code of a value as the text in the export says, for values of JSON."""
    if "buckets" not in feature:
        return USUAL_CODE(feature, value)
    if value is None:
        return feature["buckets"] + 1
    text = value if isinstance(value, str) else str(int(value)) if value == int(value) else None
    return feature["buckets"] if text is None else int(hashlib.md5(text.encode()).hexdigest()[:2], 16) % feature["buckets"]


def test_a_stranger_can_predict_from_the_json(monkeypatch):
    model, rows = model_and_table()
    forest = json.loads(model.to_json())["forest"]
    assert [feature.get("buckets") for feature in forest["features"]] == [None, 64, 32, 64]
    assert all("MD5" in feature["codes"] for feature in forest["features"][1:])
    monkeypatch.setattr(reader, "code", code_by_the_rule)
    found = [reader.predict(forest, record) for record in rows.astype(object).where(rows.notna(), None).to_dict("records")]
    np.testing.assert_allclose(found, model.predict_proba(rows), rtol=0, atol=1e-12)


def test_rules_say_the_bucket():
    model, _ = model_and_table()
    bucket = int(hashlib.md5(b"Oslo").hexdigest()[:2], 16) % 64
    assert f"bucket {bucket}" in model.forest_.rules_text(leaves=True)


def test_a_stored_model_keeps_its_number_of_buckets_whatever_the_default(tmp_path):
    model, rows = model_and_table()
    model.save(tmp_path / "model.dpf")
    loaded = load_model(tmp_path / "model.dpf")
    assert [part.n_values for part in loaded.schema_.features.values() if isinstance(part, Categorical)] == [64, 32, 64]
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))


def test_the_report_says_how_many_buckets_there_are():
    model, _ = model_and_table()
    known = {feature["name"]: feature for feature in inputs(model.schema_)["features"]}
    assert (known["town"]["categories"], known["town"]["buckets"], known["age"]["buckets"]) == (None, 64, None)
