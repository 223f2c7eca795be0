"""A draft holds names and nothing of the rows; a check says what is open."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from dpforest import Schema, load_model
from dpforest.cli import console
from dpforest.cli.main import commands
from dpforest.errors import DPForestError, SchemaError
from dpforest.records import tables
from dpforest.records.columns import read_columns
from dpforest.records.files import parquet_files
from dpforest.records.memory.vault import encode
from dpforest.schema import UNFILLED, unfilled
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "age": rng.integers(1000, 9000, 300),
            "weight": rng.random(300) * 1e6,
            "city": rng.choice(["Xanadu", "Zembla", "Yoknapatawpha"], 300),
            "ill": rng.choice(["perhaps", "certainly"], 300),
        }
    )
    pyarrow.csv.write_csv(table, "t.csv")
    pyarrow.parquet.write_table(table, "t.parquet")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(commands, [*map(str, arguments)])


def read_draft(path):
    text = path.read_text("utf-8")
    return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)


@pytest.mark.parametrize("out", ["d.toml", "d.json"])
@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
def test_a_draft_leaves_open_who_vouches_the_unit_and_the_labels_alone(folder, table, out):
    done = run("schema", "draft", table, "--target", "ill", "--out", out)
    assert done.exit_code == 0, done.output
    assert "To fill in, where there is a '?': vouched_by, one_row_per_person, target.labels." in done.output
    # A type of Parquet says that numbers are whole, a CSV does not.
    whole = {"integer": True} if table == "t.parquet" else {}
    assert read_draft(folder / out) == {
        "vouched_by": UNFILLED,
        "one_row_per_person": UNFILLED,
        "target": {"name": "ill", "kind": "classes", "labels": UNFILLED},
        "features": {"age": {"kind": "numeric", **whole}, "weight": {"kind": "numeric"}, "city": {"kind": "categorical"}},
    }


@pytest.mark.parametrize("out", ["d.toml", "d.json"])
@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
def test_no_value_of_the_table_is_in_a_draft_or_on_the_screen(folder, table, out):
    done = run("schema", "draft", table, "--out", out)
    values = pyarrow.parquet.read_table("t.parquet").to_pydict()
    seen = done.output + (folder / out).read_text("utf-8")
    for column in values.values():
        assert not any(str(value) in seen for value in column)


def test_tables_with_other_values_of_the_same_kind_have_the_same_draft(folder):
    other = pa.table({"age": [1], "weight": [-5.5], "city": ["Lima"], "ill": ["no"]})
    pyarrow.csv.write_csv(other, "u.csv")
    texts = []
    for table in ("t.csv", "u.csv"):
        assert run("schema", "draft", table, "--target", "ill", "--out", f"{table}.toml").exit_code == 0
        texts.append((folder / f"{table}.toml").read_text("utf-8"))
    assert texts[0] == texts[1]


def test_one_stray_value_does_not_change_a_kind(folder):
    (folder / "stray.csv").write_text("age\n" + "1\n" * 50 + "unknown\n", "utf-8")
    run("schema", "draft", "stray.csv")
    assert read_draft(folder / "stray.schema.toml")["features"]["age"]["kind"] == "numeric"


@pytest.mark.parametrize("text", ["a,b\n", "a,b\n,\n"])
def test_a_table_without_values_has_a_draft(folder, text):
    (folder / "e.csv").write_text(text, "utf-8")
    assert run("schema", "draft", "e.csv").exit_code == 0
    assert [*read_draft(folder / "e.schema.toml")["features"]] == ["a", "b"]


def test_a_draft_never_overwrites_a_schema(folder):
    (folder / "t.schema.toml").write_text("filled in with care", "utf-8")
    assert isinstance(run("schema", "draft", "t.csv").exception, DPForestError)
    assert (folder / "t.schema.toml").read_text("utf-8") == "filled in with care"


@pytest.mark.parametrize("arguments", [["nope.csv"], ["t.csv", "--target", "nope"], ["t.csv", "--out", "d.yaml"]])
def test_a_draft_is_refused_where_it_cannot_be_made(folder, arguments):
    assert isinstance(run("schema", "draft", *arguments).exception, DPForestError)
    assert not [*folder.glob("d.*"), *folder.glob("*.toml")]


def test_a_check_lists_all_that_is_open_and_a_fit_is_refused(folder):
    run("schema", "draft", "t.csv", "--target", "ill")
    done = run("schema", "check", "t.schema.toml", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["to_fill_in"] == ["vouched_by", "one_row_per_person", "target.labels"]
    fit = run("fit", "t.csv", "--schema", "t.schema.toml", "--epsilon", 1, "--out", "m.dpf")
    assert isinstance(fit.exception, SchemaError)
    assert "3 of its entries are still '?'" in str(fit.exception)


def test_a_check_of_a_draft_says_how_columns_will_be_read_and_what_could_be_sharper(folder, monkeypatch):
    monkeypatch.setattr(console.output, "width", 200)
    run("schema", "draft", "t.csv", "--target", "ill")
    done = run("schema", "check", "t.schema.toml")
    for words in (
        "│ age          │ numeric     │ any number; where the signal pays, a part of the budget finds where they lie",
        "│ city         │ categorical │ any text, in 64 buckets",
        "│ ill (target) │ classes     │ to be filled in",
        "│ age, weight │ with lower and upper no cut is wasted outside of them",
        "│ city        │ with a public list each value has its own code",
    ):
        assert words in done.stdout
    assert done.stderr.splitlines()[1:] == [
        "  vouched_by", "  one_row_per_person", "  target.labels", "Take them from what is public, not from the rows.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "vouched_by = '?'",
        "vouched_by = '?'\ntarget = 3",
        "[target]\nkind = '?'",
        "features = '?'\n[target]\nname = '?'\nkind = '?'",
    ],
)
def test_a_check_of_a_broken_draft_says_what_is_open(folder, text):
    (folder / "s.toml").write_text(text, "utf-8")
    done = run("schema", "check", "s.toml")
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "still to be filled in" in done.stderr


def filled(path, **entries):
    """Write a draft again with each "?" replaced, and nothing else."""
    text = path.read_text("utf-8")
    for name, value in {"vouched_by": "somebody", "one_row_per_person": True, **entries}.items():
        text = text.replace(f'{name} = "?"', f"{name} = {json.dumps(value)}")
    path.write_text(text, "utf-8")


def test_a_check_names_columns_that_a_table_lacks_and_that_are_not_used(folder):
    content = {
        "target": {"name": "ill", "kind": "classes", "labels": ["no"]},
        "features": {"height": {"kind": "numeric", "lower": 0, "upper": 3}},
    }
    (folder / "t.json").write_text(json.dumps(content), "utf-8")
    done = run("schema", "check", "t.json", "--table", "t.csv", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["missing_columns"] == ["height"]
    assert found["unused_columns"] == ["age", "weight", "city"]


def test_a_label_or_a_column_may_be_called_by_the_mark_of_a_draft():
    content = {
        "target": {"name": UNFILLED, "kind": "classes", "labels": [UNFILLED, "a"], "other": UNFILLED},
        "features": {UNFILLED: {"kind": "categorical", "categories": [UNFILLED]}},
    }
    assert unfilled(content) == []


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_who_vouches_is_kept_in_files(tmp_path, suffix):
    target = {"name": "y", "kind": "classes", "labels": [0, 1]}
    content = {"features": {"x": {"kind": "numeric", "lower": 0, "upper": 1}}, "target": target}
    schema = Schema.from_dict(content | {"vouched_by": 'J. "Doe"\n'})
    schema.to_file(tmp_path / f"s{suffix}")
    assert Schema.from_file(tmp_path / f"s{suffix}") == schema
    with pytest.raises(SchemaError):
        Schema.from_dict(content | {"vouched_by": 3})


PEOPLE = {
    "features": {
        "age": {"kind": "numeric", "lower": 0, "upper": 100},
        "city": {"kind": "categorical", "categories": ["Oslo", "Rome"]},
        "code": {"kind": "categorical", "categories": [1, 2]},
    },
    "target": {"name": "ill", "kind": "classes", "labels": ["Nein", "Ja"]},
}  # fmt: skip
ROWS = """age,city,code,ill,note
12,Oslo,1,Nein,
abc,oslo ,2,nein,
200,Atlantis,x,Ja,
,,,,
"3,14",Rome,1.0, nein,
inf,Rome,7,Ja,
nan,Rome,2,Ja,
"""


def count(folder, *arguments):
    (folder / "p.json").write_text(json.dumps(PEOPLE), "utf-8")
    done = run("schema", "check", "p.json", "--json", *arguments)
    return done.exit_code, json.loads(done.stdout)["table"]


def test_a_check_with_a_table_counts_what_is_readable_and_listed(folder):
    (folder / "p.csv").write_text(ROWS, "utf-8")
    code, found = count(folder, "--table", "p.csv")
    assert (code, found["rows"]) == (0, 7)
    assert "not for publication" in found["not_for_publication"]
    counts = {column["name"]: [*column.values()][2:6] for column in found["columns"]}
    # Within or listed, outside or other, missing, not readable.
    assert counts == {"age": [1, 2, 2, 2], "city": [4, 2, 1, 0], "code": [4, 1, 1, 1], "ill": [4, 2, 1, 0]}
    near = {column["name"]: [[*values.values()] for values in column["near"]] for column in found["columns"]}
    assert near == {
        "age": [],
        "city": [["oslo ", "Oslo", 1]],
        "code": [],
        "ill": [["nein", "Nein", 1], [" nein", "Nein", 1]],
    }


@pytest.mark.parametrize("table", ["b.csv", "b.parquet"])
def test_values_in_buckets_are_counted_and_fitted(folder, table):
    cities = ["Oslo", "", "17", "é"] * 30
    X = pa.table({"city": pa.array([city or None for city in cities]), "ill": ["no", "yes"] * 60})
    pyarrow.csv.write_csv(X, "b.csv")
    pyarrow.parquet.write_table(X, "b.parquet")
    target = {"name": "ill", "kind": "classes", "labels": ["no", "yes"]}
    facts = {"features": {"city": {"kind": "categorical"}}, "target": target}
    (folder / "b.json").write_text(json.dumps(facts), "utf-8")
    assert "any text, in 64 buckets" in run("schema", "check", "b.json", "--table", table).output
    found = json.loads(run("schema", "check", "b.json", "--json", "--table", table).stdout)["table"]["columns"][0]
    assert [found[name] for name in ("listed", "other", "missing", "unreadable")] == [90, 0, 30, 0]
    fitted = run("fit", table, "--schema", "b.json", "--epsilon", 5, "--out", f"{table}.dpf")
    assert fitted.exit_code == 0, fitted.output
    predicted = run("predict", f"{table}.dpf", table, "--out", "p.csv")
    assert predicted.exit_code == 0, predicted.output
    X, _ = tables.read_table("b.csv", Schema.from_file("b.json"), with_target=True)
    expected = load_model(f"{table}.dpf").predict(X)
    assert pyarrow.csv.read_csv("p.csv").column("prediction").to_pylist() == [*expected]


def test_a_check_counts_as_a_fit_reads(folder):
    """The counts of a table are those of the codes that a fit would see."""
    (folder / "p.csv").write_text(ROWS, "utf-8")
    facts = Schema.from_dict(PEOPLE)
    X, _ = tables.read_table("p.csv", facts, with_target=True)
    codes = encode(read_columns(X, facts), Domain.of(facts, Grid()))
    city, code = ({place: int((row == place).sum()) for place in range(4)} for row in codes[1:])
    found = {column["name"]: column for column in count(folder, "--table", "p.csv")[1]["columns"]}
    assert [found["city"][name] for name in ("listed", "other", "missing")] == [city[0] + city[1], city[2], city[3]]
    assert found["code"]["missing"] + found["code"]["unreadable"] == code[3]


def test_numbers_that_stand_for_missing_are_counted_as_missing_however_they_are_written(folder):
    (folder / "n.csv").write_text("x,z,y\n1,999,no\n999,1,yes\n999.0,2,no\n9.99e2,3,no\nsoon,4,no\n,5,no\n", "utf-8")
    content = {"features": {"x": {"kind": "numeric"}, "z": {"kind": "numeric"}}, "format": {"missing_in": {"x": [999]}}}
    content |= {"target": {"name": "y", "kind": "classes", "labels": ["no", "yes"]}}
    (folder / "n.json").write_text(json.dumps(content), "utf-8")
    x, z, _ = json.loads(run("schema", "check", "n.json", "--table", "n.csv", "--json").stdout)["table"]["columns"]
    assert [x[name] for name in ("within", "missing", "unreadable")] == [1, 4, 1]
    assert [z[name] for name in ("within", "missing", "unreadable")] == [6, 0, 0]


def test_labels_that_are_numbers_in_another_writing_are_near(folder):
    (folder / "n.csv").write_text("x,y\n1,0.0\n1,1.0\n1,1\n", "utf-8")
    content = {"features": {"x": {"kind": "numeric", "lower": 0, "upper": 1}}}
    content |= {"target": {"name": "y", "kind": "classes", "labels": ["0", "1"]}}
    (folder / "n.json").write_text(json.dumps(content), "utf-8")
    found = json.loads(run("schema", "check", "n.json", "--table", "n.csv", "--json").stdout)["table"]["columns"][1]
    assert (found["listed"], found["other"]) == (1, 2)
    assert [(near["value"], near["would_match"]) for near in found["near"]] == [("0.0", "0"), ("1.0", "1")]


def test_without_a_table_or_without_its_columns_nothing_is_counted(folder):
    (folder / "p.csv").write_text("age,city\n1,Oslo\n", "utf-8")
    assert count(folder) == (0, None)
    assert count(folder, "--table", "p.csv") == (1, None)


def test_parts_of_a_table_add_up(folder, monkeypatch):
    monkeypatch.setattr(parquet_files, "PART_ROWS", 7)
    rows = pa.table({"age": [1.0, None, float("nan"), 500.0] * 10, "city": ["Oslo", "ROME", None, "x"] * 10})
    rows = rows.append_column("code", pa.array([1, 2, 3, None] * 10)).append_column("ill", pa.array(["Ja"] * 40))
    pyarrow.parquet.write_table(rows, "p.parquet")
    code, found = count(folder, "--table", "p.parquet")
    assert (code, found["rows"]) == (0, 40)
    counts = {column["name"]: [*column.values()][2:6] for column in found["columns"]}
    assert counts == {"age": [10, 10, 20, 0], "city": [10, 20, 10, 0], "code": [20, 10, 10, 0], "ill": [40, 0, 0, 0]}
    assert found["columns"][1]["near"] == [{"value": "ROME", "would_match": "Rome", "values": 10}]


def test_a_column_that_a_fit_would_refuse_by_its_type_is_said_to_be_one(folder):
    rows = pa.table({"age": [1.0], "city": [3], "code": [1], "ill": ["Ja"]})
    pyarrow.parquet.write_table(rows, "p.parquet")
    code, found = count(folder, "--table", "p.parquet")
    assert code == 1
    assert [column["name"] for column in found["columns"] if column["problem"]] == ["city"]
    done = run("schema", "check", "p.json", "--table", "p.parquet")
    assert "Column 'city' holds numbers" in done.stderr


def test_a_table_without_rows_is_counted(folder):
    (folder / "p.csv").write_text("age,city,code,ill\n", "utf-8")
    code, found = count(folder, "--table", "p.csv")
    assert (code, found["rows"]) == (0, 0)


def test_counts_are_shown_as_not_private_and_only_with_a_table(folder):
    (folder / "p.csv").write_text(ROWS, "utf-8")
    count(folder)
    shown = run("schema", "check", "p.json", "--table", "p.csv").output
    assert "Exact counts of the rows, not private" in shown
    assert "ill: 'nein' (1) is not listed, but would match 'Nein'." in shown
    assert "Atlantis" not in shown
    assert "Exact counts" not in run("schema", "check", "p.json").output


def shown(folder, content, rows, encoding="utf-8"):
    (folder / "s.json").write_text(json.dumps(content), "utf-8")
    (folder / "s.csv").write_text(rows, encoding)
    done = run("schema", "check", "s.json", "--table", "s.csv")
    assert done.exit_code == 0, done.output
    return done


def test_a_check_says_loudly_that_no_label_is_listed_and_that_the_number_of_rows_differs(folder):
    small = {"features": {"age": PEOPLE["features"]["age"]}, "target": PEOPLE["target"], "n_rows": 400}
    done = shown(folder, small, "age,ill\n" + "1,0\n" * 5)
    assert "No label of 'ill' is listed: a fit would learn nothing." in done.stderr
    assert "The schema declares 400 rows; the table has 5." in done.output
    done = shown(folder, small | {"n_rows": 5}, "age,ill\n" + "1,Ja\n" * 5)
    assert "a fit would learn nothing" not in done.output
    assert "The schema declares" not in done.output


def test_text_in_another_encoding_is_not_readable(folder):
    content = {
        "features": {"city": {"kind": "categorical", "categories": ["Köln", "Ulm"]}},
        "target": PEOPLE["target"],
    }
    rows = "city,ill\n" + "Köln,Ja\n" * 3 + "Ulm,Ja\nBonn,Ja\n,Ja\n"
    shown(folder, content, rows, "latin-1")
    (city, _) = json.loads(run("schema", "check", "s.json", "--table", "s.csv", "--json").stdout)["table"]["columns"]
    assert [city[name] for name in ("listed", "other", "missing", "unreadable")] == [1, 1, 1, 3]


def test_labels_that_look_alike_are_told_apart(folder):
    city = {"kind": "categorical", "categories": ["0", "JA", "JA ", "", "a b"]}
    content = {"features": {"city": city, "code": {"kind": "categorical", "categories": [0, 1]}}, "target": PEOPLE["target"]}
    done = shown(folder, content | {"vouched_by": "w" * 100}, "city,code,ill\n0,0,Ja\n")
    assert '"0", JA, "JA ", "", a b' in done.output
    assert "0, 1 " in done.output
    assert "www….\n" not in done.output


def write_both(name, columns):
    table = pa.table(columns)
    pyarrow.csv.write_csv(table, f"{name}.csv")
    pyarrow.parquet.write_table(table, f"{name}.parquet")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("target", ["ill", "weight"])
def test_a_draft_with_its_labels_is_enough_for_every_step_up_to_the_report(folder, ending, target):
    table, draft = f"t.{ending}", folder / "t.schema.toml"
    assert run("schema", "draft", table, "--target", target).exit_code == 0
    filled(draft, labels=["perhaps", "certainly"])
    for words in (
        ["schema", "check", draft, "--table", table],
        ["plan", "--schema", draft, "--epsilon", 2, "--rows", 300],
        ["fit", table, "--schema", draft, "--epsilon", 2, "--out", "m.dpf"],
        ["predict", "m.dpf", table, "--out", "p.csv"],
        ["report", "m.dpf", "--out", "r.html"],
    ):
        done = run(*words)
        assert done.exit_code == 0, done.output
    assert pyarrow.csv.read_csv("p.csv").num_rows == 300
    assert "No list: " in (folder / "r.html").read_text("utf-8")


def test_types_of_parquet_say_more_than_text(folder):
    rows = {
        "sick": [True, None],
        "raw": [b"x", b"y"],
        "many": [[1], [2]],
        "price": pa.array([1, 2], pa.decimal128(5, 2)),
        "n": [1, 2],
    }
    pyarrow.parquet.write_table(pa.table(rows), "k.parquet")
    done = run("schema", "draft", "k.parquet", "--target", "sick")
    assert "Left out, since their type holds neither numbers nor text nor dates: raw, many." in done.output
    draft = read_draft(folder / "k.schema.toml")
    assert draft["target"] == {"name": "sick", "kind": "classes", "labels": [False, True]}
    assert draft["features"] == {"price": {"kind": "numeric"}, "n": {"kind": "numeric", "integer": True}}
    assert unfilled(draft) == ["vouched_by", "one_row_per_person"]
    run("schema", "draft", "k.parquet", "--target", "n", "--out", "n.toml")
    draft = read_draft(folder / "n.toml")
    assert draft["target"] == {"name": "n", "kind": "bounded"}
    assert draft["features"]["sick"] == {"kind": "categorical", "categories": [False, True]}
    refused = run("schema", "draft", "k.parquet", "--target", "raw", "--out", "r.toml")
    assert "cannot be the target by its type" in str(refused.exception)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_wide_table_has_a_short_draft_from_which_all_follows(folder, ending):
    rng = np.random.default_rng(0)
    columns = {f"gene{number}": rng.random(80) for number in range(120)}
    columns |= {"age": rng.integers(0, 90, 80), "ill": rng.choice(["a", "b"], 80)}
    write_both("w", columns)
    assert run("schema", "draft", f"w.{ending}", "--target", "ill").exit_code == 0
    assert [*read_draft(folder / "w.schema.toml")["features"]] == ["gene*", "age"]
    filled(folder / "w.schema.toml", labels=["a", "b"])
    shown = run("schema", "check", "w.schema.toml", "--table", f"w.{ending}").output
    assert "gene* (120 columns)" in shown
    asked = ["plan", "--schema", "w.schema.toml", "--epsilon", 1, "--rows", 80]
    assert "dpforest plan --table TABLE" in str(run(*asked).exception)
    assert run(*asked, "--table", f"w.{ending}").exit_code == 0
    fit = run("fit", f"w.{ending}", "--schema", "w.schema.toml", "--epsilon", 1, "--out", "w.dpf")
    assert fit.exit_code == 0, fit.output
    assert load_model("w.dpf").schema_.n_features == 121


def test_a_pattern_that_matches_nothing_is_a_missing_column(folder):
    target = {"name": "ill", "kind": "classes", "labels": ["no", "yes"]}
    content = {"target": target, "features": {"nose_*": {"kind": "numeric"}}}
    (folder / "n.json").write_text(json.dumps(content), "utf-8")
    done = run("schema", "check", "n.json", "--table", "t.csv")
    assert done.exit_code == 1
    assert "The table has no column that matches 'nose_*'." in done.stderr
    fit = run("fit", "t.csv", "--schema", "n.json", "--epsilon", 1, "--out", "m.dpf")
    assert "matches no column of t.csv that is not named otherwise" in str(fit.exception)


def test_ids_of_persons_match_no_pattern(folder):
    write_both("g", {"x1": [1.0, 2.0], "x2": [1.0, 2.0], "xid": ["a", "b"], "ill": ["no", "no"]})
    content = {
        "target": {"name": "ill", "kind": "classes", "labels": ["no", "yes"]},
        "features": {"x*": {"kind": "numeric"}},
    }
    (folder / "g.json").write_text(json.dumps(content), "utf-8")
    for ending in ("csv", "parquet"):
        more = ["--groups", "xid", "--max-rows-per-person", 1, "--out", f"{ending}.dpf"]
        done = run("fit", f"g.{ending}", "--schema", "g.json", "--epsilon", 1, *more)
        assert done.exit_code == 0, done.exception
        assert [*load_model(f"{ending}.dpf").schema_.features] == ["x1", "x2"]
