"""From a table as it is to predictions: drafted, filled in, checked, fitted, and read as pandas reads it."""

import gzip
import json
import math

import numpy as np
import pandas as pd
import pyarrow.csv
import pyreadstat
import pytest
from tests.cli.command import fill_in, refused, run

from dpforest import Bounded, Categorical, Classes, Date, DPForestClassifier, Numeric, Schema, load_model
from dpforest.common.text import figure
from dpforest.records.doors import open_source
from dpforest.records.source import Asked, joined
from dpforest.schema import Format

pytestmark = pytest.mark.slow

WORDS = ["NA", "NULL", "None", "nan", "n/a", ""]


def done(*arguments):
    """What a command printed that ended well; about the unit of these schemas it may warn."""
    found = run(*arguments)
    assert found.exit_code == 0, found.output + str(found.exception)
    return found.stdout


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def messy_rows(n_rows=400, seed=0):
    """Rows of cells of an export with every trouble; the illness follows from the height."""
    draw = np.random.default_rng(seed)
    rows = []
    for place in range(n_rows):
        height, smokes = draw.uniform(1.4, 2.0), bool(draw.integers(2))
        income = draw.integers(1_000, 90_000) + 0.25
        rows.append([
            f"{height:.2f}".replace(".", ","),
            "-" if place % 5 == 0 else f"{income:,.2f}".translate(str.maketrans(",.", ".,")),
            str(draw.choice(["DE", "NA", "AT", "?"])),
            str(draw.choice(["01", "02", "1.0", "1", "TRUE"])),
            "TRUE" if smokes else "FALSE",
            "999" if place % 7 == 0 else str(draw.integers(18, 90)),
            str(draw.choice(["2020-01-02", "2021-05-06", "", "NULL"])),
            '"a; ""b""\nc"' if place % 9 == 0 else "Müller",
            "ja" if height > 1.7 else "nein",
        ])  # fmt: skip
    return rows


NAMES = ["Größe", "Einkommen", "Land", "Code", "raucht", "Alter", "Tag", "Notiz", "krank"]


def write_messy(path, encoding="windows-1252", rows=None):
    lines = [";".join(NAMES), *(";".join(row) for row in rows or messy_rows())]
    content = "\r\n".join(lines).encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize(("name", "encoding"), [("t.csv", "windows-1252"), ("t.csv.gz", "utf-8-sig"), ("t.txt", "utf-16")])
def test_an_export_with_every_trouble_takes_two_edits_and_gives_a_model(folder, name, encoding):
    write_messy(folder / name, encoding)
    said = done("schema", "draft", name, "--target", "krank", "--out", "s.toml")
    assert "To fill in, where there is a '?': vouched_by, one_row_per_person, target.labels." in said
    fill_in(folder / "s.toml", labels=["ja", "nein"])
    schema = Schema.from_file("s.toml")
    stored = {"utf-8-sig": "utf-8"}.get(encoding, encoding)
    assert schema.format == Format(";", stored, ",", ".", ("-", "?"), {"Alter": ("999",)})
    assert [*schema.features] == NAMES[:-1]
    assert [part.kind for part in schema.features.values()] == ["numeric"] * 2 + ["categorical"] * 3 + [
        "numeric",
        "date",
        "categorical",
    ]
    assert schema.features["raucht"] == Categorical([False, True])
    checked = json.loads(done("schema", "check", "s.toml", "--table", name, "--json"))
    columns = {column["name"]: column for column in checked["table"]["columns"]}
    assert checked["table"]["rows"] == 400
    assert all(column["unreadable"] == 0 for column in columns.values())
    assert (columns["Einkommen"]["missing"], columns["Alter"]["missing"]) == (80, 58)
    done("fit", name, "--schema", "s.toml", "--epsilon", 1000, "--out", "m.dpf")
    done("predict", "m.dpf", name, "--out", "p.csv")
    predicted = pyarrow.csv.read_csv("p.csv").column("prediction").to_pylist()
    assert np.mean([row[-1] == label for row, label in zip(messy_rows(), predicted, strict=True)]) > 0.8
    assert "accuracy" in done("evaluate", "m.dpf", name, "--public")


