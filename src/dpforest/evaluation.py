"""Scores of a model on a table: exact ones if the table is public, or released ones with noise, which are charged.

Hands tables on to ``records`` and never looks into them.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpforest.budget import Budget, Loss
from dpforest.budget.fits import charged, check_budget
from dpforest.common.jsonable import jsonable
from dpforest.forest.bands import NORMAL_95
from dpforest.mechanisms import Entropy
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.sealed import Sealed
from dpforest.records.scoring import count_hits, sum_errors, true_indices, true_values
from dpforest.schema import TARGET_STEPS, Classes

LEAST_SHARE = 2.0**-53  # taken in a log loss for a share of 0


@dataclass(frozen=True)
class Score:
    """A named figure, and its margin: the exact figure is within it with a probability of about 95 % (0: no noise)."""

    name: str
    value: float
    margin: float = 0.0


@dataclass(frozen=True)
class Evaluation:
    """The scores of a model on a table, and the ledger of what they cost its records: None if the table is public."""

    scores: tuple[Score, ...]
    n_rows: float
    ledger: Ledger | None = None
    n_rows_margin: float = 0.0

    @property
    def epsilon(self) -> float:
        """What the scores cost."""
        return 0.0 if self.ledger is None else self.ledger.spent

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as plain values, ready for JSON; a score that has no value is None."""
        rows = {"n_rows": self.n_rows, "n_rows_margin": self.n_rows_margin}
        ledger = None if self.ledger is None else self.ledger.to_dict()
        return jsonable({**rows, "epsilon": self.epsilon, "scores": self.scores, "ledger": ledger})


def evaluate_public(model: Any, parts: Iterable[tuple[Any, Any]]) -> Evaluation:
    """Exact scores on all tables ``(X, y)`` together. NOT private: for tables that are public."""
    target = model.schema_.target
    if isinstance(target, Classes):
        pieces = [(*_shares_and_indices(model, X), true_indices(y, target)) for X, y in parts if len(X)]
        return _class_scores(model, *_joined(pieces)) if pieces else _no_scores()
    means = [(model.predict(X), true_values(y, target)) for X, y in parts if len(X)]
    return _mean_scores(*_joined(means)) if means else _no_scores()


def _joined(pieces: list[Any]) -> list[np.ndarray]:
    """The arrays of all pieces, each joined with those at the same index of the other pieces."""
    return [np.concatenate(piece) for piece in zip(*pieces, strict=True)]


def evaluate_privately(
    model: Any, parts: Iterable[tuple[Any, Any]], epsilon: float, budget: Budget | None = None
) -> Evaluation:
    """Scores with noise on all tables ``(X, y)`` together; their records pay ``epsilon``, from ``budget`` if there is one.

    Privacy:
        Claim: costs ``epsilon``, on top of what the records have lost before.
        Because: one release of hits and misses by class (or of the parts of the range that are hit and missed) with
            geometric noise; all scores follow from it. The range is that of the model (``forest_.target``): a record
            beyond it counts as one at its end.
        Assumes: the model is released.
    """
    ledger = Ledger(make_accountant(epsilon, 0.0))
    check_budget(budget, "record", ["epsilon is infinite"] if math.isinf(epsilon) else [])
    with charged(budget, "score", [] if budget is None else [Loss.pure(ledger.epsilon)], ledger):
        counts, deviation = _noisy_hits(model, parts, Gate(ledger, Entropy(None)))
    # Sums are of counts as released: cut at 0, the noise in those of rare classes would add up.
    n_rows, margin = max(float(counts.sum()), 0.0), NORMAL_95 * deviation * math.sqrt(counts.size)
    hits, misses = np.maximum(counts, 0).T
    target = model.forest_.target
    accuracy = _share("accuracy", counts[:, 0].sum(), counts[:, 1].sum(), deviation * math.sqrt(len(hits)))
    if not isinstance(target, Classes):
        width = target.span
        error = Score("mean absolute error", width * (1 - accuracy.value), width * accuracy.margin)
        return Evaluation((error,), n_rows, ledger, margin)
    recalls = [
        _share(_recall_name(label), hit, miss, deviation)
        for label, hit, miss in zip(target.labels, hits, misses, strict=True)
    ]
    return Evaluation((accuracy, *recalls), n_rows, ledger, margin)


