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
# More than the relative error of ``best_of_runs`` and ``divergence``: a few roundings of 2**-53 each.
ROUNDING = 2.0**-40
# Cells of log(1/t) in ``divergence``: so many for chances t above about gamma exp(-FAR), and one for all others.
FAR, N_CELLS = 30.0, 1 << 15


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
        """The law of mean (1 - gamma) / (gamma log(1/gamma)) = ``mean_runs``, which is at least 1."""
        low, high = 0.0, 1.0
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if _mean(middle) > mean_runs else (low, middle)
        return cls(Fraction(max(1, round(high * STEPS)), STEPS))

    @property
    def mean(self) -> float:
        """The expected number of runs."""
        return _mean(float(self.gamma))

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

    def divergence(self, order: float, rho: float) -> float:
        """The cost of releasing the best run, as a Rényi divergence of that order above 1, if each is rho-zCDP; rounded up.

        Privacy:
            Claim: it is at most order rho + log(m gamma max u'**(order - 1) / u**order) / (order - 1) for the mean m of k,
                u = gamma + (1 - gamma) t and u' = gamma + (1 - gamma) t', the largest over t in 0 .. 1 with t' = 1 if
                log(1/t) < rho, else exp(-(sqrt(log(1/t)) - sqrt(rho))**2).
            Because: as above P[y] is Q(y) times the mean of f' between F(< s) and F(<= s), with f' = m gamma / u. The map
                (p, q) -> p**order q**(1 - order) is convex, so the sum over y of P[y]**order P'[y]**(1 - order) is at most
                that of Q(y)**order Q'(y)**(1 - order), which is exp((order - 1) order rho), times the largest
                f'(x)**order f'(x')**(1 - order). There t and t' are chances of one event (a better run, or one that ties
                and wins by lot) by Q and Q'. Each order a > 1 bounds t'**a t**(1 - a) by exp((a - 1) a rho); the best of
                these bounds on t' is that of the claim. ``_largest`` bounds the rest in cells of t. Instead of that
                [papernot2022, Theorem 2] has m and 2 sqrt(rho log(1/gamma)) - rho, for the largest m gamma / u and the
                largest log(u'/u), each taken alone.
            Assumes: as above.
        """
        terms = (order * rho, self._largest(order, rho))
        size = math.fsum(map(abs, terms)) + (1 - math.log(self.gamma)) * order / (order - 1)
        return math.fsum(terms) + ROUNDING * size

    def _largest(self, order: float, rho: float) -> float:
        """A close bound of the largest log(u'/u) + log(m gamma / u) / (order - 1) over t; see ``divergence``.

        Privacy:
            Claim: it is not below the largest, but for rounding.
            Because: let a = log(1/t) and b = log(1/t'), so b <= a, and let c = log(u'/u). In a cell of a, u is least at its
                far end and u' largest at its near end. Also c <= a - b, which is at most a and 2 sqrt(a rho). And with
                p = (1 - gamma) t / u, of which the slope in a is at most 1/4, where a > rho the slope of c is
                p(a) - p(b) + p(b) sqrt(rho/a), between -(a - b) / 4 and sqrt(rho/a); half a cell of the steepest slope
                is as much as c passes the larger of its values at both ends.
            Assumes: nothing.
        """
        ends = self._ends(rho, N_CELLS)
        near, far = ends[:-1], ends[1:]
        log_u, log_other = self._logs(ends, rho)
        rises = log_other - log_u
        slopes = np.maximum(np.sqrt(far * rho) / 2, np.sqrt(rho / np.maximum(near, rho)))
        smooth = np.maximum(rises[:-1], rises[1:]) + slopes * (far - near) / 2
        bounds = np.minimum(log_other[:-1] - log_u[1:], np.minimum(far, 2 * np.sqrt(far * rho)))
        bounds = np.where(near >= rho, np.minimum(bounds, smooth), bounds)
        # The last cell has no end: u tends to gamma.
        log_gamma = math.log(self.gamma)
        bounds, least = np.append(bounds, log_other[-1] - log_gamma), np.append(log_u[1:], log_gamma)
        return float(np.max(bounds + (self._log_factor - least) / (order - 1)))

    def promising_order(self, rho: float, epsilon: float, orders: np.ndarray) -> float:
        """The order among these at which ``divergence`` gives about the least delta at epsilon; any is valid."""
        log_u, log_other = self._logs(self._ends(rho, N_CELLS >> 7), rho)
        above = orders[:, None] - 1
        largest = np.max(above * (log_other - log_u) + self._log_factor - log_u, axis=1)
        log_delta = (orders - 1) * (orders * rho - epsilon + np.log1p(-1 / orders)) - np.log(orders) + largest
        return float(orders[np.argmin(log_delta)])

    @property
    def _log_factor(self) -> float:
        """log(m gamma) for the mean m of k."""
        return math.log(float(self.gamma) * self.mean)

    def _ends(self, rho: float, n_cells: int) -> np.ndarray:
        """The ends of cells of log(1/t), from 0 on; the cell after them has no end."""
        return np.linspace(0, (math.sqrt(FAR - math.log(self.gamma)) + math.sqrt(rho)) ** 2, n_cells + 1)

    def _logs(self, far: np.ndarray, rho: float) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of u and u' of ``divergence`` where log(1/t) is ``far``."""
        gamma, other = float(self.gamma), np.maximum(np.sqrt(far) - math.sqrt(rho), 0) ** 2
        return np.log(gamma + (1 - gamma) * np.exp(-far)), np.log(gamma + (1 - gamma) * np.exp(-other))

    def of_one_run(self, epsilon: float) -> float:
        """The epsilon of a single run for which releasing the best costs ``epsilon``; rounded down."""
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
    """k with probability (1 - gamma)**(k-1) / k / (n_blocks + 1), gamma in units of 1 / STEPS; else 0.

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
