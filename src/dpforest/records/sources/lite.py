"""SQLite through its Arrow driver: every value has a type of its own there, and is cast by that. Sees rows."""

from collections.abc import Generator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.sources.addresses import Address
from dpforest.records.sources.casts import Column, Item, as_read_in_sqlite, beside_in_sqlite
from dpforest.records.sources.failures import refusing
from dpforest.records.sources.places import source_of
from dpforest.schema import Feature, Target

# Kinds by what the name of a declared type contains, the first that it does; the rest are SQLite's own rules.
KINDS = {
    "POINT": "", "INTERVAL": "", "INT": "whole", "CHAR": "text", "CLOB": "text", "TEXT": "text", "BLOB": "", "REAL": "real",
    "FLOA": "real", "DOUB": "real", "BOOL": "truth", "DATETIME": "time", "TIMESTAMP": "time", "DATE": "date",
    "NUM": "number", "DEC": "number",
}  # fmt: skip
HEADS = {pa.int64(): "0", pa.float64(): "0.0", pa.string(): "''"}
TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"


class Lite:
    """A table of a file of SQLite, or a query there."""

    engine = "sqlite"

    def __init__(self, where: Address) -> None:
        self._where, self.name = where, where.path
        self._connection: Any = None
        self._columns: list[Column] = []

    def columns(self) -> list[Column]:
        """The columns by their declared types, in the order of the table; no row is read."""
        if self._connection is None:
            self._open()
        return self._columns

    def read(self, column: Column, part: Feature | Target, longest: int) -> Item:
        return as_read_in_sqlite(column, part, longest)

    def beside(self, column: Column, longest: int) -> Item:
        return beside_in_sqlite(column, longest)

    def stream(self, items: Mapping[str, Item], n_rows: int) -> Generator[pa.RecordBatch | pa.Schema, None, None]:
        """The types of a query about the table, then its rows.

        The driver takes types from the first values that it meets, so a row without a record comes before all others.
        """
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
            self._columns = source_of(self._where, self._columns_of, lambda: [name for (name,) in self._all(TABLES)])
        except TableError:
            self.close()
            raise

    def _columns_of(self, place: str) -> list[Column]:
        """The columns of a table or query, which gets a name in this connection alone: so SQLite tells declared types."""
        names = self._fetched(f"SELECT * FROM {place} LIMIT 0").schema.names
        if len({*names}) < len(names):
            return [Column(name, "", "") for name in names]  # one that is there twice is refused by its name
        with self._connection.cursor() as cursor:
            for setting in ("PRAGMA temp_store = MEMORY", f"CREATE TEMP VIEW dpforest_asked AS SELECT * FROM {place}"):
                cursor.execute(setting)
            cursor.execute("PRAGMA query_only = ON")
        found = self._fetched("SELECT name, type FROM pragma_table_info('dpforest_asked')").to_pydict()
        return [_column(*each) for each in zip(found["name"], found["type"], strict=True)]

    def _fetched(self, query: str) -> pa.Table:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetch_arrow_table()

    def _all(self, query: str) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None


def _column(name: str, declared: str) -> Column:
    native = declared.upper()
    kind = next((kind for part, kind in KINDS.items() if part in native), "")
    if kind in ("whole", "real", "number", "truth"):
        return Column(name, kind, native, pa.float64())
    return Column(name, kind, native)