def _noisy_hits(model: Any, parts: Iterable[tuple[Any, Any]], gate: Gate) -> tuple[np.ndarray, float]:
    """Released hits and misses ``(n_classes, 2)``, or ``(1, 2)`` as fractions of a range; and their standard deviation.

    They cost all of the gate's budget.
    """
    target = model.forest_.target
    is_classes = isinstance(target, Classes)
    empty = np.zeros((target.n_values if is_classes else 1, 2), dtype=np.int64)
    sums = [Sealed(empty[None])]
    for X, y in parts:
        if len(X):
            if is_classes:
                found = count_hits(y, _shares_and_indices(model, X)[1], target)
            else:
                found = sum_errors(y, model.predict(X), target)
            sums.append(found.map(lambda counts: counts[None]))
    most = 1 if is_classes else TARGET_STEPS  # what a record adds to hits and misses together
    total = Sealed.concatenate(sums).map(lambda counts: counts.sum(axis=0))
    amount = gate.ledger.accountant.budget
    counts, variance = gate.add_noise(total, Sensitivity(most, most**2), amount, "hits and misses")
    return counts / most, math.sqrt(variance) / most


def _shares_and_indices(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """The class shares ``(n_records, n_classes)`` that a model gives, and the index of each predicted label."""
    shares = model.predict_proba(X)
    return shares, predicted_indices(model, X, shares)


def predicted_indices(model: Any, X: Any, shares: np.ndarray) -> np.ndarray:
    """The index among the classes of each predicted label ``(n_records,)``; ``shares`` are what ``predict_proba`` gives."""
    if not model.forest_.draws:
        return shares.argmax(axis=1)
    # Labels that are drawn by the votes are the estimator's to draw.
    indices = {label: index for index, label in enumerate(model.classes_.tolist())}
    return np.array([indices[label] for label in model.predict(X).tolist()])


def _recall_name(label: Any) -> str:
    return f"recall of {str(label)!r}"


def _share(name: str, hits: float, misses: float, deviation: float) -> Score:
    """The score hits / (hits + misses), where both have noise of the same standard deviation."""
    n = hits + misses
    if n <= 0:
        return Score(name, math.nan, math.nan)
    share = min(max(hits / n, 0.0), 1.0)
    return Score(name, float(share), float(NORMAL_95 * deviation * math.hypot(share, 1 - share) / n))


def _class_scores(model: Any, shares: np.ndarray, predicted: np.ndarray, true: np.ndarray) -> Evaluation:
    from sklearn.metrics import roc_auc_score

    kept = true >= 0
    shares, predicted, true = shares[kept], predicted[kept], true[kept]
    if not len(true):
        return _no_scores()
    hit = predicted == true
    chosen = np.maximum(shares[np.arange(len(true)), true], LEAST_SHARE)
    scores = [Score("accuracy", float(hit.mean())), Score("log loss", float(-np.log(chosen).mean()))]
    if shares.shape[1] == 2 and 0 < true.sum() < len(true):
        scores.append(Score("area under the curve", float(roc_auc_score(true, shares[:, 1]))))
    for index, label in enumerate(model.schema_.target.labels):
        own = true == index
        scores.append(Score(_recall_name(label), float(hit[own].mean()) if own.any() else math.nan))
    return Evaluation(tuple(scores), float(len(true)))


def _mean_scores(predicted: np.ndarray, true: np.ndarray) -> Evaluation:
    kept = ~np.isnan(true)
    missed = (predicted - true)[kept]
    if not len(missed):
        return _no_scores()
    spread = float(np.square(true[kept] - true[kept].mean()).sum())
    explained = 1 - float(np.square(missed).sum()) / spread if spread else math.nan
    scores = (
        Score("mean absolute error", float(np.abs(missed).mean())),
        Score("root mean square error", float(np.sqrt(np.square(missed).mean()))),
        Score("R2", explained),
    )
    return Evaluation(scores, float(len(missed)))


def _no_scores() -> Evaluation:
    return Evaluation((), 0.0)
