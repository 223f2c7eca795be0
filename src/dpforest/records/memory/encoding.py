"""Kernels that encode the values of columns, and count them around centres: they fill arrays of integers. Sees rows.

There are no coins and no budget here. Each call is about the records ``start`` .. ``stop - 1``, the part of one thread.
"""

import numpy as np
from numba import njit

from dpforest.schema.grid import BITS, FIRST

# Records that are worked on at once, so that their values stay in the processor's cache.
ENCODED_AT_ONCE = 1 << 8
NO_SIGN = np.uint64((1 << 63) - 1)


@njit(cache=True, nogil=True)
def encode_numbers(columns, rows, kinds, cuts, missing, n_before, quick, lows, scales, start, stop, codes):
    """Write the codes of several numeric columns: how many cuts are at most the value, or the code for missing.

    Column k goes to ``codes[rows[k]]``, by the cuts of its kind ``kinds[k]``. Their range is divided into even steps, and
    ``n_before[kind, step]`` cuts lie in earlier steps: they are at most the value, and those in later steps are above it,
    because a larger number is never in an earlier step, however its step is rounded. In most steps there is no cut, and
    ``quick[kind, step]`` is the code; in the others it is the largest number of its type, and the cuts of the step are
    searched by halving.
    """
    last, unknown = np.float64(n_before.shape[1] - 2), np.uint32(256**quick.itemsize - 1)
    for begin in range(start, stop, ENCODED_AT_ONCE):
        end = min(stop, begin + ENCODED_AT_ONCE)
        for k in range(rows.size):
            kind, values, column = kinds[k], columns[k], codes[rows[k]]
            own, before, known = cuts[kind], n_before[kind], quick[kind]
            low, scale, none = lows[kind], scales[kind], np.uint32(missing[kind])
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

    Bins are those of ``schema.grid``: the first bits of the distance, as a float, are its octave and its place in it.
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
def look_up(values, low, table, found):
    """Fill ``found`` with ``table[value - low]`` for each value, or the last entry for values outside of the table."""
    last = table.size - 1
    for record in range(values.size):
        index = np.int64(values[record]) - low
        found[record] = table[index] if 0 <= index < last else table[last]
