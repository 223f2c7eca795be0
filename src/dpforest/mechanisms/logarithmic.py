"""The number of runs of a private search: a logarithmic law, drawn exactly. Sees coins and public numbers only."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba import njit

from dpforest.mechanisms.entropy import Entropy
from dpforest.mechanisms.exact import bernoulli, uniform_below

# A gamma is a multiple of 1 / STEPS.
STEPS = 1 << 40
# More than the relative error of ``best_of_runs``: a few roundings of 2**-53 each.
ROUNDING = 2.0**-40


@dataclass(frozen=True)
class Logarithmic:
    """The law of a number of runs that is k = 1, 2, ... with probability proportional to (1 - gamma)**k / k.

    The truncated negative binomial law with eta = 0 [papernot2022, Definition 1].

    Privacy:
        Claim: if one run is e-DP, the best of k runs is (e + log((gamma + exp(e)) / (1 + gamma exp(e))))-DP, which is e for
            gamma = 1 and tends to 2 e for gamma = 0 [papernot2022 has 2 e for all gamma].
        Because: let Q be the law of a run's output y (score and all else that is kept), F the law of its score. The best
            score is s with probability f(F(<= s)) - f(F(< s)), where f(x) = E[x**k]; runs that tie are alike, so any of
            them has the law of a run with that score. Hence P[y] = Q(y) times the mean of f' over F(< s) .. F(<= s), and
            f'(x) is proportional to 1 / (gamma + (1 - gamma) t), t = 1 - x. For a neighbour Q' take the point x' that lies
            as far between its F'(< s) and F'(<= s). As a run is e-DP, Q(y) <= exp(e) Q'(y), and both t' <= exp(e) t and
            1 - t <= exp(e) (1 - t'). So f'(x) / f'(x') is largest where both are equalities, at t = 1 / (1 + exp(e)),
            t' = exp(e) t, which gives (gamma + exp(e)) / (1 + gamma exp(e)).
        Assumes: runs are independent and alike given the records; k, and all runs but the best, are never released.
    """

    gamma: Fraction

    @classmethod
    def with_mean(cls, mean_runs: float) -> "Logarithmic":
        """The law whose mean (1 - gamma) / (gamma log(1/gamma)) is ``mean_runs``; at least 1, which is one run always."""
        low, high = 0.0, 1.0
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if _mean(middle) > mean_runs else (low, middle)
        return cls(Fraction(max(1, round(high * STEPS)), STEPS))

    def draw(self, entropy: Entropy) -> int:
        """A number of runs, drawn by rejection on whole numbers."""
        number = np.empty(1, dtype=np.int64)
        entropy.run(_draw, 1, int(self.gamma * STEPS), number)
        return int(number[0])

    def best_of_runs(self, epsilon: float) -> float:
        """The epsilon that releasing the best run costs, if a single run costs ``epsilon``; rounded up."""
        gamma, shrunk = float(self.gamma), math.exp(-epsilon)
        rise = math.log1p(-(1 - gamma) * math.expm1(-epsilon) / (shrunk + gamma))
        return (epsilon + rise) * (1 + ROUNDING)

    def of_one_run(self, epsilon: float) -> float:
        """The epsilon that a single run may cost, so that releasing the best costs ``epsilon``; rounded down."""
        low, high = 0.0, epsilon
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if self.best_of_runs(middle) <= epsilon else (low, middle)
        return low


def _mean(gamma: float) -> float:
    """(1 - gamma) / (gamma log(1/gamma)), for 0 < gamma <= 1, also where it is near its ends."""
    return 1.0 if gamma == 1 else (1 - gamma) / (-gamma * math.log1p(gamma - 1))


@njit(cache=True, nogil=True)
def _draw(words, cursor, first, gamma, numbers):
    n_blocks = 0
    while gamma << n_blocks < STEPS:
        n_blocks += 1
    for item in range(first, numbers.size):
        begin = cursor[0]
        while not cursor[1]:
            k = _propose(gamma, n_blocks, words, cursor)
            if k > 0:
                numbers[item] = k
                break
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
    return numbers.size


@njit(cache=True, nogil=True)
def _propose(gamma, n_blocks, words, cursor):
    """k with probability (1 - gamma)**(k-1) / k / (n_blocks + 1), for gamma in units of 1 / STEPS; else 0 for a rejection.

    All blocks 2**b .. 2**(b+1) - 1, and the tail from where 2**b >= 1/gamma, are equally likely. In a block k is uniform and
    kept with probability 2**b / k, in the tail it is geometric and kept with 2**b / k / (gamma 2**b). The power of 1 - gamma
    that is still missing is as many flips.
    """
    block = uniform_below(n_blocks + 1, words, cursor)
    k = np.int64(1) << block
    n_flips = k - 1
    if block < n_blocks:
        k += uniform_below(k, words, cursor)
        n_flips = k - 1
    elif not bernoulli(STEPS, gamma << n_blocks, words, cursor):
        return 0
    else:
        while not bernoulli(gamma, STEPS, words, cursor) and not cursor[1]:
            k += 1
    if not bernoulli(np.int64(1) << block, k, words, cursor):
        return 0
    for _ in range(n_flips):
        if bernoulli(gamma, STEPS, words, cursor) or cursor[1]:
            return 0
    return k
