"""Names, categories and labels can hold anything: every command, page, file and picture takes them as they are."""

import csv
import io
import json
import tomllib
import warnings
from contextlib import chdir
from pathlib import Path

import duckdb
import matplotlib.pyplot
import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from rich.cells import cell_len
from tests.cli import hostile
from tests.cli.command import done, run, typed
from tests.cli.hostile import assert_harmless

from dpforest import Classes, DPForestClassifier, Numeric, Schema, load_model, plots
from dpforest.records.sources import delimited
from dpforest.schema import ALWAYS_MISSING, unfilled

pytestmark = pytest.mark.slow

TARGETS = {"classes": hostile.classes, "means": hostile.bounded}
NEWLINES = pyarrow.csv.ParseOptions(newlines_in_values=True)


@pytest.fixture(scope="module", params=TARGETS)
def made(request, tmp_path_factory):
    """A folder with a hostile table, its schema, and a model that the command fitted."""
    facts = hostile.schema(TARGETS[request.param]())
    with chdir(folder := tmp_path_factory.mktemp(request.param)):
        facts.to_file("t.toml")
        pyarrow.csv.write_csv(hostile.table(facts), "t.csv")
        pyarrow.parquet.write_table(hostile.table(facts), "t.parquet")
        done("fit", "t.parquet", "--schema", "t.toml", "--epsilon", 20, "--n-trees", 4, "--out", "m.dpf")
    return folder


@pytest.fixture(scope="module")
def model(made):
    return load_model(made / "m.dpf")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def features(model, rows):
    return rows.select([*model.schema_.features])


@pytest.mark.parametrize(("table", "ending"), [("t.csv", "json"), ("t.parquet", "toml")])
def test_a_draft_has_all_names_as_they_are_and_a_check_says_what_is_open(made, model, table, ending):
    done("schema", "draft", made / table, "--target", hostile.TARGET, "--out", f"draft.{ending}")
    with open(f"draft.{ending}", encoding="utf-8", newline="") as file:
        draft = (tomllib.loads if ending == "toml" else json.loads)(file.read())
    assert list(draft["features"]) == list(model.schema_.features)
    assert draft["target"]["name"] == hostile.TARGET
    found = run("schema", "check", f"draft.{ending}")
    listed = [line[2:] for line in found.stderr.splitlines() if line.startswith("  ")]
    assert found.exit_code == 1
    # A name may be cut in the middle of the line, but not what is open of it.
    assert [line.rpartition(".")[2] for line in listed] == [entry.rpartition(".")[2] for entry in unfilled(draft)]


def test_files_give_the_same_schema_and_model_back(made, model):
    for ending in ("toml", "json"):
        model.schema_.to_file(f"again.{ending}")
        assert Schema.from_file(f"again.{ending}") == model.schema_ == Schema.from_file(made / "t.toml")
    model.save("again.dpf")
    assert Path("again.dpf").read_bytes() == (made / "m.dpf").read_bytes()


SHOWN = {
    "schema check": ("schema", "check", "t.toml", "--table", "t.parquet"),
    "schema check --json": ("schema", "check", "t.toml", "--table", "t.csv", "--json"),
    "plan": ("plan", "--schema", "t.toml", "--table", "t.csv", "--epsilon", 1, "--rows", 600),
    "plan --json": ("plan", "--schema", "t.toml", "--table", "t.csv", "--epsilon", 1, "--rows", 600, "--json"),
    "fit": ("fit", "t.csv", "--schema", "t.toml", "--epsilon", 1, "--out", "fit.dpf"),
    "fit --json": ("fit", "t.parquet", "--schema", "t.toml", "--epsilon", 1, "--out", "fit-json.dpf", "--json"),
    "predict": ("predict", "m.dpf", "t.csv", "--out", "p.csv"),
    "evaluate": ("evaluate", "m.dpf", "t.csv", "--public"),
    "evaluate --epsilon": ("evaluate", "m.dpf", "t.parquet", "--epsilon", 1),
    "evaluate --json": ("evaluate", "m.dpf", "t.parquet", "--public", "--json"),
    "report": ("report", "m.dpf", "--out", "r.html"),
    "rules": ("rules", "m.dpf"),
    "rules --json": ("rules", "m.dpf", "--json"),
}


@pytest.fixture(scope="module")
def shown(made):
    """What each command printed, which was asked once."""
    with chdir(made):
        return {title: done(*words) for title, words in SHOWN.items()}


def test_what_commands_print_cannot_harm_a_terminal(shown):
    for text in shown.values():
        assert_harmless(text)


@pytest.mark.parametrize("title", ["schema check", "plan", "evaluate", "evaluate --epsilon"])
def test_tables_keep_their_columns_in_line(shown, title):
    lines, width = [line for line in shown[title].splitlines() if line and line[0] in "┏┃┡│└"], 0
    for line in lines:
        # The head of each table sets the width of the lines below.
        width = cell_len(line) if line[0] == "┏" else width
        assert cell_len(line) == width


