"""What kind of values a list of categories or labels has, and a text for each. Public values only."""

import math
from collections.abc import Hashable, Sequence
from typing import Any

LARGEST_WHOLE = 1 << 63


def kind_of(values: Sequence[Hashable]) -> str:
    """The kind of all values: ``text``, ``boolean``, ``whole`` (64 bits), ``number`` (doubles hold it exactly) or ``mixed``.

    NaN is a number: as a category it is never met, since a table has it for missing values.
    """
    if all(isinstance(value, str) for value in values):
        return "text"
    if all(isinstance(value, bool) for value in values):
        return "boolean"
    if all(isinstance(value, int) and not isinstance(value, bool) and _fits(value) for value in values):
        return "whole"
    return "number" if all(_is_double(value) for value in values) else "mixed"


def is_number(values: Sequence[Hashable]) -> bool:
    """Whether all values are numbers or booleans that doubles tell apart."""
    return all(_is_double(value) for value in values)


def _fits(value: int) -> bool:
    return -LARGEST_WHOLE <= value < LARGEST_WHOLE


def _is_double(value: Any) -> bool:
    if isinstance(value, float):
        return True
    try:
        return isinstance(value, int) and float(value) == value
    except OverflowError:
        return False


def texts_of(values: Sequence[Hashable]) -> list[str]:
    """A text for each value, no two alike.

    Text stands for itself, True and False are ``true`` and ``false``, anything else is what ``str`` gives. One that is
    taken already, by text or by a value before it, gets the name of its type behind it: ``1`` beside ``"1"`` is ``1 (int)``.
    """
    texts: list[str] = [valid_text(value) if isinstance(value, str) else "" for value in values]
    taken: set[str] = set()
    # Text that can stay as it is comes first, then text that cannot, then what is no text.
    order = sorted(range(len(values)), key=lambda index: (not isinstance(values[index], str), texts[index] != values[index]))
    for index in order:
        value = values[index]
        text = texts[index] if isinstance(value, str) else _text_of(value)
        while text in taken:
            text += f" ({type(value).__name__})"
        taken.add(text)
        texts[index] = text
    return texts


def _text_of(value: Hashable) -> str:
    return str(value).lower() if isinstance(value, bool) else valid_text(str(value))


def valid_text(text: str) -> str:
    """The text, with what UTF-8 cannot hold written as an escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def none_code(categories: Sequence[Hashable]) -> int:
    """The code of a value that is not there: the index of None if it is a category, else the last code."""
    return next((index for index, value in enumerate(categories) if value is None), len(categories) + 1)


def json_value(value: Any) -> Any:
    """A value as JSON holds it: a tuple as ``{"tuple": [...]}``, what else it lacks as ``{"type": ..., "text": ...}``."""
    if value is None or isinstance(value, str | bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if type(value) is int:
        return value
    if type(value) is tuple:
        return {"tuple": json_value(list(value))}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    return {"type": type(value).__name__, "text": str(value)}
