"""Weights of classes change what a released forest predicts, everywhere alike, and nothing that was released."""

import io

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.class_weight import compute_class_weight
from tests.show.exporting import agree, check, session
from tests.support.fitted import RECIPES, fitted

from dpforest import Classes, DPForestClassifier, Numeric, Schema, load_model
from dpforest.errors import ModelFileError, ParameterError
from dpforest.model.class_weights import _class_counts
from dpforest.search import DPSearchCV

INF = float("inf")
SCHEMA = Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)}, Classes(["no", "yes", "other"]))
RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.random(900), "b": RNG.random(900)})
Y = np.where(X["a"] > 0.9, "yes", np.where(X["b"] > 0.7, "other", "no"))
WEIGHTS = {"yes": 5, "other": 0.5}
TWO, Y_TWO = Schema(SCHEMA.features, Classes(["no", "yes"])), np.where(X["a"] > 0.9, "yes", "no")


def reweighted(shares, weights):
    products = shares * weights
    return products / products.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("recipe", ["auto", "consul-2020", "fletcher-islam-2017"])
def test_training_and_ledger_do_not_depend_on_weights(recipe):
    settings = {"recipe": recipe, "n_trees": 3, "random_state": 3}
    plain, *others = (
        DPForestClassifier(TWO, class_weight=given, **settings).fit(X, Y_TWO) for given in (None, {"yes": 5}, {}, "balanced")
    )
    for weighed in others:
        assert weighed.forest_.rules() == plain.forest_.rules()
        assert (weighed.forest_.votes == plain.forest_.votes).all()
        assert weighed.ledger_.to_dict() == plain.ledger_.to_dict()
        assert weighed.privacy_ == plain.privacy_
        assert (weighed.feature_importances_ == plain.feature_importances_).all()


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_shares_of_every_recipe_are_multiplied_by_their_weights(recipe):
    model, table = fitted(recipe)
    before = model.predict_proba(table)
    try:
        model.set_params(class_weight={"yes": 7.0})
        np.testing.assert_allclose(model.predict_proba(table), reweighted(before, [1, 7]), atol=1e-12)
        if not model.forest_.draws:
            assert (model.predict(table) == model.classes_[model.predict_proba(table).argmax(axis=1)]).all()
    finally:  # other tests use the same model
        model.set_params(class_weight=None)
    assert (model.predict_proba(table) == before).all()


def test_classes_are_weighed_by_what_is_given_or_by_the_balance_of_scikit_learn():
    model = DPForestClassifier(SCHEMA, epsilon=INF, recipe="consul-2020", random_state=0).fit(X, Y)
    before = model.predict_proba(X)
    balanced = compute_class_weight("balanced", classes=model.classes_, y=Y)
    for given, weights in ((WEIGHTS, [1, 5, 0.5]), ("balanced", balanced)):
        after = model.set_params(class_weight=given).predict_proba(X)
        np.testing.assert_allclose(after, reweighted(before, weights), atol=1e-9)
        assert (model.predict(X) == model.classes_[after.argmax(axis=1)]).all()
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), after)


def ratio_of_weights(model, table):
    """The weight of the second class over that of the first, as predictions show it."""
    after = model.predict_proba(table)
    before = model.set_params(class_weight=None).predict_proba(table)
    ratios = after[:, 1] / before[:, 1] / (after[:, 0] / before[:, 0])
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-6)
    return ratios[0]


@pytest.mark.parametrize("recipe", ["jagannathan-2009", "consul-2020"])
def test_balanced_weights_come_from_released_counts(recipe):
    model = DPForestClassifier(SCHEMA, epsilon=20, recipe=recipe, class_weight="balanced").fit(X, Y)
    counts = model.forest_.held.counts[0]
    assert ratio_of_weights(model, X) == pytest.approx(counts[0] / counts[1])


@pytest.mark.parametrize("n_rows", [None, 4000], ids=["measured", "declared"])
@pytest.mark.parametrize(
    ("delta", "labels"), [(0.0, ["no", "yes"]), (1e-6, ["no", "yes"]), (1e-6, ["no", "yes", "other"])], ids=str
)
def test_where_sizes_are_rough_balanced_weights_go_by_the_number_of_rows(n_rows, delta, labels):
    schema = Schema(SCHEMA.features, Classes(labels), n_rows=n_rows)
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"a": rng.random(4000), "b": rng.random(4000)})
    y = np.where(table["a"] > 0.9, "yes", "no")
    # Under this seed no released size is far from the number of rows; with others one in a hundred is, and is then believed.
    model = DPForestClassifier(schema, delta=delta, class_weight="balanced", random_state=0).fit(table, y)
    counts, deviations = _class_counts(model.forest_, model.ledger_, n_rows)
    assert (deviations < 0.5 * model.forest_.held.count_deviations[0]).all()
    assert (np.abs(counts - [(y == label).sum() for label in labels]) < 6 * deviations).all()
    counts = np.maximum(counts, deviations)
    assert ratio_of_weights(model, table) == pytest.approx(counts[0] / counts[1])


