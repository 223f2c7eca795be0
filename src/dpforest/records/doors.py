"""The doorway for tables: the source of whatever holds the rows, and of a fit the vault over it. Sees rows."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from dpforest.common.work import Workers
from dpforest.errors import TableError
from dpforest.records.columns import require_columns
from dpforest.records.given import given_frame
from dpforest.records.people import People, check_id_column, ids_beside
from dpforest.records.scan import Pieces, Stream
from dpforest.records.source import Asked, Progress, Source, check_types, in_plain_types, joined, silent
from dpforest.records.sources.addresses import SERVERS, Address
from dpforest.records.sources.arrow import ARROW, PARQUET, ArrowFile, ArrowStream, ParquetTable, is_parquet, types_of
from dpforest.records.sources.cells import TextTable
from dpforest.records.sources.excel import WORKBOOKS, Workbook
from dpforest.records.sources.statistics import READERS, Statistics
from dpforest.records.sources.text_files import JSON_LINES, Delimited, JsonLines, ending
from dpforest.records.vault import Vault
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
        from dpforest.records.sources.engines import database_source

        return database_source(table) or ArrowStream(table)
    if is_database(address):
        from dpforest.records.sources.engines import table_at

        return table_at(str(address))
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
        return Workbook(path, format, sheet or None)
    if kind in JSON_LINES:
        return JsonLines(path, format)
    if kind in ARROW or kind in READERS:
        return ArrowFile(path) if kind in ARROW else Statistics(path)
    return Delimited(path, format, names_lines)


def hint(reader: Source) -> str:
    """How a text file was read, and what to try if columns are not there; "" for a table that has types."""
    return reader.hint() if isinstance(reader, TextTable) else ""


def format_of(reader: Source) -> Format:
    """How the cells of a table are written; plainly, if it is no text file."""
    return reader.format if isinstance(reader, TextTable) else Format()


def is_database(address: str | Path) -> bool:
    """Whether an address leads to a database, where rows have no order."""
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


def read_table(address: str | Path, schema: Schema, *, with_target: bool) -> tuple[Any, Any]:
    """The features of a whole table, and the target as a column (or None); other columns are not read."""
    with closing(open_source(address, schema.format)) as source:
        features, target, _ = joined(source.chunks(Asked(schema, with_target)))
    return features, target


# The first names of modules whose tables are on a cluster.
CLUSTERS = ("dask", "dask_expr", "pyspark")


def names_of(table: Any) -> list[str] | None:
    """The names of a dataframe, a table of Ibis or Dask, or a Parquet file or folder; None for an array or a list."""
    if isinstance(table, Source):
        return table.public_names()
    if isinstance(table, str | os.PathLike):
        return list(types_of(os.fspath(table)).names)
    frame = given_frame(table)
    columns = getattr(table, "columns", None) if frame is None else frame.columns
    return None if columns is None else [str(name) for name in columns]  # pandas allows numbers as names


def header_of(X: Any, schema: Schema) -> Any:
    """What scikit-learn may see of a table: no row, and of its columns those that the schema names, in the order of X.

    A table that has none of them, or one of them twice, keeps all of its columns; an array is given back.
    """
    frame = given_frame(X)
    if frame is None:
        return X
    used = [name for name in frame.columns if str(name) in schema.features]
    empty = frame.head(0)
    return (empty.select(nw.col(*used)) if used and len({*used}) == len(used) else empty).to_native()


def is_elsewhere(table: Any) -> bool:
    """Whether a table is not in memory; its target is then a column of it."""
    if isinstance(table, str | os.PathLike) or _library(table) in (*CLUSTERS, "ibis", "duckdb"):
        return True
    if not hasattr(table, "__arrow_c_stream__"):
        return False
    native = nw.from_native(table, eager_only=True, allow_series=True, pass_through=True)
    return not isinstance(native, nw.DataFrame | nw.Series)


def _library(table: Any) -> str:
    return type(table).__module__.partition(".")[0]


def target_beside(X: Any, schema: Schema) -> Any:
    """The target of a table in memory, as the column that the schema names; None for an array or a list."""
    frame = given_frame(X)
    if frame is None:
        return None
    if (names_of(X) or []).count(schema.target.name) != 1:
        raise TableError(
            f"No y was given, and the table has no column {schema.target.name!r}, the target that the schema names. Pass y, "
            "or a table with that column."
        )
    return frame.get_column(schema.target.name).to_native()


def ids_of(X: Any, groups: Any) -> Any:
    """The ids of persons of a table in memory, of which ``groups`` may be the name of a column."""
    frame = given_frame(X) if isinstance(groups, str) else None
    if frame is None:
        return groups
    require_columns(names_of(X) or [], [groups], "the table", "named by groups")
    return frame.get_column(groups).to_native()


def opened(table: Any, format: Format) -> Any:
    """The table, and of a path, an address or a stream its source, so that it is opened once."""
    return table if _library(table) in CLUSTERS else open_source(table, format)


def current_client(client: Any) -> Any:
    """A client of a Dask cluster, by default the current one."""
    from dpforest.records.sources.dask import default_client

    return default_client() if client is None else client


def in_order(table: Any, schema: Schema) -> Any:
    """The features of a table in the order of its rows, read into memory; one that is there already as it is."""
    if not is_elsewhere(table):
        return table
    if _library(table) in (*CLUSTERS, "ibis", "duckdb") or is_database(table):
        raise TableError(
            "The rows of this table have no order, so nobody could tell whose prediction is whose. Read them into memory "
            "with a column that says which row is which, or write predictions beside it: dpforest predict … --id COLUMN."
        )
    features, _ = read_table(table, schema, with_target=False)
    return features


def rows_to_score(
    table: Any, schema: Schema, ids: str | None, where: str = "the table", progress: Progress = silent
) -> Iterator[tuple[Any, Any, Any]]:
    """The features, the target and the ids of some rows at a time; raises before the first if the table lacks a column."""
    if _library(table) in CLUSTERS:
        raise TableError(
            "A model is scored on rows that come here, not on a cluster. Pass a Parquet file or folder of them."
        )
    source = open_source(table, schema.format)
    asked = Asked(schema, with_target=True, besides=[] if ids is None else [ids])

    def read() -> Iterator[tuple[Any, Any, Any]]:
        with closing(source):
            if ids is not None:
                check_id_column(ids, source.public_names() or [ids], schema, where)
            for part in source.chunks(asked, progress):
                yield part.features, part.target, None if ids is None else ids_beside(part.besides, ids)

    rows = read()
    return chain([next(rows)], rows)


@contextmanager
def closed_if_refused(table: Any) -> Iterator[None]:
    """End the connection of a source, if there is one, when an error is raised."""
    try:
        yield
    except BaseException:
        if isinstance(table, Source):
            table.close()
        raise


def seal_elsewhere(
    table: Any,
    schema: Schema,
    n_jobs: int,
    groups: Any = None,
    people: People | None = None,
    client: Any = None,
    progress: Progress = silent,
) -> Vault:
    """The vault of a table outside of memory, checked by its columns and types alone.

    ``groups`` is the name of the column of ids, if the unit of privacy is a person.
    """
    ids = None if people is None else groups
    sealed = partial(Vault, schema, Workers(n_jobs), people=people, id_column=ids)
    if client is not None or _library(table) in ("dask", "dask_expr"):
        from dpforest.records.sources.dask import dask_table

        return sealed(elsewhere=dask_table(table, schema, client, ids, progress))
    if _library(table) == "pyspark":
        from dpforest.records.sources.spark import spark_table

        return sealed(elsewhere=spark_table(table, schema, ids, progress))
    source, asked = open_source(table, schema.format), Asked(schema, with_target=True, besides=() if ids is None else (ids,))
    if ids is not None:
        check_id_column(ids, source.public_names() or [ids], schema)
    if isinstance(source, ParquetTable):
        files = source.files(asked)
        for file in files:
            _check_kept(partial(file.empty, asked.columns), asked, file.shown)
        return sealed(Pieces.of_files(files, source.path, progress))
    _check_kept(lambda: asked.table(source.empty(asked)), asked, "The table")
    return sealed(elsewhere=Stream(source, progress))


def _check_kept(empty: Callable[[], pa.Table], asked: Asked, where: str) -> None:
    """Raise ``TableError`` unless a table without rows has types that can be kept, and then hold what is declared."""
    try:
        plain = in_plain_types(empty())
    except pa.ArrowException:
        raise TableError(
            f"{where} has a column of an Arrow type that cannot be read, such as a dictionary of views."
        ) from None
    check_types(plain.select(asked.declared).schema, asked.schema, True, where)
    for name in asked.besides:
        ids_beside(plain, name)
