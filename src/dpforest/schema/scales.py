"""Bins without a scale: some in each octave of the distance from a centre, on both sides of it. Public values only.

The bin of a value x around a centre c follows from the float x - c alone: from its sign, its exponent and the first bits of
its fraction. So it is the same on every machine, however wide the bounds of a feature are.
"""

from functools import cache

import numpy as np

BITS = 4  # of the fraction: 16 bins in each octave
# Octaves of distances from 2**LEAST up to 2**MOST, which is more than two numbers of 64 bits can be apart.
LEAST, MOST = -60, 65
N_SIDE = (MOST - LEAST) << BITS
# Bins below the centre, the one at it (distances below 2**LEAST), those above, and one for missing values.
CENTRE, MISSING = N_SIDE, 2 * N_SIDE + 1
N_BINS = 2 * N_SIDE + 1
# The bits of a float that is 2**LEAST, without those of the fraction that bins do not tell apart.
FIRST = (1023 + LEAST) << BITS


@cache
def distances() -> np.ndarray:
    """The distances from the centre, ``(N_SIDE + 1,)``, at which the bins of one side begin, and at which the last ends."""
    exponents = np.arange(LEAST, MOST)[:, None]
    begins = np.ldexp(1 + np.arange(1 << BITS) / (1 << BITS), exponents).ravel()
    found = np.append(begins, 2.0**MOST)
    found.flags.writeable = False
    return found


def bin_of(value: float, centre: float) -> int:
    """The bin of a value, which is no NaN, around a centre."""
    distance = value - centre
    k = int(np.searchsorted(distances()[:-1], abs(distance), side="right"))
    return CENTRE + k if distance > 0 else CENTRE - k


def middle_of(index: int, centre: float) -> float:
    """The number in the middle of a bin around a centre."""
    k = abs(index - CENTRE)
    if k == 0:
        return centre
    begins = distances()
    away = (begins[k - 1] + begins[k]) / 2
    return centre + away if index > CENTRE else centre - away
