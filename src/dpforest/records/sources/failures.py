"""Errors of engines and drivers as errors of this library, which repeat none of their words. Sees no rows.

A driver's message may quote a row, a query or a password. It is looked at to tell the kind of failure, and never shown.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dpforest.errors import TableError
from dpforest.records.columns import near_name

MOST_NAMES = 8  # tables that an error lists
STAYS = "What was charged stays charged."
LOST = f"The database could not answer a query, or the connection was lost. {STAYS}"
# Kinds of failure by the beginning of what PostgreSQL calls SQLSTATE, and by what libpq or an engine says.
STATES = {
    "28": "account",
    "3D": "database",
    "42501": "permission",
    "42P01": "table",
    "3F000": "table",
    "42": "query",
    "08": "lost",
    "57P": "lost",
}
WORDS = {
    "account": ("authentication failed", "no password supplied", "pg_hba.conf"),
    "host": ("could not translate host name", "connection refused", "timeout expired", "no route to host", "unreachable"),
    "permission": ("permission denied",),
    "unsafe": ("does not support ssl", "certificate verify failed"),
    "lost": ("terminating connection", "server closed the connection", "connection not open", "lost synchronization"),
    "table": ("no such table", "catalog error: table", 'relation "'),
    "query": ("binder error", "parser error", "syntax error", "no such column", 'near "'),
    "database": ('database "',),
    "file": (
        "not a database",
        "unable to open",
        "not a valid duckdb",
        "could not set lock",
        "cannot open file",
        "is locked",
    ),
}


def kind_of(error: BaseException) -> str:
    """The kind of a failure; "" if it is not known."""
    state = getattr(error, "sqlstate", None) or ""
    found = next((kind for start, kind in STATES.items() if state.startswith(start)), "")
    said = str(error).lower()
    return found or next((kind for kind, words in WORDS.items() if any(word in said for word in words)), "")


@contextmanager
def refusing(where: str, table: str = "", there: Callable[[], Sequence[str]] = tuple) -> Iterator[None]:
    """Turn whatever is raised into one ``TableError`` that says which kind of failure it is.

    ``where`` names the file or server without a password; ``there`` gives the names of tables that an account may see.
    """
    try:
        yield
    except TableError:
        raise
    except Exception as error:
        raise TableError(_sentence(kind_of(error), where, table, there)) from None


def _sentence(kind: str, where: str, table: str, there: Callable[[], Sequence[str]]) -> str:
    if kind == "table" and table:
        return f"There is no table {table!r} that this account may read.{_names(there, table)}"
    if kind == "table":
        return f"The query names a table that is not there, or that this account may not see.{_names(there)}"
    sentences = {
        "account": f"{where} refused the account: its name or password is wrong, or it may not connect from here.",
        "database": f"{where} has no such database.",
        "host": f"No server answers at {where}: wrong host or port, or the server is down.",
        "unsafe": f"{where} gives no connection that is as safe as was asked for.",
        "permission": f"This account may not read {repr(table) if table else 'what the query asks for'}. It needs SELECT.",
        "file": f"{where} cannot be opened: it is no file of this kind, or another program writes to it.",
        "query": "The database cannot run this query: it has a mistake, or names a column that is not there.",
        "lost": f"The connection to the database was lost, so not all rows were read. {STAYS}",
    }
    return sentences.get(kind, LOST)


def _names(there: Callable[[], Sequence[str]], wanted: str = "") -> str:
    """A sentence on the tables of a database, as far as an account may see them."""
    try:
        names = sorted(there())
    except Exception:
        return ""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f" It has {', '.join(map(repr, names[:MOST_NAMES]))}{more}.{near_name(wanted, names)}" if names else ""
