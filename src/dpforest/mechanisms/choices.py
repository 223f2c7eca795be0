"""The choice mechanisms: permute-and-flip and the exponential mechanism. Called by the gate only; sees opened scores."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from dpforest.mechanisms.entropy import Entropy
from dpforest.mechanisms.exact import MOST_DIFFERENCE, Rate, bernoulli_exp, uniform_below


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
        return _choose(False, scores, valid, rate, entropy)


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
        return _choose(True, scores, valid, rate, entropy)


def _choose(again: bool, scores: np.ndarray, valid: np.ndarray, rate: Rate, entropy: Entropy) -> np.ndarray:
    chosen = np.full(len(scores), -1, dtype=np.int64)
    listed = np.empty(scores.shape[1], dtype=np.int64)
    entropy.run(_select, len(scores), again, scores, valid, rate.numerator, rate.denominator, listed, chosen)
    return chosen


@njit(cache=True, nogil=True)
def _select(words, cursor, first, again, scores, valid, numerator, denominator, listed, chosen):
    """Flip for candidates in random order until a flip succeeds; with ``again`` a candidate may be drawn several times."""
    for node in range(first, scores.shape[0]):
        begin, n_listed, best = cursor[0], 0, np.int64(-(2**62))
        for candidate in range(scores.shape[1]):
            if valid[node, candidate]:
                listed[n_listed] = candidate
                n_listed += 1
                best = max(best, scores[node, candidate])
        # The best candidate's flip always succeeds, so the loop ends with a choice.
        while n_listed > 0 and not cursor[1]:
            index = uniform_below(n_listed, words, cursor)
            candidate = listed[index]
            distance = min(best - scores[node, candidate], MOST_DIFFERENCE)
            if bernoulli_exp(distance * numerator, denominator, words, cursor):
                chosen[node] = candidate
                break
            if not again:
                n_listed -= 1
                listed[index] = listed[n_listed]
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return node
    return scores.shape[0]
