"""Proposals: the candidate splits that nodes are offered. Sees public values, and released ones through ``only``.

A *route* sends each code of one feature to a child. A binary split has the children 0 and 1; a multiway split has one for
each code. A *menu* offers each node the routes that divide the codes it can still hold.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numba import njit

from dpforest.errors import ParameterError
from dpforest.parts.routes import Candidates, Routes
from dpforest.schema.domain import Domain

# Nodes for which random splits are drawn at once, so that offers of deep random trees do not fill memory.
BLOCK_NODES = 4096


class Kind:
    """Base of the kinds of split: each offers all nodes the same routes, or draws routes for each node."""

    def routes(self, domain: Domain) -> Routes | None:
        """Routes that every node is offered, or None; they follow from the domain alone, and are made once for it."""
        return None

    def fixed(self, domain: Domain) -> Routes | None:
        """Routes that every node is offered, or None."""
        return domain.once(self, partial(self.routes, domain))

    def drawn(self, domain: Domain, n_nodes: int, rng: np.random.Generator) -> Routes | None:
        """Routes drawn for each node, as many for one as for another, node after node; or None."""
        return None


@dataclass(frozen=True)
class Thresholds(Kind):
    """Splits of numeric features: at every cut (missing goes with the larger values), and missing against the rest."""

    def routes(self, domain: Domain) -> Routes | None:
        features = np.flatnonzero(domain.is_numeric)
        if not len(features):
            return None
        own, code = _codes_of(domain, features)
        missing = domain.n_codes[own] - 1  # the last code
        is_missing, is_offered = code == missing, code != missing - 1  # there is a cut less than there are bins
        starts, ends = np.where(is_missing, missing, 0), np.where(is_missing, missing + 1, missing)
        return Routes.of_runs(domain, *(part[is_offered] for part in (own, starts, code + 1, ends)))


@dataclass(frozen=True)
class OneAgainstRest(Kind):
    """Splits of categorical features: each value (also "other" and missing) against the rest."""

    def routes(self, domain: Domain) -> Routes | None:
        features = np.flatnonzero(~domain.is_numeric)
        if not len(features):
            return None
        own, code = _codes_of(domain, features)
        return Routes.of_runs(domain, own, code, code + 1, domain.n_codes[own])


def _codes_of(domain: Domain, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The feature and the code of each code of some features, one after the other."""
    n_codes = domain.n_codes[features]
    begins = np.cumsum(n_codes) - n_codes
    codes = np.arange(int(n_codes.sum()), dtype=np.int32) - np.repeat(begins.astype(np.int32), n_codes)
    return np.repeat(features.astype(np.int32), n_codes), codes


@dataclass(frozen=True)
class OneChildPerValue(Kind):
    """Multiway splits: a child for each code of a feature; only of categorical features if ``numeric`` is False.

    A wide feature has none: its children would be more than a forest may have.
    """

    numeric: bool = True

    def routes(self, domain: Domain) -> Routes | None:
        features = np.flatnonzero((~domain.is_numeric | self.numeric) & ~domain.is_wide)
        code = np.arange(domain.route_width)
        # Codes beyond a feature's own never occur; they are routed to child 0.
        children = np.where(code < domain.n_codes[features, None], code, 0)
        return Routes.of_table(domain, features, children) if len(features) else None


@dataclass(frozen=True)
class AllSubsets(Kind):
    """Splits of categorical features with up to ``most`` categories: every way to divide the list in two, once.

    "Other" and missing go with the last category, and each is offered against the rest, as ``Thresholds`` offer missing.
    """

    most: int = 6  # 31 ways, as many as the cuts of a number in 32 bins

    def routes(self, domain: Domain) -> Routes | None:
        tables, width = [], domain.route_width
        for feature in np.flatnonzero(~domain.is_numeric & (domain.n_values <= self.most)):
            n = int(domain.n_values[feature])
            inside = (np.arange(1, 1 << max(n - 1, 0))[:, None] >> np.arange(n)) & 1 == 1
            alone = np.arange(n, n + 2)[:, None] == np.arange(width)
            children = ~np.concatenate([np.pad(inside, ((0, 0), (0, width - n))), alone])
            tables.append(Routes.of_table(domain, np.full(len(children), feature), children))
        return Routes.join(tables) if tables else None


