"""A draft holds names and nothing of the rows; a check says what is open."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.cli.command import done, fill_in, refused, run, typed

from dpforest import Schema, load_model
from dpforest.cli import console
from dpforest.records import doors
from dpforest.records.columns import read_columns
from dpforest.records.encoding import encode
from dpforest.records.sources import arrow
from dpforest.schema import UNFILLED, unfilled
from dpforest.schema.domain import Domain, Grid

pytestmark = pytest.mark.slow


def write_both(name, columns):
    table = pa.table(columns)
    pyarrow.csv.write_csv(table, f"{name}.csv")
    pyarrow.parquet.write_table(table, f"{name}.parquet")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.integers(1000, 9000, 300),
        "weight": rng.random(300) * 1e6,
        "city": rng.choice(["Xanadu", "Zembla", "Yoknapatawpha"], 300),
        "ill": rng.choice(["perhaps", "certainly"], 300),
    }
    write_both("t", columns)
    return tmp_path


def read_draft(path):
    text = path.read_text("utf-8")
    return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)


@pytest.mark.parametrize("out", ["d.toml", "d.json"])
@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
def test_a_draft_leaves_three_entries_open_and_holds_no_value(folder, table, out):
    said = done("schema", "draft", table, "--target", "ill", "--out", out)
    assert "To fill in, where there is a '?': vouched_by, one_row_per_person, target.labels." in said
    # A type of Parquet says that numbers are whole, a CSV does not.
    whole = {"integer": True} if table == "t.parquet" else {}
    assert read_draft(folder / out) == {
        "vouched_by": UNFILLED,
        "one_row_per_person": UNFILLED,
        "target": {"name": "ill", "kind": "classes", "labels": UNFILLED},
        "features": {"age": {"kind": "numeric", **whole}, "weight": {"kind": "numeric"}, "city": {"kind": "categorical"}},
    }
    seen = said + (folder / out).read_text("utf-8") + done("schema", "draft", table, "--out", f"none.{out}")
    seen += (folder / f"none.{out}").read_text("utf-8")
    values = pyarrow.parquet.read_table("t.parquet").to_pydict().values()
    assert not [value for column in values for value in column if str(value) in seen]


@pytest.mark.parametrize("rows", ["1,x\n" * 50 + "unknown,y\n", "", ",\n"], ids=["a stray value", "no rows", "no values"])
def test_a_draft_takes_stray_values_and_none(folder, rows):
    (folder / "e.csv").write_text(f"a,b\n{rows}", "utf-8")
    done("schema", "draft", "e.csv")
    kinds = {name: part["kind"] for name, part in read_draft(folder / "e.schema.toml")["features"].items()}
    assert [*kinds] == ["a", "b"]
    assert kinds["a"] == "numeric" or "unknown" not in rows


def test_a_draft_never_overwrites_a_schema(folder):
    (folder / "t.schema.toml").write_text("filled in with care", "utf-8")
    assert refused("schema", "draft", "t.csv")
    assert (folder / "t.schema.toml").read_text("utf-8") == "filled in with care"


def test_a_check_of_a_draft_says_what_is_open_and_what_could_be_sharper(folder, monkeypatch):
    monkeypatch.setattr(console.output, "width", 200)
    done("schema", "draft", "t.csv", "--target", "ill")
    found, listed = run("schema", "check", "t.schema.toml"), ["vouched_by", "one_row_per_person", "target.labels"]
    for words in (
        "│ age          │ numeric     │ any number; where the signal pays, a part of the budget finds where they lie",
        "│ city         │ categorical │ any text, in 64 buckets",
        "│ ill (target) │ classes     │ to be filled in",
        "│ age, weight │ with lower and upper no cut is wasted outside of them",
        "│ city        │ with a public list each value has its own code",
    ):
        assert words in found.stdout
    last = "Take them from what is public, not from the rows."
    assert found.stderr.splitlines()[1:] == [*(f"  {entry}" for entry in listed), last]
    found = run("schema", "check", "t.schema.toml", "--json")
    assert (found.exit_code, json.loads(found.stdout)["to_fill_in"]) == (1, listed)
    said = refused("fit", "t.csv", "--schema", "t.schema.toml", "--epsilon", 1, "--out", "m.dpf")
    assert "3 of its entries are still '?'" in said


@pytest.mark.parametrize(
    "text",
    ["vouched_by = '?'", "vouched_by = '?'\ntarget = 3", "[target]\nkind = '?'",
     "features = '?'\n[target]\nname = '?'\nkind = '?'"],
)  # fmt: skip
def test_a_check_of_a_broken_draft_says_what_is_open(folder, text):
    (folder / "s.toml").write_text(text, "utf-8")
    found = run("schema", "check", "s.toml")
    assert (found.exit_code, type(found.exception)) == (1, SystemExit)
    assert "still to be filled in" in found.stderr


def content(features, target=None, **more):
    """A schema as a file holds it, of an illness that is classified."""
    return {"features": features, "target": target or {"name": "ill", "kind": "classes", "labels": ["no", "yes"]}, **more}


def test_a_check_names_columns_that_a_table_lacks_and_that_are_not_used(folder):
    facts = content({"height": {"kind": "numeric", "lower": 0, "upper": 3}, "nose_*": {"kind": "numeric"}})
    (folder / "t.json").write_text(json.dumps(facts), "utf-8")
    checked = run("schema", "check", "t.json", "--table", "t.csv", "--json")
    assert checked.exit_code == 1
    assert json.loads(checked.stdout)["missing_columns"][0] == "height"
    assert json.loads(checked.stdout)["unused_columns"] == ["age", "weight", "city"]
    ended = typed("schema", "check", "t.json", "--table", "t.csv")
    assert ended.err.startswith("Refused. The table has no column 'height'.")
    assert "The table has no column that matches 'nose_*'." in ended.err
    assert ended.err.endswith("It was read by separator ',', encoding utf-8.\n")
    said = refused("fit", "t.csv", "--schema", "t.json", "--epsilon", 1, "--out", "m.dpf")
    assert "matches no column of t.csv that is not named otherwise" in said


def test_a_label_or_a_column_may_be_called_by_the_mark_of_a_draft():
    content = {
        "target": {"name": UNFILLED, "kind": "classes", "labels": [UNFILLED, "a"], "other": UNFILLED},
        "features": {UNFILLED: {"kind": "categorical", "categories": [UNFILLED]}},
    }
    assert unfilled(content) == []


PEOPLE = content(
    {
        "age": {"kind": "numeric", "lower": 0, "upper": 100},
        "city": {"kind": "categorical", "categories": ["Oslo", "Rome"]},
        "code": {"kind": "categorical", "categories": [1, 2]},
    },
    {"name": "ill", "kind": "classes", "labels": ["Nein", "Ja"]},
)
ROWS = """age,city,code,ill,note
12,Oslo,1,Nein,
abc,oslo ,2,nein,
200,Atlantis,x,Ja,
,,,,
"3,14",Rome,1.0, nein,
inf,Rome,7,Ja,
nan,Rome,2,Ja,
"""


NUMBERS = ("within", "outside", "missing", "unreadable")
WORDS = ("listed", "other", "missing", "unreadable")


def count(folder, *arguments, facts=PEOPLE):
    """The exit code of a check, and the counts of its table."""
    (folder / "p.json").write_text(json.dumps(facts), "utf-8")
    checked = run("schema", "check", "p.json", "--json", *arguments)
    return checked.exit_code, json.loads(checked.stdout)["table"]


def columns(folder, text, facts=PEOPLE, encoding="utf-8"):
    """What a check counts of each column of a text file."""
    (folder / "p.csv").write_text(text, encoding)
    return {column["name"]: column for column in count(folder, "--table", "p.csv", facts=facts)[1]["columns"]}


def test_a_check_counts_what_is_listed_and_says_that_counts_are_not_private(folder):
    (folder / "p.csv").write_text(ROWS, "utf-8")
    code, found = count(folder, "--table", "p.csv")
    assert (code, found["rows"]) == (0, 7)
    assert "not for publication" in found["not_for_publication"]
    counts = {column["name"]: [*column.values()][2:6] for column in found["columns"]}
    # Within or listed, outside or other, missing, not readable.
    assert counts == {"age": [1, 2, 2, 2], "city": [4, 2, 1, 0], "code": [4, 1, 1, 1], "ill": [4, 2, 1, 0]}
    near = {column["name"]: [[*values.values()] for values in column["near"]] for column in found["columns"]}
    assert (near["age"], near["city"], near["code"]) == ([], [["oslo ", "Oslo", 1]], [])
    assert near["ill"] == [["nein", "Nein", 1], [" nein", "Nein", 1]]
    shown = run("schema", "check", "p.json", "--table", "p.csv").output
    assert "Exact counts of the rows, not private" in shown
    assert "ill: 'nein' (1) is not listed, but would match 'Nein'." in shown
    assert "Atlantis" not in shown
    assert "Exact counts" not in done("schema", "check", "p.json")


@pytest.mark.parametrize("table", ["b.csv", "b.parquet"])
def test_values_in_buckets_are_counted(folder, table):
    cities = ["Oslo", "", "17", "é"] * 30
    write_both("b", {"city": pa.array([city or None for city in cities]), "ill": ["no", "yes"] * 60})
    (folder / "b.json").write_text(json.dumps(content({"city": {"kind": "categorical"}})), "utf-8")
    assert "any text, in 64 buckets" in done("schema", "check", "b.json", "--table", table)
    found = json.loads(done("schema", "check", "b.json", "--json", "--table", table))["table"]["columns"][0]
    assert [found[name] for name in WORDS] == [90, 0, 30, 0]


def test_a_check_counts_as_a_fit_reads(folder):
    """The counts of a table are those of the codes that a fit would see."""
    found, facts = columns(folder, ROWS), Schema.from_dict(PEOPLE)
    X, _ = doors.read_table("p.csv", facts, with_target=True)
    codes = encode(read_columns(X, facts), Domain.of(facts, Grid()))
    city, code = ({place: int((row == place).sum()) for place in range(4)} for row in codes[1:])
    assert [found["city"][name] for name in ("listed", "other", "missing")] == [city[0] + city[1], city[2], city[3]]
    assert found["code"]["missing"] + found["code"]["unreadable"] == code[3]


def test_numbers_that_stand_for_missing_are_counted_as_missing_however_they_are_written(folder):
    facts = content({"x": {"kind": "numeric"}, "z": {"kind": "numeric"}}, format={"missing_in": {"x": [999]}})
    rows = "x,z,ill\n1,999,no\n999,1,yes\n999.0,2,no\n9.99e2,3,no\nsoon,4,no\n,5,no\n"
    found = columns(folder, rows, facts)
    assert [found["x"][name] for name in NUMBERS] == [1, 0, 4, 1]
    assert [found["z"][name] for name in NUMBERS] == [6, 0, 0, 0]


def test_dates_that_fit_are_counted_and_text_that_is_none(folder):
    seen = {"kind": "date", "lower": "2020-01-01", "upper": "2024-12-31", "time": True}
    cells = [
        "2024-02-29T10:20:30Z",
        "2024-02-29 10:20",
        "2020-01-01T00:00:00+01:00",
        "yesterday",
        "",
        "1990-01-01",
        "\u0664",
    ]
    found = columns(folder, "seen,ill\n" + "".join(f"{cell},no\n" for cell in cells), content({"seen": seen}))["seen"]
    assert (found["kind"], [found[name] for name in NUMBERS]) == ("date", [2, 2, 1, 2])


def test_labels_that_are_numbers_in_another_writing_are_near(folder):
    labels = {"name": "ill", "kind": "classes", "labels": ["0", "1"]}
    found = columns(folder, "x,ill\n1,0.0\n1,1.0\n1,1\n", content({"x": {"kind": "numeric"}}, labels))["ill"]
    assert (found["listed"], found["other"]) == (1, 2)
    assert [(near["value"], near["would_match"]) for near in found["near"]] == [("0.0", "0"), ("1.0", "1")]


def test_text_in_another_encoding_is_not_readable(folder):
    facts = content({"city": {"kind": "categorical", "categories": ["Köln", "Ulm"]}}, PEOPLE["target"])
    found = columns(folder, "city,ill\n" + "Köln,Ja\n" * 3 + "Ulm,Ja\nBonn,Ja\n,Ja\n", facts, "latin-1")
    assert [found["city"][name] for name in WORDS] == [1, 1, 1, 3]


def test_without_a_table_or_its_columns_or_rows_nothing_is_counted(folder):
    (folder / "p.csv").write_text("age,city\n1,Oslo\n", "utf-8")
    assert count(folder) == (0, None)
    assert count(folder, "--table", "p.csv") == (1, None)
    (folder / "p.csv").write_text("age,city,code,ill\n", "utf-8")
    code, found = count(folder, "--table", "p.csv")
    assert (code, found["rows"]) == (0, 0)


def test_parts_of_a_table_add_up(folder, monkeypatch):
    monkeypatch.setattr(arrow, "PART_ROWS", 7)
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
    assert "Column 'city' holds numbers" in run("schema", "check", "p.json", "--table", "p.parquet").stderr


def checked(folder, facts, rows):
    """What a check of a text file says, with its warnings."""
    (folder / "s.json").write_text(json.dumps(facts), "utf-8")
    (folder / "s.csv").write_text(rows, "utf-8")
    found = run("schema", "check", "s.json", "--table", "s.csv")
    assert found.exit_code == 0, found.output
    return found


def test_a_check_says_loudly_that_no_label_is_listed_and_that_the_number_of_rows_differs(folder):
    small = content({"age": PEOPLE["features"]["age"]}, PEOPLE["target"], n_rows=400)
    found = checked(folder, small, "age,ill\n" + "1,0\n" * 5)
    assert "No label of 'ill' is listed: a fit would learn nothing." in found.stderr
    assert "The schema declares 400 rows; the table has 5." in found.output
    said = checked(folder, small | {"n_rows": 5}, "age,ill\n" + "1,Ja\n" * 5).output
    assert "a fit would learn nothing" not in said
    assert "The schema declares" not in said


def test_labels_that_look_alike_are_told_apart(folder):
    city = {"kind": "categorical", "categories": ["0", "JA", "JA ", "", "a b"]}
    facts = content({"city": city, "code": {"kind": "categorical", "categories": [0, 1]}}, PEOPLE["target"])
    said = checked(folder, facts | {"vouched_by": "w" * 100}, "city,code,ill\n0,0,Ja\n").output
    assert '"0", JA, "JA ", "", a b' in said
    assert "0, 1 " in said
    assert "www….\n" not in said


def test_types_of_parquet_say_more_than_text(folder):
    rows = {
        "sick": [True, None],
        "raw": [b"x", b"y"],
        "many": [[1], [2]],
        "price": pa.array([1, 2], pa.decimal128(5, 2)),
        "n": [1, 2],
    }
    pyarrow.parquet.write_table(pa.table(rows), "k.parquet")
    said = done("schema", "draft", "k.parquet", "--target", "sick")
    assert "Left out, since their type holds neither numbers nor text nor dates: raw, many." in said
    draft = read_draft(folder / "k.schema.toml")
    assert draft["target"] == {"name": "sick", "kind": "classes", "labels": [False, True]}
    assert draft["features"] == {"price": {"kind": "numeric"}, "n": {"kind": "numeric", "integer": True}}
    assert unfilled(draft) == ["vouched_by", "one_row_per_person"]
    run("schema", "draft", "k.parquet", "--target", "n", "--out", "n.toml")
    draft = read_draft(folder / "n.toml")
    assert draft["target"] == {"name": "n", "kind": "bounded"}
    assert draft["features"]["sick"] == {"kind": "categorical", "categories": [False, True]}
    said = refused("schema", "draft", "k.parquet", "--target", "raw", "--out", "r.toml")
    assert "cannot be the target by its type" in said


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_wide_table_has_a_short_draft_from_which_all_follows(folder, ending):
    rng = np.random.default_rng(0)
    columns = {f"gene{number}": rng.random(80) for number in range(120)}
    columns |= {"age": rng.integers(0, 90, 80), "ill": rng.choice(["a", "b"], 80)}
    write_both("w", columns)
    done("schema", "draft", f"w.{ending}", "--target", "ill")
    assert [*read_draft(folder / "w.schema.toml")["features"]] == ["gene*", "age"]
    fill_in(folder / "w.schema.toml", labels=["a", "b"])
    assert "gene* (120 columns)" in done("schema", "check", "w.schema.toml", "--table", f"w.{ending}")
    asked = ["plan", "--schema", "w.schema.toml", "--epsilon", 1, "--rows", 80]
    assert "dpforest plan --table TABLE" in refused(*asked)
    done(*asked, "--table", f"w.{ending}")
    done("fit", f"w.{ending}", "--schema", "w.schema.toml", "--epsilon", 1, "--out", "w.dpf")
    assert load_model("w.dpf").schema_.n_features == 121
