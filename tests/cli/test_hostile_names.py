"""Names, categories and labels can hold anything: every command, page, file and picture takes them as they are."""

import csv
import io
import json
from contextlib import chdir
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from rich.cells import cell_len
from tests.cli import hostile
from tests.cli.command import done, typed
from tests.cli.hostile import assert_harmless

from dpforest import Schema, load_model

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
