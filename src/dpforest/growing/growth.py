"""A forest while it grows: finished levels, and the open nodes of the deepest one. Public values only."""

import numpy as np

from dpforest.domain import Domain
from dpforest.proposals import Candidates
from dpforest.schema import Target
from dpforest.tree import Forest

# A public cap. Multiway splits multiply nodes; those that would pass the cap stay leaves.
MOST_NODES = 1 << 19


class Growth:
    """Nodes so far; the open ones are ``first`` .. ``first + n_open - 1``.

    ``reach[open, code]`` says whether a record with that code can come to an open node: public, since it follows from the
    schema and released splits. ``reached[open]`` is the share of the rows that an even division at every split would bring.
    """

    def __init__(self, domain: Domain, n_trees: int) -> None:
        self.domain = domain
        self.n_trees = n_trees
        self.first = 0
        self.reach = np.ones((n_trees, domain.total_codes), dtype=bool)
        self.reached = np.ones(n_trees)
        self._trees = [np.arange(n_trees)]
        self._parents = [np.full(n_trees, -1)]
        self._first_children: list[np.ndarray] = []
        self._features: list[np.ndarray] = []
        self._routes: list[np.ndarray] = []

    @property
    def open_trees(self) -> np.ndarray:
        """The tree of each open node."""
        return self._trees[-1]

    @property
    def n_open(self) -> int:
        return len(self.reach)

    def split(self, candidates: Candidates, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give open nodes their chosen split; their children become the open nodes.

        Returns, for the nodes that were open, the feature (-1 for a leaf), the routes and the first child.
        """
        nodes = np.flatnonzero(chosen >= 0)
        places = candidates.places[nodes, chosen[nodes]]
        features = candidates.routes.features[places]
        columns, own = self._columns(features)
        held = np.zeros(columns.shape, dtype=bool)
        held[own] = self.reach[nodes[np.nonzero(own)[0]], columns[own]]
        routes, n_children = _without_empty_children(candidates.routes.children[places], held)

        kept = np.cumsum(n_children) + self.first + self.n_open <= MOST_NODES
        nodes, features, routes, n_children = nodes[kept], features[kept], routes[kept], n_children[kept]
        held, columns, own = held[kept], columns[kept], own[kept]

        first_children = np.full(self.n_open, -1)
        first_children[nodes] = self.first + self.n_open + np.cumsum(n_children) - n_children
        all_features = np.full(self.n_open, -1)
        all_features[nodes] = features
        all_routes = np.zeros((self.n_open, routes.shape[1]), dtype=np.uint16)
        all_routes[nodes] = routes
        self._first_children.append(first_children)
        self._features.append(all_features)
        self._routes.append(routes)

        parent = np.repeat(np.arange(len(nodes)), n_children)
        child = np.arange(len(parent)) - np.repeat(np.cumsum(n_children) - n_children, n_children)
        reach = self.reach[nodes[parent]]
        stays = held[parent] & (routes[parent] == child[:, None])
        rows = np.nonzero(own[parent])[0]
        reach[rows, columns[parent][own[parent]]] = stays[own[parent]]
        self._trees.append(self._trees[-1][nodes[parent]])
        self._parents.append(self.first + nodes[parent])
        self.first += self.n_open
        self.reach = reach
        self.reached = (self.reached[nodes] / n_children)[parent]
        return all_features, all_routes, first_children

    def _columns(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Column of each code of the given features in arrays over all codes, and which codes are the features' own."""
        code = np.arange(int(self.domain.n_codes.max()))
        return self.domain.offsets[features][:, None] + code, code < self.domain.n_codes[features][:, None]

    def finish(self, target: Target) -> Forest:
        """The grown forest, nothing released yet; the open nodes become leaves."""
        none = np.full(self.n_open, -1)
        features = np.concatenate([*self._features, none])
        inner = features >= 0
        routes = np.concatenate([np.empty((0, int(self.domain.n_codes.max())), dtype=np.uint16), *self._routes])
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


def _without_empty_children(routes: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Routes renumbered so that only children that some code can reach remain, and how many those are."""
    used = np.zeros((len(routes), int(routes.max(initial=1)) + 1), dtype=bool)
    used[np.nonzero(held)[0], routes[held]] = True
    place = np.maximum(np.cumsum(used, axis=1) - 1, 0)
    return np.take_along_axis(place, routes.astype(np.int64), axis=1).astype(np.uint16), used.sum(axis=1)
