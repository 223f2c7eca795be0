"""Residuals of additive trees in a database: weights of records by how wrong their scores are. Builds queries; sees no rows.

They are those of ``records.residuals``, to the last unit.
"""

import numpy as np

from dpforest.records.residuals import MOST_WEIGHT, PAIR_WEIGHTS, POWERS
from dpforest.records.sql.expressions import cases, clip, divide, total
from dpforest.records.sql.session import Join, Relation, Session


def pair_weights(session: Session) -> Join:
    """Joins the ``weight`` of each record of two classes, whose scores are in s0 and s1."""
    # All weigh most whose class lags, and nothing whose class leads by more than the table has steps.
    weights = np.array([MOST_WEIGHT, *PAIR_WEIGHTS[0]], dtype=np.int64)
    known = session.look_up({"ahead": np.arange(len(weights)) - 1, "weight": weights})
    ahead = cases(("y = 1", "s1 - s0"), otherwise="s0 - s1")
    return Join(known, f"{known.name}.ahead = {clip(ahead, -1, len(weights) - 2)}")


def pair_sums(weight: str) -> dict[str, str]:
    """Residuals ``a0`` and ``a1`` of the two classes, which are as large as the weight, and the weight, from its column."""
    return {f"a{c}": cases((f"y = {c}", weight), otherwise=f"-{weight}") for c in range(2)} | {"a2": weight}


def weighed(table: Relation, n_classes: int, session: Session) -> str:
    """A query for all columns of a table and, for each record of three or more classes: a weight and parts of it by class.

    ``weight`` says how wrong its scores s0, s1, … are, ``p0``, ``p1``, … in favour of which other class, and ``parts`` is
    the sum of the latter.
    """
    classes, powers = range(n_classes), session.look_up({"lead": np.arange(len(POWERS)), "power": POWERS})
    # PostgreSQL would write the columns of one query into the next, again and again.
    once = " OFFSET 0" if session.backend.name == "postgres" else ""
    best = f"GREATEST({', '.join(f's{c}' for c in classes)})"
    joins = " ".join(f"LEFT JOIN {powers.name} AS k{c} ON t.best - t.s{c} = k{c}.lead" for c in classes)
    found = ", ".join(f"CAST(COALESCE(k{c}.power, 0) AS BIGINT) AS e{c}" for c in classes)
    raised = f"SELECT t.*, {found} FROM (SELECT *, {best} AS best FROM {table.name}) AS t {joins}{once}"
    own = cases(*((f"y = {c}", f"e{c}") for c in classes), otherwise="0")
    everything = total(f"e{c}" for c in classes)
    summed = f"SELECT *, {everything} AS whole, {everything} - {own} AS wrong FROM ({raised}) AS t{once}"
    share = divide(f"wrong * {MOST_WEIGHT * n_classes}", f"whole * {n_classes - 1}")
    capped = f"wrong * {n_classes} > whole * {n_classes - 1}"
    top = cases((capped, "wrong"), otherwise=f"whole * {n_classes - 1}")
    scale = cases((capped, str(MOST_WEIGHT)), otherwise=str(MOST_WEIGHT * n_classes))
    scaled = f"SELECT *, LEAST({share}, {MOST_WEIGHT}) AS weight, {top} AS top, {scale} AS scale FROM ({summed}) AS t{once}"
    # With nothing wrong there is nothing to divide by, and no part either.
    parts = ", ".join(
        f"{cases((f'y = {c} OR top = 0', '0'), otherwise=divide(f'scale * e{c}', 'top'))} AS p{c}" for c in classes
    )
    divided = f"SELECT *, {parts} FROM ({scaled}) AS t{once}"
    return f"SELECT *, {total(f'p{c}' for c in classes)} AS parts FROM ({divided}) AS t"


def residual_sums(n_classes: int) -> dict[str, str]:
    """Residuals ``a0``, ``a1``, … of all classes and then the weight, as expressions over the columns of ``weighed``."""
    own = {f"a{c}": cases((f"y = {c}", "parts"), otherwise=f"-p{c}") for c in range(n_classes)}
    return own | {f"a{n_classes}": "weight"}
