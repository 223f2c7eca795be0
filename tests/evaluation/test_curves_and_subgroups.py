"""Curves of two classes, subgroups and comparisons: all follow from one release, and what cannot be had is refused."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import mean_absolute_error, roc_auc_score
from tests.support.scored import CUTS, FEATURES, two

from dpforest import Categorical, Classes, Date, DPForestClassifier, Numeric, Schema
from dpforest.errors import ParameterError
from dpforest.evaluation import evaluate_privately, evaluate_public
from dpforest.evaluation.cells import FIXED, Cells, edges_of
from dpforest.evaluation.figures import Released, area, number_comparison, roc
from dpforest.evaluation.scoring import _release
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.ledger import Ledger

# --- curves -------------------------------------------------------------------------------------------------------------


def test_the_area_is_the_share_of_pairs_in_order():
    counts = np.array([[3, 0, 5, 1], [0, 2, 2, 4]])
    first, second = (np.repeat(np.arange(4), row) for row in counts)
    pairs = [(two > one) + 0.5 * (two == one) for one, two in itertools.product(first, second)]
    found = area(Released(counts, 0.0))
    assert found.value == pytest.approx(np.mean(pairs))
    assert found.binning == pytest.approx(np.mean([0.5 * (two == one) for one, two in itertools.product(first, second)]))
    assert found.margin == 0


def test_the_gradient_of_the_area_is_that_of_small_changes():
    counts, step = np.array([[30.0, 10, 5, 1], [1, 20, 20, 40]]), 1e-4
    noisy = area(Released(counts, step))  # noise so small that only the gradient counts
    moved = []
    for cell in np.ndindex(counts.shape):
        more = counts.copy()
        more[cell] += step
        moved.append((area(Released(more, 0.0)).value - area(Released(counts, 0.0)).value) / step)
    assert noisy.margin == pytest.approx(1.96 * step * np.linalg.norm(moved), rel=1e-3)
    # The sampling variance is that of counts that vary as Poisson ones do, and one record more.
    spread = (counts.reshape(-1) * np.square(moved)).sum() + 1 / counts.sum(axis=1).min() ** 2
    assert noisy.sampling == pytest.approx(1.96 * math.sqrt(spread), rel=1e-3)


def test_a_noisy_curve_rises_from_0_to_1_unless_a_class_may_be_noise():
    few = np.array([[500, 300], [3, 4]])
    assert [math.isnan(area(Released(few, noise)).value) for noise in (5.0, 1.0)] == [True, False]
    assert roc(Released(few, 5.0), np.array([0.5])) == []
    counts = np.array([[90, -8, 5, -3, 40], [-2, 6, -9, 50, 60]])
    points = roc(Released(counts, 4.0), np.array([0.1, 0.3, 0.5, 0.8]))
    for name in ("false_positives", "true_positives"):
        values = [point[name] for point in points]
        assert values == sorted(values)
        assert 0 <= values[0] <= values[-1] <= 1
    assert [point["threshold"] for point in points] == [0.8, 0.5, 0.3, 0.1]
    assert all(point["true_positives_margin"] > 0 for point in points)


def test_bins_follow_from_the_released_model_alone():
    model, X, _ = two(random_state=0)
    edges = edges_of(model.forest_)
    assert np.array_equal(edges, edges_of(model.forest_))
    assert 0.5 in edges
    assert 8 <= len(edges) <= 14
    assert 0.237 in edges_of(model.forest_, 0.237)
    shares = model.predict_proba(X)[:, 1]
    fullest = np.bincount(np.searchsorted(edges, shares), minlength=len(edges) + 1).max() / len(shares)
    assert fullest < 0.5  # the model's own scores are spread over the bins
    assert np.array_equal(edges_of(two(recipe="consul-2020", n_rows=300)[0].forest_), FIXED)  # trees that vote


@pytest.mark.parametrize("recipe", ["auto", "consul-2020", "fletcher-islam-2017"])
def test_bins_say_which_label_is_predicted(recipe):
    model, X, _ = two(recipe=recipe, n_rows=400, epsilon=1.0)
    cells = Cells.of(model, None, None, 0.5)
    shares = model.predict_proba(X)
    # Shares that round to 0.5, where argmax takes the first label or sees the last bit.
    odd = np.array([[0.5, 0.5], [0.5 - 2**-54, 0.5], [0.5 - 2**-53, 0.5 + 2**-53], [1, 0], [0, 1]])
    for each in (shares, odd):
        predicted = each.argmax(axis=1)
        bins = cells._bins(each[:, 1], predicted)
        assert np.array_equal(cells.says[1][bins], predicted)
        assert 0 <= bins.min() <= bins.max() < cells.shape[3]


def test_any_threshold_that_was_released_is_free_afterwards(classifier_of_two):
    model, X, y = classifier_of_two
    found = evaluate_public(model, X, y, threshold=0.3)
    shares = model.predict_proba(X)[:, 1]
    for asked, threshold in ((0.3, 0.3), (0.5, 0.5), (0.301, 0.3)):
        row = found.at(asked)
        assert row["threshold"] == threshold
        scores = {score.name: score.value for score in row["scores"]}
        assert scores["recall"] == pytest.approx((shares[y == "b"] > threshold).mean())
        assert scores["specificity"] == pytest.approx((shares[y == "a"] <= threshold).mean())
        kept = np.isin(y, ["a", "b"])
        assert scores["precision"] == pytest.approx((y[kept] == "b")[shares[kept] > threshold].mean())


def test_a_threshold_is_between_0_and_1_and_for_two_classes(classifier, classifier_of_two):
    for wrong in (0, 1, -0.2, math.nan, "half"):
        with pytest.raises(ParameterError, match="threshold must be"):
            evaluate_privately(*classifier_of_two, 1.0, threshold=wrong)
    with pytest.raises(ParameterError, match="A threshold is for two classes"):
        evaluate_privately(*classifier, 1.0, threshold=0.3)
    with pytest.raises(ParameterError, match="Thresholds are for two classes"):
        evaluate_privately(*classifier, 1.0).at(0.5)


def test_calibration_has_every_bin_and_its_share(classifier_of_two):
    model, X, y = classifier_of_two
    shares = model.predict_proba(X)[:, 1]
    kept = np.isin(y, ["a", "b"])
    points = evaluate_public(model, X, y).details["calibration"]
    assert (points[0]["low"], points[-1]["high"]) == (0.0, 1.0)
    for point in points:
        inside = kept & (shares > point["low"]) & (shares <= point["high"])
        assert point["n_rows"] == inside.sum()
        if inside.any():
            assert point["share"] == pytest.approx((y[inside] == "b").mean())


# --- subgroups and comparisons ------------------------------------------------------------------------------------------


def groups_of(evaluation):
    return {row["group"]: row for row in evaluation.details["groups"]["rows"]}


def test_exact_figures_of_subgroups_are_those_of_their_rows(classifier_of_two):
    model, X, y = classifier_of_two
    found = groups_of(evaluate_public(model, X, y, by="z"))
    assert [*found] == ["u", "v", "(other values)", "(missing)"]
    shares, kept = model.predict_proba(X)[:, 1], np.isin(y, ["a", "b"])
    for name, own in (("u", X["z"] == "u"), ("(other values)", X["z"] == "w")):
        own = own.to_numpy() & kept
        scores = {score.name: score.value for score in found[name]["scores"]}
        assert found[name]["n_rows"] == own.sum()
        assert scores["area under the curve"] == pytest.approx(roc_auc_score(y[own] == "b", shares[own]))
        assert scores["accuracy"] == pytest.approx((model.predict(X[own]) == y[own]).mean())
    assert found["(missing)"]["n_rows"] == 0
    assert not found["(missing)"]["enough"]


def test_a_number_has_parts_by_cuts_or_by_its_bounds(regressor):
    model, X, y = regressor
    found = groups_of(evaluate_public(model, X, y, by=("x", CUTS)))
    assert [*found] == ["under 0.5", "0.5 to under 0.75", "0.75 and above", "(missing)"]
    own = (X["x"] >= 0.75).to_numpy() & ~np.isnan(y)
    exact = mean_absolute_error(np.clip(y[own], 0, 10), model.predict(X[own]))
    assert found["0.75 and above"]["scores"][0].value == pytest.approx(exact)
    assert next(iter(groups_of(evaluate_public(model, X, y, by="x")))) == "under 0.25"


def test_a_subgroup_with_too_few_records_says_so(classifier_of_two):
    model, X, y = classifier_of_two
    rare = X.copy()
    rare.loc[X.index[:40], "z"] = None
    found = groups_of(evaluate_privately(model, rare, y, 20.0, by="z"))
    assert found["u"]["enough"]
    assert not found["(missing)"]["enough"]  # 40 records: the luck of the draw alone is more than 0.1
    # Noise of epsilon 0.02 has a deviation of 70 in each of more than 20 counts: 1,000 records are too few.
    found = groups_of(evaluate_privately(model, X, y, 0.02, by="z"))
    assert not any(row["enough"] for row in found.values())


def test_a_comparison_is_about_the_same_records(classifier_of_two):
    model, X, y = classifier_of_two
    other, _, _ = two(seed=9, n_rows=400, epsilon=3.0)
    found = {score.name: score for score in evaluate_public(model, X, y, compare=other).details["comparison"]["scores"]}
    kept = np.isin(y, ["a", "b"])
    ours, theirs = (each.predict(X[kept]) == y[kept] for each in (model, other))
    difference = found["accuracy less that of the other model"]
    assert difference.value == pytest.approx(ours.mean() - theirs.mean())
    assert found["only this model is right"].value == pytest.approx((ours & ~theirs).mean())
    # As McNemar's test has it: records on which both are right, or both wrong, say nothing.
    n, b, c = len(ours), (ours & ~theirs).sum(), (~ours & theirs).sum()
    assert difference.sampling == pytest.approx(1.96 * math.sqrt(b + c - (b - c) ** 2 / n + 1) / n)


def test_a_comparison_of_numbers_pairs_their_errors(regressor):
    model, X, y = regressor

    class Constant(BaseEstimator):
        """A model that always predicts 5."""

        schema_, forest_ = model.schema_, model.forest_
        n_features_in_, feature_names_in_ = model.n_features_in_, model.feature_names_in_

        def predict(self, X):
            return np.full(len(X), 5.0)

    kept = ~np.isnan(y)
    ours, theirs = (np.abs(np.clip(y[kept], 0, 10) - predicted) for predicted in (model.predict(X[kept]), 5.0))
    cells = Cells.of(model, None, Constant(), 0.5)
    released = _release(cells, [(X, y, None)], Ledger(make_accountant(math.inf, 0.0)))
    found = number_comparison(released.over(0), 10.0)
    scores = {score.name: score for score in found["scores"]}
    assert scores["mean absolute error of the other model"].value == pytest.approx(theirs.mean(), abs=1e-3)
    difference = scores[found["difference"]]
    assert difference.value == pytest.approx(ours.mean() - theirs.mean(), abs=2e-3)
    assert difference.sampling == pytest.approx(1.96 * (ours - theirs).std() / math.sqrt(kept.sum()), rel=0.01)


BY = ["nobody", "many", "day", "free", "text", ("x", []), ("x", [2, 1]), ("x", ["a"]), ("z", [1]), ("x", [math.inf])]


@pytest.mark.filterwarnings("ignore:The fit measured:UserWarning")
def test_what_cannot_be_a_subgroup_is_refused_before_anything_is_spent():
    features = {**FEATURES, "many": Categorical(range(300)), "day": Date(), "free": Numeric(), "text": Categorical()}
    X = pd.DataFrame({"x": [0.5] * 20, "z": "u", "many": 3, "day": pd.Timestamp("2024-01-01"), "free": 2.0, "text": "a"})
    model = DPForestClassifier(Schema(features, Classes(["a", "b"])), epsilon=5).fit(X, ["a", "b"] * 10)
    for by in BY:
        with pytest.raises(ParameterError):
            evaluate_privately(model, None, None, 1.0, by=by)  # nothing is read


def test_models_that_cannot_be_compared_are_refused(classifier, classifier_of_two, regressor):
    model, X, y = classifier_of_two
    for other in (classifier[0], regressor[0]):
        with pytest.raises(ParameterError, match="different targets"):
            evaluate_privately(model, X, y, 1.0, compare=other)
    fewer = DPForestClassifier(Schema({"x": Numeric(0, 1)}, Classes(["a", "b"])), epsilon=5).fit(X[["x"]], y)
    with pytest.raises(ParameterError, match="different columns"):
        evaluate_privately(model, X, y, 1.0, compare=fewer)


def test_a_learnt_list_has_the_subgroups_that_were_released():
    X = pd.DataFrame({"x": [0.5] * 400, "z": ["often"] * 399 + ["once"]})
    schema = Schema({"x": Numeric(0, 1), "z": Categorical(learn=True)}, Classes(["a", "b"]), n_rows=400)
    model = DPForestClassifier(schema, epsilon=20, delta=1e-6).fit(X, ["a", "b"] * 200)
    found = groups_of(evaluate_public(model, X, ["a", "b"] * 200, by="z"))
    assert [*found] == ["often", "(other values)", "(missing)"]
    assert [row["n_rows"] for row in found.values()] == [399, 1, 0]
