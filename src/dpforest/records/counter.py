"""The counter of records in memory. Sees encoded records; what leaves is sealed."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from dpforest.common.work import COLUMNS_FOR_THREADS, Workers
from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.mechanisms.exact import draw_below
from dpforest.privacy.sealed import Sealed
from dpforest.records import kernels, scores
from dpforest.records.base import MOST_WEIGHT, AllTrees, Assignment, OneTree
from dpforest.records.coins import NO_WEIGHTS, draw_held_out, draw_roots
from dpforest.records.scores import PAIR_WEIGHTS, POWERS
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Classes, Target
from dpforest.schema.domain import Domain

# Histograms of a level are kept if they have at most this many cells (32 MB): on the next level one child of each split then
# follows from its parent and its siblings. With a wide feature there are more cells than records to count.
KEPT_CELLS = 1 << 22
LANES = 8  # numbers that a processor adds at once
MOST_COPIES = 15  # the most times that a bootstrap draws a record
# First node, features, routes, first children and runs of wide features of splits that records follow; see ``descend``.
Moves = tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
NONE = np.empty(0, dtype=np.int64)
# Of the types that splits have, or kernels would be compiled for others too.
NO_MOVES: Moves = (0, NONE.astype(np.int32), np.empty((0, 0), dtype=np.uint16), NONE, NONE.reshape(0, 2))


def type_of_targets(target: Target) -> Any:
    """The type of an array of target codes."""
    return np.int16 if isinstance(target, Classes) and len(target.labels) < 1 << 15 else np.int32


class Guarded:
    """Base of objects that hold rows or can ask for them: it shows nothing of them, and cannot be copied or saved."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def _refuse_copy(self, *_: Any) -> NoReturn:
        raise TypeError("Records cannot be copied or saved.")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = _refuse_copy


