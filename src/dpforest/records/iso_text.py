"""Reading of text as dates and points in time, as ISO 8601 writes them. Sees rows.

    YYYY-MM-DD, then perhaps T or a blank and HH:MM, HH:MM:SS or HH:MM:SS.f..., then perhaps Z or +HH:MM or -HH:MM

A text that is anything else, or names no day of the calendar, is no date. The rule looks at one text alone.
"""

import numpy as np
from numba import njit

from dpforest.schema import SECONDS_OF_DAY

# Stands for a point in time that is missing.
NO_DATE = np.iinfo(np.int64).min
_DAYS_BEFORE = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365])
# Days from 0001-01-01 to 1970-01-01.
_SINCE_YEAR_1 = 719_162
_DAY = SECONDS_OF_DAY


def read_texts(texts: list[bytes]) -> np.ndarray:
    """The seconds since 1970 that texts stand for, ``(n_texts,)``; ``NO_DATE`` where one is no date."""
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return read_spans(np.frombuffer(b"".join(texts), dtype=np.uint8), ends)


def read_spans(letters: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """As ``read_texts``, of texts that lie one behind the other: text k is ``letters[ends[k] : ends[k + 1]]``."""
    seconds = np.empty(len(ends) - 1, dtype=np.int64)
    _read(letters, ends.astype(np.int64), seconds)
    return seconds


@njit(cache=True, nogil=True)
def _read(letters, ends, seconds):
    for record in range(seconds.size):
        seconds[record] = _moment(letters, ends[record], ends[record + 1])


@njit(cache=True, nogil=True)
def _moment(letters, begin, end):
    """The seconds since 1970 of the text between two places; fractions of a second are dropped."""
    day = _day(letters, begin, end)
    if day == NO_DATE or end - begin == 10:
        return day if day == NO_DATE else day * _DAY
    if end - begin < 16 or (letters[begin + 10] != ord("T") and letters[begin + 10] != ord(" ")):
        return NO_DATE
    hour, minute, second = _number(letters, begin + 11, 2), _number(letters, begin + 14, 2), 0
    place = begin + 16
    if place + 3 <= end and letters[place] == ord(":"):
        second = _number(letters, place + 1, 2)
        place += 3
        if place < end and letters[place] == ord("."):
            first = place + 1
            place = first
            while place < end and ord("0") <= letters[place] <= ord("9"):
                place += 1
            if place == first:
                return NO_DATE
    if letters[begin + 13] != ord(":") or not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        return NO_DATE
    ahead = _ahead(letters, place, end)
    return NO_DATE if ahead == NO_DATE else day * _DAY + hour * 3600 + minute * 60 + second - ahead


@njit(cache=True, nogil=True)
def _day(letters, begin, end):
    """The days since 1970 of the first ten letters."""
    if end - begin < 10 or letters[begin + 4] != ord("-") or letters[begin + 7] != ord("-"):
        return NO_DATE
    year, month, day = _number(letters, begin, 4), _number(letters, begin + 5, 2), _number(letters, begin + 8, 2)
    if year < 1 or not 1 <= month <= 12 or day < 1:
        return NO_DATE
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _DAYS_BEFORE[month] - _DAYS_BEFORE[month - 1] + (leap and month == 2):
        return NO_DATE
    before = year - 1
    of_years = 365 * before + before // 4 - before // 100 + before // 400
    return of_years + _DAYS_BEFORE[month - 1] + (leap and month > 2) + day - 1 - _SINCE_YEAR_1


@njit(cache=True, nogil=True)
def _ahead(letters, place, end):
    """The seconds by which the zone at the end of a text is ahead of UTC; 0 if there is none."""
    if place == end or (place + 1 == end and letters[place] == ord("Z")):
        return 0
    if place + 6 != end or letters[place + 3] != ord(":"):
        return NO_DATE
    hour, minute = _number(letters, place + 1, 2), _number(letters, place + 4, 2)
    if not (0 <= hour < 24 and 0 <= minute < 60):
        return NO_DATE
    if letters[place] == ord("+"):
        return hour * 3600 + minute * 60
    return -(hour * 3600 + minute * 60) if letters[place] == ord("-") else NO_DATE


@njit(cache=True, nogil=True)
def _number(letters, begin, n_digits):
    """The number that some digits write; -1 if one of them is none."""
    number = 0
    for place in range(begin, begin + n_digits):
        if not ord("0") <= letters[place] <= ord("9"):
            return -1
        number = 10 * number + int(letters[place]) - ord("0")
    return number
