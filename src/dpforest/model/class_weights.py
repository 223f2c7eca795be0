"""Weights of classes: what the released votes of each class count when a model predicts. Released values only.

Records are not weighed: that would change what one of them can add to a count. Training, noise and ledger know nothing of
the weights, and a fitted model may be given others without a new fit.
"""

import math
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from dpforest.errors import ParameterError, shown
from dpforest.forest.bands import STANDS_OUT
from dpforest.forest.tree import Estimate, Forest
from dpforest.model.signal import leaf_release
from dpforest.privacy.ledger import Ledger
from dpforest.schema import Classes, Target

BALANCED = "balanced"
# Beyond these a class is never predicted, or always; and sums stay far from where doubles end.
LEAST, MOST = 1e-9, 1e9


def check_class_weight(given: Any, target: Target) -> None:
    """Raise ``ParameterError`` unless it is None, "balanced", or a dictionary with weights of labels of the target."""
    if given is None or (isinstance(given, str) and given == BALANCED):
        return
    if not isinstance(given, dict) or not isinstance(target, Classes):
        raise ParameterError(
            f"class_weight must be a dictionary of labels and weights, {BALANCED!r} or None, not {shown(given)}."
        )
    for label, weight in given.items():
        if label not in target.labels:
            some = ", ".join(map(shown, target.labels[:8]))
            raise ParameterError(
                f"class_weight has a weight for {shown(label)}, which is no label of the schema. It has {some}."
            )
        if not isinstance(weight, Real) or isinstance(weight, bool | np.bool_) or not LEAST <= float(weight) <= MOST:
            raise ParameterError(
                f"A weight of class_weight must be a number from {LEAST} to {MOST:.0e}, not {shown(weight)}."
            )


def weighted(forest: Forest, given: Any, ledger: Ledger, n_rows: int | None = None) -> Forest:
    """The forest with votes by which each predicted share is multiplied by the weight of its class, then scaled to sum 1.

    ``n_rows`` is the number of records, if it was declared.
    """
    if given is None:
        return forest
    assert isinstance(forest.target, Classes)
    check_class_weight(given, forest.target)
    if isinstance(given, str):
        weights = _balanced(forest, ledger, n_rows)
    else:  # 1 if none is given, as in scikit-learn
        weights = np.array([float(given.get(label, 1.0)) for label in forest.target.labels])
    if forest.link == "softmax":  # shares are exponentials of sums over trees, so one tree adds the logarithms
        return replace(forest, votes=forest.votes + np.where(forest.trees[:, None] == 0, np.log(weights), 0.0))
    return replace(forest, votes=forest.votes * weights)


def _balanced(forest: Forest, ledger: Ledger, n_rows: int | None) -> np.ndarray:
    """Weights in inverse proportion to the released counts of the classes, ``(n_classes,)``.

    A count below the standard deviation of its noise is taken as that, and at least as 1: else noise alone could give a
    rare class any weight.
    """
    counts, deviations = _class_counts(forest, ledger, n_rows)
    counts = np.maximum(counts, np.maximum(deviations, 1.0))
    return np.clip(counts.sum() / (len(counts) * counts), LEAST, MOST)


def _class_counts(forest: Forest, ledger: Ledger, n_rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The released count of each class among the records of the trees, and its standard deviation; each ``(n_classes,)``."""
    held, release = forest.held, leaf_release(forest, ledger)
    n_records = forest.n_records if n_rows is None else Estimate(n_rows, 0.0)
    if release == "lead" and n_records is not None:
        # By how many records a class leads was released precisely, and the size roughly. The number of rows is known
        # better, unless the size contradicts it: rows without a known label are left out.
        share, n_classes = float(ledger.sample_share), held.n_values
        missing, deviation = share * n_records.value - float(held.sizes[0]), share * n_records.deviation
        if abs(missing) <= STANDS_OUT * math.hypot(held.size_deviations[0], deviation):
            return held.counts[0] + missing / n_classes, np.hypot(held.centred_deviations[0], deviation / n_classes)
    if math.isfinite(ledger.spent):
        has_counts = bool(held.count_deviations.all())
    else:
        has_counts = release == "exact" and bool(held.counts.any())
    if not has_counts:
        raise ParameterError(
            "class_weight='balanced' goes by released counts of the classes, and this model released none: its leaves have "
            "labels only, or what a paper prints. Give weights that are known otherwise, for example by "
            "model.set_params(class_weight={label: weight}); no new fit is needed."
        )
    return held.counts[0], held.count_deviations[0]
