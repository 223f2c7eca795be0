"""``dpforest fit --class-weight`` puts weights of classes into the model, and ``dpforest predict`` uses them."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dpforest import Bounded, Classes, Numeric, Schema, load_model
from dpforest.cli.main import commands
from dpforest.errors import ParameterError, UnknownParameterError

FEATURES = {"age": Numeric(0, 100)}


def fit(folder, target, *words):
    ages = np.random.default_rng(0).uniform(0, 100, 300)
    values = ages if isinstance(target, Bounded) else [target.labels[int(age > 90)] for age in ages]
    pd.DataFrame({"age": ages, "answer": values}).to_csv(folder / "t.csv", index=False)
    Schema(FEATURES, target).to_file(folder / "s.json")
    paths = ["t.csv", "--schema", "s.json", "--epsilon", "5", "--out", "m.dpf"]
    return CliRunner().invoke(commands, ["fit", *(str(folder / word) if "." in word else word for word in paths), *words])


@pytest.mark.parametrize(
    ("labels", "words", "weights"),
    [
        (["no", "yes"], [], None),
        (["no", "yes"], ["--class-weight", "balanced"], "balanced"),
        (["no", "yes"], ["--class-weight", "yes=30", "--class-weight", "no=0.5"], {"yes": 30.0, "no": 0.5}),
        ([0, 1], ["--class-weight", "1=2"], {1: 2.0}),
        (["a=b", "c"], ["--class-weight", "a=b=2"], {"a=b": 2.0}),
    ],
)
def test_weights_go_into_the_model(labels, words, weights, tmp_path):
    done = fit(tmp_path, Classes(labels, name="answer"), *words)
    assert done.exit_code == 0, done.output
    model = load_model(tmp_path / "m.dpf")
    assert model.class_weight == weights
    out = tmp_path / "p.csv"
    done = CliRunner().invoke(commands, ["predict", *map(str, (tmp_path / "m.dpf", tmp_path / "t.csv")), "--out", str(out)])
    assert done.exit_code == 0, done.output
    table, found = pd.read_csv(tmp_path / "t.csv")[["age"]], pd.read_csv(out)
    np.testing.assert_allclose(found.drop(columns="prediction"), model.predict_proba(table))
    assert found["prediction"].tolist() == model.predict(table).tolist()


@pytest.mark.parametrize("text", ["yes", "maybe=2", "yes=two", "=2", "balanced=1", "yes=0"])
def test_a_weight_that_cannot_be_read_is_refused_before_anything_is_spent(text, tmp_path):
    done = fit(tmp_path, Classes(["no", "yes"], name="answer"), "--class-weight", text)
    assert isinstance(done.exception, ParameterError)
    assert "class.weight" in str(done.exception).replace("-", ".").replace("_", ".")
    assert not (tmp_path / "m.dpf").exists()


def test_a_number_has_no_classes_to_weigh(tmp_path):
    done = fit(tmp_path, Bounded(0, 100, name="answer"), "--class-weight", "yes=2")
    assert isinstance(done.exception, UnknownParameterError)
    assert "here a number is predicted" in str(done.exception)
