"""Kernels that encode, move and count records: they take arrays and fill arrays of integers. Sees rows and codes.

There are no coins and no budget here, and floating point only where numbers are encoded.

A position is the node that a record has reached in one tree; ``positions`` is ``(n_copies, n_records)``: one row if each
record belongs to one tree, else one row for each tree. ``weights`` is ``(n_copies, n_records)``, or ``(0, 0)`` when every
record counts once. Each call is about the records ``start`` .. ``stop - 1``, which is the part of one thread. A slot is the
index of a node in the cells that are filled; not every node has one.
"""

import numpy as np
from numba import njit

from dpforest.schema.scales import BITS, FIRST

# Records that are worked on at once, so that their codes stay in the processor's cache.
ROWS_AT_ONCE = 1 << 15
ENCODED_AT_ONCE = 1 << 8
ADDED_AT_ONCE = 1 << 12
NO_SIGN = np.uint64((1 << 63) - 1)
NOT_COUNTED = (1 << 32) - 1  # in the place of a slot, for a node that is not counted


@njit(cache=True, nogil=True)
def encode_numbers(columns, rows, cuts, missing, n_before, quick, lows, scales, start, stop, codes):
    """Write the codes of several numeric columns: how many cuts are at most the value, or the code for missing.

    Column k goes to ``codes[rows[k]]``. The range of its cuts is divided into even steps, and ``n_before[k, step]`` cuts lie
    in earlier steps: they are at most the value, and those in later steps are above it, because a larger number is never in
    an earlier step, however its step is rounded. In most steps there is no cut, and ``quick[k, step]`` is the code; in the
    others it is the largest number of its type, and the cuts of the step are searched by halving.
    """
    last, unknown = np.float64(n_before.shape[1] - 2), np.uint32(256**quick.itemsize - 1)
    for begin in range(start, stop, ENCODED_AT_ONCE):
        end = min(stop, begin + ENCODED_AT_ONCE)
        for k in range(rows.size):
            values, column, own, before, known = columns[k], codes[rows[k]], cuts[k], n_before[k], quick[k]
            low, scale, none = lows[k], scales[k], np.uint32(missing[k])
            for record in range(np.uint64(begin), np.uint64(end)):
                value = np.float64(values[record])
                step = (value - low) * scale
                step = step if step > 0.0 else 0.0  # also if it is no number
                index = np.uint32(np.int32(step if step < last else last))
                code = np.uint32(known[index])
                if code == unknown:
                    code = np.uint32(before[index])
                    high = np.uint32(before[index + np.uint32(1)])
                    while code < high:
                        middle = (code + high) >> np.uint32(1)
                        if own[middle] <= value:
                            code = middle + np.uint32(1)
                        else:
                            high = middle
                column[record] = code if value == value else none


@njit(cache=True, nogil=True)
def _find_bins(values, place, n_side, away, bins):
    """Fill ``bins`` with the bin of each value by its distance from a centre, that of the last bin for no number.

    Bins are those of ``schema.scales``: the first bits of the distance, as a float, are its octave and its place in it.
    """
    low, high, centre = place
    for index in range(bins.size):
        value = np.float64(values[index])
        value = low if value < low else high if value > high else value
        away[index] = value - centre
    bits = away.view(np.uint64)
    for index in range(bins.size):
        distance = away[index]
        word = np.int64((bits[index] & NO_SIGN) >> np.uint64(52 - BITS))
        side = word - FIRST + 1 if word >= FIRST else 0
        side = side if side < n_side else n_side
        found = n_side + side if distance > 0.0 else n_side - side
        bins[index] = found if distance == distance else 2 * n_side + 1


