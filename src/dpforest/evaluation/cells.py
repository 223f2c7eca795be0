"""The cells for counts of records, which follow from released models and public facts.

Hands tables and what is predicted for them to ``records``, which seals the counts.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from dpforest.common.text import figure
from dpforest.errors import ParameterError, shown
from dpforest.forest.tree import Forest
from dpforest.model.dependence import Dependence, Groups
from dpforest.predicting import check_names
from dpforest.privacy.bounds import Sensitivity
from dpforest.privacy.sealed import Sealed
from dpforest.records.people import People
from dpforest.records.scoring import MASS, N_MOMENTS, Tally, group_codes
from dpforest.schema import Categorical, Classes, Numeric, Schema

RowsToScore = tuple[Any, Any, Any]  # features, targets, and the ids of persons or None
By = str | tuple[str, Sequence[float]] | None
# With more classes the cells of a confusion matrix would hold mostly noise: then hits and misses of each class are counted.
MOST_CONFUSED = 12
# Shares of trees that vote spread over all of 0 .. 1: round numbers, finer at both ends, where ranks differ most.
FIXED = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
# Trees that add up may give all records much the same share: cuts are quantiles of what the model would predict.
QUANTILES = (0.02, 0.06, 0.15, 0.25, 0.375, 0.5, 0.625, 0.75, 0.85, 0.94, 0.98)
N_DRAWN = 4096
APART = 0.025  # of other edges from 0.5 and the threshold: a narrow bin adds noise and tells little
DECIDES = 0.5  # above it the second label is predicted
# Parts of a number between its bounds if no cuts are given, and subgroups at most: each adds its noise to what is summed.
N_PARTS, MOST_GROUPS = 4, 200
HOW = "Say where to cut: --by {0}=30,60, in Python by=({0!r}, [30, 60])."


@dataclass(frozen=True)
class Cells:
    """What is counted of the records that a model is scored on, for one charge.

    Counts have four axes. The first is the subgroup. For classes the others are whether another model is wrong, the true
    class, and what the model predicts: the bin of its share for two classes, the label, or whether it is wrong. For a number
    they are the moments of the other model's error, of the target, and of the error (see ``records.scoring``).
    """

    model: Any
    other: Any = None
    by: "Subgroups | None" = None
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
        n_groups = 1 if self.by is None else len(self.by.names)
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

    def count(self, parts: Iterable[RowsToScore], people: People | None = None) -> Sealed[np.ndarray]:
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
        subgroups = None if self.by is None else self.by.codes(X, self.model.schema_)
        if not self.is_classes:
            others = None if self.other is None else self.other.predict(X)
            tally.add_errors(y, self.model.predict(X), self.target, others, subgroups, ids)
            return
        shares = self.model.predict_proba(X)
        predicted = predicted_indices(self.model, X, shares)
        others = None if self.other is None else predicted_indices(self.other, X, self.other.predict_proba(X))
        found = predicted if self.edges is None else self._bins(shares[:, 1], predicted)
        tally.add_outcomes(y, predicted, self.target, None if self.says is None else found, others, subgroups, ids)

    def _bins(self, shares: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """The bin of each share, on the side of 0.5 that the predicted label is on, also where the share is rounded."""
        edges = self.edges
        assert edges is not None
        last = int(np.searchsorted(edges, DECIDES))  # of the bins of the first label
        bins = np.searchsorted(edges, shares, side="left")
        return np.where(predicted == 1, np.maximum(bins, last + 1), np.minimum(bins, last))


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


def edges_of(forest: Forest, threshold: float = DECIDES) -> np.ndarray:
    """The edges ``(n_bins - 1,)`` between bins of the second class's share; 0.5 and the threshold are among them.

    Privacy:
        Claim: the edges reveal nothing about the records that are scored.
        Because: they are a function of the released forest and of what the caller asks.
        Assumes: the model was released before.
    """
    found = np.quantile(_own_shares(forest), QUANTILES) if forest.link == "softmax" else np.array(FIXED)
    wanted = np.array([DECIDES, threshold])
    rounded = [float(f"{edge:.3g}") for edge in found if np.abs(wanted - edge).min() > APART]
    return np.unique([edge for edge in (*rounded, *wanted) if 0 < edge < 1])


def _own_shares(forest: Forest) -> np.ndarray:
    """Shares that the forest gives to records drawn from its own released sizes, each feature by itself."""
    dependence, generator = Dependence.of(forest, forest.votes), np.random.RandomState(0)
    codes = np.zeros((forest.domain.n_features, N_DRAWN), dtype=np.uint32)
    for feature in np.unique(forest.features[~forest.is_leaf]).tolist():
        groups = Groups.of(forest, feature)
        codes[feature] = groups.codes[generator.choice(len(groups), N_DRAWN, p=dependence.weights(groups))]
    return forest.predict(codes)[:, 1]


@dataclass(frozen=True)
class Subgroups:
    """The subgroups of one column: its listed values and all others, or parts of a number; and missing, always the last."""

    column: str
    index: int  # of the column among the features of the schema
    names: tuple[str, ...]
    part: Categorical | None = None
    cuts: tuple[float, ...] = ()

    def codes(self, X: Any, schema: Schema) -> np.ndarray:
        """The subgroup of each record, ``(n_records,)``."""
        return group_codes(X, schema, self.index, self.part, self.cuts)


def subgroups_of(model: Any, by: By) -> Subgroups | None:
    """The subgroups of a column of a model's schema, given by its name, or by name and cuts of a number."""
    if by is None:
        return None
    column, given = (by, None) if isinstance(by, str) else by
    names = [*model.schema_.features]
    if column not in names:
        raise ParameterError(f"by={shown(column)} is no feature of the model; it has {', '.join(names[:20])}.")
    part, index = model.schema_.features[column], names.index(column)
    if isinstance(part, Categorical) and part.learn:
        own = model.forest_.domain
        part = own.features[own.names.index(column)]  # with the list that was released
    if isinstance(part, Categorical) and part.categories and given is None:
        found = Subgroups(column, index, (*map(str, part.categories), "(other values)", "(missing)"), part)
    elif isinstance(part, Numeric):
        found = _of_number(column, index, part, given)
    else:
        raise ParameterError(
            f"Subgroups are by a column with a public list of values, or by cuts of a number, and {column!r} is neither."
        )
    if len(found.names) > MOST_GROUPS:
        raise ParameterError(f"{column!r} has {len(found.names)} subgroups; the most is {MOST_GROUPS}.")
    return found


def _of_number(column: str, index: int, part: Numeric, given: Sequence[float] | None) -> Subgroups:
    if given is None:
        if not part.has_bounds:
            raise ParameterError(f"{column!r} has no public bounds to divide. {HOW.format(column)}")
        inner = np.linspace(*part.range, N_PARTS + 1)[1:-1]
        given = np.unique(np.ceil(inner) if part.integer else inner).tolist()
    try:
        cuts = [float(cut) for cut in given]
    except (TypeError, ValueError):
        cuts = [np.nan]
    if not cuts or not np.isfinite(cuts).all() or any(a >= b for a, b in pairwise(cuts)):
        raise ParameterError(f"Cuts of {column!r} must be rising numbers. {HOW.format(column)}")
    words = [figure(cut, 6) for cut in cuts]
    between = [f"{low} to under {high}" for low, high in pairwise(words)]
    return Subgroups(column, index, (f"under {words[0]}", *between, f"{words[-1]} and above", "(missing)"), cuts=tuple(cuts))
