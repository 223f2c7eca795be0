"""The calendar: the cuts of dates, and dates in words. Public values only.

Days and seconds are counted from the start of 1970, in UTC and by the calendar of today, also before it was made.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from dpforest.schema.kinds import SECONDS_OF_DAY, Date

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


def calendar_cuts(part: Date, most: int = MOST_CUTS) -> np.ndarray:
    """The cuts of a date, ``(n_cuts,)``, by its public bounds alone: the turns of days, weeks, months, quarters and so on.

    Between two bounds they are the finest turns of which there are at most ``most``: of days, weeks, months, quarters, years
    or decades, and of points in time also of seconds, minutes or hours.
    """
    lower, upper = part.range
    return _cuts(int(lower), int(upper), 1 if part.time else SECONDS_OF_DAY, part.has_bounds, most)


@lru_cache(maxsize=1024)
def _cuts(lower: int, upper: int, unit: int, has_bounds: bool, most: int) -> np.ndarray:
    turns = _finest(lower, upper, unit, most)
    if not has_bounds:
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
    first_year, last_year = (_year(end * unit) for end in (lower, upper))
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


def _year(seconds: int) -> int:
    return int(np.datetime64(seconds, "s").astype("datetime64[Y]").astype(np.int64)) + 1970


def date_words(part: Date, cuts: Any) -> list[str]:
    """For each cut the first day (with ``time`` second) that is not below it: ``2024-04-01``, ``2024-04-01T12:00``."""
    unit = 1 if part.time else SECONDS_OF_DAY
    seconds = np.clip(np.ceil(cuts), FIRST_SECOND // unit, LAST_SECOND // unit) * unit
    moments = seconds.astype(np.int64).astype("datetime64[s]").astype(str).tolist()
    return [moment.removesuffix(":00") if part.time else moment[:10] for moment in moments]
