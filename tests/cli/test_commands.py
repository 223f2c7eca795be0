"""What commands do with a table of people: models, predictions, plans, rules, recipes and reports."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.cli.command import ILL, done, model, people, refused, run, write_people

from dpforest import Budget, Classes, DPForestClassifier, Numeric, Schema, list_recipes, load_model
from dpforest.cli import demo
from dpforest.datasets import load_survey
from dpforest.model.file import model_digest

pytestmark = pytest.mark.slow

FIT = ["fit", "t.csv", "--schema", "ill.json", "--epsilon", "8", "--out", "m.dpf"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own with people, schemas and models."""
    monkeypatch.chdir(tmp_path)
    write_people()
    return tmp_path


# Fits and predictions


def test_the_installed_command_fits_and_says_its_version():
    """The only fit here that is a process of its own."""

    def said(*words):
        command = [Path(sys.executable).parent / "dpforest", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout

    assert re.fullmatch(r"dpforest \d+\.\d+\S*\n", said("--version"))
    assert "Spent epsilon = 8" in said(*FIT)
    assert load_model("m.dpf").privacy_.holds


def test_a_doubt_is_told_in_a_sentence(folder):
    (folder / "t.csv").write_text("age,city,ill\n" + "1,Oslo,NO\n" * 500)
    # Noise alone may look like records, in fewer than one fit of five; not ten times in a row.
    said = (run(*FIT[:-1], f"m{number}.dpf").stderr for number in range(10))
    assert any("This looks odd: The fit measured" in words for words in said)


def test_fit_prints_every_note_once(folder):
    Schema(ILL.features, ILL.target).to_file("ill.json")
    said = run(*FIT, "--delta", 0.1, "--groups", "id", "--max-rows-per-person", 1)
    assert said.exit_code == 0, said.output
    notes = load_model("m.dpf").privacy_.notes
    # Fails if 400 rows are measured as 10 or fewer, with noise of epsilon 0.02 * 8: below exp(-0.16 * 390) = 1e-27.
    assert any("larger than 1 / (number of rows)" in note for note in notes)
    assert [line for line in said.stdout.splitlines() if "Note:" in line] == [f"Note: {note}." for note in notes]


@pytest.mark.parametrize("n_splits", [1, pytest.param(10, marks=pytest.mark.night)])
def test_demo_says_in_three_lines_what_it_did_and_then_more(monkeypatch, n_splits):
    pytest.importorskip("statsmodels", reason="the demo needs statsmodels: pip install 'dpforest[demo]'")
    monkeypatch.setattr(demo, "N_SEEDS", n_splits)
    table, trained, right, empty, *details = done("demo").splitlines()
    assert "survey of 6,366 women" in table
    assert f"at epsilon = 1, on each of {n_splits} " in trained
    shares = [float(share) for share in re.findall(r"(\d+\.\d) %", right)]
    assert len(shares) == 3
    assert shares[1] == 68.0  # of the guess; the splits are always the same
    assert empty == ""
    assert all(len(line) <= 80 for line in (table, trained, right))
    for words in ("total", "always the commonest answer", "no privacy", "odds"):
        assert any(words in line for line in details)


def test_plan_shows_where_the_budget_goes_without_data():
    Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)}, Classes(["no", "yes"])).to_file("two.json")
    asked = ("plan", "--schema", "two.json", "--epsilon", "1")
    shown = done(*asked, "--rows", "50000")
    assert all(words in shown for words in ("Where the budget goes", " value ", " share ", " size and noise "))
    shares = json.loads(done(*asked, "--rows", "50000", "--json"))["shares"]
    assert {line["what"] for line in shares} >= {"number of rows", "splits", "leaves"}
    assert "how many you expect" in refused(*asked)


# The catalogue


def test_the_catalogue_is_printed_and_its_rows_are_json():
    assert done("recipes")
    rows = json.loads(done("recipes", "--json"))
    assert [row["name"] for row in rows] == [recipe["name"] for recipe in list_recipes()]
    assert all(row[key] for row in rows for key in ("title", "paper", "tasks", "splits", "budget", "claim"))
    assert "jagannathan-2009" in refused("recipes", "nobody-1900")