def test_a_model_reads_new_files_as_its_schema_says_and_options_win_over_it(folder):
    write_messy(folder / "t.csv")
    fitted(folder)
    rows = messy_rows(seed=1)
    write_messy(folder / "new.csv", "windows-1252", rows)
    write_messy(folder / "new.txt", "utf-16", rows)
    (folder / "new.tsv").write_text("\n".join("\t".join(row) for row in [NAMES, *rows]), "utf-8")
    done("predict", "m.dpf", "new.csv", "--out", "a.csv")
    done("predict", "m.dpf", "new.txt", "--encoding", "utf-16", "--out", "b.csv")
    done("predict", "m.dpf", "new.tsv", "--encoding", "utf-8", "--sep", "tab", "--out", "c.csv")
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes() == (folder / "c.csv").read_bytes()
    done("predict", "m.dpf", "new.csv", "--na", "Größe=1,50", "--out", "d.csv")
    assert (folder / "d.csv").read_bytes() != (folder / "a.csv").read_bytes()


FEATURES = {
    "Größe": Numeric(1, 2.5), "Einkommen": Numeric(), "Land": Categorical(["DE", "NA"]), "Code": Categorical(),
    "raucht": Categorical([False, True]), "Alter": Numeric(), "Tag": Date(), "Notiz": Categorical(),
}  # fmt: skip
FORMAT = Format(";", "windows-1252", ",", ".", ("-", "?"), {"Alter": ("999",)})
SCHEMA = Schema(FEATURES, Classes(["ja", "nein"], name="krank"), format=FORMAT)


def fitted(folder, table="t.csv", schema=SCHEMA):
    schema.to_file(folder / "s.toml")
    done("fit", table, "--schema", "s.toml", "--epsilon", 50, "--out", "m.dpf")
    return load_model(folder / "m.dpf")


def same_predictions(model, path, frame):
    """Whether the command line predicts for a file what the model predicts for a frame of pandas."""
    done("predict", "m.dpf", path, "--out", "p.parquet")
    found = pd.read_parquet("p.parquet")
    frame = frame[[*model.schema_.features]]
    expected = model.predict_proba(frame)
    assert len(np.unique(expected, axis=0)) > 20  # else anything would do
    np.testing.assert_array_equal(found.iloc[:, 1:].to_numpy(), expected)


def test_pandas_reads_a_text_file_as_the_command_line_does(folder):
    write_messy(folder / "t.csv")
    model = fitted(folder)
    frame = pd.read_csv("t.csv", **SCHEMA.for_pandas())
    same_predictions(model, "t.csv", frame)
    # Words for missing, and one that is listed.
    assert set(frame["Land"].dropna()) == {"DE", "NA", "AT"}


PLAIN = Schema(
    {"x": Numeric(), "n": Numeric(), "word": Categorical(["a", "b", "c"]), "bucket": Categorical(),
     "code": Categorical([1, 2, 3]), "truth": Categorical([False, True]), "day": Date(), "moment": Date(time=True)},
    Classes(["high", "low"], name="y"),
)  # fmt: skip


