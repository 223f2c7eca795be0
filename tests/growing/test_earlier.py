"""Fits that start from a released model: its trees come first if they help, and nothing of them is charged again."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from tests.support.strategies import recipe_of

from dpforest import (
    Bounded,
    Budget,
    Categorical,
    Classes,
    DPForestClassifier,
    DPForestRegressor,
    Numeric,
    Schema,
    load_model,
)
from dpforest.errors import ModelFileError, ParameterError, SchemaError
from dpforest.forest.tree import SCORE_STEPS
from dpforest.growing.earlier import MOST_SCORE, additive, follow, in_steps
from dpforest.growing.linear import LinearScore
from dpforest.growing.sequential import Phase, Sequential, SequentialMeans
from dpforest.mechanisms import Entropy
from dpforest.parts.criteria import MaxOperator
from dpforest.parts.voting import LogShares
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.records.vault import Vault
from dpforest.schema import FINE_STEPS

FEATURES = {"a": Numeric(0, 1), "b": Categorical(["x", "y", "z"])}
LABELS = {2: ["no", "yes"], 3: ["p", "q", "r"]}
N_ROWS = 3000


def table(seed=0, n_rows=N_ROWS):
    """Rows of two features, and numbers in 0 .. 1 that follow from them."""
    rng = np.random.default_rng(seed)
    a, b = rng.random(n_rows), rng.integers(3, size=n_rows)
    rows = np.empty((n_rows, 2), dtype=object)
    rows[:, 0], rows[:, 1] = a, np.array(["x", "y", "z"])[b]
    return rows, (a + b / 2) / 2


def labels_of(values, n_classes, shift=0):
    codes = np.minimum((values * n_classes).astype(int), n_classes - 1)
    return np.array(LABELS[n_classes])[(codes + shift) % n_classes]


def of_two(seed=0):
    rows, values = table(seed)
    return rows, labels_of(values, 2)


def classifier(n_classes=2, **parameters):
    parameters = {"epsilon": math.inf, "n_trees": 5, "max_depth": 2} | parameters
    return DPForestClassifier(Schema(FEATURES, Classes(LABELS[n_classes])), **parameters)


UNIT = Bounded(0, 1)


def regressor(target=UNIT, **parameters):
    return DPForestRegressor(Schema(FEATURES, target), **{"epsilon": math.inf, "n_trees": 5, "max_depth": 2} | parameters)


def fitted(n_classes=2, shift=0, **parameters):
    rows, values = table()
    return classifier(n_classes, **parameters).fit(rows, labels_of(values, n_classes, shift))


def first_trees(forest):
    first = forest.only(np.arange(forest.n_trees) < forest.n_earlier)
    assert first.n_earlier == first.n_trees == forest.n_earlier
    return first


# --- trees come first, and records have their scores ----------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, None])
def test_records_that_follow_a_forest_have_the_scores_that_it_predicts_by(n_classes):
    rows, values = table()
    model = regressor(max_depth=3) if n_classes is None else classifier(n_classes, max_depth=3)
    forest = model.fit(rows, values if n_classes is None else labels_of(values, n_classes)).forest_
    vault = Vault.seal(rows, values if n_classes is None else labels_of(values, n_classes), model.schema_)
    counter = vault.encode(forest.domain)
    counter.start_scores()
    follow(counter, forest, Gate(Ledger(make_accountant(1.0, 0.0)), Entropy()))
    leaves = forest.leaves(counter._codes)
    sums = sum(in_steps(forest)[own] for own in leaves)
    np.testing.assert_array_equal(counter._scores.T, sums)
    steps = FINE_STEPS if n_classes is None else SCORE_STEPS
    exact = sum(forest.votes[own] for own in leaves)[:, 1 if n_classes is None else slice(None)]
    np.testing.assert_allclose(counter._scores.T.squeeze(), steps * exact, atol=len(leaves))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("epsilon", [math.inf, 8.0])
def test_a_model_that_helps_is_kept_and_its_trees_come_first(n_classes, epsilon):
    earlier, (rows, values) = fitted(n_classes, epsilon=epsilon), table(1)
    labels = labels_of(values, n_classes)
    model = classifier(n_classes, epsilon=epsilon, earlier_model=earlier).fit(rows, labels)
    forest = model.forest_
    assert (forest.n_earlier, forest.n_trees) == (5, 10)
    for name in ("parents", "features", "votes", "counts", "shares"):
        np.testing.assert_array_equal(getattr(first_trees(forest), name), getattr(earlier.forest_, name))
    assert forest.domain is earlier.forest_.domain
    kinds = [entry["label"] for entry in model.ledger_.entries()]
    assert kinds.count("earlier model") == 1
    assert not any(kind.startswith("grid") for kind in kinds)
    assert {entry["scope"] for entry in model.ledger_.entries() if "tree" in entry["scope"]} == {
        f"fit / tree {number}" for number in range(6, 11)
    }
    assert (model.predict(rows) == labels).mean() >= (earlier.predict(rows) == labels).mean() - 0.02


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_model_of_exchanged_labels_is_left_and_the_rest_is_a_fit_as_without_it(n_classes):
    earlier, (rows, values) = fitted(n_classes, shift=1), table(1)
    labels = labels_of(values, n_classes)
    model = classifier(n_classes, earlier_model=earlier, random_state=0).fit(rows, labels)
    alone = classifier(n_classes, random_state=0).fit(rows, labels)
    assert model.forest_.n_earlier == 0
    np.testing.assert_array_equal(model.predict_proba(rows), alone.predict_proba(rows))
    assert any("no help" in note for note in model.privacy_.notes)


def test_what_is_known_already_is_not_bought_again_and_the_rest_is_spent_on_trees():
    planned = {"epsilon": 8.0, "n_trees": None, "max_depth": None}
    earlier = classifier(**planned).fit(*of_two())
    model = classifier(**planned, earlier_model=earlier).fit(*of_two())
    assert model.forest_.n_earlier == earlier.forest_.n_trees
    assert 7.99 < model.ledger_.spent <= 8
    kinds = {entry["label"] for entry in model.ledger_.entries()}
    assert {kind for kind in kinds if not kind.startswith(("splits", "leaves"))} == {"number of rows", "earlier model"}


def test_few_rows_of_either_number_of_classes_get_one_more_tree():
    rows, values = table(n_rows=300)
    for n_classes in (2, 3):
        schema = Schema(FEATURES, Classes(LABELS[n_classes]), n_rows=300)
        earlier = fitted(n_classes, epsilon=20.0)
        model = DPForestClassifier(schema, epsilon=1.0, earlier_model=earlier)
        # By the noise of the choice it may be left, about once in a hundred fits.
        forests = [model.fit(rows, labels_of(values, n_classes)).forest_ for _ in range(8)]
        assert {forest.n_trees - forest.n_earlier for forest in forests if forest.n_earlier} == {1}


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [Bounded(0, 1), Bounded()], ids=repr)
@pytest.mark.parametrize("epsilon", [math.inf, 20.0])
def test_a_model_of_numbers_is_kept_with_its_range(target, epsilon):
    rows, values = table()
    earlier = regressor(target, epsilon=epsilon).fit(rows, values)
    new, later = table(1)
    model = regressor(target, epsilon=epsilon, earlier_model=earlier).fit(new, later)
    assert (model.forest_.n_earlier, model.forest_.n_trees) == (5, 10)
    assert model.forest_.target == earlier.forest_.target
    kinds = [entry["label"] for entry in model.ledger_.entries()]
    assert not any("of the target" in kind for kind in kinds)
    assert kinds.count("earlier model: range") == (earlier.forest_.target != target)
    errors = [np.abs(each.predict(new) - later).mean() for each in (model, earlier)]
    assert errors[0] <= errors[1] + 0.01


def test_a_model_of_numbers_elsewhere_is_left_and_another_range_is_found():
    rows, values = table()
    earlier = regressor(Bounded(0, 100), epsilon=20.0).fit(rows, values + 50)
    model = regressor(Bounded(0, 100), epsilon=20.0, earlier_model=earlier).fit(rows, values)
    assert model.forest_.n_earlier == 0
    assert model.forest_.target.upper < 10 < 40 < earlier.forest_.target.lower
    kinds = [entry["label"] for entry in model.ledger_.entries()]
    assert "earlier model: range" in kinds
    assert "earlier model" not in kinds


def test_a_model_that_is_no_nearer_than_its_mean_is_left():
    rows, values = table()
    shuffled = np.random.default_rng(2).permutation(values)
    for worse in (regressor(max_depth=6).fit(rows, 1 - values), regressor(n_trees=1, max_depth=1).fit(rows, shuffled)):
        assert regressor(earlier_model=worse).fit(rows, values).forest_.n_earlier == 0


# --- trees that add up ----------------------------------------------------------------------------------------------


def test_a_single_tree_of_any_recipe_can_be_followed_and_trees_that_vote_cannot():
    (rows, labels), (_, values) = of_two(), table()
    one = classifier(recipe="dong-2022", n_trees=1, epsilon=50.0, random_state=0).fit(rows, labels)
    model = classifier(earlier_model=one).fit(rows, labels)
    assert (model.forest_.n_earlier, model.forest_.link) == (1, "softmax")
    agrees = additive(one.forest_).predict(Vault.seal(rows, labels, one.schema_).encode(one.forest_.domain)._codes)
    assert (agrees.argmax(axis=1) == one.predict_proba(rows).argmax(axis=1)).mean() > 0.99
    several = classifier(recipe="dong-2022", n_trees=3, epsilon=50.0).fit(rows, labels)
    with pytest.raises(ParameterError, match="3 trees that vote each for itself"):
        classifier(earlier_model=several).fit(rows, labels)
    number = regressor(recipe="consul-2020", n_trees=1).fit(rows, values)
    assert additive(number.forest_).link == "sum"
    assert regressor(earlier_model=number).fit(rows, values).forest_.n_earlier == 1


def test_votes_of_any_size_are_kept_within_what_scores_can_be():
    forest = fitted().forest_
    steps = in_steps(replace(forest, votes=1e90 * forest.votes))
    assert {*np.abs(steps).ravel()} <= {0, MOST_SCORE}


def test_leaves_without_records_of_a_class_have_finite_votes():
    forest = classifier(recipe="dong-2022", n_trees=1).fit(table()[0], np.full(N_ROWS, "no")).forest_
    assert np.isfinite(additive(replace(forest, shares=np.eye(2)[np.zeros(forest.n_nodes, dtype=int)])).votes).all()


# --- what is refused, before anything is charged --------------------------------------------------------------------


def refused(model, error, match, given=None):
    rows, values = table()
    labels = labels_of(values, 2) if isinstance(model, DPForestClassifier) else values
    with pytest.raises(error, match=match):
        model.fit(given if given is not None else rows, labels)
    assert not getattr(model, "ledger_", None) or model.ledger_.entries() == []


@pytest.mark.parametrize(
    ("parameters", "match"),
    [({}, "cannot start from an earlier model"), ({"variant": "published"}, "starts from no earlier model")],
)
def test_recipes_whose_trees_do_not_follow_one_another_refuse(parameters, match):
    refused(classifier(recipe="dong-2022", earlier_model=fitted(), **parameters), ParameterError, match)


def test_steps_that_do_not_look_at_what_trees_get_wrong_refuse():
    step = LinearScore(0.5, looks=(0.3, 0.3), choice=0.3)
    parts = {"criterion": MaxOperator(), "vote": LogShares(1.0), "n_trees": 1, "tasks": ("classification",)}
    recipe = recipe_of(**parts, stages=Sequential((Phase(0.5, 1), step)))
    model = classifier(recipe=recipe, earlier_model=fitted(), n_trees=None)
    refused(model, ParameterError, "LinearScore of recipe .* cannot follow")
    own = classifier(recipe=replace(recipe, stages=Sequential((Phase(1.0, 1),))), earlier_model=fitted(), n_trees=None)
    assert own.fit(*of_two()).forest_.n_earlier == 5
    assert own.privacy_.own_recipe


@pytest.mark.parametrize(
    ("features", "labels", "match"),
    [
        ({"a": Numeric(0, 1)}, ["no", "yes"], "'b' is here not"),
        ({**FEATURES, "c": Numeric(0, 1)}, ["no", "yes"], "'c' is only here"),
        ({**FEATURES, "a": Numeric(0, 2)}, ["no", "yes"], r"'a' is Numeric\(0, 1\), and in this schema Numeric\(0, 2\)"),
        (FEATURES, ["yes", "no"], "the target is Classes"),
    ],
)
def test_a_schema_that_says_something_else_is_refused_by_name(features, labels, match):
    model = DPForestClassifier(Schema(features, Classes(labels)), earlier_model=fitted())
    given = np.concatenate([table()[0], np.zeros((N_ROWS, 1), dtype=object)], axis=1)[:, : len(features)]
    refused(model, SchemaError, match, given)


def test_a_model_of_another_task_is_refused():
    refused(classifier(earlier_model=regressor().fit(*table())), SchemaError, "the target is Bounded")


@pytest.mark.parametrize(
    "given", [classifier(), "no such file.dpf", 3, SequentialMeans()], ids=lambda given: type(given).__name__
)
def test_what_is_no_fitted_model_is_refused(given):
    refused(classifier(earlier_model=given), (ParameterError, ModelFileError), "fitted model|cannot be read")


def test_copies_keep_a_path_and_a_frozen_model_and_a_lost_fit_is_refused(tmp_path):
    earlier = fitted()
    earlier.save(tmp_path / "earlier.dpf")
    for given in (str(tmp_path / "earlier.dpf"), tmp_path / "earlier.dpf", FrozenEstimator(earlier)):
        assert clone(classifier(earlier_model=given)).fit(*of_two()).forest_.n_earlier == 5
    refused(clone(classifier(earlier_model=earlier)), ParameterError, "FrozenEstimator")


def test_columns_may_come_in_another_order():
    import pandas as pd

    earlier, (rows, values) = fitted(), table()
    frame = pd.DataFrame({"b": rows[:, 1], "a": rows[:, 0].astype(float)})
    schema = Schema({"b": FEATURES["b"], "a": FEATURES["a"]}, Classes(LABELS[2]))
    model = DPForestClassifier(schema, epsilon=math.inf, earlier_model=earlier).fit(frame, labels_of(values, 2))
    assert model.forest_.n_earlier == 5
    assert [*model.schema_.features] == ["a", "b"]
    assert (model.predict(frame) == labels_of(values, 2)).mean() > 0.9
    # An array has no names, so that its columns would be taken for others.
    refused(DPForestClassifier(schema, earlier_model=earlier), SchemaError, "another order", rows[:, ::-1])


# --- what is said of it ---------------------------------------------------------------------------------------------


def test_the_statement_says_what_a_record_in_both_tables_loses(tmp_path):
    first = fitted(epsilon=2.0, delta=1e-6)
    second = classifier(epsilon=3.0, earlier_model=first).fit(*of_two())
    third = classifier(epsilon=0.5, delta=1e-6, earlier_model=second).fit(*of_two())
    privacy = third.privacy_
    assert (privacy.epsilon, privacy.holds) == (third.ledger_.spent, True)
    assert [(part.epsilon, part.delta, part.holds) for part in privacy.earlier] == [
        (each.privacy_.epsilon, each.privacy_.delta, True) for each in (first, second)
    ]
    epsilon, delta, unit = privacy.in_all
    assert (epsilon, unit) == (pytest.approx(2.0 + 3.0 + 0.5, abs=1e-3), "record")
    assert delta == pytest.approx(sum(each.privacy_.delta for each in (first, second, third)))
    assert "a record that was used there too loses at most epsilon = 5.5" in privacy.sentence
    assert "the earlier model that the fit started from" in privacy.public
    third.save(tmp_path / "third.dpf")
    loaded = load_model(tmp_path / "third.dpf")
    assert loaded.privacy_ == privacy
    assert loaded.privacy_.to_dict()["in_all"]["epsilon"] == epsilon
    assert loaded.forest_.n_earlier == third.forest_.n_earlier
    assert loaded.earlier_model is None
    assert "in_all" not in first.privacy_.to_dict()


def test_a_model_without_guarantee_passes_that_on_and_no_budget_pays_for_it(tmp_path):
    seeded = fitted(epsilon=2.0, random_state=0)
    model = classifier(epsilon=1.0, earlier_model=seeded).fit(*of_two())
    assert not model.privacy_.holds
    assert "the earlier model that it starts from has no guarantee (a random_state was given" in model.privacy_.reasons[0]
    assert any("in the table of this fit alone loses at most epsilon = 1" in note for note in model.privacy_.notes)
    budget = Budget.open(tmp_path / "budget.db", dataset="a", epsilon=3.0)
    with pytest.raises(ParameterError, match="earlier model that it starts from has no guarantee"):
        classifier(epsilon=1.0, earlier_model=seeded, budget=budget).fit(*of_two())
    sound = classifier(epsilon=1.0, earlier_model=fitted(epsilon=2.0), budget=budget).fit(*of_two())
    assert sound.privacy_.holds
    assert budget.spent == sound.ledger_.spent


@pytest.mark.parametrize(
    "wrong", [{"epsilon": "nan"}, {"delta": 2}, {"unit": "year"}, {"holds": 1}, {"recipe": 3}, {"more": 0}]
)
def test_a_statement_whose_earlier_models_no_fit_has_is_refused(wrong):
    content = classifier(epsilon=1.0, earlier_model=fitted(epsilon=2.0)).fit(*of_two()).privacy_.to_dict()
    assert Statement.from_dict(content).earlier[0].epsilon == 2.0
    content["earlier"][0] |= wrong
    with pytest.raises((ValueError, TypeError)):
        Statement.from_dict(content)


def test_what_weakens_the_promise_of_the_earlier_model_weakens_this_one():
    earlier = fitted(epsilon=2.0, delta=0.01)
    model = classifier(epsilon=1.0, earlier_model=earlier).fit(*of_two())
    assert earlier.privacy_.cautions
    assert model.privacy_.cautions == tuple(f"{each} (said of the earlier model)" for each in earlier.privacy_.cautions)


def test_a_learnt_list_is_that_of_the_earlier_model_and_needs_no_delta():
    schema = Schema(FEATURES | {"b": Categorical(learn=True)}, Classes(LABELS[2]))
    earlier = DPForestClassifier(schema, epsilon=20.0, delta=1e-5).fit(*of_two())
    model = DPForestClassifier(schema, epsilon=20.0, earlier_model=earlier).fit(*of_two())
    assert model.forest_.domain.lists == earlier.forest_.domain.lists
    assert {*model.forest_.domain.lists["b"]} == {"x", "y", "z"}
    assert "list of values" not in {entry["label"] for entry in model.ledger_.entries()}
    said = [[note for note in each.privacy_.notes if "learnt from" in note] for each in (earlier, model)]
    assert [(len(notes), "not learnt" in notes[0]) for notes in said] == [(1, False), (1, True)]
