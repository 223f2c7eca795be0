"""Coins that a database draws for its rows, as digits of a keyed hash. Sees names of columns and a secret key, no rows.

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

DIGITS = 32  # the number of digits of a threshold
KEY_BYTES = 32


@ibis.udf.scalar.builtin
def md5(text: str) -> str:  # type: ignore[empty-body]
    """The engine's own MD5, in hex digits."""


def draw_key(entropy: Entropy) -> str:
    """A fresh secret of 64 characters, which is one block of MD5."""
    return (entropy.generator().bytes(KEY_BYTES) if entropy.seeded else os.urandom(KEY_BYTES)).hex()


def digits_of_row(key: str) -> Any:
    """Random decimal digits of each record, by its row number in an order that the engine chooses; draw once and keep."""
    return _digits(key, ibis.row_number().cast("string"))


def digits_of_values(key: str, columns: Sequence[Any]) -> Any:
    """Random decimal digits of each record, by its values alone, which are whole numbers: the same in every query."""
    text = ibis.literal("")
    for column in columns:
        text = text + column.cast("string") + ","
    return _digits(key, text)


def _digits(key: str, text: Any) -> Any:
    return md5(ibis.literal(key) + text).translate("abcdef", "")


def threshold(share: Fraction) -> str:
    """A share in [0, 1) as ``DIGITS`` decimal digits, rounded up."""
    return str(-(-share.numerator * 10**DIGITS // share.denominator)).zfill(DIGITS)


def draw_below(n: int, digits: Any) -> Any:
    """An expression for a number in 0 .. n - 1, all equally likely, by random digits."""
    return steps(digits, [threshold(Fraction(k, n)) for k in range(n)], list(range(n)))


# Threshold k is at least P[Poisson(1) < k]. A draw is the number of thresholds, without the first, that are <= the digits.
POISSON_THRESHOLDS = [threshold(share) for share in (Fraction(0), *poisson_shares())]


def draw_poisson(digits: Any) -> Any:
    """An expression for a Poisson(1) draw by random digits, rounded down: never above it, and nearly always equal."""
    return steps(digits, POISSON_THRESHOLDS, list(range(len(POISSON_THRESHOLDS))))


def draw_side(share: Fraction, digits: Any) -> Any:
    """An expression that is 1 with probability ``share`` and else 0, by random digits."""
    return steps(digits, ["", threshold(share)], [1, 0]) if share < 1 else ibis.literal(1)
