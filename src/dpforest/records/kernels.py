"""Counting kernels: integer arrays in, integer counts out. No coins, no floats, no budget.

A position is the node that a record has reached in one tree; ``positions`` is ``(n_copies, n_records)``: one row if each
record belongs to one tree, else one row for each tree. ``weights`` is ``(n_copies, n_records)``, or ``(0, 0)`` when every
record counts once.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def encode_numbers(values, cuts, lower, upper, codes):
    """Code of the bin of each clipped value; the last code for missing."""
    for record in range(values.size):
        value = values[record]
        if value != value:
            codes[record] = cuts.size + 1
            continue
        value = min(max(value, lower), upper)
        low, high = 0, cuts.size
        while low < high:
            middle = (low + high) // 2
            if cuts[middle] <= value:
                low = middle + 1
            else:
                high = middle
        codes[record] = low


@njit(cache=True, nogil=True)
def count_class_codes(codes, feature, offset, labels, weights, positions, first, wanted, counts):
    """Add to ``counts[node - first, offset + code, label]`` each record whose node wants this feature."""
    column = codes[feature]
    for copy in range(positions.shape[0]):
        for record in range(positions.shape[1]):
            node = positions[copy, record] - first
            if 0 <= node < counts.shape[0] and wanted[node, feature]:
                weight = weights[copy, record] if weights.size else 1
                counts[node, offset + column[record], labels[record]] += weight


@njit(cache=True, nogil=True)
def sum_value_codes(codes, feature, offset, values, weights, positions, first, wanted, counts):
    """As ``count_class_codes``, adding (1, z, z**2) for a target on the integer grid."""
    column = codes[feature]
    for copy in range(positions.shape[0]):
        for record in range(positions.shape[1]):
            node = positions[copy, record] - first
            if 0 <= node < counts.shape[0] and wanted[node, feature]:
                weight = weights[copy, record] if weights.size else 1
                value = values[record]
                cell = counts[node, offset + column[record]]
                cell[0] += weight
                cell[1] += weight * value
                cell[2] += weight * value * value


@njit(cache=True, nogil=True)
def count_class_nodes(labels, weights, positions, first, counts):
    """Add to ``counts[node - first, label]`` each record."""
    for copy in range(positions.shape[0]):
        for record in range(positions.shape[1]):
            node = positions[copy, record] - first
            if 0 <= node < counts.shape[0]:
                counts[node, labels[record]] += weights[copy, record] if weights.size else 1


@njit(cache=True, nogil=True)
def sum_value_nodes(values, weights, positions, first, counts):
    """As ``count_class_nodes``, adding (1, z, z**2)."""
    for copy in range(positions.shape[0]):
        for record in range(positions.shape[1]):
            node = positions[copy, record] - first
            if 0 <= node < counts.shape[0]:
                weight = weights[copy, record] if weights.size else 1
                value = values[record]
                counts[node, 0] += weight
                counts[node, 1] += weight * value
                counts[node, 2] += weight * value * value


@njit(cache=True, nogil=True)
def descend(codes, positions, first, features, routes, first_children):
    """Move each record from its node to the child that its code is routed to. Arrays are over the nodes from ``first``."""
    for copy in range(positions.shape[0]):
        for record in range(positions.shape[1]):
            node = positions[copy, record] - first
            if 0 <= node < features.size and features[node] >= 0:
                child = routes[node, codes[features[node], record]]
                positions[copy, record] = first_children[node] + child


@njit(cache=True, nogil=True)
def _softmax(scores, record, exps, powers):
    """Parts of a softmax in integers: fills ``exps`` with ``powers[lead of the best score]``, returns their sum."""
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
def weigh_residuals(labels, scores, powers, most, weights):
    """``weights[0, record]`` in 0 .. most: how wrong the scores are about the record, see ``records.residuals``."""
    n_classes = scores.shape[0]
    exps = np.empty(n_classes, dtype=np.int64)
    for record in range(labels.size):
        total = _softmax(scores, record, exps, powers)
        wrong = total - exps[labels[record]]
        weights[0, record] = min(most, most * n_classes * wrong // (total * (n_classes - 1)))


@njit(cache=True, nogil=True)
def sum_residuals(labels, scores, powers, most, positions, first, sums):
    """Add to ``sums[node - first]`` each record's residuals of all classes, then its weight."""
    n_classes = scores.shape[0]
    exps = np.empty(n_classes, dtype=np.int64)
    for record in range(labels.size):
        node = positions[0, record] - first
        if not 0 <= node < sums.shape[0]:
            continue
        label = labels[record]
        total = _softmax(scores, record, exps, powers)
        wrong = total - exps[label]
        # Residuals are p / cap, or p / wrong share where that is above the cap (n_classes - 1) / n_classes.
        capped = n_classes * wrong > (n_classes - 1) * total
        for c in range(n_classes):
            if c != label:
                part = most * exps[c] // wrong if capped else most * n_classes * exps[c] // (total * (n_classes - 1))
                sums[node, c] -= part
                sums[node, label] += part
        sums[node, n_classes] += min(most, most * n_classes * wrong // (total * (n_classes - 1)))


@njit(cache=True, nogil=True)
def add_scores(positions, values, scores):
    """Add ``values[node, c]`` of the node that a record has reached to its scores."""
    for record in range(positions.shape[1]):
        for c in range(scores.shape[0]):
            score = scores[c, record] + values[positions[0, record], c]
            scores[c, record] = min(max(score, -(1 << 29)), 1 << 29)


@njit(cache=True, nogil=True)
def turn_around(values, positions, first, centres, reach, most, sides, weights):
    """On which side of its node's centre a value lies, and how far: ``most`` from ``reach`` steps on."""
    for record in range(values.size):
        node = positions[0, record] - first
        weights[0, record] = 0
        if 0 <= node < centres.size:
            distance = values[record] - centres[node]
            sides[record] = distance > 0
            weights[0, record] = min(most, abs(distance) * most // reach)


@njit(cache=True, nogil=True)
def count_values(values, positions, first, counts):
    """Add 1 to ``counts[node - first, value]`` for each record."""
    for record in range(values.size):
        node = positions[0, record] - first
        if 0 <= node < counts.shape[0]:
            counts[node, values[record]] += 1
