"""Draws for records in memory: which trees each is in, and whether it is held out. Sees how many records there are."""

import math
from fractions import Fraction
from itertools import accumulate
from math import factorial

import numpy as np
from numba import njit

from dpforest.mechanisms import Entropy
from dpforest.mechanisms.exact import draw_below, next_bits
from dpforest.records.base import AllTrees, Assignment, OneTree

NO_WEIGHTS = np.empty((0, 0), dtype=np.uint8)
# Shares of held-out records are multiples of one over this.
COIN_SIDES = 1 << 20


def draw_roots(assignment: Assignment, n_records: int, entropy: Entropy) -> tuple[np.ndarray, np.ndarray]:
    """Roots ``(n_copies, n_records)`` of all records, and the weights of the copies (none: each counts once)."""
    n_trees = assignment.n_trees
    if isinstance(assignment, OneTree):
        roots = np.zeros((1, n_records), dtype=np.int32)
        if n_trees > 1:
            entropy.draw_for_records(draw_below, roots, n_trees)
        return roots, NO_WEIGHTS
    roots = np.empty((n_trees, n_records), dtype=np.int32)
    roots[:] = np.arange(n_trees)[:, None]
    if isinstance(assignment, AllTrees):
        return roots, NO_WEIGHTS
    weights = np.empty((n_trees, n_records), dtype=np.uint8)
    entropy.draw_for_records(draw_poisson, weights, POISSON_TABLE)
    return roots, weights


def draw_held_out(n_records: int, share: float, entropy: Entropy) -> np.ndarray:
    """Mask of the records that are held out: a coin for each, which shows its side with probability ``share``."""
    coins = np.empty(n_records, dtype=np.int64)
    entropy.draw_for_records(draw_below, coins, COIN_SIDES)
    return coins < round(share * COIN_SIDES)


def poisson_shares() -> list[Fraction]:
    """P[Poisson(1) <= k] for k = 0 .. 14, never too low: a draw by these is never too high.

    1/e is bounded from above by a partial sum of its alternating series that ends with a positive term.
    """
    inverse_e = sum((Fraction((-1) ** k, factorial(k)) for k in range(41)), Fraction(0))
    return list(accumulate(inverse_e / factorial(k) for k in range(15)))


# ``table[k]`` is at least 2**64 P[Poisson(1) <= k]: a uniform word w stands for the number of entries <= w.
POISSON_TABLE = np.array([min(math.ceil(share * 2**64), 2**64 - 1) for share in poisson_shares()], dtype=np.uint64)
ALL_BITS = np.uint64((1 << 64) - 1)


@njit(cache=True, nogil=True)
def draw_poisson(words, cursor, first, table, weights):
    for item in range(first, weights.size):
        begin = cursor[0]
        word = next_bits(ALL_BITS, words, cursor)
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
        k = 0
        while k < table.size and word >= table[k]:
            k += 1
        weights[item] = k
    return weights.size
