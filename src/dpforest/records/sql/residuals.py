"""Residuals of additive trees as expressions of a query, see ``records.residuals``. Sees names of columns only."""

from typing import Any

import ibis
import numpy as np

from dpforest.records.residuals import MOST_WEIGHT, PAIR_WEIGHTS, POWERS
from dpforest.records.sql.lookups import divide, least
from dpforest.records.sql.session import Session


def _pair_weight(table: Any, session: Session) -> Any:
    """The table with a column ``weight``, for two classes, by how far the class of a record leads."""
    # A record whose class lags has the full weight, as in row 1 of the table; one whose class leads by far has none.
    leads = np.flatnonzero(PAIR_WEIGHTS[0])
    known = session.look_up({"pair_lead": leads, "pair_weight": PAIR_WEIGHTS[0][leads]})
    columns, lead = list(table.columns), table["s0"] - table["s1"]
    table = table.mutate(lead=ibis.cases((table["y"] == 1, -lead), else_=lead).cast("int64"))
    table = table.left_join(known, table["lead"] == known["pair_lead"]).select(*columns, "lead", "pair_weight")
    weight = ibis.cases((table["lead"] < 0, int(PAIR_WEIGHTS[1].min())), else_=table["pair_weight"].fill_null(0))
    return table.select(*columns, weight=weight)


def _powers(table: Any, n_classes: int, session: Session) -> Any:
    """The table with columns ``e0``, ``e1``, …, the exponentials of each record's scores relative to the best one.

    ``total`` is their sum, and ``wrong`` the sum of those of other classes than the record's.
    """
    powers = session.look_up({"lead": np.arange(len(POWERS)), "power": POWERS})
    columns = list(table.columns)
    best = ibis.greatest(*(table[f"s{c}"] for c in range(n_classes)))
    table = table.mutate(**{f"l{c}": (best - table[f"s{c}"]).cast("int64") for c in range(n_classes)})
    for c in range(n_classes):
        columns.append(f"e{c}")
        own = powers.rename({f"lead{c}": "lead", f"power{c}": "power"})
        table = table.left_join(own, table[f"l{c}"] == own[f"lead{c}"])
        table = table.mutate(**{f"e{c}": table[f"power{c}"].fill_null(0)}).drop(f"lead{c}", f"power{c}")
    total = sum((table[f"e{c}"] for c in range(n_classes)), ibis.literal(0, "int64"))
    own = ibis.cases(*((table["y"] == c, table[f"e{c}"]) for c in range(n_classes)))
    return table.select(*columns, total=total, wrong=total - own)


def _weight(table: Any, n_classes: int) -> Any:
    share = divide(table["wrong"] * (MOST_WEIGHT * n_classes), table["total"] * (n_classes - 1))
    return least(share, MOST_WEIGHT)


def residual_weight(table: Any, n_classes: int, session: Session) -> Any:
    """The table with a column ``w0``, the weight of each record by how wrong its scores are."""
    columns = [name for name in table.columns if name != "w0"]
    if n_classes == 2:
        table = _pair_weight(table, session)
        return table.select(*columns, w0=table["weight"].cast("int16"))
    table = _powers(table.select(*columns), n_classes, session)
    return table.select(*columns, w0=_weight(table, n_classes).cast("int16"))


def residual_sums(table: Any, n_classes: int, session: Session) -> tuple[Any, dict[str, Any]]:
    """The table with more columns, and expressions over it: residuals ``a0``, … of all classes, then the weight.

    For two classes both residuals are as large as the weight, which the table may have as ``w0``.
    """
    if n_classes == 2:
        table = table.mutate(weight=table["w0"]) if "w0" in table.columns else _pair_weight(table, session)
        table = table.mutate(weight=table["weight"].cast("int64"))
        signed = [ibis.cases((table["y"] == c, table["weight"]), else_=-table["weight"]) for c in range(2)]
        return table, {"a0": signed[0], "a1": signed[1], "a2": table["weight"]}
    table = _powers(table, n_classes, session)
    capped = table["wrong"] * n_classes > table["total"] * (n_classes - 1)
    top = ibis.cases((capped, table["wrong"]), else_=table["total"] * (n_classes - 1))
    scale = ibis.cases((capped, MOST_WEIGHT), else_=MOST_WEIGHT * n_classes)
    table = table.mutate(top=top, scale=scale, weight=_weight(table, n_classes))
    # With nothing wrong there is nothing to divide by, and no part either.
    parts = {
        f"p{c}": ibis.cases(
            (table["y"] == c, 0), (table["top"] == 0, 0), else_=divide(table["scale"] * table[f"e{c}"], table["top"])
        )
        for c in range(n_classes)
    }
    table = table.mutate(**parts)
    all_parts = sum((table[f"p{c}"] for c in range(n_classes)), ibis.literal(0, "int64"))
    table = table.mutate(all_parts=all_parts)
    sums = {f"a{c}": ibis.cases((table["y"] == c, table["all_parts"]), else_=-table[f"p{c}"]) for c in range(n_classes)}
    return table, sums | {f"a{n_classes}": table["weight"]}
