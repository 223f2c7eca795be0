"""New tables in databases, which predictions are written to: there complete or not at all. Sees ids of rows.

Everything is one transaction. A file of DuckDB that is also read from is opened once by this process, for both.
"""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from dpforest.common.files import check_writable
from dpforest.common.text import unlike
from dpforest.errors import OutputError
from dpforest.records.sources.addresses import Address, check_extra, no_connection
from dpforest.records.sources.casts import identifier, is_kept, quoted

Write = Callable[[pa.Table], None]
# Types of PostgreSQL for those of Arrow; others are text.
TYPES = {
    "int8": "smallint", "int16": "smallint", "int32": "integer", "int64": "bigint", "uint8": "smallint",
    "uint16": "integer", "uint32": "bigint", "uint64": "numeric", "float": "real", "double": "double precision",
    "bool": "boolean", "date32[day]": "date", "timestamp[us]": "timestamp",
}  # fmt: skip


@contextmanager
def new_table(address: str, n_ids: int = 0) -> Iterator[Write]:
    """A function that adds rows to a new table; it is there once the block has ended without an error, else not.

    The first ``n_ids`` columns keep their names; others get one that the database can tell from these and from one another.
    """
    check_extra()
    where = Address.parse(address)
    where.check_named()
    if where.engine == "sqlite" or where.is_query:
        raise OutputError("Predictions are written to a new table of DuckDB or PostgreSQL, or to a file.")
    opened, insert = (_duckdb, _insert) if where.engine == "duckdb" else (_postgres, _copy)
    is_made = False

    def write(rows: pa.Table) -> None:
        nonlocal is_made
        ids = rows.column_names[:n_ids]
        with _refusing(where):
            insert(connection, table, rows, [*ids, *unlike(rows.column_names[n_ids:], ids)], is_made)
            is_made = True

    with opened(where) as connection:
        table = _free_place(where, connection)
        yield write
        with _refusing(where):
            connection.commit()


@contextmanager
def _duckdb(where: Address) -> Iterator[Any]:
    """A connection in a transaction; a file that was not there before is taken away if anything fails."""
    import duckdb

    path = check_writable(where.path)
    is_new, is_done = not path.exists(), False
    try:
        connection = duckdb.connect(str(path))
    except Exception:
        raise OutputError(f"{path} cannot be opened to write: it is no DuckDB file, or another program uses it.") from None
    try:
        connection.begin()
        yield connection
        is_done = True
    finally:
        if not is_done:
            with suppress(Exception):  # of a transaction that has not begun
                connection.rollback()
        connection.close()
        if is_new and not is_done:
            for left in (path, Path(f"{path}.wal")):
                left.unlink(missing_ok=True)


def _insert(connection: Any, table: str, rows: pa.Table, names: list[str], is_made: bool) -> None:
    """Add rows to a table of DuckDB, which is made before the first."""
    short = rows.rename_columns([f"c{place}" for place in range(rows.num_columns)])
    columns = zip(short.schema, names, strict=True)
    chosen = connection.from_arrow(short).project(
        ", ".join(f"{_cast(own.name, own)} AS {identifier(n)}" for own, n in columns)
    )
    if not is_made:
        connection.execute(f"CREATE TABLE {table} ({_columns(chosen.columns, chosen.types)})")
    chosen.insert_into(table)  # a statement INSERT would keep the rows in memory until the end


@contextmanager
def _postgres(where: Address) -> Iterator[Any]:
    """A connection in a transaction: what was not committed at its end is gone."""
    import psycopg

    with no_connection(where):
        connection = psycopg.connect(**where.account, dbname=where.database)
    with closing(connection):
        yield connection


def _copy(connection: Any, table: str, rows: pa.Table, names: list[str], is_made: bool) -> None:
    """Add rows to a table of PostgreSQL, which is made before the first."""
    content = io.BytesIO()
    # As PostgreSQL reads them: nothing between commas is null, two quotes are an empty text.
    pyarrow.csv.write_csv(rows, content, pyarrow.csv.WriteOptions(include_header=False))
    with connection.cursor() as cursor:
        if not is_made:
            cursor.execute(f"CREATE TABLE {table} ({_columns(names, map(_type, rows.schema))})")
        with cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv, ENCODING 'UTF8')") as copy:
            copy.write(content.getvalue())


def _columns(names: Iterable[str], kinds: Iterable[Any]) -> str:
    return ", ".join(f"{identifier(name)} {kind}" for name, kind in zip(names, kinds, strict=True))


def _free_place(where: Address, connection: Any) -> str:
    """The name of the new table as SQL, with a schema where what stands before its dot is one.

    Raises ``OutputError`` if there is such a table.
    """
    schema, dot, name = where.table.partition(".")

    def run(query: str) -> list[Any]:
        return list(connection.execute(query).fetchall())

    with _refusing(where):
        named = f"catalog_name = current_database() AND schema_name = {quoted(schema, where.engine)}"
        if not dot or not run(f"SELECT 1 FROM information_schema.schemata WHERE {named}"):
            schema, name = "", where.table
        inside = quoted(schema, where.engine) if schema else "current_schema()"
        same = f"table_schema = {inside} AND table_name = {quoted(name, where.engine)}"
        taken = run(f"SELECT 1 FROM information_schema.tables WHERE table_catalog = current_database() AND {same}")
    if taken:
        raise OutputError(f"There is a table {where.table!r} already. Drop it, or name one that is not there yet.")
    return ".".join(identifier(part) for part in (schema, name) if part)


@contextmanager
def _refusing(where: Address) -> Iterator[None]:
    """Turn whatever an engine raises into an ``OutputError``: its own words may quote a row."""
    try:
        yield
    except Exception:
        raise OutputError(
            f"Table {where.table!r} could not be written: it is there already under another spelling, this account may not "
            "make it, there is no room, the connection was lost, or an id is no text that a database can hold. Nothing was "
            "left of it."
        ) from None


def _kept_type(field: pa.Field, engine: str) -> str:
    """The type that a column of text had in a table of the same engine; "" if none is known.

    A file of Arrow may hold notes with its columns, too, and they may be anything.
    """
    named = (field.metadata or {}).get(engine.encode(), b"").decode("utf-8", "replace")
    return named if field.type == pa.string() and is_kept(named) else ""


def _cast(column: str, field: pa.Field) -> str:
    kept = _kept_type(field, "duckdb")
    return f"CAST({column} AS {kept})" if kept else column


def _type(field: pa.Field) -> str:
    return _kept_type(field, "postgres") or TYPES.get(str(field.type), "text")
