"""Coins that a database draws for its rows, as words of a keyed hash. Sees names of columns and a secret key, no rows.

The word of a record is the number of the first ``BITS`` bits of its digest, which is compared with public thresholds.

Privacy:
    Claim: coins of records are independent of one another and of what the records hold (bootstrap, and all draws from
        numbers of rows); or a function of the record alone (draws from its values).
    Because: the key has as many characters as MD5 takes at once, so what follows is hashed from a secret starting value. As
        far as that compression function is pseudo-random, which is what HMAC-MD5 assumes too, the digests of different
        row numbers are as good as independent words. Thresholds are rounded up, so draws are rounded down: a bootstrap
        never draws more than Poisson, and a sample keeps nobody with more than its share.
    Assumes: the key stays secret; see ``docs/guide/sql.md`` for what rests on MD5 and what does not.
"""

import os
from collections.abc import Sequence
from fractions import Fraction

from dpforest.mechanisms import Entropy
from dpforest.records.draws import poisson_shares
from dpforest.records.sql.expressions import joined, steps

BITS = 60  # of a word, which a whole number of 64 bits with a sign holds
KEY_BYTES = 32


def draw_key(entropy: Entropy) -> str:
    """A fresh secret of 64 characters, which is one block of MD5."""
    return (entropy.generator().bytes(KEY_BYTES) if entropy.seeded else os.urandom(KEY_BYTES)).hex()


def word_of_row(key: str, engine: str, number: str = "ROW_NUMBER() OVER ()") -> str:
    """The random word of each record, by its row number in an order that the engine chooses; draw once and keep.

    Records with the same ``number``, if another one is given, have the same word.
    """
    return _word(key, [number], engine)


def word_of_values(key: str, columns: Sequence[str], engine: str) -> str:
    """The random word of each record, by its values alone, which are whole numbers: the same in every query."""
    return _word(key, columns, engine)


def digest(key: str, values: Sequence[str]) -> str:
    """The digest of some values, in hex digits."""
    text = joined([f"'{key}'", *(f"CAST({value} AS VARCHAR) || ','" for value in values)])
    return f"MD5({text})"


def _word(key: str, numbers: Sequence[str], engine: str) -> str:
    n_digits = BITS // 4
    digits = f"SUBSTR({digest(key, numbers)}, 1, {n_digits})"
    if engine == "duckdb":
        return f"CAST('0x' || {digits} AS BIGINT)"
    if engine == "postgres":
        return f"CAST(CAST('x' || {digits} AS BIT({BITS})) AS BIGINT)"
    places = (f"(POSITION(SUBSTR({digits}, {n}, 1) IN '0123456789abcdef') - 1)" for n in range(1, n_digits + 1))
    return " + ".join(f"CAST({place} AS BIGINT) * {16 ** (n_digits - 1 - n)}" for n, place in enumerate(places))


def threshold(share: Fraction) -> int:
    """The least word that is not below a share in [0, 1] of all words."""
    return -(-share.numerator * (1 << BITS) // share.denominator)


def _number_of(word: str, thresholds: Sequence[int]) -> str:
    """How many of the thresholds, without the first, are at most the word."""
    return steps(word, [str(each) for each in thresholds], [str(k) for k in range(len(thresholds))])


def draw_below(n: int, word: str) -> str:
    """A number in 0 .. n - 1, all equally likely to within one word in 2**BITS, by a random word."""
    return _number_of(word, [threshold(Fraction(k, n)) for k in range(n)])


# Threshold k is at least P[Poisson(1) < k]. A draw is the number of thresholds, without the first, that are <= the word.
POISSON_THRESHOLDS = [threshold(share) for share in (Fraction(0), *poisson_shares())]


def draw_poisson(word: str) -> str:
    """A Poisson(1) draw by a random word, rounded down: never above it, and nearly always equal."""
    return _number_of(word, POISSON_THRESHOLDS)


def draw_side(share: Fraction, word: str) -> str:
    """1 with probability ``share``, rounded up, and else 0, by a random word."""
    return steps(word, ["", str(threshold(share))], ["1", "0"])
