"""Queries for how often released trees are wrong about records in a database. Sees the sums that these return."""

from typing import Any

import ibis
import numpy as np

from dpforest.records.sql.session import Session

# The number of ensembles that are asked for in one query.
ENSEMBLES_AT_ONCE = 16


def number_wrong(choices: list[Any], label: Any) -> Any:
    """An expression for the number of trees that are wrong about a record."""
    return sum(((choice != label).ifelse(1, 0) for choice in choices), ibis.literal(0, "int32"))


def count_wrong(session: Session, votes: Any, ensembles: np.ndarray, n_classes: int) -> np.ndarray:
    """The number of records ``(n_ensembles,)`` for which the majority vote of each ensemble is wrong; not sealed yet.

    ``votes`` is a table of records with the label ``y`` and the class ``v0``, ``v1``, … that each tree votes for.
    """
    errors = []
    for start in range(0, len(ensembles), ENSEMBLES_AT_ONCE):
        some = ensembles[start : start + ENSEMBLES_AT_ONCE]
        counted = votes.select(
            "y",
            **{
                f"k{index}_{c}": sum(
                    ((votes[f"v{tree}"] == c).ifelse(1, 0) for tree in np.flatnonzero(trees)), ibis.literal(0, "int32")
                )
                for index, trees in enumerate(some)
                for c in range(n_classes)
            },
        )
        wrong = {
            f"a{index}": (~_is_right(counted, index, n_classes)).ifelse(1, 0).sum().fill_null(0).cast("int64")
            for index in range(len(some))
        }
        found = session.fetch(counted.aggregate(**wrong))
        errors += [int(found[f"a{index}"][0]) for index in range(len(some))]
    return np.array(errors, dtype=np.int64)


def _is_right(counted: Any, index: int, n_classes: int) -> Any:
    """An expression for whether the class with the most votes, the first of several, is the label."""
    of_class = [counted[f"k{index}_{c}"] for c in range(n_classes)]
    right = ibis.literal(False)
    for c in range(n_classes):
        first_most = counted["y"] == c
        for other in range(n_classes):
            if other != c:
                first_most &= of_class[other] < of_class[c] if other < c else of_class[other] <= of_class[c]
        right |= first_most
    return right
