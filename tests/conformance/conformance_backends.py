"""The engines under test: how each gets a table, and what it declares that it cannot do. One cluster, one server for all."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from dpforest.records.parquet import ParquetVault
from dpforest.records.sql.vault import SqlVault
from tests.conformance.conformance import Backend, in_memory
from tests.conformance.postgres_server import KEEPER, READER, as_root, connect, write_table

from benchmarks.postgres import Server
from dpforest.records.base import Openable, Scored, Weighted

_numbers = itertools.count()


@contextmanager
def opened(name: str, folder: Path, server: Callable[[], Server]) -> Iterator[Backend]:
    """A backend, for as long as its engine runs; ``server`` gives one of PostgreSQL to those that need it."""
    with ExitStack() as stack:
        yield (OPENERS | OTHERS)[name](folder, stack, server)


def backends(names: Iterable[str], slow: Iterable[str] = ()) -> Any:
    """A fixture with one backend after the other, each of which serves all tests of a module."""
    marks = {
        name: [pytest.mark.server] * name.startswith("postgres") + [pytest.mark.slow] * (name in slow) for name in names
    }

    @pytest.fixture(scope="module", params=[pytest.param(name, marks=own) for name, own in marks.items()])
    def backend(request, tmp_path_factory):
        with opened(request.param, tmp_path_factory.mktemp("engine"), lambda: request.getfixturevalue("server")) as found:
            yield found

    return backend


def once(store):
    """A function that stores a table, which gives what it gave before if it is given the same table again."""
    found = {}

    def get(table):
        if id(table) not in found:
            found[id(table)] = store(table), table  # which lives on, or its id could become that of another
        return found[id(table)][0]

    return get


def _memory(folder, stack, server):
    return Backend("memory", in_memory)


def _parquet(folder, stack, server):
    written = once(partial(_written, folder))
    return Backend("parquet", lambda table, schema, *persons: ParquetVault.seal(written(table), schema, 2, *persons))


def _written(folder, table):
    """A folder of Parquet files in which rows lie in uneven parts, one of them empty."""
    own = folder / f"table-{next(_numbers)}"
    own.mkdir()
    ends = [0, table.num_rows // 3, table.num_rows // 3, table.num_rows]
    for index, (start, stop) in enumerate(itertools.pairwise(ends)):
        pq.write_table(table.slice(start, stop - start), own / f"part-{index}.parquet", row_group_size=16)
    return own


@cache
def cluster():
    """A client of a cluster of two processes: one for all tests of a session, since it takes seconds to start."""
    import dask
    import distributed

    # A local cluster looks for a lost worker once more, later, and gives its successor up if that is just starting.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    return distributed.Client(
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    )


def _dask(folder, stack, server):
    from dpforest.records.dask.vault import DaskVault

    written = once(partial(_written, folder))

    def seal(table, schema, *persons):
        return DaskVault.seal(str(written(table)), schema, cluster(), 1, *persons)

    return Backend("dask", seal, frozenset([Openable]))


def _dask_dataframe(folder, stack, server):
    import dask.dataframe as dd
    import distributed
    from dpforest.records.dask.vault import DaskVault

    client = stack.enter_context(distributed.Client(processes=False, threads_per_worker=2, dashboard_address=None))

    def seal(table, schema, *persons):
        # Text of Arrow: dask would take whole numbers with missing ones for floats, as it would truth values for objects.
        frame = table.to_pandas(types_mapper=pd.ArrowDtype)
        return DaskVault.seal(dd.from_pandas(frame, npartitions=3, sort=False), schema, client, 1, *persons)

    return Backend("dask dataframe", seal, frozenset([Openable]))


def _hostile_name():
    return f"""it's "{next(_numbers)}"; DROP TABLE x; -- åß"""


def _duckdb(folder, stack, server, temporary=None):
    import ibis

    connection = ibis.duckdb.connect()
    connection.raw_sql("SET TimeZone = 'Asia/Kathmandu'")  # dates must not depend on it
    stack.callback(connection.disconnect)
    stored = once(lambda table: connection.create_table(_hostile_name(), table))

    def seal(table, schema, *persons):
        return SqlVault.seal(stored(table), schema, temporary, *persons)

    return Backend("duckdb", seal, sql_gaps(temporary is None))


def _postgresql(user, folder, stack, server):
    found = server()
    root = stack.enter_context(as_root(found))
    connections, stored = [], once(lambda table: write_table(root, _hostile_name(), table))

    def seal(table, schema, *persons):
        # An account that may only read sees the tables that were there when its transaction began: a connection for each.
        while connections:
            connections.pop().disconnect()
        connections.append(connect(found, user))
        return SqlVault.seal(connections[0].table(stored(table)), schema, None, *persons)

    stack.callback(lambda: connections and connections.pop().disconnect())
    return Backend("postgresql", seal, sql_gaps(user == KEEPER))


# One task for each step is enough for a small table.
SPARK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
# Queries are run as they are: most of the time of a small table is that of compiling a program for each.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Set to "interpreted", or to "compiled", which is Spark's own way and takes longer.
SPARK_VARIABLE = "DPFOREST_SPARK"


def _spark(folder, stack, server):
    import ibis
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.sql.warehouse.dir", str(folder))
    settings = SPARK | (INTERPRETED if os.environ[SPARK_VARIABLE] == "interpreted" else {})
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    session = builder.getOrCreate()
    stack.callback(session.stop)
    session.sparkContext.setLogLevel("ERROR")
    connection = ibis.pyspark.connect(session)

    def seal(table, schema):
        name = f"table_{next(_numbers)}"
        session.createDataFrame(table).coalesce(1).cache().createOrReplaceTempView(name)
        return SqlVault.seal(connection.table(name), schema)

    return Backend("spark", seal, sql_gaps(False))


def sql_gaps(temporary):
    """What no account is offered, and what one is not that may not make temporary tables."""
    return frozenset([Openable] if temporary else [Openable, Weighted, Scored])


OPENERS = {"memory": _memory, "parquet": _parquet, "dask": _dask, "duckdb": _duckdb}
OPENERS |= {"postgresql": partial(_postgresql, KEEPER), "postgresql, read-only account": partial(_postgresql, READER)}
# For tests of their own.
OTHERS = {"dask dataframe": _dask_dataframe, "duckdb, no tables": partial(_duckdb, temporary=False)}
# Minutes, and a library and a runtime of its own: only when it is asked for.
if SPARK_VARIABLE in os.environ:
    OPENERS["spark"] = _spark
