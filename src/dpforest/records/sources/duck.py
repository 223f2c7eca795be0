"""DuckDB: columns by their types, and rows of a file, a relation or a query. Sees rows."""

from collections.abc import Generator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpforest.errors import TableError
from dpforest.records.sources.addresses import Address
from dpforest.records.sources.casts import Column, Item, as_read, beside
from dpforest.records.sources.failures import refusing
from dpforest.records.sources.places import source_of
from dpforest.schema import Feature, Target

SIZES = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
CARRIED = {name: getattr(pa, f"int{bits}")() for name, bits in SIZES.items()}
CARRIED |= {f"U{name}": getattr(pa, f"uint{bits}")() for name, bits in SIZES.items()}
CARRIED |= {"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}
KINDS = {"HUGEINT": "decimal", "VARCHAR": "text", "DATE": "date", "TIMESTAMP WITH TIME ZONE": "zoned"}
KINDS |= dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "time")


class Duck:
    """A table of DuckDB. With ``relation`` that is asked, in the connection of whoever made it."""

    engine = "duckdb"

    def __init__(self, where: Address | None, relation: Any = None, connection: Any = None) -> None:
        self._where, self._relation, self._connection = where, relation, connection
        self.name = where.path if where else "The database"
        if connection is not None:
            connection.execute("BEGIN TRANSACTION READ ONLY")

    def columns(self) -> list[Column]:
        """The columns by their types, in the order of the table; no row is read."""
        asked = self._asked()
        return [_column(name, kind) for name, kind in zip(asked.columns, map(str, asked.types), strict=True)]

    def read(self, column: Column, part: Feature | Target, longest: int) -> Item:
        return as_read(column, part, self.engine, longest)

    def beside(self, column: Column, longest: int) -> Item:
        return beside(column, self.engine, longest)

    def stream(self, items: Mapping[str, Item], n_rows: int) -> Generator[pa.RecordBatch | pa.Schema, None, None]:
        """The types of a query about the table, then its rows."""
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

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None


def _column(name: str, native: str) -> Column:
    if native in CARRIED:
        kind = "truth" if native == "BOOLEAN" else "real" if native in ("FLOAT", "DOUBLE") else "whole"
        return Column(name, kind, native, CARRIED[native])
    by_start = "decimal" if native.startswith("DECIMAL(") else "text" if native.startswith("ENUM(") else ""
    is_list = native.endswith("]")
    return Column(name, "" if is_list else KINDS.get(native, by_start), native)
