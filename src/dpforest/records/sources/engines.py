"""DuckDB, SQLite and PostgreSQL: columns by their types, expressions that drivers carry, and rows. Sees rows."""

import codecs
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.columns import asking
from dpforest.records.sources.addresses import SECONDS_TO_CONNECT, SETTINGS, Address, check_extra, refusing, untried
from dpforest.records.sources.casts import Column, Item, as_read_in_sqlite, beside_in_sqlite, identifier
from dpforest.records.sources.cells import NO_TEXT
from dpforest.records.sources.database import DatabaseTable
from dpforest.schema import Feature, Target

SIZES = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
DUCK_CARRIED = {name: getattr(pa, f"int{bits}")() for name, bits in SIZES.items()}
DUCK_CARRIED |= {f"U{name}": getattr(pa, f"uint{bits}")() for name, bits in SIZES.items()}
DUCK_CARRIED |= {"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}
DUCK_KINDS = {"HUGEINT": "decimal", "VARCHAR": "text", "DATE": "date", "TIMESTAMP WITH TIME ZONE": "zoned"}
DUCK_KINDS |= dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "time")


class Duck(DatabaseTable):
    """A table of DuckDB, or a ``relation``, which is asked in the connection of whoever made it.

    That has no transaction of ours, so its rows may be others the next time.
    """

    engine, names_of_tables = "duckdb", "SELECT table_name FROM information_schema.tables"

    def __init__(self, where: Address, relation: Any = None) -> None:
        super().__init__(where)
        self._relation, self.repeats = relation, relation is None

    def _asked_columns(self) -> list[Column]:
        asked = self._asked()
        return [_duck_column(name, kind) for name, kind in zip(asked.columns, map(str, asked.types), strict=True)]

    def _stream(self, items: Sequence[Item], n_rows: int) -> Generator[pa.RecordBatch | pa.Schema, None, None]:
        query = ", ".join(f"{item.text} AS c{place}" for place, item in enumerate(items))
        with self._asked().project(query).to_arrow_reader(n_rows) as reader:
            yield reader.schema
            yield from reader

    def _asked(self) -> Any:
        if self._relation is not None:
            return self._relation
        if self._connection is None:
            self._connection = self._opened()
        return self._found(lambda place: self._connection.sql(f"SELECT * FROM {place}"))

    def _opened(self) -> Any:
        import duckdb

        if not Path(self.name).is_file():
            raise TableError(f"There is no file {self.name}.")
        try:
            connection = duckdb.connect(self.name, read_only=True)
        except duckdb.ConnectionException:
            # This process writes to the file, and DuckDB then shares it with readers of the same kind alone.
            connection = duckdb.connect(self.name)
        connection.execute("BEGIN TRANSACTION READ ONLY")
        return connection


def _duck_column(name: str, native: str) -> Column:
    if native in DUCK_CARRIED:
        kind = "truth" if native == "BOOLEAN" else "real" if native in ("FLOAT", "DOUBLE") else "whole"
        return Column(name, kind, native, DUCK_CARRIED[native])
    by_start = "decimal" if native.startswith("DECIMAL(") else "text" if native.startswith("ENUM(") else ""
    is_list = native.endswith("]")
    return Column(name, "" if is_list else DUCK_KINDS.get(native, by_start), native)


# Kinds by what the name of a declared type contains, the first that it does; the rest are SQLite's own rules.
LITE_KINDS = {
    "POINT": "", "INTERVAL": "", "INT": "whole", "CHAR": "text", "CLOB": "text", "TEXT": "text", "BLOB": "", "REAL": "real",
    "FLOA": "real", "DOUB": "real", "BOOL": "truth", "DATETIME": "time", "TIMESTAMP": "time", "DATE": "date",
    "NUM": "number", "DEC": "number",
}  # fmt: skip
HEADS = {pa.int64(): "0", pa.float64(): "0.0", pa.string(): "''"}


