"""A forest while it grows: its finished levels, and the open nodes of the deepest one. Sees public values only."""

import numpy as np
from numba import njit

from dpforest.forest.tree import Forest
from dpforest.parts.routes import Candidates
from dpforest.schema import Target
from dpforest.schema.domain import Domain

# Public caps. Multiway splits multiply nodes; those that would pass a cap stay leaves. What the open nodes can hold is a
# byte for each code.
MOST_NODES, MOST_REACH = 1 << 19, 1 << 30


class Growth:
    """The nodes of all trees so far; the open ones are ``first`` .. ``first + n_open - 1``.

    ``reach`` ``(n_open, total_codes)`` says whether a record with that code can come to an open node: public, since it
    follows from the schema and released splits. ``reached`` ``(n_open,)`` is the share of all rows that a node would hold if
    every split divided its rows evenly among the listed values; a child for "other" or "missing" alone would hold none.
    """

    def __init__(self, domain: Domain, n_trees: int) -> None:
        self.domain = domain
        self.n_trees = n_trees
        self.first = 0
        self._reach = np.ones((n_trees, domain.total_codes), dtype=bool)
        self._reached = np.ones(n_trees)
        self._unseen: tuple[np.ndarray, ...] | None = None  # the last split, if what its children can hold was not asked yet
        self._trees = [np.arange(n_trees)]
        self._parents = [np.full(n_trees, -1)]
        self._first_children: list[np.ndarray] = []
        self._features: list[np.ndarray] = []
        self._routes: list[np.ndarray] = []

    @property
    def open_trees(self) -> np.ndarray:
        """The tree ``(n_open,)`` of each open node."""
        return self._trees[-1]

    @property
    def n_open(self) -> int:
        return len(self.open_trees)

    @property
    def reach(self) -> np.ndarray:
        """Whether a record with a code can come to an open node, ``(n_open, total_codes)``."""
        self._look()
        return self._reach

    @property
    def reached(self) -> np.ndarray:
        """The share of all rows ``(n_open,)`` that a node would hold if every split divided its rows evenly."""
        self._look()
        return self._reached

    def _look(self) -> None:
        """Find what open nodes can hold. Not before somebody asks: of the last level, which may be large, nobody does."""
        if self._unseen is None:
            return
        (features, routes, runs, n_children, parents), self._unseen = self._unseen, None
        reach, listed = self._reach[parents], np.zeros(len(parents), dtype=bool)
        _narrow(self.domain.offsets, self.domain.n_values, features, routes, runs, n_children, reach, listed)
        n_listed = np.bincount(parents, listed, minlength=len(features))
        self._reached = np.where(listed, self._reached[parents] / np.maximum(n_listed[parents], 1), 0.0)
        self._reach = reach

    def split(self, candidates: Candidates, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split the open nodes by their chosen candidates; afterwards their children are the open nodes.

        Returns, for the nodes that were open, the feature ``(n_open,)`` (-1 for a leaf), the route ``(n_open, route_width)``
        and the first child ``(n_open,)``.
        """
        n_open, n_children = self.n_open, np.zeros(self.n_open, dtype=np.int64)
        given = np.where(chosen >= 0, candidates.indices[np.arange(n_open), chosen], -1)
        features = np.where(given >= 0, candidates.routes.features[given], -1)
        own_routes = candidates.routes.entries(self.domain, given)
        most = min(MOST_NODES - self.first - n_open, MOST_REACH // self.domain.total_codes)
        runs = self.domain.runs(features, own_routes)
        _renumber(self.reach, self.domain.offsets, most, features, own_routes, runs, n_children)
        is_split = features >= 0
        first_children = np.where(is_split, self.first + n_open + np.cumsum(n_children) - n_children, -1)
        self._first_children.append(first_children)
        self._features.append(features)
        self._routes.append(own_routes[is_split])

        parents = np.repeat(np.arange(n_open), n_children)
        self._unseen = (features, own_routes, runs, n_children, parents)
        self._trees.append(self._trees[-1][parents])
        self._parents.append(self.first + parents)
        self.first += n_open
        return features, own_routes, first_children

    def finish(self, target: Target) -> Forest:
        """The forest, with the open nodes as leaves and without any counts yet."""
        none = np.full(self.n_open, -1)
        features = np.concatenate([*self._features, none])
        inner = features >= 0
        routes = np.concatenate([np.empty((0, self.domain.route_width), dtype=np.uint16), *self._routes])
        n_nodes = len(features)
        return Forest(
            domain=self.domain,
            target=target,
            trees=np.concatenate(self._trees),
            parents=np.concatenate(self._parents),
            levels=np.repeat(np.arange(len(self._trees)), [len(part) for part in self._trees]),
            first_children=np.concatenate([*self._first_children, none]),
            features=features,
            splits=np.where(inner, np.cumsum(inner) - 1, -1),
            routes=routes,
            counts=np.full((n_nodes, target.n_values), np.nan),
            variances=np.full(n_nodes, np.nan),
        )


@njit(cache=True, nogil=True)
def _renumber(reach, offsets, most, features, routes, runs, n_children):
    """Renumber the children in ``routes`` so that some code can reach each, and write how many there are.

    A run of a wide feature divides its node, or it would not have been offered, so both its children are reached.
    Nodes whose children would be more than ``most`` in all stay leaves: they have no feature any more.
    """
    used = np.empty(routes.shape[1], dtype=np.bool_)
    number = np.empty(routes.shape[1], dtype=np.uint16)
    n_before = 0
    for node in range(features.size):
        feature = features[node]
        if feature < 0:
            continue
        offset, is_run = offsets[feature], runs.size > 0 and runs[node, 0] >= 0
        used[:] = False
        if is_run:
            used[:2] = True
        else:
            for code in range(offsets[feature + 1] - offset):
                used[routes[node, code]] |= reach[node, offset + code]
        n_used = 0
        for child in range(used.size):
            number[child] = max(n_used + used[child] - 1, 0)
            n_used += used[child]
        n_before += n_used
        if n_before <= most:
            n_children[node] = n_used
            if not is_run:
                for code in range(routes.shape[1]):
                    routes[node, code] = number[routes[node, code]]
        else:
            features[node] = -1
            routes[node] = 0


@njit(cache=True, nogil=True)
def _narrow(offsets, n_values, features, routes, runs, n_children, reach, listed):
    """Leave to each child (a row of ``reach``) only the codes of its parent's feature that are routed to it.

    ``listed`` says whether a value that the schema lists is among them.
    """
    row = 0
    for node in range(features.size):
        for child in range(n_children[node]):
            offset, is_run = offsets[features[node]], runs.size > 0 and runs[node, 0] >= 0
            for code in range(offsets[features[node] + 1] - offset):
                if is_run:
                    reach[row, offset + code] &= (runs[node, 0] <= code < runs[node, 1]) == (child == 0)
                else:
                    reach[row, offset + code] &= routes[node, code] == child
                listed[row] |= reach[row, offset + code] and code < n_values[features[node]]
            row += 1
