"""A search on a Parquet file is the search on the same table in memory, and its parts hold each record once."""

import os

import numpy as np
import pandas as pd
import pytest
from tests.support.chances import at_least, at_most, seed_coins

from dpforest import (
    Bounded,
    Budget,
    Categorical,
    Classes,
    DPForestClassifier,
    DPForestRegressor,
    DPSearchCV,
    Numeric,
    Schema,
)
from dpforest.errors import TableError
from dpforest.mechanisms import Entropy
from dpforest.records import parquet
from dpforest.records.memory.vault import Vault
from dpforest.records.parquet import ParquetVault

FEATURES = {"x": Numeric(0, 1), "z": Categorical(["u", "v"])}
CLASSES, NUMBER = Schema(FEATURES, Classes(["a", "b"], name="y")), Schema(FEATURES, Bounded(0, 1, name="y"))
N_ROWS = 600
RNG = np.random.default_rng(1)
X = pd.DataFrame({"x": RNG.random(N_ROWS), "z": RNG.choice(["u", "v"], N_ROWS)})
LABELS = np.where(RNG.random(N_ROWS) < 0.05, None, np.where(X["x"] > 0.5, "a", "b"))  # some are missing
VALUES = np.where(RNG.random(N_ROWS) < 0.05, np.nan, X["x"])


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a table as a file of several row groups, of which few rows are read at a time."""
    monkeypatch.setattr(parquet, "BATCH_ROWS", 40)

    def written(target, n_rows=N_ROWS):
        path = tmp_path / f"table{n_rows}.parquet"
        X.assign(y=target)[:n_rows].to_parquet(path, row_group_size=150)
        return path

    return written


def test_a_file_that_changes_during_a_search_ends_it(write, monkeypatch):
    path, encode = write(LABELS), ParquetVault.encode

    def late(vault, *arguments):
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))
        return encode(vault, *arguments)

    monkeypatch.setattr(ParquetVault, "encode", late)
    with pytest.raises(TableError, match="was changed while"):
        DPSearchCV(DPForestClassifier(CLASSES), {"max_depth": [1]}, epsilon=1.0, mean_runs=3).fit(path)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("kind", "schema", "target"), [(DPForestClassifier, CLASSES, LABELS), (DPForestRegressor, NUMBER, VALUES)]
)
def test_a_file_gives_what_a_table_in_memory_gives(kind, schema, target, delta, write, monkeypatch):
    space = {"max_depth": [1, 2]}
    found = []
    for table in ((X, target), (write(target),)):
        seed_coins(monkeypatch, 5)
        found.append(DPSearchCV(kind(schema, delta=delta, n_trees=2), space, epsilon=2.0, mean_runs=3).fit(*table))
    memory, file = found
    assert memory.best_params_ == file.best_params_
    assert memory.best_score_ == file.best_score_
    assert memory.ledger_ == file.ledger_
    assert memory.best_estimator_.to_json() == file.best_estimator_.to_json()
    assert list(file.feature_names_in_) == ["x", "z"]
    assert file.predict(X).shape == (N_ROWS,)


@pytest.mark.parametrize(("schema", "target"), [(CLASSES, LABELS), (NUMBER, VALUES)])
def test_answers_of_parts_are_those_of_parts_in_memory(schema, target, write):
    model = (DPForestClassifier if schema is CLASSES else DPForestRegressor)(schema, epsilon=5, max_depth=2).fit(X, target)
    memory = Vault.seal(X, target, schema).hold_out(0.3, Entropy(4))
    file = ParquetVault.seal(write(target), schema, n_jobs=2).hold_out(0.3, Entropy(4))
    for mine, other in zip(file, memory, strict=True):
        assert (mine.count()._value == other.count()._value).all()
        assert (mine.hits(model.forest_)._value == other.hits(model.forest_)._value).all()
        assert mine.in_one_book
        assert not mine.can_sample


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_parts_hold_each_record_once_and_in_their_shares(share, write):
    training, held = ParquetVault.seal(write(LABELS), CLASSES).hold_out(share, Entropy(9))
    known = np.array([label is not None for label in LABELS])
    assert not (training._kept & held._kept).any()
    assert ((training._kept | held._kept) == known).all()
    # Seeded; over all seeds the chance of a failure is 1e-6 on each side.
    assert at_least(known.sum(), share) <= held._kept.sum() <= at_most(known.sum(), share)


def test_a_record_that_is_added_changes_no_other_record_s_part(write):
    kept = [ParquetVault.seal(write(LABELS, n), CLASSES).hold_out(0.3, Entropy(9))[1]._kept for n in (N_ROWS - 1, N_ROWS)]
    assert (kept[0] == kept[1][:-1]).all()


def elsewhere(table):
    """A table of the library of that name, or what is given."""
    if table == "ibis":
        return pytest.importorskip("ibis").memtable(X)
    return pytest.importorskip("dask.dataframe").from_pandas(X, npartitions=2) if table == "dask" else table


@pytest.mark.parametrize(
    ("table", "target", "message"),
    [
        ("missing.parquet", None, "missing.parquet"),
        ("own", LABELS, "pass y with a table only"),
        (object(), LABELS, "table in memory or the path of a Parquet file"),
        ("ibis", None, "table in memory or the path of a Parquet file"),
        ("dask", None, "table in memory or the path of a Parquet file"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_charged(table, target, message, write, tmp_path):
    budget = Budget.open(tmp_path / "b.db", dataset="ward", epsilon=3.0)
    given = write(LABELS) if table == "own" else elsewhere(table)
    with pytest.raises(TableError, match=message):
        DPSearchCV(DPForestClassifier(CLASSES), {"max_depth": [1]}, budget=budget).fit(given, target)
    assert budget.history() == []