def plain_frame(n_rows=400):
    """A table that pandas holds, with missing whole numbers, words that look like missing, truth values and dates."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({
        "x": draw.normal(size=n_rows).round(3), "n": draw.integers(0, 50, n_rows).astype(float),
        "word": draw.choice(["a", "b", "c", "z"], n_rows), "bucket": draw.choice(["u", "v", "w", "é", "1 2"], n_rows),
        "code": draw.integers(0, 5, n_rows).astype(float), "truth": draw.integers(0, 2, n_rows).astype(bool),
        "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(draw.integers(0, 3000, n_rows), "D"),
        "moment": pd.to_datetime("2020-01-01") + pd.to_timedelta(draw.integers(0, 10**8, n_rows), "s"),
    })  # fmt: skip
    frame["y"] = np.where(frame["x"] * 2 + frame["truth"] * 3 + frame["n"] / 10 > 4, "high", "low")
    for column in ("x", "n", "code"):
        frame.loc[draw.random(n_rows) < 0.1, column] = np.nan
    for column in ("word", "bucket"):
        frame.loc[draw.random(n_rows) < 0.1, column] = None
    return frame


# How pandas writes and reads each kind. Booleans of Stata and SPSS are the numbers 1 and 0.
KINDS = {
    ".csv": (lambda frame, path: frame.to_csv(path, index=False, na_rep="NULL"), pd.read_csv),
    ".xlsx": (lambda frame, path: frame.to_excel(path, index=False), lambda path: pd.read_excel(path, engine="calamine")),
    ".jsonl": (lambda frame, path: frame.to_json(path, orient="records", lines=True, date_format="iso"),
               lambda path: pd.read_json(path, lines=True, convert_dates=["day", "moment"])),
    ".feather": (pd.DataFrame.to_feather, pd.read_feather),
    ".parquet": (pd.DataFrame.to_parquet, pd.read_parquet),
    ".dta": (lambda frame, path: frame.assign(word=frame["word"].astype("category"), bucket=frame["bucket"].fillna(""))
             .to_stata(path, write_index=False, convert_dates={"day": "td", "moment": "tc"}), pd.read_stata),
    ".sav": (lambda frame, path: pyreadstat.write_sav(
        frame.assign(truth=frame["truth"].astype(float), bucket=frame["bucket"].fillna("")), path), pd.read_spss),
}  # fmt: skip


def write_frame(frame, path):
    KINDS[path.suffix][0](frame, path)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_goes_all_the_way_and_is_read_as_pandas_reads_it(folder, kind):
    path = folder / f"t{kind}"
    write_frame(plain_frame(), path)
    done("schema", "draft", path.name, "--target", "y", "--out", "s.toml")
    fill_in(folder / "s.toml", labels=["high", "low"])
    schema = Schema.from_file("s.toml")
    kinds = {"x": "numeric", "n": "numeric", "word": "categorical", "bucket": "categorical", "code": "numeric"}
    assert {name: schema.features[name].kind for name in kinds} == kinds
    assert schema.features["moment"] == Date(time=True)
    checked = json.loads(done("schema", "check", "s.toml", "--table", path.name, "--json"))
    assert [column["problem"] for column in checked["table"]["columns"]] == [None] * 9
    for facts in (schema, PLAIN):
        model, frame = fitted(folder, path.name, facts), KINDS[kind][1](path)
        if kind == ".csv":  # text is read as dates wherever it comes from
            frame = frame.astype({"day": "str", "moment": "str"})
        same_predictions(model, path, frame)
        (folder / "m.dpf").rename("used.dpf")
    assert "rows" in done("evaluate", "used.dpf", path.name, "--epsilon", 5)


def test_what_pandas_loses_it_keeps_by_the_arguments_of_the_schema(folder):
    """Left alone, pandas turns codes such as 01 into numbers, and truth values into 1 and 0."""
    cells = ["01", "1", "1.0", "TRUE", "true", *WORDS] * 20
    (folder / "t.csv").write_text("c,d,y\n" + "".join(f"{cell},{cell[:2]},{n % 2}\n" for n, cell in enumerate(cells)))
    schema = Schema({"c": Categorical(), "d": Categorical(["01", "1"])}, Bounded(0, 1, name="y"))
    read = joined(open_source("t.csv").chunks(Asked(schema))).features.to_pandas()
    frame = pd.read_csv("t.csv", **schema.for_pandas())[["c", "d"]]
    assert frame.where(frame.notna(), None).to_dict("list") == read.where(read.notna(), None).to_dict("list")


def test_dates_of_another_order_are_read_alike(folder):
    rows = "".join(f"{n % 28 + 1}.{n % 12 + 1}.{2000 + n % 20},{n % 2}\n" for n in range(200)) + "NA,1\nsoon,0\n"
    (folder / "t.csv").write_text(f"d,y\n{rows}")
    schema = Schema({"d": Date()}, Classes([0, 1], name="y"), format=Format(dates="dmy"))
    read = joined(open_source("t.csv", schema.format).chunks(Asked(schema))).features
    frame = pd.read_csv("t.csv", **schema.for_pandas())[["d"]]
    model = DPForestClassifier(schema, epsilon=math.inf).fit(frame, pd.read_csv("t.csv")["y"])
    assert model.predict_proba(read).tolist() == model.predict_proba(frame).tolist()
    assert len(np.unique(model.predict_proba(read), axis=0)) > 2


@pytest.mark.parametrize("kind", [".csv", ".xlsx", ".jsonl", ".feather", ".sav"])
def test_ids_of_persons_come_from_every_kind_of_file(folder, kind):
    write_frame(plain_frame().assign(person=[f"p{place % 50}" for place in range(400)]), folder / f"t{kind}")
    Schema({"x": Numeric()}, PLAIN.target).to_file("s.toml")
    asked = ("fit", f"t{kind}", "--schema", "s.toml", "--epsilon", 5, "--out", "m.dpf", "--max-rows-per-person", 2)
    if kind != ".jsonl":  # where a row may lack a name that others have
        assert "'nobody'" in refused(*asked, "--groups", "nobody")
    assert "one person" in done(*asked, "--groups", "person")


def test_a_line_is_named_by_check_draft_and_predict_but_not_by_fit(folder):
    write_messy(folder / "t.csv")
    fitted(folder)
    rows = messy_rows(20)
    write_messy(folder / "bad.csv", rows=[*rows[:5], rows[5][:-1], *rows[6:]])
    named = "The row that begins in line 8 has 8 cells, and there are 9 names."
    for command in ("schema check s.toml --table bad.csv", "schema draft bad.csv --out d.toml",
                    "predict m.dpf bad.csv --out p.csv", "evaluate m.dpf bad.csv --public"):  # fmt: skip
        assert named in refused(*command.split()), command
    for command in ("fit bad.csv --schema s.toml --epsilon 1 --out n.dpf", "evaluate m.dpf bad.csv --epsilon 1"):
        said = refused(*command.split())
        assert "separator ';', encoding windows-1252" in said
        assert "schema check SCHEMA --table FILE' names the line" in said
        assert "line 8" not in said


def test_a_file_that_is_written_otherwise_is_answered_by_options(folder):
    write_messy(folder / "t.csv", "utf-8")
    Schema(FEATURES, SCHEMA.target).to_file("s.json")
    assert "pass --sep ';'" in run("schema", "check", "s.json", "--table", "t.csv").stderr
    assert "pass --sep ';'" in refused("fit", "t.csv", "--schema", "s.json", "--epsilon", 1, "--out", "m.dpf")
    for option, words in (("--sep=;;", "one character"), ("--encoding=utf-7", "not read"), ("--decimal=x", "decimal")):
        assert words in refused("schema", "check", "s.json", "--table", "t.csv", option)
    Schema({"*": Categorical()}, SCHEMA.target).to_file("s.json")
    done("plan", "--schema", "s.json", "--epsilon", 1, "--rows", 1000, "--table", "t.csv", "--sep", ";")


def test_a_slip_in_a_file_or_a_name_is_answered_by_what_to_write(folder):
    (folder / "s.toml").write_text("labels = [no, yes]")
    assert 'Text stands in quotes, as in labels = ["no", "yes"].' in refused("schema", "check", "s.toml")
    (folder / "t.csv").write_text("x,Label\n1,a\n")
    assert refused("schema", "draft", "t.csv", "--target", "label", "--out", "d.toml").endswith("Is it 'Label'?")
    said = refused("schema", "draft", "bank.duckdb::credit")
    assert "named as duckdb:///bank.duckdb::credit, not as bank.duckdb::credit" in said


def test_labels_that_are_not_listed_are_told_before_anything_is_spent(folder):
    (folder / "t.csv").write_text("x,y\n" + "1,a\n2,b\n3,c\n" * 10)
    Schema({"x": Numeric()}, Classes(["a", "b"], name="y")).to_file("two.json")
    checked = run("schema", "check", "two.json", "--table", "t.csv")
    assert "10 rows have labels that are not listed. A fit leaves such rows out" in checked.stderr
    Schema({"x": Numeric()}, Classes(["a"], name="y")).to_file("one.json")
    said = refused("fit", "t.csv", "--schema", "one.json", "--epsilon", 1, "--out", "m.dpf")
    assert "lists one label of 'y' only" in said


def test_a_score_with_noise_says_to_which_range_targets_are_cut(folder):
    (folder / "t.csv").write_text("x,y\n" + "".join(f"{n},{n % 9}\n" for n in range(300)))
    Schema({"x": Numeric(0, 300)}, Bounded(0, 8, name="y")).to_file("s.json")
    done("fit", "t.csv", "--schema", "s.json", "--epsilon", 1, "--out", "m.dpf")
    lower, upper = (figure(end, 4) for end in load_model("m.dpf").forest_.target.range)
    said = done("evaluate", "m.dpf", "t.csv", "--epsilon", 1)
    assert f"Targets below {lower} or above {upper}, the range of the model," in said
    assert "range of the model" not in done("evaluate", "m.dpf", "t.csv", "--public")


def test_a_draft_of_json_lines_has_no_pattern_since_a_fit_takes_none(folder):
    frame = pd.DataFrame({f"lab_{place}": [place] for place in range(120)} | {"y": ["a"]})
    frame.to_csv("t.csv", index=False)
    frame.to_json("t.jsonl", orient="records", lines=True)
    done("schema", "draft", "t.csv", "--target", "y", "--out", "csv.toml")
    done("schema", "draft", "t.jsonl", "--target", "y", "--out", "json.toml")
    assert '[features."lab_*"]' in (folder / "csv.toml").read_text()
    assert (folder / "json.toml").read_text().count("[features.") == 120


@pytest.mark.parametrize(
    ("listed", "cells", "read"),
    [
        # As databases write truth values.
        (
            [False, True],
            ["yes", "No", "TRUE", "f", "1", "0", "y", "True", "false", "maybe", "NA"],
            [1, 0, 1, 0, 1, 0, 1, 1, 0, None, None],
        ),
        # As pandas reads numbers.
        ([1, 2], ["01", "1.0", "1", "2", ""], [1, 1, 1, 2, None]),
    ],
)
def test_text_is_read_by_the_type_of_what_is_listed(folder, listed, cells, read):
    (folder / "t.csv").write_text("c,y\n" + "".join(f"{cell},1\n" for cell in cells))
    schema = Schema({"c": Categorical(listed)}, Bounded(0, 1, name="y"))
    (column,) = joined(open_source("t.csv").chunks(Asked(schema))).features.columns
    assert column.to_pylist() == read


def test_a_decimal_mark_that_is_declared_for_thousands_is_pointed_at(folder):
    (folder / "t.csv").write_text("x;y\n" + "1.234,50;a\n1.000;b\n2.345.678,1;a\n-;b\n")
    for decimal, thousands, odd in ((",", ".", 0), (".", ",", 2)):
        format = Format(separator=";", decimal=decimal, thousands=thousands)
        Schema({"x": Numeric()}, Classes(["a", "b"], name="y"), format=format).to_file("s.json")
        said = done("schema", "check", "s.json", "--table", "t.csv")
        assert (f"x: {odd} values have the mark of thousands elsewhere than before three digits." in said) == bool(odd)


def test_a_prediction_says_which_column_it_could_not_read(folder):
    (folder / "t.csv").write_text("x,z,y\n" + "1,2,a\n2,3,b\n" * 20)
    (folder / "odd.csv").write_text("x,z\n" + "one,2\ntwo,\n")
    Schema({"x": Numeric(0, 3), "z": Numeric(0, 3)}, Classes(["a", "b"], name="y")).to_file("s.json")
    done("fit", "t.csv", "--schema", "s.json", "--epsilon", 1, "--out", "m.dpf")
    assert run("predict", "m.dpf", "t.csv", "--out", "p.csv").stderr == ""
    assert "Nothing could be read in x, so it counts" in run("predict", "m.dpf", "odd.csv", "--out", "p.csv").stderr
