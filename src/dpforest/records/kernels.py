"""Kernels that move and count records: they take arrays and fill arrays of integers. Sees codes.

There are no coins and no budget here, and no floating point.

A position is the node that a record has reached in one tree; ``positions`` is ``(n_copies, n_records)``: one row if each
record belongs to one tree, else one row for each tree. ``weights`` is ``(n_copies, n_records)``, or ``(0, 0)`` when every
record counts once. Each call is about the records ``start`` .. ``stop - 1``: the part of one thread. Cells have a place for
each node of a level, whose nodes count from ``first``; ``is_counted`` is over these nodes, with a last entry, False, for
records of other nodes.
"""

import numpy as np
from numba import njit

# Records that are worked on at once, so that their codes stay in the processor's cache.
ROWS_AT_ONCE = 1 << 15


@njit(cache=True, nogil=True)
def order_by_batch(batches, ends, order):
    """Fill ``order`` with the records of batch 0, then those of batch 1, …; ``ends[b + 1]`` is where batch b ends."""
    n_batches = ends.size - 1
    begins = np.zeros(n_batches + 1, dtype=np.int64)
    for record in range(batches.size):
        begins[batches[record] + 1] += 1
    for batch in range(n_batches):
        begins[batch + 1] += begins[batch]
    ends[:] = begins
    for record in range(batches.size):
        batch = batches[record]
        order[begins[batch]] = record
        begins[batch] += 1


@njit(cache=True, nogil=True)
def take(row, order, taken):
    """Fill ``taken`` with the values of ``row`` in another order."""
    for index in range(order.size):
        taken[index] = row[order[index]]


@njit(cache=True, nogil=True)
def descend(codes, positions, start, stop, first, features, routes, first_children, runs):
    """Move each record from its node to the child that its code is routed to. Arrays are over the nodes from ``first``.

    ``runs`` has a row for each node if some feature is wide, see ``Domain.runs``.
    """
    n_nodes, n_records, n_codes = np.uint32(features.size), np.uint64(codes.shape[1]), np.uint64(routes.shape[1])
    flat, table = codes.reshape(-1), routes.reshape(-1)
    for copy in range(positions.shape[0]):
        own = positions[copy]
        for record in range(np.uint64(start), np.uint64(stop)):
            node = np.uint32(own[record] - first)
            if node < n_nodes and features[node] >= 0:
                code = flat[np.uint64(features[node]) * n_records + record]
                if runs.size and runs[node, 0] >= 0:
                    own[record] = first_children[node] + (code < runs[node, 0] or code >= runs[node, 1])
                else:
                    own[record] = first_children[node] + table[np.uint64(node) * n_codes + code]


@njit(cache=True, nogil=True)
def _list_counted(positions, begin, end, first, is_counted, found, records):
    """The number of records from ``begin`` to ``end`` at nodes that are counted.

    Their nodes, less ``first``, are written to ``found``, and how far they are behind ``begin`` to ``records``.
    """
    n_nodes, n_found = np.uint32(is_counted.size - 1), np.uint32(0)
    for record in range(np.uint32(end - begin)):
        node = min(np.uint32(positions[begin + record] - first), n_nodes)
        found[n_found] = node
        records[n_found] = record
        n_found += np.uint32(is_counted[node])
    return n_found


@njit(cache=True, nogil=True)
def _list_words(positions, labels, weights, begin, end, first, is_counted, shape, words):
    """The number of records as ``_list_counted`` gives it, with what is needed of each record packed into one word.

    A word has, from the low end, where the cells ``(n_nodes, n_labels, n_codes)`` of the record's node and label begin
    (32 bits), how far the record is behind ``begin`` (16 bits), and its weight (16 bits).
    """
    n_nodes, n_codes, n_cells = np.uint32(shape[0]), np.uint32(shape[2]), np.uint32(shape[1] * shape[2])
    n_found = np.uint32(0)
    for record in range(np.uint64(end - begin)):
        node = min(np.uint32(positions[begin + record] - first), n_nodes)
        index = np.uint32(node * n_cells + np.uint32(labels[begin + record]) * n_codes)
        weight = np.uint64(weights[begin + record] if weights.size else 1)
        words[n_found] = np.uint64(index) | record << np.uint64(32) | weight << np.uint64(48)
        n_found += np.uint32(is_counted[node])
    return n_found


@njit(cache=True, nogil=True)
def _add_words(words, codes, features, offsets, begin, end, cells):
    """Add the weight of each word to the cells of its codes: the innermost loop.

    Four features at a time, so that a word is read once for all four and the additions do not wait for one another.
    Indices are unsigned, or each would be tested for being negative.
    """
    n_fours = features.size - features.size % 4
    for group in range(0, n_fours, 4):
        one, two = codes[features[group], begin:end], codes[features[group + 1], begin:end]
        three, four = codes[features[group + 2], begin:end], codes[features[group + 3], begin:end]
        a, b = cells[offsets[features[group]] :], cells[offsets[features[group + 1]] :]
        c, d = cells[offsets[features[group + 2]] :], cells[offsets[features[group + 3]] :]
        for word in words:
            index, record = np.uint32(word), np.uint16(word >> np.uint64(32))
            weight = np.int32(word >> np.uint64(48))
            a[index + one[record]] += weight
            b[index + two[record]] += weight
            c[index + three[record]] += weight
            d[index + four[record]] += weight
    for rest in range(n_fours, features.size):
        column, a = codes[features[rest], begin:end], cells[offsets[features[rest]] :]
        for word in words:
            index, record = np.uint32(word), np.uint16(word >> np.uint64(32))
            a[index + column[record]] += np.int32(word >> np.uint64(48))


