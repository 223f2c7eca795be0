"""Two-sided geometric noise: the count mechanism for pure epsilon. Called by the gate only; sees a rate and coins."""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from dpforest.mechanisms.entropy import Entropy
from dpforest.mechanisms.exact import two_sided_geometric
from dpforest.mechanisms.rates import Rate


@dataclass(frozen=True)
class Geometric:
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
        entropy.run(_draw, noise.size, rate.numerator, rate.denominator, noise)
        return noise.reshape(shape)

    @staticmethod
    def variance(rate: Rate) -> float:
        """The variance of one draw."""
        ratio = rate.numerator / rate.denominator
        return 2 * math.exp(-ratio) / math.expm1(-ratio) ** 2


@njit(cache=True, nogil=True)
def _draw(words, cursor, first, numerator, denominator, noise):
    for item in range(first, noise.size):
        begin = cursor[0]
        noise[item] = two_sided_geometric(numerator, denominator, words, cursor)
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
    return noise.size
