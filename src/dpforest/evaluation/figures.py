"""Figures of classes, of the curve of two of them, and of numbers. Sees released counts, or predictions of public rows.

A figure is a smooth function of the counts. Its gradient says what noise does, since noise is independent in all counts, and
what other records would do, since a count of records varies as much as it is large. That takes records as independent. Those
of one person may be all alike: persons are independent then, and what the at most k records of one add up to has a square of
at most k times the sum of the records' own squares (Cauchy-Schwarz), so the variance is at most k times as large.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dpforest.common.text import jsonable, loss_words
from dpforest.errors import ParameterError
from dpforest.evaluation.cells import Cells
from dpforest.forest.bands import NORMAL_95, STANDS_OUT
from dpforest.privacy.ledger import Ledger

FORMAT, VERSION = "dpforest-evaluation", 2
ACCURACY, AREA, ROUNDED = "accuracy", "area under the curve", "log loss of rounded shares"
ABSOLUTE, SQUARE, EXPLAINED = "mean absolute error", "root mean square error", "R2"
LESS = f"{ABSOLUTE} less that of the other model"
# What x and x**2 are as sums over three moments (see ``records.scoring``).
FIRST, SECOND = np.array([1.0, 0.5, 0.0]), np.array([1.0, 0.0, 0.0])
LEAST_SHARE = 2.0**-53  # taken in a log loss for a share of 0


@dataclass(frozen=True)
class Score:
    """A named figure and how far it may be off.

    The exact figure is within ``margin + binning`` with a probability of about 95 %: ``margin`` is the band of the noise,
    ``binning`` the most that counting predicted shares in bins can change. ``sampling`` is how far the figure of other rows
    like these may lie from it, again in 95 of 100 cases; NaN if that is not known.
    """

    name: str
    value: float
    margin: float = 0.0
    sampling: float = math.nan
    binning: float = 0.0


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model on a table, and the ledger of what they cost: None if the table is public.

    ``unit`` is who pays: each record or, of whose rows at most ``rows`` were counted, each person.
    ``details`` has what is more than a figure: curves, figures by threshold, the confusion matrix, subgroups, a comparison.
    """

    scores: tuple[Score, ...]
    n_rows: float
    ledger: Ledger | None = None
    n_rows_margin: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    unit: str = "record"

    @property
    def rows(self) -> int:
        """The most rows of one unit that were counted."""
        return 1 if self.ledger is None else self.ledger.rows

    @property
    def epsilon(self) -> float:
        """What the scores cost."""
        return 0.0 if self.ledger is None else self.ledger.spent

    def at(self, threshold: float) -> dict[str, Any]:
        """The figures of two classes at the released threshold nearest to this one; it costs nothing more."""
        rows = self.details.get("thresholds")
        if not rows:
            raise ParameterError("Thresholds are for two classes whose labels follow from shares; this model has others.")
        return min(rows, key=lambda row: abs(row["threshold"] - threshold))

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as plain values, ready for JSON; a score that has no value is None."""
        rows = {"n_rows": self.n_rows, "n_rows_margin": self.n_rows_margin, "public": self.ledger is None}
        ledger = None if self.ledger is None else self.ledger.to_dict()
        loss = None if ledger is None else loss_words(self.epsilon, self.unit, self.rows)
        cost = {"epsilon": self.epsilon, "unit": self.unit, "rows": self.rows, "loss": loss}
        head = {"format": FORMAT, "version": VERSION, **rows, **cost, "scores": self.scores}
        return jsonable({**head, **self.details, "ledger": ledger})


@dataclass(frozen=True)
class Released:
    """Counts of any shape that each have noise of the same standard deviation, 0 if they are exact.

    ``rows`` is how many of the records may be of one person.
    """

    counts: np.ndarray
    deviation: float
    rows: int = 1

    def over(self, *axes: int) -> "Released":
        """The counts summed over some axes."""
        n_cells = np.prod([self.counts.shape[axis] for axis in axes])
        return replace(self, counts=self.counts.sum(axis=axes), deviation=self.deviation * float(np.sqrt(n_cells)))

    def part(self, *index: Any) -> "Released":
        """The counts at an index."""
        return replace(self, counts=self.counts[index])

    def total(self, weights: np.ndarray | float = 1.0) -> float:
        """The sum of the counts times weights: unbiased, so it may be below 0."""
        return float((self.counts * weights).sum())

    def margin(self, weights: np.ndarray | float = 1.0) -> float:
        """The band of ``total``."""
        return NORMAL_95 * self.deviation * float(np.sqrt(np.square(np.broadcast_to(weights, self.counts.shape)).sum()))

    def sampling(self, variance: float) -> float:
        """How far a figure of other rows may lie, if records that are independent would give it this variance."""
        return NORMAL_95 * float(np.sqrt(self.rows * max(variance, 0.0)))

    def ratio(
        self,
        name: str,
        top: np.ndarray,
        bottom: np.ndarray | float = 1.0,
        ends: tuple[float, float] = (0.0, 1.0),
        in_cells: bool = True,
    ) -> Score:
        """The figure ``total(top) / total(bottom)``, cut to its ends; NaN if what it is divided by may be noise.

        The band is that of Fieller, where it is symmetric: a noisy divisor makes it wider. ``in_cells`` if each record is in
        one cell; only then the counts say what other records would do.
        """
        divisor, width = self.total(bottom), self.margin(bottom)
        if divisor <= width * STANDS_OUT / NORMAL_95:
            return Score(name, np.nan, np.nan)
        value = min(max(self.total(top) / divisor, ends[0]), ends[1])
        gradient = np.broadcast_to((top - value * bottom) / divisor, self.counts.shape)
        margin = self.margin(gradient) / (1 - (width / divisor) ** 2)
        # One record more than there are, so that a share of 0 or 1 is not called certain.
        spread = max(float((self.counts * np.square(gradient)).sum()), 0.0) + 1 / divisor**2
        return Score(name, value, margin, self.sampling(spread) if in_cells else np.nan)


# Classes


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
    wrong, *ends = (np.stack([share, 1 - share]) for share in ((lows + highs) / 2, lows, highs))
    bound = np.abs(np.square(ends) - np.square(wrong)).max(axis=0)
    rounding = max(released.total(bound) / max(released.total(), 1.0), 0.0)
    brier = released.ratio("Brier score", np.square(wrong))
    return [replace(brier, binning=rounding), released.ratio(ROUNDED, -np.log(1 - wrong), ends=(0.0, np.inf))]


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
    says, predicted = np.stack([~above, above]).astype(float), np.stack([above, above]).astype(float)
    first, second = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])
    scores = (
        released.ratio(ACCURACY, says),
        released.ratio("recall", second * above, second),
        released.ratio("specificity", first * ~above, first),
        released.ratio("precision", second * above, predicted),
        released.ratio("predicted", predicted),
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


# The curve of two classes


def area(released: Released) -> Score:
    """The area under the ROC curve of counts ``(2, n_bins)``: the chance that a record of the second class has more share.

    Records in the same bin count half; whatever their order, the area would not move by more than ``binning``. The area is
    linear in the counts of either class, whose noise is independent, so noise does not bias the number of pairs.
    The band has the noise of each class and that of their products. ``sampling`` is the estimate of [delong1988].
    """
    (negatives, positives), variance = released.counts, released.deviation**2
    sizes, n_bins = released.counts.sum(axis=1), len(positives)
    noise = released.deviation * np.sqrt(n_bins)
    if sizes.min() <= STANDS_OUT * noise:
        return Score(AREA, np.nan, np.nan)
    wins = np.triu(np.ones((n_bins, n_bins)), 1) + 0.5 * np.eye(n_bins)
    value = float(np.clip(negatives @ wins @ positives / sizes.prod(), 0, 1))
    # What a record of each bin adds to the area, less what is the same for all.
    of_negatives = (wins @ positives / sizes[1] - value) / sizes[0]
    of_positives = (negatives @ wins / sizes[0] - value) / sizes[1]
    spread = variance * (np.square(of_negatives).sum() + np.square(of_positives).sum())
    spread += variance**2 * np.square(wins - value).sum() / sizes.prod() ** 2
    drawn = negatives @ np.square(of_negatives) + positives @ np.square(of_positives)
    ties = float(np.maximum(negatives, 0) @ np.maximum(positives, 0) / sizes.prod() / 2)
    margin = NORMAL_95 * float(np.sqrt(spread)) / (1 - (NORMAL_95 * noise / sizes.min()) ** 2)
    return Score(AREA, value, margin, released.sampling(max(drawn, 0.0) + 1 / sizes.min() ** 2), ties)


def roc(released: Released, edges: np.ndarray) -> list[dict[str, Any]]:
    """The points of the curve, from the highest threshold down, with bands: shares of each class above each edge.

    Noise may make a count that adds up fall; the nearest curve that does not (least squares) is given.
    """
    from sklearn.isotonic import isotonic_regression

    shares, margins = [], []
    for counts in released.counts[:, ::-1]:
        n, n_above = float(counts.sum()), np.arange(1, len(counts))
        if n <= STANDS_OUT * released.deviation * np.sqrt(len(counts)):
            return []
        above = np.clip(isotonic_regression(np.cumsum(counts)[:-1] / n), 0, 1)
        spread = n_above * (1 - above) ** 2 + (len(counts) - n_above) * above**2
        shares.append(above)
        margins.append(NORMAL_95 * released.deviation * np.sqrt(spread) / n)
    names = ("threshold", "false_positives", "true_positives", "false_positives_margin", "true_positives_margin")
    return [dict(zip(names, row, strict=True)) for row in np.transpose([edges[::-1], *shares, *margins]).tolist()]


def calibration(released: Released, edges: np.ndarray) -> list[dict[str, Any]]:
    """For each bin of shares: its ends, its released number of records, and the share of the second class among them."""
    points = []
    for index, (low, high) in enumerate(pairwise([0.0, *edges.tolist(), 1.0])):
        own = released.part(slice(None), index)
        score = own.ratio("share", np.array([0.0, 1.0]))
        point = {"low": low, "high": high, "n_rows": own.total(), "n_rows_margin": own.margin()}
        points.append(point | {"share": score.value, "margin": score.margin, "sampling": score.sampling})
    return points


# Numbers


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
    if spread <= STANDS_OUT / NORMAL_95 * width:
        return none
    missed = released.total(SECOND) / spread
    margin = released.margin((SECOND - missed * about) / spread) / (1 - (width / spread) ** 2)
    return Score(EXPLAINED, min(1 - missed, 1.0), margin)


def number_comparison(released: Released, span: float) -> dict[str, Any]:
    """Two models on the same records, by sums ``(3, 3, 3)``: moments of the other's error, the target, and the error."""
    both, theirs = released.over(1), released.over(2)
    found = both.ratio("difference", FIRST[None, :] - FIRST[:, None], ends=(-1.0, 1.0), in_cells=False)
    squares = SECOND[None, :] - 2 * np.outer(FIRST, FIRST) + SECOND[:, None]  # (error - other error)**2
    sampling = _sampling(both.total(squares) / max(both.total(), 1.0) - found.value**2, both)
    others = number_scores(replace(theirs, counts=theirs.counts.T), span)
    return _compared(others, Score(LESS, span * found.value, span * found.margin, span * sampling))


def _compared(others: Sequence[Score], difference: Score) -> dict[str, Any]:
    scores = (replace(each, name=f"{each.name} of the other model") for each in others)
    return {"scores": (*scores, difference), "difference": difference.name}


# Exact figures, of rows that are public


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


def with_exact(scores: Sequence[Score], exact: dict[str, float]) -> tuple[Score, ...]:
    """The scores with exact values where there are some, without what only bins need; what they lack is added."""
    kept = [score for score in scores if score.name != ROUNDED]
    found = [replace(score, value=exact[score.name], binning=0.0) if score.name in exact else score for score in kept]
    known = {score.name for score in kept}
    return (*found[:1], *(Score(name, value) for name, value in exact.items() if name not in known), *found[1:])


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
    return _compared(exact_of_errors(others, true), _mean(LESS, np.abs(predicted - true) - np.abs(others - true)))


def _mean(name: str, values: np.ndarray) -> Score:
    """The mean of values, and how far that of other records may lie from it."""
    return Score(name, float(values.mean()), sampling=NORMAL_95 * float(values.std()) / math.sqrt(len(values)))
