"""Tables that are not read as a whole: the same models and predictions, and files that are there complete or not at all."""

import gzip
import io
import re
import time
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from numba.core import event
from rich.console import Console
from tests.cli.command import COST, FEATURES, ILL, done, people, run
from tests.support.crosses import pairwise

from dpforest import Classes, DPForestClassifier, DPForestRegressor, Schema, load_model
from dpforest.cli import console
from dpforest.common.work import WORDS, in_parts
from dpforest.privacy.ledger import Ledger
from dpforest.records.counter import MemoryCounter
from dpforest.records.scan import Pieces
from dpforest.records.source import Asked
from dpforest.records.sources import arrow, text_files

pytestmark = pytest.mark.slow

N_ROWS = 300
SCHEMAS = {
    "ill": replace(ILL, n_rows=N_ROWS),
    "cost": replace(COST, n_rows=N_ROWS),
    "stage": Schema(FEATURES, Classes([1, 2, 3], name="stage"), n_rows=N_ROWS),
}


def table():
    """People of whom some have no age, with the stage of their illness."""
    rows, age = people(N_ROWS), people(N_ROWS).column("age").to_numpy()
    known = pa.array(age, mask=np.arange(N_ROWS) % 9 == 0)
    return rows.set_column(0, "age", known).append_column("stage", pa.array(age // 34 + 1))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(table(), "t.csv")
    pq.write_table(table(), "t.parquet", row_group_size=47)
    (tmp_path / "parts").mkdir()
    for place in range(3):
        pq.write_table(table().slice(100 * place, 100), tmp_path / "parts" / f"{place}.parquet")
    for name, schema in SCHEMAS.items():
        schema.to_file(f"{name}.json")
        model(name).save(f"{name}.dpf")
    return tmp_path


@cache
def model(target):
    """A model that all tests share; none changes it."""
    kind = DPForestRegressor if target == "cost" else DPForestClassifier
    return kind(SCHEMAS[target], epsilon=4, n_trees=3).fit(table().select([*FEATURES]), table().column(target))


def fit(source="t.parquet", target="ill"):
    return run("fit", source, "--schema", f"{target}.json", "--epsilon", 4, "--out", "m.dpf", "--n-trees", 3)


@pytest.mark.parametrize(("source", "target"), [("t.parquet", "ill"), ("parts", "cost"), ("parts", "stage")])
def test_a_parquet_table_gives_a_model_and_is_not_read_as_a_whole(folder, monkeypatch, source, target):
    sealed, of_files = [], Pieces.of_files
    monkeypatch.setattr(
        Pieces, "of_files", lambda files, path, *more: sealed.append(str(path)) or of_files(files, path, *more)
    )
    found = fit(source, target)
    assert found.exit_code == 0, found.output
    assert sealed == [source]
    assert load_model("m.dpf").privacy_.holds
    assert load_model("m.dpf").ledger_.spent == pytest.approx(4)
    assert "Spent epsilon = 4" in found.output
    assert "id" in found.output.split("so not read:")[1].splitlines()[0]
    assert not (folder / "m.dpf.charges.json").exists()


def stop_at(monkeypatch, owner, name, n_calls, error):
    method, calls = getattr(owner, name), []

    def stopping(*arguments, **named):
        calls.append(name)
        if len(calls) > n_calls:
            raise error
        return method(*arguments, **named)

    monkeypatch.setattr(owner, name, stopping)


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        ("t.parquet", "ill", KeyboardInterrupt()),
        ("t.csv", "ill", MemoryError()),
        ("t.parquet", "cost", MemoryError()),
        ("t.csv", "cost", SystemExit(3)),
    ],
)
def test_an_interrupted_fit_writes_what_it_has_spent_and_no_model(folder, monkeypatch, source, target, error):
    before = {path.name for path in folder.iterdir()}
    stop_at(monkeypatch, MemoryCounter, "descend", 1, error)
    found = fit(source, target)
    assert found.exit_code != 0
    assert found.stdout == ""
    assert {path.name for path in folder.iterdir()} - before == {"m.dpf.charges.json"}
    ledger = Ledger.from_json((folder / "m.dpf.charges.json").read_text())
    assert ledger.n_entries > 0
    assert 0 < ledger.spent < 4
    assert "stays spent" in found.output
    assert f"{ledger.spent:.4g}" in found.output


@pytest.mark.parametrize("source", ["t.parquet", "t.csv"])
def test_a_fit_that_is_interrupted_before_it_charges_leaves_no_file(folder, monkeypatch, source):
    before = {path.name for path in folder.iterdir()}
    stop_at(monkeypatch, MemoryCounter, "deal", 0, KeyboardInterrupt())
    found = fit(source)
    assert found.exit_code != 0
    assert {path.name for path in folder.iterdir()} == before
    assert "spent" not in found.output


