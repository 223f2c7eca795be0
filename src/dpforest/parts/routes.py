"""Routes of codes to children, the candidate splits of nodes, and the counts of their children.

Sees public values; ``children_of`` and ``children_in_blocks`` see sealed counts, through ``Sealed.map``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit

from dpforest.schema.domain import DIGITS, Domain, entries_of

COLUMNS = ("features", "starts", "stops", "ends")  # of routes


@dataclass(frozen=True)
class Routes:
    """Routes, each of which sends the codes of one feature to children.

    If child 0 gets one run of codes and child 1 the others, the run is ``starts[r] : stops[r]``, and no table is needed:
    counts of both children are found by subtraction. Else ``starts[r]`` is -1 and ``tables[rows[r], code]`` is the child.
    Routes of wide features are all runs.
    A route divides a node if codes below ``ends[r]`` that the node can hold go to different children.
    """

    features: np.ndarray  # (n_routes,), as the next four
    starts: np.ndarray
    stops: np.ndarray
    ends: np.ndarray
    rows: np.ndarray  # -1 for a run
    tables: np.ndarray  # (n_rows, route_width)

    def __post_init__(self) -> None:
        # Kernels read them for every candidate of every node, so they are kept short.
        for name in (*COLUMNS, "rows"):
            object.__setattr__(self, name, getattr(self, name).astype(np.int32, copy=False))

    @property
    def n_routes(self) -> int:
        return len(self.features)

    @cached_property
    def most_children(self) -> int:
        """The number of children of the route that has most of them, at least 2."""
        return int(self.tables.max(initial=1)) + 1

    @cached_property
    def numbers(self) -> np.ndarray:
        """The number of each route, ``(n_routes,)``."""
        return np.arange(self.n_routes, dtype=np.int32)

    def children(self, routes: np.ndarray) -> np.ndarray:
        """The child of each code ``(len(routes), route_width)`` by some of the routes, of features that are not wide.

        It is 0 where a route is -1.
        """
        code, rows = np.arange(self.tables.shape[1]), np.where(routes < 0, -1, self.rows[routes])
        is_outside = (code < self.starts[routes, None]) | (code >= self.stops[routes, None])
        children = (is_outside & (routes[:, None] >= 0)).astype(np.uint16)
        children[rows >= 0] = self.tables[rows[rows >= 0]]
        return children

    def entries(self, domain: Domain, routes: np.ndarray) -> np.ndarray:
        """The entries ``(len(routes), route_width)`` of some routes as forests keep them (``Domain.route``); 0 for -1."""
        entries, is_wide = self.children(routes), (routes >= 0) & domain.is_wide[self.features[routes]]
        if is_wide.any():
            entries[is_wide, :DIGITS] = entries_of(np.stack([self.starts[routes], self.stops[routes]], axis=1)[is_wide])
        return entries

    @staticmethod
    def join(parts: "list[Routes]") -> "Routes":
        """The routes of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        n_before = np.cumsum([0, *(len(part.tables) for part in parts[:-1])])
        rows = [np.where(part.rows < 0, -1, part.rows + n) for part, n in zip(parts, n_before, strict=True)]
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
        return Routes(**columns, rows=np.concatenate(rows), tables=np.concatenate([part.tables for part in parts]))

    def take(self, indices: np.ndarray) -> "Routes":
        """Some of the routes, by index."""
        own = self.rows[indices]
        rows = np.where(own < 0, -1, np.cumsum(own >= 0) - 1)
        return Routes(
            **{name: getattr(self, name)[indices] for name in COLUMNS}, rows=rows, tables=self.tables[own[own >= 0]]
        )

    def of_features(self, features: np.ndarray) -> "Routes":
        """The routes that split on the given features, or all routes if none does."""
        indices = np.flatnonzero(np.isin(self.features, features))
        return self.take(indices) if len(indices) else self

    @staticmethod
    def of_runs(domain: Domain, features: np.ndarray, starts: np.ndarray, stops: np.ndarray, ends: np.ndarray) -> "Routes":
        """Binary routes: the codes ``starts[r] : stops[r]`` of a feature go to child 0, others to 1."""
        none = np.empty((0, domain.route_width), dtype=np.uint16)
        return Routes(features, starts, stops, ends, np.full(len(features), -1), none)

    @staticmethod
    def of_table(domain: Domain, features: np.ndarray, children: np.ndarray) -> "Routes":
        """Routes of the given features from a table of children ``(n_routes, route_width)``."""
        none = np.full(len(features), -1)
        return Routes(features, none, none, domain.n_codes[features], np.arange(len(features)), children.astype(np.uint16))


