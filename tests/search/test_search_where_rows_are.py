"""A search finds the same wherever the rows are: in a file, a stream or a database; nothing of it stays open."""

import itertools
import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import duckdb
import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.search.small import CLASSES, LABELS, ROWS, TASKS, budget_in, search
from tests.support.chances import seed_coins

import dpforest.search.estimator as search_module
from dpforest import Bounded, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import TableError
from dpforest.records import scan
from dpforest.records.sources.database import DatabaseTable
from dpforest.records.vault import Vault
from dpforest.schema import TARGET_STEPS
from dpforest.search.runs import _most_per_record


def in_sqlite(rows, folder):
    with closing(sqlite3.connect(folder / "t.sqlite")) as connection:
        columns = [f"{name} {'REAL' if rows[name].dtype.kind == 'f' else 'TEXT'}" for name in rows]
        connection.execute(f"CREATE TABLE t ({', '.join(columns)})")
        cells = rows.astype(object).where(rows.notna(), None).itertuples(index=False)
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", cells)
        connection.commit()
    return f"sqlite:///{folder}/t.sqlite::t"


def in_parquet(rows, folder):
    rows.to_parquet(folder / "t.parquet", row_group_size=150)
    return folder / "t.parquet"


def in_csv(rows, folder):
    rows.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def in_arrow(rows):
    return pa.Table.from_pandas(rows, preserve_index=False)


DOORS = {
    "csv": in_csv,
    "parquet": in_parquet,
    "sqlite": in_sqlite,
    "duckdb": lambda rows, folder: duckdb.from_arrow(in_arrow(rows)),
    "ibis": lambda rows, folder: ibis.memtable(rows),
    "stream": lambda rows, folder: pa.RecordBatchReader.from_batches(
        in_arrow(rows).schema, in_arrow(rows).to_batches(max_chunksize=70)
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("task", "delta"), [("classes", 1e-6), ("numbers", 0.0)])
def test_the_same_coins_find_the_same_model_wherever_the_rows_are(door, task, delta, monkeypatch, tmp_path):
    monkeypatch.setattr(scan, "BATCH_ROWS", 40)
    kind, schema, target = TASKS[task]
    table, found = DOORS[door](ROWS.assign(y=target), tmp_path), []
    for given in ((ROWS, target), (table,)):
        seed_coins(monkeypatch, 5)
        found.append(search(kind(schema, delta=delta, n_trees=2)).fit(*given))
    near, far = found
    for part in ("best_params_", "best_score_", "ledger_"):
        assert getattr(near, part) == getattr(far, part)
    assert near.best_estimator_.to_json() == far.best_estimator_.to_json()
    assert list(far.feature_names_in_) == ["x", "z"]


TOY = {"x": Numeric(0, 1)}
TOYS = {
    "classes": (DPForestClassifier, Schema(TOY, Classes(["a", "b", "c"], name="y")), ["a", "b", "c", "unlisted", None]),
    "numbers": (DPForestRegressor, Schema(TOY, Bounded(0, 1, name="y")), [0.0, 0.3, 1.0, 7.0, -7.0, None]),
}


@pytest.mark.parametrize("kind", TOYS)
def test_whatever_record_is_added_hits_and_misses_move_by_their_unit_and_no_more(kind):
    estimator, schema, targets = TOYS[kind]
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.random(60), "y": rng.choice(np.array(targets[:3], dtype=object), 60)})
    forest = estimator(schema, epsilon=5, max_depth=2).fit(rows[["x"]], rows["y"]).forest_
    tried, unit, moved = [forest], _most_per_record(schema), set()
    if kind == "numbers":
        # One that predicts 0.3, and one that predicts so far outside that it would miss by more than the range.
        votes = np.tile([0.7, 0.3], (forest.n_nodes, 1))
        calm = replace(forest, votes=votes, link="shares", target=schema.target)
        tried = [calm, replace(calm, target=Bounded(3, 60, name="y"))]
    assert unit == (1 if kind == "classes" else TARGET_STEPS)
    for forest in tried:
        before = hits_in(rows, schema, forest)
        for x, y in itertools.product((0.1, None), targets):
            added = pd.concat([rows, pd.DataFrame({"x": [x], "y": [y]}, dtype=object)]).astype(rows.dtypes)
            change = hits_in(added, schema, forest) - before
            assert (change >= 0).all()
            assert change.sum() == (0 if y is None or y == "unlisted" else unit)  # so 0.9 of it would be too small
            moved.add(tuple((change[0] == unit).tolist()))
    assert {(True, False), (False, True)} <= moved


def hits_in(rows, schema, forest):
    return Vault.seal(rows[["x"]], rows["y"], schema).hits(forest)._value


def test_a_file_that_changes_during_a_search_ends_it(monkeypatch, tmp_path):
    path, hold_out = in_parquet(ROWS.assign(y=LABELS), tmp_path), Vault.hold_out

    def late(vault, *given):
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))
        return hold_out(vault, *given)

    monkeypatch.setattr(Vault, "hold_out", late)
    with pytest.raises(TableError, match="was changed while"):
        search(DPForestClassifier(CLASSES)).fit(path)


@pytest.mark.parametrize("ending", ["found", "failed", "refused"])
def test_a_database_is_left_however_a_search_ends(ending, monkeypatch, tmp_path):
    budget, left, close = budget_in(tmp_path), [], DatabaseTable.close
    monkeypatch.setattr(DatabaseTable, "close", lambda table: (left.append(True), close(table))[1])
    asked = search(DPForestClassifier(CLASSES, n_trees=1), budget=budget)
    if ending == "failed":
        monkeypatch.setattr(search_module, "run", lambda *_: 1 / 0)
    rows = ROWS if ending == "refused" else ROWS.assign(y=LABELS)
    table = in_sqlite(rows.assign(other=0.0) if ending == "refused" else rows, tmp_path)
    if ending == "found":
        asked.fit(table)
    else:
        with pytest.raises(ZeroDivisionError if ending == "failed" else TableError):
            asked.fit(table)
    assert left
    assert len(budget.history()) == (ending != "refused")


@pytest.mark.parametrize(
    ("table", "target", "message"),
    [
        (lambda folder: "missing.parquet", None, "missing.parquet"),
        (lambda folder: in_parquet(ROWS.assign(y=LABELS), folder), LABELS, "pass y with a table in memory"),
        (lambda folder: in_parquet(ROWS, folder), None, "'y'"),
        (lambda folder: DOORS["stream"](ROWS, folder), None, "'y'"),
        (lambda folder: ROWS, None, "no column 'y'"),
    ],
    ids=["missing", "own", "no target", "stream", "memory"],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_charged(table, target, message, tmp_path):
    budget = budget_in(tmp_path)
    with pytest.raises(TableError, match=message):
        search(DPForestClassifier(CLASSES), budget=budget).fit(table(tmp_path), target)
    assert budget.history() == []
