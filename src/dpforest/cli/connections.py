"""Opens tables in databases by address, for the command line. Sees no rows; never repeats a password."""

from collections.abc import Iterable
from glob import escape
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from dpforest.errors import MissingExtraError, ParameterError, TableError
from dpforest.schema.patterns import matches

FORMS = "duckdb:///FILE.db::TABLE, duckdb:///FOLDER/*.parquet, or postgresql://USER:PASSWORD@HOST/DATABASE::TABLE"
SECONDS_TO_CONNECT = 10


def open_table(address: str, columns: Iterable[str] | None = None) -> Any:
    """The Ibis table behind an address: ``duckdb:///FILE::TABLE``, ``duckdb:///*.parquet`` or ``postgresql://…::TABLE``.

    A table is ``TABLE`` or ``SCHEMA.TABLE``; one whose name has a dot of its own is found by its whole name first.
    ``columns`` are names or patterns of those that will be read, all by default: each must have one type in all Parquet
    files.
    """
    try:
        import ibis  # noqa: F401
    except ImportError:
        raise MissingExtraError("A table in a database", "sql") from None
    database, _, table = address.partition("::")
    try:
        parts = urlsplit(database)
        port = parts.port
    except ValueError:
        raise ParameterError(f"The address of the table cannot be read. It has the form {FORMS}.") from None
    if parts.scheme == "duckdb":
        return _open_duckdb(_path(database), table, columns)
    if parts.scheme in ("postgresql", "postgres"):
        return _find(_open_postgres(parts, port), table)
    raise ParameterError(f"A table cannot be opened by {parts.scheme!r}. Its address has the form {FORMS}.")


def _path(database: str) -> str:
    """The path behind ``duckdb:///``, as it stands, since it may hold any character; one that begins with / has four."""
    _, _, path = database.partition("://")
    return unquote(path.removeprefix("/")) if not Path(path).exists() else path


def _open_duckdb(path: str, table: str, columns: Iterable[str] | None) -> Any:
    import ibis

    if path.endswith(".parquet"):
        if table:
            raise ParameterError("Parquet files are one table; leave out what follows '::'.")
        return _open_parquet(path, columns)
    if not Path(path).is_file():
        raise TableError(f"There is no file {path}.")
    try:
        backend = ibis.duckdb.connect(path, read_only=True)
    except Exception:
        raise TableError(f"{path} cannot be opened as a DuckDB file, or another program writes to it.") from None
    return _find(backend, table)


def _open_parquet(path: str, columns: Iterable[str] | None) -> Any:
    """The table of all Parquet files that match a path.

    DuckDB converts later files to the types of the first one, and whether that succeeds depends on values. So files that
    differ in a column are refused.
    """
    import ibis

    if not any(Path(path).parent.glob(Path(path).name)):
        raise TableError(f"There is no file {path}.")
    try:
        backend = ibis.duckdb.connect()
        table = backend.read_parquet(path)
        listed = backend.con.execute("SELECT DISTINCT file_name FROM parquet_schema(?) ORDER BY 1", [path]).fetchall()
        types = [(Path(file).name, backend.read_parquet(escape(file)).schema()) for (file,) in listed]
    except Exception:  # the engine's own message could quote what it stumbled over
        raise TableError(f"{path} cannot be read as Parquet.") from None
    whole = table.schema()  # that of the first file
    read = None if columns is None else [*columns]
    for name in whole if read is None else [name for name in whole if any(matches(each, name) for each in read)]:
        for file, own in types:
            if own.get(name) != whole[name]:
                found = f"has the type {own[name]} in" if name in own else "is missing from"
                raise TableError(
                    f"Column {name!r} has the type {whole[name]} in the first of the files, but {found} {file}. "
                    "Write it with one type in all of them."
                )
    return table


def _open_postgres(parts: SplitResult, port: int | None) -> Any:
    import ibis

    database = unquote(parts.path.removeprefix("/"))
    where = f"{parts.hostname or 'localhost'}:{port or 5432}"
    if not database or "/" in database:
        raise ParameterError(f"The address names no database. It has the form {FORMS}.")
    try:
        return ibis.postgres.connect(
            host=parts.hostname or "localhost",
            port=port or 5432,
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            database=database,
            connect_timeout=SECONDS_TO_CONNECT,
        )
    except Exception:  # a server's own message can repeat names, passwords and addresses
        raise TableError(
            f"No connection to database {database!r} at {where}: wrong address, name or password, or the server is down."
        ) from None


def _find(backend: Any, table: str) -> Any:
    if not table:
        raise ParameterError(f"The address names no table: '::TABLE' is missing. It has the form {FORMS}.")
    schema, dot, name = table.partition(".")
    for found in [{"name": table}, {"name": name, "database": schema}][: 1 + bool(dot)]:
        try:
            return backend.table(found["name"], database=found.get("database"))
        except Exception:  # not there, or not to be read by this account
            continue
    backend.disconnect()
    raise TableError(f"There is no table {table!r} that this account may read.")
