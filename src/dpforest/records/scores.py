"""Scores of records, and the residuals and weights that follow: tables and kernels of integers. Sees codes.

A record has a score for each class: the sum of the votes of the leaves that it reached, in whole steps. Its softmax is taken
from the table ``POWERS``, so the same weights are found everywhere, to the last unit. There are no coins and no budget here,
and no floating point in kernels. Arguments are named as in ``kernels``.
"""

import math

import numpy as np
from numba import njit

from dpforest.forest.tree import SCORE_STEPS
from dpforest.records.base import MOST_WEIGHT

# Records that are worked on at once, so that their codes stay in the processor's cache.
ADDED_AT_ONCE = 1 << 12
_TOP = 1 << 30  # see ``MOST_CLASSES``
# Entry k is ``2**30 * exp(-k / SCORE_STEPS)``, rounded down: for a score that is k steps below the best, while >= 1.
POWERS = np.array([int(_TOP * math.exp(-k / SCORE_STEPS)) for k in range(math.ceil(math.log(_TOP) * SCORE_STEPS))])


def _pair_weights() -> np.ndarray:
    """Weights of a record of two classes, ``(2, n_leads)``, by how many steps its class leads (row 0) or lags (row 1)."""
    other = np.append(POWERS, 0)
    wrong = np.stack([other, np.full(len(other), _TOP)])
    return np.minimum(MOST_WEIGHT, MOST_WEIGHT * 2 * wrong // (_TOP + other)).astype(np.uint8)


PAIR_WEIGHTS = _pair_weights()


@njit(cache=True, nogil=True)
def _softmax(scores, record, exps, powers):
    """The sum of the exponentials of a record's scores, relative to the best one, in integers; ``exps`` is filled with them.

    ``powers[k]`` is the exponential of a score that is k steps below the best.
    """
    n_classes = scores.shape[0]
    best = scores[0, record]
    for c in range(1, n_classes):
        best = max(best, scores[c, record])
    total = 0
    for c in range(n_classes):
        lead = best - scores[c, record]
        exps[c] = powers[lead] if lead < powers.size else 0
        total += exps[c]
    return total


@njit(cache=True, nogil=True)
def weigh_pairs(labels, scores, table, start, stop, weights):
    """Write weights as ``weigh_residuals`` does, for two classes, from the table ``PAIR_WEIGHTS`` of all leads and lags."""
    last, n_leads = np.int32(table.shape[1] - 1), np.uint32(table.shape[1])
    flat, first, second, own = table.reshape(-1), scores[0], scores[1], weights[0]
    for record in range(np.uint64(start), np.uint64(stop)):
        lead = first[record] - second[record]
        lead = -lead if labels[record] else lead
        size = np.uint32(min(abs(lead), last))
        own[record] = flat[size + n_leads * np.uint32(lead < 0)]


@njit(cache=True, nogil=True)
def weigh_residuals(labels, scores, powers, most, start, stop, weights):
    """Write ``weights[0, record]`` in 0 .. most: the probability that the scores give to other classes, scaled and capped.

    It is ``most`` where the scores are as wrong as a guess, or worse.
    """
    n_classes = scores.shape[0]
    exps = np.empty(n_classes, dtype=np.int64)
    for record in range(start, stop):
        total = _softmax(scores, record, exps, powers)
        wrong = total - exps[labels[record]]
        weights[0, record] = min(most, most * n_classes * wrong // (total * (n_classes - 1)))


@njit(cache=True, nogil=True)
def _find_residuals(label, scores, record, powers, most, exps, own):
    """Fill ``own`` with the residuals of a record of class ``label`` for all classes, and as the last entry its weight."""
    n_classes = scores.shape[0]
    total = _softmax(scores, record, exps, powers)
    wrong = total - exps[label]
    # Residuals are p / cap, or p / wrong share where that is above the cap (n_classes - 1) / n_classes.
    capped = n_classes * wrong > (n_classes - 1) * total
    own[label] = 0
    for c in range(n_classes):
        if c != label:
            part = most * exps[c] // wrong if capped else most * n_classes * exps[c] // (total * (n_classes - 1))
            own[c] = -part
            own[label] += part
    own[n_classes] = min(most, most * n_classes * wrong // (total * (n_classes - 1)))


@njit(cache=True, nogil=True)
def spread_residuals(labels, scores, powers, most, start, stop, residuals):
    """Write the residuals of each record for all classes, and its weight, to ``residuals[record]``."""
    exps, own = np.empty(scores.shape[0], dtype=np.int64), np.empty(scores.shape[0] + 1, dtype=np.int64)
    for record in range(start, stop):
        _find_residuals(labels[record], scores, record, powers, most, exps, own)
        for c in range(own.size):
            residuals[record, c] = own[c]


@njit(cache=True, nogil=True)
def sum_residuals(labels, scores, powers, most, positions, first, start, stop, sums):
    """Add to ``sums[node - first]`` the residuals of each record for all classes, and as the last entry its weight."""
    exps, own = np.empty(scores.shape[0], dtype=np.int64), np.empty(scores.shape[0] + 1, dtype=np.int64)
    for record in range(start, stop):
        node = positions[0, record] - first
        if 0 <= node < sums.shape[0]:
            _find_residuals(labels[record], scores, record, powers, most, exps, own)
            for c in range(own.size):
                sums[node, c] += own[c]


@njit(cache=True, nogil=True)
def add_scores(positions, values, start, stop, scores):
    """Add ``values[node, c]`` of the node that a record has reached to its score of class c; scores stay within 2**29."""
    own, most = positions[0], np.int32(1 << 29)
    for c in range(scores.shape[0]):
        column, total = np.ascontiguousarray(values[:, c]), scores[c]
        for record in range(np.uint64(start), np.uint64(stop)):
            total[record] = min(max(total[record] + column[np.uint32(own[record])], -most), most)


@njit(cache=True, nogil=True)
def add_by_code(codes, features, values, start, stop, scores):
    """Add ``values[k, code, c]`` of a record's code of ``features[k]``, for all k, to its score of class c."""
    most = 1 << 29
    total = np.empty(ADDED_AT_ONCE, dtype=np.int64)
    for begin in range(start, stop, ADDED_AT_ONCE):
        n = min(stop, begin + ADDED_AT_ONCE) - begin
        for c in range(scores.shape[0]):
            own = scores[c, begin : begin + n]
            total[:n] = own
            for k in range(features.size):
                column, table = codes[features[k], begin : begin + n], values[k]
                for record in range(n):
                    total[record] += table[column[record], c]
            for record in range(n):
                own[record] = min(max(total[record], -most), most)


@njit(cache=True, nogil=True)
def weigh_distances(values, positions, first, centres, reach, most, start, stop, sides, weights):
    """Write for each record whether its value is above the centre of its node, and a weight by its distance from it.

    The weight grows to ``most`` at ``reach`` steps; it is 0 for records of nodes without a centre.
    """
    for record in range(start, stop):
        node = positions[0, record] - first
        weights[0, record] = 0
        if 0 <= node < centres.size:
            distance = values[record] - centres[node]
            sides[record] = distance > 0
            weights[0, record] = min(most, abs(distance) * most // reach)


@njit(cache=True, nogil=True)
def count_leads(classes, scores, width, start, stop, counts):
    """Add 1 to ``counts[bin, class]`` for each record, by how far the score of its class leads the best other."""
    n_bins = counts.shape[0]
    for record in range(start, stop):
        own = classes[record]
        best = np.int64(-(1 << 62))
        for other in range(scores.shape[0]):
            if other != own:
                best = max(best, np.int64(scores[other, record]))
        steps = np.int64(scores[own, record]) - best + width * (n_bins // 2)
        counts[min(max(steps, 0) // width, n_bins - 1), own] += 1
