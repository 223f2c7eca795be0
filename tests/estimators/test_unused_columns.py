"""Columns that the schema does not name are not read, by a fit or a prediction, in Python as on the command line."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dpforest import Categorical, Classes, DPForestClassifier, Numeric, Schema, load_model
from dpforest.cli.main import commands
from dpforest.errors import TableError

SCHEMA = Schema({"age": Numeric(0, 100), "sex": Categorical(["m", "f"])}, Classes(["no", "yes"], name="income"))
AGES = np.random.default_rng(0).uniform(0, 100, 200)
X = pd.DataFrame({"age": AGES, "sex": np.resize(["m", "f", "m"], 200)})
Y = np.where(AGES > 50, "yes", "no")
# Between, before and behind the columns that are used; the target, and values that nobody could read.
WIDER = pd.DataFrame({"id": range(200), "age": X["age"], "income": Y, "sex": X["sex"], "note": [object()] * 200})
LIBRARIES = pytest.mark.parametrize(
    "library", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "pyarrow"]
)


def fitted(table, **parameters):
    return DPForestClassifier(SCHEMA, random_state=0, **parameters).fit(table, Y)


@LIBRARIES
def test_a_fit_on_a_wider_table_is_the_fit_on_the_columns_of_the_schema(library):
    alone, wider = fitted(library(X)), fitted(library(WIDER.drop(columns="note")))
    assert wider.forest_.rules() == alone.forest_.rules()
    assert [*wider.feature_names_in_] == [*alone.feature_names_in_] == ["age", "sex"]
    assert wider.n_features_in_ == 2
    assert (wider.feature_importances_ == alone.feature_importances_).all()


@LIBRARIES
def test_a_prediction_for_a_wider_table_is_that_for_the_columns_of_the_schema(library):
    model = fitted(library(X))
    assert (model.predict_proba(library(WIDER.drop(columns="note"))) == model.predict_proba(library(X))).all()


def test_what_is_not_read_may_be_anything():
    model = fitted(WIDER)
    assert (model.predict(WIDER) == model.predict(X)).all()
    assert (model.to_sklearn().predict(WIDER) == model.predict(X)).all()


def test_names_keep_the_order_of_the_table_and_predictions_ask_for_it():
    model = fitted(WIDER[["note", "sex", "income", "age"]])
    assert [*model.feature_names_in_] == ["sex", "age"]
    assert (model.predict(WIDER[["sex", "id", "age"]]) == model.predict(X[["sex", "age"]])).all()
    with pytest.raises(ValueError, match="must be in the same order"):
        model.predict(WIDER[["age", "id", "sex"]])


def test_a_column_that_is_missing_is_named_whatever_else_is_there():
    model = fitted(X)
    with pytest.raises(ValueError, match="now missing:\n- sex"):
        model.predict(WIDER.rename(columns={"sex": "gender"}))


def test_only_columns_of_the_schema_are_named_and_near_names_are_asked_for():
    model = fitted(X)
    with pytest.raises(TableError) as caught:
        model.predict(WIDER.rename(columns={"sex": "Sex"}))
    assert str(caught.value).endswith("Feature names seen at fit time, yet now missing:\n- sex\n'sex': Is it 'Sex'?")
    assert not any(name in str(caught.value) for name in ("unseen", "id", "income", "note"))
    with pytest.raises(TableError, match=r"'age': Is it 'Age'\?\n'sex': Is it 'Sex'\?"):
        model.predict(WIDER.rename(columns={"sex": "Sex", "age": "Age"}))


def test_an_array_has_as_many_columns_as_the_schema():
    model = fitted(X.to_numpy())
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.zeros((4, 3)))
    assert (model.predict(X.to_numpy()) == fitted(X).predict(X)).all()


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_a_model_without_names_finds_the_columns_of_a_table_by_the_schema():
    assert (fitted(X.to_numpy()).predict(WIDER) == fitted(X).predict(X)).all()


@pytest.mark.slow
def test_the_command_line_reads_the_same_columns(tmp_path):
    WIDER.drop(columns="note").to_csv(tmp_path / "t.csv", index=False)
    SCHEMA.to_file(tmp_path / "s.json")
    paths = [str(tmp_path / name) for name in ("t.csv", "s.json", "m.dpf", "p.csv")]
    done = CliRunner().invoke(commands, ["fit", paths[0], "--schema", paths[1], "--epsilon", "1", "--out", paths[2]])
    assert done.exit_code == 0
    assert "Not in the schema, so not read: id" in done.output.replace("\n", " ")
    done = CliRunner().invoke(commands, ["predict", paths[2], paths[0], "--out", paths[3]])
    assert done.exit_code == 0
    model = load_model(paths[2])
    assert pd.read_csv(paths[3])["prediction"].tolist() == model.predict(WIDER).tolist()
