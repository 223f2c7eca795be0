"""The protocol of a criterion, and the counts that criteria score. Sees sealed counts, through ``Sealed.map``."""

from collections.abc import Callable, Iterator
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

        A criterion that sees residuals has ``most`` of them, see ``Counter.spread_residuals``.
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
    n_valid = int(np.count_nonzero(candidates.valid))
    ((_, _, children),) = children_in_blocks(counts, candidates, offsets, n_valid)
    return children


def children_in_blocks(
    counts: np.ndarray, candidates: Candidates, offsets: np.ndarray, most: int
) -> Iterator[tuple[int, int, np.ndarray]]:
    """What ``children_of`` gives, for at most ``most`` valid candidates at a time, in an array that is used again.

    With them come the first candidate and the end of the block, candidates of all nodes being in a row.
    """
    routes, (n_nodes, n_candidates), width = candidates.routes, candidates.indices.shape, counts.shape[2]
    children = np.empty((most, routes.most_children, width), dtype=np.int64)
    below = np.zeros((int(np.diff(offsets).max()) + 1) * width, dtype=np.int64)
    known = (counts, offsets, routes.features, routes.rows, routes.tables, routes.starts, routes.stops)
    rest = (np.full(2, -1), below, most, children.reshape(-1))
    end = 0
    while end < n_nodes * n_candidates:
        first = end
        end, n_found = _add_up(*known, candidates.rows, candidates.valid, first, *rest)
        yield first, end, children[:n_found]


@njit(cache=True, nogil=True)
def _add_up(counts, offsets, features, rows, tables, starts, stops, indices, valid, first, summed, below, most, children):
    """Fill ``children`` for up to ``most`` valid candidates from ``first`` on; returns where they end, and their number.

    ``below`` has the sums of the statistics of a feature's codes before each, and ``summed`` says of which node and feature:
    candidates of a feature come one after the other, so they are summed once.
    """
    (n_nodes, n_candidates), width, n_found = valid.shape, counts.shape[2], 0
    size = children.size // max(most, 1)
    for node in range(first // n_candidates, n_nodes):
        for candidate in range(max(first - node * n_candidates, 0), n_candidates):
            if not valid[node, candidate]:
                continue
            if n_found == most:
                return node * n_candidates + candidate, n_found
            route, own = indices[min(node, indices.shape[0] - 1), candidate], n_found * size
            feature = features[route]
            begin, end = offsets[feature], offsets[feature + 1]
            if starts[route] >= 0:
                if summed[1] != feature or summed[0] != node:
                    summed[0], summed[1] = node, feature
                    for w in range(width):
                        total = 0
                        for code in range(end - begin):
                            total += counts[node, begin + code, w]
                            below[(code + 1) * width + w] = total
                low, high, last = starts[route] * width, stops[route] * width, (end - begin) * width
                if width == 2 and size == 4:  # two children of two classes, for which a loop would take longer than the sums
                    one, two = below[high] - below[low], below[high + 1] - below[low + 1]
                    children[own], children[own + 1] = one, two
                    children[own + 2], children[own + 3] = below[last] - one, below[last + 1] - two
                else:
                    for w in range(width):
                        inside = below[high + w] - below[low + w]
                        children[own + w] = inside
                        children[own + width + w] = below[last + w] - inside
                    for cell in range(own + 2 * width, own + size):
                        children[cell] = 0
            else:
                for cell in range(own, own + size):
                    children[cell] = 0
                for code in range(end - begin):
                    child = own + np.int64(tables[rows[route], code]) * width
                    for w in range(width):
                        children[child + w] += counts[node, begin + code, w]
            n_found += 1
    return n_nodes * n_candidates, n_found
