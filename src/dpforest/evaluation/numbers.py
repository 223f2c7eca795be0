"""Figures of a predicted number from released sums of moments (see ``records.scoring``). Released values only."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpforest.evaluation.released import Released
from dpforest.evaluation.result import Score
from dpforest.forest.bands import NORMAL_95, STANDS_OUT

ABSOLUTE, SQUARE, EXPLAINED = "mean absolute error", "root mean square error", "R2"
LESS = f"{ABSOLUTE} less that of the other model"
# What x and x**2 are as sums over the three moments.
FIRST, SECOND = np.array([1.0, 0.5, 0.0]), np.array([1.0, 0.0, 0.0])


def number_scores(released: Released, span: float) -> tuple[Score, ...]:
    """The figures of sums ``(3, 3)``, by moments of the target and of the error; ``span`` is the range of the target."""
    absolute = released.ratio(ABSOLUTE, FIRST, in_cells=False)
    squares = released.ratio(SQUARE, SECOND, in_cells=False)
    root = math.sqrt(squares.value)
    # The wider half of its band, which is below the square root unless noise has cut that to 0.
    ends = [math.sqrt(max(squares.value + sign * squares.margin, 0.0)) for sign in (-1, 1)]
    margin = max(root - ends[0], ends[1] - root)
    sampling = _sampling(squares.value - absolute.value**2, released)
    return (
        Score(ABSOLUTE, span * absolute.value, span * absolute.margin, span * sampling),
        Score(SQUARE, span * root, span * margin),
        _explained(released),
    )


def _sampling(variance: float, released: Released) -> float:
    """How far the mean over other records may lie from that over these, if single records vary so much."""
    return released.sampling(variance / max(released.total(), 1.0))


def _explained(released: Released) -> Score:
    """R2, the share of the target's variance that is explained: 1 less the squared errors over the variance."""
    none = Score(EXPLAINED, math.nan, math.nan)
    n, first, second = released.total(), FIRST[:, None], SECOND[:, None]
    if n <= 0:
        return none
    mean = released.total(first) / n
    about = second - 2 * mean * first + mean**2  # sums to that of (target - mean)**2, and is its gradient
    spread, width = released.total(about), released.margin(about)
    if spread <= max(STANDS_OUT / NORMAL_95 * width, 0.0):
        return none
    missed = released.total(SECOND) / spread
    margin = released.margin((SECOND - missed * about) / spread) / (1 - (width / spread) ** 2)
    return Score(EXPLAINED, min(1 - missed, 1.0), margin)


def number_comparison(released: Released, span: float) -> dict[str, Any]:
    """Two models on the same records, by sums ``(3, 3, 3)``: moments of the other's error, the target, and the error."""
    both = released.over(1)
    less = FIRST[None, :] - FIRST[:, None]
    found = both.ratio("difference", less, ends=(-1.0, 1.0), in_cells=False)
    squares = SECOND[None, :] - 2 * np.outer(FIRST, FIRST) + SECOND[:, None]  # (error - other error)**2
    sampling = _sampling(both.total(squares) / max(both.total(), 1.0) - found.value**2, both)
    theirs = released.over(2)
    others = number_scores(replace(theirs, counts=theirs.counts.T), span)
    return compared(others, Score(LESS, span * found.value, span * found.margin, span * sampling))


def compared(others: Sequence[Score], difference: Score) -> dict[str, Any]:
    """The figures of another model and by how much they differ, as a comparison has them."""
    scores = (replace(each, name=f"{each.name} of the other model") for each in others)
    return {"scores": (*scores, difference), "difference": difference.name}
