"""Columns of a table are found by the names and patterns of the schema, at each door; what it does not name is not read."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.base import clone

from dpforest import (
    Bounded,
    Categorical,
    Classes,
    DPForestClassifier,
    DPForestRegressor,
    DPSearchCV,
    Numeric,
    Schema,
    load_model,
)
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


def fitted(table, y=Y, schema=SCHEMA, **settings):
    return DPForestClassifier(schema, epsilon=5.0, n_trees=2, max_depth=2, random_state=0, **settings).fit(table, y)


@LIBRARIES
def test_a_wider_table_is_as_good_as_the_columns_of_the_schema(library):
    rows, more = library(X), library(WIDER.drop(columns="note"))
    alone, wider = fitted(rows), fitted(more)
    assert wider.forest_.rules() == alone.forest_.rules()
    assert [*wider.feature_names_in_] == [*alone.feature_names_in_] == ["age", "sex"]
    assert wider.n_features_in_ == 2
    assert (wider.feature_importances_ == alone.feature_importances_).all()
    assert (alone.predict_proba(more) == alone.predict_proba(rows)).all()


def test_what_is_not_read_may_be_anything():
    model = fitted(WIDER)
    assert (model.predict(WIDER) == model.predict(X)).all()


def test_names_keep_the_order_of_the_table_and_predictions_ask_for_it():
    model = fitted(WIDER[["note", "sex", "income", "age"]])
    assert [*model.feature_names_in_] == ["sex", "age"]
    assert (model.predict(WIDER[["sex", "id", "age"]]) == model.predict(X[["sex", "age"]])).all()
    with pytest.raises(ValueError, match="must be in the same order"):
        model.predict(WIDER[["age", "id", "sex"]])


def test_only_columns_of_the_schema_are_named_and_near_names_are_asked_for():
    model = fitted(X)
    with pytest.raises(ValueError, match="now missing:\n- sex"):
        model.predict(WIDER.rename(columns={"sex": "gender"}))
    with pytest.raises(TableError) as caught:
        model.predict(WIDER.rename(columns={"sex": "Sex"}))
    assert str(caught.value).endswith("Feature names seen at fit time, yet now missing:\n- sex\n'sex': Is it 'Sex'?")
    assert not any(name in str(caught.value) for name in ("unseen", "id", "income", "note"))
    with pytest.raises(TableError, match=r"'age': Is it 'Age'\?\n'sex': Is it 'Sex'\?"):
        model.predict(WIDER.rename(columns={"sex": "Sex", "age": "Age"}))


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_a_model_of_an_array_finds_the_columns_of_a_table_by_name():
    model, expected = fitted(X.to_numpy()), fitted(X).predict(X)
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.zeros((4, 3)))
    assert (model.predict(X.to_numpy()) == expected).all()
    assert (model.predict(WIDER) == expected).all()


# --- patterns -------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
LABS = pd.DataFrame({"lab_2": RNG.random(60), "age": RNG.integers(0, 10, 60), "lab_1": RNG.random(60)})
ILL = (LABS["lab_1"] > 0.5).astype(int)
FOUND = {"age": Numeric(0, 9, integer=True), "lab_2": Numeric(0, 1), "lab_1": Numeric(0, 1)}
PATTERNED, PLAIN = (
    Schema(features, Classes([0, 1], name="y")) for features in ({"age": FOUND["age"], "lab_*": Numeric(0, 1)}, FOUND)
)


@LIBRARIES
def test_patterns_become_the_columns_of_a_table_and_the_model_keeps_these(library, tmp_path):
    model, same = (fitted(library(LABS), ILL, schema) for schema in (PATTERNED, PLAIN))
    model.save(tmp_path / "m.dpf")
    for kept in (model, load_model(tmp_path / "m.dpf"), pickle.loads(pickle.dumps(model))):
        assert kept.schema_ == PLAIN
        assert [*kept.schema_.features] == [*PLAIN.features]
    assert np.array_equal(model.predict_proba(library(LABS)), same.predict_proba(library(LABS)))
    assert model.schema is PATTERNED
    assert clone(model).schema.features == PATTERNED.features


def test_a_regression_and_a_search_have_patterns_too():
    model = DPForestRegressor(Schema({"*": Numeric(0, 9)}, Bounded(0, 1)), epsilon=5.0).fit(LABS, ILL)
    assert [*model.schema_.features] == [*LABS]
    search = DPSearchCV(DPForestClassifier(PATTERNED), {"n_trees": [1]}, epsilon=5.0, mean_runs=1).fit(LABS, ILL)
    assert [*search.best_estimator_.schema_.features] == [*PLAIN.features]


def test_nothing_is_charged_where_a_pattern_matches_nothing_or_there_are_no_names():
    for kind in (DPForestClassifier, lambda schema: DPSearchCV(DPForestClassifier(schema), {"n_trees": [1]})):
        for features, rows, words in (
            (PATTERNED.features, LABS.to_numpy(), r"has none. Pass a table with names"),
            ({"nose_*": Numeric(0, 1)}, LABS, "'nose_\\*' of the schema matches no column"),
        ):
            model = kind(Schema(features, PLAIN.target))
            with pytest.raises(TableError, match=words):
                model.fit(rows, ILL)
            assert not hasattr(model, "ledger_")
