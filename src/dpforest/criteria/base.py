"""What a criterion is: integer scores of candidate splits, with a bound. Runs on sealed values, through ``Sealed.map``."""

from typing import Protocol

import numpy as np
from numba import njit

from dpforest.errors import AccountingError
from dpforest.privacy.base import Bound
from dpforest.proposals import Candidates
from dpforest.schema import Target


class Criterion(Protocol):
    """Scores tables of children; larger is better. A score brings its own bound."""

    status: str

    def accepts(self, target: Target) -> bool:
        """Whether the criterion has a meaning for this target."""

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        """Integers ``(...)`` for statistics ``(..., n_children, width)``."""

    def bound(self, unit: int = 1) -> Bound:
        """By how much adding one record moves the score, if it adds 0 .. ``unit`` to one cell of the counts."""


def records_only(criterion: Criterion, unit: int) -> None:
    """Raise unless records count once: for criteria whose bound was not proved for weights."""
    if unit != 1:
        raise AccountingError(f"{type(criterion).__name__} has no bound for weighted records.")


def children_of(counts: np.ndarray, candidates: Candidates, offsets: np.ndarray) -> np.ndarray:
    """Statistics ``(n_nodes, n_candidates, n_children, width)`` of the children that each candidate would make.

    ``counts`` are ``(n_nodes, total_codes, width)``. Children of candidates that are not valid are left at 0.
    """
    routes = candidates.routes
    shape = (*candidates.places.shape, routes.most_children, counts.shape[2])
    children = np.zeros(shape, dtype=np.int64)
    _add_up(
        counts, offsets, routes.features, routes.children, routes.starts, routes.stops,
        candidates.places, candidates.valid, children,
    )  # fmt: skip
    return children


@njit(cache=True, nogil=True)
def _add_up(counts, offsets, features, routes, starts, stops, places, valid, children):
    n_columns, width = counts.shape[1], counts.shape[2]
    below = np.zeros((n_columns + 1, width), dtype=np.int64)
    for node in range(places.shape[0]):
        for column in range(n_columns):
            for w in range(width):
                below[column + 1, w] = below[column, w] + counts[node, column, w]
        for candidate in range(places.shape[1]):
            if not valid[node, candidate]:
                continue
            route = places[node, candidate]
            begin, end = offsets[features[route]], offsets[features[route] + 1]
            if starts[route] >= 0:
                for w in range(width):
                    inside = below[begin + stops[route], w] - below[begin + starts[route], w]
                    children[node, candidate, 0, w] = inside
                    children[node, candidate, 1, w] = below[end, w] - below[begin, w] - inside
            else:
                for code in range(end - begin):
                    child = routes[route, code]
                    for w in range(width):
                        children[node, candidate, child, w] += counts[node, begin + code, w]
