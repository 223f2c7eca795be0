"""The public contract: names, defaults, statement, ledger, and forests of every shape that the schema allows."""

import inspect
import json
import math
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dpforest
from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema

INF = float("inf")
DEFAULTS = {
    "schema": None, "epsilon": 1.0, "delta": 0.0, "recipe": "auto", "variant": "private", "n_trees": None,
    "max_depth": None, "recipe_params": None, "random_state": None, "n_jobs": None,
}  # fmt: skip
FEATURES = {"age": Numeric(0, 100), "sex": Categorical(["m", "f"]), "flag": Numeric(0, 1, integer=True)}


def table(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    columns = rng.uniform(0, 100, n_rows), rng.choice(["m", "f"], n_rows), rng.integers(0, 2, n_rows)
    return pd.DataFrame(dict(zip(FEATURES, columns, strict=True)))


def labels(X, n_classes=2):
    return (X["age"] * n_classes / 100).astype(int).to_numpy()


def classes_schema(n_classes=2, **facts):
    return Schema(FEATURES, Classes(range(n_classes)), **facts)


TASKS = {
    "2 classes": (DPForestClassifier, classes_schema(2), lambda X: labels(X, 2)),
    "3 classes": (DPForestClassifier, classes_schema(3), lambda X: labels(X, 3)),
    "10 classes": (DPForestClassifier, classes_schema(10), lambda X: labels(X, 10)),
    "1 class": (DPForestClassifier, classes_schema(1), lambda X: labels(X, 1)),
    "regression": (DPForestRegressor, Schema(FEATURES, Bounded(0, 100)), lambda X: X["age"].to_numpy()),
}
each_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())
pure_and_zcdp = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "zCDP"])


def fitted(task, X=None, **parameters):
    make, schema, target = task
    X = table() if X is None else X
    return make(**{"schema": schema} | parameters).fit(X, target(X))


def test_the_version_is_that_of_the_package():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert dpforest.__version__ == project["version"]


def test_importing_the_package_loads_no_estimator():
    code = "import sys, dpforest; sys.exit('sklearn' in sys.modules or 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("make", [DPForestClassifier, DPForestRegressor])
def test_parameters_have_the_names_and_defaults_of_the_contract(make):
    found = inspect.signature(make).parameters
    assert {name: found[name].default for name in DEFAULTS} == DEFAULTS
    assert set(make().get_params()) >= set(DEFAULTS)


def test_no_method_of_an_estimator_shows_an_address_as_a_default():
    for make in (DPForestClassifier, DPForestRegressor):
        for name, method in inspect.getmembers(make, inspect.isfunction):
            assert name.startswith("__sklearn") or " at 0x" not in str(inspect.signature(method))


@pure_and_zcdp
@each_task
def test_a_plain_fit_states_its_budget_and_holds(task, delta):
    statement = fitted(task, delta=delta).privacy_
    assert 1 - 1e-9 <= statement.epsilon <= 1.0
    assert (statement.delta, statement.adjacency, statement.unit) == (delta, "add-remove", "record")
    assert (statement.holds, [*statement.reasons]) == (True, [])


REASONS = [
    ({"random_state": 0}, "random_state"), ({"random_state": np.random.RandomState(0)}, "random_state"),
    ({"schema": "assume-public"}, "assume-public"), ({"epsilon": INF}, "infinite"),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "reason"), REASONS, ids=["seed", "generator", "assume-public", "infinite"])
@pytest.mark.parametrize("name", ["2 classes", "regression"])
def test_what_breaks_the_guarantee_is_named(name, parameters, reason):
    statement = fitted(TASKS[name], **parameters).privacy_
    (words,) = statement.reasons
    assert statement.holds is False
    assert reason in words
    assert words in str(statement)


def test_all_reasons_are_named_together():
    statement = fitted(TASKS["2 classes"], schema="assume-public", random_state=0, epsilon=INF).privacy_
    assert len(statement.reasons) == 3


def test_a_schema_read_off_the_rows_keeps_breaking_the_guarantee_when_it_is_used_again():
    X = table()
    schema = DPForestClassifier("assume-public").fit(X, labels(X)).schema_
    assert not DPForestClassifier(schema).fit(X, labels(X)).privacy_.holds


