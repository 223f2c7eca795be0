"""Every recipe of the catalogue: what it says, what it trains on, what it spends."""

import ast
import inspect
import json
import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpforest import (
    Bounded,
    Categorical,
    Classes,
    DPForestClassifier,
    DPForestRegressor,
    Numeric,
    Schema,
    get_recipe,
    list_recipes,
    load_model,
)
from dpforest.errors import LeakWarning, ParameterError, SchemaError
from dpforest.parts.postprocess import PruneBySignal
from dpforest.recipes import is_listed

LEDGERS = Path(__file__).parent / "ledgers"
NAMES = [recipe["name"] for recipe in list_recipes()]
PUBLISHED = [recipe["name"] for recipe in list_recipes() if recipe["published"]]
# The twenty-one systems of the catalogue and the library's own.
SYSTEMS = {
    "blum-2005", "jagannathan-2009", "friedman-schuster-2010", "patil-singh-2014", "rana-2015", "fletcher-islam-2015-dpdf",
    "fletcher-islam-2015-snr", "bojarski-2015", "mu-2016", "li-2017", "fletcher-islam-2017", "hou-2019", "li-2020",
    "guan-2020", "consul-2020", "consul-2020-ert", "zhang-2021", "dong-2022", "li-2022", "liu-2022", "suihkonen-2023",
    "auto",
}  # fmt: skip
N_ROWS = 300


def table(kind, n_rows=N_ROWS, seed=0):
    """A small table of one kind and the features of its schema."""
    rng = np.random.default_rng(seed)
    numbers = {"x": rng.random(n_rows), "whole": rng.integers(0, 9, n_rows).astype(float)}
    words = {"city": rng.choice(["Oslo", "Rome", "Lima"], n_rows), "sex": rng.choice(["m", "f"], n_rows)}
    features = {
        "x": Numeric(0, 1),
        "whole": Numeric(0, 9, integer=True),
        "city": Categorical(["Oslo", "Rome"]),
        "sex": Categorical(["m", "f"]),
    }
    if kind == "without lists":
        features |= dict.fromkeys(words, Categorical())
    columns = {"numeric": numbers, "categorical": words}.get(kind, numbers | words)
    X = pd.DataFrame(columns)
    if kind == "missing":
        X = X.mask(rng.random(X.shape) < 0.2)
    first = X.iloc[:, 0]
    signal = first.fillna(0) > 0.5 if "x" in X else first == "Oslo"
    return X, signal.to_numpy(), {name: features[name] for name in X}


def labelled(kind, n_classes, n_rows=N_ROWS):
    X, signal, features = table(kind, n_rows)
    labels = [f"class {index}" for index in range(n_classes)]
    indices = (signal + np.arange(len(signal)) % max(n_classes - 1, 1)) % n_classes
    return X, np.array(labels)[indices], Schema(features, Classes(labels), n_rows=n_rows)


def test_the_catalogue_is_complete():
    assert set(NAMES) == SYSTEMS
    assert set(PUBLISHED) == {
        "blum-2005", "fletcher-islam-2015-dpdf", "fletcher-islam-2017", "li-2020", "consul-2020", "consul-2020-ert",
        "dong-2022", "li-2022", "suihkonen-2023", "friedman-schuster-2010",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(SYSTEMS - {"auto"}))
def test_a_recipe_is_a_value_that_fits_on_a_screen(name):
    module = import_module(f"dpforest.recipes.private.{name.replace('-', '_')}")
    source = inspect.getsource(module)
    tree = ast.parse(source)
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda)]
    assert len(source.splitlines()) <= 60
    text = ast.get_docstring(tree)
    assert all(word in text for word in ("Paper:", "Kept:", "Departs:"))
    assert get_recipe(name).claim


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("kind", ["numeric", "categorical", "mixed", "missing", "without lists"])
@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_trains_predicts_saves_and_spends_all_of_its_budget(name, kind, n_classes, tmp_path):
    X, y, schema = labelled(kind, n_classes)
    model = DPForestClassifier(schema, epsilon=2.0, recipe=name).fit(X, y)
    assert model.privacy_.holds
    assert model.ledger_.spent == pytest.approx(2.0, rel=1e-9)
    assert model.ledger_.total <= 2.0
    shares = model.predict_proba(X)
    assert shares.shape == (N_ROWS, n_classes)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    model.save(tmp_path / "m.dpf")
    assert (load_model(tmp_path / "m.dpf").predict(X) == model.predict(X)).all()
    assert all(rule["rule"] and rule["support"] >= 0 for rule in model.forest_.rules()[:50])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_with_delta_a_recipe_spends_all_of_its_budget_or_says_why_it_cannot(name):
    X, y, schema = labelled("mixed", 2)
    model = DPForestClassifier(schema, epsilon=2.0, delta=1e-6, recipe=name)
    if type(get_recipe(name).sample).__name__ == "PoissonBootstrap":
        with pytest.raises(ValueError, match="delta = 0"):
            model.fit(X, y)
        assert model.ledger_.entries() == []
    else:
        model.fit(X, y)
        assert model.ledger_.spent == pytest.approx(2.0, rel=1e-9)
        assert model.privacy_.holds


