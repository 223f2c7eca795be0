"""``dpforest fit --earlier-model`` starts from a model file, and says what both fits cost together."""

import json

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from dpforest import Classes, Numeric, Schema, load_model
from dpforest.cli.main import commands
from dpforest.errors import ModelFileError, SchemaError
from dpforest.model.file import model_digest


def fit(folder, out, *words, oldest=100):
    ages = np.random.default_rng(0).uniform(0, 100, 2000)
    pd.DataFrame({"age": ages, "answer": np.where(ages > 50, "yes", "no")}).to_csv(folder / "t.csv", index=False)
    Schema({"age": Numeric(0, oldest)}, Classes(["no", "yes"], name="answer")).to_file(folder / "s.json")
    given = [str(folder / "t.csv"), "--schema", str(folder / "s.json"), "--epsilon", "5", "--out", str(folder / out)]
    return CliRunner().invoke(commands, ["fit", *given, *words])


def test_a_fit_starts_from_a_file_and_says_what_both_cost(tmp_path):
    assert fit(tmp_path, "first.dpf").exit_code == 0
    done = fit(tmp_path, "second.dpf", "--earlier-model", str(tmp_path / "first.dpf"))
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "a record that was used there too loses at most epsilon = 10 in all." in said
    model, first = load_model(tmp_path / "second.dpf"), load_model(tmp_path / "first.dpf")
    assert model.forest_.n_earlier == first.forest_.n_trees
    assert model.privacy_.earlier[0].digest == model_digest(first)
    done = fit(tmp_path, "third.dpf", "--earlier-model", str(tmp_path / "second.dpf"), "--json")
    assert json.loads(done.stdout)["privacy"]["in_all"]["epsilon"] == 15


def test_what_cannot_be_started_from_is_refused_before_anything_is_spent(tmp_path):
    assert fit(tmp_path, "first.dpf").exit_code == 0
    earlier = ("--earlier-model", str(tmp_path / "first.dpf"))
    assert isinstance(fit(tmp_path, "second.dpf", *earlier, oldest=90).exception, SchemaError)
    assert isinstance(fit(tmp_path, "second.dpf", "--earlier-model", str(tmp_path / "t.csv")).exception, ModelFileError)
    assert not (tmp_path / "second.dpf").exists()
