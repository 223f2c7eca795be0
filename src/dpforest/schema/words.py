"""The facts that a schema states or lacks, in words for people. Public values only."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpforest.common.text import listed_names, shortened
from dpforest.schema.kinds import BUCKETS, Bounded, Categorical, Classes, Date, Feature, Numeric, Target
from dpforest.schema.schema import Schema

# The kinds of purpose of the charges that pay for what a schema does not know.
GRID, SCALE, LIST = ("grid",), ("location of the target", "spread of the target"), ("list of values",)
# Words that are ids wherever they stand in a name; people, whose bare name is that of a column of ids; and more of whom or
# what there are numbers.
IDS = frozenset(("id", "ids", "identifier", "uuid", "guid", "uid", "pid", "mrn", "ssn", "kennung"))
PEOPLE = frozenset(("person", "patient", "participant", "proband", "respondent", "subject"))
OWNERS = (
    *PEOPLE, "pat", "client", "customer", "user", "member", "employee", "student", "account", "case", "record", "row",
    "fall", "kunden", "patienten", "personen", "versicherten",
)  # fmt: skip
NUMBERED = frozenset(owner + end for owner in OWNERS for end in ("id", "no", "nr", "num", "number", "nummer"))
# Where a word ends inside of a name such as PatID or IDPatient.
CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
WORD = re.compile(r"[^\W\d_]+")
TO_PROTECT = "groups and max_rows_per_person (on the command line: --groups and --max-rows-per-person)"


def in_words(part: Feature | Target, figure: Callable[[Any], str] = "{:,}".format) -> str:
    """The possible values of a column, such as "0 to 120, whole numbers"; "" if it has a list."""
    if isinstance(part, Categorical):
        return "" if part.categories else "any text" if part.learn else f"any text, in {BUCKETS} buckets"
    if isinstance(part, Date):
        asked = "second, weekday, month, hour" if part.time else "day, weekday, month"
        ends = [f"from {part.lower}"] * (part.lower is not None) + [f"to {part.upper}"] * (part.upper is not None)
        return " ".join(["a point in time" if part.time else "a date", *ends]) + f": {asked}"
    if isinstance(part, Classes):
        return ""
    whole = isinstance(part, Numeric) and part.integer
    if part.lower is None and part.upper is None:
        return f"any {'whole number' if whole else 'number'}"
    if part.lower is None:
        known = f"at most {figure(part.upper)}"
    else:
        known = f"{figure(part.lower)} {'or more' if part.upper is None else f'to {figure(part.upper)}'}"
    return f"{known}{', whole numbers' if whole else ''}"


def how_found(part: Feature | Target) -> str:
    """How a fit finds facts that a schema lacks, such as where numbers lie; "" if there are none."""
    if isinstance(part, Categorical):
        return "; a part of the budget buys a list of the common ones" if part.learn else ""
    if not isinstance(part, Numeric | Bounded) or part.has_bounds:
        return ""
    when = "where the signal pays, " if isinstance(part, Numeric) else ""
    return f"; {when}a part of the budget finds where they lie"


def format_words(entries: Mapping[str, Any]) -> str:
    """The entries of the format of text files, such as "separator ';', decimal ','"."""
    words = {name: value for name, value in entries.items() if name != "missing_in"}
    words |= {f"missing in {column}": own for column, own in entries.get("missing_in", {}).items()}
    return ", ".join(
        f"{name} {' '.join(map(repr, value)) if isinstance(value, list) else repr(value)}" for name, value in words.items()
    )


@dataclass(frozen=True)
class Unknown:
    """Columns of which a schema lacks the same fact, its cost in the budget, and the gain of knowing it."""

    columns: tuple[str, ...]
    lacks: str
    paid_for: tuple[str, ...]  # the kinds of purpose of the charges that may pay for it
    cost: str  # what these are made for
    without: str  # what it is like where nothing is paid
    gain: str


def unknowns(schema: Schema) -> list[Unknown]:
    """The facts that a schema lacks, each with its columns; stating them is optional."""
    parts, target = schema.features, schema.target
    ranges = tuple(name for name, part in parts.items() if isinstance(part, Numeric) and not part.has_bounds)
    lists = {name: part.learn for name, part in parts.items() if isinstance(part, Categorical) and part.by_text}
    learnt, hashed = (tuple(name for name in lists if lists[name] == learn) for learn in (True, False))
    scale = (target.name,) if isinstance(target, Bounded) and not target.has_bounds else ()
    found = [
        Unknown(ranges, "bounds", GRID, "to find where numbers lie", "cuts lie at every scale, which costs nothing",
                "with lower and upper no cut is wasted outside of them, and there is less to find"),
        Unknown(scale, "bounds of the target", SCALE, "to find the scale of the target", "nothing is paid to find it",
                "with lower and upper there is less to find"),
        Unknown(learnt, "list", LIST, "to find the common values", "nothing is paid to find the common values",
                "with a public list nothing is paid for one, and rare values are told apart too"),
        Unknown(hashed, "list", (), "", f"values share {BUCKETS} buckets, which costs nothing",
                "with a public list each value has its own code; learn = true buys a list, where delta is above 0"),
    ]  # fmt: skip
    return [each for each in found if each.columns]


def is_id_name(name: str) -> bool:
    """Whether a column seems to hold ids of rows or persons, by the words of its name: "PatID", and not "humidity"."""
    words = [word.casefold() for word in WORD.findall(CAPITAL.sub(" ", name))]
    return (
        not {*IDS, *NUMBERED}.isdisjoint(words)
        or "".join(words[-2:]) in NUMBERED
        or (len(words) == 1 and words[0] in PEOPLE)
    )


def unit_words(schema: Schema) -> str:
    """What a schema states about rows and persons, as a sentence without its full stop."""
    if schema.one_row_per_person is None:
        return "Nobody has stated whether a person may have several rows"
    if schema.id_column is None:
        return "One row is one person"
    return f"The column {shortened(schema.id_column)!r} says whose row it is"


def unit_doubts(schema: Schema, unit: str, is_promised: bool, protect: str = f"give {TO_PROTECT}") -> Iterator[str]:
    """Warnings before a fit that protects a ``unit``: of ids among the features and, if it promises anything, of the unit.

    They follow from the schema alone. ``protect`` says how to protect persons.
    """
    if names := [name for name in schema.features if is_id_name(name)]:
        yield (
            f"By their names these features may be ids of rows or persons: {listed_names(names)}. If they are, delete them "
            f"from the schema; to protect the persons whose ids they are, {protect}."
        )
    if unit == "person" or not is_promised or schema.one_row_per_person is True:
        return
    loses = "epsilon is for one row, and the loss of a person with several rows is that many times as large"
    if schema.id_column is None:
        yield (
            f"{unit_words(schema)}: {loses}. If all have one row, state one_row_per_person = true in the schema; else name "
            f"the column of ids there, and {protect}."
        )
    else:
        yield f"{unit_words(schema)}, and this fit protects rows: {loses}. To protect persons, {protect}."