class MemoryCounter(Guarded):
    """Encoded records in memory and the node that each has reached in its trees; for its methods see ``records.base``.

    Privacy: not private by itself; answers are sealed. What an answer can depend on: a record adds to the cells of the
    nodes that it has reached, and its path is a function of that record and of released splits only. It adds at most
    ``most_per_feature`` to the cells of each feature in ``count_codes`` and ``most_per_node`` to those of ``count_nodes``; a
    weight is a function of that record and of released values only.
    """

    most_per_feature = 1
    most_per_node = 1

    def __init__(
        self,
        codes: np.ndarray,
        target_codes: np.ndarray,
        domain: Domain,
        target: Target,
        workers: Workers | None = None,
    ) -> None:
        target_codes = target_codes.astype(type_of_targets(target), copy=False)
        self.domain = domain
        self.target = target
        self._codes = np.ascontiguousarray(codes)  # (n_features, n_records)
        self._fine = target_codes  # (n_records,) classes, or a bounded target on its fine grid
        self._target_codes = target_codes  # (n_records,) the same, or a bounded target on the grid that is counted
        self._scores = np.empty((0, 0), dtype=np.int32)
        # What is counted by code instead of the target: a side (n_records,), or residuals (n_records, n_classes + 1
        # and zeros up to a multiple of LANES).
        self._sides: np.ndarray | None = None
        self._residuals: np.ndarray | None = None
        if not isinstance(target, Classes):
            wide = target_codes.astype(np.int64) * TARGET_STEPS
            self._target_codes = ((wide + FINE_STEPS // 2) // FINE_STEPS).astype(np.int32)
        self.workers = workers or Workers()
        self._placed = np.empty((0, 0), dtype=np.int32)  # the node of each record before ``_moves``, (n_copies, n_records)
        self._moves: Moves | None = None
        self._weights = NO_WEIGHTS
        # The first record and the end of each batch, and of those that are counted. Records of other batches follow a tree
        # when their turn comes: its splits by level, and its votes.
        self._batches = [(0, target_codes.size)]
        self._turn = self._batches[0]
        self._path: list[Moves] = []
        self._behind: list[list[tuple[list[Moves], np.ndarray]]] = [[]]

    def deal(self, assignment: Assignment, entropy: Entropy) -> None:
        if len(self._batches) == 1 or len(self._placed) > 1 or assignment != AllTrees(1):
            self._start(*draw_roots(assignment, self._target_codes.size, entropy))
        else:
            self._placed[0, slice(*self._turn)] = 0
            self._start(self._placed, NO_WEIGHTS)

    def divide(self, n_batches: int, entropy: Entropy) -> None:
        roots, _ = draw_roots(OneTree(n_batches), self._target_codes.size, entropy)
        # Records of a batch come to lie side by side, in place: codes may be more than the memory holds.
        ends = np.zeros(n_batches + 1, dtype=np.int64)
        order = np.empty(roots.size, dtype=np.uint32 if roots.size < 1 << 32 else np.uint64)
        kernels.order_by_batch(roots[0], ends, order)
        for rows in (self._codes, self._scores):
            self.workers.run(partial(_reorder, rows, order), self.workers.parts(len(rows), order.size))
        is_same, self._target_codes = self._fine is self._target_codes, self._target_codes[order]
        self._fine = self._target_codes if is_same else self._fine[order]
        self._batches, self._behind = list(pairwise(ends.tolist())), [[] for _ in range(n_batches)]
        self._start(roots, NO_WEIGHTS)

    def take_turn(self, batch: int | None) -> None:
        for index in range(len(self._batches)) if batch is None else [batch]:
            trees, self._behind[index] = self._behind[index], []
            self._turn = self._batches[index]
            if trees:
                self._in_parts(partial(self._follow, trees))
        if batch is None:
            self._turn = (0, self._target_codes.size)

    def _follow(self, trees: list[tuple[list[Moves], np.ndarray]], start: int, stop: int) -> None:
        """Move some records through trees, and add their votes."""
        for path, values in trees:
            self._placed[0, start:stop] = 0
            self._move_and_add(path, values, start, stop)

    def _move_and_add(self, path: list[Moves], values: np.ndarray, start: int, stop: int) -> None:
        """Move some records on by the splits of a path, and add the votes of where they arrive, a block at a time."""
        for begin in range(start, stop, kernels.ROWS_AT_ONCE):
            end = min(stop, begin + kernels.ROWS_AT_ONCE)
            for moves in path:
                kernels.descend(self._codes, self._placed, begin, end, *moves)
            scores.add_scores(self._placed, values, begin, end, self._scores)

    def _start(self, roots: np.ndarray, weights: np.ndarray) -> None:
        """Put copies of the records at roots ``(n_copies, n_records)``, with weights unless each counts once."""
        self._placed, self._weights, self._moves, self._path = roots, weights, None, []
        self.most_per_feature = self.most_per_node = 1
        self._sides = self._residuals = None
        self._forget()

    def _forget(self) -> None:
        """Drop kept histograms: records will count differently."""
        self._counted: tuple[int, np.ndarray, np.ndarray] | None = None  # first node, ``wanted`` and counts of a level
        # Of the level above: ``wanted``, counts, and its splits (features, routes, first children).
        self._above: tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]] | None = None

    @property
    def _positions(self) -> np.ndarray:
        """The node that each record has reached, ``(n_copies, n_records)``."""
        self._settle()
        return self._placed

    def _settle(self) -> None:
        """Move records by the last splits now, instead of in the next count."""
        moves, self._moves = self._moves, None
        if moves is not None:
            self._in_parts(lambda start, stop: kernels.descend(self._codes, self._placed, start, stop, *moves))

    def count_codes(self, first: int, wanted: np.ndarray) -> Sealed[np.ndarray]:
        features = np.flatnonzero(wanted.any(axis=0))
        is_drawn = self._by_class and 2 * np.count_nonzero(wanted) < len(wanted) * len(features)
        is_counted, families = np.append(np.ones(len(wanted), dtype=bool), False), None
        if self._above is not None and not is_drawn:
            above_wanted, above, split = self._above
            families = kernels.spare_largest(above, self.domain.offsets, *split, first, is_counted)
            # All features that a node wants were counted for its parent, unless features are drawn anew for each node.
            families = families[(wanted[families[:, 1]] <= above_wanted[families[:, 0]]).all(axis=1)]
            is_counted[families[:, 1]] = False
        cells = self._count(first, is_counted, wanted if is_drawn else None, features)
        counts = np.zeros((len(wanted), self.domain.total_codes, self.code_width), dtype=np.int64)
        parts = self.workers.parts(len(wanted), self.code_width * self.domain.total_codes)
        # What is subtracted from a parent has all features that any node wants.
        filled = wanted if families is None else np.tile(wanted.any(axis=0), (len(wanted), 1))
        known = (cells, filled, self.domain.offsets)
        self.workers.run(lambda _, start, stop: kernels.add_parts(*known, start, stop, counts), parts)
        if families is not None:
            kernels.fill_spared(families, above, counts)
            if not wanted.all():
                counts *= np.repeat(wanted, self.domain.n_codes, axis=1)[:, :, None]
        is_kept = counts.size <= KEPT_CELLS and self._sides is None and not self.domain.is_wide.any()
        self._counted = (first, wanted, counts) if is_kept else None
        return Sealed(counts)

    def _count(self, first: int, is_counted: np.ndarray, drawn: np.ndarray | None, features: np.ndarray) -> np.ndarray:
        """Histograms ``(n_parts, n_nodes, code_width, total_codes)`` of the records that each thread counts.

        ``drawn`` is ``wanted`` if nodes draw features of their own.
        """
        n_nodes = len(is_counted) - 1
        if n_nodes * self.code_width * self.domain.total_codes >= 2**32:
            raise MemoryError("The schema has too many categories and classes to count them all at once.")
        parts = self._parts(max(len(features), 1))
        by_column = len(features) >= COLUMNS_FOR_THREADS * len(parts) > COLUMNS_FOR_THREADS
        if by_column:
            self._settle()  # each thread sees all records, which must move once
            parts = [self._turn]
        # No cell can pass 31 bits if the weights of all records of a thread together do not.
        n_added = len(self._placed) * (self._target_codes.size // len(parts) + 1) * max(self.most_per_feature, MOST_COPIES)
        dtype = np.int32 if (self._by_class or self._residuals is not None) and n_added < 2**31 else np.int64
        offsets, labels = self.domain.offsets, self._target_codes if self._sides is None else self._sides
        places = (self._placed, first, is_counted, self._moves or NO_MOVES)
        known: tuple[Any, ...] = (offsets, labels, self._weights, *places)
        shape, askers = (self.code_width, self.domain.total_codes), tuple[np.ndarray, ...]()
        kernel: Any = kernels.count_codes if self._by_class else kernels.sum_codes
        if self._residuals is not None:
            shape, known = (self.domain.total_codes, self._residuals.shape[1]), (offsets, self._residuals, *places)
            kernel = kernels.sum_residual_codes
        elif drawn is not None:
            # For each feature the nodes, those that want it first, and how many want it.
            order = np.argsort(~drawn[:, features], axis=0, kind="stable")
            askers = np.ascontiguousarray(order.T), np.count_nonzero(drawn[:, features], axis=0)
            kernel = kernels.count_drawn
        cells = np.zeros((len(parts), n_nodes, *shape), dtype=dtype)

        def count(part: int, start: int, stop: int, columns: slice = slice(None)) -> None:
            own = (features[columns], *(each[columns] for each in askers))
            kernel(self._codes, *own, *known, start, stop, cells[part])

        if by_column:
            columns = self.workers.parts(len(features), self._target_codes.size)
            self.workers.run(lambda _, begin, end: count(0, *parts[0], slice(begin, end)), columns)
        elif len(features):
            self.workers.run(count, parts)
            self._moves = None
        return cells if self._residuals is None else cells.swapaxes(2, 3)

    @property
    def _by_class(self) -> bool:
        """Whether a record adds its weight to the cell of its class (or side), instead of numbers to several cells."""
        return (isinstance(self.target, Classes) or self._sides is not None) and self._residuals is None

    def _in_parts(self, work: Callable[[int, int], None]) -> None:
        """Call ``work(start, stop)`` for all records; results must not depend on how they are divided among threads."""
        self.workers.run(lambda part, start, stop: work(start, stop), self._parts())

    def _parts(self, n_passes: int = 1) -> list[tuple[int, int]]:
        """The first record and the end of the part of each thread."""
        first, end = self._turn
        parts = self.workers.parts(end - first, n_passes * max(len(self._placed), 1))
        return [(first + start, first + stop) for start, stop in parts]

    def _sum_parts(self, kernel: Callable[..., None], known: tuple[Any, ...], shape: tuple[int, ...]) -> Sealed[np.ndarray]:
        """The sealed sum of what ``kernel(*known, start, stop, sums)`` adds to an array of zeros for all records."""
        parts = self._parts()
        sums = np.zeros((len(parts), *shape), dtype=np.int64)
        self.workers.run(lambda part, start, stop: kernel(*known, start, stop, sums[part]), parts)
        return Sealed(sums.sum(axis=0))

    @property
    def code_width(self) -> int:
        if self._residuals is not None:
            return self.target.width + 1
        return self.target.width if self._sides is None else 2

    def count_nodes(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        if (counts := self._children(first, n_nodes)) is not None:
            return Sealed(counts)
        kernel = kernels.count_nodes if isinstance(self.target, Classes) else kernels.sum_nodes
        # Distances from a centre are for splits; the leaves of a bounded target count each record once.
        weights = self._weights if self._sides is None else NO_WEIGHTS
        return self._sum_parts(kernel, (self._target_codes, weights, self._positions, first), (n_nodes, self.target.width))

    def _children(self, first: int, n_nodes: int) -> np.ndarray | None:
        """The counts of nodes by the histograms of the level above; None unless these have them."""
        if self._above is None or self._residuals is not None:
            return None
        wanted, above, (features, routes, first_children) = self._above
        parents = np.flatnonzero(features >= 0)
        if not len(parents) or not wanted[parents, features[parents]].all():
            return None
        end = int(first_children[parents[-1]]) + int(routes[parents[-1]].max()) + 1
        if first < first_children[parents[0]] or first + n_nodes > end:
            return None
        counts = np.zeros((n_nodes, self.target.width), dtype=np.int64)
        kernels.add_children(above, self.domain.offsets, features, routes, first_children, first, counts)
        return counts

    def descend(self, first: int, features: np.ndarray, routes: np.ndarray, first_children: np.ndarray) -> None:
        self._settle()
        split = (features.astype(np.int32, copy=False), routes, first_children)  # one type, for which kernels are compiled
        self._moves = (first, *split, self.domain.runs(features, routes))
        self._path.append(self._moves)
        counted = self._counted
        self._forget()
        if counted is not None and (counted[0], len(counted[1])) == (first, len(features)):
            self._above = (*counted[1:], split)

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[MemoryCounter, MemoryCounter]":
        held = draw_held_out(self._target_codes.size, share, entropy)
        return self._part(~held), self._part(held)

    def _part(self, kept: np.ndarray) -> "MemoryCounter":
        return MemoryCounter(
            np.ascontiguousarray(self._codes[:, kept]), self._fine[kept], self.domain, self.target, self.workers
        )

    def count_errors(self, forest: Forest, ensembles: np.ndarray) -> Sealed[np.ndarray]:
        choices = np.eye(self.target.n_values, dtype=np.int64)[forest.choices(self._codes)]
        votes = (np.tensordot(trees.astype(np.int64), choices, 1).argmax(axis=1) for trees in ensembles)
        return Sealed(np.array([np.count_nonzero(each != self._target_codes) for each in votes], dtype=np.int64))

    def deal_by_errors(self, forest: Forest, n_trees: int, entropy: Entropy) -> None:
        n_wrong = (forest.choices(self._codes) != self._target_codes).sum(axis=0)
        coins = np.empty((n_trees, self._target_codes.size), dtype=np.int64)
        entropy.draw_for_records(draw_below, coins, forest.n_trees)
        roots, _ = draw_roots(AllTrees(n_trees), self._target_codes.size, entropy)
        self._start(roots, (coins < n_wrong).astype(np.uint8))

    def _check_one_tree(self) -> None:
        """Raise unless each record is in one tree: it has one weight and one set of scores."""
        if len(self._placed) != 1:
            raise ParameterError("Weights of records need one tree at a time; use stages that grow trees in sequence.")

    def start_scores(self) -> None:
        n_scores = self.target.n_values if isinstance(self.target, Classes) else 1
        self._scores = np.zeros((n_scores, self._target_codes.size), dtype=np.int32)

    def add_scores(self, values: np.ndarray) -> None:
        self._check_one_tree()
        moves, self._moves = self._moves, None
        self._in_parts(partial(self._move_and_add, [] if moves is None else [moves], values))
        for (first, end), trees in zip(self._batches, self._behind, strict=True):
            if not self._turn[0] <= first <= end <= self._turn[1]:
                trees.append((self._path.copy(), values))

    def add_by_code(self, features: Sequence[int], values: Sequence[np.ndarray]) -> None:
        table = np.zeros((len(features), max(map(len, values), default=0), len(self._scores)), dtype=np.int64)
        for own, given in zip(table, values, strict=True):
            own[: len(given)] = given
        known, parts = (self._codes, np.array(features, dtype=np.int64), table), self.workers.parts(self._target_codes.size)
        self.workers.run(lambda _, start, stop: scores.add_by_code(*known, start, stop, self._scores), parts)

    def weigh_residuals(self) -> None:
        self._check_one_tree()
        self._weights = np.empty((1, self._target_codes.size), dtype=np.uint8)
        known = (self._target_codes, self._scores)
        if len(self._scores) == 2:
            self._in_parts(lambda start, stop: scores.weigh_pairs(*known, PAIR_WEIGHTS, start, stop, self._weights))
        else:
            rule = (POWERS, MOST_WEIGHT)
            self._in_parts(lambda start, stop: scores.weigh_residuals(*known, *rule, start, stop, self._weights))
        self.most_per_feature = self.most_per_node = MOST_WEIGHT
        self._forget()

    def spread_residuals(self) -> None:
        self._check_one_tree()
        width = -(-(self.target.n_values + 1) // LANES) * LANES
        self._residuals = np.zeros((self._target_codes.size, width), dtype=np.int16)
        known = (self._target_codes, self._scores, POWERS, MOST_WEIGHT)
        self._in_parts(lambda start, stop: scores.spread_residuals(*known, start, stop, self._residuals))
        self._weights = NO_WEIGHTS
        self.most_per_feature, self.most_per_node = MOST_WEIGHT, 1
        self._forget()

    def sum_residuals(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        self._check_one_tree()
        known = (self._target_codes, self._scores, POWERS, MOST_WEIGHT, self._positions, first)
        return self._sum_parts(scores.sum_residuals, known, (n_nodes, self.target.width + 1))

    def count_leads(self, width: int, n_bins: int) -> Sealed[np.ndarray]:
        known = (self._target_codes, self._scores, width)
        return self._sum_parts(scores.count_leads, known, (n_bins, self.target.n_values))

    def set_residual_window(self, half_width: int) -> None:
        own = slice(*self._turn)
        seen = self._fine[own].astype(np.int64) - self._scores[0, own] + half_width
        self._target_codes[own] = np.clip(seen, 0, 2 * half_width) * TARGET_STEPS // (2 * half_width)
        self._forget()

    def count_values(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        self._check_one_tree()
        known = (self._target_codes, NO_WEIGHTS, self._positions, first)
        return self._sum_parts(kernels.count_nodes, known, (n_nodes, TARGET_STEPS + 1))

    def weigh_distances(self, first: int, centres: np.ndarray, reach: int) -> None:
        self._check_one_tree()
        if self._sides is None:
            self._sides = np.zeros(self._target_codes.size, dtype=np.uint8)
            self._weights = np.empty((1, self._target_codes.size), dtype=np.uint8)
        known, seen = (self._target_codes, self._positions, first), (self._sides, self._weights)
        rule = (centres, reach, MOST_WEIGHT)
        self._in_parts(lambda start, stop: scores.weigh_distances(*known, *rule, start, stop, *seen))
        self.most_per_feature = MOST_WEIGHT
        self._forget()


def _reorder(rows: np.ndarray, order: np.ndarray, part: int, start: int, stop: int) -> None:
    """Put the records of some ``rows`` ``(n_rows, n_records)`` into another order."""
    copy = np.empty(order.size, dtype=rows.dtype)
    for row in rows[start:stop]:
        kernels.take(row, order, copy)
        row[:] = copy
