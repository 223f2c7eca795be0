"""Fits the default recipe on the table of one engine, in a process of its own, so that its memory is its own.

A request comes in as a line of JSON, an answer goes out as one. For times a round is one reading of the table by the plain
driver, one fit of the same rows in memory, and one fit of the table where it is; a round more than is counted comes first.
For memory it is one fit, and the peak of the process since it began.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.core.process import peak_bytes
from benchmarks.core.serve import serve
from benchmarks.engines import cases
from benchmarks.engines.cluster import cluster
from benchmarks.speed.systems import EPSILON, Shape
from dpforest.estimators import DPForestClassifier

Answer = dict[str, Any]
# What is fitted, with settings of the fit, and what reads it by the plain driver.
Opened = tuple[Any, Answer, Callable[[], pa.Table]]

N_WORKERS = 2


@contextmanager
def _file(address: str, engine: str) -> Iterator[Opened]:
    yield address, {}, lambda: pq.read_table(address)


@contextmanager
def _database(address: str, engine: str) -> Iterator[Opened]:
    where, _, name = address.partition("::")
    path = where if engine == cases.POSTGRESQL else where.partition(":///")[2]

    def read() -> pa.Table:
        query = f"SELECT * FROM {name}"
        # Loaded by name: they are optional libraries.
        if engine == cases.DUCKDB:
            with import_module("duckdb").connect(path, read_only=True) as own:
                return own.sql(query).to_arrow_table()
        driver = import_module(f"adbc_driver_{engine.lower()}.dbapi")
        with driver.connect(path) as own, own.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetch_arrow_table()

    yield address, {}, read


@contextmanager
def _dask(address: str, engine: str) -> Iterator[Opened]:
    files = sorted(Path(address).glob("*.parquet"))
    with cluster(N_WORKERS) as client:

        def read() -> pa.Table:
            return pa.concat_tables(client.gather(client.map(pq.read_table, files, pure=False)))

        yield address, {"client": client}, read


@contextmanager
def _spark(address: str, engine: str) -> Iterator[Opened]:
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    builder = import_module("pyspark.sql").SparkSession.builder.master(f"local[{N_WORKERS}]")
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": "4g", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= {"spark.driver.host": "127.0.0.1"}
    session = builder.config(map=settings).getOrCreate()
    try:
        frame = session.read.parquet(address)
        yield frame, {}, frame.toArrow
    finally:
        session.stop()


OPENERS = {cases.PARQUET: _file, cases.DASK: _dask, cases.SPARK: _spark}


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def answer(request: Answer) -> Answer:
    """The seconds of rounds, or of one fit and the peak of memory."""
    schema = Shape(request["n_rows"], cases.N_FEATURES, 0, 0).schema

    def fit(table: Any, **settings: Any) -> None:
        DPForestClassifier(schema, epsilon=EPSILON, n_jobs=request["threads"]).fit(table, **settings)

    opener = OPENERS.get(request["engine"], _database)
    with opener(request["address"], request["engine"]) as (table, settings, read):
        if request["what"] == cases.MEMORY:
            seconds = _seconds(lambda: fit(table, **settings))
            return {"seconds": seconds, "peak_bytes": peak_bytes()}
        here = pq.read_table(request["folder"]).combine_chunks()
        parts = {"reading": read, "in_memory": lambda: fit(here), "seconds": lambda: fit(table, **settings)}
        runs = [{part: _seconds(work) for part, work in parts.items()} for _ in range(request["repeats"] + 1)]
        return {"runs": runs[1:]}


if __name__ == "__main__":
    serve(answer)
