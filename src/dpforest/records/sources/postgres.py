"""PostgreSQL through its Arrow driver: one read-only transaction that sees the table as it was. Sees rows."""

import codecs
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.columns import asking
from dpforest.records.sources.addresses import Address
from dpforest.records.sources.casts import Column, Item, as_read, beside, identifier
from dpforest.records.sources.cell_text import NO_TEXT
from dpforest.records.sources.failures import refusing
from dpforest.records.sources.places import source_of
from dpforest.schema import Feature, Target

# Texts that do not depend on the settings of a server, and floats to the last digit.
PLAIN = ("datestyle = 'ISO'", "timezone = 'UTC'", "extra_float_digits = 3", "jit = off", "standard_conforming_strings = on")
# Encodings of PostgreSQL that Python has under other names; bytes in none are taken for UTF-8.
CODECS = {"SQL_ASCII": "UTF-8", "EUC_CN": "GB2312", "KOI8R": "KOI8-R", "KOI8U": "KOI8-U"}
CARRIED = {"int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(), "float8": pa.float64()}
CARRIED |= {"bool": pa.bool_()}
KINDS = {"numeric": "decimal", "date": "date", "timestamp": "time", "timestamptz": "zoned", "bool": "truth"}
KINDS |= dict.fromkeys(("text", "varchar", "bpchar", "name"), "text")
BYTES_OF_VALUE = 8
TABLES = """SELECT CAST(table_name AS TEXT) FROM information_schema.tables
    WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"""


class Postgres:
    """A table of PostgreSQL, or a query there."""

    engine = "postgres"

    def __init__(self, where: Address) -> None:
        self._where, self._encoding, self._from = where, "", ""
        self._connection: Any = None
        self.name = f"database {where.database!r} at {where.account['host']}:{where.account['port']}"

    def columns(self) -> list[Column]:
        """The columns by their types, in the order of the table; no row is read."""
        if self._connection is None:
            self._open()
        names = source_of(self._where, self._names_in, lambda: [name for (name,) in self._all(TABLES)])
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
        return [_column(name, *known[number]) for name, number in zip(names, types, strict=True)]

    def _names_in(self, place: str) -> list[str]:
        place = place.removesuffix(" AS asked")
        try:
            names = self._run(
                f"SELECT * FROM {place} AS t LIMIT 0", lambda cursor: list(cursor.fetch_arrow_table().schema.names)
            )
        except Exception:
            with suppress(Exception):  # no row was read yet, and a transaction answers nothing more after an error
                self._connection.rollback()
                self._begin()
            raise
        self._from = f"{place} AS t"
        return names

    def _types(self, numbers: set[int]) -> dict[int, tuple[str, str]]:
        """The name of the type of each number, that of a domain being the one that it restricts, and as it is shown."""
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
        return self._as_bytes(as_read(column, part, self.engine, longest))

    def beside(self, column: Column, longest: int) -> Item:
        return self._as_bytes(beside(column, self.engine, longest))

    def _as_bytes(self, item: Item) -> Item:
        """Texts of a database in another encoding than UTF-8 as their bytes, which fails for none, as a conversion would."""
        if item.arrow != pa.string() or self._encoding == "UTF8" or item.final is not None:
            return item
        return replace(item, text=f"CONVERT_TO({item.text}, CURRENT_SETTING('server_encoding'))", arrow=pa.binary())

    def stream(self, items: Mapping[str, Item], n_rows: int) -> Generator[pa.RecordBatch | pa.Schema, None, None]:
        """The types of a query about the table, then its rows."""
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
            self._run(f"SET {setting}", lambda cursor: None)

    def _run(self, query: str, fetch: Callable[[Any], Any]) -> Any:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return fetch(cursor)

    def _all(self, query: str) -> list[Any]:
        return list(self._run(query, lambda cursor: cursor.fetchall()))

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

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None


def _decoded(batch: pa.RecordBatch, decode: Callable[[bytes | None], bytes | None]) -> pa.RecordBatch:
    """Rows with texts in the place of bytes of the database's encoding."""
    arrays = []
    for column in batch.columns:
        if pa.types.is_binary(column.type):
            values = column.dictionary_encode()
            column = pa.array(map(decode, values.dictionary.to_pylist()), pa.binary()).take(values.indices).view(pa.string())
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _column(name: str, known: str, shown: str) -> Column:
    if known in CARRIED:
        kind = KINDS.get(known) or ("real" if known.startswith("float") else "whole")
        return Column(name, kind, shown, CARRIED[known])
    return Column(name, KINDS.get(known, ""), "TIMESTAMP" if known == "timestamp" else shown)