@dataclass(frozen=True)
class Intervals(Kind):
    """Multiway splits of numeric features: a child for each interval of bins, and one for missing.

    ``borders[feature]`` are the bins at which its intervals after the first begin. A feature without borders has one value,
    so nothing divides a node by it.
    """

    borders: tuple[tuple[int, ...], ...]

    def fixed(self, domain: Domain) -> Routes | None:
        features = np.flatnonzero(domain.is_numeric)
        children = np.zeros((len(features), domain.route_width), dtype=np.int64)
        for row, feature in enumerate(features):
            if self.borders[feature]:
                missing = domain.n_codes[feature] - 1
                borders = (*self.borders[feature], missing)
                children[row, : missing + 1] = np.searchsorted(borders, np.arange(missing + 1), side="right")
        return Routes.of_table(domain, features, children) if len(features) else None


@dataclass(frozen=True)
class RandomSubsets(Kind):
    """Splits of categorical features with more than ``beyond`` categories: ``n_subsets`` random subsets, anew for each node.

    "Other" and missing are values like any other here: each falls on either side with equal chance. A wide feature has none.
    """

    n_subsets: int = 4
    beyond: int = 0

    def drawn(self, domain: Domain, n_nodes: int, rng: np.random.Generator) -> Routes | None:
        features = np.flatnonzero(~domain.is_numeric & (domain.n_values > self.beyond) & ~domain.is_wide)
        if not len(features):
            return None
        children = np.zeros((n_nodes, len(features), self.n_subsets, domain.route_width), dtype=np.uint16)
        for index, n_codes in enumerate(domain.n_codes[features].tolist()):
            children[:, index, :, :n_codes] = rng.integers(0, 2, size=(n_nodes, self.n_subsets, n_codes), dtype=np.uint8)
        repeated = np.tile(np.repeat(features, self.n_subsets), n_nodes)
        return Routes.of_table(domain, repeated, children.reshape(len(repeated), -1))