@pytest.mark.parametrize("variant", ["private", "published"])
@pytest.mark.parametrize("name", ["auto", "consul-2020", "consul-2020-ert"])
@pytest.mark.filterwarnings("ignore::dpforest.errors.LeakWarning")
def test_a_recipe_for_both_tasks_predicts_numbers(name, variant, tmp_path):
    if name == "auto" and variant == "published":
        pytest.skip("auto has no published variant")
    X, signal, features = table("missing")
    schema = Schema(features, Bounded(-1, 3))
    model = DPForestRegressor(schema, epsilon=20.0, recipe=name, variant=variant).fit(X, 2.0 * signal)
    predicted = model.predict(X)
    assert ((predicted >= -1) & (predicted <= 3)).all()
    model.save(tmp_path / "m.dpf")
    np.testing.assert_array_equal(load_model(tmp_path / "m.dpf").predict(X), predicted)


@pytest.mark.parametrize("name", sorted(SYSTEMS - {"auto", "consul-2020", "consul-2020-ert"}))
def test_a_recipe_for_classes_refuses_numbers(name):
    _, _, features = table("mixed")
    with pytest.raises(SchemaError, match="not for regression"):
        DPForestRegressor(Schema(features, Bounded(0, 1)), recipe=name).fit(pd.DataFrame(), [])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_infinite_epsilon_gives_the_twin_without_noise(name):
    X, y, schema = labelled("mixed", 2)
    model = DPForestClassifier(schema, epsilon=np.inf, recipe=name, random_state=0).fit(X, y)
    assert not model.privacy_.holds
    assert {entry["mechanism"] for entry in model.ledger_.entries()} <= {"exact"}
    # A tree without noise never does worse than the commonest class by much on its own rows.
    assert model.score(X, y) >= 0.45


@pytest.mark.parametrize("name", NAMES)
def test_the_ledger_of_a_fixed_shape_is_as_recorded(name):
    """What a recipe costs is part of its promise: a change shows in review. DPFOREST_RECORD=1 records anew."""
    _, _, features = table("mixed")
    schema = Schema(features, Classes(["no", "yes"]), n_rows=1000)
    X = pd.DataFrame({column: pd.Series([], dtype=object) for column in features})
    model = DPForestClassifier(schema, epsilon=1.0, recipe=name, n_trees=3, max_depth=2, random_state=0)
    ledger = model.fit(X, []).ledger_.to_dict()
    path = LEDGERS / f"{name}.json"
    if os.environ.get("DPFOREST_RECORD"):
        path.write_text(json.dumps(ledger, indent=1) + "\n")
    assert ledger == json.loads(path.read_text())


