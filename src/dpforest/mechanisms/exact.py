"""Exact samplers on integers: uniform, Bernoulli(exp(-gamma)) and geometric draws, and their rates. Sees random words only.

Every function reads 16-bit words from ``words`` at ``cursor[0]``, since most draws need few bits. When the words run out
``cursor[1]`` becomes 1 and the result is void: the caller (see ``entropy.py``) puts the
cursor back to where the item began, appends fresh words and runs the item again *on the
same words*, so an item is one fixed function of an endless stream and nothing is biased.

Why integers: a flip decided in floating point has a probability that is only nearly
exp(-gamma), and the difference can be seen in the output [mironov2012].
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba import njit

from dpforest.errors import ParameterError

# A score difference times a numerator must stay below 2**63, see MOST_DIFFERENCE.
NUMERATOR_BITS = 17
DENOMINATOR_BITS = 55
MOST_DIFFERENCE = 1 << 45


@dataclass(frozen=True)
class Rate:
    """A positive fraction ``numerator / denominator`` that fits 64-bit arithmetic."""

    numerator: int
    denominator: int

    @classmethod
    def below(cls, value: Fraction) -> "Rate":
        """The largest short fraction that is not above ``value``.

        Privacy: none by itself. Rounding down means weaker selection or more noise, so what is charged for ``value`` covers
        what is run. For values from 2**-38 to 2**17 the loss of sharpness is below one part in 60,000.
        """
        if value <= 0:
            raise ParameterError(f"A rate must be positive, not {float(value):.3g}.")
        bits = NUMERATOR_BITS - 1 - (value.numerator.bit_length() - value.denominator.bit_length())
        # The difference of lengths can be one too large, which would leave a numerator of one bit less.
        bits += int(value * Fraction(2) ** bits) < 1 << (NUMERATOR_BITS - 1)
        bits = min(max(bits, 0), DENOMINATOR_BITS)
        numerator = int(value * (1 << bits))
        if numerator == 0:
            raise ParameterError(
                f"The budget leaves a rate of {float(value):.3g} for one step, below 2**-{DENOMINATOR_BITS}. "
                "Raise epsilon, or use fewer trees or levels."
            )
        return cls(min(numerator, (1 << NUMERATOR_BITS) - 1), 1 << bits)


@njit(cache=True, nogil=True)
def next_word(words, cursor):
    """The next 16 random bits; 0 once the words have run out."""
    if cursor[0] >= words.size:
        cursor[1] = 1
        return np.uint64(0)
    word = np.uint64(words[cursor[0]])
    cursor[0] += 1
    return word


@njit(cache=True, nogil=True)
def next_bits(mask, words, cursor):
    """Random bits where ``mask`` (ones at its low end) has ones, from as few words as these need."""
    bits, shift = next_word(words, cursor), np.uint64(16)
    while mask >> shift:
        bits |= next_word(words, cursor) << shift
        shift += np.uint64(16)
        if shift == 64:
            break
    return bits & mask


@njit(cache=True, nogil=True)
def uniform_below(n, words, cursor):
    """A uniform integer in 0 .. n-1, by rejection from the next power of two."""
    if n == 1:
        return np.int64(0)
    mask = np.uint64(n - 1)
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    while True:
        value = np.int64(next_bits(mask, words, cursor))
        if value < n or cursor[1]:
            return value


@njit(cache=True, nogil=True)
def bernoulli(numerator, denominator, words, cursor):
    """True with probability ``numerator / denominator``."""
    return uniform_below(denominator, words, cursor) < numerator


@njit(cache=True, nogil=True)
def bernoulli_exp_product(p, q, r, s, words, cursor):
    """True with probability exp(-(p/q)(r/s)), for fractions p/q and r/s in [0, 1].

    Von Neumann's alternating series: flip with probability gamma/k for k = 1, 2, ... until a
    flip fails; the first failure comes at an odd k with probability exp(-gamma)
    [canonne2020, Algorithm 1]. A flip of gamma/k is three flips: p/q, r/s and 1/k.
    """
    k = 1
    while bernoulli(p, q, words, cursor) and bernoulli(r, s, words, cursor) and uniform_below(k, words, cursor) == 0:
        if cursor[1]:
            return False
        k += 1
    return k % 2 == 1


FLIPS = 2 * 3 * 4 * 5 * 6 * 7


def _first_failures() -> np.ndarray:
    """A table over u below FLIPS: 1 (0) if the first failing flip has an odd (even) k, 2 if none fails.

    The digits of u to the bases 2 .. 7 are independent and uniform; flip k, of probability 1/k, succeeds if its digit is 0.
    """
    table = np.full(FLIPS, 2, dtype=np.uint8)
    rest = np.arange(FLIPS)
    for k in range(2, 8):
        table[(table == 2) & (rest % k > 0)] = k % 2
        rest //= k
    return table


FIRST_FAILURES = _first_failures()


@njit(cache=True, nogil=True)
def bernoulli_exp_one(words, cursor):
    """True with probability exp(-1): ``bernoulli_exp_product`` with gamma = 1, the flips of 2 .. 7 from one word."""
    most = np.uint64((1 << 16) // FLIPS * FLIPS)
    while True:
        word = next_word(words, cursor)
        if word < most:
            break
    outcome = FIRST_FAILURES[word % np.uint64(FLIPS)]
    k = 8
    while outcome == 2 and not cursor[1]:
        if uniform_below(k, words, cursor) > 0:
            outcome = k % 2
        k += 1
    return outcome == 1


@njit(cache=True, nogil=True)
def bernoulli_exp(numerator, denominator, words, cursor):
    """True with probability exp(-numerator/denominator), for any fraction >= 0."""
    # exp(-gamma) is a product: one flip of exp(-1) for each whole unit, stopped at the first
    # failure, so a very bad candidate costs 1.6 flips however large its gamma is.
    for _ in range(numerator // denominator):
        if not bernoulli_exp_one(words, cursor) or cursor[1]:
            return False
    rest = numerator % denominator
    return rest == 0 or bernoulli_exp_product(rest, denominator, 1, 1, words, cursor)


@njit(cache=True, nogil=True)
def bernoulli_exp_square(p, q, r, s, words, cursor):
    """True with probability exp(-(p/q)(r/s)) for any fractions >= 0, without forming p*r or q*s."""
    whole_left, whole_right = p // q, r // s
    rest_left, rest_right = p % q, r % s
    for _ in range(whole_left * whole_right):
        if not bernoulli_exp_one(words, cursor) or cursor[1]:
            return False
    for _ in range(whole_left):
        if not bernoulli_exp_product(rest_right, s, 1, 1, words, cursor) or cursor[1]:
            return False
    for _ in range(whole_right):
        if not bernoulli_exp_product(rest_left, q, 1, 1, words, cursor) or cursor[1]:
            return False
    return bernoulli_exp_product(rest_left, q, rest_right, s, words, cursor)


@njit(cache=True, nogil=True)
def geometric(numerator, denominator, words, cursor):
    """An integer k >= 0 with probability proportional to exp(-k numerator/denominator) [canonne2020, Algorithm 2]."""
    while True:
        low = uniform_below(denominator, words, cursor)
        if low == 0 or bernoulli_exp_product(low, denominator, 1, 1, words, cursor):
            high = 0
            while bernoulli_exp_one(words, cursor) and not cursor[1]:
                high += 1
            return (low + high * denominator) // numerator
        if cursor[1]:
            return 0


@njit(cache=True, nogil=True)
def two_sided_geometric(numerator, denominator, words, cursor):
    """An integer k with probability proportional to exp(-|k| numerator/denominator) [canonne2020, Algorithm 2]."""
    while True:
        size = geometric(numerator, denominator, words, cursor)
        negative = next_word(words, cursor) & np.uint64(1)
        # Zero must come once, not once with each sign.
        if cursor[1] or not (negative and size == 0):
            return -size if negative else size


@njit(cache=True, nogil=True)
def draw_below(words, cursor, first, n, values):
    """Fill ``values`` with uniform integers in 0 .. n-1; see ``Entropy.run``.

    Several are taken from one x of 32 bits, as many as fit with room to spare, so that the operating system is asked for few
    words. To multiply x by n, and the lower 32 bits of the product by n again, and so on k times, gives k digits in base n:
    those of D in x n**k = D 2**32 + rest. Each D has the same number of x once those with rest < 2**32 mod n**k are drawn
    again [lemire2019].
    """
    n_digits, power = 0, np.uint64(1)
    while n_digits < 24 and power * np.uint64(n) <= 1 << 24:
        n_digits, power = n_digits + 1, power * np.uint64(n)
    mask = np.uint64(0xFFFFFFFF)
    least = np.uint64(1 << 32) % power
    item = first
    while item < values.size:
        begin = cursor[0]
        if n_digits == 0:
            values[item] = uniform_below(n, words, cursor)
            stop = item + 1
        else:
            rest, stop = next_bits(mask, words, cursor), min(item + n_digits, values.size)
            for digit in range(n_digits):
                rest *= np.uint64(n)
                if item + digit < stop:
                    values[item + digit] = rest >> np.uint64(32)
                rest &= mask
            if rest < least and not cursor[1]:
                continue
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
        item = stop
    return values.size
