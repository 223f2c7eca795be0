"""The tables of the benchmark of engines: written once for each number of rows, where each engine can reach them."""

import shutil
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.core.results import NotMeasured
from benchmarks.engines.cases import DUCKDB, N_FEATURES, POSTGRESQL, SEED, SPARK, SQLITE
from benchmarks.postgres import server
from benchmarks.speed.systems import draw_table

TABLE = "bench"  # in a database, with the number of rows
FILE_ROWS, GROUP_ROWS = 1_000_000, 122_880  # of a Parquet folder, groups as DuckDB writes them


class Tables:
    """Makes tables when they are first asked for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._server: str | NotMeasured | None = None
        self._copied: set[str] = set()

    def parquet(self, n_rows: int) -> Path:
        """A folder of Parquet files with the features ``x0``, ``x1``, … in 32 bits and the target ``y``."""
        folder = self._folder / str(n_rows)
        if not folder.exists():
            folder.mkdir()
            for number, start in enumerate(range(0, n_rows, FILE_ROWS)):
                X, y = draw_table(min(FILE_ROWS, n_rows - start), N_FEATURES, [SEED, number])
                table = pa.table({f"x{index}": column for index, column in enumerate(X.T)} | {"y": y})
                pq.write_table(table, folder / f"{number:04}.parquet", row_group_size=GROUP_ROWS)
        return folder

    def address(self, engine: str, n_rows: int) -> str:
        """Where an engine finds the table: a folder, or the address of a table in a database."""
        rows = self.parquet(n_rows)
        if engine == SPARK and shutil.which("java") is None:
            raise NotMeasured("there is no Java here, which Spark needs")
        if engine not in (DUCKDB, SQLITE, POSTGRESQL):
            return str(rows)
        path, name = self._folder / f"{n_rows}.{engine.lower()}", f"{TABLE}_{n_rows}"
        where = self._postgres() if engine == POSTGRESQL else f"{engine.lower()}:///{path}"
        if f"{where}::{name}" not in self._copied:
            if engine == DUCKDB:
                with import_module("duckdb").connect(str(path)) as connection:
                    connection.read_parquet(f"{rows}/*.parquet").create(name)
            else:
                _copy(engine, where if engine == POSTGRESQL else str(path), name, rows)
            self._copied.add(f"{where}::{name}")
        return f"{where}::{name}"

    def _postgres(self) -> str:
        if self._server is None:
            try:
                self._server = self._stack.enter_context(server())
            except NotMeasured as reason:
                self._server = reason
        if isinstance(self._server, NotMeasured):
            raise self._server
        return self._server


def _copy(engine: str, where: str, name: str, rows: Path) -> None:
    """Write Parquet files to a table of SQLite or PostgreSQL."""
    # Loaded by name: it is an optional library.
    driver = import_module(f"adbc_driver_{engine.lower()}.dbapi")
    with driver.connect(where) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(name, ds.dataset(rows).scanner().to_reader(), mode="replace")
        connection.commit()
