"""Evaluates a model on tables: exactly if they are public, or by one release with noise, which is charged.

Hands tables on to ``records`` and never looks into them.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpforest.budget import Budget, Loss
from dpforest.budget.fits import charged, check_budget
from dpforest.errors import ParameterError
from dpforest.evaluation import figures
from dpforest.evaluation.cells import DECIDES, By, Cells, RowsToScore
from dpforest.evaluation.figures import Evaluation, Released, Score
from dpforest.mechanisms import Entropy
from dpforest.model.file import model_digest, today
from dpforest.privacy.accountants import make_accountant
from dpforest.privacy.gate import Gate
from dpforest.privacy.ledger import Ledger
from dpforest.records.columns import target_values
from dpforest.records.doors import ids_of, is_elsewhere, rows_to_score, target_beside
from dpforest.records.people import People, check_groups, check_no_feature, name_of_ids, read_ids
from dpforest.records.scoring import true_values
from dpforest.schema import Classes

# A subgroup has too few records to say if its first figure may be off by more than this share of 1, or of an error.
TOO_WIDE, TOO_WIDE_FOR_ERRORS = 0.1, 0.5


def evaluate_privately(
    model: Any,
    X: Any,
    y: Any = None,
    epsilon: float | None = None,
    *,
    groups: Any = None,
    max_rows_per_person: int | None = None,
    budget: Budget | None = None,
    by: By = None,
    compare: Any = None,
    threshold: float = DECIDES,
) -> Evaluation:
    """Scores with noise on a table; each of its records pays ``epsilon`` once, from ``budget`` if there is one.

    Without ``y`` it is any table that ``fit`` takes so, but for those on clusters; ``groups`` then names a column.
    With ``groups``, the id of each row's person, and ``max_rows_per_person`` each person pays ``epsilon``, and of their rows
    at most so many are counted, drawn by lot. ``by`` names a column for figures by subgroup, or a number and its cuts:
    ``("age", [30, 60])``. ``compare`` is another model to score on the same records. At ``threshold``, beside 0.5, figures
    of two classes are exact but for noise. The more is asked, the more noise is in each sum.
    """
    if epsilon is None:
        raise ParameterError("epsilon, what each record pays for the scores, must be given.")
    if y is None and groups is None and max_rows_per_person is not None:
        groups = model.schema_.id_column
    check_groups(groups, max_rows_per_person)
    cells = Cells.of(model, by, compare, threshold)
    return score_privately(cells, _rows(model, X, y, groups), epsilon, max_rows_per_person, budget)


def _rows(model: Any, X: Any, y: Any, groups: Any = None) -> Iterable[RowsToScore]:
    """The features, the target and the ids of some rows at a time, wherever the table is."""
    if is_elsewhere(X):
        return rows_to_score(X, model.schema_, groups)
    if y is None:
        y, groups = target_beside(X, model.schema_), ids_of(X, groups)
    check_no_feature(name_of_ids(groups), model.schema_)
    return [(X, y, None if groups is None else read_ids(groups))]


def score_privately(
    cells: Cells,
    parts: Iterable[RowsToScore],
    epsilon: float,
    rows_per_person: int | None = None,
    budget: Budget | None = None,
) -> Evaluation:
    """Scores with noise on all tables together, for ``epsilon`` of a record, or of a person with at most so many rows.

    Privacy:
        Claim: costs a record ``epsilon`` or, with ``rows_per_person``, a person, on top of what was lost before.
        Because: one release of the counts of all cells with geometric noise, whose L1 sensitivity for a record
            ``Cells.count`` states; everything else follows from it and from the models. The range of a number is that of the
            model (``forest_.target``): a record beyond it counts as one at its end. A person moves the counts by that of
            ``rows_per_person`` records (``People``), and the accountant makes noise for so many (``Pure``).
        Assumes: the models are released; with ``rows_per_person`` what ``People`` assumes.
    """
    unit = "record" if rows_per_person is None else "person"
    ledger = Ledger(make_accountant(epsilon, 0.0, 1 if rows_per_person is None else rows_per_person))
    check_budget(budget, unit, ["epsilon is infinite"] if math.isinf(epsilon) else [])
    with charged(budget, "score", [] if budget is None else [Loss.pure(ledger.epsilon)], ledger):
        released = _release(cells, parts, ledger, unit)
    return _evaluation(cells, released, ledger, unit)


def _release(cells: Cells, parts: Iterable[RowsToScore], ledger: Ledger, unit: str = "record") -> Released:
    """The released counts, in records; they cost all of the ledger's budget."""
    gate, amount = Gate(ledger, Entropy(None)), ledger.accountant.budget
    sealed = cells.count(parts, People(ledger.rows, gate.entropy) if unit == "person" else None)
    counts, variance = gate.add_noise(sealed, cells.sensitivity, amount, "right and wrong predictions")
    return Released(counts / cells.most, math.sqrt(variance) / cells.most, ledger.rows)


