"""Queries for how often released trees are wrong about records in a database. Sees the sums that these return."""

from collections.abc import Sequence

import numpy as np

from dpforest.records.sql.expressions import cases, total
from dpforest.records.sql.session import Relation, Session

# The number of ensembles that are asked for in one query.
ENSEMBLES_AT_ONCE = 16


def number_wrong(choices: Sequence[str], label: str) -> str:
    """An expression for the number of trees that are wrong about a record."""
    return total(cases((f"{choice} <> {label}", "1"), otherwise="0") for choice in choices)


def count_wrong(session: Session, votes: Relation, ensembles: np.ndarray, n_classes: int) -> np.ndarray:
    """The number of records ``(n_ensembles,)`` for which the majority vote of each ensemble is wrong; not sealed yet.

    ``votes`` is a table of records with the label ``y`` and the class ``v0``, ``v1``, … that each tree votes for.
    """
    errors = []
    for start in range(0, len(ensembles), ENSEMBLES_AT_ONCE):
        some = ensembles[start : start + ENSEMBLES_AT_ONCE]
        counted = ", ".join(
            f"{total(cases((f'v{tree} = {c}', '1'), otherwise='0') for tree in np.flatnonzero(trees))} AS k{index}_{c}"
            for index, trees in enumerate(some)
            for c in range(n_classes)
        )
        wrong = ", ".join(
            f"CAST(COALESCE(SUM({cases((is_right(own), '0'), otherwise='1')}), 0) AS BIGINT) AS a{index}"
            for index, own in enumerate([f"k{index}_{c}" for c in range(n_classes)] for index in range(len(some)))
        )
        found = session.fetch(f"SELECT {wrong} FROM (SELECT y, {counted} FROM {votes.name}) AS counted", votes)
        errors += [int(found[f"a{index}"][0]) for index in range(len(some))]
    return np.array(errors, dtype=np.int64)


def is_right(of_class: Sequence[str]) -> str:
    """A condition for records whose label ``y`` is the class with the most votes, the first of several.

    ``of_class`` has the column of each class's votes.
    """
    conditions = []
    for c, own in enumerate(of_class):
        beaten = (f"{votes} {'<' if other < c else '<='} {own}" for other, votes in enumerate(of_class) if other != c)
        conditions.append(" AND ".join([f"y = {c}", *beaten]))
    return " OR ".join(f"({condition})" for condition in conditions)
