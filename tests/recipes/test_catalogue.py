"""Every recipe of the catalogue: what it says, what it trains on, what it spends, and its shape, as its source has it."""

import ast
import inspect
import json
import os
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.recipes.tables import KINDS, make_table
from tests.support.crosses import pairwise

from dpforest import DPForestClassifier, DPForestRegressor, get_recipe, list_recipes, load_model
from dpforest.errors import ParameterError, SchemaError
from dpforest.parts.shape import AllFeatures, HalfTheFeatures, HalfUntested, LogRows, SupportedTrees
from dpforest.schema import Bounded, Categorical, Classes, Numeric, Schema

LEDGERS = Path(__file__).parent / "ledgers"
# The systems of the catalogue beside the library's own: depth, trees, and where a source says so. A depth is levels of
# splits, leaves are one layer more: h layers of a source that counts them are h - 1 here. "Table" is 4.1 of the thesis.
SHAPES = {
    "blum-2005": (4, 1, "none; as friedman-schuster-2010, with which it is compared"),
    "jagannathan-2009": (HalfTheFeatures(), 10, "Table: m/2 and 10"),
    "friedman-schuster-2010": (4, 1, "DPDF, §5: delta = 5 with the leaves (eq. 9); §4: a single tree"),
    "patil-singh-2014": (5, 20, "Table: 5 and 20"),
    "rana-2015": (4, 5, "none: Table has no depth, and a bound for the trees (eqs. 4.35 and 4.36)"),
    "fletcher-islam-2015-dpdf": (4, 4, "DPDF, §5: delta = 5 with the leaves (eq. 9), tau = 4"),
    "fletcher-islam-2015-snr": (AllFeatures(), SupportedTrees(), "§4.5.3: a feature once on a path; eq. 4.38"),
    "bojarski-2015": (14, LogRows(), "Table: 14 and O(log n)"),
    "mu-2016": (5, 50, "out-of-bag, §4: 5 and 50, where it is compared"),
    "li-2017": (5, 20, "Table, in its caption: likely those of Patil and Singh"),
    "fletcher-islam-2017": (HalfUntested(), 100, "Table: eq. 4.37 and 100"),
    "hou-2019": (6, 50, "Table: 7 with the leaves (eq. 4.28) and 50"),
    "li-2020": (5, 50, "out-of-bag, §4: 5 and 50, where it is compared"),
    "guan-2020": (HalfTheFeatures(), 50, "Table: m/2 and 50"),
    "consul-2020": (5, 10, "DiPriMe, Table 2: 5 and 10; Table has 8"),
    "consul-2020-ert": (5, 10, "DiPriMe, Table 2: 5 and 10"),
    "zhang-2021": (5, 50, "Table: no depth, 50; the depth of li-2020, with whose parts it is built"),
    "dong-2022": (8, 25, "DiffPRF_linear, experiments: h = 9 with the leaves (its Figure 2), T = 25"),
    "li-2022": (5, 50, "out-of-bag, §4: 5 and 50"),
    "liu-2022": (4, 90, "Table: 5 with the leaves (eqs. 4.31 and 4.32) and 90"),
    "suihkonen-2023": (HalfTheFeatures(), 9, "thesis §5.1: m/2; Figure 5.1: 9"),
}
NAMES = [recipe["name"] for recipe in list_recipes()]
each_recipe = pytest.mark.parametrize("name", NAMES)
BOTH_TASKS = {"auto", "consul-2020", "consul-2020-ert"}
SUBJECTS = [(name, task) for name in NAMES for task in get_recipe(name).tasks]
FEATURES = {
    "x": Numeric(0, 1), "whole": Numeric(0, 9, integer=True), "city": Categorical(["Oslo", "Rome"]),
    "sex": Categorical(["m", "f"]),
}  # fmt: skip


def model_of(name, task, schema, **settings):
    make = DPForestClassifier if task == "classification" else DPForestRegressor
    return make(Schema(schema.features, schema.target, n_rows=400), recipe=name, **{"epsilon": 2.0, **settings})


def test_the_catalogue_is_complete_and_lists_what_a_reader_needs():
    assert set(NAMES) == {*SHAPES, "auto"}
    for recipe in list_recipes():
        assert {"name", "title", "paper", "tasks", "published", "claim"} <= set(recipe)
        assert get_recipe(recipe["name"]).name == recipe["name"]
        json.dumps(recipe, allow_nan=False)
    assert {name for name, task in SUBJECTS if task == "regression"} == BOTH_TASKS


