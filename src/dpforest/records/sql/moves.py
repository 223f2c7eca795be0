"""Released splits as expressions of a query, by which records go from node to node. Released values only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpforest.records.sql.expressions import Split, cases, runs, steps, walk
from dpforest.records.sql.session import Relation, Session
from dpforest.schema.domain import Domain


@dataclass(frozen=True)
class Moves:
    """The released splits of one level, by node; nodes that are not split are absent."""

    splits: dict[int, Split]

    @classmethod
    def of(cls, first: int, features: np.ndarray, routes: np.ndarray, first_children: np.ndarray, domain: Domain) -> "Moves":
        """The splits of the nodes from ``first``, given by arrays over these nodes; see ``Counter.descend``."""
        splits = {
            first + int(node): (
                int(features[node]),
                domain.route(int(features[node]), routes[node]),
                int(first_children[node]),
            )
            for node in np.flatnonzero(features >= 0)
        }
        return cls(splits)


def node_of(
    moves: Sequence[Moves], root: int | None, column: str, leaf: Callable[[int], str], unmoved: Callable[[], str]
) -> str:
    """What ``leaf`` says of the node that a record reaches by ``moves``, from a known root or from the node in a column.

    ``unmoved`` gives the expression for records whose node, in the column, is not split.
    """
    splits = {node: split for level in moves for node, split in level.splits.items()}
    if root is not None:
        return walk(splits, root, leaf)
    if not moves:
        return unmoved()
    nodes = sorted(moves[0].splits)
    # Between nodes that are split are others that are not: records of a run of these stay where they are.
    starts, results = [nodes[0]], []
    for index, node in enumerate(nodes):
        results.append(walk(splits, node, leaf))
        follower = nodes[index + 1] if index + 1 < len(nodes) else None
        if follower is None or follower > node + 1:
            starts.append(node + 1)
            results.append(unmoved())
        if follower is not None:
            starts.append(follower)
    return cases((f"{column} < {nodes[0]}", unmoved()), otherwise=steps(column, [*map(str, starts)], results))


def follow_long(session: Session, table: Relation, moves: Moves, n_copies: int, n_features: int) -> Relation:
    """A table of the same records, all copies of which have been moved by many splits; the old table is dropped.

    The splits are joined as a table of runs of codes.
    """
    asked = session.send({"node": [*moves.splits], "feature": [feature for feature, _, _ in moves.splits.values()]})
    parts = [
        (node, low, high, first_child + child)
        for node, (_, route, first_child) in moves.splits.items()
        for low, high, child in runs(route)
    ]
    routes = session.send(dict(zip(("node", "low", "high", "child"), zip(*parts, strict=True), strict=True)))
    for copy in range(n_copies):
        own = f"n{copy}"
        code = cases(*((f"feature = {k}", f"c{k}") for k in range(n_features)), otherwise="NULL")
        coded = f"SELECT t.*, feature, {code} AS code FROM {table.name} AS t LEFT JOIN {asked.name} AS a ON t.{own} = a.node"
        columns = (f"COALESCE(r.child, t.{own}) AS {own}" if name == own else f"t.{name}" for name in table.columns)
        found = f"t.{own} = r.node AND t.code >= r.low AND t.code <= r.high"
        moved = session.let(
            f"SELECT {', '.join(columns)} FROM ({coded}) AS t LEFT JOIN {routes.name} AS r ON {found}", table.columns, table
        )
        session.drop(table)
        table = moved
    session.drop(asked)
    session.drop(routes)
    return table
