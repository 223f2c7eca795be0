"""Exponential mechanism: the choice mechanism for zCDP. Called by the gate only; sees opened scores."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from dpforest.mechanisms.candidates import choose, distance, list_valid
from dpforest.mechanisms.entropy import Entropy
from dpforest.mechanisms.exact import bernoulli_exp, uniform_below
from dpforest.mechanisms.rates import Rate


@dataclass(frozen=True)
class Exponential:
    """The choice of a candidate with probability proportional to exp(rate * score), by rejection.

    Draw a candidate uniformly, accept it with probability exp(-rate (best - score)), else draw
    again: the accepted one has exactly the wanted law.

    Privacy:
        Claim: a choice at rate ``s`` on scores of width ``w`` is ``s*w``-DP and (s*w)**2/8-zCDP.
        Because: between neighbours the log-probabilities move by s*change - log(normaliser ratio),
            so they lie in an interval of length s*w (bounded range [durfee2019]), which gives
            s*w-DP and (s*w)**2/8-zCDP [cesar2021].
        Assumes: the flips are exact (``exact.py``). Differences are cut at 2**45, which is a score
            of the same width.
    """

    name = "exponential"
    status = "proved"

    def select(self, scores: np.ndarray, valid: np.ndarray, rate: Rate, entropy: Entropy) -> np.ndarray:
        """Chosen candidate ``(n_nodes,)`` for integer scores ``(n_nodes, n_candidates)``; -1 where none is valid."""
        return choose(_select, scores, valid, rate, entropy)


@njit(cache=True, nogil=True)
def _select(words, cursor, first, scores, valid, numerator, denominator, listed, chosen):
    for node in range(first, scores.shape[0]):
        begin = cursor[0]
        n_listed, best = list_valid(scores, valid, node, listed)
        while n_listed > 0 and not cursor[1]:
            candidate = listed[uniform_below(n_listed, words, cursor)]
            if bernoulli_exp(distance(scores, node, candidate, best) * numerator, denominator, words, cursor):
                chosen[node] = candidate
                break
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return node
    return scores.shape[0]
