"""The catalogue, rules and benchmarks as a user sees them."""

import csv
import json

import pytest
from test_commands import folder, run

from dpforest import list_recipes

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


def test_an_unknown_recipe_is_refused(tmp_path):
    done = run("recipes", "nobody-1900", cwd=tmp_path)
    assert done.returncode == 1
    assert "jagannathan-2009" in done.stderr


def test_rules_are_printed_and_written(folder):
    run("fit", "t.csv", "--schema", "ill.schema.json", "--epsilon", 8, "--out", "m.dpf", cwd=folder)
    shown = run("rules", "m.dpf", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("tree 0: all records: ")
    assert "age" in shown.stdout
    assert run("rules", "m.dpf", "--out", "r.csv", "--leaves", cwd=folder).returncode == 0
    rows = list(csv.DictReader((folder / "r.csv").open(encoding="utf-8")))
    assert {row["leaf"] for row in rows} == {"True"}
    assert {"rule", "class", "confidence", "support"} <= set(rows[0])
    assert run("rules", "m.dpf", "--out", "r.json", cwd=folder).returncode == 0
    assert json.loads((folder / "r.json").read_text())[0]["rule"] == "always"
    assert run("rules", "m.dpf", "--out", "r.xls", cwd=folder).returncode == 1


def test_rules_of_a_regression_say_the_mean(folder):
    run("fit", "t.csv", "--schema", "cost.schema.toml", "--epsilon", 8, "--out", "m.dpf", cwd=folder)
    shown = run("rules", "m.dpf", "--out", "r.csv", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "mean" in (folder / "r.csv").read_text().splitlines()[0]
