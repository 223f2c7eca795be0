"""Coins that are drawn where the rows are: digits of a keyed hash. Sees names of columns, thresholds and a secret key.

The digest of a record is written in digits 0 .. f. Letters are dropped; what is left are decimal digits, each uniform,
which every collation orders alike. They are compared as text with public thresholds, so no engine has to read a number of
128 bits.

Privacy:
    Claim: coins of records are independent of one another and of what the records hold (bootstrap, and all draws from
        numbers of rows); or a function of the record alone (draws from its values).
    Because: the key has as many characters as MD5 takes at once, so what follows is hashed from a secret starting value. As
        far as that compression function is pseudo-random, which is what HMAC-MD5 assumes too, the digests of different
        row numbers are as good as independent words. A text of fewer digits than a threshold is below it if it is a
        prefix: so draws are rounded down, and a bootstrap never draws more than Poisson.
    Assumes: the key stays secret; see ``docs/guide/sql.md`` for what rests on MD5 and what does not.
"""

import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ibis

from dpforest.mechanisms import Entropy
from dpforest.records.draws import poisson_shares
from dpforest.records.sql.lookups import steps

DIGITS = 32  # of a threshold
KEY_BYTES = 32


@ibis.udf.scalar.builtin(name="md5")
def _md5(text: str) -> str:  # type: ignore[empty-body]
    """The engine's own."""


def draw_key(entropy: Entropy) -> str:
    """A fresh secret of 64 characters: one block of MD5."""
    return (entropy.generator().bytes(KEY_BYTES) if entropy.seeded else os.urandom(KEY_BYTES)).hex()


def digits_of_row(key: str) -> Any:
    """Decimal digits of each record by its place in an order that the engine chooses; draw once and keep."""
    return _digits(key, ibis.row_number().cast("string"))


def digits_of_values(key: str, columns: Sequence[Any]) -> Any:
    """Decimal digits of each record by its values alone, given as whole numbers: the same in every query."""
    text = ibis.literal("")
    for column in columns:
        text = text + column.cast("string") + ","
    return _digits(key, text)


def _digits(key: str, text: Any) -> Any:
    return _md5(ibis.literal(key) + text).translate("abcdef", "")


def threshold(share: Fraction) -> str:
    """Digits that stand at or above a share in [0, 1)."""
    return str(-(-share.numerator * 10**DIGITS // share.denominator)).zfill(DIGITS)


def draw_below(n: int, digits: Any) -> Any:
    """A number in 0 .. n - 1, all as likely."""
    return steps(digits, [threshold(Fraction(k, n)) for k in range(n)], list(range(n)))


# Threshold k is at least P[Poisson(1) < k]: a draw is the number of thresholds above the first that are at most the digits.
POISSON_THRESHOLDS = [threshold(share) for share in (Fraction(0), *poisson_shares())]


def draw_poisson(digits: Any) -> Any:
    """A number that is at most a Poisson(1) draw of the same digits, and nearly always equal to it."""
    return steps(digits, POISSON_THRESHOLDS, list(range(len(POISSON_THRESHOLDS))))


def draw_side(share: Fraction, digits: Any) -> Any:
    """1 with probability ``share``, else 0."""
    return steps(digits, ["", threshold(share)], [1, 0]) if share < 1 else ibis.literal(1)
