"""Where tables can be: how each source gets one, and gives it as often as it is asked for. One cluster for all tests."""

import itertools
import os
import shutil
import sqlite3
import sys
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.conformance.postgres_server import DATABASE, READER, as_root, write_table

from dpforest.records.sources.casts import identifier

HOSTILE = """it's "t.1"; DROP TABLE x; -- åß"""
LITE = {"string": "TEXT", "bool": "BOOLEAN", "date32[day]": "DATE", "double": "REAL", "float": "REAL"}
_numbers = itertools.count()


@cache
def cluster() -> Any:
    """A client of a cluster of two processes: one for all tests of a session, since it takes seconds to start."""
    import dask
    import distributed

    # A local cluster looks for a lost worker once more, later, and gives its successor up if that is just starting.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    return distributed.Client(
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    )


def new(folder, ending=""):
    """A path that is not taken."""
    return folder / f"t{next(_numbers)}{ending}"


def in_parquet(table, folder, request):
    path = new(folder, ".parquet")
    pq.write_table(table, path, row_group_size=max(5, table.num_rows // 5))
    return lambda: path


def in_parts(table, folder, request):
    """A folder of Parquet files in which rows lie in uneven parts, one of them empty."""
    path = new(folder)
    path.mkdir()
    ends = [0, table.num_rows // 3, table.num_rows // 3, table.num_rows]
    for place, (start, stop) in enumerate(itertools.pairwise(ends)):
        pq.write_table(table.slice(start, stop - start), path / f"{place}.parquet")
    return lambda: path


def in_csv(table, folder, request):
    path = new(folder, ".csv")
    pyarrow.csv.write_csv(table, path)
    return lambda: path


def in_stream(table, folder, request):
    return lambda: pa.RecordBatchReader.from_batches(
        table.schema, table.to_batches(max_chunksize=max(5, table.num_rows // 5))
    )


def in_memtable(table, folder, request):
    import ibis

    return lambda: ibis.memtable(table)


def in_duckdb(ask):
    def written(table, folder, request):
        import duckdb

        path = new(folder, ".db")
        with duckdb.connect(path) as connection:
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {identifier(HOSTILE)} AS SELECT * FROM given")
        return lambda: ask(path)

    return written


def relation(path):
    import duckdb

    connection = duckdb.connect(path)
    connection.execute("SET TimeZone = 'Asia/Kathmandu'")  # dates must not depend on it
    return connection.table(identifier(HOSTILE))


def in_sqlite(table, folder, request):
    path = new(folder, ".db")
    kinds = [LITE.get(str(field.type), "INTEGER" if "int" in str(field.type) else "TIMESTAMP") for field in table.schema]
    columns = ", ".join(f"{identifier(name)} {kind}" for name, kind in zip(table.column_names, kinds, strict=True))
    rows = zip(*(map(_in_lite, column.to_pylist()) for column in table.columns), strict=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE {identifier(HOSTILE)} ({columns})")
        connection.executemany(f"INSERT INTO {identifier(HOSTILE)} VALUES ({', '.join('?' * len(kinds))})", rows)
    return lambda: f"sqlite:///{path}::{HOSTILE}"


def _in_lite(value):
    return value.isoformat() if hasattr(value, "isoformat") else value


def in_postgres(table, folder, request):
    server = request.getfixturevalue("server")
    with as_root(server) as root:
        write_table(root, HOSTILE, table)
    return lambda: f"{server.url(READER, DATABASE)}::{HOSTILE}"


def in_dask(table, folder, request):
    import dask.dataframe as dd
    import pandas as pd

    # Text of Arrow: dask would take whole numbers with missing ones for floats, as it would truth values for objects.
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return lambda: dd.from_pandas(frame, npartitions=2, sort=False)


@cache
def spark():
    """A session of Spark on this machine, one for all tests of a session."""
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("SPARK IS NOT TESTED: no Java.")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    # A moment without a zone stays one: else Spark itself takes it for one of the zone of the session, which is odd here.
    builder = builder.config("spark.sql.timestampType", "TIMESTAMP_NTZ")
    # Workers find what tests define, whatever folder is the current one when the first of them starts.
    tests = Path(__file__).parents[1]
    builder = builder.config("spark.executorEnv.PYTHONPATH", f"{tests.parent}{os.pathsep}{tests / 'records' / 'sources'}")
    session = builder.config("spark.sql.session.timeZone", "Asia/Kathmandu").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def in_spark(table, folder, request):
    frame = spark().createDataFrame(table)
    return lambda: frame


SLOW, SERVER = [pytest.mark.slow], [pytest.mark.server]
SOURCES = {
    "Parquet file": (in_parquet, []), "Parquet folder": (in_parts, []), "CSV": (in_csv, []), "stream": (in_stream, []),
    "memtable": (in_memtable, []), "SQLite": (in_sqlite, []), "PostgreSQL": (in_postgres, SERVER),
    "DuckDB file": (in_duckdb(lambda path: f"duckdb:///{path}::{HOSTILE}"), []),
    "DuckDB query": (in_duckdb(lambda path: f"duckdb:///{path}::(SELECT * FROM {identifier(HOSTILE)} -- all\n)"), []),
    "DuckDB relation": (in_duckdb(relation), []),
    "Dask frame": (in_dask, SLOW), "Dask folder": (in_parts, SLOW), "Spark": (in_spark, SLOW),
}  # fmt: skip
