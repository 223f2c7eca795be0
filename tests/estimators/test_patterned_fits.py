"""Each door to a fit replaces patterns by the columns of its table, and the model keeps these."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.base import clone

from dpforest import Bounded, Classes, DPForestClassifier, DPForestRegressor, DPSearchCV, Numeric, Schema, load_model
from dpforest.errors import TableError

COLUMNS = ["lab_2", "age", "lab_1"]
SCHEMA = Schema({"age": Numeric(0, 9, integer=True), "lab_*": Numeric(0, 1)}, Classes([0, 1], name="y"))
PLAIN = Schema(
    {"age": Numeric(0, 9, integer=True), "lab_2": Numeric(0, 1), "lab_1": Numeric(0, 1)}, Classes([0, 1], name="y")
)


def table(n_rows=60):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"lab_2": rng.random(n_rows), "age": rng.integers(0, 10, n_rows), "lab_1": rng.random(n_rows)})
    return X, (X["lab_1"] > 0.5).astype(int)


def fitted(schema, X, y, **settings):
    return DPForestClassifier(schema, epsilon=5.0, n_trees=2, max_depth=2, random_state=0, **settings).fit(X, y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"])
def test_a_table_in_memory(frame):
    X, y = table()
    model, same = (fitted(schema, frame(X), y) for schema in (SCHEMA, PLAIN))
    assert model.schema_ == PLAIN
    assert [*model.schema_.features] == [*PLAIN.features]
    assert np.array_equal(model.predict_proba(frame(X)), same.predict_proba(frame(X)))
    assert model.schema is SCHEMA
    assert clone(model).schema.features == SCHEMA.features


def test_a_saved_model_has_the_columns(tmp_path):
    X, y = table()
    model = fitted(SCHEMA, X, y)
    model.save(tmp_path / "m.dpf")
    assert load_model(tmp_path / "m.dpf").schema_ == PLAIN == pickle.loads(pickle.dumps(model)).schema_


def test_a_parquet_file_in_which_the_target_and_the_ids_match_too(tmp_path):
    X, y = table()
    rows = pa.Table.from_pandas(X).append_column("lab_y", pa.array(y)).append_column("lab_id", pa.array(range(len(y))))
    pyarrow.parquet.write_table(rows, tmp_path / "t")  # a name without an ending
    schema = Schema(SCHEMA.features, Classes([0, 1], name="lab_y"))
    model = DPForestClassifier(schema, epsilon=5.0, n_trees=2, max_depth=2, max_rows_per_person=1, random_state=0)
    assert [*model.fit(tmp_path / "t", groups="lab_id").schema_.features] == [*PLAIN.features]


def test_a_table_in_a_database():
    ibis = pytest.importorskip("ibis")
    X, y = table()
    rows = ibis.duckdb.connect().create_table("t", X.assign(y=y))
    model = DPForestClassifier(SCHEMA, epsilon=5.0, n_trees=2, max_depth=2).fit_table(rows)
    assert model.schema_ == PLAIN


@pytest.mark.slow
def test_a_cluster():
    distributed, dd = pytest.importorskip("distributed"), pytest.importorskip("dask.dataframe")
    X, y = table()
    with distributed.Client(processes=False, dashboard_address=None, n_workers=1, threads_per_worker=1) as client:
        frame = dd.from_pandas(X.assign(y=y), npartitions=2)
        model = DPForestClassifier(SCHEMA, epsilon=5.0, n_trees=2, max_depth=2).fit_dask(frame, client)
    assert model.schema_ == PLAIN


def test_a_search():
    X, y = table()
    search = DPSearchCV(DPForestClassifier(SCHEMA), {"n_trees": [1]}, epsilon=5.0, mean_runs=1).fit(X, y)
    assert [*search.best_estimator_.schema_.features] == [*PLAIN.features]


@pytest.mark.parametrize(
    "fit", [DPForestClassifier, lambda schema: DPSearchCV(DPForestClassifier(schema), {"n_trees": [1]})]
)
def test_an_array_has_no_names(fit):
    X, y = table()
    with pytest.raises(TableError, match=r"has none. Pass a table with names"):
        fit(SCHEMA).fit(X.to_numpy(), y)


def test_nothing_is_charged_where_a_pattern_matches_nothing():
    X, y = table()
    model = DPForestClassifier(Schema({"nose_*": Numeric()}, Classes([0, 1])))
    with pytest.raises(TableError, match="'nose_\\*' of the schema matches no column"):
        model.fit(X, y)
    assert not hasattr(model, "ledger_")


def test_a_regression_has_patterns_too():
    X, y = table()
    model = DPForestRegressor(Schema({"*": Numeric(0, 9)}, Bounded(0, 1)), epsilon=5.0).fit(X, y)
    assert [*model.schema_.features] == COLUMNS


def test_the_target_among_the_columns_of_a_table_matches_no_pattern():
    X, y = table()
    model = fitted(Schema({"*": Numeric(0, 9)}, Classes([0, 1], name="y")), X.assign(y=y), y)
    assert "y" not in model.schema_.features
    assert [*model.feature_names_in_] == [*X.columns]
