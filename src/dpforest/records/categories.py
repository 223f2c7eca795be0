"""The codes of categories that are compared as texts: buckets by a public hash, and the index in a learnt list. Sees rows.

One rule gives the text of a value in every backend. Text is itself, up to ``LONGEST_TEXT`` characters. A whole number of 64
bits, with a sign or without, is its decimal digits: 17, 17.0 and Decimal("17.00") are "17", a minus zero is "0", truth
values are "1" and "0". So a column of whole numbers is read alike with and without a missing value, for which many libraries
turn it into floats. None, NaN and the missing values of pandas are missing. Anything else has no text and counts as "other":
3.5, bytes, lists, text that UTF-8 cannot hold, and whatever cannot be read.
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from narwhals.dependencies import get_pandas

from dpforest.records.columns import asking, distinct, to_indices
from dpforest.schema import LONGEST_TEXT, Categorical

# Whole numbers that have a text: those that 64 bits hold, with or without a sign.
LEAST_WHOLE, MOST_WHOLE = -(1 << 63), (1 << 64) - 1


# Notes of a column of Arrow that it holds places in a declared list, as ``category_codes`` or ``target_values`` gives them.
PLACES = {b"dpforest": b"places"}


@dataclass(frozen=True, repr=False)
class Places:
    """A column whose values were looked up in the declared list already, where they were read."""

    codes: np.ndarray  # (n_records,)

    def __len__(self) -> int:
        return len(self.codes)


class Missing:
    """Stands for a missing value where a text is expected."""


def category_codes(column: Any, part: Categorical) -> np.ndarray:
    """The index of each value in the category list, or its bucket; the next index stands for "other", then missing."""
    if isinstance(column, Places):
        return column.codes
    if part.by_text:
        return text_codes(column, part)
    return to_indices(column, part.categories, part.n_values, part.n_values + 1)


def text_codes(column: Any, part: Categorical) -> np.ndarray:
    """The code of each value of a feature whose values are compared as texts, ``(n_records,)``.

    Buckets or indices in the list come first, then "other", then missing.
    """
    texts, inverse = to_texts(column)
    code_of = _index_in(part) if part.categories else bucket_finder(part.n_values)
    codes = [code_of(text) for text in texts]
    return np.array([*codes, part.n_values, part.n_values + 1], dtype=np.int32)[inverse]


def _index_in(part: Categorical) -> Callable[[str], int]:
    indices = {text: index for index, text in enumerate(part.categories)}
    return lambda text: indices.get(text, len(indices))


def bucket_finder(n_buckets: int) -> Callable[[str], int]:
    """The bucket of a text: the first byte of the MD5 of its UTF-8 bytes, modulo ``n_buckets`` (a divisor of 256).

    MD5 since databases have it, too. It hides nothing and need not: that a value falls into a bucket is public.
    """
    md5 = hashlib.md5
    return lambda text: md5(text.encode(), usedforsecurity=False).digest()[0] % n_buckets


# numpy may warn about a value, or raise if callers have asked for that.
@np.errstate(all="ignore")
def to_texts(column: Any) -> tuple[list[str], np.ndarray]:
    """The texts of a column, each listed once, and for each record the index of its text in the list, ``(n_records,)``.

    ``len(texts)`` stands for values that have no text ("other"), ``len(texts) + 1`` for missing ones.

    Privacy: not private by itself; the order of the list is that of the records. What a record is read as follows from its
    own value and the type of the column; nothing is raised and no code of a value is run.
    """
    values, inverse = distinct(column)
    read = asking(to_text, None)
    indices: dict[str, int] = {}
    found = []
    for value in values:
        text = read(value)
        found.append(-1 if text is None else -2 if text is Missing else indices.setdefault(text, len(indices)))
    places = np.array(found, dtype=np.int64)
    places = np.where(places < 0, len(indices) - 1 - places, places)
    return list(indices), places[inverse] if len(places) else np.zeros(0, dtype=np.int64)


def to_text(value: Any) -> Any:
    """The text of a value, ``Missing`` for a missing one, None for one that has none; may raise for an odd one.

    Methods of the types that are known are called as such: those of a subclass could do anything.
    """
    if issubclass(type(value), np.generic):
        value = np.generic.item(value)
    kind = type(value)
    if issubclass(kind, np.longdouble):  # as the float that it is nearest to: their size depends on the platform
        value, kind = np.longdouble.__float__(value), float
    if issubclass(kind, str):
        str.encode(value)  # raises if UTF-8 cannot hold it
        return str.__str__(value)[:LONGEST_TEXT]
    if issubclass(kind, int):
        return _digits(int.__int__(value))
    if issubclass(kind, float):
        return Missing if math.isnan(value) else _digits(float.__trunc__(value)) if float.is_integer(value) else None
    if issubclass(kind, Decimal):
        return _text_of_decimal(value)
    pandas = get_pandas()
    is_missing = value is None or (pandas is not None and (value is pandas.NA or value is pandas.NaT))
    return Missing if is_missing else None


def _digits(whole: int) -> str | None:
    return str(whole) if LEAST_WHOLE <= whole <= MOST_WHOLE else None


def _text_of_decimal(value: Decimal) -> Any:
    if Decimal.is_nan(value):
        return Missing
    # The range first: to write out a number such as 1e999999999 could end the process.
    if not (Decimal.__ge__(value, LEAST_WHOLE) and Decimal.__le__(value, MOST_WHOLE)):
        return None
    whole = Decimal.to_integral_value(value)
    return _digits(int(whole)) if Decimal.__eq__(value, whole) else None
