"""The doorway for tables that commands read: opens any of them by its address. Sees rows."""

from contextlib import closing
from pathlib import Path
from typing import Any

from dpforest.errors import TableError
from dpforest.records.source import Asked, Progress, Source, joined, silent
from dpforest.records.sources.addresses import SERVERS, Address
from dpforest.records.sources.arrow import ARROW, ArrowFile
from dpforest.records.sources.cells import TextTable
from dpforest.records.sources.delimited import Delimited
from dpforest.records.sources.excel import WORKBOOKS, Workbook
from dpforest.records.sources.json_lines import JSON_LINES, JsonLines
from dpforest.records.sources.packed import ending
from dpforest.records.sources.parquet_files import PARQUET, ParquetTable, is_parquet
from dpforest.records.sources.statistics import READERS, Statistics
from dpforest.records.sources.typed_table import TypedTable
from dpforest.schema import Format, Schema

DUCKDB = (".duckdb", ".ddb", ".db")


def open_source(table: Any, format: Format | None = None, *, names_lines: bool = False) -> Source:
    """The source of a table: a database if the address has ``://``, else a file by the ending of its name.

    A table of Ibis, and what gives batches of Arrow, have a source, too, and a source is its own.

    ``format`` says how a text file writes its cells, by default as a plain CSV does. With ``names_lines`` an error about a
    file that is not well-formed names the line: a fact about a row, for whoever holds the table.
    """
    format, address = format or Format(), table
    if isinstance(table, Source):
        return table
    if not isinstance(table, str | Path) and not hasattr(table, "__fspath__"):
        return _of_object(table)
    if is_database(address):
        from dpforest.records.sources.database import DatabaseTable

        return DatabaseTable.at(str(address))
    name, _, sheet = str(address).partition("::")
    path, kind = Path(name), ending(Path(name))
    try:
        path.resolve().exists()
    except (OSError, ValueError):  # too long, half a character, or one of no name
        raise TableError(f"{name[:60]!r} is no name that a file can have.") from None
    if kind in DUCKDB:
        raise TableError(f"A table in a database is named as duckdb:///{path}::{sheet or 'TABLE'}, not as {address}.")
    if is_parquet(path):
        return ParquetTable(path)
    if kind != path.suffix.lower() and kind in (*WORKBOOKS, *ARROW, *READERS, *PARQUET):
        raise TableError(f"{path} is packed, and a file of the kind {kind} is not read so. Unpack it.")
    if kind in WORKBOOKS:
        return TextTable(Workbook(path, sheet or None, format), format)
    if kind in JSON_LINES:
        return TextTable(JsonLines(path, format), format)
    if kind in ARROW or kind in READERS:
        return TypedTable(ArrowFile(path) if kind in ARROW else Statistics(path))
    return TextTable(Delimited(path, format, names_lines), format)


def _of_object(table: Any) -> Source:
    """The source of an object that holds a table."""
    from dpforest.records.sources.arrow_stream import ArrowStream
    from dpforest.records.sources.database import database_source

    return database_source(table) or ArrowStream(table)


def hint(reader: Source) -> str:
    """How a text file was read, and what to try if columns are not there; "" for a table that has types."""
    return reader.cells.hint() if isinstance(reader, TextTable) else ""


def format_of(reader: Source) -> Format:
    """How the cells of a table are written; plainly, if it is no text file."""
    return reader.format if isinstance(reader, TextTable) else Format()


def is_database(address: str | Path) -> bool:
    """Whether an address is that of a table in a database, whose rows have no order."""
    return "://" in str(address) or str(address).startswith(SERVERS)


def shown_address(address: str | Path) -> str:
    """An address as it may be printed, without a password."""
    return str(Address.parse(str(address))) if is_database(address) else str(address)


def short_name(address: str | Path) -> str:
    """A name for files about a table: that of its file without endings, or of the table in a database."""
    where = Address.parse(str(address)) if is_database(address) else None
    if where is not None and where.is_query:
        return "query"
    name = Path(address).name if where is None else where.table.rpartition(".")[2] or Path(where.path).name
    return name.split(".")[0].strip("*-_ ") or "table"


def read_table(address: str | Path, schema: Schema, *, with_target: bool, progress: Progress = silent) -> tuple[Any, Any]:
    """The features of a whole table, and the target as a column (or None); other columns are not read."""
    with closing(open_source(address, schema.format)) as source:
        features, target, _ = joined(source.parts(Asked(schema, with_target), progress))
    return features, target
