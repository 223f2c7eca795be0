"""Permute-and-flip: the choice mechanism for pure epsilon. Called by the gate only; sees opened scores."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from dpforest.mechanisms.candidates import choose, distance, list_valid
from dpforest.mechanisms.entropy import Entropy
from dpforest.mechanisms.exact import bernoulli_exp, uniform_below
from dpforest.mechanisms.rates import Rate


@dataclass(frozen=True)
class PermuteAndFlip:
    """The choice of the first candidate, in random order, whose flip of probability exp(-rate (best - score)) succeeds.

    Never worse than the exponential mechanism at the same pure epsilon [mckenna2020].

    Privacy:
        Claim: a choice at rate ``s`` on scores of width ``w`` is ``s*w``-DP (pure).
        Because: it equals report-noisy-max with one-sided exponential noise [ding2021]. Fix the
            noise of all candidates but i; i wins iff its noise exceeds a threshold, and a record
            moves that threshold by at most ``w`` (the widest gap between two candidates' changes),
            so the probability changes by a factor within exp(s*w).
        Assumes: the order and the flips are exact (``exact.py``). Differences are cut at 2**45,
            which is a score of the same width.
    """

    name = "permute-and-flip"
    status = "proved"

    def select(self, scores: np.ndarray, valid: np.ndarray, rate: Rate, entropy: Entropy) -> np.ndarray:
        """Chosen candidate ``(n_nodes,)`` for integer scores ``(n_nodes, n_candidates)``; -1 where none is valid."""
        return choose(_select, scores, valid, rate, entropy)


@njit(cache=True, nogil=True)
def _select(words, cursor, first, scores, valid, numerator, denominator, order, chosen):
    for node in range(first, scores.shape[0]):
        begin = cursor[0]
        n_left, best = list_valid(scores, valid, node, order)
        # The best candidate's flip always succeeds, so the loop ends with a choice.
        while n_left > 0:
            index = uniform_below(n_left, words, cursor)
            candidate = order[index]
            if bernoulli_exp(distance(scores, node, candidate, best) * numerator, denominator, words, cursor):
                chosen[node] = candidate
                break
            n_left -= 1
            order[index] = order[n_left]
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return node
    return scores.shape[0]
