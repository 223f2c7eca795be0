"""Subgroups by a column: which there are, from public facts alone. Public values only."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dpforest.common.text import figure
from dpforest.errors import ParameterError, shown
from dpforest.schema import Categorical, Numeric

# Parts of a number between its bounds if no cuts are given, and subgroups at most: each adds its noise to what is summed.
N_PARTS, MOST_GROUPS = 4, 200
HOW = "Say where to cut: --by {0}=30,60, in Python by=({0!r}, [30, 60])."


@dataclass(frozen=True)
class Subgroups:
    """The subgroups of one column: its listed values and all others, or parts of a number; and missing, always the last."""

    column: str
    index: int  # of the column among the features of the schema
    names: tuple[str, ...]
    part: Categorical | None = None
    cuts: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.names)


def subgroups_of(model: Any, by: str | tuple[str, Sequence[float]] | None) -> Subgroups | None:
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
    if len(found) > MOST_GROUPS:
        raise ParameterError(f"{column!r} has {len(found)} subgroups; the most is {MOST_GROUPS}.")
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
