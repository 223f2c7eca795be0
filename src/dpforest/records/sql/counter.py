"""Counters of records in a database. Sees sums over records, which queries return, and seals them."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

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
from dpforest.records.memory import kernels
from dpforest.records.memory.counter import KEPT_CELLS, Guarded
from dpforest.records.sql import coins
from dpforest.records.sql.errors import count_wrong, number_wrong
from dpforest.records.sql.expressions import cases, cast, clip, divide, entry, total
from dpforest.records.sql.moves import Moves
from dpforest.records.sql.placed import MOST_SCORE, Placed
from dpforest.records.sql.residuals import pair_sums, pair_weights, residual_sums, weighed
from dpforest.records.sql.session import QUERIES_AT_ONCE, Relation, Session, listed, names
from dpforest.records.sql.vault import NOT_KEPT
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Classes, Target
from dpforest.schema.domain import Domain


class SqlCounter(Guarded, Valued, Judged):
    """Encoded records in a database, and the node that each has reached in its trees; see ``records.base``.

    Privacy: as ``MemoryCounter``, with the same answers to the last unit given the same draws; for the draws see ``Placed``.
    """

    most_per_feature = 1
    most_per_node = 1
    workers = Workers()

    def __init__(self, table: Relation, session: Session, domain: Domain, target: Target) -> None:
        self.domain = domain
        self.target = target
        self._session = session
        self._all = [Placed(table, session, domain)]  # the batches of records, each a table of its own
        self._in_turn = self._all  # those that are counted
        self._path: list[Moves] = []  # the splits that they have followed since they were dealt, by level
        self._weighted = False  # whether records have weights other than 1, in the columns w0, w1, …
        self._sided = False  # whether the column ``side`` is counted in the place of the target
        self._by_scores = False  # whether the weights follow from the scores as they are now
        self._spread = False  # whether the columns r0, r1, … are counted in the place of the target
        # Of the level that was counted last: first node, ``wanted`` and histograms; see ``MemoryCounter``.
        self._counted: tuple[int, np.ndarray, np.ndarray] | None = None
        # Of the level above, once it is split: ``wanted``, histograms and splits.
        self._above: tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]] | None = None
        if not isinstance(target, Classes):
            wide = f"{cast('fine', 'BIGINT')} * {TARGET_STEPS}"
            self._all[0].derived["y"] = cast(divide(f"{wide} + {FINE_STEPS // 2}", FINE_STEPS), "SMALLINT")

    def deal(self, assignment: Assignment, entropy: Entropy) -> None:
        self._sided = self._weighted = self._by_scores = self._spread = False
        self.most_per_feature = self.most_per_node = 1
        self._path = []
        self._forget()
        if isinstance(assignment, Poisson):
            raise ParameterError(NOT_KEPT)
        for placed in self._in_turn:
            if isinstance(assignment, OneTree) and assignment.n_trees > 1:
                old = [name for name in placed.table.numbered("n") if name != "n0"]
                placed.draw(entropy, {"n0": partial(coins.draw_below, assignment.n_trees)}, old)
                placed.start([None])
            else:
                placed.start(range(assignment.n_trees))

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[SqlCounter, SqlCounter]":
        (placed,) = self._all
        placed.draw(entropy, {"held": partial(coins.draw_side, Fraction(round(share * COIN_SIDES), COIN_SIDES))})
        return self._part(placed.table, 0), self._part(placed.table, 1)

    def _part(self, table: Relation, held: int) -> "SqlCounter":
        columns = [name for name in table.columns if name not in ("held", "y" if "fine" in table.columns else "")]
        own = f"SELECT {', '.join(columns)} FROM {table.name} WHERE held = {held}"
        return type(self)(self._session.let(own, columns, table), self._session, self.domain, self.target)

    def count_errors(self, forest: Forest, ensembles: np.ndarray) -> Sealed[np.ndarray]:
        errors = np.zeros(len(ensembles), dtype=np.int64)
        for placed in self._all:
            walked = placed.walked(forest)
            chosen = {"y": walked.column("y")} | {f"v{k}": choice for k, choice in enumerate(walked.choices(forest))}
            select = f"SELECT {listed((), chosen)} FROM {walked.table.name}"
            votes = self._session.let(select, tuple(chosen), walked.table)
            errors += count_wrong(self._session, votes, ensembles, self.target.n_values)
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
        families = self._families(first, wanted)
        asked = wanted if families is None else wanted.any(axis=0) & ~np.isin(np.arange(len(wanted)), families[0])[:, None]
        counts = self._count_codes(first, asked)
        if families is not None:
            kernels.subtract_siblings(counts, *families)
            counts *= np.repeat(wanted, self.domain.n_codes, axis=1)[:, :, None]
        self._counted = (first, wanted, counts) if counts.size <= KEPT_CELLS else None
        return Sealed(counts)

    def _families(self, first: int, wanted: np.ndarray) -> tuple[np.ndarray, ...] | None:
        """Nodes that need not be counted, as arguments of ``subtract_siblings``; None if no level above was kept.

        All features that some node wants must have been counted for the parents, and most nodes must want most of them.
        """
        features = wanted.any(axis=0)
        is_sparse = 2 * np.count_nonzero(wanted) < len(wanted) * np.count_nonzero(features)
        # DuckDB counts all records faster than it finds those of some nodes; in other engines a table that is not kept may
        # change between two queries, and then a difference would be about other records than a count.
        if self._session.backend.name != "postgres" or is_sparse or self._above is None:
            return None
        above_wanted, above, split = self._above
        known: tuple[Any, ...] = (above, self.domain.offsets, *split, first, len(wanted))
        return (*kernels.largest_children(*known), above) if (above_wanted >= features).all() else None

    def _count_codes(self, first: int, wanted: np.ndarray) -> np.ndarray:
        """What ``count_codes`` seals, by a query for each feature."""
        n_labels = self.code_width if self._by_class else 0
        counts = np.zeros((len(wanted), self.domain.total_codes, self.code_width), dtype=np.int64)
        for placed in self._in_turn:
            label, queries = placed.column("side" if self._sided else "y"), []
            for feature in map(int, np.flatnonzero(wanted.any(axis=0))):
                for copy in range(placed.n_copies):
                    condition, node = placed.at_asked(copy, first, wanted[:, feature])
                    keys = [(node, len(wanted)), (f"c{feature}", int(self.domain.n_codes[feature]))]
                    values: list[str | None] = [placed.column(f"r{index}") for index in range(self.code_width)]
                    if not self._spread:
                        weight = placed.column(f"w{copy}") if self._weighted else None
                        keys, values = _labelled(keys, label, n_labels, weight)
                    queries.append(_grouped(placed.table, condition, keys, values, feature))
            for found in self._answers(queries, placed.table):
                part, (cell, index) = found["part"], np.divmod(found["cell"], max(n_labels, 1))
                node_index, code = np.divmod(cell, self.domain.n_codes[part])
                cells = (node_index, self.domain.offsets[part] + code, *([index] if n_labels else []))
                np.add.at(counts, cells, _sums(found, n_labels))
        return counts

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

        def queries(placed: Placed) -> list[str]:
            found = []
            for copy in range(placed.n_copies):
                condition, node = placed.at_asked(copy, first, np.ones(n_nodes, dtype=bool))
                weight = placed.column(f"w{copy}") if weighted else None
                keys, values = _labelled([(node, n_nodes)], placed.column("y"), n_labels, weight)
                found.append(_grouped(placed.table, condition, keys, values))
            return found

        return self._filled(queries, (n_nodes, width), n_labels)

    def _filled(self, queries: Callable[[Placed], list[str]], shape: tuple[int, int], n_labels: int) -> Sealed[np.ndarray]:
        """The answers of queries as an array of this shape, with zeros for cells without a record, which are not in them."""
        cells = np.zeros(shape, dtype=np.int64)
        for placed in self._in_turn:
            for found in self._answers(queries(placed), placed.table):
                np.add.at(cells.reshape(-1) if n_labels else cells, found["cell"], _sums(found, n_labels))
        return Sealed(cells)

    def _answers(self, queries: list[str], table: Relation) -> Iterator[dict[str, np.ndarray]]:
        """The answers of queries by column, some queries together in each."""
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            yield self._session.fetch(" UNION ALL ".join(queries[start : start + QUERIES_AT_ONCE]), table)

    def descend(self, first: int, features: np.ndarray, routes: np.ndarray, first_children: np.ndarray) -> None:
        moves = Moves.of(first, features, routes, first_children, self.domain)
        self._path.append(moves)
        for placed in self._in_turn:
            placed.descend(moves)
        self._above = None
        if self._counted is not None and (self._counted[0], len(self._counted[1])) == (first, len(features)):
            self._above = (*self._counted[1:], (features, routes, first_children))
        self._counted = None

    def _forget(self) -> None:
        """Drop kept histograms: records will count differently, so none can be derived from earlier ones."""
        self._counted = self._above = None

    def _check_one_tree(self) -> None:
        """Raise unless each record is in one tree."""
        if self._in_turn[0].n_copies != 1:
            raise ParameterError("Weights of records need one tree at a time; use stages that grow trees in sequence.")


class KeepingSqlCounter(SqlCounter, Weighted, Scored):
    """A counter for an account that may make temporary tables, in which records keep weights and scores."""

    def __init__(self, table: Relation, session: Session, domain: Domain, target: Target) -> None:
        super().__init__(table, session, domain, target)
        self._n_scores = 0
        # Records of other batches than the one in turn follow a tree when their turn comes: its splits by level, its votes.
        self._behind: list[list[tuple[list[Moves], np.ndarray]]] = [[]]

    def deal(self, assignment: Assignment, entropy: Entropy) -> None:
        if not isinstance(assignment, Poisson):
            super().deal(assignment, entropy)
            return
        super().deal(AllTrees(assignment.n_trees), entropy)
        drawn = {f"w{k}": coins.draw_poisson for k in range(assignment.n_trees)}
        for placed in self._in_turn:
            placed.draw(entropy, drawn, [*placed.table.numbered("w"), *placed.table.numbered("n")])
        self._weighted = True

    def deal_by_errors(self, forest: Forest, n_trees: int, entropy: Entropy) -> None:
        (placed,) = self._all
        walked = placed.walked(forest)
        walked.derived["wrong"] = cast(number_wrong(walked.choices(forest), walked.column("y")), "INTEGER")
        walked.settle()
        self._session.drop(placed.table)
        drawn = {f"u{k}": partial(coins.draw_below, forest.n_trees) for k in range(n_trees)}
        walked.draw(entropy, drawn, walked.table.numbered("n"))
        kept = [name for name in walked.table.columns if name != "wrong" and name not in drawn]
        taken = {f"w{k}": cast(cases((f"u{k} < wrong", "1"), otherwise="0"), "SMALLINT") for k in range(n_trees)}
        walked.replace(f"SELECT {listed(kept, taken)} FROM {walked.table.name}", names(kept, taken))
        walked.start(range(n_trees))
        self._all[:] = [walked]
        self._weighted = True
        self._forget()

    def start_scores(self) -> None:
        self._n_scores = self.target.n_values if isinstance(self.target, Classes) else 1
        for placed in self._all:
            placed.derived |= {f"s{index}": cast("0", "INTEGER") for index in range(self._n_scores)}
            placed.settle()

    def add_scores(self, values: np.ndarray) -> None:
        self._check_one_tree()
        for placed, trees in zip(self._all, self._behind, strict=True):
            if placed in self._in_turn:
                placed.add_scores(values)
            else:
                trees.append((self._path.copy(), values))
        self._by_scores = False

    def add_by_code(self, features: Sequence[int], values: Sequence[np.ndarray]) -> None:
        for placed in self._all:
            added = {}
            for index in range(self._n_scores):
                own = [entry(f"c{k}", table[:, index].tolist()) for k, table in zip(features, values, strict=True)]
                added[f"s{index}"] = cast(
                    clip(total([cast(f"s{index}", "BIGINT"), *own]), -MOST_SCORE, MOST_SCORE), "INTEGER"
                )
            placed.derived |= added
            placed.settle()
        self._by_scores = False

    def divide(self, n_batches: int, entropy: Entropy) -> None:
        (placed,) = self._all
        placed.draw(entropy, {"batch": partial(coins.draw_below, n_batches)})
        columns = [name for name in placed.table.columns if name != "batch"]
        select = f"SELECT {', '.join(columns)} FROM {placed.table.name} WHERE batch = "
        tables = [self._session.let(f"{select}{batch}", columns, placed.table) for batch in range(n_batches)]
        self._session.drop(placed.table)
        self._all = [Placed(table, self._session, self.domain) for table in tables]
        self._behind = [[] for _ in tables]
        self.take_turn(None)

    def take_turn(self, batch: int | None) -> None:
        self._in_turn = self._all if batch is None else [self._all[batch]]
        self._forget()
        for index in range(len(self._all)) if batch is None else [batch]:
            trees, self._behind[index] = self._behind[index], []
            if trees:
                self._all[index].catch_up(trees)

    def weigh_residuals(self) -> None:
        self._check_one_tree()
        for placed in self._in_turn:
            if self._n_scores == 2:
                placed.derived["w0"] = cast("weight", "SMALLINT")
                placed.settle(pair_weights(self._session))
            else:
                table = placed.whole()
                columns = names([name for name in table.columns if name != "w0"], {"w0": "w0"})
                source = f"({weighed(table, self._n_scores, self._session)}) AS t"
                select = listed(columns, {"w0": cast("weight", "SMALLINT")})
                placed.replace(f"SELECT {select} FROM {source}", columns)
        self._weighted = self._by_scores = True
        self.most_per_feature = self.most_per_node = MOST_WEIGHT
        self._forget()

    def spread_residuals(self) -> None:
        self._check_one_tree()
        for placed in self._in_turn:
            table = placed.whole()
            kept = [name for name in table.columns if name[0] not in "rw"]
            source, sums = self._residuals(table)
            residuals = {f"r{index}": cast(value, "SMALLINT") for index, value in enumerate(sums.values())}
            placed.replace(f"SELECT {listed(kept, residuals)} FROM ({source}) AS t", names(kept, residuals))
        self._spread, self._weighted, self._by_scores = True, False, False
        self.most_per_feature, self.most_per_node = MOST_WEIGHT, 1
        self._forget()

    def _residuals(self, table: Relation) -> tuple[str, dict[str, str]]:
        """A query for the records of a table with more columns, and residuals as expressions over its result."""
        if self._n_scores > 2:
            return weighed(table, self._n_scores, self._session), residual_sums(self._n_scores)
        if self._by_scores:
            return f"SELECT * FROM {table.name}", pair_sums("w0")
        join = pair_weights(self._session)
        return f"SELECT * FROM {table.name} JOIN {join.table.name} ON {join.condition}", pair_sums("weight")

    def sum_residuals(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        self._check_one_tree()

        def queries(placed: Placed) -> list[str]:
            condition, node = placed.at_asked(0, first, np.ones(n_nodes, dtype=bool))
            source, sums = self._residuals(placed.table)
            return [_summed(f"SELECT t.*, {node} AS cell FROM ({source}) AS t WHERE {condition}", sums)]

        return self._filled(queries, (n_nodes, self._n_scores + 1), 0)

    def count_leads(self, width: int, n_bins: int) -> Sealed[np.ndarray]:
        n_classes = self.target.n_values

        def lead(c: int) -> str:
            others = [f"s{other}" for other in range(n_classes) if other != c]
            return f"s{c} - GREATEST({', '.join(others)})"

        own = cases(*((f"y = {c}", lead(c)) for c in range(n_classes)), otherwise="NULL")
        steps = clip(f"{cast(own, 'BIGINT')} + {width * (n_bins // 2)}", 0, width * n_bins - 1)

        def queries(placed: Placed) -> list[str]:
            return [_grouped(placed.table, "TRUE", [(divide(steps, width), n_bins), ("y", n_classes)], [None])]

        return self._filled(queries, (n_bins, n_classes), n_classes)

    def set_residual_window(self, half_width: int) -> None:
        seen = clip(f"{cast('fine', 'BIGINT')} - s0 + {half_width}", 0, 2 * half_width)
        for placed in self._in_turn:
            placed.derived["y"] = cast(divide(f"{seen} * {TARGET_STEPS}", 2 * half_width), "SMALLINT")
            placed.settle()
        self._forget()

    def weigh_distances(self, first: int, centres: np.ndarray, reach: int) -> None:
        self._check_one_tree()
        for placed in self._in_turn:
            # Records outside of these nodes count for nothing. What others need of a centre is written once.
            centre = placed.at_node(0, first, centres.tolist())
            placed.derived["side"] = cast(f"COALESCE({cast(placed.column('y'), 'INTEGER')} - ({centre}), 0)", "SMALLINT")
            placed.settle()
            placed.derived["w0"] = cast(
                clip(divide(f"ABS({cast('side', 'INTEGER')}) * {MOST_WEIGHT}", reach), 0, MOST_WEIGHT), "SMALLINT"
            )
            placed.derived["side"] = cast(cases(("side > 0", "1"), otherwise="0"), "SMALLINT")
            placed.settle()
        self._sided = self._weighted = True
        self.most_per_feature = MOST_WEIGHT
        self._forget()


Keys = list[tuple[str, int]]


def _labelled(keys: Keys, label: str, n_labels: int, weight: str | None) -> tuple[Keys, list[str | None]]:
    """The keys and what is summed by them, for records with a label and a weight (None if each counts once).

    With ``n_labels`` each label has a cell of its own; with 0 the label is a value, and its powers are summed.
    """
    if n_labels:
        return [*keys, (label, n_labels)], [weight]
    value = cast(label, "INTEGER")
    weighed = value if weight is None else f"{cast(weight, 'INTEGER')} * {value}"
    return keys, [weight, weighed, f"{weighed} * {value}"]


def _grouped(table: Relation, condition: str, keys: Keys, values: Sequence[str | None], part: int = 0) -> str:
    """A query for sums over the records of each cell, which is a combination of keys, given as (column, number of values).

    Summed are ``values``, or 1 for None, as ``a0``, ``a1``, … A cell is the index of its combination among all, since
    engines group fastest by small numbers; ``part`` is a constant of the result.
    """
    kind = "INTEGER" if prod(size for _, size in keys) < 1 << 31 else "BIGINT"
    cell = "0"
    for key, size in keys:
        cell = f"({cell}) * {size} + {cast(key, kind)}" if cell != "0" else cast(key, kind)
    columns = {"cell": cell} | {f"v{index}": value for index, value in enumerate(values) if value is not None}
    source = f"SELECT {listed((), columns)} FROM {table.name} WHERE {condition}"
    return _summed(source, {f"a{index}": value and f"v{index}" for index, value in enumerate(values)}, part)


def _summed(source: str, sums: dict[str, str | None] | dict[str, str], part: int = 0) -> str:
    """A query for the sum of each expression by cell, or for the number of records where it is None."""
    added = (f"{'COUNT(*)' if value is None else f'CAST(SUM({value}) AS BIGINT)'} AS {name}" for name, value in sums.items())
    return f"SELECT {part} AS part, cell, {', '.join(added)} FROM ({source}) AS q GROUP BY cell"


def _sums(found: dict[str, np.ndarray], n_labels: int) -> np.ndarray:
    """The sums of an answer by cell: ``(n_cells,)`` where labels have cells of their own, else ``(n_cells, n_sums)``."""
    names = sorted(name for name in found if name[0] == "a" and name[1:].isdigit())
    return found["a0"] if n_labels else np.stack([found[f"a{index}"] for index in range(len(names))], axis=1)