@pytest.mark.parametrize("name", ["auto", "consul-2020", "li-2022"])
def test_a_recipe_is_shown_with_a_ledger_that_sums_to_the_budget(name):
    assert "Total: epsilon = 0.5" in done("recipes", name, "--epsilon", 0.5)
    assert json.loads(done("recipes", name, "--epsilon", 0.5, "--json"))["ledger"]["spent"] == 0.5


def test_a_recipe_is_shown_with_its_printed_form_and_the_values_of_its_parameters():
    shown = done("recipes", "consul-2020")
    assert "As printed (variant='published')" in shown
    assert "Where the print leaves something open" in shown
    assert "  rho = 0.5\n" in shown
    assert "  medians = 'joint' (one of 'joint', 'first')\n" in shown
    assert "As printed" not in done("recipes", "hou-2019")


# Rules


def rows_of(name):
    with open(name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_rules_are_printed_and_written():
    shown = done("rules", "ill.dpf")
    assert shown.startswith("tree 1: all records: ")
    assert "age" in shown
    done("rules", "ill.dpf", "--out", "r.csv", "--leaves")
    assert {row["leaf"] for row in rows_of("r.csv")} == {"True"}
    assert {"rule", "class", "confidence", "support"} <= set(rows_of("r.csv")[0])
    done("rules", "ill.dpf", "--out", "r.json")
    assert json.loads(Path("r.json").read_text())[0]["rule"] == "always"


def test_rules_are_chosen_by_released_confidence_and_support():
    every = json.loads(done("rules", "ill.dpf", "--json"))
    least = sorted(rule["confidence"] for rule in every)[len(every) // 2]
    kept = [rule for rule in every if rule["confidence"] >= least and rule["support"] >= 20]
    assert 0 < len(kept) < len(every)
    chosen = ("--min-confidence", least, "--min-support", 20)
    assert json.loads(done("rules", "ill.dpf", "--json", *chosen)) == kept
    assert len(done("rules", "ill.dpf", *chosen).splitlines()) == len(kept)
    done("rules", "ill.dpf", "--out", "r.csv", *chosen)
    assert [json.loads(row["distribution"]) for row in rows_of("r.csv")] == [rule["distribution"] for rule in kept]
    assert done("rules", "ill.dpf", "--min-support", 1e9) == "No rule has that confidence and support.\n"
    done("rules", "ill.dpf", "--min-support", 1e9, "--out", "r.csv")
    assert rows_of("r.csv") == []
    assert "must be a number from 0 to 1, not 90.0." in refused("rules", "ill.dpf", "--min-confidence", 90)


def test_a_tree_that_counts_nothing_is_one_line_but_whole_in_files():
    X, y, schema = load_survey()
    trained = DPForestClassifier(schema, epsilon=1).fit(X, y)
    trained.save("m.dpf")
    every, noise = trained.forest_.rules(), trained.forest_.noise_of_votes
    scores = {rule["tree"] for rule in every if noise[rule["tree"]] and rule["conditions"]}
    assert scores
    *lines, hint = done("rules", "m.dpf").splitlines()
    assert "--out rules.txt" in hint
    assert len(lines) == len(scores) + sum(rule["tree"] not in scores for rule in every)
    for tree in scores:
        own = [rule for rule in every if rule["tree"] == tree]
        (line,) = [line for line in lines if line.startswith(f"tree {tree + 1}: ")]
        assert f": {len(own)} rules without counts; the strongest: " in line
        assert max(own, key=lambda rule: rule["adds"])["rule"] in line
    done("rules", "m.dpf", "--out", "r.txt")
    assert len(Path("r.txt").read_text("utf-8").split("\n")) == len(every)


def test_rules_of_a_regression_say_the_mean():
    done("rules", "cost.dpf", "--out", "r.csv")
    assert "mean" in rows_of("r.csv")[0]
    assert "distribution" not in rows_of("r.csv")[0]
    assert "have no confidence" in refused("rules", "cost.dpf", "--min-confidence", 0.5)


# Reports


def report(*options):
    """The twin of a report that was written with these options."""
    done("report", "ill.dpf", "--out", "r.html", *options)
    return json.loads(Path("r.json").read_text("utf-8"))


def test_options_say_what_the_report_is_about():
    said = {"dataset": "Ward 7", "dataset_version": "v2", "purpose": "To plan <b>beds</b>", "contact": "privacy@example.org"}
    options = [word for name, text in said.items() for word in (f"--{name.replace('_', '-')}", text)]
    assert {name: text for name, text in report(*options)["about"].items() if text} == said
    assert "To plan &lt;b&gt;beds&lt;/b&gt;" in Path("r.html").read_text("utf-8")


def test_a_file_says_the_same_and_options_win(folder):
    # A date of TOML is written without quotes.
    (folder / "about.toml").write_text('dataset_version = 2024-06-30\npurpose = "To plan beds"\naccess = "Staff"\n')
    twin = report("--about", "about.toml", "--purpose", "To plan staff")
    assert (twin["about"]["dataset_version"], twin["about"]["purpose"]) == ("2024-06-30", "To plan staff")
    assert twin["deployment"]["deployment"]["access"] == "Staff"
    assert "deployment.contact" in twin["deployment"]["to_be_filled_in"]
    assert "deployment.access" not in twin["deployment"]["to_be_filled_in"]


def test_the_budget_is_shown_with_this_model_in_it_and_stays_as_it_is(folder):
    Budget.open("b.db", "ward-7", epsilon=30.0)
    (folder / "ill.dpf").unlink()
    done(*FIT[:-1], "ill.dpf", "--budget", "b.db::ward-7")
    before = (folder / "b.db").read_bytes()
    budget = report("--budget", "b.db::ward-7")["budget"]
    assert (budget["spent"], budget["left"]) == (8.0, 22.0)
    assert [release["is_alike"] for release in budget["releases"]] == [True]
    assert (folder / "b.db").read_bytes() == before


# Options of a fit


@pytest.mark.parametrize(
    ("labels", "words", "weights"),
    [
        (["no", "yes"], "", None),
        (["no", "yes"], "--class-weight balanced", "balanced"),
        (["no", "yes"], "--class-weight yes=30 --class-weight no=0.5", {"yes": 30.0, "no": 0.5}),
        ([0, 1], "--class-weight 1=2", {1: 2.0}),
        (["a=b", "c"], "--class-weight a=b=2", {"a=b": 2.0}),
    ],
)
def test_weights_of_classes_go_into_the_model(labels, words, weights):
    rows = people().set_column(3, "ill", pa.array([labels[age > 90] for age in people().column("age").to_pylist()]))
    pyarrow.csv.write_csv(rows, "t.csv")
    Schema(ILL.features, Classes(labels, name="ill"), one_row_per_person=True).to_file("ill.json")
    done(*FIT, *words.split())
    trained = load_model("m.dpf")
    assert trained.class_weight == weights
    done("predict", "m.dpf", "t.csv", "--out", "p.csv")
    X, found = rows.select([*ILL.features]), pyarrow.csv.read_csv("p.csv")
    np.testing.assert_allclose(np.column_stack(found.columns[1:]), trained.predict_proba(X))
    assert found.column("prediction").to_pylist() == trained.predict(X).tolist()


@pytest.mark.parametrize("text", ["yes", "maybe=2", "yes=two", "=2", "balanced=1", "yes=0"])
def test_a_weight_that_cannot_be_read_is_refused_before_anything_is_spent(folder, text):
    assert re.search("class.weight", refused(*FIT, "--class-weight", text))
    said = refused(*FIT[:3], "cost.toml", *FIT[4:], "--class-weight", text)
    assert "here a number is predicted" in said
    assert not (folder / "m.dpf").exists()


def test_a_fit_starts_from_a_file_and_says_what_both_cost():
    said = " ".join(done(*FIT, "--earlier-model", "ill.dpf").split())
    assert "a record that was used there too loses at most epsilon = 28 in all." in said
    second = load_model("m.dpf")
    assert second.forest_.n_earlier == model("ill").forest_.n_trees
    assert second.privacy_.earlier[0].digest == model_digest(model("ill"))
    third = json.loads(done(*FIT[:-1], "third.dpf", "--earlier-model", "m.dpf", "--json"))
    assert third["privacy"]["in_all"]["epsilon"] == 36
