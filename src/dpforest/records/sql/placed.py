"""The table of encoded records in a database, and the nodes that they have reached. Builds queries; sees no rows.

Its columns are ``c0``, ``c1``, … the codes of features, ``y`` the target that is counted, ``fine`` a bounded target on its
fine grid, ``n0``, ``n1``, … the node that each copy of a record has reached, ``w0``, … weights, ``s0``, … scores, ``side``,
and ``r0``, … residuals. Columns that follow from others stay expressions while they are short; then they are written.
Without temporary tables all of it is an expression over the original table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.records.sql import coins
from dpforest.records.sql.expressions import cast, clip, entry, is_one_of, number, pick
from dpforest.records.sql.moves import Moves, follow_long, node_of
from dpforest.records.sql.session import Join, Relation, Session, listed, names
from dpforest.records.sql.vault import TOO_DEEP
from dpforest.schema.domain import Domain

# Up to this many splits are part of each query; with more, a temporary table keeps the nodes that records have reached.
SHALLOW_SPLITS = 1
# Up to this many splits of one level are written into a query; with more, they are a table that is joined.
LONG_SPLITS = 512
# Without temporary tables all splits are part of each query: the most that there may be.
MOST_SPLITS = 1 << 12
# The number of trees that records follow in one query: engines limit how deep expressions may be.
TREES_AT_ONCE = 32
# Scores stay within this range, of whole steps.
MOST_SCORE = 1 << 29


class Placed:
    """A table of encoded records, and the node that each copy of a record has reached.

    Privacy: not private by itself; nothing leaves the database here. Draws are made where the rows are, by a hash with a
    secret key that is fresh for every column: see ``coins``. With temporary tables they are drawn by row number and
    kept; without, by the codes of a record alone.
    """

    def __init__(self, table: Relation, session: Session, domain: Domain) -> None:
        self.session = session
        self.domain = domain
        self.table = table
        self.derived: dict[str, str] = {}  # columns that are expressions over the table
        self.roots: list[int | None] = []  # the root of all records in each copy; None if a column has the node of each
        self._moves: list[Moves] = []  # the splits that records have to follow from there

    @property
    def n_copies(self) -> int:
        return len(self.roots)

    def column(self, name: str) -> str:
        """A column of the table, or the expression that stands for it."""
        return f"({self.derived[name]})" if name in self.derived else name

    def start(self, roots: Sequence[int | None]) -> None:
        """Put each copy of the records at a root, or at the nodes in its column where that is None."""
        self.roots, self._moves = list(roots), []

    def at_node(self, copy: int, first: int, table: Iterable[int | None]) -> str:
        """An expression for ``table[node - first]`` of the node that a copy of each record has reached; null outside."""
        entries = list(table)

        def leaf(node: int) -> str:
            return number(entries[node - first] if 0 <= node - first < len(entries) else None)

        column, root = f"n{copy}", self.roots[copy]
        return node_of(self._moves, root, column, leaf, lambda: pick(column, first, entries))

    def at_asked(self, copy: int, first: int, asked: np.ndarray) -> tuple[str, str]:
        """A condition for records to be at nodes that are asked about, and an expression for their node less ``first``.

        ``asked`` is a mask over the nodes from ``first``.
        """
        if self.roots[copy] is None and not self._moves:
            column = f"n{copy}"
            condition = f"{column} >= {first} AND {column} < {first + len(asked)}"
            if not asked.all():
                condition = is_one_of(column, (first + np.flatnonzero(asked)).tolist())
            return condition, f"({column} - {first})"
        node = self.at_node(copy, first, [index if is_asked else None for index, is_asked in enumerate(asked)])
        return (f"{node} IS NOT NULL" if "NULL" in node else "TRUE"), node

    def node(self, copy: int) -> str:
        """An expression for the node that a copy of each record has reached."""
        column = f"n{copy}"
        return node_of(self._moves, self.roots[copy], column, number, partial(str, column))

    def settle(self, join: Join | None = None) -> None:
        """Write all columns that are expressions, and the nodes that records have reached, to a temporary table."""
        nodes = {}
        if self._moves:
            nodes = {f"n{copy}": cast(self.node(copy), "INTEGER") for copy in range(self.n_copies)}
            self.start([None] * self.n_copies)
        if self.derived or nodes:
            self.change(nodes, join)

    def whole(self) -> Relation:
        """The table with all columns, also those that were expressions."""
        if self.derived and not self.session.temporary:
            columns, own = names(self.table.columns, self.derived), listed(self.table.columns, self.derived)
            return self.session.let(f"SELECT {own} FROM {self.table.name}", columns, self.table)
        self.settle()
        return self.table

    def replace(self, select: str, columns: Sequence[str]) -> None:
        """Let the result of a query about this table take its place."""
        old, self.table, self.derived = self.table, self.session.let(select, columns, self.table), {}
        self.session.drop(old)

    def draw(self, entropy: Entropy, rules: Mapping[str, Callable[[str], str]], dropped: Sequence[str] = ()) -> None:
        """Add columns that are functions of coins, drawn for each column anew, and drop others.

        They are kept in a temporary table or, without these, are expressions that give the same values in every query.
        """
        self._moves = []  # draws are for new roots
        self.table, self.derived = self.whole(), {}
        kept = [name for name in self.table.columns if name not in dropped and name not in rules]
        codes = [f"c{feature}" for feature in range(self.domain.n_features)]
        engine, words = self.session.backend.name, {}
        for k in range(len(rules)):
            key = coins.draw_key(entropy)
            by_row = self.session.temporary
            words[f"h{k}"] = coins.word_of_row(key, engine) if by_row else coins.word_of_values(key, codes, engine)
        drawn = {name: cast(rule(f"h{k}"), "INTEGER") for k, (name, rule) in enumerate(rules.items())}
        # A query of its own for the words, so that a comparison does not draw them again.
        tossed = f"SELECT {listed(kept, words)} FROM {self.table.name}"
        source = self.session.define(tossed, names(kept, words), self.table, "MATERIALIZED")
        old, self.table = (
            self.table,
            self.session.let(f"SELECT {listed(kept, drawn)} FROM {source.name}", names(kept, drawn), source),
        )
        self.session.drop(old)

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
        self.table = follow_long(self.session, self.table, move, self.n_copies, self.domain.n_features)

    def add_scores(self, values: np.ndarray) -> None:
        """Add the released ``values`` ``(n_nodes, n_scores)`` of the node that each record has reached to its scores."""
        self._add([(self.node(0), values)])

    def catch_up(self, trees: Sequence[tuple[list[Moves], np.ndarray]]) -> None:
        """Let all records follow trees, given by their splits and the values of their nodes, which are added to scores."""
        for start in range(0, len(trees), TREES_AT_ONCE):
            some = trees[start : start + TREES_AT_ONCE]
            self._add([(node_of(path, 0, "", number, str), values) for path, values in some])

    def _add(self, reached: Sequence[tuple[str, np.ndarray]]) -> None:
        """Add values of nodes, given by expressions for the nodes that a record has reached, to scores."""
        scores = {f"s{k}": f"s{k}" for k in range(reached[0][1].shape[1])}
        for node, values in reached:
            # More than a score can change by makes no difference; so no sum passes 32 bits.
            changes = np.clip(values, -2 * MOST_SCORE, 2 * MOST_SCORE)
            for name, own in zip(scores, changes.T, strict=True):
                scores[name] = clip(f"{scores[name]} + {entry(node, own.tolist())}", -MOST_SCORE, MOST_SCORE)
        self.change(scores)

    def change(self, columns: dict[str, str], join: Join | None = None) -> None:
        """Write columns that are expressions over the table, and those that were left so."""
        self.table, self.derived = self.session.change(self.table, self.derived | columns, join), {}

    def walked(self, forest: Forest) -> "Placed":
        """A new table of the same records, with one copy for each tree of a released forest, at the leaves."""
        other = Placed(self.table, self.session, self.domain)
        if self.session.temporary:
            kept = [name for name in self.table.columns if name[0] not in "nw"]
            other.table = self.session.let(f"SELECT {', '.join(kept)} FROM {self.table.name}", kept, self.table)
        other.derived = dict(self.derived)
        other.start(range(forest.n_trees))
        for level in forest.level_slices()[:-1]:
            routes = forest.routes[np.maximum(forest.splits[level], 0)]
            move = (level.start, forest.features[level], routes, forest.first_children[level])
            other.descend(Moves.of(*move, self.domain))
        return other

    def choices(self, forest: Forest) -> list[str]:
        """For each tree an expression for the class that it votes for; records must be at the leaves of the forest."""
        chosen = forest.votes.argmax(axis=1).tolist()
        return [self.at_node(copy, 0, chosen) for copy in range(forest.n_trees)]
