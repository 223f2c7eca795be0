"""The cells by which records are counted: what there are, which follows from released models and public facts.

Hands tables on to ``records`` and never looks into them.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpforest.errors import ParameterError, shown
from dpforest.evaluation.bins import DECIDES, edges_of
from dpforest.evaluation.subgroups import Subgroups, subgroups_of
from dpforest.predicting import check_names
from dpforest.privacy.base import Sensitivity
from dpforest.privacy.sealed import Sealed
from dpforest.records.people import People
from dpforest.records.scoring import MASS, N_MOMENTS, Tally, group_codes
from dpforest.schema import Classes

Rows = tuple[Any, Any, Any]  # features, targets, and the ids of persons or None
# With more classes the cells of a confusion matrix would hold mostly noise: then hits and misses of each class are counted.
MOST_CONFUSED = 12


@dataclass(frozen=True)
class Cells:
    """What is counted of the records that a model is scored on, for one charge.

    Counts have four axes. The first is the subgroup. For classes the others are whether another model is wrong, the true
    class, and what the model predicts: the bin of its share for two classes, the label, or whether it is wrong. For a number
    they are the moments of the other model's error, of the target, and of the error (see ``records.scoring``).
    """

    model: Any
    other: Any = None
    by: Subgroups | None = None
    threshold: float = DECIDES

    @classmethod
    def of(cls, model: Any, by: Any, other: Any, threshold: float) -> "Cells":
        """The cells for what is asked; raises before anything is read or charged if that cannot be had."""
        if not isinstance(threshold, int | float) or not 0 < threshold < 1:
            raise ParameterError(f"threshold must be a number between 0 and 1, not {shown(threshold)}.")
        cells = cls(model, other, subgroups_of(model, by), float(threshold))
        if threshold != DECIDES and cells.edges is None:
            raise ParameterError("A threshold is for two classes whose labels follow from shares; leave it out.")
        if other is not None:
            _check_alike(model, other)
        return cells

    @property
    def target(self) -> Any:
        """The target of the model: for a number with the range that it knows."""
        return self.model.forest_.target

    @property
    def is_classes(self) -> bool:
        return isinstance(self.target, Classes)

    @cached_property
    def edges(self) -> np.ndarray | None:
        """The edges between bins of the second label's share; None unless there are two labels, chosen by share."""
        forest = self.model.forest_
        return edges_of(forest, self.threshold) if self.is_classes and len(self.labels) == 2 and not forest.draws else None

    @property
    def labels(self) -> tuple[Any, ...]:
        return tuple(self.target.labels)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        n_groups = 1 if self.by is None else len(self.by)
        if not self.is_classes:
            return n_groups, 1 if self.other is None else N_MOMENTS, N_MOMENTS, N_MOMENTS
        return n_groups, 1 if self.other is None else 2, len(self.labels), self.hit.shape[1]

    @cached_property
    def says(self) -> np.ndarray | None:
        """Which label each place of the last axis stands for, ``(n_classes, n_found)`` of 0 and 1; None if for no label."""
        if self.edges is not None:
            is_second = np.arange(len(self.edges) + 1) > np.searchsorted(self.edges, DECIDES)
            return np.stack([~is_second, is_second]).astype(float)
        return np.eye(len(self.labels)) if len(self.labels) <= MOST_CONFUSED else None

    @cached_property
    def hit(self) -> np.ndarray:
        """Which cells of true class and prediction are hits, ``(n_classes, n_found)`` of 0 and 1."""
        return np.tile([1.0, 0.0], (len(self.labels), 1)) if self.says is None else self.says

    @property
    def most(self) -> int:
        """What a record adds to all cells together."""
        return 1 if self.is_classes else MASS

    @property
    def sensitivity(self) -> Sensitivity:
        return Sensitivity(self.most, self.most**2)

    def count(self, parts: Iterable[Rows], people: People | None = None) -> Sealed[np.ndarray]:
        """The sealed counts of all tables together, of the shape of the cells; of each person as many rows as allowed.

        Privacy:
            Claim: L1 sensitivity is ``most`` and L2**2 at most its square for a record; a person is ``people.most`` of them.
            Because: a record is in one of the tables, and adds ``most`` to its counts, all in all (``Tally``).
            Assumes: the models were released before; with ``people`` what that assumes.
        """
        tally = Tally(self.shape, people)
        for number, (X, y, ids) in enumerate(parts):
            for model in (self.model, self.other) if number == 0 else ():
                if model is not None:
                    check_names(model, X)
            if len(X):
                with warnings.catch_warnings():  # whether there are rows may show by no warning of theirs
                    warnings.simplefilter("ignore")
                    self._add(tally, X, y, ids)
        return tally.sealed()

    def _add(self, tally: Tally, X: Any, y: Any, ids: Any) -> None:
        by = self.by
        subgroups = None if by is None else group_codes(X, self.model.schema_, by.index, by.part, by.cuts)
        if not self.is_classes:
            others = None if self.other is None else self.other.predict(X)
            tally.add_errors(y, self.model.predict(X), self.target, others, subgroups, ids)
            return
        shares, predicted = shares_and_indices(self.model, X)
        others = None if self.other is None else shares_and_indices(self.other, X)[1]
        found = predicted if self.edges is None else self._bins(shares[:, 1], predicted)
        tally.add_outcomes(y, predicted, self.target, None if self.says is None else found, others, subgroups, ids)

    def _bins(self, shares: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """The bin of each share, on the side of 0.5 that the predicted label is on, also where the share is rounded."""
        edges = self.edges
        assert edges is not None
        last = int(np.searchsorted(edges, DECIDES))  # of the bins of the first label
        bins = np.searchsorted(edges, shares, side="left")
        return np.where(predicted == 1, np.maximum(bins, last + 1), np.minimum(bins, last))


def shares_and_indices(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
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


def _check_alike(model: Any, other: Any) -> None:
    """Raise unless two models predict the same target from the same columns."""
    if not hasattr(other, "forest_"):
        raise ParameterError(f"The model to compare with must be a fitted one, not {shown(other)}.")
    ours, theirs = ([(name, part.kind) for name, part in each.schema_.features.items()] for each in (model, other))
    if ours != theirs:
        raise ParameterError("The models to compare have different columns; both are to be predicted from the same rows.")
    targets = model.forest_.target, other.forest_.target
    labels = [list(target.labels) if isinstance(target, Classes) else None for target in targets]
    if labels[0] != labels[1] or targets[0].name != targets[1].name:
        raise ParameterError("The models to compare predict different targets, or list its labels differently.")
