"""A secret sample of records, by gaps between those that are kept. Sees the number of records, no values.

Each record is kept with probability q, by a coin of its own. The number of records that are passed over before the next one
is kept is geometric, P[G >= g] = r**g with r = 1 - q, so one draw serves for all of them, and the cost follows the sample.

Privacy:
    Claim: records are kept independently, each with probability q exactly.
    Because: a draw compares a uniform number u in [0, 1) with r, r**2, .. r**K. If u < r**K it says that K records are
        passed over, and nothing of what follows (the law has no memory); else the largest g with u < r**g is the gap. Of u
        the first 64 bits are drawn and compared with those of each power, in whole numbers. Where they are equal, more bits
        of u are drawn and compared with the exact power.
    Assumes: coins are those of ``Entropy``, and stay secret.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numba import njit

from dpforest.mechanisms import Entropy
from dpforest.mechanisms.exact import next_bits
from dpforest.records.draws import ALL_BITS

# The table has powers down to about exp(-8), but no more than so many.
FAR, MOST_POWERS = 8, 1 << 16
WORD = 64  # bits of u that are drawn first
GUARD = 128  # further bits of powers, while the table is made


def draw_kept(n_records: int, share: Fraction, entropy: Entropy) -> np.ndarray:
    """The indices of the records that are kept, increasing, each with probability ``share``."""
    return entropy.sample_records(_by_gaps, n_records, share)


def _by_gaps(n_records: int, share: Fraction, entropy: Entropy) -> np.ndarray:
    if share == 1:
        return np.arange(n_records)
    table, reached, found = powers(share), -1, [np.empty(0, dtype=np.int64)]
    while reached < n_records - 1:
        # As many draws as the records that are left will need, and some more.
        expected = (n_records - reached) * float(share) / (1 - float(1 - share) ** len(table))
        draws = np.empty(math.ceil(expected + 4 * math.sqrt(expected)) + 1, dtype=np.int64)
        entropy.run(draw_gaps, draws.size, table, 1 / math.log1p(-float(share)), draws)
        for item in np.flatnonzero(draws < 0).tolist():
            draws[item] = _decided(int(-draws[item]), share, entropy)
        is_gap = draws < len(table)
        ends = reached + np.cumsum(draws + is_gap)
        found.append(ends[is_gap])
        reached = int(ends[-1])
    kept = np.concatenate(found)
    return kept[: np.searchsorted(kept, n_records)]


@lru_cache(maxsize=8)
def powers(share: Fraction) -> np.ndarray:
    """The first 64 bits of r, r**2, .. for r = 1 - ``share``, as whole numbers; see ``draw_gaps``."""
    rest = 1 - share
    found: list[int] = []
    # Bounds of the power times 2**(WORD + GUARD); they part so slowly that the first bits are known.
    low = high = 1 << (WORD + GUARD)
    for _ in range(min(math.ceil(FAR / share), MOST_POWERS)):
        low = low * rest.numerator // rest.denominator
        high = -(-high * rest.numerator // rest.denominator)
        if low >> GUARD != high >> GUARD or found[-1:] == [low >> GUARD]:
            break  # a shorter table is as good, and in this one no two powers are alike
        found.append(low >> GUARD)
    return np.array(found, dtype=np.uint64)


def _decided(power: int, share: Fraction, entropy: Entropy) -> int:
    """The draw of a number u whose first 64 bits are those of r**power: ``power`` if u < r**power, else one less."""
    rest = ((1 - share) ** power * 2**WORD) % 1
    while True:
        word = np.empty(1, dtype=np.uint64)
        entropy.run(draw_words, 1, word)
        rest *= 2**WORD
        first = rest.numerator // rest.denominator
        if int(word[0]) != first:
            return power if int(word[0]) < first else power - 1
        rest -= first


@njit(cache=True, nogil=True)
def draw_gaps(words, cursor, first, table, scale, draws):
    """Fill ``draws`` with the largest g such that u < r**g, at most ``table.size``; see ``Entropy.run``.

    ``table`` has the first bits of r, r**2, ..; ``scale`` is 1 / log(r), by which a first guess is made. Minus g says that u
    is as r**g as far as it was drawn.
    """
    for item in range(first, draws.size):
        begin = cursor[0]
        word = next_bits(ALL_BITS, words, cursor)
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
        guess = math.log((float(word) + 1.0) * 2.0**-64) * scale
        g = min(max(int(guess), 0), table.size)
        while g < table.size and word <= table[g]:
            g += 1
        while g > 0 and word > table[g - 1]:
            g -= 1
        draws[item] = -g if g > 0 and word == table[g - 1] else g
    return draws.size


@njit(cache=True, nogil=True)
def draw_words(words, cursor, first, values):
    """Fill ``values`` with uniform words of 64 bits; see ``Entropy.run``."""
    for item in range(first, values.size):
        begin = cursor[0]
        values[item] = next_bits(ALL_BITS, words, cursor)
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
    return values.size
