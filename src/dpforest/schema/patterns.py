"""Patterns: a name with ``*`` in a schema stands for all columns of a table with such names. Public values only.

``lab_*`` are all columns whose names begin with ``lab_``. A name that a column really has is that column, also if there is
a ``*`` in it. Columns that are named otherwise, and the target, match no pattern. Of two patterns that match a column, the
one that is listed first has it.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from dpforest.errors import TableError
from dpforest.schema.kinds import Feature
from dpforest.schema.schema import Schema

ANY = "*"


def patterns_of(schema: Schema) -> list[str]:
    """The names of a schema that may be patterns: whether they are depends on the columns of a table."""
    return [name for name in schema.features if ANY in name]


def matches(pattern: str, name: str) -> bool:
    """Whether a name is the pattern with some characters, or none, in the place of each ``*``."""
    first, *rest = pattern.split(ANY)
    if not rest:
        return name == pattern
    *middle, last = rest
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    place, end = len(first), len(name) - len(last)
    # Each part at the first place where it fits leaves most room for the others; time grows with the length of the name.
    for part in middle:
        place = name.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True


def columns_of_patterns(schema: Schema, names: Sequence[str], besides: Collection[str | None] = ()) -> dict[str, list[str]]:
    """The columns that each pattern of a schema stands for, in the order of the table, which has columns of these names.

    Columns of ids match none: the one that the schema names, and those in ``besides``.
    """
    found: dict[str, list[str]] = {name: [] for name in patterns_of(schema) if name not in names}
    taken = {*schema.features, schema.target.name, schema.id_column, *besides}
    for name in dict.fromkeys(names):
        if name not in taken:
            pattern = next((each for each in found if matches(each, name)), None)
            if pattern is not None:
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
    for pattern, own in found.items():
        if not own:
            raise TableError(
                f"The pattern {pattern!r} of the schema matches no column of {where} that is not named otherwise. "
                f"{_first_of(given)} Correct the pattern, or delete it."
            )
    features: dict[str, Feature] = {}
    for name, part in schema.features.items():
        features |= dict.fromkeys(found[name], part) if name in found else {name: part}
    return replace(schema, features=features)


def _first_of(names: Sequence[str], most: int = 8) -> str:
    listed = ", ".join(map(repr, names[:most])) or "none"
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"Its columns are {listed}{more}."
