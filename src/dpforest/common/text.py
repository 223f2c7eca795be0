"""Names and numbers as text for people, and values as JSON for programs. Public values only; names can hold any character.

In JSON infinity is the text "inf" (which ``float`` reads), and NaN is null. Model files do not use this: they refuse values
that could not be read back as they were.
"""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, is_dataclass
from decimal import ROUND_CEILING, Context, Decimal
from importlib import import_module
from typing import Any

UP = Context(4, ROUND_CEILING)  # so that a loss is not shown as less than it is
NOT_PLAIN = re.compile("[^ -~]")
JOINERS = "\u200c\u200d"  # scripts and emoji are written with them, so pages have them as they are
# How a cell begins that a spreadsheet takes for a formula, or for one with quotes before it; and what is only a number.
FORMULA = "^'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
PLAIN_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
MINUS, NOTHING = "\N{MINUS SIGN}", "\N{EN DASH}"
# The sentence that explains bands wherever they are shown.
BAND_MEANS = "The value without noise lies within its band (± or “a to b”) with a probability of about 95 %."
BINS_MEAN = "“Bins”: how far the figure may lie from the exact one because predicted shares are counted in bins."
BY_WEIGHT = "Trees after the first count a record by weight: the worse the trees before predict it, the more it counts."
MOST_NAME_BYTES = 63  # of a column in PostgreSQL
TIMES = "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}"


def without_hidden(text: object, sign: Callable[[str], str]) -> str:
    """The text with ``sign`` of each character that nobody sees: controls, direction marks, halves, unknown ones."""
    return NOT_PLAIN.sub(lambda found: found[0] if _is_seen(found[0]) else sign(found[0]), str(text))


