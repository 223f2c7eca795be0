"""The distinct splits of a released forest, since many nodes make the same. Released values only."""

from dataclasses import dataclass

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.schema.domain import Domain
from dpforest.schema.grid import MOST_TABLED


@dataclass(frozen=True)
class Split:
    """A feature, and for each of its codes which child a record goes to."""

    feature: int
    routes: np.ndarray


@dataclass(frozen=True)
class Splits:
    """The distinct splits, and which of them each node makes, ``(n_nodes,)``; -1 at a leaf."""

    distinct: list[Split]
    of_node: np.ndarray

    @classmethod
    def of(cls, forest: Forest) -> "Splits":
        """The splits of a forest; raises if one is on a wide feature."""
        distinct: list[Split] = []
        of_node = np.full(forest.n_nodes, -1, dtype=np.int64)
        for feature in range(forest.domain.n_features):
            nodes = np.flatnonzero(~forest.is_leaf & (forest.features == feature))
            if not len(nodes):
                continue
            if forest.domain.is_wide[feature]:
                raise ParameterError(
                    f"An export lists, for each split, all categories of {forest.domain.names[feature]!r}, which are more "
                    f"than {MOST_TABLED - 2}. Save the model instead, or fit one without that list: Categorical()."
                )
            routes = forest.routes[forest.splits[nodes], : forest.domain.n_codes[feature]]
            rows, indices = np.unique(routes, axis=0, return_inverse=True)
            of_node[nodes] = len(distinct) + indices.reshape(-1)
            distinct += [Split(feature, row) for row in rows]
        return cls(distinct, of_node)


def met_cuts(domain: Domain, feature: int) -> np.ndarray:
    """The cuts to compare an unclipped value with: none above the upper bound, -inf for those at the lower or below."""
    cuts, (lower, upper) = domain.cuts[feature], domain.number(feature).range
    return np.where(cuts <= lower, -np.inf, cuts)[cuts <= upper]