@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(4000), 5)], ids=["labels that are unknown", "persons"])
def test_a_declared_number_of_rows_that_were_not_all_used_spoils_no_balance(groups):
    # 20,000 rows are declared and 4,000 used: as if all were there, the classes would look almost even.
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"a": rng.random(20_000), "b": rng.random(20_000)})
    y = np.where(table["a"] > 0.9, "yes", "no").astype(object)
    parameters = {"max_rows_per_person": 1} if groups is not None else {}
    if groups is None:
        y[4000:] = "unknown"
    schema = Schema(SCHEMA.features, Classes(["no", "yes"]), n_rows=20_000)
    model = DPForestClassifier(schema, delta=1e-6, class_weight="balanced", **parameters).fit(table, y, groups=groups)
    # With 3,600 and 400 records, only noise of 17 standard deviations in both counts would bring it so low.
    assert ratio_of_weights(model, table) > 1.8


def test_noise_alone_gives_no_class_a_weight_beyond_its_noise():
    # A label that no record has: its released count is noise, so its weight is at most n over a standard deviation.
    schema = Schema(SCHEMA.features, Classes(["no", "yes", "other", "never"]))
    model = DPForestClassifier(schema, epsilon=0.5, recipe="consul-2020", class_weight="balanced").fit(X, Y)
    held = model.forest_.held
    votes = model._released.votes / np.where(model.forest_.votes > 0, model.forest_.votes, np.nan)
    largest = np.maximum(held.counts[0], held.count_deviations[0]).sum() / (4 * held.count_deviations[0, 3])
    assert np.nanmax(votes[:, 3], initial=0) <= largest * (1 + 1e-9)


@pytest.mark.parametrize(("recipe", "epsilon"), [("fletcher-islam-2017", 1.0), ("suihkonen-2023", INF)])
def test_balanced_weights_are_refused_where_leaves_released_labels(recipe, epsilon):
    model = DPForestClassifier(SCHEMA, recipe=recipe, epsilon=epsilon, n_trees=3, class_weight="balanced").fit(X, Y)
    with pytest.raises(ParameterError, match="no new fit is needed"):
        model.predict(X)
    assert len(model.set_params(class_weight=WEIGHTS).predict(X)) == len(X)


BAD = [
    ("balance", "must be a dictionary"), ([1, 2, 3], "must be a dictionary"), ({"maybe": 1}, "'maybe', which is no label"),
    ({"yes": 0}, "from 1e-09 to 1e\\+09, not 0"), ({"yes": -1}, "not -1"), ({"yes": float("nan")}, "not nan"),
    ({"yes": INF}, "not inf"), ({"yes": "2"}, "not '2'"), ({"yes": True}, "not True"),
]  # fmt: skip


def test_weights_that_cannot_be_used_are_refused_before_anything_is_spent():
    fitted = DPForestClassifier(SCHEMA, n_trees=1).fit(X, Y)
    for given, words in BAD:
        model = DPForestClassifier(SCHEMA, class_weight=given)
        with pytest.raises(ParameterError, match=words):
            model.fit(X, Y)
        assert not hasattr(model, "ledger_")
        fitted.set_params(class_weight=given)
        for ask in (lambda: fitted.predict(X), lambda: fitted.save(io.BytesIO())):
            with pytest.raises(ParameterError, match=words):
                ask()


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1], [("a", 1), ("b", 2)], [True, False]], ids=str)
def test_a_file_keeps_the_weights_and_names_none_without_so_that_older_versions_read_it(labels, tmp_path):
    y = [labels[value] for value in X["a"] > 0.8]
    model, path = DPForestClassifier(Schema(SCHEMA.features, Classes(labels)), n_trees=2).fit(X, y), tmp_path / "m.dpf"
    for weights in (None, "balanced", {labels[1]: np.float64(3.0)}, {labels[0]: 2, labels[1]: 0.1}):
        model.set_params(class_weight=weights).save(path)
        loaded = load_model(path)
        assert loaded.class_weight == weights
        assert (loaded.predict_proba(X) == model.predict_proba(X)).all()
        assert (b"class_weight" in path.read_bytes()) == (weights is not None)


def test_a_file_with_weights_that_nobody_could_give_is_refused(tmp_path):
    path = tmp_path / "m.dpf"
    DPForestClassifier(SCHEMA, class_weight="balanced", n_trees=1).fit(X, Y).save(path)
    content = path.read_bytes()
    assert content.count(b'"balanced"') == 1
    for change in (b'"balance!"', b'"balanced?'):
        path.write_bytes(content.replace(b'"balanced"', change))
        with pytest.raises(ModelFileError):
            load_model(path, allow_changed=True)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["auto", "consul-2020"])
@pytest.mark.parametrize("given", [{"yes": 7.0, "no": 0.5}, "balanced"], ids=str)
def test_every_export_predicts_with_the_weights(recipe, given):
    model = DPForestClassifier(TWO, epsilon=5, recipe=recipe).fit(X, Y_TWO)
    plain = model.predict_proba(X)
    expected = model.set_params(class_weight=given).predict_proba(X)
    assert np.abs(expected - plain).max() > 1e-6
    for export in ("SQL", "JSON"):
        check(model, X, export)
    agree(session(model.to_onnx()).run(["probabilities"], {name: X[[name]].to_numpy() for name in X})[0], expected)


def test_a_search_asks_for_weights_afterwards():
    model = DPForestClassifier(SCHEMA, class_weight="balanced")
    with pytest.raises(ParameterError, match="set it on best_estimator_, after the search"):
        DPSearchCV(model, {"max_depth": [1, 2]}).fit(X, Y)
