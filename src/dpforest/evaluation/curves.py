"""The curve of two classes, the area under it, and calibration, from counts by bins of shares. Released values only."""

from dataclasses import replace
from typing import Any

import numpy as np

from dpforest.evaluation.released import Released
from dpforest.evaluation.result import Score
from dpforest.forest.bands import NORMAL_95, STANDS_OUT

AREA = "area under the curve"


def area(released: Released) -> Score:
    """The area under the ROC curve of counts ``(2, n_bins)``: the chance that a record of the second class has more share.

    Records in the same bin count half; whatever their order, the area would not move by more than ``binning``. The area is
    linear in the counts of either class, whose noise is independent, so noise does not bias the number of pairs.
    The band has the noise of each class and that of their products. ``sampling`` is the estimate of [delong1988].
    """
    (negatives, positives), variance = released.counts, released.deviation**2
    sizes = released.counts.sum(axis=1)
    noise = released.deviation * np.sqrt(len(positives))
    if sizes.min() <= max(STANDS_OUT * noise, 0.0) or sizes.min() <= 0:
        return Score(AREA, np.nan, np.nan)
    places = np.arange(len(positives))
    wins = np.where(places[None] > places[:, None], 1.0, np.where(places[None] == places[:, None], 0.5, 0.0))
    value = float(np.clip(negatives @ wins @ positives / sizes.prod(), 0, 1))
    # What a record of each bin adds to the area, less what is the same for all.
    of_negatives = (wins @ positives / sizes[1] - value) / sizes[0]
    of_positives = (negatives @ wins / sizes[0] - value) / sizes[1]
    spread = variance * (np.square(of_negatives).sum() + np.square(of_positives).sum())
    spread += variance**2 * np.square(wins - value).sum() / sizes.prod() ** 2
    drawn = negatives @ np.square(of_negatives) + positives @ np.square(of_positives)
    ties = float(np.maximum(negatives, 0) @ np.maximum(positives, 0) / sizes.prod() / 2)
    widened = 1 - (NORMAL_95 * noise / sizes.min()) ** 2
    margin = NORMAL_95 * float(np.sqrt(spread)) / widened
    return Score(AREA, value, margin, released.sampling(max(drawn, 0.0) + 1 / sizes.min() ** 2), ties)


def roc(released: Released, edges: np.ndarray) -> list[dict[str, Any]]:
    """The points of the curve, from the highest threshold down, with bands: shares of each class above each edge.

    Noise may make a count that adds up fall; the nearest curve that does not (least squares) is given.
    """
    found = []
    for counts in released.counts[:, ::-1]:
        above, n = np.cumsum(counts)[:-1], float(counts.sum())
        n_above = np.arange(1, len(counts))
        noise = released.deviation * np.sqrt(len(counts))
        if n <= max(STANDS_OUT * noise, 0.0):
            return []
        shares = np.clip(rising(above / n), 0, 1)
        spread = n_above * (1 - shares) ** 2 + (len(counts) - n_above) * shares**2
        found.append((shares, NORMAL_95 * released.deviation * np.sqrt(spread) / n))
    (false, false_margins), (true, true_margins) = found
    columns = zip(edges[::-1], false, true, false_margins, true_margins, strict=True)
    names = ("threshold", "false_positives", "true_positives", "false_positives_margin", "true_positives_margin")
    return [dict(zip(names, map(float, row), strict=True)) for row in columns]


def rising(values: np.ndarray) -> np.ndarray:
    """The nearest values, by least squares, that never fall: neighbours that do are replaced by their mean."""
    from sklearn.isotonic import isotonic_regression

    return isotonic_regression(values)


def calibration(released: Released, edges: np.ndarray) -> list[dict[str, Any]]:
    """For each bin of shares: its ends, its released number of records, and the share of the second class among them."""
    lows, highs = np.append(0.0, edges), np.append(edges, 1.0)
    points = []
    for index, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
        own = replace(released, counts=released.counts[:, index])
        score = own.ratio("share", np.array([0.0, 1.0]))
        point = {"low": low, "high": high, "n_rows": own.total(), "n_rows_margin": own.margin()}
        points.append(point | {"share": score.value, "margin": score.margin, "sampling": score.sampling})
    return points
