"""The table of encoded records in a database, and the nodes that they have reached. Builds queries; sees no rows.

Its columns are ``c0``, ``c1``, … the codes of features, ``y`` the target that is counted, ``fine`` a bounded target on its
fine grid, ``n0``, ``n1``, … the node that each copy of a record has reached, ``w0``, … weights, ``s0``, … scores, ``side``,
and ``r0``, … residuals. Columns that follow from others stay expressions while they are short; then a new temporary table
takes the place of the old one. Without temporary tables all of it is an expression over the original table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ibis
import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.records.sql import coins
from dpforest.records.sql.lookups import number, pick
from dpforest.records.sql.moves import Moves, follow_long, node_of
from dpforest.records.sql.session import Session
from dpforest.records.sql.vault import TOO_DEEP
from dpforest.schema.domain import Domain

# Up to this many splits are part of each query; with more, a temporary table keeps the nodes that records have reached.
SHALLOW_SPLITS = 4
# Up to this many splits of one level are written into a query; with more, they are a table that is joined.
LONG_SPLITS = 512
# Without temporary tables all splits are part of each query: the most that there may be.
MOST_SPLITS = 1 << 12


class Placed:
    """A table of encoded records, and the node that each copy of a record has reached.

    Privacy: not private by itself; nothing leaves the database here. Draws are made where the rows are, by a hash with a
    secret key that is fresh for every column: see ``coins``. With temporary tables they are drawn by row number and
    kept; without, by the codes of a record alone.
    """

    def __init__(self, table: Any, session: Session, domain: Domain) -> None:
        self.session = session
        self.domain = domain
        self.table = table
        self.derived: dict[str, Any] = {}  # columns that are expressions over the table
        self.roots: list[int | None] = []  # the root of all records in each copy; None if a column has the node of each
        self._moves: list[Moves] = []  # the splits that records have to follow from there
        self.turn: int | None = None  # the batch that is counted; None for all records

    @property
    def n_copies(self) -> int:
        return len(self.roots)

    def column(self, name: str) -> Any:
        return self.derived[name] if name in self.derived else self.table[name]

    def code(self, feature: int) -> Any:
        return self.table[f"c{feature}"]

    def start(self, roots: Sequence[int | None]) -> None:
        """Put each copy of the records at a root, or at the nodes in its column where that is None."""
        self.roots, self._moves = list(roots), []

    def at_node(self, copy: int, first: int, table: Iterable[int | None]) -> Any:
        """An expression for ``table[node - first]`` of the node that a copy of each record has reached; null outside."""
        entries = list(table)

        def leaf(node: int) -> Any:
            return number(entries[node - first] if 0 <= node - first < len(entries) else None)

        column = self._node_column(copy)
        return node_of(self.code, self._moves, self.roots[copy], column, leaf, lambda: pick(column, first, entries))

    def at_asked(self, copy: int, first: int, asked: np.ndarray) -> tuple[Any, Any]:
        """A table of records and an expression for their node less ``first``, null for nodes that are not asked about.

        ``asked`` is a mask over the nodes from ``first``; other records may be absent from the table.
        """
        if self.roots[copy] is None and not self._moves:
            column, indices = self._node_column(copy), np.flatnonzero(asked)
            is_asked = (column >= first) & (column < first + len(asked))
            if len(indices) < len(asked):
                is_asked = column.isin((first + indices).tolist())
            return self.counted.filter(is_asked), column - first
        entries = [index if is_asked else None for index, is_asked in enumerate(asked)]
        return self.counted, self.at_node(copy, first, entries)

    @property
    def counted(self) -> Any:
        """The table of the records that are counted: those of the batch in turn."""
        return self.table if self.turn is None else self.table.filter(self.table["batch"] == self.turn)

    def _node_column(self, copy: int) -> Any:
        return self.column(f"n{copy}") if self.roots[copy] is None else None

    def _node(self, copy: int) -> Any:
        """An expression for the node that a copy of each record has reached."""
        column = self._node_column(copy)
        return node_of(self.code, self._moves, self.roots[copy], column, number, lambda: column).cast("int32")

    def settle(self) -> None:
        """Write all columns that are expressions, and the nodes that records have reached, to a temporary table."""
        nodes = {}
        if self._moves:
            nodes = {f"n{copy}": self._node(copy) for copy in range(self.n_copies)}
            self.start([None] * self.n_copies)
        if self.derived or nodes:
            self.table, self.derived = self.session.change(self.table, self.derived | nodes), {}

    def whole(self) -> Any:
        """The table with all columns, also those that are expressions."""
        if self._moves:
            self.settle()
        return self.table.mutate(**self.derived) if self.derived else self.table

    def replace(self, table: Any) -> None:
        """Keep the rows of an expression over this table in a temporary table that takes its place."""
        old, self.table, self.derived = self.table, self.session.keep(table), {}
        self.session.drop(old)

    def draw(self, entropy: Entropy, rules: Mapping[str, Callable[[Any], Any]], dropped: Sequence[str] = ()) -> None:
        """Add columns that are functions of coins, drawn for each column anew, and drop others.

        They are kept in a temporary table or, without these, are expressions that give the same values in every query.
        """
        self._moves = []  # draws are for new roots
        table = self.whole()
        keys = [coins.draw_key(entropy) for _ in rules]
        if self.session.temporary:
            table = table.mutate(**{f"h{k}": coins.digits_of_row(key) for k, key in enumerate(keys)})
        else:
            codes = [table[f"c{feature}"] for feature in range(self.domain.n_features)]
            table = unmerged(table.mutate(**{f"h{k}": coins.digits_of_values(key, codes) for k, key in enumerate(keys)}))
        table = table.mutate(**{name: rule(table[f"h{k}"]).cast("int32") for k, (name, rule) in enumerate(rules.items())})
        table = table.drop(*(f"h{k}" for k in range(len(rules))), *dropped)
        if self.session.temporary:
            self.replace(table)
        else:
            self.table, self.derived = unmerged(table), {}

    def numbered(self, letter: str) -> list[str]:
        """The names of columns of the table that are this letter and a number, such as w0, w1, …"""
        return [name for name in self.table.columns if name[0] == letter and name[1:].isdigit()]

    def descend(self, move: Moves) -> None:
        """Move each record to the child that the released split of its node gives."""
        if not move.splits:
            return
        n_splits = sum(len(moves.splits) for moves in self._moves) + len(move.splits)
        if not self.session.temporary:
            if n_splits > MOST_SPLITS:
                raise ParameterError(TOO_DEEP)
            self._moves.append(move)
            return
        if len(move.splits) <= LONG_SPLITS:
            self._moves.append(move)
            if n_splits > SHALLOW_SPLITS:
                self.settle()
            return
        self.derived |= {f"n{k}": number(root) for k, root in enumerate(self.roots) if root is not None}
        self.settle()
        self.start([None] * self.n_copies)
        follow_long(self.replace, lambda: self.table, move, self.n_copies, self.domain.n_features)

    def walked(self, forest: Forest) -> "Placed":
        """A new table of the same records, with one copy for each tree of a released forest, at the leaves."""
        other = Placed(self.table, self.session, self.domain)
        if self.session.temporary:
            dropped = [*self.numbered("n"), *self.numbered("w")]
            other.table = self.session.keep(self.table.drop(*dropped) if dropped else self.table)
        other.start(range(forest.n_trees))
        for level in forest.level_slices()[:-1]:
            routes = forest.routes[np.maximum(forest.splits[level], 0)]
            move = (level.start, forest.features[level], routes, forest.first_children[level])
            other.descend(Moves.of(*move, self.domain))
        return other

    def choices(self, forest: Forest) -> list[Any]:
        """For each tree an expression for the class that it votes for; records must be at the leaves of the forest."""
        chosen = forest.votes.argmax(axis=1).tolist()
        return [self.at_node(copy, 0, chosen) for copy in range(forest.n_trees)]


def unmerged(table: Any) -> Any:
    """The same table, as a query that engines compute by itself: expressions over its columns do not repeat theirs.

    A column of row numbers keeps queries from being merged; engines do not compute what nobody reads.
    """
    return table.mutate(barrier=ibis.row_number())
