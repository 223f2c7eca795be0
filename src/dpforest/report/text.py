"""Labels and numbers that others chose, made fit for a page and for JSON. Public values only."""

import json
import math
import re
from typing import Any

import numpy as np
from markupsafe import Markup

# Characters that act instead of being seen: controls, direction marks, invisible signs, halves of a pair. The two joiners
# (U+200C, U+200D) stay, since scripts and emoji are written with them.
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
# What a parser of HTML could act on inside a script element; U+2028 and U+2029 end lines in old JavaScript.
ACTIVE = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
SHORTEST = 16  # characters of a label on a page that is full
MINUS, NOTHING = "\N{MINUS SIGN}", "\N{EN DASH}"
TIMES = "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}"


def visible(value: Any) -> str:
    """A label as text in which nothing hides: a line break becomes a sign, a direction mark its number."""
    return HIDDEN.sub(_sign, value if isinstance(value, str) else str(value))


def _sign(found: re.Match[str]) -> str:
    return {"\n": "↵", "\t": "⇥"}.get(found[0], f"⟨U+{ord(found[0]):04X}⟩")


def shortened(value: Any, most: int = 60) -> str:
    """A label that takes about ``most`` characters, with a sign where it was cut."""
    text = value if isinstance(value, str) else str(value)
    return visible(text) if len(text) <= most else visible(text[:most]) + "…"


class LabelWriter:
    """Labels as HTML: isolated from the direction of the text around, and cut if long.

    The rest of a cut label opens on demand, as long as such rests have room on the page. When all labels together have used
    up theirs, later ones are cut to a few characters.
    """

    def __init__(self, room: int = 350_000, room_for_rests: int = 100_000, longest: int = 12_000) -> None:
        self._room, self._room_for_rests, self._longest = room, room_for_rests, longest

    def __call__(self, value: Any, most: int = 80) -> Markup:
        text = value if isinstance(value, str) else str(value)
        short = Markup("<bdi>{}</bdi>").format(shortened(text, most if self._room > 0 else min(most, SHORTEST)))
        self._room -= len(short.encode())
        if len(text) <= most or self._room <= 0:
            return short
        rest = Markup("<bdi>{}</bdi>").format(visible(text[: self._longest]))
        size = len(rest.encode())
        if size > self._room_for_rests:
            return short + Markup(' <span class="small">({:,} characters)</span>').format(len(text))
        self._room_for_rests -= size
        opened = Markup('<details class="whole"><summary>{:,} characters</summary>{}</details>')
        return short + Markup(" ") + opened.format(len(text), rest)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: infinity as the text "inf", what is no number as null, odd labels as text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def script_json(value: Any) -> Markup:
    """JSON that can stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(re.sub("[<>&\u2028\u2029]", lambda found: ACTIVE[found[0]], text))


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
