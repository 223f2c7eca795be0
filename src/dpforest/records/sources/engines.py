"""DuckDB, SQLite and PostgreSQL: columns by their types, expressions that drivers carry, and rows. Sees rows."""

import codecs
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.columns import asking
from dpforest.records.sources.addresses import Address, kind_of, places, refusing
from dpforest.records.sources.casts import Column, Item, as_read, as_read_in_sqlite, beside, beside_in_sqlite, identifier
from dpforest.records.sources.cells import NO_TEXT
from dpforest.schema import Feature, Target

Found = TypeVar("Found")


class Engine:
    """A table of one engine, or a query there: how its columns are asked for, and its rows.

    Attributes
    ----------
    engine
        As Ibis calls it.
    name
        The file or server, as it may be shown.
    """

    engine: str
    name: str
    _connection: Any = None

    def columns(self) -> list[Column]:
        """The columns by their types, in the order of the table; no row is read."""
        raise NotImplementedError

    def read(self, column: Column, part: Feature | Target, longest: int) -> Item:
        """The expression of a column that the schema declares."""
        return as_read(column, part, self.engine, longest)

    def beside(self, column: Column, longest: int) -> Item:
        """The expression of another column."""
        return beside(column, self.engine, longest)

    def stream(self, items: Mapping[str, Item], n_rows: int) -> Generator[Any, None, None]:
        """The types of a query about the table, then its rows."""
        raise NotImplementedError

    def _run(self, query: str, fetch: Callable[[Any], Any] | None = None) -> Any:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return fetch(cursor) if fetch else None

    def _all(self, query: str) -> list[Any]:
        return list(self._run(query, lambda cursor: cursor.fetchall()))

    def _names_of(self, query: str) -> list[str]:
        return list(self._run(query, lambda cursor: cursor.fetch_arrow_table().schema.names))

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None


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


SIZES = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
DUCK_CARRIED = {name: getattr(pa, f"int{bits}")() for name, bits in SIZES.items()}
DUCK_CARRIED |= {f"U{name}": getattr(pa, f"uint{bits}")() for name, bits in SIZES.items()}
DUCK_CARRIED |= {"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}
DUCK_KINDS = {"HUGEINT": "decimal", "VARCHAR": "text", "DATE": "date", "TIMESTAMP WITH TIME ZONE": "zoned"}
DUCK_KINDS |= dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "time")


class Duck(Engine):
    """A table of DuckDB. With ``relation`` that is asked, in the connection of whoever made it."""

    engine = "duckdb"

    def __init__(self, where: Address | None, relation: Any = None, connection: Any = None) -> None:
        self._where, self._relation, self._connection = where, relation, connection
        self.name = where.path if where else "The database"
        if connection is not None:
            connection.execute("BEGIN TRANSACTION READ ONLY")

    def columns(self) -> list[Column]:
        asked = self._asked()
        return [_duck_column(name, kind) for name, kind in zip(asked.columns, map(str, asked.types), strict=True)]

    def stream(self, items: Mapping[str, Item], n_rows: int) -> Generator[pa.RecordBatch | pa.Schema, None, None]:
        query = ", ".join(f"{item.text} AS {name}" for name, item in items.items())
        with self._asked().project(query).to_arrow_reader(n_rows) as reader:
            yield reader.schema
            yield from reader

    def _asked(self) -> Any:
        if self._relation is not None:
            return self._relation
        if self._connection is None:
            self._connection = self._opened()
        assert self._where is not None
        return source_of(self._where, lambda place: self._connection.sql(f"SELECT * FROM {place}"), self._names)

    def _names(self) -> list[str]:
        found = self._connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
        return [name for (name,) in found]

    def _opened(self) -> Any:
        import duckdb

        if not Path(self.name).is_file():
            raise TableError(f"There is no file {self.name}.")
        with refusing(self.name):
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
LITE_TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"


class Lite(Engine):
    """A table of a file of SQLite, or a query there."""

    engine = "sqlite"

    def __init__(self, where: Address) -> None:
        self._where, self.name = where, where.path
        self._columns: list[Column] = []

    def columns(self) -> list[Column]:
        if self._connection is None:
            self._open()
        return self._columns

    def read(self, column: Column, part: Feature | Target, longest: int) -> Item:
        return as_read_in_sqlite(column, part, longest)

    def beside(self, column: Column, longest: int) -> Item:
        return beside_in_sqlite(column, longest)

    def stream(self, items: Mapping[str, Item], n_rows: int) -> Generator[pa.RecordBatch | pa.Schema, None, None]:
        # The driver takes types from the first values that it meets, so a row without a record comes before all others.
        head = ", ".join(f"{HEADS[item.arrow]} AS {name}" for name, item in items.items())
        read = ", ".join(item.text for item in items.values())
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

    def _open(self) -> None:
        import adbc_driver_sqlite.dbapi as driver

        if not Path(self.name).is_file():  # SQLite would make it
            raise TableError(f"There is no file {self.name}.")
        with refusing(self.name):
            self._connection = driver.connect(f"file:{quote(str(Path(self.name).resolve()))}?mode=ro")
            self._all("PRAGMA schema_version")
        try:
            self._columns = source_of(self._where, self._columns_of, lambda: [name for (name,) in self._all(LITE_TABLES)])
        except TableError:
            self.close()
            raise

    def _columns_of(self, place: str) -> list[Column]:
        """The columns of a table or query, which gets a name in this connection alone: so SQLite tells declared types."""
        names = self._names_of(f"SELECT * FROM {place} LIMIT 0")
        if len({*names}) < len(names):
            return [Column(name, "", "") for name in names]  # one that is there twice is refused by its name
        view = f"CREATE TEMP VIEW dpforest_asked AS SELECT * FROM {place}"
        for setting in ("PRAGMA temp_store = MEMORY", view, "PRAGMA query_only = ON"):
            self._run(setting)
        return [_lite_column(*each) for each in self._all("SELECT name, type FROM pragma_table_info('dpforest_asked')")]