@pytest.mark.parametrize("epsilon", [0.001, 3.0, 709.0, 710.0, 1e6, INF])
@pure_and_zcdp
def test_the_statement_is_printed_and_plain_json_with_replace_one_as_twice_the_loss(epsilon, delta):
    statement = fitted(TASKS["2 classes"], table(50), epsilon=epsilon, delta=delta, n_trees=1, max_depth=1).privacy_
    assert str(statement).endswith(".")
    content = json.loads(json.dumps(statement.to_dict(), allow_nan=False))
    assert {"epsilon", "delta", "adjacency", "unit", "holds", "reasons", "replace_one"} <= set(content)
    assert float(content["epsilon"]) == statement.epsilon
    assert float(content["replace_one"]["epsilon"]) == 2 * statement.epsilon
    grown = statement.delta * (1 + math.exp(min(statement.epsilon, 700)))
    assert content["replace_one"]["delta"] == pytest.approx(min(1, grown))


@each_task
def test_a_declared_number_of_rows_costs_nothing_and_is_listed_as_public(task):
    make, schema, target = task
    for n_rows in (300, None):
        model = fitted((make, Schema(schema.features, schema.target, n_rows=n_rows), target), n_trees=2)
        charged = [entry["label"] for entry in model.ledger_.entries()]
        assert ("number of rows" in charged) == (n_rows is None)
        assert ("number of rows" in model.privacy_.to_dict()["public"]) == (n_rows == 300)
        assert model.ledger_.spent == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("order", [["age", "sex", "flag"], ["flag", "sex", "age"]])
@pytest.mark.parametrize("library", [pd.DataFrame, lambda X: pl.from_pandas(X)], ids=["pandas", "polars"])
def test_importances_are_in_the_order_of_the_columns_that_were_given(order, library):
    X = table()
    model = DPForestClassifier(classes_schema(), epsilon=INF, random_state=0).fit(library(X[order]), labels(X))
    named = dict(zip(model.feature_names_in_, model.feature_importances_, strict=True))
    assert max(named, key=named.get) == "age"


COLUMNS = [
    *(pd.Series(values * 50, dtype=kind) for values, kind in [
        ([1, None], "Int64"), ([1.5, None], "Float64"), ([True, None], "boolean"), (["a", None], "str"),
        (["a", None], "string"), (["a", None], "category"), (["01", "2"], "str"), ([1, "a"], object), ([None, None], object),
    ]),
    *(pl.Series(values * 50) for values in [["a", None], ["01", "2"], [1, None], [True, None]]),
    pl.Series(["a", None] * 50, dtype=pl.Categorical),
]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS, ids=lambda c: f"{type(c).__module__.split('.')[0]}-{c.dtype}-{c[0]}")
def test_a_schema_is_read_off_every_type_of_column(column):
    X = (pl if isinstance(column, pl.Series) else pd).DataFrame({"c": column})
    model = DPForestClassifier("assume-public", n_trees=1).fit(X, [0, 1] * 50)
    assert len(model.predict(X)) == 100
    assert not model.privacy_.holds


@pytest.mark.parametrize("value", [0.0, 1e17, -1e17])
def test_a_schema_is_read_off_a_target_that_never_changes(value):
    X = table()
    model = DPForestRegressor("assume-public").fit(X, np.full(len(X), value))
    assert model.schema_.target.lower == value


def test_a_failed_fit_keeps_its_charges_and_leaves_no_earlier_model():
    X = table()
    fresh, fitted_before = (DPForestClassifier(classes_schema(), max_depth=3, random_state=0) for _ in range(2))
    fitted_before.fit(X, labels(X))

    def fail_later(step):
        if step.startswith("level 2"):
            raise KeyboardInterrupt

    for model in (fresh, fitted_before):
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, labels(X), progress=fail_later)
        charged = [entry["label"] for entry in model.ledger_.entries()]
        assert charged == ["number of rows", "splits of level 0", "splits of level 1"]
        assert 0 < model.ledger_.spent < 1
        # A ledger of the second fit beside a forest of the first would state too small a loss.
        assert not hasattr(model, "forest_")
