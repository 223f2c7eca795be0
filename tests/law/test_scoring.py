"""Scores on private rows: sensitivities hold and are reached, the charge comes first, scores follow from the release."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, r2_score, recall_score, roc_auc_score
from tests.support.chances import at_least
from tests.support.encoded import opened

from dpforest import Bounded, Categorical, Classes, DPForestClassifier, DPForestRegressor, Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.evaluation import evaluate_privately, evaluate_public
from dpforest.records.scoring import count_hits, sum_errors
from dpforest.schema import TARGET_STEPS

LABELS = ("a", "b", "c")
FEATURES = {"x": Numeric(0, 1), "z": Categorical(["u", "v"])}


def test_a_record_moves_one_cell_of_hits_and_misses_by_one():
    target = Classes(LABELS)
    moved = set()
    for label, predicted in itertools.product((*LABELS, "unlisted", None), range(3)):
        rows, indices = np.array(["a", "b", "c"], dtype=object), np.array([0, 0, 2])
        before = opened(count_hits(rows, indices, target))
        after = opened(count_hits(np.append(rows, [label]), np.append(indices, predicted), target))
        change = after - before
        assert np.abs(change).sum() <= 1
        moved.add(int(np.abs(change).sum()))
    assert moved == {0, 1}  # so a sensitivity of 0.9 would be too small


def test_a_record_moves_the_sums_of_a_number_by_the_steps_of_its_range():
    target = Bounded(-2, 6)
    most_l1 = most_l2 = 0
    for value, predicted in itertools.product((-2, -1.3, 0.1, 6, 900, math.nan), np.linspace(-2, 6, 23)):
        before = opened(sum_errors(np.array([1.0]), np.array([2.0]), target))
        change = opened(sum_errors(np.array([1.0, value]), np.array([2.0, predicted]), target)) - before
        assert np.abs(change).sum() in (0, TARGET_STEPS)
        most_l1, most_l2 = max(most_l1, np.abs(change).sum()), max(most_l2, (change**2).sum())
    assert most_l1 == TARGET_STEPS  # so 0.9 of it would be too small
    assert 0.9 * TARGET_STEPS**2 < most_l2 <= TARGET_STEPS**2


@pytest.fixture(scope="module")
def classifier():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.random(3000), "z": rng.choice(["u", "v", "w"], 3000)})
    y = np.where(X["x"] < 0.3, "a", np.where(X["z"] == "u", "b", "c")).astype(object)
    y[::50] = None
    model = DPForestClassifier(Schema(FEATURES, Classes(LABELS)), epsilon=math.inf).fit(X, y)
    return model, X, y


@pytest.fixture(scope="module")
def regressor():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"x": rng.random(3000), "z": rng.choice(["u", "v"], 3000)})
    y = 10 * X["x"].to_numpy() + rng.normal(0, 1, 3000)
    y[::40] = np.nan
    return DPForestRegressor(Schema(FEATURES, Bounded(0, 10)), epsilon=math.inf).fit(X, y), X, y


def parts(X, y):
    """In two parts, one of them empty in the middle."""
    return [(X[:1000], y[:1000]), (X[:0], y[:0]), (X[1000:], y[1000:])]


def test_exact_scores_of_classes_are_those_of_scikit_learn(classifier):
    model, X, y = classifier
    found = {score.name: score.value for score in evaluate_public(model, parts(X, y)).scores}
    kept = pd.notna(y)
    true, X = y[kept].astype(str), X[kept]
    assert found["accuracy"] == pytest.approx(accuracy_score(true, model.predict(X)))
    assert found["log loss"] == pytest.approx(log_loss(true, np.clip(model.predict_proba(X), 2.0**-53, 1)), rel=1e-6)
    for label in LABELS:
        hits = recall_score(true, model.predict(X), labels=[label], average="macro")
        assert found[f"recall of '{label}'"] == pytest.approx(hits)


def test_the_area_under_the_curve_is_that_of_scikit_learn():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"x": rng.random(500), "z": rng.choice(["u", "v"], 500)})
    y = (rng.random(500) < X["x"]).to_numpy().astype(int)
    model = DPForestClassifier(Schema(FEATURES, Classes([0, 1])), epsilon=5).fit(X, y)
    found = {score.name: score.value for score in evaluate_public(model, [(X, y)]).scores}
    assert found["area under the curve"] == pytest.approx(roc_auc_score(y, model.predict_proba(X)[:, 1]))


def test_exact_scores_of_a_number_are_those_of_scikit_learn(regressor):
    model, X, y = regressor
    found = {score.name: score.value for score in evaluate_public(model, parts(X, y)).scores}
    kept = ~np.isnan(y)
    true, predicted = np.clip(y[kept], 0, 10), model.predict(X[kept])
    assert found["mean absolute error"] == pytest.approx(mean_absolute_error(true, predicted), abs=1e-3)
    assert found["R2"] == pytest.approx(r2_score(true, predicted), abs=1e-3)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_scores_without_noise_are_the_exact_ones(kind, request):
    model, X, y = request.getfixturevalue(kind)
    exact = {score.name: score.value for score in evaluate_public(model, parts(X, y)).scores}
    for score in evaluate_privately(model, parts(X, y), math.inf).scores:
        assert score.value == pytest.approx(exact[score.name], abs=10 / TARGET_STEPS)
        assert score.margin == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_a_private_score_is_charged_once_and_lies_in_its_margin(kind, request):
    model, X, y = request.getfixturevalue(kind)
    exact = evaluate_privately(model, parts(X, y), math.inf).scores[0].value
    inside = 0
    for _ in range(300):
        found = evaluate_privately(model, parts(X, y), 0.5)
        assert found.epsilon == 0.5
        (entry,) = found.ledger.entries()
        assert (entry["mechanism"], entry["epsilon"]) == ("geometric", 0.5)
        inside += abs(found.scores[0].value - exact) <= found.scores[0].margin + 1e-12
    # 95 in 100 if noise were normal; noise that is near Laplace's lies within 1.96 deviations at least 93 times in 100.
    assert inside >= at_least(300, 0.93)


def test_the_margin_of_a_small_budget_is_ten_times_as_wide(classifier):
    model, X, y = classifier
    wide, narrow = (evaluate_privately(model, [(X, y)], epsilon).scores[0].margin for epsilon in (0.05, 0.5))
    assert 8 < wide / narrow < 12


def test_a_table_without_rows_has_scores_or_none_but_no_error(classifier, regressor):
    for model, X, y in (classifier, regressor):
        assert evaluate_public(model, [(X[:0], y[:0])]).scores == ()
        content = evaluate_privately(model, [(X[:0], y[:0])], 1.0).to_dict()
        assert content["epsilon"] == 1.0
        assert content["scores"]


def test_a_budget_that_is_none_is_refused(classifier):
    model, X, y = classifier
    with pytest.raises(ParameterError):
        evaluate_privately(model, [(X, y)], 0)
