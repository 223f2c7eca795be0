"""Tables in databases by their address, as on a command line. Sees no rows; never repeats a password."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from dpforest.errors import MissingExtraError, ParameterError, TableError
from dpforest.records.columns import near_name

FORMS = (
    "duckdb:///FILE.db::TABLE, sqlite:///FILE.db::TABLE or postgresql://USER:PASSWORD@HOST/DATABASE::TABLE; "
    "TABLE may be a query in parentheses"
)
FILES = ("duckdb", "sqlite")
SERVERS = ("postgresql:", "postgres:")
# Engines whose drivers give Arrow, and of which nobody knows yet what a single odd value does there.
UNTRIED = {"snowflake": "Snowflake", "bigquery": "BigQuery", "grpc": "Flight SQL", "grpc+tls": "Flight SQL"}
UNTRIED |= {"flightsql": "Flight SQL"}
SECONDS_TO_CONNECT = 10
# Settings of a connection to PostgreSQL that an address may have behind a question mark.
SAFETY = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "channel_binding", "require_auth", "requirepeer")
SETTINGS = (*SAFETY, "options")
MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@dataclass(frozen=True)
class Address:
    """Where a table is: the engine, its file or server, and the name of the table or a query in parentheses."""

    engine: str  # "duckdb", "sqlite" or "postgres", as Ibis calls them
    table: str
    path: str = ""  # of a file
    database: str = ""  # of PostgreSQL
    account: Mapping[str, Any] = field(default_factory=dict, repr=False)  # where the server is, and who asks it

    @classmethod
    def parse(cls, address: str) -> "Address":
        """The parts of an address; raises ``ParameterError`` if it has none of the ``FORMS``."""
        database, _, table = address.partition("::")
        try:
            parts = urlsplit(database)
            port = parts.port
            if "://" not in database:  # with one slash a password would be a part of a name, which errors repeat
                raise ValueError
        except ValueError:
            raise ParameterError(f"The address of the table cannot be read. It has the form {FORMS}.") from None
        if parts.scheme in UNTRIED:
            raise ParameterError(untried(UNTRIED[parts.scheme]))
        if f"{parts.scheme}:" not in (*SERVERS, *(f"{name}:" for name in FILES)):
            raise ParameterError(f"A table cannot be opened by {parts.scheme!r}. Its address has the form {FORMS}.")
        if parts.scheme in FILES:
            return cls(parts.scheme, table, path=_path(database))
        database = unquote(parts.path.removeprefix("/"))
        if not database or "/" in database:
            raise ParameterError(f"The address names no database. It has the form {FORMS}.")
        account = {
            "host": parts.hostname or "localhost",
            "port": port or 5432,
            "user": unquote(parts.username) if parts.username else None,
            "password": unquote(parts.password) if parts.password else None,
            "connect_timeout": SECONDS_TO_CONNECT,
        }
        pairs = [setting.partition("=")[::2] for setting in parts.query.split("&")] if parts.query else []
        settings = {name: unquote(value) for name, value in pairs if value}
        if not {*settings} <= {*SETTINGS} or len(settings) < len(pairs) or parts.fragment:
            raise ParameterError(
                f"Behind the question mark of an address there may be {', '.join(SETTINGS)}, each once and with a value. "
                "Other settings are environment variables of PostgreSQL, such as PGPASSFILE."
            )
        if settings.get("sslmode", "prefer") not in MODES:
            raise ParameterError(f"sslmode in an address is one of {', '.join(MODES)}.")
        return cls("postgres", table, database=database, account=account | settings)

    @property
    def is_query(self) -> bool:
        return self.table.startswith("(") and self.table.rstrip().endswith(")")

    def check_readable(self) -> None:
        """Raise ``ParameterError`` unless an address names a table in a database, or a query."""
        if self.path.endswith(".parquet"):
            raise ParameterError(
                "Parquet files are read by their own path, not through DuckDB: give the file, or the folder of the files."
            )
        self.check_named()

    def check_named(self) -> None:
        """Raise ``ParameterError`` unless an address names a table."""
        if not self.table:
            raise ParameterError(f"The address names no table: '::TABLE' is missing. It has the form {FORMS}.")

    @property
    def place(self) -> str:
        """The file or the server, as it may be shown."""
        return self.path or f"database {self.database!r} at {self.account['host']}:{self.account['port']}"

    def __str__(self) -> str:
        """The address as it may be shown, without a password."""
        if self.engine in FILES:
            return f"{self.engine}:///{self.path}" + (f"::{self.table}" if self.table else "")
        user = f"{quote(self.account['user'], safe='')}@" if self.account["user"] else ""
        where = f"{self.account['host']}:{self.account['port']}"
        settings = "&".join(f"{name}={quote(self.account[name], safe='/')}" for name in SETTINGS if name in self.account)
        return f"postgresql://{user}{where}/{quote(self.database, safe='')}{'?' * bool(settings)}{settings}::{self.table}"


def untried(engine: str) -> str:
    """A sentence that refuses an engine by its name."""
    return (
        f"Tables of {engine} are not read yet: nobody has tried there that one record decides nothing about how others are "
        "read. Read the rows into Arrow and pass these, or a Parquet file."
    )


def check_extra() -> None:
    """Raise ``MissingExtraError`` unless the drivers are installed."""
    if not all(map(find_spec, ("duckdb", "adbc_driver_postgresql", "adbc_driver_sqlite"))):
        raise MissingExtraError("A table in a database", "sql")


def places(table: str) -> list[tuple[str, ...]]:
    """Where a table of this name may be: under the whole name, or where there is a dot, in a schema."""
    schema, dot, name = table.partition(".")
    return [(table,), (schema, name)] if dot else [(table,)]


def _path(database: str) -> str:
    """The path behind ``duckdb:///``, as it stands, since it may hold any character; one that begins with / has four."""
    _, _, path = database.partition("://")
    return unquote(path.removeprefix("/")) if not Path(path).exists() else path


@contextmanager
def no_connection(where: Address) -> Iterator[None]:
    """Turn what a server raises into a ``TableError``: its own message can repeat names, passwords and addresses."""
    try:
        yield
    except Exception:
        raise TableError(
            f"No connection to {where.place}: wrong address, name or password, or the server is down."
        ) from None


MOST_NAMES = 8  # tables that an error lists
STAYS = "What was charged stays charged."
LOST = f"The database could not answer a query, or the connection was lost. {STAYS}"
# Kinds of failure by the beginning of what PostgreSQL calls SQLSTATE, and by what libpq or an engine says.
STATES = {
    "28": "account", "3D": "database", "42501": "permission", "42P01": "table", "3F000": "table", "42": "query",
    "08": "lost", "57P": "lost",
}  # fmt: skip
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
    """Turn whatever is raised into a ``TableError`` that names the kind of failure, in words of this library.

    A driver's message may quote a row, a query or a password: it is looked at to tell the kind, and never shown.

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
