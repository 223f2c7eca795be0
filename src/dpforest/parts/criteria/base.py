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
        counts, offsets, routes.features, routes.rows, routes.tables, routes.starts, routes.stops,
        candidates.indices, candidates.valid, children,
    )  # fmt: skip
    return children


@njit(cache=True, nogil=True)
def _add_up(counts, offsets, features, rows, tables, starts, stops, indices, valid, children):
    width, index = counts.shape[2], 0
    below = np.empty((counts.shape[1], width), dtype=np.int64)  # sums of the codes of a feature up to and with each
    summed = np.full(offsets.size, -1)  # the node whose sums are there
    for node in range(indices.shape[0]):
        for candidate in range(indices.shape[1]):
            if not valid[node, candidate]:
                continue
            route = indices[node, candidate]
            begin, end = offsets[features[route]], offsets[features[route] + 1]
            if starts[route] >= 0:
                if summed[features[route]] != node:
                    summed[features[route]] = node
                    below[begin] = counts[node, begin]
                    for column in range(begin + 1, end):
                        for w in range(width):
                            below[column, w] = below[column - 1, w] + counts[node, column, w]
                low, high = begin + starts[route] - 1, begin + stops[route] - 1
                for w in range(width):
                    inside = below[high, w] - (below[low, w] if low >= begin else 0)
                    children[index, 0, w] = inside
                    children[index, 1, w] = below[end - 1, w] - inside
            else:
                for code in range(end - begin):
                    child = tables[rows[route], code]
                    for w in range(width):
                        children[index, child, w] += counts[node, begin + code, w]
            index += 1
