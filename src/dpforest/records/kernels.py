"""Counting kernels: integer arrays in, integer counts out. No coins, no floats, no budget.

A position is the node that a record has reached in one tree; ``positions`` is ``(n_copies, n_records)``: one row if each
record belongs to one tree, else one row for each tree. ``weights`` is ``(n_copies, n_records)``, or ``(0, 0)`` when every
record counts once.
"""

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