def _is_seen(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"  # a space, such as one that breaks no line


def one_line(text: object) -> str:
    """The text on one line, for a terminal or a file: without characters that move the cursor or turn the writing."""
    return without_hidden(text, lambda character: "\ufffd")


def visible(text: object) -> str:
    """The text for a page, with hidden characters made visible: a line break as an arrow, a direction mark as its number."""
    return without_hidden(text, _sign)


def _sign(character: str) -> str:
    signs = {"\n": "↵", "\t": "⇥"} | dict(zip(JOINERS, JOINERS, strict=True))
    return signs.get(character, f"⟨U+{ord(character):04X}⟩")


def shortened(text: object, most: int = 60, clean: Callable[[object], str] = one_line) -> str:
    """The text without hidden characters, cut to at most ``most`` characters, the last then being an ellipsis."""
    name = str(text)
    return clean(name) if len(name) <= most else f"{clean(name[: most - 1])}…"


def cell(text: str) -> str:
    """The text as a cell of a CSV file; with a ``'`` before one that begins as a formula, so no spreadsheet runs it."""
    return f"'{text}" if re.match(FORMULA, text) and not re.fullmatch(PLAIN_NUMBER, text) else text


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things: ``1 tree``, ``1,200 trees``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def roughly(number: float) -> str:
    """A number to two digits: ``2,000,000``."""
    return f"{float(f'{number:.2g}'):,.0f}"


def listed_names(names: Sequence[str], most: int = 6) -> str:
    """Some names of columns on one line, cut if long, and how many more there are: ``age, sex and 4 more``."""
    shown = ", ".join(shortened(name, 40) for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def brief(value: float) -> str:
    """A number in a picture, to three digits, where the exact one can be looked up elsewhere: ``0.0572``, ``1.07 × 10⁹``."""
    return figure(value, 3, large=1e6)


def figure(value: Any, digits: int = 4, large: float = 1e15) -> str:
    """A number as text, with decimals as far as ``digits`` significant digits need them, as a power from ``large`` on.

    A dash stands for None and for what is no number.
    """
    if value is None or math.isnan(value := float(value)):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else MINUS + "∞"
    if value == 0:
        return "0"
    size = abs(value)
    if size < 1e-3 or size >= large:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        factor = mantissa.rstrip("0").rstrip(".").replace("-", MINUS)
        power = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return power if factor == "1" else f"{factor}{TIMES}{power}"
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    text = f"{value:,.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", MINUS)


def share_figure(share: float) -> str:
    """A share as per cent for a column of shares, always with one decimal."""
    return f"{share:.1%}".replace("%", " %")


def decimals(band: float) -> int:
    """The number of decimals for a figure with this band: as many as the band itself has with two significant digits."""
    return 0 if band >= 9.95 or band <= 0 else 1 - math.floor(math.log10(float(f"{band:.1e}")))


def with_band(value: float, band: float) -> str:
    """A figure with half the width of its band: ``1,046 ± 300``, ``0.726 ± 0.011``."""
    n_decimals = decimals(band)
    return f"{value:,.{n_decimals}f} ± {band:,.{n_decimals}f}".replace("-", MINUS)


def count_words(value: float, band: float | None, what: str = "") -> str:
    """A number of things with its band: ``1,046 ± 300 records``; "(may be 0)" is added if 0 is within the band."""
    value = max(value, 0.0)
    words = f"{value:,.0f}" if band is None else with_band(value, band)
    words = f"{words} {what}".rstrip()
    return words if band is None or value > band else f"{words} (may be 0)"


def mean_words(value: float, low: float | None, high: float | None) -> list[str]:
    """A list of texts: a mean and, if it is known, its band: ``1.11``, ``0.61 to 1.59``."""
    if low is None or high is None or low == high:
        return [f"{value:,.6g}"]
    n_decimals = decimals((high - low) / 2)
    return [f"{value:,.{n_decimals}f}", f"{low:,.{n_decimals}f} to {high:,.{n_decimals}f}"]


def share_words(share: float, low: float | None, high: float | None) -> list[str]:
    """A list of texts: a share and, unless it is unknown or reads the same, its band: ``76.1 %``, ``75.8 % to 76.4 %``."""
    if low is None or high is None or percent(low) == percent(high) == percent(share):
        return [percent(share)]
    return [percent(share), f"{percent(low)} to {percent(high)}"]


def in_brackets(words: list[str]) -> str:
    """The first text, and the rest behind it in brackets: ``1.11 (0.61 to 1.59)``."""
    return " ".join([words[0], *(f"({word})" for word in words[1:])])


def percent(share: float | None) -> str:
    """A share as per cent; 0 % and 100 % are written only for exactly 0 and 1."""
    if share is None:
        return NOTHING
    if 0 < share < 0.001:
        return "under 0.1 %"
    if 0.999 < share < 1:
        return "over 99.9 %"
    return f"{share:.1%}".replace(".0%", "%").replace("%", " %")


def loss_words(epsilon: float, unit: str, rows: int) -> str:
    """The cost of scores as sentences: for each record, or for each person with at most ``rows`` counted rows."""
    once, five_times = (figure(float(UP.multiply(Decimal(repr(float(epsilon))), times))) for times in (1, 5))
    if unit == "person":
        return (
            f"Each person in this table loses ε = {once} by these scores, however many rows they have: at most "
            f"{counted(rows, 'row')} of each, drawn by lot, {'was' if rows == 1 else 'were'} counted. Rows without an id "
            "were left out."
        )
    return (
        f"Each record of this table loses ε = {once} by these scores. Somebody with several rows loses that for each of "
        f"them: with five rows {five_times}."
    )


def other_rows_words(unit: str) -> str:
    """What the column "other rows" of scores is, as sentences."""
    return "“Other rows”: how far a score may lie, in 95 of 100 cases, from that on many rows of the same kind. " + (
        "It allows for rows of one person that are all alike."
        if unit == "person"
        else "Rows are taken as independent of each other: if people have several rows, it may lie further."
    )


def unlike(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Names for columns of a database, which differ from one another and from ``taken`` ones also if case is ignored.

    PostgreSQL cuts longer names off, and no name holds the character 0.
    """
    used, found = {name.lower() for name in taken}, []
    for name in names:
        base = name.replace("\0", "_")
        name, number = _cut(base), 2
        while name.lower() in used:
            name = _cut(base, f"_{number}")
            number += 1
        used.add(name.lower())
        found.append(name)
    return found


def _cut(name: str, suffix: str = "") -> str:
    return name.encode()[: MOST_NAME_BYTES - len(suffix)].decode(errors="ignore") + suffix


def as_html(value: object) -> str:
    """The value as a panel for notebooks, drawn by the room above."""
    return import_module("dpforest.show.report.html").as_html(value)


def jsonable(value: Any) -> Any:
    """The value made of dictionaries, lists, text, finite numbers, truth values and None; anything else becomes text."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return jsonable(asdict(value))
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def to_json(value: Any, **style: Any) -> str:
    """The value as JSON text; ``style`` are options of ``json.dumps``."""
    return json.dumps(jsonable(value), allow_nan=False, **style)


def unboxed(value: Any) -> Any:
    """A scalar of numpy, or of a library like it, as a value of Python; anything else as it is."""
    return value.item() if hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0 else value
