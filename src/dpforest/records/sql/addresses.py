"""Tables in databases by their address, as on a command line. Sees no rows; never repeats a password."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from dpforest.errors import MissingExtraError, ParameterError, TableError
from dpforest.schema import Schema

FORMS = "duckdb:///FILE.db::TABLE, duckdb:///FOLDER/**/*.parquet, or postgresql://USER:PASSWORD@HOST/DATABASE::TABLE"
ENGINES = {"duckdb": "duckdb", "postgresql": "postgres", "postgres": "postgres"}
SERVERS = ("postgresql:", "postgres:")
SECONDS_TO_CONNECT = 10
MOST_NAMES = 8  # tables that an error lists


@dataclass(frozen=True)
class Address:
    """Where a table is: the engine, its file or server, and the name of the table."""

    engine: str  # "duckdb" or "postgres", as Ibis calls them
    table: str
    path: str = ""  # of a file of DuckDB, or a pattern for Parquet files
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
        if parts.scheme not in ENGINES:
            raise ParameterError(f"A table cannot be opened by {parts.scheme!r}. Its address has the form {FORMS}.")
        if parts.scheme == "duckdb":
            return cls("duckdb", table, path=_path(database))
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
        return cls("postgres", table, database=database, account=account)

    @property
    def is_parquet(self) -> bool:
        return self.path.endswith(".parquet")

    def __str__(self) -> str:
        """The address as it may be shown, without a password."""
        if self.engine == "duckdb":
            return f"duckdb:///{self.path}" + (f"::{self.table}" if self.table else "")
        user = f"{quote(self.account['user'], safe='')}@" if self.account["user"] else ""
        where = f"{self.account['host']}:{self.account['port']}"
        return f"postgresql://{user}{where}/{quote(self.database, safe='')}::{self.table}"


def check_extra() -> None:
    """Raise ``MissingExtraError`` unless Ibis is installed."""
    try:
        import ibis  # noqa: F401
    except ImportError:
        raise MissingExtraError("A table in a database", "sql") from None


def open_table(address: str, columns: Iterable[str] | None = None, schema: Schema | None = None) -> Any:
    """The Ibis table behind an address: ``duckdb:///FILE::TABLE``, ``duckdb:///*.parquet`` or ``postgresql://…::TABLE``.

    A table is ``TABLE`` or ``SCHEMA.TABLE``; one whose name has a dot of its own is found by its whole name first.
    ``columns`` are names or patterns of those that will be read, all by default: each must have one type in all Parquet
    files. What folders of these are named after is text, or what ``schema`` declares.
    """
    check_extra()
    where = Address.parse(address)
    if where.is_parquet:
        from dpforest.records.sql.folders import open_parquet

        if where.table:
            raise ParameterError("Parquet files are one table; leave out what follows '::'.")
        return open_parquet(where.path, columns, schema)
    check_named(where)
    backend = _open_duckdb(where.path) if where.engine == "duckdb" else _open_postgres(where)
    for found in places(where.table):
        try:
            return backend.table(found[-1], database=found[0] if len(found) > 1 else None)
        except Exception:  # not there, or not to be read by this account
            continue
    there = _names(backend)
    backend.disconnect()
    raise TableError(f"There is no table {where.table!r} that this account may read.{there}")


def _names(backend: Any) -> str:
    """A sentence on the tables of a database, as far as an account may see them."""
    try:
        names = sorted(backend.list_tables())
    except Exception:  # the engine's own message could repeat anything
        return ""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f" It has {', '.join(map(repr, names[:MOST_NAMES]))}{more}." if names else ""


def check_named(where: Address) -> None:
    """Raise ``ParameterError`` unless an address names a table."""
    if not where.table:
        raise ParameterError(f"The address names no table: '::TABLE' is missing. It has the form {FORMS}.")


def places(table: str) -> list[tuple[str, ...]]:
    """Where a table of this name may be: under the whole name, or where there is a dot, in a schema."""
    schema, dot, name = table.partition(".")
    return [(table,), (schema, name)] if dot else [(table,)]


def _path(database: str) -> str:
    """The path behind ``duckdb:///``, as it stands, since it may hold any character; one that begins with / has four."""
    _, _, path = database.partition("://")
    return unquote(path.removeprefix("/")) if not Path(path).exists() else path


def _open_duckdb(path: str) -> Any:
    import duckdb
    import ibis

    if not Path(path).is_file():
        raise TableError(f"There is no file {path}.")
    try:
        try:
            return ibis.duckdb.connect(path, read_only=True)
        except duckdb.ConnectionException:
            # This process writes to the file, and DuckDB then shares it with readers of the same kind alone.
            return ibis.duckdb.connect(path)
    except Exception:
        raise TableError(f"{path} cannot be opened as a DuckDB file, or another program writes to it.") from None


def _open_postgres(where: Address) -> Any:
    import ibis

    with no_connection(where):
        return ibis.postgres.connect(**where.account, database=where.database, client_encoding="UTF8")


@contextmanager
def no_connection(where: Address) -> Iterator[None]:
    """Turn what a server raises into a ``TableError``: its own message can repeat names, passwords and addresses."""
    try:
        yield
    except Exception:
        raise TableError(
            f"No connection to database {where.database!r} at {where.account['host']}:{where.account['port']}: wrong "
            "address, name or password, or the server is down."
        ) from None
