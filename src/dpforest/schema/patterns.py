"""Patterns: a name with ``*`` in a schema stands for all columns of a table with such names. Public values only.

``lab_*`` are all columns whose names begin with ``lab_``. A name that a column really has is that column, also if there is
a ``*`` in it. Columns that are named otherwise, and the target, match no pattern. Of two patterns that match a column, the
one that is listed first has it.
"""

import glob
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from dpforest.errors import TableError
from dpforest.schema.schema import Schema

ANY, MOST_SHOWN = "*", 8


def patterns_of(schema: Schema) -> list[str]:
    """The names of a schema that may be patterns: whether they are depends on the columns of a table."""
    return [name for name in schema.features if ANY in name]


def matches(pattern: str, name: str) -> bool:
    """Whether a name is the pattern with some characters, or none, in the place of each ``*``."""
    return fnmatchcase(name, ANY.join(map(glob.escape, pattern.split(ANY))))  # no other character is special


def columns_of_patterns(schema: Schema, names: Sequence[str], besides: Collection[str | None] = ()) -> dict[str, list[str]]:
    """The columns that each pattern stands for, by the names of a table's columns and in their order.

    Columns of ids match none: the one that the schema names, and those in ``besides``.
    """
    found: dict[str, list[str]] = {name: [] for name in patterns_of(schema) if name not in names}
    taken = {*schema.features, schema.target.name, schema.id_column, *besides}
    for name in dict.fromkeys(names):
        if name not in taken and (pattern := next((each for each in found if matches(each, name)), None)):
            found[pattern].append(name)
    return found


def expanded(
    schema: Schema,
    names: Callable[[], Sequence[str] | None],
    where: str = "the table",
    besides: Collection[str | None] = (),
) -> Schema:
    """The schema with each pattern replaced by the columns that it stands for; raises ``TableError`` if there are none.

    ``names`` gives the names of the table's columns, or None if they have none. It is not called without need.
    """
    if not patterns_of(schema):
        return schema
    given = names()
    if given is None:
        raise TableError(
            f"The schema has the pattern {patterns_of(schema)[0]!r}, which stands for columns by their names, but {where} "
            "has none. Pass a table with names (of pandas, polars or pyarrow), or declare each column."
        )
    found = columns_of_patterns(schema, given, besides)
    if idle := [pattern for pattern, own in found.items() if not own]:
        listed = ", ".join(map(repr, given[:MOST_SHOWN])) or "none"
        more = f" and {len(given) - MOST_SHOWN} more" if len(given) > MOST_SHOWN else ""
        raise TableError(
            f"The pattern {idle[0]!r} of the schema matches no column of {where} that is not named otherwise. Its columns "
            f"are {listed}{more}. Correct the pattern, or delete it."
        )
    columns = [(each, part) for name, part in schema.features.items() for each in found.get(name, [name])]
    return replace(schema, features=dict(columns))