@dataclass(frozen=True)
class Menu:
    """A rule for the candidates of each node: the listed kinds of split, of ``n_features`` features drawn for that node.

    ``n_features`` is a number, or a fraction of all features if below 1, or None for all; features that were split on above
    are drawn like others. With ``random`` a node gets one candidate only, drawn without looking at records: nothing is left
    to choose, and the level costs nothing. ``only`` lists the features that may be used, if released values have told which.

    Privacy:
        Claim: what is offered reveals nothing about records.
        Because: it is a function of the schema, of earlier releases and of coins.
        Assumes: the schema is public.
    """

    kinds: tuple[Kind, ...] = (Thresholds(), OneAgainstRest())
    n_features: float | None = None
    random: bool = False
    only: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.n_features is not None and not 0 < self.n_features < math.inf:
            raise ParameterError(f"n_features must be positive and finite, not {self.n_features!r}.")

    def n_children(self, domain: Domain) -> np.ndarray:
        """The number of children ``(n_features,)`` of a split of each feature, as papers count them: 2, or its values."""
        counts = np.full(domain.n_features, 2)
        for kind in self.kinds:
            if isinstance(kind, OneChildPerValue):
                own = ~domain.is_numeric | kind.numeric
                counts[own] = domain.n_values[own]
        return counts

    def fixed(self, domain: Domain) -> Routes | None:
        """Routes that every node is offered, or None; made once for a forest."""
        tables = [routes for kind in self.kinds if (routes := kind.fixed(domain)) is not None]
        return Routes.join(tables) if tables else None

    def propose(
        self,
        domain: Domain,
        fixed: Routes | None,
        reach: np.ndarray,
        rng: np.random.Generator,
        allowed: np.ndarray | None = None,
    ) -> Candidates:
        """The candidates of each node, given a mask ``reach`` ``(n_nodes, total_codes)`` of the codes that it can hold.

        ``allowed`` ``(n_nodes, n_features)`` is a mask of the features that a node may use, by public or released values;
        without it features are drawn.
        """
        n_nodes = len(reach)
        if self.random and n_nodes > BLOCK_NODES:
            blocks = [
                self.propose(
                    domain, fixed, reach[a : a + BLOCK_NODES], rng, None if allowed is None else allowed[a : a + BLOCK_NODES]
                )
                for a in range(0, n_nodes, BLOCK_NODES)
            ]
            valid = np.concatenate([block.valid for block in blocks])
            return Candidates(Routes.join([block.routes for block in blocks]), np.arange(n_nodes)[:, None], valid)
        tables, indices, n_before = [], [], 0
        if fixed is not None:
            tables, n_before = [fixed], fixed.n_routes
            indices.append(np.broadcast_to(fixed.numbers, (n_nodes, n_before)))
        for kind in self.kinds:
            drawn = kind.drawn(domain, n_nodes, rng)
            if drawn is not None:
                indices.append(np.arange(n_before, n_before + drawn.n_routes, dtype=np.int32).reshape(n_nodes, -1))
                tables.append(drawn)
                n_before += drawn.n_routes
        if not tables:
            raise ParameterError("The recipe offers no split for any feature of this schema.")
        # Routes that all nodes share stay one row, however many nodes there are.
        routes, joined = Routes.join(tables), indices[0] if len(indices) == 1 else np.concatenate(indices, axis=1)
        valid = np.empty(joined.shape, dtype=bool)
        if allowed is None:
            allowed = self._draw_features(domain.n_features, n_nodes, rng)
        if self.only is not None:
            allowed = allowed & np.isin(np.arange(domain.n_features), self.only)
        candidates = Candidates(routes, joined, valid)
        _divides(
            reach, domain.offsets, routes.features, routes.rows, routes.tables, routes.starts, routes.stops, routes.ends,
            candidates.rows, allowed, valid,
        )  # fmt: skip
        return candidates.one_at_random(domain.n_features, rng) if self.random else candidates

    def n_drawn(self, n_features: int) -> int:
        """The number of features that are drawn for each node, out of ``n_features``."""
        if self.n_features is None:
            return n_features
        return min(math.ceil(self.n_features * n_features if self.n_features < 1 else self.n_features), n_features)

    def _draw_features(self, n_features: int, n_nodes: int, rng: np.random.Generator) -> np.ndarray:
        """A random mask ``(n_nodes, n_features)`` of the features that each node may use."""
        if self.n_features is None:
            return np.ones((n_nodes, n_features), dtype=bool)
        coins, last = rng.random((n_nodes, n_features)), self.n_drawn(n_features) - 1
        return coins <= np.partition(coins, last, axis=1)[:, last : last + 1]


@njit(cache=True, nogil=True)
def _divides(reach, offsets, features, rows, tables, starts, stops, ends, indices, allowed, valid):
    below = np.zeros(reach.shape[1] + 1, dtype=np.int64)  # codes of a feature that are held before each
    for node in range(valid.shape[0]):
        summed = -1  # the feature that ``below`` is about; candidates of a feature come one after the other
        for candidate in range(indices.shape[1]):
            route = indices[min(node, indices.shape[0] - 1), candidate]
            feature = features[route]
            valid[node, candidate] = False
            if not allowed[node, feature]:
                continue
            offset = offsets[feature]
            if starts[route] >= 0:
                if summed != feature:
                    summed = feature
                    for code in range(offsets[feature + 1] - offset):
                        below[code + 1] = below[code] + reach[node, offset + code]
                n_inside = below[stops[route]] - below[starts[route]]
                valid[node, candidate] = 0 < n_inside < below[ends[route]]
                continue
            first, children = -1, tables[rows[route]]
            for code in range(ends[route]):
                if reach[node, offset + code]:
                    if first < 0:
                        first = children[code]
                    elif children[code] != first:
                        valid[node, candidate] = True
                        break
