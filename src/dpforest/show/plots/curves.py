"""Draws scores against the budget. Sees scores that the caller has, and no model."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpforest.errors import ParameterError
from dpforest.show.plots.canvas import AS_IS, COLOURS, GREY, MARKERS, axes, drawable, load

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
    ax = axes(ax, 6.4, 4.2)
    ends: list[tuple[float, str, str]] = []
    for index, (name, epsilons, means, errors) in enumerate(curves):
        style = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)], "markersize": 5}
        ax.fill_between(epsilons, means - errors, means + errors, color=style["color"], alpha=0.2, linewidth=0)
        ax.plot(epsilons, means, linewidth=1.8, **style)
        if name is not None:
            ends.append((float(means[-1]), drawable(name, LONGEST), str(style["color"])))
    for name, scores, dashes in (("no privacy", no_privacy, (0, (6, 2))), ("majority class", majority, (0, (1, 1.5)))):
        if scores is not None:
            level = float(_checked(scores).mean())
            ax.axhline(level, color=GREY, linewidth=1.2, linestyle=dashes)
            ends.append((level, name, GREY))
    _scale(ax, sorted({epsilon for _, epsilons, _, _ in curves for epsilon in epsilons}))
    _write_names(ax, ends)
    ax.set_xlabel("epsilon (smaller is more private)", **AS_IS)
    ax.set_ylabel("accuracy", **AS_IS)
    ax.grid(axis="y", color="#eeeeee")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
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
    epsilons = sorted(by_epsilon)
    lists = [by_epsilon[epsilon] for epsilon in epsilons]
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
    low, high = math.log(epsilons[0]), math.log(epsilons[-1])
    shown: list[float] = []
    for epsilon in epsilons:
        if not shown or math.log(epsilon) - math.log(shown[-1]) > TICKS_APART * (high - low):
            shown.append(epsilon)
    if len(epsilons) == 1:
        ax.set_xlim(epsilons[0] / 2, epsilons[0] * 2)
    ax.set_xticks(shown, [f"{epsilon:g}" for epsilon in shown], **AS_IS)
    ax.xaxis.set_minor_locator(load("matplotlib.ticker").NullLocator())


def _write_names(ax: Any, ends: list[tuple[float, str, str]]) -> None:
    """Write names to the right of where the lines end, moved apart where they would overlap."""
    low, high = ax.get_ylim()
    ends = sorted(ends)
    heights = [(level - low) / (high - low) for level, _, _ in ends]
    # Up from below, then down from the top, so that all names stay beside the axes.
    for index in range(1, len(heights)):
        heights[index] = max(heights[index], heights[index - 1] + APART)
    for index in reversed(range(len(heights))):
        heights[index] = min(heights[index], 1.0 if index == len(heights) - 1 else heights[index + 1] - APART)
    for (_, name, colour), height in zip(ends, heights, strict=True):
        style = {"color": colour, "fontsize": "small"}
        ax.annotate(name, (1.015, height), xycoords="axes fraction", va="center", annotation_clip=False, **style, **AS_IS)