def _lite_column(name: str, declared: str) -> Column:
    native = declared.upper()
    kind = next((kind for part, kind in LITE_KINDS.items() if part in native), "")
    if kind in ("whole", "real", "number", "truth"):
        return Column(name, kind, native, pa.float64())
    return Column(name, kind, native)


# Texts that do not depend on the settings of a server, and floats to the last digit.
PLAIN = ("datestyle = 'ISO'", "timezone = 'UTC'", "extra_float_digits = 3", "jit = off", "standard_conforming_strings = on")
# Encodings of PostgreSQL that Python has under other names; bytes in none are taken for UTF-8.
CODECS = {"SQL_ASCII": "UTF-8", "EUC_CN": "GB2312", "KOI8R": "KOI8-R", "KOI8U": "KOI8-U"}
POSTGRES_CARRIED = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
}
POSTGRES_CARRIED |= {"bool": pa.bool_()}
POSTGRES_KINDS = {"numeric": "decimal", "date": "date", "timestamp": "time", "timestamptz": "zoned", "bool": "truth"}
POSTGRES_KINDS |= dict.fromkeys(("text", "varchar", "bpchar", "name"), "text")
BYTES_OF_VALUE = 8
POSTGRES_TABLES = """SELECT CAST(table_name AS TEXT) FROM information_schema.tables
    WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"""


class Postgres(Engine):
    """A table of PostgreSQL, or a query there."""

    engine = "postgres"

    def __init__(self, where: Address) -> None:
        self._where, self._encoding, self._from = where, "", ""
        self.name = f"database {where.database!r} at {where.account['host']}:{where.account['port']}"

    def columns(self) -> list[Column]:
        if self._connection is None:
            self._open()
        names = source_of(self._where, self._names_in, lambda: [name for (name,) in self._all(POSTGRES_TABLES)])
        if len({*names}) < len(names):
            return [Column(name, "", "") for name in names]  # one that is there twice is refused by its name
        types: list[Any] = []
        for start in range(0, len(names), 500):  # a row of PostgreSQL has at most 1,664 columns
            asked = ", ".join(
                f"CAST(CAST(PG_TYPEOF(t.{identifier(name)}) AS OID) AS BIGINT)" for name in names[start : start + 500]
            )
            ((*some,),) = (
                self._all(f"SELECT {asked} FROM (SELECT 1) AS one LEFT JOIN {self._from} ON FALSE") if asked else ((),)
            )
            types += some
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

    def read(self, column: Column, part: Feature | Target, longest: int) -> Item:
        return self._as_bytes(super().read(column, part, longest))

    def beside(self, column: Column, longest: int) -> Item:
        return self._as_bytes(super().beside(column, longest))

    def _as_bytes(self, item: Item) -> Item:
        """Texts of a database in another encoding than UTF-8 as their bytes, which fails for none, as a conversion would."""
        if item.arrow != pa.string() or self._encoding == "UTF8" or item.final is not None:
            return item
        return replace(item, text=f"CONVERT_TO({item.text}, CURRENT_SETTING('server_encoding'))", arrow=pa.binary())

    def stream(self, items: Mapping[str, Item], n_rows: int) -> Generator[pa.RecordBatch | pa.Schema, None, None]:
        decode = self._decoder()
        query = ", ".join(f"{item.text} AS {name}" for name, item in items.items())
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

        account = self._where.account
        user = ":".join(quote(account[key], safe="") for key in ("user", "password") if account[key])
        host = account["host"] if ":" not in account["host"] else f"[{account['host']}]"
        at = f"{host}:{account['port']}" if not host.startswith("/") else ""
        address = f"postgresql://{user}{'@' if user else ''}{at}/{quote(self._where.database, safe='')}"
        known = ("user", "password", "host", "port") if at else ("user", "password")
        own = {key: value for key, value in account.items() if key not in known} | {"client_encoding": "UTF8"}
        settings = "?" + "&".join(f"{key}={quote(str(value), safe='')}" for key, value in own.items())
        with refusing(self.name):
            self._connection = driver.connect(address + settings)
            self._begin()
            ((self._encoding,),) = self._all("SELECT CURRENT_SETTING('server_encoding')")
        self._decoder()

    def _begin(self) -> None:
        for setting in ("TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY", *(f"LOCAL {each}" for each in PLAIN)):
            self._run(f"SET {setting}")

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