class Lite(DatabaseTable):
    """A table of a file of SQLite, or a query there."""

    engine, names_of_tables = "sqlite", "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"

    def _asked_columns(self) -> list[Column]:
        import adbc_driver_sqlite.dbapi as driver

        if not Path(self.name).is_file():  # SQLite would make it
            raise TableError(f"There is no file {self.name}.")
        try:
            self._connection = driver.connect(f"file:{quote(str(Path(self.name).resolve()))}?mode=ro")
            self._all("PRAGMA schema_version")
            return self._found(self._columns_of)
        except Exception:
            self.close()
            raise

    def _read(self, column: Column, part: Feature | Target, longest: int) -> Item:
        return as_read_in_sqlite(column, part, longest)

    def _beside(self, column: Column, longest: int) -> Item:
        return beside_in_sqlite(column, longest)

    def _stream(self, items: Sequence[Item], n_rows: int) -> Generator[pa.RecordBatch | pa.Schema, None, None]:
        # The driver takes types from the first values that it meets, so a row without a record comes before all others.
        head = ", ".join(f"{HEADS[item.arrow]} AS c{place}" for place, item in enumerate(items))
        read = ", ".join(item.text for item in items)
        with self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(n_rows)})
            cursor.execute(f"SELECT 1 AS head, {head} UNION ALL SELECT 0, {read} FROM dpforest_asked")
            with cursor.fetch_record_batch() as reader:
                yield pa.schema(list(reader.schema)[1:])
                is_first = True
                for batch in reader:
                    if is_first and batch.column(0)[0].as_py() != 1:
                        raise TableError("SQLite gave rows in an order that was not expected.")
                    yield batch.slice(int(is_first)).select(batch.schema.names[1:])
                    is_first = False

    def _columns_of(self, place: str) -> list[Column]:
        """The columns of a table or query, which gets a name in this connection alone: so SQLite tells declared types."""
        names = self._names_of(f"SELECT * FROM {place} LIMIT 0")
        if len({*names}) < len(names):
            return [Column(name, "", "") for name in names]  # one that is there twice is refused by its name
        view = f"CREATE TEMP VIEW dpforest_asked AS SELECT * FROM {place}"
        for setting in ("PRAGMA temp_store = MEMORY", view, "PRAGMA query_only = ON"):
            self._all(setting)
        return [_lite_column(*each) for each in self._all("SELECT name, type FROM pragma_table_info('dpforest_asked')")]


def _lite_column(name: str, declared: str) -> Column:
    native = declared.upper()
    kind = next((kind for part, kind in LITE_KINDS.items() if part in native), "")
    return Column(name, kind, native, pa.float64() if kind in ("whole", "real", "number", "truth") else None)


# Texts that do not depend on the settings of a server, and floats to the last digit.
PLAIN = ("datestyle = 'ISO'", "timezone = 'UTC'", "extra_float_digits = 3", "jit = off", "standard_conforming_strings = on")
# Encodings of PostgreSQL that Python has under other names; bytes in none are taken for UTF-8.
CODECS = {"SQL_ASCII": "UTF-8", "EUC_CN": "GB2312", "KOI8R": "KOI8-R", "KOI8U": "KOI8-U"}
POSTGRES_CARRIED = {
    "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(), "float8": pa.float64(),
    "bool": pa.bool_(),
}  # fmt: skip
POSTGRES_KINDS = {"numeric": "decimal", "date": "date", "timestamp": "time", "timestamptz": "zoned", "bool": "truth"}
POSTGRES_KINDS |= dict.fromkeys(("text", "varchar", "bpchar", "name"), "text")
BYTES_OF_VALUE = 8


