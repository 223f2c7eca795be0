"""Curves of two classes: bins are public, the area is that of pairs, and noise leaves a curve that rises."""

import itertools
import math

import numpy as np
import pytest
from tests.support.scored import two

from dpforest.errors import ParameterError
from dpforest.evaluation import evaluate_privately, evaluate_public
from dpforest.evaluation.bins import FIXED, edges_of
from dpforest.evaluation.cells import Cells
from dpforest.evaluation.curves import area, roc
from dpforest.evaluation.released import Released


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
