"""Draws how good models are: scores against the budget, the ROC curve and calibration. Released values only."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpforest.common.text import with_band
from dpforest.errors import ParameterError
from dpforest.show.pictures import calibration_marks, roc_curve
from dpforest.show.plots import canvas
from dpforest.show.plots.canvas import AS_IS, BLUE, COLOURS, GREY, MARKERS, drawable

LONGEST = 24
# Names at the right are at least this share of the height apart, ticks this share of the width.
APART, TICKS_APART = 0.065, 0.07

Scores = float | Sequence[float]


def accuracy_by_epsilon(
    results: Mapping[Any, Any], *, no_privacy: Scores | None = None, majority: Scores | None = None, ax: Any = None
) -> Any:
    """Draw the mean score at each epsilon, with a band of one standard error of the mean on both sides.

    ``results`` maps each system to its scores: ``{"private": {0.1: [0.71, 0.69], 1: [0.8, 0.82]}}``, a list with one
    score for each split of the data at each epsilon; for a single system ``{0.1: [...], 1: [...]}`` does. A list of one
    score has no band. ``no_privacy`` and ``majority`` are scores (means are taken) drawn as horizontal lines.
    """
    curves = [(name, *_summary(scores)) for name, scores in _systems(results).items()]
    ax = canvas.axes(ax, 6.4, 4.2)
    ends: list[tuple[float, str, str]] = []
    for index, (name, epsilons, means, errors) in enumerate(curves):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        ax.fill_between(epsilons, means - errors, means + errors, color=colour, alpha=0.2, linewidth=0)
        ax.plot(epsilons, means, linewidth=1.8, color=colour, marker=marker, markersize=5)
        ends += [(float(means[-1]), drawable(name, LONGEST), colour)] if name is not None else []
    for name, scores, dashes in (("no privacy", no_privacy, (0, (6, 2))), ("majority class", majority, (0, (1, 1.5)))):
        if scores is not None:
            level = float(_checked(scores).mean())
            ax.axhline(level, color=GREY, linewidth=1.2, linestyle=dashes)
            ends.append((level, name, GREY))
    _scale(ax, sorted({epsilon for _, epsilons, _, _ in curves for epsilon in epsilons}))
    _write_names(ax, sorted(ends))
    canvas.entitle(ax, "epsilon (smaller is more private)", "accuracy")
    ax.grid(axis="y", color="#eeeeee")
    ax.set_axisbelow(True)
    return ax


def _systems(results: Mapping[Any, Any]) -> dict[Any, Mapping[Any, Any]]:
    """Scores by system; a single one without a name is called None."""
    if not isinstance(results, Mapping) or not results:
        raise ParameterError("results must map each system to its scores by epsilon, such as {'private': {1.0: [0.8]}}.")
    nested = [isinstance(scores, Mapping) for scores in results.values()]
    if any(nested) and not all(nested):
        raise ParameterError("results has systems and epsilons side by side; put each list of scores under its system.")
    systems = dict(results) if all(nested) else {None: results}
    if not all(systems.values()):
        raise ParameterError("A system in results has no scores.")
    return systems


def _summary(scores: Mapping[Any, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Epsilons in order, and the mean and the standard error of the scores at each."""
    try:
        by_epsilon = {float(epsilon): _checked(listed) for epsilon, listed in scores.items()}
    except (TypeError, ValueError):
        raise ParameterError("Scores of a system map each epsilon, a number, to a list of finite scores.") from None
    if not all(0 < epsilon < math.inf for epsilon in by_epsilon):
        raise ParameterError("An epsilon must be positive and finite; give scores without privacy as no_privacy=.")
    epsilons, lists = zip(*sorted(by_epsilon.items()), strict=True)
    errors = [listed.std(ddof=1) / math.sqrt(len(listed)) if len(listed) > 1 else 0.0 for listed in lists]
    return np.array(epsilons), np.array([listed.mean() for listed in lists]), np.array(errors)


def _checked(scores: Any) -> np.ndarray:
    listed = np.atleast_1d(np.asarray(scores, dtype=float))
    if listed.ndim != 1 or not len(listed) or not np.isfinite(listed).all():
        raise ParameterError("Scores must be a finite number or a list of them.")
    return listed


def _scale(ax: Any, epsilons: list[float]) -> None:
    """Make the axis logarithmic, with the epsilons themselves as ticks, as many as have room."""
    ax.set_xscale("log")
    shown = epsilons[:1]
    for epsilon in epsilons:
        if math.log(epsilon / shown[-1]) > TICKS_APART * math.log(epsilons[-1] / epsilons[0]):
            shown.append(epsilon)
    if len(epsilons) == 1:
        ax.set_xlim(epsilons[0] / 2, epsilons[0] * 2)
    ax.set_xticks(shown, [f"{epsilon:g}" for epsilon in shown], **AS_IS)
    ax.xaxis.set_minor_locator(canvas.load("matplotlib.ticker").NullLocator())


def _write_names(ax: Any, ends: list[tuple[float, str, str]]) -> None:
    """Write names to the right of where the lines end, moved apart where they would overlap."""
    low, high = ax.get_ylim()
    heights = [(level - low) / (high - low) for level, _, _ in ends]
    # Up from below, then down from the top, so that all names stay beside the axes.
    for index in range(1, len(heights)):
        heights[index] = max(heights[index], heights[index - 1] + APART)
    for index in reversed(range(len(heights))):
        heights[index] = min(heights[index], 1.0 if index == len(heights) - 1 else heights[index + 1] - APART)
    style = {"xycoords": "axes fraction", "va": "center", "annotation_clip": False, "fontsize": "small", **AS_IS}
    for (_, name, colour), height in zip(ends, heights, strict=True):
        ax.annotate(name, (1.015, height), color=colour, **style)


def roc(evaluation: Any, *, ax: Any = None) -> Any:
    """Draw the ROC curve of an evaluation of two classes, with a 95 % band of the noise, if there is any."""
    content, points = _points(evaluation, "roc")
    ax = _frame(ax)
    line, band = roc_curve(points)
    ax.plot(*line.T, color=BLUE, marker="o", markersize=3.5, linewidth=1.8)
    if len(band):
        ax.fill(*band.T, color=BLUE, alpha=0.2, linewidth=0)
    (area,) = (score for score in content["scores"] if score["name"] == "area under the curve")
    words = with_band(area["value"], area["margin"]) if area["margin"] else f"{area['value'] or 0:.4f}"
    title = "" if area["value"] is None else f"area under the curve: {words}"
    canvas.entitle(ax, "false positives", "true positives", title)
    return ax


def calibration(evaluation: Any, *, ax: Any = None) -> Any:
    """Draw the share of the second class against the predicted share, by bins, with 95 % whiskers of noise and luck.

    Bins with too few records to say are left out.
    """
    content, points = _points(evaluation, "calibration")
    ax = _frame(ax)
    middles, shares, margins = calibration_marks(points).T
    ax.errorbar(middles, shares, yerr=margins, fmt="o", color=BLUE, ecolor=GREY, elinewidth=1, markersize=4.5)
    canvas.entitle(ax, "predicted share", f"share of {drawable(content['labels'][1], LONGEST)}")
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


def _frame(ax: Any) -> Any:
    ax = canvas.axes(ax, 4.4, 4.4)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    return ax
