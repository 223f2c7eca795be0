"""Draws for records in memory: which trees each is in, and whether it is held out. Sees the number of records, no values."""

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
# A share of held-out records is a multiple of 1 / COIN_SIDES.
COIN_SIDES = 1 << 20


def draw_roots(assignment: Assignment, n_records: int, entropy: Entropy) -> tuple[np.ndarray, np.ndarray]:
    """The roots that copies of the records begin at, and their weights, both ``(n_copies, n_records)``.

    There is one copy for each tree that a record can be in at a time; ``NO_WEIGHTS`` means that each counts once.
    """
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
    """Mask ``(n_records,)`` of the records that are held out, each with probability ``share`` by a coin of its own."""
    coins = np.empty(n_records, dtype=np.int64)
    entropy.draw_for_records(draw_below, coins, COIN_SIDES)
    return coins < round(share * COIN_SIDES)


def poisson_shares() -> list[Fraction]:
    """Upper bounds of P[Poisson(1) <= k] for k = 0 .. 14, and very close: so a draw by them is never too high.

    1/e is bounded from above by a partial sum of its alternating series that ends with a positive term.
    """
    inverse_e = sum((Fraction((-1) ** k, factorial(k)) for k in range(41)), Fraction(0))
    return list(accumulate(inverse_e / factorial(k) for k in range(15)))


# Entry k is at least 2**64 P[Poisson(1) <= k]. A uniform word w of 64 bits is drawn, and the number of entries <= w taken.
POISSON_TABLE = np.array([min(math.ceil(share * 2**64), 2**64 - 1) for share in poisson_shares()], dtype=np.uint64)
ALL_BITS = np.uint64((1 << 64) - 1)


@njit(cache=True, nogil=True)
def draw_poisson(words, cursor, first, table, weights):
    """Fill ``weights`` with Poisson(1) draws by ``POISSON_TABLE``; see ``Entropy.run``."""
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
