"""Names and numbers as people read them. Names can hold anything."""

import math
import re
from collections.abc import Callable
from typing import Any

# Characters that act instead of being seen: controls, direction marks, invisible signs, halves of a pair. The two joiners
# (U+200C, U+200D) stay, since scripts and emoji are written with them.
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
MINUS, NOTHING = "\N{MINUS SIGN}", "\N{EN DASH}"
# What every band means that a reader is shown.
BAND_MEANS = "The value without noise lies within its band (± or “a to b”) with a probability of about 95 %."
BY_WEIGHT = "Trees after the first count a record by weight: the worse the trees before predict it, the more it counts."
TIMES = "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}"


def one_line(text: object) -> str:
    """A text for a terminal or a file: on one line, without characters that move the cursor or turn the writing."""
    return "".join(character if character.isprintable() else "\ufffd" for character in str(text))


def visible(text: object) -> str:
    """A text for a page, in which nothing hides: a line break becomes a sign, a direction mark its number."""
    return HIDDEN.sub(_sign, str(text))


def _sign(found: re.Match[str]) -> str:
    return {"\n": "↵", "\t": "⇥"}.get(found[0], f"⟨U+{ord(found[0]):04X}⟩")


def shortened(text: object, most: int = 60, clean: Callable[[object], str] = one_line) -> str:
    """A name that is clean, and not endless."""
    name = str(text)
    return clean(name) if len(name) <= most else f"{clean(name[: most - 1])}…"


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things: ``1 tree``, ``1,200 trees``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def figure(value: Any, digits: int = 4) -> str:
    """A number for people."""
    if value is None:
        return NOTHING
    value = float(value)
    if math.isinf(value):
        return "∞" if value > 0 else MINUS + "∞"
    if value == 0:
        return "0"
    size = abs(value)
    if size < 1e-3 or size >= 1e15:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        factor = mantissa.rstrip("0").rstrip(".").replace("-", MINUS)
        power = f"10{_superscript(int(exponent))}"
        return power if factor == "1" else f"{factor}{TIMES}{power}"
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    text = f"{value:,.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", MINUS)


def _superscript(number: int) -> str:
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def share_figure(share: float) -> str:
    """A share for a column of shares: always with one decimal."""
    return f"{share:.1%}".replace("%", " %")


def decimals(band: float) -> int:
    """Decimals of a figure with this band: as many as the band has if it is written with two digits."""
    return 0 if band >= 9.95 or band <= 0 else 1 - math.floor(math.log10(float(f"{band:.1e}")))


def with_band(value: float, band: float) -> str:
    """A figure with half the width of its band: ``1,046 ± 300``, ``0.726 ± 0.011``."""
    indices = decimals(band)
    return f"{value:,.{indices}f} ± {band:,.{indices}f}"


def count_words(value: float, band: float | None, what: str = "") -> str:
    """A number of records with its band: ``1,046 ± 300 records``; what cannot be told from 0 is said to."""
    value = max(value, 0.0)
    words = f"{value:,.0f}" if band is None else with_band(value, band)
    words = f"{words} {what}".rstrip()
    return words if band is None or value > band else f"{words} (may be 0)"


def mean_words(value: float, low: float | None, high: float | None) -> list[str]:
    """A mean and, if they are known, the ends of its band: ``1.11``, ``0.61 to 1.59``."""
    if low is None or high is None or low == high:
        return [f"{value:,.6g}"]
    indices = decimals((high - low) / 2)
    return [f"{value:,.{indices}f}", f"{low:,.{indices}f} to {high:,.{indices}f}"]


def share_words(share: float, low: float | None, high: float | None) -> list[str]:
    """A share and, if they are known and read differently, the ends of its band: ``76.1 %``, ``75.8 % to 76.4 %``."""
    if low is None or high is None or percent(low) == percent(high) == percent(share):
        return [percent(share)]
    return [percent(share), f"{percent(low)} to {percent(high)}"]


def in_brackets(words: list[str]) -> str:
    """A figure, with its band in brackets if it has one: ``1.11 (0.61 to 1.59)``."""
    return " ".join([words[0], *(f"({word})" for word in words[1:])])


def percent(share: float | None) -> str:
    """A share for people; never 0 % or 100 % unless it is."""
    if share is None:
        return NOTHING
    if 0 < share < 0.001:
        return "under 0.1 %"
    if 0.999 < share < 1:
        return "over 99.9 %"
    return f"{share:.1%}".replace(".0%", "%").replace("%", " %")
