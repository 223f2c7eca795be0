"""Exact figures that bins cannot give, on rows that are public. Sees predictions and targets of public rows."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpforest.evaluation.classes import ROUNDED
from dpforest.evaluation.curves import AREA
from dpforest.evaluation.numbers import ABSOLUTE, EXPLAINED, LESS, SQUARE, compared
from dpforest.evaluation.result import Score
from dpforest.forest.bands import NORMAL_95

LEAST_SHARE = 2.0**-53  # taken in a log loss for a share of 0


def exact_of_shares(shares: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """Log loss and, for two classes, Brier score and area under the curve of class shares ``(n_records, n_classes)``."""
    from sklearn.metrics import roc_auc_score

    if not len(true):
        return {}
    chosen = np.maximum(shares[np.arange(len(true)), true], LEAST_SHARE)
    found = {"log loss": float(-np.log(chosen).mean())}
    if shares.shape[1] == 2:
        found["Brier score"] = float(np.square(shares[:, 1] - true).mean())
        if 0 < true.sum() < len(true):
            found[AREA] = float(roc_auc_score(true, shares[:, 1]))
    return found


def exact_of_errors(predicted: np.ndarray, true: np.ndarray) -> tuple[Score, ...]:
    """The errors and R2 of predicted numbers, of one record or more, wherever their targets lie."""
    missed = predicted - true
    spread = float(np.square(true - true.mean()).sum())
    return (
        _mean(ABSOLUTE, np.abs(missed)),
        Score(SQUARE, float(np.sqrt(np.square(missed).mean()))),
        Score(EXPLAINED, 1 - float(np.square(missed).sum()) / spread if spread else math.nan),
    )


def exact_comparison(predicted: np.ndarray, true: np.ndarray, others: np.ndarray) -> dict[str, Any]:
    """Two models' predicted numbers for the same records, as ``number_comparison`` gives it of released sums."""
    less = np.abs(predicted - true) - np.abs(others - true)
    return compared(exact_of_errors(others, true), _mean(LESS, less))


def _mean(name: str, values: np.ndarray) -> Score:
    """The mean of values, and how far that of other records may lie from it."""
    return Score(name, float(values.mean()), sampling=NORMAL_95 * float(values.std()) / math.sqrt(len(values)))


def with_exact(scores: Sequence[Score], exact: dict[str, float]) -> tuple[Score, ...]:
    """The scores with exact values where there are some, without what only bins need; what they lack is added."""
    kept = [score for score in scores if score.name != ROUNDED]
    found = [replace(score, value=exact[score.name], binning=0.0) if score.name in exact else score for score in kept]
    known = {score.name for score in kept}
    return (*found[:1], *(Score(name, value) for name, value in exact.items() if name not in known), *found[1:])
