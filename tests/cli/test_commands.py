"""Commands run as a user runs them, in an empty folder."""

import json
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dpforest import Bounded, Categorical, Classes, Numeric, Schema, load_model

pytestmark = pytest.mark.slow

N_ROWS = 400


def run(*arguments, cwd):
    command = [sys.executable, "-m", "dpforest.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, N_ROWS)
    table = pa.table(
        {
            "age": pa.array(age),
            "id": pa.array(np.arange(N_ROWS)),
            "city": pa.array(rng.choice(["Oslo", "Rome", "Lima"], N_ROWS)),
            "ill": pa.array(np.where(age > 50, "yes", "no")),
            "cost": pa.array(age / 2.0),
        }
    )
    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    features = {"age": Numeric(0, 100, integer=True), "city": Categorical(["Oslo", "Rome"])}
    Schema(features, Classes(["no", "yes"], name="ill")).to_file(tmp_path / "ill.schema.json")
    Schema(features, Bounded(0, 60, name="cost")).to_file(tmp_path / "cost.schema.toml")
    return tmp_path


@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
def test_fit_and_predict_a_class(folder, table):
    done = run("fit", table, "--schema", "ill.schema.json", "--epsilon", 8, "--out", "m.dpf", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Spent epsilon = 8" in done.stdout
    assert "id" in done.stdout  # told that a column outside the schema was not read
    assert load_model(folder / "m.dpf").privacy_.holds
    done = run("predict", "m.dpf", table, "--out", "p.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    predictions = pyarrow.csv.read_csv(folder / "p.csv")
    assert predictions.column_names == ["prediction", "probability_no", "probability_yes"]
    truth = pyarrow.csv.read_csv(folder / "t.csv").column("ill").to_pylist()
    agreement = np.mean(np.array(predictions.column("prediction").to_pylist()) == np.array(truth))
    assert agreement > 0.8  # fails with probability below 1e-6: 200 records on each side of the best cut


def test_fit_and_predict_a_number(folder):
    done = run("fit", "t.csv", "--schema", "cost.schema.toml", "--epsilon", 8, "--delta", "1e-6", "--out", "m.dpf",
               cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = run("predict", "m.dpf", "t.parquet", "--out", "p.parquet", cwd=folder)
    assert done.returncode == 0, done.stderr
    predictions = pyarrow.parquet.read_table(folder / "p.parquet").column("prediction").to_numpy()
    assert len(predictions) == N_ROWS
    assert ((predictions >= 0) & (predictions <= 60)).all()


REFUSED = {
    "a missing table": ["fit", "nope.csv", "--schema", "ill.schema.json", "--epsilon", 1, "--out", "m.dpf"],
    "a missing schema": ["fit", "t.csv", "--schema", "nope.json", "--epsilon", 1, "--out", "m.dpf"],
    "a wrong budget": ["fit", "t.csv", "--schema", "ill.schema.json", "--epsilon", 0, "--out", "m.dpf"],
    "an unknown recipe": ["fit", "t.csv", "--schema", "ill.schema.json", "--epsilon", 1, "--recipe", "x", "--out", "m"],
    "an unwritable place": ["fit", "t.csv", "--schema", "ill.schema.json", "--epsilon", 1, "--out", "no/such/m.dpf"],
    "a foreign model": ["predict", "t.csv", "t.csv", "--out", "p.csv"],
    "a foreign format": ["predict", "t.csv", "t.csv", "--out", "p.xlsx"],
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_refusals_are_one_line_and_leave_nothing(folder, arguments):
    before = sorted(path.name for path in folder.iterdir())
    done = run(*arguments, cwd=folder)
    assert done.returncode == 1
    assert done.stderr.startswith("Refused.")
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == before


def test_usage_errors_have_their_own_code(folder):
    assert run("fit", "t.csv", cwd=folder).returncode == 2


def test_a_damaged_table_is_refused_without_quoting_its_rows(folder):
    (folder / "bad.csv").write_text("age,city,ill\n1,Oslo,no\n2,secret-value,yes,one,too,many\n")
    done = run("fit", "bad.csv", "--schema", "ill.schema.json", "--epsilon", 1, "--out", "m.dpf", cwd=folder)
    assert done.returncode == 1
    assert "secret-value" not in done.stderr + done.stdout
    assert "bad.csv is not a well-formed text file (separator ',', encoding utf-8): every row must have" in done.stderr
    assert "line 3" not in done.stderr  # a fact about a row


@pytest.mark.parametrize("name", ["nope.csv", "nope.csv.gz", "nope.parquet"])
def test_a_table_that_is_not_there_is_said_not_to_be(folder, name):
    done = run("fit", name, "--schema", "ill.schema.json", "--epsilon", 1, "--out", "m.dpf", cwd=folder)
    assert done.stderr == f"Refused. There is no file {name}.\n"


def test_a_doubt_is_told_in_a_sentence(folder):
    (folder / "odd.csv").write_text("age,city,ill\n" + "1,Oslo,NO\n" * 500)

    def said(number):
        words = ("fit", "odd.csv", "--schema", "ill.schema.json", "--epsilon", 5, "--out", f"m{number}.dpf")
        return run(*words, cwd=folder).stderr

    # Noise alone may look like records, in fewer than one fit of five; not ten times in a row.
    assert any("This looks odd: The fit measured" in said(number) for number in range(10))


def test_a_stray_value_is_not_an_error(folder):
    (folder / "stray.csv").write_text("age,city,ill\n1,Oslo,no\nunknown,Paris,perhaps\n")
    done = run("fit", "stray.csv", "--schema", "ill.schema.json", "--epsilon", 1, "--out", "m.dpf", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "unknown" not in done.stdout + done.stderr


def test_demo_says_what_it_did_in_three_lines_and_then_what_was_spent_and_learnt(tmp_path):
    pytest.importorskip("statsmodels", reason="the demo needs statsmodels: pip install 'dpforest[demo]'")
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table, trained, right, empty, *details = done.stdout.splitlines()
    assert "survey of 6,366 women" in table
    assert "at epsilon = 1," in trained
    shares = [float(share) for share in re.findall(r"(\d+\.\d) %", right)]
    assert len(shares) == 3
    assert shares[1] == 68.0  # of the guess; the splits are always the same
    assert empty == ""
    assert all(len(line) <= 80 for line in (table, trained, right))
    for words in ("total", "always the commonest answer", "no privacy", "odds"):
        assert any(words in line for line in details)


def test_plan_shows_where_the_budget_goes_without_data(tmp_path):
    Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)}, Classes(["no", "yes"])).to_file(tmp_path / "t.schema.json")
    asked = ("plan", "--schema", "t.schema.json", "--epsilon", "1")
    done = run(*asked, "--rows", "50000", cwd=tmp_path)
    assert done.returncode == 0
    assert "Where the budget goes" in done.stdout
    assert all(words in done.stdout for words in (" value ", " share ", " size and noise "))
    shares = json.loads(run(*asked, "--rows", "50000", "--json", cwd=tmp_path).stdout)["shares"]
    assert {line["what"] for line in shares} >= {"number of rows", "splits", "leaves"}
    refused = run(*asked, cwd=tmp_path)
    assert refused.returncode == 1
    assert "how many you expect" in refused.stderr


def test_fit_prints_every_note_once(folder):
    done = run("fit", "t.csv", "--schema", "ill.schema.json", "--epsilon", 8, "--delta", 0.1, "--groups", "id",
               "--max-rows-per-person", 1, "--out", "m.dpf", cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    notes = load_model(folder / "m.dpf").privacy_.notes
    # Fails if 400 rows are measured as 10 or fewer, with noise of epsilon 0.02 * 8: below exp(-0.16 * 390) = 1e-27.
    assert any("larger than 1 / (number of rows)" in note for note in notes)
    assert [line for line in done.stdout.splitlines() if "Note:" in line] == [f"Note: {note}." for note in notes]