PARAMETERS = {
    "friedman-schuster-2010": [{"criterion": word} for word in ("gini", "max", "entropy")],
    "patil-singh-2014": [{"criterion": word} for word in ("infogain", "max", "gini")]
    + [{"bins": 3, "k": 2}, {"cuts": "even"}, {"cuts": "mdl"}],
    "rana-2015": [{"k": 2, "threshold_share": 0.3, "least_leaf": 0.05}],
    "fletcher-islam-2015-dpdf": [{"min_size": 50, "bins": 4}],
    "fletcher-islam-2015-snr": [{"least_snr": least} for least in (0, 0.7, 1.0, 25.5)] + [{"bins": 3}],
    "bojarski-2015": [{"vote": word} for word in ("majority", "threshold", "probabilistic")],
    "hou-2019": [{"k": 2}, {"k": 0.3}],
    "li-2020": [{"k": 2}],
    "guan-2020": [{"held_out": 0.3, "n_rounds": 2, "subset_size": 3, "split_share": 0.3, "k": 2}],
    "consul-2020": [{"part": False, "rho": 0.3, "k": 2}, {"medians": "first"}, {"medians": "joint", "balance": 2.5}],
    "consul-2020-ert": [{"part": False}],
    "dong-2022": [{"q": 1.2, "d": 0.5, "k": 2}, {"q": 1.0, "d": 0.0}],
    "li-2022": [{"eps_oob": 0.5, "k": 3, "n_first": 4, "leaf_share": 0.5}, {"first_share": 0.5, "held_out": 0.1}],
    "liu-2022": [{"alpha": 0.3, "p": 3}] + [{"selection": word} for word in ("nig", "su", "off")],
    "suihkonen-2023": [{"k": 2, "p": 0.3}, {"medians": "first"}],
}
CASES = [(name, parameters) for name, listed in PARAMETERS.items() for parameters in listed]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), CASES, ids=lambda value: str(value))
def test_parameters_of_the_papers_are_reachable(name, parameters):
    X, y, schema = labelled("mixed", 2)
    model = DPForestClassifier(schema, epsilon=2.0, recipe=name, recipe_params=parameters, n_trees=4, max_depth=2)
    assert model.fit(X, y).ledger_.spent == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize(("name", "parameters"), CASES, ids=lambda value: str(value))
def test_a_recipe_with_parameters_of_its_paper_is_still_the_listed_one(name, parameters):
    assert is_listed(get_recipe(name).with_parameters(parameters))


def test_a_step_into_a_tuple_of_parts_sets_one_of_them():
    plain = get_recipe("fletcher-islam-2015-snr")
    assert plain.with_parameters({"least_snr": 2.5}) == replace(plain, refine=(PruneBySignal(2.5),))


def test_p_says_how_many_features_liu_selects():
    """Five columns whose majority is the class: all are relevant."""
    X = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (500, 5)), columns=list("abcde"))
    schema = Schema({name: Categorical([0, 1]) for name in X}, Classes([0, 1]))
    for p in (1, 4):
        model = DPForestClassifier(schema, np.inf, recipe="liu-2022", n_trees=20, random_state=0, recipe_params={"p": p})
        forest = model.fit(X, (X.sum(axis=1) > 2).astype(int).to_numpy()).forest_
        assert len(set(forest.features[~forest.is_leaf].tolist())) == p


