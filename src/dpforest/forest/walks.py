"""Walks of records through released trees, as kernels on integer arrays. Sees released values, and codes to predict."""

import numpy as np
from numba import njit

# Records that are worked on at once, so that their codes and a tree stay in the processor's cache.
ROWS_AT_ONCE = 1 << 10


def coins(codes: np.ndarray) -> np.ndarray:
    """A number in [0, 1) for each record, from its codes alone: its prediction does not depend on other records."""
    mixed = np.full(codes.shape[1], 0x2545F4914F6CDD1D, dtype=np.uint64)
    for column in codes.astype(np.uint64):
        # The finisher of SplitMix64: every bit of a code reaches every bit of the coin.
        mixed = (mixed ^ column) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return np.asarray(mixed >> np.uint64(11)) / 2.0**53


@njit(cache=True, nogil=True)
def sum_children(parents, first_children, chosen, values):
    """Set ``values`` ``(n_nodes, n_values)`` of the nodes of the mask ``chosen`` to the sums over their children; 0 of none.

    Children follow one another and have larger numbers than their parent, so they are done before it.
    """
    for node in range(parents.size - 1, -1, -1):
        if chosen[node]:
            values[node] = 0.0
            child = first_children[node]
            while 0 <= child < parents.size and parents[child] == node:
                for value in range(values.shape[1]):
                    values[node, value] += values[child, value]
                child += 1


@njit(cache=True, nogil=True)
def _walk(codes, begin, n_steps, nodes, routes, reached):
    """Move records ``n_steps`` levels down in one tree: ``reached`` has the nodes of the records from ``begin`` on.

    A row of ``nodes`` has five numbers if some feature is wide, the last two being the run of its first child, or -1.
    """
    flat, first = codes.reshape(-1), np.uint64(begin)
    n_records = np.uint64(codes.shape[1])
    for _ in range(n_steps):
        for record in range(np.uint64(reached.size)):
            node = np.uint64(reached[record])
            code = flat[np.uint64(nodes[node, 0]) * n_records + first + record]
            if nodes.shape[1] > 3 and nodes[node, 3] >= 0:
                reached[record] = nodes[node, 2] + (code < nodes[node, 3] or code >= nodes[node, 4])
            else:
                reached[record] = nodes[node, 2] + routes[np.uint64(nodes[node, 1]) + code]


@njit(cache=True, nogil=True)
def add_votes(codes, nodes, routes, depths, votes, totals):
    """Add the votes of all trees to ``totals`` ``(n_records, n_values)``.

    It takes a tree at a time for a block of records.
    """
    reached = np.empty(ROWS_AT_ONCE, dtype=np.int64)
    for begin in range(0, totals.shape[0], ROWS_AT_ONCE):
        own = reached[: min(ROWS_AT_ONCE, totals.shape[0] - begin)]
        for tree in range(depths.size):
            own[:] = tree
            _walk(codes, begin, depths[tree], nodes, routes, own)
            for record in range(own.size):
                for value in range(totals.shape[1]):
                    totals[begin + record, value] += votes[own[record], value]


@njit(cache=True, nogil=True)
def find_leaves(codes, nodes, routes, depths, leaves):
    """Fill ``leaves`` ``(n_trees, n_records)`` with the leaf that each record reaches in each tree."""
    for tree in range(depths.size):
        leaves[tree] = tree
        _walk(codes, 0, depths[tree], nodes, routes, leaves[tree])
