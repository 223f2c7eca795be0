"""Counters of records in a database. Sees sums over records, which queries return, and seals them."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

import ibis
import numpy as np

from dpforest.common.threads import Workers
from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import (
    MOST_WEIGHT,
    AllTrees,
    Assignment,
    Judged,
    OneTree,
    Poisson,
    Scored,
    Valued,
    Weighted,
)  # fmt: skip
from dpforest.records.draws import COIN_SIDES
from dpforest.records.memory.counter import Guarded
from dpforest.records.sql import coins
from dpforest.records.sql.errors import count_wrong, number_wrong
from dpforest.records.sql.lookups import clip, divide, least, number, pick
from dpforest.records.sql.moves import Moves
from dpforest.records.sql.placed import Placed, unmerged
from dpforest.records.sql.residuals import residual_sums, residual_weight
from dpforest.records.sql.session import Session
from dpforest.records.sql.vault import NOT_KEPT
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Classes, Target
from dpforest.schema.domain import Domain

# The number of groupings that are asked for in one query.
QUERIES_AT_ONCE = 32
MOST_SCORE = 1 << 29


class SqlCounter(Guarded, Valued, Judged):
    """Encoded records in a database, and the node that each has reached in its trees; see ``records.base``.

    Privacy: as ``MemoryCounter``, with the same answers to the last unit given the same draws; for the draws see ``Placed``.
    """

    most_per_feature = 1
    most_per_node = 1
    workers = Workers()

    def __init__(self, table: Any, session: Session, domain: Domain, target: Target) -> None:
        self.domain = domain
        self.target = target
        self._session = session
        self._placed = Placed(table, session, domain)
        self._weighted = False  # whether records have weights other than 1, in the columns w0, w1, …
        self._sided = False  # whether the column ``side`` is counted in the place of the target
        self._by_scores = False  # whether the weights follow from the scores as they are now
        self._spread = False  # whether the columns r0, r1, … are counted in the place of the target
        self._n_scores = 0
        if not isinstance(target, Classes):
            wide = table["fine"].cast("int64") * TARGET_STEPS
            self._placed.derived["y"] = divide(wide + FINE_STEPS // 2, FINE_STEPS).cast("int16")

    def deal(self, assignment: Assignment, entropy: Entropy) -> None:
        self._sided = self._weighted = self._by_scores = self._spread = False
        self.most_per_feature = self.most_per_node = 1
        n_trees, placed = assignment.n_trees, self._placed
        if isinstance(assignment, Poisson):
            raise ParameterError(NOT_KEPT)
        if isinstance(assignment, OneTree) and n_trees > 1:
            old = [name for name in placed.numbered("n") if name != "n0"]
            placed.draw(entropy, {"n0": partial(coins.draw_below, n_trees)}, old)
            placed.start([None])
        else:
            placed.start(range(n_trees))

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[SqlCounter, SqlCounter]":
        is_held = partial(coins.draw_side, Fraction(round(share * COIN_SIDES), COIN_SIDES))
        self._placed.draw(entropy, {"held": is_held})
        return self._part(0), self._part(1)

    def _part(self, held: int) -> "SqlCounter":
        table = self._placed.table
        own = table.filter(table["held"] == held).drop("held")
        own = self._session.keep(own) if self._session.temporary else own
        return type(self)(own, self._session, self.domain, self.target)

    def count_errors(self, forest: Forest, ensembles: np.ndarray) -> Sealed[np.ndarray]:
        walked = self._placed.walked(forest)
        choices = {f"v{k}": choice for k, choice in enumerate(walked.choices(forest))}
        votes = walked.table.select(y=walked.column("y"), **choices)
        votes = self._session.keep(votes) if self._session.temporary else unmerged(votes)
        errors = count_wrong(self._session, votes, ensembles, self.target.n_values)
        self._session.drop(votes)
        self._session.drop(walked.table)
        return Sealed(errors)

    @property
    def _by_class(self) -> bool:
        """Whether a record adds its weight to the cell of its class (or side), instead of numbers to several cells."""
        return (isinstance(self.target, Classes) or self._sided) and not self._spread

    @property
    def code_width(self) -> int:
        return self.target.width + 1 if self._spread else 2 if self._sided else self.target.width

    def count_codes(self, first: int, wanted: np.ndarray) -> Sealed[np.ndarray]:
        n_labels = self.code_width if self._by_class else 0
        label = self._placed.column("side" if self._sided else "y")
        queries = []
        for feature in map(int, np.flatnonzero(wanted.any(axis=0))):
            for copy in range(self._placed.n_copies):
                table, node = self._placed.at_asked(copy, first, wanted[:, feature])
                weight = self._placed.column(f"w{copy}") if self._weighted else None
                keys = [(node, len(wanted)), (self._placed.code(feature), int(self.domain.n_codes[feature]))]
                if self._spread:
                    residuals = [self._placed.column(f"r{index}") for index in range(self.code_width)]
                    queries.append(_grouped(table, keys, residuals, feature))
                else:
                    queries.append(_grouped(table, *_labelled(keys, label, n_labels, weight), feature))
        counts = np.zeros((len(wanted), self.domain.total_codes, self.code_width), dtype=np.int64)
        for found in self._answers(queries):
            part, (cell, index) = found["part"], np.divmod(found["cell"], max(n_labels, 1))
            node, code = np.divmod(cell, self.domain.n_codes[part])
            cells = (node, self.domain.offsets[part] + code, *([index] if n_labels else []))
            np.add.at(counts, cells, _sums(found, n_labels))
        return Sealed(counts)

    def count_nodes(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        n_labels = self.target.width if isinstance(self.target, Classes) else 0
        # Distances from a centre are for splits; the leaves of a bounded target count each record once.
        weighted = self._weighted and not self._sided
        return self._count_labels(first, n_nodes, self.target.width, n_labels, weighted)

    def count_values(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        self._check_one_tree()
        return self._count_labels(first, n_nodes, TARGET_STEPS + 1, TARGET_STEPS + 1, False)

    def _count_labels(self, first: int, n_nodes: int, width: int, n_labels: int, weighted: bool) -> Sealed[np.ndarray]:
        """Sealed sums ``(n_nodes, width)`` over the records of each node; see ``_labelled`` for ``n_labels``."""
        queries = []
        for copy in range(self._placed.n_copies):
            table, node = self._placed.at_asked(copy, first, np.ones(n_nodes, dtype=bool))
            weight = self._placed.column(f"w{copy}") if weighted else None
            keys = [(node, n_nodes)]
            queries.append(_grouped(table, *_labelled(keys, self._placed.column("y"), n_labels, weight)))
        return Sealed(self._filled(queries, (n_nodes, width), n_labels))

    def _filled(self, queries: list[Any], shape: tuple[int, int], n_labels: int) -> np.ndarray:
        """The answers of queries as an array of this shape, with zeros for cells without a record, which are not in them."""
        cells = np.zeros(shape, dtype=np.int64)
        for found in self._answers(queries):
            np.add.at(cells.reshape(-1) if n_labels else cells, found["cell"], _sums(found, n_labels))
        return cells

    def _answers(self, queries: list[Any]) -> Iterator[dict[str, np.ndarray]]:
        """The answers of queries by column, some queries together in each."""
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            some = queries[start : start + QUERIES_AT_ONCE]
            yield self._session.fetch(ibis.union(*some) if len(some) > 1 else some[0])

    def descend(self, first: int, features: np.ndarray, routes: np.ndarray, first_children: np.ndarray) -> None:
        self._placed.descend(Moves.of(first, features, routes, first_children, self.domain))

    def _check_one_tree(self) -> None:
        """Raise unless each record is in one tree."""
        if self._placed.n_copies != 1:
            raise ParameterError("Weights of records need one tree at a time; use stages that grow trees in sequence.")


class KeepingSqlCounter(SqlCounter, Weighted, Scored):
    """A counter for an account that may make temporary tables, in which records keep weights and scores."""

    def deal(self, assignment: Assignment, entropy: Entropy) -> None:
        if not isinstance(assignment, Poisson):
            super().deal(assignment, entropy)
            return
        super().deal(AllTrees(assignment.n_trees), entropy)
        placed, drawn = self._placed, {f"w{k}": coins.draw_poisson for k in range(assignment.n_trees)}
        old = [name for name in (*placed.numbered("w"), *placed.numbered("n")) if name not in drawn]
        placed.draw(entropy, drawn, old)
        self._weighted = True

    def deal_by_errors(self, forest: Forest, n_trees: int, entropy: Entropy) -> None:
        walked = self._placed.walked(forest)
        walked.derived["wrong"] = number_wrong(walked.choices(forest), walked.column("y")).cast("int32")
        walked.settle()
        self._session.drop(self._placed.table)
        self._placed = walked
        drawn = {f"u{k}": partial(coins.draw_below, forest.n_trees) for k in range(n_trees)}
        walked.draw(entropy, drawn, walked.numbered("n"))
        table = walked.table
        taken = {f"w{k}": (table[f"u{k}"] < table["wrong"]).ifelse(1, 0).cast("int8") for k in range(n_trees)}
        walked.replace(table.mutate(**taken).drop("wrong", *drawn))
        walked.start(range(n_trees))
        self._weighted = True

    def start_scores(self) -> None:
        self._n_scores = self.target.n_values if isinstance(self.target, Classes) else 1
        self._placed.derived |= {f"s{index}": number(0) for index in range(self._n_scores)}

    def add_scores(self, values: np.ndarray) -> None:
        self._check_one_tree()
        added = {}
        for index, score in enumerate(self._scores()):
            total = score.cast("int64") + self._placed.at_node(0, 0, values[:, index].tolist())
            added[f"s{index}"] = clip(total, -MOST_SCORE, MOST_SCORE).cast("int32")
        self._placed.derived |= added
        self._placed.settle()
        self._by_scores = False

    def add_by_code(self, features: Sequence[int], values: Sequence[np.ndarray]) -> None:
        added = {}
        for index, score in enumerate(self._scores()):
            total = score.cast("int64")
            for feature, own in zip(features, values, strict=True):
                total = total + pick(self._placed.code(feature), 0, own[:, index].tolist())
            added[f"s{index}"] = clip(total, -MOST_SCORE, MOST_SCORE).cast("int32")
        self._placed.derived |= added
        self._placed.settle()
        self._by_scores = False

    def divide(self, n_batches: int, entropy: Entropy) -> None:
        self._placed.draw(entropy, {"batch": partial(coins.draw_below, n_batches)})

    def take_turn(self, batch: int | None) -> None:
        self._placed.turn = batch

    def _scores(self) -> list[Any]:
        return [self._placed.column(f"s{index}") for index in range(self._n_scores)]

    def weigh_residuals(self) -> None:
        self._check_one_tree()
        self._placed.replace(residual_weight(self._placed.whole(), self._n_scores, self._session))
        self._weighted = self._by_scores = True
        self.most_per_feature = self.most_per_node = MOST_WEIGHT

    def spread_residuals(self) -> None:
        self._check_one_tree()
        whole = self._placed.whole()
        whole = whole.drop(*(name for name in ("w0", *self._placed.numbered("r")) if name in whole.columns))
        table, residuals = residual_sums(whole, self._n_scores, self._session)
        kept = {f"r{index}": value.cast("int16") for index, value in enumerate(residuals.values())}
        self._placed.replace(table.select(*whole.columns, **kept))
        self._spread, self._weighted, self._by_scores = True, False, False
        self.most_per_feature, self.most_per_node = MOST_WEIGHT, 1

    def sum_residuals(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        self._check_one_tree()
        table, node = self._placed.at_asked(0, first, np.ones(n_nodes, dtype=bool))
        known = {f"s{index}": score for index, score in enumerate(self._scores())}
        if self._by_scores:
            known["w0"] = self._placed.column("w0")
        table = table.select(cell=node, y=self._placed.column("y"), **known)
        query = _summed(*residual_sums(table, self._n_scores, self._session))
        return Sealed(self._filled([query], (n_nodes, self._n_scores + 1), 0))

    def count_leads(self, width: int, n_bins: int) -> Sealed[np.ndarray]:
        n_classes, own = self.target.n_values, self._placed.column("y")
        scores = [score.cast("int64") for score in self._scores()]
        leads = [
            score - (ibis.greatest(*others) if len(others := scores[:c] + scores[c + 1 :]) > 1 else others[0])
            for c, score in enumerate(scores)
        ]
        lead = ibis.cases(*((own == c, lead) for c, lead in enumerate(leads)))
        steps = clip(lead + width * (n_bins // 2), 0, width * n_bins - 1)
        query = _grouped(self._placed.counted, [(divide(steps, width), n_bins), (own, n_classes)], [None])
        return Sealed(self._filled([query], (n_bins, n_classes), n_classes))

    def set_residual_window(self, half_width: int) -> None:
        seen = self._placed.table["fine"].cast("int64") - self._placed.column("s0") + half_width
        steps = divide(clip(seen, 0, 2 * half_width) * TARGET_STEPS, 2 * half_width)
        self._placed.derived["y"] = steps.cast("int16")
        self._placed.settle()

    def weigh_distances(self, first: int, centres: np.ndarray, reach: int) -> None:
        self._check_one_tree()
        distance = self._placed.column("y").cast("int64") - self._placed.at_node(0, first, centres.tolist())
        weight = least(divide(distance.abs() * MOST_WEIGHT, reach), MOST_WEIGHT)
        self._placed.derived["side"] = (distance > 0).fill_null(False).ifelse(1, 0).cast("int8")
        self._placed.derived["w0"] = weight.fill_null(0).cast("int16")
        self._placed.settle()
        self._sided = self._weighted = True
        self.most_per_feature = MOST_WEIGHT


Keys = list[tuple[Any, int]]


def _labelled(keys: Keys, label: Any, n_labels: int, weight: Any) -> tuple[Keys, list[Any]]:
    """The keys and what is summed by them, for records with a label and a weight (None if each counts once).

    With ``n_labels`` each label has a cell of its own; with 0 the label is a value, and its powers are summed.
    """
    if n_labels:
        return [*keys, (label, n_labels)], [weight]
    value = label.cast("int64")
    weighed = value if weight is None else weight.cast("int64") * value
    return keys, [weight, weighed, weighed * value]


def _grouped(table: Any, keys: Keys, values: list[Any], part: int = 0) -> Any:
    """A query for sums over the records of each cell, which is a combination of keys, given as (column, number of values).

    Summed are ``values``, or 1 for None, as ``a0``, ``a1``, … A cell is the index of its combination among all, since
    engines group fastest by small numbers; ``part`` is a constant of the result.
    """
    kind = "int32" if prod(size for _, size in keys) < 1 << 31 else "int64"
    cell: Any = 0
    for key, size in keys:
        cell = cell * size + key.cast(kind)
    columns = {f"v{index}": value.cast("int64") for index, value in enumerate(values) if value is not None}
    table = table.select(cell=cell, **columns)
    sums = {f"a{index}": None if value is None else table[f"v{index}"] for index, value in enumerate(values)}
    return _summed(table, sums).mutate(part=ibis.literal(part, "int32"))


def _summed(table: Any, sums: dict[str, Any]) -> Any:
    """A query for the sum of each expression by cell, or for the number of records where it is None.

    Records that belong to no cell are left out.
    """
    added = {name: table.count() if value is None else value.sum() for name, value in sums.items()}
    grouped = table.group_by("cell").aggregate(**added)
    return grouped.filter(grouped["cell"].notnull())


def _sums(found: dict[str, np.ndarray], n_labels: int) -> np.ndarray:
    """The sums of an answer by cell: ``(n_cells,)`` where labels have cells of their own, else ``(n_cells, n_sums)``."""
    names = sorted(name for name in found if name[0] == "a" and name[1:].isdigit())
    return found["a0"] if n_labels else np.stack([found[f"a{index}"] for index in range(len(names))], axis=1)
