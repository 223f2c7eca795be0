"""The noise mechanisms: geometric, Gaussian and K-norm noise. Called by the gate only; sees coins, no values."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba import njit

from dpforest.errors import ParameterError
from dpforest.mechanisms.entropy import Entropy
from dpforest.mechanisms.exact import (
    Rate,
    bernoulli,
    bernoulli_exp_square,
    geometric,
    next_word,
    two_sided_geometric,
    uniform_below,
)

VARIANCE_BITS = 21
MOST_VARIANCE = 1 << 54
# The largest L1 of a block of K-norm noise is about the number of values over the rate; so many bits leave room for chance.
MOST_BITS = 61


@dataclass(frozen=True)
class GeometricNoise:
    """Integer noise that is k with probability proportional to exp(-rate |k|).

    Privacy:
        Claim: releasing integers whose L1 sensitivity is ``l1`` at rate ``s`` is ``s*l1``-DP (pure).
        Because: log P[noise = k] changes by at most ``s`` for each unit that the value moves, and
            the noises of the cells are independent [ghosh2009].
        Assumes: values are exact integers; the sampler is exact (``exact.py``).
    """

    name = "geometric"
    status = "proved"

    def draw(self, shape: tuple[int, ...], rate: Rate, entropy: Entropy) -> np.ndarray:
        """Independent draws of the noise, as integers of the given shape."""
        noise = np.empty(math.prod(shape), dtype=np.int64)
        entropy.run(_draw_geometric, noise.size, rate.numerator, rate.denominator, noise)
        return noise.reshape(shape)

    @staticmethod
    def variance(rate: Rate) -> float:
        """The variance of one draw."""
        ratio = rate.numerator / rate.denominator
        return 2 * math.exp(-ratio) / math.expm1(-ratio) ** 2


@njit(cache=True, nogil=True)
def _draw_geometric(words, cursor, first, numerator, denominator, noise):
    for item in range(first, noise.size):
        begin = cursor[0]
        noise[item] = two_sided_geometric(numerator, denominator, words, cursor)
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
    return noise.size


@dataclass(frozen=True)
class Gaussian:
    """Integer noise that is k with probability proportional to exp(-k**2 / (2 sigma2)).

    Privacy:
        Claim: releasing integers whose L2 sensitivity is ``l2`` is l2**2/(2 sigma2)-zCDP.
        Because: the discrete Gaussian has the Renyi divergences of the continuous one, at most
            alpha*shift**2/(2 sigma2) for an integer shift, and independent cells add the squares
            of their shifts [canonne2020, Theorem 14].
        Assumes: values are exact integers; the sampler is exact (below, on integers).
    """

    name = "gaussian"
    status = "proved"

    def draw(self, shape: tuple[int, ...], variance: Fraction, entropy: Entropy) -> np.ndarray:
        """Independent draws of the noise, as integers of the given shape; ``sigma2`` is ``rounded(variance)``."""
        rounded = self.rounded(variance)
        numerator, denominator = rounded.numerator, rounded.denominator
        scale = math.isqrt(numerator // denominator) + 1
        noise = np.empty(math.prod(shape), dtype=np.int64)
        entropy.run(_draw_gaussian, noise.size, numerator, denominator, scale, noise)
        return noise.reshape(shape)

    @staticmethod
    def rounded(variance: Fraction) -> Fraction:
        """The variance, rounded up to a fraction for the sampler; raises if noise could exceed 64 bits."""
        if variance > MOST_VARIANCE:
            raise ParameterError(
                f"The budget leaves Gaussian noise of standard deviation {math.sqrt(variance):.3g}, above 2**27. "
                "Raise epsilon, or use fewer trees or levels."
            )
        bits = VARIANCE_BITS - (variance.numerator.bit_length() - variance.denominator.bit_length())
        scale = 1 << min(max(0, bits), 40)
        return Fraction(max(1, math.ceil(variance * scale)), scale)


@njit(cache=True, nogil=True)
def _draw_gaussian(words, cursor, first, numerator, denominator, scale, noise):
    # Rejection from two-sided geometric noise y of integer scale t [canonne2020, Algorithm 3]:
    # accept with exp(-(|y| - sigma2/t)**2 / (2 sigma2)). With sigma2 = a/b and D = | |y| t b - a |
    # the exponent is (D / 2a) (D / (b t t)), a product of two fractions that fit 64 bits.
    for item in range(first, noise.size):
        begin = cursor[0]
        while True:
            value = two_sided_geometric(1, scale, words, cursor)
            distance = abs(abs(value) * scale * denominator - numerator)
            accepted = bernoulli_exp_square(distance, 2 * numerator, distance, denominator * scale * scale, words, cursor)
            if accepted or cursor[1]:
                break
        noise[item] = value
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
    return noise.size


@dataclass(frozen=True)
class KNorm:
    """Integer noise z of probability proportional to exp(-rate |z|), |z| being the largest L1 of a block.

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
        entropy.run(_draw_k_norm, 1, rate.numerator, rate.denominator, np.array(sizes), terms, noise)
        return noise

    @staticmethod
    def limited(rate: Rate, n_values: int) -> Rate:
        """The rate, at most 1/n_values: with less noise nearly all draws would be rejected.

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
def _draw_k_norm(words, cursor, first, numerator, denominator, sizes, terms, noise):
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
        if accepted and _fill_ball(radius, sizes, noise, words, cursor) and not cursor[1]:
            return 1
    cursor[0], cursor[1] = begin, 0
    return 0


@njit(cache=True, nogil=True)
def _fill_ball(radius, sizes, noise, words, cursor):
    """Fill ``noise`` with uniform blocks of L1 at most ``radius``; False if a zero got a minus sign."""
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