def test_support_alone_ends_a_signal_to_noise_tree():
    """Ten features of two values and 5000 rows, without noise: every path uses every feature; with noise it is shorter."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame({f"c{index}": rng.integers(0, 2, 5000) for index in range(10)})
    schema = Schema({name: Categorical([0, 1]) for name in X}, Classes([0, 1]), n_rows=5000)
    # sqrt(2) * 2 * t / epsilon records must be left to a child: 5000 / 2**level > 283 for one tree at epsilon = 0.01.
    for epsilon, depth in ((np.inf, 10), (0.01, 4)):
        model = DPForestClassifier(schema, epsilon, recipe="fletcher-islam-2015-snr", n_trees=1, random_state=0,
                                   recipe_params={"least_snr": 0})  # fmt: skip
        assert model.fit(X, X["c0"].to_numpy()).forest_.depth == depth


def test_every_parameter_is_tried_above():
    declared = {(recipe["name"], name) for recipe in list_recipes() for name in recipe["parameters"]}
    # Recipes that are another with a part replaced share its parameters.
    shared = {("mu-2016", "k"), ("li-2017", "k"), ("zhang-2021", "k")}
    shared |= {(name, "sample_rows") for name, _ in declared}  # of all recipes, and tried with the sample
    assert declared - shared == {(name, key) for name, parameters in CASES for key in parameters}


BAD = [
    ("consul-2020", {"rho": 0}),
    ("consul-2020", {"rho": "half"}),
    ("consul-2020", {"part": "yes"}),
    ("consul-2020", {"medians": "last"}),
    ("consul-2020", {"balance": 0}),
    ("consul-2020", {"depth": 5}),
    ("dong-2022", {"q": 0.5}),
    ("dong-2022", {"d": 1.0}),
    ("dong-2022", {"d": "much"}),
    ("patil-singh-2014", {"criterion": "accuracy"}),
    ("patil-singh-2014", {"bins": 0}),
    ("patil-singh-2014", {"k": np.inf}),
    ("bojarski-2015", {"vote": "loud"}),
    ("fletcher-islam-2015-snr", {"least_snr": -1.0}),
    ("fletcher-islam-2015-snr", {"least_snr": "high"}),
    ("fletcher-islam-2015-snr", {"least_snr": 10**400}),
    ("li-2022", {"eps_oob": 2.0}),
    ("li-2022", {"leaf_share": 1e-20}),
    ("liu-2022", {"alpha": 0}),
    ("liu-2022", {"selection": "best"}),
    ("guan-2020", {"held_out": 1.0}),
    ("suihkonen-2023", {"k": -1}),
    ("suihkonen-2023", {"p": 1.0}),
    ("rana-2015", {"threshold_share": 1}),
    ("auto", {"k": 3}),
]


@pytest.mark.parametrize(("name", "parameters"), BAD, ids=lambda value: str(value)[:60])
def test_bad_parameters_are_refused_and_nothing_is_charged(name, parameters):
    X, y, schema = labelled("mixed", 2)
    model = DPForestClassifier(schema, recipe=name, recipe_params=parameters)
    with pytest.raises((ParameterError, SchemaError)):
        model.fit(X, y)
    assert not hasattr(model, "ledger_")


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_variant_is_never_called_private(name):
    X, y, schema = labelled("mixed", 2)
    model = DPForestClassifier(schema, epsilon=1.0, recipe=name, variant="published")
    if name == "consul-2020-ert":
        assert model.fit(X, y).privacy_.holds
        assert "keeps its claim" in model.privacy_.notes[0]
        return
    with pytest.warns(LeakWarning, match="not private") as warned:
        model.fit(X, y)
    assert len(warned) == 1
    assert not model.privacy_.holds
    assert model.privacy_.epsilon == np.inf
    assert model.ledger_.spent == np.inf
    assert all("docs/review.md, 2." in reason for reason in model.privacy_.reasons)
    assert "guarantee" in str(model.privacy_)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.filterwarnings("ignore::dpforest.errors.LeakWarning")
def test_a_published_variant_trains_without_lists_of_categories(name, tmp_path):
    """The city alone decides, so a forest that found its buckets knows the class of most."""
    X, _, _ = table("without lists")
    schema = Schema(dict.fromkeys(("city", "sex"), Categorical()), Classes(["elsewhere", "Oslo"]), n_rows=N_ROWS)
    y = np.where(X["city"] == "Oslo", "Oslo", "elsewhere")
    rows = X[["city", "sex"]].replace({"Rome": None})
    model = DPForestClassifier(schema, epsilon=1000, recipe=name, variant="published", random_state=0).fit(rows, y)
    assert model.score(rows, y) > 0.6
    model.save(tmp_path / "m.dpf")
    assert (load_model(tmp_path / "m.dpf").predict(rows) == model.predict(rows)).all()


def test_sections_that_statements_name_are_in_the_review():
    from dpforest.recipes.published.registry import get_published

    review = (Path(__file__).parents[2] / "docs" / "review.md").read_text("utf-8")
    for name in PUBLISHED:
        for leak in get_published(name).leaks:
            section = leak.split("docs/review.md, ")[1].rstrip(").")
            assert all(f"**{part.strip()} " in review for part in section.split(","))


@pytest.mark.parametrize("name", sorted(SYSTEMS - set(PUBLISHED)))
def test_other_recipes_have_no_published_variant(name):
    X, y, schema = labelled("mixed", 2)
    with pytest.raises(ParameterError, match="no published variant"):
        DPForestClassifier(schema, recipe=name, variant="published").fit(X, y)


def test_a_parameter_that_a_paper_lacks_is_refused():
    X, y, schema = labelled("mixed", 2)
    with pytest.raises(ParameterError, match="takes no parameter 'n_first'"):
        DPForestClassifier(schema, recipe="li-2022", variant="published", recipe_params={"n_first": 5}).fit(X, y)
