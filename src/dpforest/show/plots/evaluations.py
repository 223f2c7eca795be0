"""Draws how good a model is: the ROC curve and calibration of an evaluation. Released values only."""

from typing import Any

import numpy as np

from dpforest.common.text import with_band
from dpforest.errors import ParameterError
from dpforest.show.plots.canvas import AS_IS, BLUE, GREY, axes, drawable

LONGEST = 24


def roc(evaluation: Any, *, ax: Any = None) -> Any:
    """Draw the ROC curve of an evaluation of two classes, with a 95 % band of the noise, if there is any."""
    content, points = _points(evaluation, "roc")
    names = ("false_positives", "true_positives", "false_positives_margin", "true_positives_margin")
    false, true, left, up = (np.array([point[name] for point in points]) for name in names)
    ax = _frame(ax, "false positives", "true positives")
    ax.plot([0, *false, 1], [0, *true, 1], color=BLUE, marker="o", markersize=3.5, linewidth=1.8)
    if left.any() or up.any():
        ax.errorbar(false, true, xerr=left, yerr=up, fmt="none", ecolor=BLUE, elinewidth=0.8, alpha=0.5)
    (area,) = (score for score in content["scores"] if score["name"] == "area under the curve")
    if area["value"] is not None:
        words = with_band(area["value"], area["margin"]) if area["margin"] else f"{area['value']:.4f}"
        ax.set_title(f"area under the curve: {words}", loc="left", fontsize="small", color=GREY, **AS_IS)
    return ax


def calibration(evaluation: Any, *, ax: Any = None) -> Any:
    """Draw the share of the second class against the predicted share, by bins, with 95 % whiskers of noise and luck.

    Bins with too few records to say are left out.
    """
    content, points = _points(evaluation, "calibration")
    points = [point for point in points if point["share"] is not None]
    ax = _frame(ax, "predicted share", f"share of {drawable(content['labels'][1], LONGEST)}")
    middles = [(point["low"] + point["high"]) / 2 for point in points]
    margins = [np.hypot(point["margin"], point["sampling"] or 0.0) for point in points]
    shares = [point["share"] for point in points]
    ax.errorbar(middles, shares, yerr=margins, fmt="o", color=BLUE, ecolor=GREY, elinewidth=1, markersize=4.5)
    return ax


def _points(evaluation: Any, which: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The evaluation as plain values, and the points of one of its curves."""
    content = evaluation.to_dict() if hasattr(evaluation, "to_dict") else evaluation
    points = content.get(which) if isinstance(content, dict) else None
    if not points:
        raise ParameterError(
            "There is no such curve. Pass an evaluation of two classes, as evaluate_privately and evaluate_public give it, "
            "with enough records of both."
        )
    return content, points


def _frame(ax: Any, along: str, across: str) -> Any:
    """Square axes of two shares, with the diagonal."""
    ax = axes(ax, 4.4, 4.4)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set_xlabel(along, **AS_IS)
    ax.set_ylabel(across, **AS_IS)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