def evaluate_public(
    model: Any, X: Any, y: Any = None, *, by: By = None, compare: Any = None, threshold: float = DECIDES
) -> Evaluation:
    """Exact scores on a table. NOT private: for tables that are public. Options are those of ``evaluate_privately``."""
    return score_exactly(Cells.of(model, by, compare, threshold), _rows(model, X, y))


def score_exactly(cells: Cells, parts: Iterable[RowsToScore]) -> Evaluation:
    """Exact scores on all tables together. NOT private: for tables that are public."""
    pieces = []

    def kept() -> Iterator[RowsToScore]:
        for X, y, _ids in parts:
            if len(X):
                pieces.append(_read(cells, X, y))
                yield X, y, None

    released = _release(cells, kept(), Ledger(make_accountant(math.inf, 0.0)))
    exact = [np.concatenate(piece) for piece in zip(*pieces, strict=True)] if pieces else None
    found = _evaluation(cells, released, None, exact=exact)
    return found if found.n_rows else replace(found, scores=())


def _read(cells: Cells, X: Any, y: Any) -> tuple[np.ndarray, ...]:
    """The predictions, targets, subgroups and, for numbers, other predictions of public records whose target is known."""
    target = cells.model.schema_.target
    is_classes = isinstance(target, Classes)
    true = target_values(y, target) if is_classes else true_values(y, target)
    predicted = cells.model.predict_proba(X) if is_classes else cells.model.predict(X)
    groups = np.zeros(len(true)) if cells.by is None else cells.by.codes(X, cells.model.schema_)
    kept = true >= 0 if is_classes else ~np.isnan(true)
    others = predicted if is_classes or cells.other is None else cells.other.predict(X)
    return predicted[kept], true[kept], groups[kept], others[kept]


def _evaluation(
    cells: Cells, released: Released, ledger: Ledger | None, unit: str = "record", exact: Any = None
) -> Evaluation:
    """The figures that follow from released counts, with exact ones in their place where these are known."""
    whole = released.over(0, 1)
    details: dict[str, Any] = {"model": model_digest(cells.model), "written": today()}
    details |= {"task": "classes" if cells.is_classes else "number", "target": cells.target.name}
    details |= figures.class_details(whole, cells) if cells.is_classes else {"range": list(cells.target.range)}
    if cells.by is not None:
        details["groups"] = {"column": cells.by.column, "rows": _groups(cells, released, exact)}
    if cells.other is not None:
        details["comparison"] = _comparison(cells, released.over(0), exact) | {"model": model_digest(cells.other)}
    n_rows = max(whole.total(), 0.0)
    return Evaluation(_scores(cells, whole, exact), n_rows, ledger, whole.margin(), details, unit)


def _scores(cells: Cells, released: Released, exact: Any) -> tuple[Score, ...]:
    if cells.is_classes:
        scores = figures.class_scores(released, cells)
        return scores if exact is None else figures.with_exact(scores, figures.exact_of_shares(*exact[:2]))
    if _has_rows(exact):
        return figures.exact_of_errors(*exact[:2])
    return figures.number_scores(released, cells.target.span)


def _comparison(cells: Cells, released: Released, exact: Any) -> dict[str, Any]:
    if cells.is_classes:  # whose counts are exact where there is no noise
        return figures.class_comparison(released, cells)
    if _has_rows(exact):
        predicted, true, _groups, others = exact
        return figures.exact_comparison(predicted, true, others)
    return figures.number_comparison(released, cells.target.span)


def _has_rows(exact: Any) -> bool:
    return exact is not None and len(exact[0]) > 0


def _groups(cells: Cells, released: Released, exact: Any) -> list[dict[str, Any]]:
    """The figures of each subgroup, and whether its records are enough to say anything, by released figures alone."""
    assert cells.by is not None
    rows = []
    for index, name in enumerate(cells.by.names):
        own = released.part(index).over(0)
        known = None if exact is None else [each[exact[2] == index] for each in exact]
        scores = _scores(cells, own, known)
        first = scores[0]
        limit = TOO_WIDE if cells.is_classes else TOO_WIDE_FOR_ERRORS * first.value
        enough = bool(math.hypot(first.margin, first.sampling) <= limit)  # not if it has no value
        row = {"group": name, "n_rows": max(own.total(), 0.0), "n_rows_margin": own.margin()}
        rows.append(row | {"enough": enough, "scores": scores})
    return rows
