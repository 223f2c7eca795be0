"""The catalogue, rules and benchmarks as a user sees them."""

import csv
import json

import pytest
from test_commands import folder, run

from dpforest import DPForestClassifier, list_recipes
from dpforest.datasets import load_survey

pytestmark = pytest.mark.slow

__all__ = ["folder"]


def test_the_catalogue_is_printed_and_its_rows_are_json(tmp_path):
    shown = run("recipes", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    rows = json.loads(run("recipes", "--json", cwd=tmp_path).stdout)
    assert [row["name"] for row in rows] == [recipe["name"] for recipe in list_recipes()]
    assert all(row[key] for row in rows for key in ("title", "paper", "tasks", "splits", "budget", "claim"))


@pytest.mark.parametrize("name", ["auto", "consul-2020", "li-2022"])
def test_a_recipe_is_shown_with_a_ledger_that_sums_to_the_budget(name, tmp_path):
    shown = run("recipes", name, "--epsilon", 0.5, cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Total: epsilon = 0.5" in shown.stdout
    assert json.loads(run("recipes", name, "--epsilon", 0.5, "--json", cwd=tmp_path).stdout)["ledger"]["spent"] == 0.5


def test_a_recipe_is_shown_with_its_printed_form_and_the_values_of_its_parameters(tmp_path):
    shown = run("recipes", "consul-2020", cwd=tmp_path).stdout
    assert "As printed (variant='published')" in shown
    assert "Where the print leaves something open" in shown
    assert "  rho = 0.5\n" in shown
    assert "  medians = 'joint' (one of 'joint', 'first')\n" in shown
    assert "As printed" not in run("recipes", "hou-2019", cwd=tmp_path).stdout


def test_an_unknown_recipe_is_refused(tmp_path):
    done = run("recipes", "nobody-1900", cwd=tmp_path)
    assert done.returncode == 1
    assert "jagannathan-2009" in done.stderr


def test_rules_are_printed_and_written(folder):
    run("fit", "t.csv", "--schema", "ill.schema.json", "--epsilon", 8, "--out", "m.dpf", cwd=folder)
    shown = run("rules", "m.dpf", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("tree 1: all records: ")
    assert "age" in shown.stdout
    assert run("rules", "m.dpf", "--out", "r.csv", "--leaves", cwd=folder).returncode == 0
    rows = list(csv.DictReader((folder / "r.csv").open(encoding="utf-8")))
    assert {row["leaf"] for row in rows} == {"True"}
    assert {"rule", "class", "confidence", "support"} <= set(rows[0])
    assert run("rules", "m.dpf", "--out", "r.json", cwd=folder).returncode == 0
    assert json.loads((folder / "r.json").read_text())[0]["rule"] == "always"
    assert run("rules", "m.dpf", "--out", "r.xls", cwd=folder).returncode == 1


def test_rules_are_chosen_by_released_confidence_and_support(folder):
    run("fit", "t.csv", "--schema", "ill.schema.json", "--epsilon", 8, "--out", "m.dpf", cwd=folder)
    every = json.loads(run("rules", "m.dpf", "--json", cwd=folder).stdout)
    least = sorted(rule["confidence"] for rule in every)[len(every) // 2]
    kept = [rule for rule in every if rule["confidence"] >= least and rule["support"] >= 20]
    assert 0 < len(kept) < len(every)
    chosen = ("--min-confidence", least, "--min-support", 20)
    assert json.loads(run("rules", "m.dpf", "--json", *chosen, cwd=folder).stdout) == kept
    assert len(run("rules", "m.dpf", *chosen, cwd=folder).stdout.splitlines()) == len(kept)
    assert run("rules", "m.dpf", "--out", "r.csv", *chosen, cwd=folder).returncode == 0
    rows = list(csv.DictReader((folder / "r.csv").open(encoding="utf-8")))
    assert [json.loads(row["distribution"]) for row in rows] == [rule["distribution"] for rule in kept]
    assert run("rules", "m.dpf", "--min-support", 1e9, cwd=folder).stdout == "No rule has that confidence and support.\n"
    assert run("rules", "m.dpf", "--min-support", 1e9, "--out", "r.csv", cwd=folder).returncode == 0
    assert list(csv.DictReader((folder / "r.csv").open(encoding="utf-8"))) == []
    refused = run("rules", "m.dpf", "--min-confidence", 90, cwd=folder)
    assert refused.returncode == 1
    assert "min_confidence must be a number from 0 to 1, not 90.0." in refused.stderr


def test_a_tree_that_counts_nothing_is_one_line_on_the_screen_and_whole_in_files(tmp_path):
    X, y, schema = load_survey()
    model = DPForestClassifier(schema, epsilon=1).fit(X, y)
    model.save(tmp_path / "m.dpf")
    every, noise = model.forest_.rules(), model.forest_.noise_of_votes
    scores = {rule["tree"] for rule in every if noise[rule["tree"]] and rule["conditions"]}
    assert scores
    *lines, hint = run("rules", "m.dpf", cwd=tmp_path).stdout.splitlines()
    assert "--out rules.txt" in hint
    assert len(lines) == len(scores) + sum(rule["tree"] not in scores for rule in every)
    for tree in scores:
        own = [rule for rule in every if rule["tree"] == tree]
        (line,) = [line for line in lines if line.startswith(f"tree {tree + 1}: ")]
        assert f": {len(own)} rules without counts; the strongest: " in line
        assert max(own, key=lambda rule: rule["adds"])["rule"] in line
    run("rules", "m.dpf", "--out", "r.txt", cwd=tmp_path)
    assert len((tmp_path / "r.txt").read_text("utf-8").split("\n")) == len(every)


def test_rules_of_a_regression_say_the_mean(folder):
    run("fit", "t.csv", "--schema", "cost.schema.toml", "--epsilon", 8, "--out", "m.dpf", cwd=folder)
    shown = run("rules", "m.dpf", "--out", "r.csv", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "mean" in (folder / "r.csv").read_text().splitlines()[0]
    assert "distribution" not in (folder / "r.csv").read_text()
    assert "have no confidence" in run("rules", "m.dpf", "--min-confidence", 0.5, cwd=folder).stderr