@pytest.mark.parametrize("name", SHAPES)
def test_a_recipe_is_a_value_that_fits_on_a_screen(name):
    module = import_module(f"dpforest.recipes.papers.{name.replace('-', '_')}")
    tree = ast.parse(inspect.getsource(module))
    text, value = ast.get_docstring(tree), tree.body[-1]
    assert isinstance(value, ast.Assign)
    assert not [node for node in ast.walk(value) if isinstance(node, ast.Lambda)]
    assert len(text.splitlines()) + value.end_lineno - value.lineno <= 60
    assert all(word in text for word in ("Paper:", "Kept:", "Departs:"))
    assert get_recipe(name).claim


# These have parts that no other has; the fast lane trains them, too.
FAST = {"auto", "patil-singh-2014", "fletcher-islam-2015-dpdf", "li-2022", "liu-2022"}
TRAINED = [
    pytest.param(*case, marks=[] if case[0][0] in FAST and case[1] != "undeclared" else pytest.mark.slow)
    for case in pairwise(SUBJECTS, KINDS, [2, 4])
]


@pytest.mark.parametrize(("subject", "kind", "n_classes"), TRAINED, ids=str)
def test_a_recipe_trains_predicts_saves_and_spends_all_of_its_budget(subject, kind, n_classes, tmp_path):
    name, task = subject
    X, y, schema = make_table(kind, n_classes if task == "classification" else None)
    settings = {"epsilon": 500.0, "max_depth": 2, "random_state": 3} if kind == "undeclared" else {}
    model = model_of(name, task, schema, n_trees=4, **settings).fit(X, y)
    assert model.privacy_.holds == (not settings)
    assert not model.ledger_.leaks
    assert model.ledger_.spent == pytest.approx(model.epsilon, rel=1e-9)
    assert model.ledger_.total <= model.epsilon
    assert model.feature_importances_.shape == (len(X.columns),)
    predicted = model.predict(X)
    shares = (predicted[:, None] + 10) / 40 if task == "regression" else model.predict_proba(X)
    assert shares.min() >= 0
    assert task == "regression" or shares.sum(axis=1) == pytest.approx(1)
    assert shares.max() <= 1 + 1e-12
    assert kind != "undeclared" or len(np.unique(shares, axis=0)) > 1
    model.save(tmp_path / "m.dpf")
    assert (load_model(tmp_path / "m.dpf").predict(X) == predicted).all()
    assert all(rule["rule"] and rule["support"] >= 0 for rule in model.forest_.rules()[:50])


@pytest.mark.slow
@each_recipe
def test_an_infinite_epsilon_gives_the_twin_without_noise(name):
    X, y, schema = make_table("mixed", 2)
    model = model_of(name, "classification", schema, epsilon=np.inf, random_state=0).fit(X, y)
    assert not model.privacy_.holds
    assert {entry["mechanism"] for entry in model.ledger_.entries()} <= {"exact"}
    # A tree without noise never does worse than the commonest class by much on its own rows.
    assert model.score(X, y) >= 0.45


@each_recipe
def test_the_ledger_of_a_fixed_shape_is_as_recorded(name):
    """What a recipe costs is part of its promise: a change shows in review. DPFOREST_RECORD=1 records anew."""
    schema = Schema(FEATURES, Classes(["no", "yes"]), n_rows=1000)
    X = pd.DataFrame({column: pd.Series([], dtype=object) for column in FEATURES})
    model = DPForestClassifier(schema, epsilon=1.0, recipe=name, n_trees=3, max_depth=2, random_state=0)
    ledger = model.fit(X, []).ledger_.to_dict()
    path = LEDGERS / f"{name}.json"
    if os.environ.get("DPFOREST_RECORD"):
        path.write_text(json.dumps(ledger, indent=1) + "\n")
    assert ledger == json.loads(path.read_text())


@each_recipe
def test_what_a_recipe_does_not_have_is_refused(name):
    if name not in BOTH_TASKS:
        with pytest.raises(SchemaError, match="not for regression"):
            DPForestRegressor(Schema(FEATURES, Bounded(0, 1)), recipe=name).fit(pd.DataFrame(), [])
    if not get_recipe(name).has_published_variant:
        X, y, schema = make_table("mixed", 2)
        with pytest.raises(ParameterError, match="no published variant"):
            DPForestClassifier(schema, recipe=name, variant="published").fit(X, y)


# --- shapes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [recipe["name"] for recipe in list_recipes() if recipe["name"] != "auto"])
def test_the_shape_of_a_recipe_is_that_of_its_source(name):
    recipe = get_recipe(name)
    depth, n_trees, source = SHAPES[name]
    assert (recipe.depth, recipe.n_trees) == (depth, n_trees), source