@dataclass(frozen=True)
class Candidates:
    """The splits among which each node chooses.

    Candidate c of a node is the route ``indices[node, c]``; it may be chosen if ``valid[node, c]``, which is False where the
    route does not divide the node.
    """

    routes: Routes
    indices: np.ndarray  # (n_nodes, n_candidates)
    valid: np.ndarray  # (n_nodes, n_candidates)

    @property
    def n_candidates(self) -> int:
        return self.indices.shape[1]

    @property
    def rows(self) -> np.ndarray:
        """``indices``, or their one row if all nodes share it: contiguous, or kernels would be compiled twice."""
        return self.indices[:1] if self.indices.strides[0] == 0 else self.indices

    @property
    def features(self) -> np.ndarray:
        """The feature of each candidate, ``(n_nodes, n_candidates)``."""
        return self.routes.features[self.indices]

    def wanted(self, n_features: int) -> np.ndarray:
        """A mask ``(n_nodes, n_features)`` of the features that some valid candidate of a node splits on."""
        wanted = np.zeros((len(self.indices), n_features), dtype=bool)
        _mark_features(self.valid, self.rows, self.routes.features, wanted)
        return wanted

    def block(self, start: int, stop: int) -> "Candidates":
        """The candidates of the nodes ``start : stop``."""
        return Candidates(self.routes, self.indices[start:stop], self.valid[start:stop])

    def one_at_random(self, n_features: int, rng: np.random.Generator) -> "Candidates":
        """A random valid candidate for each node: first a feature that divides the node, then one of its routes."""
        nodes = np.arange(len(self.indices))
        picked = np.empty(len(nodes), dtype=np.int64)
        _pick(self.valid, self.rows, self.routes.features, n_features, rng.random((len(nodes), 2)), picked)
        return Candidates(self.routes.take(self.indices[nodes, picked]), nodes[:, None], self.valid[nodes, picked][:, None])


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
    """The result of ``children_of`` for blocks of at most ``most`` valid candidates, in a reused array.

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


@njit(cache=True, nogil=True)
def _mark_features(valid, indices, features, wanted):
    for node in range(valid.shape[0]):
        for candidate in range(indices.shape[1]):
            if valid[node, candidate]:
                wanted[node, features[indices[min(node, indices.shape[0] - 1), candidate]]] = True


@njit(cache=True, nogil=True)
def _pick(valid, indices, features, n_features, coins, picked):
    """Set ``picked`` to a random feature's random route that divides the node; 0 if none does."""
    n_routes = np.empty(n_features, dtype=np.int64)
    for node in range(valid.shape[0]):
        row = min(node, indices.shape[0] - 1)
        n_routes[:] = 0
        for candidate in range(indices.shape[1]):
            if valid[node, candidate]:
                n_routes[features[indices[row, candidate]]] += 1
        n_dividing = 0
        for feature in range(n_features):
            n_dividing += n_routes[feature] > 0
        index = int(coins[node, 0] * n_dividing)
        chosen = 0
        for feature in range(n_features):
            if n_routes[feature] > 0:
                if index == 0:
                    chosen = feature
                    break
                index -= 1
        index = int(coins[node, 1] * n_routes[chosen])
        picked[node] = 0
        for candidate in range(indices.shape[1]):
            if valid[node, candidate] and features[indices[row, candidate]] == chosen:
                if index == 0:
                    picked[node] = candidate
                    break
                index -= 1
