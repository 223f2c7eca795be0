"""What both choice mechanisms use: the valid candidates of a node and their distance from the best. Sees opened scores."""

from collections.abc import Callable

import numpy as np
from numba import njit

from dpforest.mechanisms.entropy import Entropy
from dpforest.mechanisms.rates import MOST_DIFFERENCE, Rate


def choose(kernel: Callable[..., int], scores: np.ndarray, valid: np.ndarray, rate: Rate, entropy: Entropy) -> np.ndarray:
    """The index of the candidate that a kernel chooses at each node, ``(n_nodes,)``; -1 where none is valid."""
    chosen = np.full(len(scores), -1, dtype=np.int64)
    listed = np.empty(scores.shape[1], dtype=np.int64)
    entropy.run(kernel, len(scores), scores, valid, rate.numerator, rate.denominator, listed, chosen)
    return chosen


@njit(cache=True, nogil=True)
def list_valid(scores, valid, node, listed):
    """The number of valid candidates of a node, and their best score; their indices are written to ``listed``."""
    n_listed = 0
    best = np.int64(-(2**62))
    for candidate in range(scores.shape[1]):
        if valid[node, candidate]:
            listed[n_listed] = candidate
            n_listed += 1
            best = max(best, scores[node, candidate])
    return n_listed, best


@njit(cache=True, nogil=True)
def distance(scores, node, candidate, best):
    """By how much a candidate's score is below the best, at most ``MOST_DIFFERENCE`` so that a product fits 64 bits."""
    return min(best - scores[node, candidate], MOST_DIFFERENCE)
