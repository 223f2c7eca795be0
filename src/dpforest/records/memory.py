"""Records in memory: encoded once, then counted. Sees rows; what leaves is sealed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import numpy as np

from dpforest.domain import Domain
from dpforest.mechanisms import Entropy
from dpforest.mechanisms.exact import draw_below
from dpforest.privacy.sealed import Sealed
from dpforest.records import kernels
from dpforest.schema import Classes, Target
from dpforest.tree import Forest

# Below this many cells a second thread costs more than it saves.
THREAD_CELLS = 1_000_000
# Shares of held-out records are multiples of one over this.
COIN_SIDES = 1 << 20


def refuse_copy(*_: Any) -> NoReturn:
    raise TypeError("Records cannot be copied or saved.")


class Shards:
    """Encoded records and the node that each has reached in its trees.

    Privacy: not private by itself; every answer is sealed. What an answer can depend on: a record adds to the cells of the
    nodes that it has reached, and its path is a function of that record and of released splits only.
    """

    def __init__(self, codes: np.ndarray, target_codes: np.ndarray, domain: Domain, target: Target, n_jobs: int = 1) -> None:
        self.domain = domain
        self.target = target
        self._codes = codes  # (n_features, n_records)
        self._target_codes = target_codes  # (n_records,)
        self._n_jobs = n_jobs
        self._positions = np.empty((0, 0), dtype=np.int32)
        self._weights = np.empty((0, 0), dtype=np.uint8)

    def deal(self, draw: Callable[[int], tuple[np.ndarray, np.ndarray]]) -> None:
        """Place every record at the roots of its trees. ``draw`` gets the number of records, see ``sampling``."""
        self._positions, self._weights = draw(self._target_codes.size)

    def count_codes(self, first: int, wanted: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed statistics ``(n_nodes, total_codes, width)`` of the nodes from ``first``.

        ``wanted`` ``(n_nodes, n_features)`` says which features a node may split on; the cells of others stay 0.
        """
        counts = np.zeros((len(wanted), self.domain.total_codes, self.target.width), dtype=np.int64)
        kernel = kernels.count_class_codes if isinstance(self.target, Classes) else kernels.sum_value_codes
        offsets = self.domain.offsets

        def count(feature: int) -> None:
            kernel(
                self._codes, feature, offsets[feature], self._target_codes, self._weights,
                self._positions, first, wanted, counts,
            )  # fmt: skip

        features = np.flatnonzero(wanted.any(axis=0)).tolist()
        if self._n_jobs > 1 and self._positions.size * len(features) > THREAD_CELLS:
            # Each feature owns its columns of counts, so threads never meet and results cannot differ.
            with ThreadPoolExecutor(self._n_jobs) as pool:
                list(pool.map(count, features))
        else:
            for feature in features:
                count(feature)
        return Sealed(counts)

    def count_nodes(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed statistics ``(n_nodes, width)`` of the nodes from ``first``."""
        counts = np.zeros((n_nodes, self.target.width), dtype=np.int64)
        kernel = kernels.count_class_nodes if isinstance(self.target, Classes) else kernels.sum_value_nodes
        kernel(self._target_codes, self._weights, self._positions, first, counts)
        return Sealed(counts)

    def descend(self, first: int, features: np.ndarray, routes: np.ndarray, first_children: np.ndarray) -> None:
        """Follow the released splits of the nodes from ``first``."""
        kernels.descend(self._codes, self._positions, first, features, routes, first_children)

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[Shards, Shards]":
        """Two parts of the records, by a coin for each: those to train on, and ``share`` of them held out.

        Privacy: given the coins an added record is in one part only, and its coin does not depend on other records. So what
        is asked of the two parts composes in parallel.
        """
        coins = np.empty(self._target_codes.size, dtype=np.int64)
        entropy.run(draw_below, coins.size, COIN_SIDES, coins)
        held = coins < round(share * COIN_SIDES)
        return self._part(~held), self._part(held)

    def _part(self, kept: np.ndarray) -> "Shards":
        return Shards(
            np.ascontiguousarray(self._codes[:, kept]), self._target_codes[kept], self.domain, self.target, self._n_jobs
        )

    def count_errors(self, forest: Forest, ensembles: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed number of records ``(n_ensembles,)`` that the majority of each ``(n_ensembles, n_trees)`` gets wrong."""
        choices = np.eye(self.target.n_values, dtype=np.int64)[forest.choices(self._codes)]
        errors = [
            np.count_nonzero(np.tensordot(trees.astype(np.int64), choices, 1).argmax(axis=1) != self._target_codes)
            for trees in ensembles
        ]
        return Sealed(np.array(errors, dtype=np.int64))

    def deal_by_errors(self, forest: Forest, n_trees: int, entropy: Entropy) -> None:
        """Place records at the roots of new trees with the probability that a tree of ``forest`` gets them wrong.

        Privacy: whether a record takes part depends on that record, a released forest and its own coins, so an added record
        changes no other record's part.
        """
        n_wrong = (forest.choices(self._codes) != self._target_codes).sum(axis=0)
        coins = np.empty((n_trees, self._target_codes.size), dtype=np.int64)
        entropy.run(draw_below, coins.size, forest.n_trees, coins.reshape(-1))
        self._positions = np.empty(coins.shape, dtype=np.int32)
        self._positions[:] = np.arange(n_trees)[:, None]
        self._weights = (coins < n_wrong).astype(np.uint8)

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = refuse_copy
