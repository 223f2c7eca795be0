"""Tables that are not read as a whole: the same models and predictions, and files that are there complete or not at all."""

import io
import re
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from numba.core import event
from rich.console import Console
from typer.testing import CliRunner

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, Numeric, Schema, load_model
from dpforest.cli import console
from dpforest.cli.main import commands
from dpforest.common.compiling import WORDS
from dpforest.common.progress import in_parts
from dpforest.errors import DPForestError
from dpforest.estimators import _DPForest
from dpforest.privacy.ledger import Ledger
from dpforest.records.files import delimited, parquet_files
from dpforest.records.memory.counter import MemoryCounter
from dpforest.records.parquet import ParquetVault
from dpforest.records.reader import Asked

pytestmark = pytest.mark.slow

N_ROWS = 300
FEATURES = {"age": Numeric(0, 100, integer=True), "city": Categorical(["Oslo", "Rome"])}
SCHEMAS = {
    "ill": Schema(FEATURES, Classes(["no", "yes"], name="ill"), n_rows=N_ROWS),
    "cost": Schema(FEATURES, Bounded(0, 60, name="cost"), n_rows=N_ROWS),
    "stage": Schema(FEATURES, Classes([1, 2, 3], name="stage"), n_rows=N_ROWS),
}


def table(n_rows=N_ROWS):
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, n_rows)
    return pa.table(
        {
            "age": pa.array(age, mask=np.arange(n_rows) % 9 == 0),
            "city": pa.array(rng.choice(["Oslo", "Rome", "Lima"], n_rows)),
            "id": pa.array(np.arange(n_rows)),
            "ill": pa.array(np.where(age > 50, "yes", "no")),
            "cost": pa.array(age / 2.0),
            "stage": pa.array(age // 34 + 1),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(table(), "t.csv")
    pq.write_table(table(), "t.parquet", row_group_size=47)
    (tmp_path / "parts").mkdir()
    for place in range(3):
        pq.write_table(table().slice(100 * place, 100), tmp_path / "parts" / f"{place}.parquet")
    for name, schema in SCHEMAS.items():
        schema.to_file(f"{name}.schema.json")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


def fit(source="t.parquet", target="ill", *more):
    return run("fit", source, "--schema", f"{target}.schema.json", "--epsilon", 4, "--out", "m.dpf", "--n-trees", 3, *more)


@pytest.mark.parametrize("target", SCHEMAS)
@pytest.mark.parametrize("source", ["t.parquet", "parts"])
def test_a_parquet_table_gives_a_model_and_is_not_read_as_a_whole(folder, monkeypatch, source, target):
    sealed, seal = [], ParquetVault.seal
    monkeypatch.setattr(ParquetVault, "seal", lambda path, *rest: sealed.append(str(path)) or seal(path, *rest))
    done = fit(source, target)
    assert done.exit_code == 0, done.output
    assert sealed == [source]
    model = load_model("m.dpf")
    assert model.privacy_.holds
    assert model.ledger_.spent == pytest.approx(4)
    assert "Spent epsilon = 4" in done.output
    assert "id" in done.output.split("so not read:")[1].splitlines()[0]
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
    "error", [KeyboardInterrupt(), MemoryError(), SystemExit(3)], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("source", ["t.parquet", "t.csv"])
def test_an_interrupted_fit_writes_what_it_has_spent_and_no_model(folder, monkeypatch, source, error):
    before = {path.name for path in folder.iterdir()}
    stop_at(monkeypatch, MemoryCounter, "descend", 1, error)
    done = fit(source)
    assert done.exit_code != 0
    assert {path.name for path in folder.iterdir()} - before == {"m.dpf.charges.json"}
    ledger = Ledger.from_json((folder / "m.dpf.charges.json").read_text())
    assert ledger.n_entries > 0
    assert 0 < ledger.spent < 4
    assert "stays spent" in done.output
    assert f"{ledger.spent:.4g}" in done.output


def test_a_model_that_cannot_be_written_leaves_its_charges(folder, monkeypatch):
    stop_at(monkeypatch, _DPForest, "save", 0, OSError(28, "No space left on device"))
    done = fit()
    assert done.exit_code != 0
    assert not (folder / "m.dpf").exists()
    assert Ledger.from_json((folder / "m.dpf.charges.json").read_text()).spent == pytest.approx(4)


@pytest.mark.parametrize("source", ["t.parquet", "t.csv"])
def test_a_fit_that_is_interrupted_before_it_charges_leaves_no_file(folder, monkeypatch, source):
    before = {path.name for path in folder.iterdir()}
    stop_at(monkeypatch, MemoryCounter, "deal", 0, KeyboardInterrupt())
    done = fit(source)
    assert done.exit_code != 0
    assert {path.name for path in folder.iterdir()} == before
    assert "spent" not in done.output


def test_an_interrupted_fit_leaves_an_older_model_as_it_was(folder, monkeypatch):
    assert fit().exit_code == 0
    older = (folder / "m.dpf").read_bytes()
    stop_at(monkeypatch, MemoryCounter, "descend", 1, KeyboardInterrupt())
    assert fit().exit_code != 0
    assert (folder / "m.dpf").read_bytes() == older


REFUSALS = {
    "a missing column": lambda: pq.write_table(table().drop_columns(["age"]), "t.parquet"),
    "no Parquet file": lambda: pyarrow.csv.write_csv(table(), "t.parquet"),
}


@pytest.mark.parametrize("spoil", REFUSALS.values(), ids=REFUSALS)
def test_a_parquet_table_that_will_not_do_is_refused_and_leaves_nothing(folder, spoil):
    spoil()
    before = {path.name for path in folder.iterdir()}
    done = fit()
    assert done.exit_code != 0
    assert isinstance(done.exception, DPForestError)
    assert {path.name for path in folder.iterdir()} == before


@pytest.fixture
def small_parts(monkeypatch):
    """Lists the rows of each part that is read."""
    n_rows, part_of = [], Asked.part
    monkeypatch.setattr(parquet_files, "PART_ROWS", 37)
    monkeypatch.setattr(delimited, "PART_BYTES", 512)
    monkeypatch.setattr(Asked, "part", lambda asked, rows: n_rows.append(rows.num_rows) or part_of(asked, rows))
    return n_rows


def read_whole(path):
    return pq.read_table(path) if parquet_files.is_parquet(path) else pyarrow.csv.read_csv(path)


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


@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
@pytest.mark.parametrize("source", ["t.csv", "t.parquet", "parts"])
@pytest.mark.parametrize("target", SCHEMAS)
def test_predictions_in_parts_are_those_of_the_whole_table_in_its_order(folder, small_parts, target, source, out):
    assert fit("t.parquet", target).exit_code == 0
    small_parts.clear()
    done = run("predict", "m.dpf", source, "--out", out)
    assert done.exit_code == 0, done.output
    assert len(small_parts) > 4
    assert sum(small_parts) == N_ROWS
    check_predictions(load_model("m.dpf"), folder / out, folder / source)


def test_a_compressed_csv_file_is_read_in_parts(folder, small_parts):
    assert fit().exit_code == 0
    with pa.output_stream("t.csv.gz", compression="gzip") as stream:
        stream.write((folder / "t.csv").read_bytes())
    small_parts.clear()
    assert run("predict", "m.dpf", "t.csv.gz", "--out", "p.csv").exit_code == 0
    assert len(small_parts) > 4
    check_predictions(load_model("m.dpf"), folder / "p.csv", folder / "t.csv.gz")


@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
@pytest.mark.parametrize("source", ["none.csv", "none.parquet"])
@pytest.mark.parametrize("target", ["ill", "cost"])
def test_a_table_without_rows_is_refused_as_the_estimator_refuses_it(folder, target, source, out):
    assert fit("t.parquet", target).exit_code == 0
    pyarrow.csv.write_csv(table().slice(0, 0), "none.csv")
    pq.write_table(table().slice(0, 0), "none.parquet")
    done = run("predict", "m.dpf", source, "--out", out)
    assert done.exit_code != 0
    assert isinstance(done.exception, DPForestError)
    assert "0 sample" in str(done.exception)
    assert not (folder / out).exists()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_folder_with_a_file_without_rows_is_predicted(folder, place):
    assert fit().exit_code == 0
    parts = folder / "gaps"
    parts.mkdir()
    for k in range(3):
        pq.write_table(table().slice(0, 0 if k == place else 50), parts / f"{k}.parquet")
    done = run("predict", "m.dpf", "gaps", "--out", "p.csv")
    assert done.exit_code == 0, done.exception
    check_predictions(load_model("m.dpf"), folder / "p.csv", parts)


@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left")], ids=["interrupt", "full disk"])
def test_a_prediction_that_fails_in_the_middle_leaves_no_file(folder, small_parts, monkeypatch, out, error):
    assert fit().exit_code == 0
    before = {path.name for path in folder.iterdir()}
    stop_at(monkeypatch, DPForestClassifier, "predict_proba", 2, error)
    done = run("predict", "m.dpf", "t.parquet", "--out", out)
    assert done.exit_code != 0
    assert {path.name for path in folder.iterdir()} == before


@pytest.mark.parametrize("out", ["p.csv", "p.parquet"])
def test_a_row_that_cannot_be_read_leaves_no_file_and_is_not_quoted(folder, small_parts, out):
    assert fit().exit_code == 0
    with open("t.csv", "a") as file:
        file.write("1,secret-value,2,no,3,4,5,6,7\n")
    before = {path.name for path in folder.iterdir()}
    done = run("predict", "m.dpf", "t.csv", "--out", out)
    assert done.exit_code != 0
    assert isinstance(done.exception, DPForestError)
    assert "secret-value" not in f"{done.exception}{done.output}"
    assert {path.name for path in folder.iterdir()} == before


def test_labels_that_are_drawn_by_the_votes_are_those_of_the_estimator(folder, small_parts):
    schema = SCHEMAS["ill"]
    X, y = table().select([*schema.features]), table().column("ill")
    model = DPForestClassifier(
        schema, epsilon=1.0, recipe="bojarski-2015", recipe_params={"vote": "probabilistic"}, n_trees=3
    ).fit(X, y)
    model.save("m.dpf")
    assert run("predict", "m.dpf", "t.parquet", "--out", "p.parquet").exit_code == 0
    assert pq.read_table("p.parquet").column("prediction").to_pylist() == model.predict(X).tolist()


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
