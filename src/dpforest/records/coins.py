"""Coins of records: their trees, batches, hold-outs and secret samples. Sees the number of records, no values."""

import math
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numba import njit

from dpforest.mechanisms import Entropy
from dpforest.mechanisms.exact import draw_below, next_bits, next_word
from dpforest.privacy.amplification import SHARE_STEPS
from dpforest.records.base import AllTrees, Assignment, OneTree

NO_WEIGHTS = np.empty((0, 0), dtype=np.uint8)
# A share of held-out records is a multiple of 1 / COIN_SIDES.
COIN_SIDES = 1 << 20
# So many coins are tossed at once: what is kept of them takes little memory.
COINS_AT_ONCE = 1 << 22
ALL_BITS = np.uint64((1 << 64) - 1)


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


def draw_kept(n_records: int, share: Fraction, entropy: Entropy) -> np.ndarray:
    """The increasing indices of the records in a secret sample.

    Privacy:
        Claim: records are kept independently, each with probability ``share`` exactly.
        Because: a share is a whole number t of 2**-20, and a coin is a uniform number of 20 bits, which is below t with
            probability t * 2**-20. Its first 16 bits decide, unless they are those of t; then 4 more are drawn.
        Assumes: coins are those of ``Entropy``, and stay secret.
    """
    return entropy.sample_records(_by_coins, n_records, share)


def _by_coins(n_records: int, share: Fraction, entropy: Entropy) -> np.ndarray:
    steps = share * SHARE_STEPS
    if steps.denominator != 1:
        raise ValueError("A share is a multiple of 2**-20.")
    if share == 1:
        return np.arange(n_records)
    found = [np.empty(0, dtype=np.int64)]
    for first in range(0, n_records, COINS_AT_ONCE):
        kept = np.empty(min(COINS_AT_ONCE, n_records - first), dtype=np.bool_)
        entropy.run(toss_coins, kept.size, int(steps), kept)
        found.append(first + np.flatnonzero(kept))
    return np.concatenate(found)


@njit(cache=True, nogil=True)
def toss_coins(words, cursor, first, steps, kept):
    """Fill ``kept`` with whether a coin of 20 bits is below ``steps``; see ``Entropy.run``."""
    high, low = np.uint64(steps >> 4), np.uint64(steps & 15)
    for item in range(first, kept.size):
        begin = cursor[0]
        word = next_word(words, cursor)
        is_kept = word < high
        if word == high:
            is_kept = next_word(words, cursor) & np.uint64(15) < low
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
        kept[item] = is_kept
    return kept.size


# An upper bound of 1/e, and very close: a partial sum of its alternating series that ends with a positive term.
_INVERSE_E = sum((Fraction((-1) ** k, math.factorial(k)) for k in range(41)), Fraction(0))
# Entry k is at least 2**64 P[Poisson(1) <= k], so draws by it are never too high: a draw is the number of entries at or
# below a uniform word of 64 bits.
_SHARES = accumulate(_INVERSE_E / math.factorial(k) for k in range(15))
POISSON_TABLE = np.array([min(math.ceil(share * 2**64), 2**64 - 1) for share in _SHARES], dtype=np.uint64)


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