@njit(cache=True, nogil=True)
def count_codes(codes, features, offsets, labels, weights, positions, first, is_counted, moves, start, stop, cells):
    """Add 1, or a weight, to ``cells[node, label, offsets[feature] + code]`` for each record and feature.

    Records are first moved down by ``moves``, the last arguments of ``descend``, while their codes are at hand.
    """
    words = np.empty(ROWS_AT_ONCE, dtype=np.uint64)
    for begin in range(start, stop, ROWS_AT_ONCE):
        end = min(stop, begin + ROWS_AT_ONCE)
        if moves[1].size:
            descend(codes, positions, begin, end, *moves)
        for copy in range(positions.shape[0]):
            own = weights[copy] if weights.size else weights.reshape(-1)
            n_found = _list_words(positions[copy], labels, own, begin, end, first, is_counted, cells.shape, words)
            _add_words(words[:n_found], codes, features, offsets, begin, end, cells.reshape(-1))


@njit(cache=True, nogil=True)
def count_drawn(
    codes, features, askers, n_askers, offsets, labels, weights, positions, first, is_counted, moves, start, stop, cells
):
    """Add to cells as ``count_codes`` does, but count feature k only in the nodes ``askers[k, : n_askers[k]]``.

    Records are first ordered by node.
    """
    n_nodes, n_labels, n_codes = cells.shape
    flat, n_cells = cells.reshape(-1), np.uint32(n_labels * n_codes)
    words, ordered = np.empty(ROWS_AT_ONCE, dtype=np.uint64), np.empty(ROWS_AT_ONCE, dtype=np.uint64)
    ends = np.empty(n_nodes + 2, dtype=np.uint32)
    for begin in range(start, stop, ROWS_AT_ONCE):
        end = min(stop, begin + ROWS_AT_ONCE)
        if moves[1].size:
            descend(codes, positions, begin, end, *moves)
        for copy in range(positions.shape[0]):
            own = weights[copy] if weights.size else weights.reshape(-1)
            n_found = _list_words(positions[copy], labels, own, begin, end, first, is_counted, cells.shape, words)
            ends[:] = 0
            for word in words[:n_found]:
                ends[np.uint32(word) // n_cells + np.uint32(2)] += np.uint32(1)
            for node in range(n_nodes):
                ends[node + 2] += ends[node + 1]
            for word in words[:n_found]:
                # Where the next record of the node goes; after the loop, where the records of the node end.
                place = np.uint32(word) // n_cells + np.uint32(1)
                index = ends[place]
                ends[place] = index + np.uint32(1)
                ordered[index] = word
            for k in range(features.size):
                column, table = codes[features[k], begin:end], flat[offsets[features[k]] :]
                for node in askers[k, : n_askers[k]]:
                    for word in ordered[ends[node] : ends[node + 1]]:
                        code = column[np.uint16(word >> np.uint64(32))]
                        table[np.uint32(word) + code] += np.int32(word >> np.uint64(48))


@njit(cache=True, nogil=True)
def sum_codes(codes, features, offsets, values, weights, positions, first, is_counted, moves, start, stop, cells):
    """Add (1, z, z**2), times a weight, to ``cells[node, :, offsets[feature] + code]`` for each record and feature.

    z is a bounded target on the integer grid. Records are first moved down as in ``count_codes``.
    """
    found, records = np.empty(ROWS_AT_ONCE, dtype=np.uint32), np.empty(ROWS_AT_ONCE, dtype=np.uint32)
    for begin in range(start, stop, ROWS_AT_ONCE):
        end = min(stop, begin + ROWS_AT_ONCE)
        if moves[1].size:
            descend(codes, positions, begin, end, *moves)
        for copy in range(positions.shape[0]):
            n_found = _list_counted(positions[copy], begin, end, first, is_counted, found, records)
            for feature in features:
                column, offset = codes[feature, begin:end], np.uint64(offsets[feature])
                for k in range(n_found):
                    record = begin + np.int64(records[k])
                    weight, value = np.int64(weights[copy, record] if weights.size else 1), np.int64(values[record])
                    own, cell = cells[found[k]], offset + column[records[k]]
                    own[0, cell] += weight
                    own[1, cell] += weight * value
                    own[2, cell] += weight * value * value


@njit(cache=True, nogil=True)
def sum_residual_codes(codes, features, offsets, residuals, positions, first, is_counted, moves, start, stop, cells):
    """Add ``residuals[record]`` to ``cells[node, offsets[feature] + code]`` for each record and feature.

    Both have the numbers that are added side by side, so that several are added at once. Records are first moved down as in
    ``count_codes``.
    """
    _, n_codes, width = cells.shape
    flat, added = cells.reshape(-1), residuals.reshape(-1)
    found, records = np.empty(ROWS_AT_ONCE, dtype=np.uint32), np.empty(ROWS_AT_ONCE, dtype=np.uint32)
    for begin in range(start, stop, ROWS_AT_ONCE):
        end = min(stop, begin + ROWS_AT_ONCE)
        if moves[1].size:
            descend(codes, positions, begin, end, *moves)
        n_found = _list_counted(positions[0], begin, end, first, is_counted, found, records)
        for feature in features:
            column, offset = codes[feature, begin:end], np.int64(offsets[feature])
            for k in range(n_found):
                cell = (np.int64(found[k]) * n_codes + offset + np.int64(column[records[k]])) * width
                record = (begin + np.int64(records[k])) * width
                own, more = flat[cell : cell + width], added[record : record + width]
                for w in range(width):
                    own[w] += more[w]


@njit(cache=True, nogil=True)
def add_parts(cells, wanted, offsets, start, stop, counts):
    """Add to ``counts[node, code, w]`` the sum over parts of ``cells[part, node, w, code]``, for wanted features.

    It is about the nodes ``start`` .. ``stop - 1``.
    """
    for node in range(start, stop):
        for feature in range(wanted.shape[1]):
            if wanted[node, feature]:
                own = counts[node, offsets[feature] : offsets[feature + 1]]
                for part in range(cells.shape[0]):
                    for w in range(own.shape[1]):
                        some = cells[part, node, w, offsets[feature] : offsets[feature + 1]]
                        for code in range(some.size):
                            own[code, w] += some[code]


@njit(cache=True, nogil=True)
def spare_largest(above, offsets, features, routes, first_children, first, is_counted):
    """Families ``(parent, largest child, first child, end of children)`` of split nodes, whose largest need not be counted.

    Parents have the indices of ``above``, children count from ``first``; families that are not all among the nodes of
    ``is_counted`` are left out.
    """
    families, n_found = np.empty((features.size, 4), dtype=np.int64), 0
    sizes = np.empty(routes.shape[1], dtype=np.int64)
    for parent in range(features.size):
        feature, begin = features[parent], first_children[parent] - first
        if feature < 0 or begin < 0:
            continue
        n_children = 0
        sizes[:] = 0
        for code in range(offsets[feature + 1] - offsets[feature]):
            child = routes[parent, code]
            n_children = max(n_children, child + 1)
            for w in range(above.shape[2]):
                sizes[child] += above[parent, offsets[feature] + code, w]
        if begin + n_children < is_counted.size:
            families[n_found] = parent, begin + np.argmax(sizes[:n_children]), begin, begin + n_children
            n_found += 1
    return families[:n_found]


@njit(cache=True, nogil=True)
def fill_spared(families, above, counts):
    """Set the counts of each largest child to its parent's less its siblings'."""
    for parent, largest, begin, end in families:
        own, whole = counts[largest], above[parent]
        for code in range(own.shape[0]):
            for w in range(own.shape[1]):
                own[code, w] = whole[code, w]
        for sibling in range(begin, end):
            if sibling != largest:
                other = counts[sibling]
                for code in range(own.shape[0]):
                    for w in range(own.shape[1]):
                        own[code, w] -= other[code, w]


@njit(cache=True, nogil=True)
def add_children(above, offsets, features, routes, first_children, first, counts):
    """Add to ``counts[child - first]`` the sums of ``above[parent]`` over the codes that its split sends to the child."""
    for parent in range(features.size):
        begin, end = offsets[features[parent]], offsets[features[parent] + 1]
        for code in range(end - begin):
            node = first_children[parent] + routes[parent, code] - first
            if features[parent] >= 0 and 0 <= node < counts.shape[0]:
                for w in range(counts.shape[1]):
                    counts[node, w] += above[parent, begin + code, w]


@njit(cache=True, nogil=True)
def count_nodes(labels, weights, positions, first, start, stop, counts):
    """Add 1, or a weight, to ``counts[node - first, label]`` for each record; a label is a class, or a step of a target."""
    for copy in range(positions.shape[0]):
        for record in range(start, stop):
            node = positions[copy, record] - first
            if 0 <= node < counts.shape[0]:
                counts[node, labels[record]] += weights[copy, record] if weights.size else 1


@njit(cache=True, nogil=True)
def sum_nodes(values, weights, positions, first, start, stop, counts):
    """Add (1, z, z**2), times a weight, to ``counts[node - first]`` for each record with bounded target z."""
    for copy in range(positions.shape[0]):
        for record in range(start, stop):
            node = positions[copy, record] - first
            if 0 <= node < counts.shape[0]:
                weight = weights[copy, record] if weights.size else 1
                value = values[record]
                counts[node, 0] += weight
                counts[node, 1] += weight * value
                counts[node, 2] += weight * value * value
