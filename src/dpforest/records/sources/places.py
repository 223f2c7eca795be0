"""Where in a database a table is: found under its whole name, in a schema, or as the result of a query. Sees no rows."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from dpforest.records.sources.addresses import Address, places
from dpforest.records.sources.casts import identifier
from dpforest.records.sources.failures import kind_of, refusing

Found = TypeVar("Found")


def source_of(where: Address, ask: Callable[[str], Found], there: Callable[[], Sequence[str]]) -> Found:
    """What ``ask`` gives for the text that stands for the table behind FROM; raises ``TableError`` if it is not there."""
    shown = where.path or f"database {where.database!r} at {where.account['host']}:{where.account['port']}"
    if where.is_query:
        with refusing(shown, "", there):
            return ask(f"{where.table.rstrip()[:-1]}\n) AS asked")  # a comment may end the query
    for place in places(where.table)[:-1]:
        try:
            return ask(".".join(map(identifier, place)))
        except Exception as error:
            if kind_of(error) != "table":
                with refusing(shown, where.table, there):
                    raise
    with refusing(shown, where.table, there):
        return ask(".".join(map(identifier, places(where.table)[-1])))