@njit(cache=True, nogil=True)
def count_scales(columns, places, kept, start, stop, counts):
    """Add 1 to the bin of each kept record in ``counts[k]``, by its distance in column k from a centre.

    ``places[k]`` are the bounds, to which values are clipped, and the centre. Four columns at a time, so that additions do
    not wait for one another.
    """
    n_columns, n_side = len(places), (counts.shape[1] - 2) // 2
    away, bins = np.empty(ENCODED_AT_ONCE), np.empty((4, ENCODED_AT_ONCE), dtype=np.uint16)
    for begin in range(start, stop, ENCODED_AT_ONCE):
        n = min(stop, begin + ENCODED_AT_ONCE) - begin
        for group in range(0, n_columns, 4):
            n_own = min(4, n_columns - group)
            for k in range(n_own):
                _find_bins(columns[group + k][begin : begin + n], places[group + k], n_side, away[:n], bins[k, :n])
            if n_own == 4:
                a, b, c, d = counts[group], counts[group + 1], counts[group + 2], counts[group + 3]
                for index in range(n):
                    one = np.int64(kept[begin + index])
                    a[bins[0, index]] += one
                    b[bins[1, index]] += one
                    c[bins[2, index]] += one
                    d[bins[3, index]] += one
            else:
                for k in range(n_own):
                    for index in range(n):
                        counts[group + k, bins[k, index]] += np.int64(kept[begin + index])


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
def look_up(values, low, table, found):
    """Fill ``found`` with ``table[value - low]`` for each value, or the last entry for values outside of the table."""
    last = table.size - 1
    for record in range(values.size):
        index = np.int64(values[record]) - low
        found[record] = table[index] if 0 <= index < last else table[last]


@njit(cache=True, nogil=True)
def descend(codes, positions, start, stop, first, features, routes, first_children):
    """Move each record from its node to the child that its code is routed to. Arrays are over the nodes from ``first``."""
    n_nodes, n_records, n_codes = np.uint32(features.size), np.uint64(codes.shape[1]), np.uint64(routes.shape[1])
    flat, table = codes.reshape(-1), routes.reshape(-1)
    for copy in range(positions.shape[0]):
        own = positions[copy]
        for record in range(np.uint64(start), np.uint64(stop)):
            node = np.uint32(own[record] - first)
            if node < n_nodes and features[node] >= 0:
                code = flat[np.uint64(features[node]) * n_records + record]
                own[record] = first_children[node] + table[np.uint64(node) * n_codes + code]


@njit(cache=True, nogil=True)
def _list_counted(positions, begin, end, first, slots, found, records):
    """The number of records from ``begin`` to ``end`` whose node has a slot.

    Their slots are written to ``found``, and how far they are behind ``begin`` to ``records``. ``slots`` is over the nodes
    from ``first``, with one more entry for records of other nodes.
    """
    n_nodes = np.uint32(slots.size - 1)
    n_found = np.uint32(0)
    for record in range(np.uint32(end - begin)):
        slot = slots[min(np.uint32(positions[begin + record] - first), n_nodes)]
        found[n_found] = slot
        records[n_found] = record
        n_found += np.uint32(slot != NOT_COUNTED)
    return n_found


@njit(cache=True, nogil=True)
def _first_cells(slots, n_cells):
    """Where the cells of each slot begin, if a slot has ``n_cells``; NOT_COUNTED stays what it is."""
    cells = np.empty(slots.size, dtype=np.uint32)
    for node in range(slots.size):
        cells[node] = NOT_COUNTED if slots[node] == NOT_COUNTED else slots[node] * n_cells
    return cells