class Postgres(DatabaseTable):
    """A table of PostgreSQL, or a query there."""

    engine = "postgres"
    names_of_tables = """SELECT CAST(table_name AS TEXT) FROM information_schema.tables
        WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"""

    _encoding = _from = ""

    def _asked_columns(self) -> list[Column]:
        if self._connection is None:
            self._open()
        names = self._found(self._names_in)
        if len({*names}) < len(names):
            return [Column(name, "", "") for name in names]  # one that is there twice is refused by its name
        types: list[Any] = []
        for start in range(0, len(names), 500):  # a row of PostgreSQL has at most 1,664 columns
            some = [f"CAST(CAST(PG_TYPEOF(t.{identifier(name)}) AS OID) AS BIGINT)" for name in names[start : start + 500]]
            (row,) = self._all(f"SELECT {', '.join(some)} FROM (SELECT 1) AS one LEFT JOIN {self._from} ON FALSE")
            types += row
        known = self._types({*types})
        return [_postgres_column(name, *known[number]) for name, number in zip(names, types, strict=True)]

    def _names_in(self, place: str) -> list[str]:
        place = place.removesuffix(" AS asked")
        try:
            names = self._names_of(f"SELECT * FROM {place} AS t LIMIT 0")
        except Exception:
            with suppress(Exception):  # no row was read yet, and a transaction answers nothing more after an error
                self._connection.rollback()
                self._begin()
            raise
        self._from = f"{place} AS t"
        return names

    def _types(self, numbers: set[int]) -> dict[int, tuple[str, str]]:
        """The type of each number, by name and as shown; a domain has the type that it restricts."""
        if not numbers:
            return {}
        listed = ", ".join(map(str, numbers))
        found = self._all(
            "SELECT CAST(oid AS BIGINT), CASE WHEN typtype = 'e' THEN 'text' WHEN typtype = 'd' THEN '' WHEN typnamespace = "
            "CAST('pg_catalog' AS regnamespace) THEN CAST(typname AS TEXT) ELSE '?' END, CAST(typbasetype AS BIGINT), "
            f"FORMAT_TYPE(oid, NULL) FROM pg_catalog.pg_type WHERE oid IN ({listed})"
        )
        below = self._types({base for _, name, base, _ in found if name == ""})
        return {own: (name, shown) if name else below[base] for own, name, base, shown in found}

    def _read(self, column: Column, part: Feature | Target, longest: int) -> Item:
        return self._as_bytes(super()._read(column, part, longest))

    def _beside(self, column: Column, longest: int) -> Item:
        return self._as_bytes(super()._beside(column, longest))

    def _as_bytes(self, item: Item) -> Item:
        """Texts of a database in another encoding than UTF-8 as their bytes, which fails for none, as a conversion would."""
        if item.arrow != pa.string() or self._encoding == "UTF8" or item.final is not None:
            return item
        return replace(item, text=f"CONVERT_TO({item.text}, CURRENT_SETTING('server_encoding'))", arrow=pa.binary())

    def _stream(self, items: Sequence[Item], n_rows: int) -> Generator[pa.RecordBatch | pa.Schema, None, None]:
        decode = self._decoder()
        query = ", ".join(f"{item.text} AS c{place}" for place, item in enumerate(items))
        with self._connection.cursor() as cursor:
            size = str(n_rows * BYTES_OF_VALUE * (len(items) + 1))
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": size})
            cursor.execute(f"SELECT {query} FROM {self._from}")
            with cursor.fetch_record_batch() as reader:
                yield reader.schema
                for batch in reader:
                    yield _decoded(batch, decode)

    def _open(self) -> None:
        import adbc_driver_postgresql.dbapi as driver

        account = {**self._where.account, "client_encoding": "UTF8"}
        settings = urlencode({key: value for key, value in account.items() if value is not None}, quote_via=quote)
        address = f"postgresql:///{quote(self._where.database, safe='')}?{settings}"
        self._connection = driver.connect(address)
        self._begin()
        ((self._encoding,),) = self._all("SELECT CURRENT_SETTING('server_encoding')")
        self._decoder()

    def _begin(self) -> None:
        for setting in ("TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY", *(f"LOCAL {each}" for each in PLAIN)):
            self._all(f"SET {setting}")

    def _decoder(self) -> Callable[[bytes | None], bytes | None]:
        """A function that gives bytes of the database's encoding in UTF-8, and ``NO_TEXT`` for what is no text in it."""
        try:
            codec = codecs.lookup(CODECS.get(self._encoding) or self._encoding.replace("WIN", "CP"))
        except LookupError:
            raise TableError(
                f"The database is in the encoding {self._encoding}, whose texts cannot be read. Copy the table to a "
                "database in UTF8."
            ) from None
        read = asking(lambda raw: codec.decode(raw)[0].encode(), NO_TEXT)
        return lambda raw: None if raw is None else read(raw)


