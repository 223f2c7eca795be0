"""Proposals: the candidate splits that nodes are offered. Sees public values, and released ones through ``only``.

A *route* sends each code of one feature to a child. A binary split has the children 0 and 1; a multiway split has one for
each code. A *menu* offers each node the routes that divide the codes it can still hold.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
from numba import njit

from dpforest.errors import ParameterError
from dpforest.schema.domain import DIGITS, Domain, entries_of

# Nodes for which random splits are drawn at once, so that offers of deep random trees do not fill memory.
BLOCK_NODES = 4096


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
        for name in ("features", "starts", "stops", "ends", "rows"):
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
        children = np.zeros((len(routes), self.tables.shape[1]), dtype=np.uint16)
        _fill_children(self.starts, self.stops, self.rows, self.tables, routes, children)
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
        return Routes(
            np.concatenate([part.features for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.stops for part in parts]),
            np.concatenate([part.ends for part in parts]),
            np.concatenate(rows),
            np.concatenate([part.tables for part in parts]),
        )

    def take(self, indices: np.ndarray) -> "Routes":
        """Some of the routes, by index."""
        own = self.rows[indices]
        rows = np.where(own < 0, -1, np.cumsum(own >= 0) - 1)
        known = (self.features[indices], self.starts[indices], self.stops[indices], self.ends[indices])
        return Routes(*known, rows, self.tables[own[own >= 0]])

    def of_features(self, features: np.ndarray) -> "Routes":
        """The routes that split on the given features; all routes if there are none of those."""
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


class Kind(Protocol):
    """A kind of split: it offers all nodes the same routes, or draws routes for each node."""

    def fixed(self, domain: Domain) -> Routes | None:
        """Routes that every node is offered, or None."""

    def drawn(self, domain: Domain, n_nodes: int, rng: np.random.Generator) -> Routes | None:
        """Routes drawn for each node, as many for one as for another, node after node; or None."""


class _Fixed:
    """Base of the kinds of split that draw no routes."""

    def drawn(self, domain: Domain, n_nodes: int, rng: np.random.Generator) -> None:
        return None


class _Kept(_Fixed):
    """Base of the kinds of split whose routes follow from the domain alone, and are made once for it."""

    def fixed(self, domain: Domain) -> Routes | None:
        return domain.once(self, partial(self.routes, domain))

    def routes(self, domain: Domain) -> Routes | None:
        """Routes that every node is offered, or None."""
        raise NotImplementedError


@dataclass(frozen=True)
class Thresholds(_Kept):
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
class OneAgainstRest(_Kept):
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
class OneChildPerValue(_Kept):
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
class AllSubsets(_Kept):
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
class Intervals(_Fixed):
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
class RandomSubsets:
    """Splits of categorical features with more than ``beyond`` categories: ``n_subsets`` random subsets, anew for each node.

    "Other" and missing are values like any other here: each falls on either side with equal chance. A wide feature has none.
    """

    n_subsets: int = 4
    beyond: int = 0

    def fixed(self, domain: Domain) -> None:
        return None

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
        """One valid candidate for each node, drawn: first a feature that divides the node, then a route of that feature."""
        nodes = np.arange(len(self.indices))
        picked = np.empty(len(nodes), dtype=np.int64)
        _pick(self.valid, self.rows, self.routes.features, n_features, rng.random((len(nodes), 2)), picked)
        return Candidates(self.routes.take(self.indices[nodes, picked]), nodes[:, None], self.valid[nodes, picked][:, None])


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
def _fill_children(starts, stops, rows, tables, routes, children):
    for index, route in enumerate(routes):
        if route < 0:
            continue
        for code in range(children.shape[1]):
            is_outside = code < starts[route] or code >= stops[route]
            children[index, code] = tables[rows[route], code] if rows[route] >= 0 else is_outside


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


@njit(cache=True, nogil=True)
def _mark_features(valid, indices, features, wanted):
    for node in range(valid.shape[0]):
        for candidate in range(indices.shape[1]):
            if valid[node, candidate]:
                wanted[node, features[indices[min(node, indices.shape[0] - 1), candidate]]] = True


@njit(cache=True, nogil=True)
def _pick(valid, indices, features, n_features, coins, picked):
    """Set ``picked`` to the candidate of a random feature that divides the node and a random route of it; 0 if none does."""
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