def test_a_check_shows_names_as_they_are(shown):
    cells = [line.split("│")[1].rstrip() for line in shown["schema check"].splitlines() if line.startswith("│")]
    fits = [name for name in hostile.TEXTS if name.isprintable() and len(name) < 28]
    assert [name for name in fits if f" {name}".rstrip() not in cells] == []


def test_json_gives_names_and_labels_as_they_are(shown, model):
    found = {title: json.loads(text) for title, text in shown.items() if title.endswith("--json")}
    assert Schema.from_dict(found["schema check --json"]["schema"]) == model.schema_
    rules = [(rule["rule"], rule["class"]) for rule in found["rules --json"]]
    assert rules == [(rule["rule"], rule.get("class")) for rule in model.forest_.rules()]


def test_each_rule_is_one_line(shown, model):
    lines = shown["rules"].splitlines()
    assert len(lines) == len(model.forest_.rules())
    assert all(line.startswith("tree ") and line.endswith(("records", "by weight", "(may be 0)")) for line in lines)


@pytest.mark.parametrize("ending", ["csv", "json", "txt"])
def test_rules_in_a_file_can_be_read_back(made, model, ending):
    done("rules", made / "m.dpf", "--out", f"rules.{ending}", "--raw-text")
    rules = model.forest_.rules()
    with open(f"rules.{ending}", encoding="utf-8", newline="") as file:
        text = file.read()
    if ending == "txt":
        assert text.split("\n") == model.forest_.rules_text().split("\n")
        assert_harmless(text)
        return
    rows = json.loads(text) if ending == "json" else list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["rule"] for row in rows] == [rule["rule"] for rule in rules]
    assert [row["class"] or "" for row in rows] == [rule.get("class") or "" for rule in rules]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_can_be_read_back_with_the_exact_labels(made, model, ending):
    done("predict", made / "m.dpf", made / "t.parquet", "--out", f"p.{ending}", "--raw-text")
    if ending == "parquet":
        found = pyarrow.parquet.read_table("p.parquet")
    else:
        found = pyarrow.csv.read_csv("p.csv", parse_options=NEWLINES)
    rows = features(model, pyarrow.parquet.read_table(made / "t.parquet"))
    names = [f"probability_{label}" for label in getattr(model.schema_.target, "labels", ())]
    assert found.column_names == ["prediction", *names]
    if not names:
        assert np.allclose(found.column("prediction").to_numpy(), model.predict(rows), rtol=0, atol=1e-12)
        return
    assert found.column("prediction").to_pylist() == model.predict(rows).tolist()
    assert np.allclose(np.column_stack(found.columns[1:]), model.predict_proba(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("part_bytes", [delimited.PART_BYTES, 1 << 17])
def test_a_text_file_says_the_same_as_parquet(made, model, monkeypatch, part_bytes):
    rows = pyarrow.parquet.read_table(made / "t.parquet")
    # Some words, and nothing, stand for missing in a text file, unless they are listed.
    parts = {**model.schema_.features, model.schema_.target.name: model.schema_.target}
    listed = {name: getattr(part, "categories", getattr(part, "labels", ())) for name, part in parts.items()}
    cells = {name: rows.column(name).to_pylist() for name in rows.column_names}
    words = {name: {"", *ALWAYS_MISSING} - {*listed.get(name, ())} | {""} for name in cells}
    rows = pa.table({name: [None if cell in words[name] else cell for cell in column] for name, column in cells.items()})
    pyarrow.parquet.write_table(rows, "u.parquet")
    pyarrow.csv.write_csv(rows, "u.csv")
    # Long files are read in parts; a line break in quotes is not the end of a row there either.
    monkeypatch.setattr(delimited, "PART_BYTES", part_bytes)
    for table in ("csv", "parquet"):
        done("predict", made / "m.dpf", f"u.{table}", "--out", f"{table}.parquet")
    assert pyarrow.parquet.read_table("csv.parquet").equals(pyarrow.parquet.read_table("parquet.parquet"))


def test_onnx_predicts_the_same(made, model):
    done("export", made / "m.dpf", "--out", "m.onnx")
    session = onnxruntime.InferenceSession("m.onnx")
    # Where the empty text is a category, ONNX has no way to say that a cell is missing.
    rows = features(model, hostile.table(model.schema_, seed=1, with_missing=False))
    renamed = json.loads(session.get_modelmeta().custom_metadata_map["inputs"])
    given = {}
    for wanted, name in zip(renamed, model.schema_.features, strict=True):
        kind = object if pa.types.is_string(rows.column(name).type) else np.float64
        given[wanted] = np.array([[cell] for cell in rows.column(name).to_pylist()], dtype=kind)
    found = session.run(None, given)
    if len(found) == 1:
        assert np.allclose(found[0][:, 0], model.predict(rows), rtol=0, atol=1e-9)
        return
    assert found[0].tolist() == model.predict(rows).tolist()
    assert np.allclose(found[1], model.predict_proba(rows), rtol=0, atol=1e-12)


def test_sql_predicts_the_same_and_drops_nothing(made, model):
    name = 'x\'; DROP TABLE people; -- ""y'
    done("export", made / "m.dpf", "--out", "m.sql", "--table", f'"{name}"')
    connection = duckdb.connect()
    connection.execute(f"""CREATE TABLE "{name}" AS SELECT * FROM '{made / "t.parquet"}'""")
    connection.execute("CREATE TABLE people AS SELECT 1 AS one")
    connection.execute("CREATE TABLE records AS SELECT 1 AS one")  # which the name of a column drops, where it can
    with open("m.sql", encoding="utf-8", newline="") as file:
        found = connection.sql(file.read()).to_arrow_table()
    assert len(connection.sql("SHOW TABLES").fetchall()) == 3
    rows = pyarrow.parquet.read_table(made / "t.parquet")
    assert found.column_names[: rows.num_columns] == rows.column_names
    # The rows have no order of their own; their first number tells them apart.
    order = np.argsort(found.column(hostile.TEXTS[0]).fill_null(-99).to_numpy(), kind="stable")
    order_of_rows = np.argsort(rows.column(hostile.TEXTS[0]).fill_null(-99).to_numpy(), kind="stable")
    added, expected = found.columns[rows.num_columns :], features(model, rows).take(order_of_rows)
    known = expected.column(hostile.TEXTS[0]).is_valid().to_numpy()
    predicted = np.array(added[0].to_pylist(), dtype=object)[order][known].tolist()
    assert predicted == pytest.approx(model.predict(expected)[known].tolist(), abs=1e-9)
    if len(added) > 1:
        shares = np.column_stack(added[1:])[order][known]
        assert np.allclose(shares, model.predict_proba(expected)[known], rtol=0, atol=1e-12)


def test_the_json_release_has_names_and_labels_as_they_are(made, model):
    done("export", made / "m.dpf", "--out", "m.json")
    with open("m.json", encoding="utf-8") as file:
        release = json.load(file)
    assert [part["name"] for part in release["forest"]["features"]] == [*model.schema_.features]
    assert Schema.from_dict(release["schema"]) == model.schema_


@pytest.mark.parametrize("draw", [plots.budget_by_level, plots.importances, plots.leaf_noise, plots.tree])
def test_pictures_are_drawn_without_warnings(model, draw):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = draw(model)
        axes.figure.savefig(io.BytesIO(), format="png")
    matplotlib.pyplot.close(axes.figure)


def test_names_that_differ_in_case_only_are_two_columns():
    schema = Schema({"Age": Numeric(0, 1), "age": Numeric(0, 1), "AGE ": Numeric(0, 1)}, Classes(["Yes", "yes"], name="AGE"))
    generator = np.random.default_rng(0)
    X = pa.table({name: generator.random(2000) for name in schema.features})
    y = np.where(X.column("age").to_numpy() > 0.5, "Yes", "yes")
    DPForestClassifier(schema, epsilon=50).fit(X, y).save("m.dpf")
    done("export", "m.dpf", "--out", "m.onnx")
    done("report", "m.dpf", "--out", "m.html")
    given = {name: X.column(name).to_numpy()[:, None] for name in schema.features}
    label, _ = onnxruntime.InferenceSession("m.onnx").run(None, given)
    assert (label == y).mean() > 0.95  # the best of 16 or more cuts is at most 1/32 off, and 2,000 rows at 50 find it


@pytest.mark.parametrize("command", ["fit", "check"])
def test_columns_outside_the_schema_are_told_in_one_line(made, model, command):
    number = hostile.TEXTS[0]
    Schema({number: model.schema_.features[number]}, model.schema_.target, one_row_per_person=True).to_file("s.toml")
    if command == "fit":
        shown = done("fit", made / "t.parquet", "--schema", "s.toml", "--epsilon", 1, "--out", "n.dpf")
    else:
        shown = done("schema", "check", "s.toml", "--table", made / "t.parquet")
    assert_harmless(shown)
    (line,) = [line for line in shown.splitlines() if line.startswith("Not in the schema")]
    assert all(name in line for name in ("[bold] [/bold] [link=x]", "{{7*7}} {% raw %}", "probability_x"))


REFUSED = {
    "a target that is not there": ("schema", "draft", "t.parquet", "--target", "nope \x1b[31m\u202e", "--out", "d.toml"),
    "a table without the columns": ("fit", "other.csv", "--schema", "t.toml", "--epsilon", "1", "--out", "n.dpf"),
    "a schema as a model": ("rules", "t.toml"),
    "an unknown recipe": ("plan", "--schema", "t.toml", "--epsilon", 1, "--rows", 9, "--recipe", "\x1b[1m[bold]"),
    "a file name with controls": ("rules", "no\x1b[31m\nsuch \u202efile.dpf"),
}


@pytest.mark.parametrize("title", REFUSED)
def test_a_refusal_is_one_harmless_line(title):
    facts = hostile.schema(hostile.classes())
    facts.to_file("t.toml")
    pyarrow.parquet.write_table(hostile.table(facts), "t.parquet")
    Path("other.csv").write_text("\x1b[31mred,\u202eturned\n1,2\n", "utf-8")
    ended = typed(*REFUSED[title])
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("Refused. ")
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 5000
    assert_harmless(ended.err)