@njit(cache=True, nogil=True)
def _list_words(positions, labels, weights, begin, end, first, first_cells, n_codes, words):
    """The number of records as ``_list_counted`` gives it, with what is needed of each record packed into one word.

    A word has, from the low end, where the cells of the record's slot and label begin (32 bits), how far the record is
    behind ``begin`` (16 bits), and its weight (16 bits).
    """
    n_nodes, n_codes = np.uint32(first_cells.size - 1), np.uint32(n_codes)
    n_found = np.uint32(0)
    for record in range(np.uint64(end - begin)):
        cell = first_cells[min(np.uint32(positions[begin + record] - first), n_nodes)]
        index = np.uint32(cell + np.uint32(labels[begin + record]) * n_codes)
        weight = np.uint64(weights[begin + record] if weights.size else 1)
        words[n_found] = np.uint64(index) | record << np.uint64(32) | weight << np.uint64(48)
        n_found += np.uint32(cell != NOT_COUNTED)
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
def count_codes(codes, features, offsets, labels, weights, positions, first, slots, moves, start, stop, cells):
    """Add 1, or a weight, to ``cells[slot, label, offsets[feature] + code]`` for each record and feature.

    Records are first moved down by ``moves``, the last arguments of ``descend``, while their codes are at hand.
    """
    _, n_labels, n_codes = cells.shape
    first_cells, words = _first_cells(slots, n_labels * n_codes), np.empty(ROWS_AT_ONCE, dtype=np.uint64)
    for begin in range(start, stop, ROWS_AT_ONCE):
        end = min(stop, begin + ROWS_AT_ONCE)
        if moves[1].size:
            descend(codes, positions, begin, end, *moves)
        for copy in range(positions.shape[0]):
            own = weights[copy] if weights.size else weights.reshape(-1)
            n_found = _list_words(positions[copy], labels, own, begin, end, first, first_cells, n_codes, words)
            _add_words(words[:n_found], codes, features, offsets, begin, end, cells.reshape(-1))


