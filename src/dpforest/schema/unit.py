"""Whether one row is one person, and which columns look like ids by their names. Public values only."""

import re
from collections.abc import Iterator

from dpforest.common.text import listed_names, shortened
from dpforest.schema.schema import Schema

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

    They follow from the names of columns and the schema, and from no row. ``protect`` says how to protect persons.
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
