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

from dpforest.mechanisms import Entropy
from dpforest.records.draws import poisson_shares
from dpforest.records.sql.expressions import steps

DIGITS = 32  # the number of digits of a threshold
KEY_BYTES = 32


def draw_key(entropy: Entropy) -> str:
    """A fresh secret of 64 characters, which is one block of MD5."""
    return (entropy.generator().bytes(KEY_BYTES) if entropy.seeded else os.urandom(KEY_BYTES)).hex()


def digits_of_row(key: str) -> str:
    """Random decimal digits of each record, by its row number in an order that the engine chooses; draw once and keep."""
    return _digits(key, ["ROW_NUMBER() OVER ()"])


def digits_of_values(key: str, columns: Sequence[str]) -> str:
    """Random decimal digits of each record, by its values alone, which are whole numbers: the same in every query."""
    return _digits(key, columns)


def _digits(key: str, numbers: Sequence[str]) -> str:
    text = " || ',' || ".join(f"CAST({number} AS VARCHAR)" for number in numbers)
    return f"TRANSLATE(MD5('{key}' || {text}), 'abcdef', '')"


def threshold(share: Fraction) -> str:
    """A share in [0, 1) as ``DIGITS`` decimal digits, rounded up."""
    return str(-(-share.numerator * 10**DIGITS // share.denominator)).zfill(DIGITS)


def _number_of(digits: str, thresholds: Sequence[str]) -> str:
    """How many of the thresholds, without the first, are at most the digits."""
    return steps(digits, [f"'{each}'" for each in thresholds], [str(k) for k in range(len(thresholds))])


def draw_below(n: int, digits: str) -> str:
    """A number in 0 .. n - 1, all equally likely, by random digits."""
    return _number_of(digits, [threshold(Fraction(k, n)) for k in range(n)])


# Threshold k is at least P[Poisson(1) < k]. A draw is the number of thresholds, without the first, that are <= the digits.
POISSON_THRESHOLDS = [threshold(share) for share in (Fraction(0), *poisson_shares())]


def draw_poisson(digits: str) -> str:
    """A Poisson(1) draw by random digits, rounded down: never above it, and nearly always equal."""
    return _number_of(digits, POISSON_THRESHOLDS)


def draw_side(share: Fraction, digits: str) -> str:
    """1 with probability ``share`` and else 0, by random digits."""
    return steps(digits, ["''", f"'{threshold(share)}'"], ["1", "0"]) if share < 1 else "1"