def _decoded(batch: pa.RecordBatch, decode: Callable[[bytes | None], bytes | None]) -> pa.RecordBatch:
    """Rows with texts in the place of bytes of the database's encoding."""
    arrays = []
    for column in batch.columns:
        if pa.types.is_binary(column.type):
            values = column.dictionary_encode()
            column = pa.array(map(decode, values.dictionary.to_pylist()), pa.binary()).take(values.indices).view(pa.string())
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _postgres_column(name: str, known: str, shown: str) -> Column:
    if known in POSTGRES_CARRIED:
        kind = POSTGRES_KINDS.get(known) or ("real" if known.startswith("float") else "whole")
        return Column(name, kind, shown, POSTGRES_CARRIED[known])
    return Column(name, POSTGRES_KINDS.get(known, ""), "TIMESTAMP" if known == "timestamp" else shown)


ENGINES: dict[str, Callable[[Address], DatabaseTable]] = {"duckdb": Duck, "postgres": Postgres, "sqlite": Lite}


def table_at(address: str) -> DatabaseTable:
    """The table at an address, which is read when it is asked for."""
    check_extra()
    where = Address.parse(address)
    where.check_readable()
    return ENGINES[where.engine](where)


def database_source(table: Any) -> DatabaseTable | None:
    """The source of a relation of DuckDB or a table of Ibis; None for any other object."""
    duckdb, ibis = sys.modules.get("duckdb"), sys.modules.get("ibis")
    if duckdb is not None and isinstance(table, duckdb.DuckDBPyRelation):
        return Duck(Address("duckdb", "", path="The database"), table)
    if ibis is None or not isinstance(table, ibis.Table):
        return None
    check_extra()
    with refusing("The database"):
        backend = table.get_backend()
        if backend.name not in ENGINES:
            raise TableError(f"{untried(repr(backend.name))} Nothing was spent.")
        text = str(backend.compile(table))
        if backend.name == "duckdb":
            backend._run_pre_execute_hooks(table)  # noqa: SLF001 - makes a table in memory known there
            return Duck(Address("duckdb", "", path="The database"), backend.con.sql(text))
        if backend.name == "postgres":
            return Postgres(_server_of(backend.con, f"({text})"))
        file = next(file for _, name, file in backend.con.execute("PRAGMA database_list") if name == "main")
    if not file:
        raise TableError("A SQLite database in memory is seen by its own connection alone. Pass a DuckDB table, or a file.")
    return Lite(Address("sqlite", f"({text})", path=file))


def _server_of(connection: Any, query: str) -> Address:
    """Where a connection of psycopg leads to, with its settings, and where it looks for tables."""
    info, ((path,),) = connection.info, connection.execute("SHOW search_path").fetchall()
    account = {"host": info.host or "localhost", "port": info.port, "user": info.user, "password": info.password}
    account |= {key: value for key, value in info.get_parameters().items() if key in SETTINGS}
    looks = "-c search_path=" + re.sub(r"([\\\s])", r"\\\1", path)
    account |= {"connect_timeout": SECONDS_TO_CONNECT, "options": f"{account.get('options', '')} {looks}"}
    return Address("postgres", query, database=info.dbname, account=account)