@njit(cache=True, nogil=True)
def count_drawn(
    codes, features, askers, n_askers, offsets, labels, weights, positions, first, slots, moves, start, stop, cells
):
    """Add to cells as ``count_codes`` does, but count feature k only in the slots ``askers[k, : n_askers[k]]``.

    Records are first ordered by slot.
    """
    n_slots, n_labels, n_codes = cells.shape
    flat, n_cells = cells.reshape(-1), np.uint32(n_labels * n_codes)
    first_cells, words = _first_cells(slots, n_cells), np.empty(ROWS_AT_ONCE, dtype=np.uint64)
    ordered, ends = np.empty(ROWS_AT_ONCE, dtype=np.uint64), np.empty(n_slots + 2, dtype=np.uint32)
    for begin in range(start, stop, ROWS_AT_ONCE):
        end = min(stop, begin + ROWS_AT_ONCE)
        if moves[1].size:
            descend(codes, positions, begin, end, *moves)
        for copy in range(positions.shape[0]):
            own = weights[copy] if weights.size else weights.reshape(-1)
            n_found = _list_words(positions[copy], labels, own, begin, end, first, first_cells, n_codes, words)
            ends[:] = 0
            for word in words[:n_found]:
                ends[np.uint32(word) // n_cells + np.uint32(2)] += np.uint32(1)
            for slot in range(n_slots):
                ends[slot + 2] += ends[slot + 1]
            for word in words[:n_found]:
                # Where the next record of the slot goes; after the loop, where the records of the slot end.
                own_slot = np.uint32(word) // n_cells + np.uint32(1)
                index = ends[own_slot]
                ends[own_slot] = index + np.uint32(1)
                ordered[index] = word
            for k in range(features.size):
                column, table = codes[features[k], begin:end], flat[offsets[features[k]] :]
                for slot in askers[k, : n_askers[k]]:
                    for word in ordered[ends[slot] : ends[slot + 1]]:
                        code = column[np.uint16(word >> np.uint64(32))]
                        table[np.uint32(word) + code] += np.int32(word >> np.uint64(48))


@njit(cache=True, nogil=True)
def sum_codes(codes, features, offsets, values, weights, positions, first, slots, moves, start, stop, cells):
    """Add (1, z, z**2), times a weight, to ``cells[slot, :, offsets[feature] + code]`` for each record and feature.

    z is a bounded target on the integer grid. Records are first moved down as in ``count_codes``.
    """
    found, records = np.empty(ROWS_AT_ONCE, dtype=np.uint32), np.empty(ROWS_AT_ONCE, dtype=np.uint32)
    for begin in range(start, stop, ROWS_AT_ONCE):
        end = min(stop, begin + ROWS_AT_ONCE)
        if moves[1].size:
            descend(codes, positions, begin, end, *moves)
        for copy in range(positions.shape[0]):
            n_found = _list_counted(positions[copy], begin, end, first, slots, found, records)
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
def sum_residual_codes(codes, features, offsets, residuals, positions, first, slots, moves, start, stop, cells):
    """Add ``residuals[record]`` to ``cells[slot, offsets[feature] + code]`` for each record and feature.

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
        n_found = _list_counted(positions[0], begin, end, first, slots, found, records)
        for feature in features:
            column, offset = codes[feature, begin:end], np.int64(offsets[feature])
            for k in range(n_found):
                cell = (np.int64(found[k]) * n_codes + offset + np.int64(column[records[k]])) * width
                record = (begin + np.int64(records[k])) * width
                own, more = flat[cell : cell + width], added[record : record + width]
                for w in range(width):
                    own[w] += more[w]


@njit(cache=True, nogil=True)
def add_parts(cells, slots, counts):
    """Set ``counts[node, code, w]`` to the sum over parts of ``cells[part, slots[node], w, code]``; 0 without a slot."""
    for node in range(counts.shape[0]):
        counts[node] = 0
        if slots[node] != NOT_COUNTED:
            for part in range(cells.shape[0]):
                for w in range(counts.shape[2]):
                    own = cells[part, slots[node], w]
                    for code in range(own.size):
                        counts[node, code, w] += own[code]


@njit(cache=True, nogil=True)
def largest_children(counts, offsets, features, routes, first_children, first, n_nodes):
    """For each node that was split: its largest child, itself, and the range ``(begin, end)`` of all its children.

    Parents have the indices of ``counts``, children count from ``first``. Parents whose children are not all among the
    ``n_nodes`` nodes from ``first`` are left out.
    """
    n_found = 0
    derived, parents = np.empty(features.size, dtype=np.int64), np.empty(features.size, dtype=np.int64)
    families = np.empty((features.size, 2), dtype=np.int64)
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
            sizes[child] += counts[parent, offsets[feature] + code].sum()
        if begin + n_children <= n_nodes:
            derived[n_found], parents[n_found] = begin + sizes[:n_children].argmax(), parent
            families[n_found, 0], families[n_found, 1] = begin, begin + n_children
            n_found += 1
    return derived[:n_found], parents[:n_found], families[:n_found]


@njit(cache=True, nogil=True)
def subtract_siblings(counts, derived, parents, families, kept):
    """Set ``counts[derived[k]]`` to ``kept[parents[k]]`` less the other children, ``families[k, 0] : families[k, 1]``."""
    for k in range(derived.size):
        own = counts[derived[k]]
        own[:] = kept[parents[k]]
        for sibling in range(families[k, 0], families[k, 1]):
            if sibling != derived[k]:
                own -= counts[sibling]


@njit(cache=True, nogil=True)
def count_class_nodes(labels, weights, positions, first, start, stop, counts):
    """Add 1, or a weight, to ``counts[node - first, label]`` for each record."""
    for copy in range(positions.shape[0]):
        for record in range(start, stop):
            node = positions[copy, record] - first
            if 0 <= node < counts.shape[0]:
                counts[node, labels[record]] += weights[copy, record] if weights.size else 1


@njit(cache=True, nogil=True)
def sum_value_nodes(values, weights, positions, first, start, stop, counts):
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
def count_values(values, positions, first, start, stop, counts):
    """Add 1 to ``counts[node - first, value]`` for each record."""
    for record in range(start, stop):
        node = positions[0, record] - first
        if 0 <= node < counts.shape[0]:
            counts[node, values[record]] += 1


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
