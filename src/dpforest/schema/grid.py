"""Where cuts and bins lie, by public bounds alone. Public values only.

Days and seconds are counted from the start of 1970, in UTC and by the calendar of today, also before it was made.
"""

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from dpforest.errors import SchemaError
from dpforest.schema.kinds import SECONDS_OF_DAY, Date, Numeric

# Codes of a feature whose routes are tables, and so bins.
MOST_TABLED = 1 << 16
# Of a grid without a scale: cuts in each octave, or in the topmost ones and in the others of a sparse grid.
PER_OCTAVE, TOP_OCTAVES, PER_LOW_OCTAVE = 8, 4, 2
# Octaves reach down to 2**-13, or are 20, whichever is more. Numbers above 2**34 are rare: one cut for each octave there.
LEAST_EXPONENT, LEAST_OCTAVES, MOST_DENSE = -13, 20, 34
# Without scales and bounds: powers of 2 from 2**-10 up to 2**20.
COMMON_OCTAVES = 10
# A grid of fewer bins than this has as few for dates; any other has the cuts of the calendar.
FEW_BINS = 16
# The first and the last second of the years 1 .. 9999, in which all dates lie.
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
# The most cuts of a date: then its codes take one byte.
MOST_CUTS = 250
# Where a bound is missing, years have a cut each from the first of these on, quarters from the second until the third.
FIRST_YEAR, FIRST_QUARTER, LAST_QUARTER = 1920, 1990, 2035
# Seconds of a second, minute, hour, day and week; weeks begin on Monday, and the first of 1970 on its fifth day.
SECONDS = (1, 60, 3_600, SECONDS_OF_DAY, 7 * SECONDS_OF_DAY)
FIRST_MONDAY = 4 * SECONDS_OF_DAY
# Months of a month, quarter, year and decade.
MONTHS = (1, 3, 12, 120)


@dataclass(frozen=True)
class Grid:
    """The rule that places the cuts of each numeric feature, from its public bounds alone.

    ``bins - 1`` cuts of equal width or, with ``scales``, cuts without a scale of their own: some in each octave of the
    distance from zero (or from the bound nearest to it), so that it matters little how wide the bounds are. ``sparse``
    leaves fewer of them below the topmost octaves. A feature without bounds has no equal widths: without ``scales`` it gets
    ``bins - 1`` cuts at powers of 2. A whole-number feature with few values gets a bin for each.

    Privacy:
        Claim: cuts reveal nothing about records.
        Because: they are a function of the schema.
        Assumes: the schema is public.
    """

    bins: int = 32
    scales: bool = False
    sparse: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.bins, bool) or not isinstance(self.bins, int) or not 1 <= self.bins < MOST_TABLED:
            raise SchemaError(f"bins must be a whole number from 1 to {MOST_TABLED - 1}, not {self.bins!r}.")

    def cuts(self, feature: Numeric | Date) -> np.ndarray:
        """The cuts of a feature, ``(n_cuts,)``, increasing and inside its bounds; bin k holds values with k cuts <= them."""
        if isinstance(feature, Date):
            # Papers that give a child to each of a few bins do so for dates too.
            return calendar_cuts(feature, MOST_CUTS if self.bins >= FEW_BINS else self.bins - 1)
        return _cuts(self, *feature.range, feature.integer, feature.has_bounds)


@lru_cache(maxsize=4096)
def _cuts(grid: Grid, lower: float, upper: float, integer: bool, has_bounds: bool) -> np.ndarray:
    bins = grid.bins
    if integer and upper - lower < bins:
        cuts = np.arange(math.ceil(lower) + 1, math.floor(upper) + 1, dtype=float)
    elif grid.scales:
        cuts = _scale_cuts(lower, upper, grid.sparse)
        if integer:
            near = math.ceil(anchor(lower, upper)) + np.arange(-bins, bins + 1.0)
            cuts = np.concatenate([np.ceil(cuts), near])
        cuts = inside(cuts, lower, upper)
    elif has_bounds:
        cuts = np.linspace(lower, upper, bins + 1)[1:-1]
        cuts = inside(np.ceil(cuts) if integer else cuts, lower, upper)
    else:
        cuts = _powers(bins - 1, lower, upper, integer)
    cuts.setflags(write=False)  # shared by all fits
    return cuts


