"""K-norm noise: one joint draw for many sums, of which a record moves each a little. Called by the gate only; sees coins."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from dpforest.errors import ParameterError
from dpforest.mechanisms.entropy import Entropy
from dpforest.mechanisms.exact import bernoulli, geometric, next_word, uniform_below
from dpforest.mechanisms.rates import Rate

# The largest L1 of a block is about the number of values over the rate; so many bits leave room for chance.
MOST_BITS = 61


@dataclass(frozen=True)
class KNorm:
    """Integer noise z in blocks that has a probability proportional to exp(-rate |z|), |z| being the largest L1 of a block.

    Where a record moves each of many blocks by up to the same L1, the largest of them grows no more than one alone: for
    blocks of one number the standard deviation is sqrt(6) times smaller than that of geometric noise for each block.

    Privacy:
        Claim: releasing integers, each block of which one record moves by at most ``l1`` in L1, at rate ``s`` is
            ``s*l1``-DP (pure).
        Because: |z| is a norm, so log P[noise = z] changes by at most ``s |shift| <= s*l1`` [hardt2010]. The draw is
            exact: z uniform in the ball |z| <= k has the stated law if P[k] is proportional to exp(-rate k) times
            the number of points of the ball, for then the sum over k >= |z| of exp(-rate k) is proportional to
            exp(-rate |z|). A sum k of d + 1 geometric draws (d numbers in all) comes with C(k+d, d) exp(-rate k). A
            block of b numbers is drawn as b sizes that sum to at most k, in one of C(k+b, b) ways, with b signs, and a
            zero with a minus rejects all, so that each point of the ball comes once. Thus k must be accepted with a
            probability proportional to the product over blocks of C(k+b, b), divided by C(k+d, d): up to a constant, the
            product of (k+i)/(k+m), i running through 1 .. b of all blocks in increasing order and m through 1 .. d.
            No i is above its m, so each factor is a probability.
        Assumes: values are exact integers; the coins are exact (``exact.py``).
    """

    name = "k-norm"
    status = "proved"

    def draw(self, sizes: tuple[int, ...], rate: Rate, entropy: Entropy) -> np.ndarray:
        """One joint draw of the noise, for blocks of the given sizes one after the other, as integers ``(sum(sizes),)``."""
        noise = np.empty(sum(sizes), dtype=np.int64)
        terms = np.sort(np.concatenate([np.arange(1, size + 1) for size in sizes]))
        entropy.run(_draw, 1, rate.numerator, rate.denominator, np.array(sizes), terms, noise)
        return noise

    @staticmethod
    def limited(rate: Rate, n_values: int) -> Rate:
        """The rate, or 1/n_values if that is less: with less noise than that nearly all draws would be rejected.

        Raises ``ParameterError`` if the noise would not fit 64 bits.
        """
        if n_values * rate.denominator >= rate.numerator << MOST_BITS:
            raise ParameterError(
                f"The budget leaves a rate of {rate.numerator / rate.denominator:.3g} for one draw for {n_values} numbers, "
                f"noise of more than {MOST_BITS} bits. Raise epsilon, or use fewer features."
            )
        return rate if rate.numerator * n_values <= rate.denominator else Rate(1, n_values)

    @staticmethod
    def variances(sizes: tuple[int, ...], rate: Rate) -> np.ndarray:
        """The variance of the noise in each number, ``(sum(sizes),)``, up to a part of about ``rate``."""
        d, ratio = sum(sizes), rate.numerator / rate.denominator
        of_blocks = [2 * (d + 1) * (d + 2) / ((size + 1) * (size + 2)) / ratio**2 for size in sizes]
        return np.repeat(of_blocks, sizes)


@njit(cache=True, nogil=True)
def _draw(words, cursor, first, numerator, denominator, sizes, terms, noise):
    begin = cursor[0]
    while not cursor[1]:
        radius = np.int64(0)
        for _ in range(noise.size + 1):
            radius += geometric(numerator, denominator, words, cursor)
        accepted = True
        for index in range(noise.size):
            if terms[index] < index + 1 and not bernoulli(radius + terms[index], radius + index + 1, words, cursor):
                accepted = False
                break
        if accepted and _fill(radius, sizes, noise, words, cursor) and not cursor[1]:
            return 1
    cursor[0], cursor[1] = begin, 0
    return 0


@njit(cache=True, nogil=True)
def _fill(radius, sizes, noise, words, cursor):
    """Fill ``noise`` with blocks of L1 at most ``radius``, uniformly; False if a zero got a minus, and all is void."""
    start = 0
    for size in sizes:
        block = noise[start : start + size]
        # Floyd's draw of ``size`` different numbers below radius + size; the gaps between them are the sizes.
        for index in range(size):
            top = radius + index
            value = uniform_below(top + 1, words, cursor)
            for other in block[:index]:
                if other == value:
                    value = top
                    break
            block[index] = value
        block.sort()
        for index in range(size - 1, 0, -1):
            block[index] -= block[index - 1] + 1
        for index in range(size):
            if next_word(words, cursor) & np.uint64(1):
                if block[index] == 0:
                    return False
                block[index] = -block[index]
        start += size
    return True
