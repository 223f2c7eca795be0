"""Released splits as expressions of a query, by which records go from node to node. Released values only."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import ibis
import numpy as np

from dpforest.records.sql.lookups import Split, runs, steps, walk
from dpforest.schema.domain import Domain

# The number of copies of the records that are moved by joins in one query.
COPIES_AT_ONCE = 4


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
    codes: Callable[[int], Any],
    moves: list[Moves],
    root: int | None,
    column: Any,
    leaf: Callable[[int], Any],
    unmoved: Callable[[], Any],
) -> Any:
    """An expression for ``leaf`` of the node that a record reaches by ``moves``, from a known root or the node in a column.

    ``unmoved`` gives the expression for records whose node, in the column, is not split.
    """
    splits = {node: split for level in moves for node, split in level.splits.items()}
    if root is not None:
        return walk(codes, splits, root, leaf)
    if not moves:
        return unmoved()
    nodes = sorted(moves[0].splits)
    # Between nodes that are split are others that are not: records of a run of these stay where they are.
    starts, results = [nodes[0]], []
    for index, node in enumerate(nodes):
        results.append(walk(codes, splits, node, leaf))
        follower = nodes[index + 1] if index + 1 < len(nodes) else None
        if follower is None or follower > node + 1:
            starts.append(node + 1)
            results.append(unmoved())
        if follower is not None:
            starts.append(follower)
    moved = steps(column, starts, results)
    return ibis.cases((column < nodes[0], unmoved()), else_=moved)


def follow_long(
    replace: Callable[[Any], None], current: Callable[[], Any], moves: Moves, n_copies: int, n_features: int
) -> None:
    """Move all copies of the records by many splits, which are joined as a table of runs of codes.

    ``current`` gives the table of records, and ``replace`` is called with the table that takes its place.
    """
    asked = _in_memory(split_node=moves.splits, split_feature=[feature for feature, _, _ in moves.splits.values()])
    parts = [
        (node, low, high, first_child + child)
        for node, (_, route, first_child) in moves.splits.items()
        for low, high, child in runs(route)
    ]
    nodes, lows, highs, children = zip(*parts, strict=True)
    routes = _in_memory(run_node=nodes, run_low=lows, run_high=highs, run_child=children)
    for start in range(0, n_copies, COPIES_AT_ONCE):
        table = current()
        for copy in range(start, min(n_copies, start + COPIES_AT_ONCE)):
            table = _follow(table, f"n{copy}", asked, routes, n_features)
        replace(table)


def _in_memory(**columns: Iterable[int]) -> Any:
    """A small public table of integers, which is sent with the query."""
    import pyarrow as pa

    return ibis.memtable(pa.table({name: pa.array(list(values), pa.int32()) for name, values in columns.items()}))


def _follow(table: Any, name: str, asked: Any, routes: Any, n_features: int) -> Any:
    """The table of records with new nodes in the column ``name``."""
    columns = list(table.columns)
    table = table.left_join(asked, table[name] == asked["split_node"]).select(*columns, "split_feature")
    code = ibis.cases(*((table["split_feature"] == k, table[f"c{k}"].cast("int32")) for k in range(n_features)))
    table = table.mutate(split_code=code)
    found = (
        table[name] == routes["run_node"],
        table["split_code"] >= routes["run_low"],
        table["split_code"] <= routes["run_high"],
    )
    table = table.left_join(routes, found)
    child = ibis.coalesce(table["run_child"], table[name])
    return table.select(*[column for column in columns if column != name], **{name: child})
