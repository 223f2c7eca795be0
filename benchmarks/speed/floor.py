"""The floor: one plain pass over packed codes for each level, which any tree that counts all records must make."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numba import njit

N_BINS = 32
WIDTH = 2 * N_BINS  # cells of a node: bins by classes


@njit(cache=True, nogil=True)
def count_columns(packed, nodes, cells, first, stop):
    """Add 1 to ``cells[feature, node * WIDTH + packed]`` for all records and features ``first`` to ``stop``."""
    for feature in range(first, stop):
        column, own = packed[feature], cells[feature]
        for record in range(nodes.size):
            own[nodes[record] * np.uint32(WIDTH) + column[record]] += 1


def pack(X: np.ndarray, y: np.ndarray, lower: float = -4.0, upper: float = 4.0) -> np.ndarray:
    """Bin and class of each cell in one byte, ``(n_features, n_records)``."""
    packed = np.empty(X.shape[::-1], dtype=np.uint8)
    for feature, column in enumerate(X.T):
        bins = np.clip((column - lower) * (N_BINS / (upper - lower)), 0, N_BINS - 1).astype(np.uint8)
        packed[feature] = 2 * bins + y.astype(np.uint8)
    return packed


def nodes_of(n_records: int, depth: int, seed: int) -> list[np.ndarray]:
    """For each level the node of each record, drawn evenly: 32-bit integers ``(n_records,)``."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1 << level, n_records, dtype=np.uint32) for level in range(depth)]


def bare_pass(packed: np.ndarray, levels: list[np.ndarray], threads: int) -> Callable[[], list[np.ndarray]]:
    """A function that counts all levels, a pass each, by feature, node, bin, class ``(n_features, n_nodes * WIDTH)``.

    Each thread has features of its own, so that no table is shared.
    """
    edges = np.linspace(0, len(packed), threads + 1).astype(int).tolist()

    def run() -> list[np.ndarray]:
        counts = []
        with ThreadPoolExecutor(threads) as pool:
            for level, nodes in enumerate(levels):
                cells = np.zeros((len(packed), (1 << level) * WIDTH), dtype=np.int32)
                work = partial(count_columns, packed, nodes, cells)
                list(pool.map(work, edges[:-1], edges[1:]))
                counts.append(cells)
        return counts

    return run
