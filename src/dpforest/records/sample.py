"""A secret sample of records, by a coin for each. Sees the number of records, no values.

Privacy:
    Claim: records are kept independently, each with probability ``share`` exactly.
    Because: a share is a whole number t of 2**-20, and a coin is a uniform number of 20 bits, which is below t with
        probability t * 2**-20. Its first 16 bits decide, unless they are those of t; then 4 more are drawn.
    Assumes: coins are those of ``Entropy``, and stay secret.
"""

from fractions import Fraction

import numpy as np
from numba import njit

from dpforest.mechanisms import Entropy
from dpforest.mechanisms.exact import next_word
from dpforest.privacy.amplification import SHARE_STEPS

# So many coins are tossed at once: what is kept of them takes little memory.
COINS_AT_ONCE = 1 << 22


def draw_kept(n_records: int, share: Fraction, entropy: Entropy) -> np.ndarray:
    """The indices of the records that are kept, increasing, each with probability ``share``."""
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
