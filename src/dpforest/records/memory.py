"""Records in memory: encoded once, then counted. Sees rows; what leaves is sealed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import numpy as np

from dpforest.domain import Domain
from dpforest.errors import ParameterError
from dpforest.mechanisms import Entropy
from dpforest.mechanisms.exact import draw_below
from dpforest.privacy.sealed import Sealed
from dpforest.records import kernels
from dpforest.records.residuals import MOST_WEIGHT, POWERS
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Classes, Target
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
    nodes that it has reached, and its path is a function of that record and of released splits only. It adds at most
    ``code_unit`` to the cells of each feature in ``count_codes`` and ``node_unit`` to those of ``count_nodes``; a weight
    is a function of that record and of released values only.
    """

    code_unit = 1
    node_unit = 1

    def __init__(self, codes: np.ndarray, target_codes: np.ndarray, domain: Domain, target: Target, n_jobs: int = 1) -> None:
        self.domain = domain
        self.target = target
        self._codes = codes  # (n_features, n_records)
        self._fine = target_codes  # (n_records,) as the table has it
        self._target_codes = target_codes  # as the trees see it
        self._scores = np.empty((0, 0), dtype=np.int32)
        self._sides: np.ndarray | None = None
        if not isinstance(target, Classes):
            self.look(0, FINE_STEPS)
        self._n_jobs = n_jobs
        self._positions = np.empty((0, 0), dtype=np.int32)
        self._weights = np.empty((0, 0), dtype=np.uint8)

    def deal(self, draw: Callable[[int], tuple[np.ndarray, np.ndarray]]) -> None:
        """Place every record at the roots of its trees. ``draw`` gets the number of records, see ``sampling``."""
        self._positions, self._weights = draw(self._target_codes.size)
        self.code_unit = self.node_unit = 1
        self._sides = None

    def count_codes(self, first: int, wanted: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed statistics ``(n_nodes, total_codes, width)`` of the nodes from ``first``.

        ``wanted`` ``(n_nodes, n_features)`` says which features a node may split on; the cells of others stay 0.
        """
        is_class = isinstance(self.target, Classes) or self._sides is not None
        targets = self._target_codes if self._sides is None else self._sides
        counts = np.zeros((len(wanted), self.domain.total_codes, self.code_width), dtype=np.int64)
        kernel = kernels.count_class_codes if is_class else kernels.sum_value_codes
        offsets = self.domain.offsets

        def count(feature: int) -> None:
            kernel(
                self._codes, feature, offsets[feature], targets, self._weights,
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

    @property
    def code_width(self) -> int:
        """Integers that describe the records of a cell in ``count_codes``."""
        return self.target.width if self._sides is None else 2

    def count_nodes(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed statistics ``(n_nodes, width)`` of the nodes from ``first``."""
        counts = np.zeros((n_nodes, self.target.width), dtype=np.int64)
        kernel = kernels.count_class_nodes if isinstance(self.target, Classes) else kernels.sum_value_nodes
        # Distances from a centre are for splits; the leaves of a bounded target count each record once.
        weights = self._weights if self._sides is None else np.empty((0, 0), dtype=np.uint8)
        kernel(self._target_codes, weights, self._positions, first, counts)
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
        entropy.draw_for_records(draw_below, coins, COIN_SIDES)
        held = coins < round(share * COIN_SIDES)
        return self._part(~held), self._part(held)

    def _part(self, kept: np.ndarray) -> "Shards":
        return Shards(np.ascontiguousarray(self._codes[:, kept]), self._fine[kept], self.domain, self.target, self._n_jobs)

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
        entropy.draw_for_records(draw_below, coins, forest.n_trees)
        self._positions = np.empty(coins.shape, dtype=np.int32)
        self._positions[:] = np.arange(n_trees)[:, None]
        self._weights = (coins < n_wrong).astype(np.uint8)

    def _check_one_tree(self) -> None:
        """Weights are kept once for each record, so it may be in one tree at a time."""
        if len(self._positions) != 1:
            raise ParameterError("Weights of records need one tree at a time; use stages that grow trees in sequence.")

    def start_scores(self) -> None:
        """Every record has a score of 0 for each class (or, for a bounded target, a prediction of 0)."""
        n_scores = self.target.n_values if isinstance(self.target, Classes) else 1
        self._scores = np.zeros((n_scores, self._target_codes.size), dtype=np.int32)

    def add_scores(self, values: np.ndarray) -> None:
        """Add the released ``values`` ``(n_nodes, n_scores)`` of the leaf that each record has reached to its scores."""
        self._check_one_tree()
        kernels.add_scores(self._positions, values, self._scores)

    def weigh_residuals(self) -> None:
        """From now on a record counts by how wrong its scores are: 0 .. MOST_WEIGHT.

        Privacy: a weight is a function of the record's class and of released votes, so an added record changes no other's.
        """
        self._check_one_tree()
        self._weights = np.empty((1, self._target_codes.size), dtype=np.uint8)
        kernels.weigh_residuals(self._target_codes, self._scores, POWERS, MOST_WEIGHT, self._weights)
        self.code_unit = self.node_unit = MOST_WEIGHT

    def sum_residuals(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed sums ``(n_nodes, n_classes + 1)`` of residuals and of weights, see ``leaves.residual_sums``."""
        self._check_one_tree()
        sums = np.zeros((n_nodes, self.target.width + 1), dtype=np.int64)
        kernels.sum_residuals(
            self._target_codes, self._scores, POWERS, MOST_WEIGHT, self._positions, first, sums
        )  # fmt: skip
        return Sealed(sums)

    def look(self, low: int, high: int) -> None:
        """See a bounded target between two steps of its fine grid; values outside are clipped."""
        wide = np.clip(self._fine, low, high) - low
        self._target_codes = (wide * TARGET_STEPS + (high - low) // 2) // (high - low)
        self._window = (low, high)

    def look_at_residuals(self, half_width: int) -> None:
        """See what is left of a bounded target: within ``half_width`` fine steps of the window around its scores.

        Privacy: what is seen of a record is a function of that record and of released votes.
        """
        low, high = self._window
        seen = (np.clip(self._fine, low, high) - low) * FINE_STEPS // (high - low) - self._scores[0] + half_width
        self._target_codes = np.clip(seen, 0, 2 * half_width) * TARGET_STEPS // (2 * half_width)

    def count_values(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed numbers of records ``(n_nodes, TARGET_STEPS + 1)`` for each step of a bounded target."""
        self._check_one_tree()
        counts = np.zeros((n_nodes, TARGET_STEPS + 1), dtype=np.int64)
        kernels.count_values(self._target_codes, self._positions, first, counts)
        return Sealed(counts)

    def turn_around(self, first: int, centres: np.ndarray, reach: int) -> None:
        """Records count as below or above the released centre of their node, by their distance, capped at ``reach`` steps.

        Privacy: side and weight are functions of the record, of its node and of released centres.
        """
        self._check_one_tree()
        if self._sides is None:
            self._sides = np.empty(self._target_codes.size, dtype=np.uint8)
            self._weights = np.empty((1, self._target_codes.size), dtype=np.uint8)
        kernels.turn_around(
            self._target_codes, self._positions, first, centres, reach, MOST_WEIGHT, self._sides, self._weights
        )  # fmt: skip
        self.code_unit = MOST_WEIGHT

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = refuse_copy