def inside(cuts: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """The cuts in increasing order, each once, without those that have no value between the bounds on one side."""
    cuts = np.unique(cuts + 0.0)  # no minus zero
    return cuts[(cuts > lower) & (cuts <= upper)]


def anchor(lower: float, upper: float) -> float:
    """The number from which scales are counted: 0, or the nearest bound."""
    return min(max(lower, 0.0), upper)


def just_above(zero: float, reach: float) -> float:
    """A cut just above the anchor, below all other numbers that occur."""
    return zero + min(reach, 1.0) * 0.5**60


def _powers(n: int, lower: float, upper: float, integer: bool) -> np.ndarray:
    """At most ``n`` cuts, evenly taken from the powers of 2, neither very small nor very large, around the anchor."""
    zero, far = anchor(lower, upper), 2.0 ** np.arange(0 if integer else -COMMON_OCTAVES, 2 * COMMON_OCTAVES)
    cuts = inside(np.concatenate([zero - far, [zero], zero + far]), lower, upper)
    return cuts if len(cuts) <= n else cuts[np.rint(np.linspace(0, len(cuts) - 1, n + 2)).astype(int)[1:-1]]


def _scale_cuts(lower: float, upper: float, sparse: bool) -> np.ndarray:
    """Cuts in each octave of the distance from the anchor, on both sides of it, and one just above it."""
    zero = anchor(lower, upper)
    reach = max(upper - zero, zero - lower)
    top = math.ceil(math.log2(reach))
    distances = []
    for octave in np.arange(1, max(top - LEAST_EXPONENT, LEAST_OCTAVES) + 1):
        dense = top - octave < MOST_DENSE
        n = PER_OCTAVE if dense and (not sparse or octave <= TOP_OCTAVES) else PER_LOW_OCTAVE if dense else 1
        distances.append(reach * 0.5**octave * (1 + np.arange(n) / n))
    far = np.concatenate(distances)
    return np.concatenate([zero + far, zero - far, [zero, just_above(zero, reach), upper]])


@lru_cache(maxsize=1024)
def calendar_cuts(part: Date, most: int = MOST_CUTS) -> np.ndarray:
    """The cuts of a date, ``(n_cuts,)``: the turns of days, weeks, months, quarters and so on.

    Between two bounds they are the finest turns of which there are at most ``most``: of days, weeks, months, quarters, years
    or decades, and of points in time also of seconds, minutes or hours.
    """
    lower, upper = map(int, part.range)
    unit = 1 if part.time else SECONDS_OF_DAY
    turns = _finest(lower, upper, unit, most)
    if not part.has_bounds:
        years, quarters = _months(FIRST_YEAR, FIRST_QUARTER, 12), _months(FIRST_QUARTER, LAST_QUARTER, 3)
        usual = _within(np.concatenate([years, quarters]), lower, upper, unit)
        turns = usual if 0 < len(usual) <= most else turns
    if len(turns) > most:  # even of decades there are more
        turns = turns[np.arange(most) * len(turns) // max(most, 1)]
    cuts = turns.astype(np.float64)
    cuts.setflags(write=False)  # shared by all fits
    return cuts


def _finest(lower: int, upper: int, unit: int, most: int) -> np.ndarray:
    """The finest turns above ``lower`` and up to ``upper``, in units, of which there are at most ``most``; or decades."""
    for step in SECONDS:
        start = FIRST_MONDAY if step == SECONDS[-1] else 0
        before, last = ((end * unit - start) // step for end in (lower, upper))
        if step >= unit and last - before <= most:
            return (start + step * np.arange(before + 1, last + 1)) // unit
    first_year, last_year = (np.datetime64(end * unit, "s").item().year for end in (lower, upper))
    for step in MONTHS:
        turns = _within(_months(first_year // 10 * 10, last_year + 1, step), lower, upper, unit)
        if len(turns) <= most:
            break
    return turns


def _months(first_year: int, end_year: int, step: int) -> np.ndarray:
    """The seconds at which every ``step``-th month begins, from one year until another."""
    months = np.arange((first_year - 1970) * 12, (end_year - 1970) * 12, step)
    return months.astype("datetime64[M]").astype("datetime64[s]").astype(np.int64)


def _within(seconds: np.ndarray, lower: int, upper: int, unit: int) -> np.ndarray:
    turns = seconds // unit
    return turns[(turns > lower) & (turns <= upper)]


def date_words(part: Date, cuts: Any) -> list[str]:
    """The first day (with ``time`` second) at or after each cut: ``2024-04-01``, ``2024-04-01T12:00``."""
    unit = 1 if part.time else SECONDS_OF_DAY
    seconds = np.clip(np.ceil(cuts), FIRST_SECOND // unit, LAST_SECOND // unit) * unit
    moments = seconds.astype(np.int64).astype("datetime64[s]").astype(str).tolist()
    return [moment.removesuffix(":00") if part.time else moment[:10] for moment in moments]


# Bins without a scale, in each octave of the distance from a centre. The bin of x around c follows from the float x - c
# alone: its sign, its exponent and the first BITS of its fraction. So it is the same on every machine.
BITS = 4  # 16 bins in each octave
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
    """The distances from the centre, ``(N_SIDE + 1,)``, of the edges of the bins of one side."""
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
    away = distances()[k - 1 : k + 1].mean() if k else 0.0
    return centre + away if index > CENTRE else centre - away
