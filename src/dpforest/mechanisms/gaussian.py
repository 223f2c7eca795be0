"""Discrete Gaussian noise: the count mechanism for zCDP. Called by the gate only; sees a variance and coins, no values."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba import njit

from dpforest.errors import ParameterError
from dpforest.mechanisms.entropy import Entropy
from dpforest.mechanisms.exact import bernoulli_exp_square, two_sided_geometric

VARIANCE_BITS = 21
MOST_VARIANCE = 1 << 54


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
        entropy.run(_draw, noise.size, numerator, denominator, scale, noise)
        return noise.reshape(shape)

    @staticmethod
    def rounded(variance: Fraction) -> Fraction:
        """The variance, rounded up to a fraction that the sampler can use; raises if the noise would not fit 64 bits."""
        if variance > MOST_VARIANCE:
            raise ParameterError(
                f"The budget leaves Gaussian noise of standard deviation {math.sqrt(variance):.3g}, above 2**27. "
                "Raise epsilon, or use fewer trees or levels."
            )
        bits = VARIANCE_BITS - (variance.numerator.bit_length() - variance.denominator.bit_length())
        scale = 1 << min(max(0, bits), 40)
        return Fraction(max(1, math.ceil(variance * scale)), scale)


@njit(cache=True, nogil=True)
def _draw(words, cursor, first, numerator, denominator, scale, noise):
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
