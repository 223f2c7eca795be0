"""The tables of the benchmark of engines: written once for each number of rows, where each engine can reach them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.core.results import NotMeasured
from benchmarks.engines.cases import DUCKDB, N_FEATURES, POSTGRESQL
from benchmarks.postgres import server
from benchmarks.speed import parquet

TABLE = "bench"  # in a database
# Of a Parquet file, as DuckDB writes them: a reader holds a group for each thread.
GROUP_ROWS = 122_880


class Tables:
    """Makes tables when they are first asked for; all vanish in the end."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._server: str | NotMeasured | None = None
        self._copied: set[int] = set()

    def address(self, engine: str, n_rows: int) -> str:
        """The address at which an engine finds the table: the path of a file, or the URL of a server."""
        if engine == DUCKDB:
            return str(self._duckdb(n_rows))
        if engine == POSTGRESQL:
            return self._postgres(n_rows)
        return str(self.parquet(n_rows))

    def parquet(self, n_rows: int) -> Path:
        path = self._folder / f"{n_rows}.parquet"
        if not path.exists():
            parquet.write(path, n_rows, N_FEATURES, GROUP_ROWS)
        return path

    def _duckdb(self, n_rows: int) -> Path:
        path = self._folder / f"{n_rows}.duckdb"
        if not path.exists():
            # Loaded by name: it is an optional library.
            with import_module("duckdb").connect(str(path)) as connection:
                source = connection.read_parquet(str(self.parquet(n_rows)))
                source.create(TABLE)
        return path

    def _postgres(self, n_rows: int) -> str:
        if self._server is None:
            try:
                self._server = self._stack.enter_context(server())
            except NotMeasured as reason:
                self._server = reason
        if isinstance(self._server, NotMeasured):
            raise self._server
        if n_rows not in self._copied:
            _copy(self._server, f"{TABLE}_{n_rows}", self.parquet(n_rows))
            self._copied.add(n_rows)
        return self._server


def _copy(address: str, name: str, path: Path) -> None:
    """Write a Parquet file to a table of the server."""
    psycopg = import_module("psycopg")
    sql = import_module("psycopg.sql")
    columns = [f"x{index}" for index in range(N_FEATURES)]
    kinds = [*(sql.SQL("{} real").format(sql.Identifier(column)) for column in columns), sql.SQL("y bigint")]
    table = sql.Identifier(name)
    with psycopg.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
        cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(table, sql.SQL(", ").join(kinds)))
        with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(table)) as rows:
            for batch in pq.ParquetFile(path).iter_batches():
                rows.write("".join(_lines(batch)))
        cursor.execute(sql.SQL("ANALYZE {}").format(table))


def _lines(batch: Any) -> Iterator[str]:
    for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        yield "\t".join(map(repr, values)) + "\n"


@contextmanager
def tables(folder: Path) -> Iterator[Tables]:
    with ExitStack() as stack:
        yield Tables(folder, stack)
