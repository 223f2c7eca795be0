"""The protocol of a criterion, and the counts that criteria score. Sees sealed counts, through ``Sealed.map``."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numba import njit

from dpforest.errors import AccountingError
from dpforest.parts.part import Part
from dpforest.parts.proposals import Candidates
from dpforest.privacy.base import Bound
from dpforest.schema import Target


class Criterion(Part, Protocol):
    """A score of candidate splits by the counts of the children that they would make; larger is better.

    The bound of the score is proved beside it.
    """

    status: str  # "proved", if the bound has a proof here

    @property
    def sees(self) -> str:
        """What records count as: by their "target"; as below or above the "centre" of their node; by all "residuals"."""
        return "target"

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        """Integer scores ``(...)`` of splits whose children have the statistics ``(..., n_children, width)``."""

    def bound(self, most: int = 1) -> Bound:
        """The least and the greatest change of the score when a record is added that raises one count by 0 .. ``most``.

        A criterion that sees residuals has ``most`` of them, see ``Scored.spread_residuals``.
        """


def records_only(criterion: Criterion, most: int) -> None:
    """Raise unless records count once; for criteria whose bound is not proved for weighted records."""
    if most != 1:
        raise AccountingError(f"{type(criterion).__name__} has no bound for weighted records.")


def score_each(kernel: Callable[[np.ndarray, np.ndarray], None], children: np.ndarray) -> np.ndarray:
    """Integer scores ``(...)`` that a kernel gives the statistics ``(..., n_children, width)``."""
    scores = np.empty(children.shape[:-2], dtype=np.int64)
    kernel(np.ascontiguousarray(children).reshape(scores.size, *children.shape[-2:]), scores.reshape(-1))
    return scores


def children_of(counts: np.ndarray, candidates: Candidates, offsets: np.ndarray) -> np.ndarray:
    """Statistics ``(n_valid, n_children, width)`` of the children that each valid candidate would make, node after node.

    ``counts`` ``(n_nodes, total_codes, width)`` are the histograms of the nodes, ``offsets`` the first code of each feature.
    """
    routes = candidates.routes
    n_valid = int(np.count_nonzero(candidates.valid))
    children = np.zeros((n_valid, routes.most_children, counts.shape[2]), dtype=np.int64)
    _add_up(
        np.ascontiguousarray(counts), offsets, routes.features, routes.rows, routes.tables, routes.starts, routes.stops,
        candidates.indices, candidates.valid, children,
    )  # fmt: skip
    return children


@njit(cache=True, nogil=True)
def _add_up(counts, offsets, features, rows, tables, starts, stops, indices, valid, children):
    """Fill ``children`` of valid candidates. Indices are unsigned, or each would be tested for being negative."""
    one, width, per_candidate = np.uint64(1), np.uint64(counts.shape[2]), np.uint64(children.shape[1] * counts.shape[2])
    # Sums of the codes of a feature before each of them, and last of all of them; and the node whose sums are there.
    below, summed = np.zeros((counts.shape[1] + offsets.size) * counts.shape[2], dtype=np.int64), np.full(offsets.size, -1)
    filled, place = children.reshape(-1), np.uint64(0)
    for node in range(indices.shape[0]):
        own = counts[node].reshape(-1)
        for candidate in range(np.uint64(indices.shape[1])):
            if not valid[node, candidate]:
                continue
            route = np.uint64(indices[node, candidate])
            feature = np.uint64(features[route])
            cell, end = np.uint64(offsets[feature]) * width, np.uint64(offsets[feature + one]) * width
            if starts[route] >= 0:
                first = cell + feature * width
                if summed[feature] != node:
                    summed[feature] = node
                    for index in range(end - cell):
                        below[first + index + width] = below[first + index] + own[cell + index]
                low, high = first + np.uint64(starts[route]) * width, first + np.uint64(stops[route]) * width
                for w in range(width):
                    inside = below[high + w] - below[low + w]
                    filled[place + w] = inside
                    filled[place + width + w] = below[first + end - cell + w] - inside
            else:
                for child in tables[np.uint64(rows[route]), : (end - cell) // width]:
                    for w in range(width):
                        filled[place + child * width + w] += own[cell + w]
                    cell += width
            place += per_candidate