@pytest.fixture
def small_parts(monkeypatch):
    """Lists the rows of each part that is read."""
    n_rows, chunk_of = [], Asked.chunk
    monkeypatch.setattr(arrow, "PART_ROWS", 37)
    monkeypatch.setattr(text_files, "PART_BYTES", 512)
    monkeypatch.setattr(Asked, "chunk", lambda asked, rows: n_rows.append(rows.num_rows) or chunk_of(asked, rows))
    return n_rows


def read_whole(path):
    return pq.read_table(path) if arrow.is_parquet(path) else pyarrow.csv.read_csv(path)


def check_predictions(model, path, expected):
    """The columns of a written file are the estimator's predictions, row by row."""
    found = read_whole(path)
    X = read_whole(expected).select([*model.schema_.features])
    # Numbers in text lose nothing that twelve digits show.
    near = pytest.approx if model.schema_.target.kind == "bounded" else list
    assert found.column("prediction").to_pylist() == near(model.predict(X).tolist())
    if hasattr(model, "classes_"):
        assert found.column_names == ["prediction", *(f"probability_{label}" for label in model.classes_)]
        shares = np.stack([column.to_numpy() for column in found.columns[1:]], axis=1)
        np.testing.assert_allclose(shares, model.predict_proba(X), rtol=1e-12)
    else:
        assert found.column_names == ["prediction"]


@pytest.mark.parametrize(
    ("target", "source", "out"), pairwise([*SCHEMAS], ["t.csv", "t.parquet", "parts", "t.csv.gz"], ["p.csv", "p.parquet"])
)
def test_predictions_in_parts_are_those_of_the_whole_table_in_its_order(folder, small_parts, target, source, out):
    if source == "t.csv.gz":
        (folder / source).write_bytes(gzip.compress((folder / "t.csv").read_bytes()))
    done("predict", f"{target}.dpf", source, "--out", out)
    assert len(small_parts) > 4
    assert sum(small_parts) == N_ROWS
    check_predictions(model(target), folder / out, folder / source)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_folder_with_a_file_without_rows_is_predicted(folder, place):
    pq.write_table(table().slice(0, 0), folder / "parts" / f"{place}.parquet")
    done("predict", "ill.dpf", "parts", "--out", "p.csv")
    check_predictions(model("ill"), folder / "p.csv", folder / "parts")


@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left")], ids=["interrupt", "full disk"])
def test_a_prediction_that_fails_in_the_middle_leaves_no_file(folder, small_parts, monkeypatch, out, error):
    before = {path.name for path in folder.iterdir()}
    stop_at(monkeypatch, DPForestClassifier, "predict_proba", 2, error)
    assert run("predict", "ill.dpf", "t.parquet", "--out", out).exit_code != 0
    assert {path.name for path in folder.iterdir()} == before


def test_labels_that_are_drawn_by_the_votes_are_those_of_the_estimator(folder, small_parts):
    drawn = {"recipe": "bojarski-2015", "recipe_params": {"vote": "probabilistic"}, "n_trees": 3}
    X = table().select([*FEATURES])
    trained = DPForestClassifier(SCHEMAS["ill"], epsilon=1.0, **drawn).fit(X, table().column("ill"))
    trained.save("m.dpf")
    done("predict", "m.dpf", "t.parquet", "--out", "p.parquet")
    assert pq.read_table("p.parquet").column("prediction").to_pylist() == trained.predict(X).tolist()


def test_compiling_is_shown_while_it_lasts(monkeypatch):
    shown, words = io.StringIO(), f"level 1 of 3 ({WORDS})"
    monkeypatch.setattr(console, "errors", Console(file=shown, force_terminal=True, width=120, color_system=None))
    with console.steps("Training") as progress:
        progress("level 1 of 3")
        # As numba says it, which compiles one function for another.
        with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
            assert words in shown.getvalue()
    assert "compiling" not in shown.getvalue().rsplit("level 1 of 3", 1)[1]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_shows_no_number_of_rows_and_a_log_no_progress(monkeypatch, is_terminal):
    shown = io.StringIO()
    monkeypatch.setattr(console, "errors", Console(file=shown, force_terminal=is_terminal, width=120, color_system=None))
    with console.steps("Training") as progress:
        show = in_parts("rows encoded", 7_654_321, progress)
        for done in (1_000_003, 4_000_037, 7_654_321):
            show(done)
            time.sleep(0.15)  # for the bar to be drawn
    assert ("Training: rows encoded: 50 %" in shown.getvalue()) == is_terminal
    assert not re.search(r"\d{4}|\d,\d|rows/s", shown.getvalue())
    assert is_terminal or not shown.getvalue()
