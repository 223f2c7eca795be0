"""Figures of predicted classes from released counts. Released values only."""

from typing import Any

import numpy as np

from dpforest.evaluation.cells import Cells
from dpforest.evaluation.curves import area, calibration, roc
from dpforest.evaluation.released import Released
from dpforest.evaluation.result import Score
from dpforest.forest.bands import NORMAL_95

ACCURACY = "accuracy"
ROUNDED = "log loss of rounded shares"


def class_scores(released: Released, cells: Cells) -> tuple[Score, ...]:
    """The figures of counts ``(n_classes, n_found)``: accuracy, what bins of shares allow, and those of each label."""
    scores = [released.ratio(ACCURACY, cells.hit)]
    if cells.edges is not None:
        scores += [area(released), *_of_shares(released, cells.edges)]
    for index, label in enumerate(cells.labels):
        name, true = f"{str(label)!r}", (np.arange(len(cells.labels)) == index)[:, None].astype(float)
        scores.append(released.ratio(f"recall of {name}", true * cells.hit, true))
        if cells.says is not None:
            says = cells.says[[index]]
            scores.append(released.ratio(f"precision of {name}", true * says, np.broadcast_to(says, released.counts.shape)))
            scores.append(released.ratio(f"F1 of {name}", 2 * true * says, true + says))
    return tuple(scores)


def _of_shares(released: Released, edges: np.ndarray) -> list[Score]:
    """Brier score and log loss of shares that are rounded to the middle of their bins.

    By how much rounding may change the first is known; the second has no bound where a bin reaches to 0 or 1.
    """
    lows, highs = np.append(0.0, edges), np.append(edges, 1.0)
    middles = (lows + highs) / 2
    wrong = np.stack([middles, 1 - middles])
    brier = released.ratio("Brier score", np.square(wrong))
    ends = np.stack([np.stack([end, 1 - end]) for end in (lows, highs)])
    bound = np.abs(np.square(ends) - np.square(wrong)).max(axis=0)
    rounding = released.total(bound) / max(released.total(), 1.0)
    log_loss = released.ratio(ROUNDED, -np.log(1 - wrong), ends=(0.0, np.inf))
    return [Score(brier.name, brier.value, brier.margin, brier.sampling, max(rounding, 0.0)), log_loss]


def class_details(released: Released, cells: Cells) -> dict[str, Any]:
    """What is more than a figure, of counts ``(n_classes, n_found)``: curve, calibration, thresholds, confusion matrix."""
    details: dict[str, Any] = {"labels": list(cells.labels)}
    if cells.says is not None:
        margins = NORMAL_95 * released.deviation * np.sqrt(cells.says.sum(axis=1))  # of each predicted label
        details["confusion"] = {"counts": released.counts @ cells.says.T, "margins": margins}
    if cells.edges is not None:
        details["roc"] = roc(released, cells.edges)
        details["calibration"] = calibration(released, cells.edges)
        details["threshold"] = cells.threshold
        details["thresholds"] = [_at(released, edge, index) for index, edge in enumerate(cells.edges.tolist())]
    return details


def _at(released: Released, threshold: float, index: int) -> dict[str, Any]:
    """The figures if the second label is predicted from a threshold on; ``index`` is that of the bin below it."""
    above = np.arange(released.counts.shape[1]) > index
    says = np.stack([~above, above]).astype(float)
    first, second = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])
    scores = (
        released.ratio(ACCURACY, says),
        released.ratio("recall", second * above, second),
        released.ratio("specificity", first * ~above, first),
        released.ratio("precision", second * above, np.broadcast_to(above, says.shape).astype(float)),
        released.ratio("predicted", np.broadcast_to(above, says.shape).astype(float)),
    )
    return {"threshold": threshold, "scores": scores}


def class_comparison(released: Released, cells: Cells) -> dict[str, Any]:
    """Two models on the same records, by counts ``(2, n_classes, n_found)``, the first axis saying if the other is wrong."""
    ours, theirs = cells.hit[None], np.array([1.0, 0.0])[:, None, None]
    scores = (
        released.ratio("accuracy of the other model", np.broadcast_to(theirs, released.counts.shape)),
        released.ratio("accuracy less that of the other model", ours - theirs, ends=(-1.0, 1.0)),
        released.ratio("only this model is right", ours * (1 - theirs)),
        released.ratio("only the other model is right", (1 - ours) * theirs),
    )
    return {"scores": scores, "difference": scores[1].name}
