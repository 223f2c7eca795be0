"""Schemas and their parts as the Python code that makes them. Public values only."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

# Fields that come first in a call, and are written there without their names.
UNNAMED = ("lower", "upper", "categories", "labels")
# A longer call has a line for each argument.
MOST_LINE = 100


def call(part: Any) -> str:
    """The call that makes a part of a schema, without arguments that are as by default."""
    arguments: list[str] = []
    for index, each in enumerate(fields(part)):
        value = getattr(part, each.name)
        if value != (each.default if each.default_factory is MISSING else each.default_factory()):
            is_first = each.name in UNNAMED and len(arguments) == index
            arguments.append(_value(value) if is_first else f"{each.name}={_value(value)}")
    line = f"{type(part).__name__}({', '.join(arguments)})"
    return line if len(line) <= MOST_LINE or len(arguments) < 2 else f"{type(part).__name__}({_lines(arguments)})"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = [f"{name!r}: {_value(own)}" for name, own in value.items()]
        line = ", ".join(entries)
        return f"{{{line if len(line) <= MOST_LINE - len('features={}') else _lines(entries)}}}"
    return repr(list(value) if isinstance(value, tuple) else value)


def _lines(entries: list[str]) -> str:
    """Entries of a call or mapping on lines of their own."""
    return "".join("\n    " + entry.replace("\n", "\n    ") + "," for entry in entries) + "\n"
