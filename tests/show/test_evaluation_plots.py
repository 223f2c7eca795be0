"""Plots of evaluations show what was released, and say so if there is nothing to draw."""

import math
import re

import pytest
from report_models import mean_model, small_model, table

from dpforest import plots
from dpforest.errors import ParameterError
from dpforest.evaluation import evaluate_privately

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed():
    """Figures do not outlive a test."""
    yield
    plt.close("all")


def scored(epsilon):
    X, y = table(1500, seed=4)
    return evaluate_privately(small_model(), X, y, epsilon)


def test_a_curve_is_drawn_with_its_area_and_band():
    evaluation = scored(1.0)
    ax = plots.roc(evaluation)
    assert re.search(r"area under the curve: [01]\.\d+ ± 0\.0\d+", ax.get_title(loc="left"))
    drawn = ax.lines[1].get_ydata()
    assert drawn[0] == 0
    assert drawn[-1] == 1
    assert list(drawn[1:-1]) == [point["true_positives"] for point in evaluation.details["roc"]]
    assert ax.collections  # the bars of noise
    assert not plots.roc(scored(math.inf).to_dict()).collections
    _, given = plt.subplots()
    assert plots.roc(evaluation, ax=given) is given


def test_calibration_leaves_out_bins_with_too_few_records():
    content = scored(math.inf).to_dict()
    content["calibration"][3] |= {"share": None, "margin": None, "sampling": None}
    known = [point for point in content["calibration"] if point["share"] is not None]
    ax = plots.calibration(content)
    (marks,) = (line for line in ax.lines if line.get_marker() == "o")
    assert list(marks.get_ydata()) == pytest.approx([point["share"] for point in known])
    assert "share of 1" in ax.get_ylabel()


@pytest.mark.parametrize("draw", [plots.roc, plots.calibration])
def test_an_evaluation_without_curves_is_refused(draw):
    X, _ = table(200, seed=4)
    for wrong in (evaluate_privately(mean_model(), X[:, :2], X[:, 2], 1.0), small_model(), {}, None):
        with pytest.raises(ParameterError, match="There is no such curve"):
            draw(wrong)
