"""The engines under test: how each gets a table, and what it declares that it cannot do. One cluster, one server for all."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.engines.conformance import Backend, in_memory
from tests.engines.postgres_server import KEEPER, READER, ROOT, need_server, running_server

from dpforest.records.parquet import ParquetVault
from dpforest.records.sql import GAPS, ONLY_WITHOUT_TABLES, SqlVault

PUBLISHED = "published variants"
_numbers = itertools.count()
# Types of PostgreSQL for those of the tables.
TYPES = {
    pa.float64(): "double precision",
    pa.float32(): "real",
    pa.int64(): "bigint",
    pa.int32(): "integer",
    pa.string(): "text",
    pa.bool_(): "boolean",
}


@contextmanager
def opened(name: str, folder: Path) -> Iterator[Backend]:
    """A backend, for as long as its engine runs."""
    with ExitStack() as stack:
        yield OPENERS[name](folder, stack)


def _memory(folder, stack):
    return Backend("memory", in_memory)


def _parquet(folder, stack):
    return Backend("parquet", lambda table, schema: ParquetVault.seal(_written(table, folder), schema, n_jobs=2))


def _written(table, folder):
    """A folder of Parquet files in which rows lie in uneven parts, one of them empty."""
    own = folder / f"table-{next(_numbers)}"
    own.mkdir()
    ends = [0, table.num_rows // 3, table.num_rows // 3, table.num_rows]
    for place, (start, stop) in enumerate(itertools.pairwise(ends)):
        pq.write_table(table.slice(start, stop - start), own / f"part-{place}.parquet", row_group_size=16)
    return own


def _dask(folder, stack):
    import distributed

    from dpforest.records.dask import DaskVault

    cluster = stack.enter_context(
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    )
    client = stack.enter_context(distributed.Client(cluster))
    gaps = {PUBLISHED: "printed algorithms open the rows, which stay on the workers."}
    return Backend("dask", lambda table, schema: DaskVault.seal(str(_written(table, folder)), schema, client, 1), gaps)


def _duckdb(folder, stack):
    import ibis

    connection = ibis.duckdb.connect()
    stack.callback(connection.disconnect)

    def seal(table, schema):
        return SqlVault.seal(connection.create_table(f"table {next(_numbers)}", table), schema)

    return Backend("duckdb", seal, sql_gaps(True))


def _postgresql(user, folder, stack):
    import psycopg

    need_server()
    server = stack.enter_context(running_server())
    root = stack.enter_context(psycopg.connect(server.url(ROOT), autocommit=True))
    connections = []

    def seal(table, schema):
        # An account that may only read sees the tables that were there when its transaction began: a connection for each.
        while connections:
            connections.pop().disconnect()
        connections.append(server.connect(user))
        name = f"table {next(_numbers)}"
        _copy(root, name, table)
        return SqlVault.seal(connections[0].table(name), schema)

    stack.callback(lambda: connections and connections.pop().disconnect())
    return Backend("postgresql", seal, sql_gaps(user == KEEPER))


def sql_gaps(temporary):
    """Gaps of every account, and those of one that may not make temporary tables."""
    return {kind: reason for kind, reason in GAPS.items() if not temporary or kind not in ONLY_WITHOUT_TABLES}


def _copy(connection, name, table):
    from psycopg import sql

    kinds = [sql.SQL("{} {}").format(sql.Identifier(f.name), sql.SQL(TYPES[f.type])) for f in table.schema]
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(name), sql.SQL(", ").join(kinds)))
        with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(name))) as rows:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                rows.write_row(row)


OPENERS = {
    "memory": _memory,
    "parquet": _parquet,
    "dask": _dask,
    "duckdb": _duckdb,
    "postgresql": partial(_postgresql, KEEPER),
    "postgresql, read-only account": partial(_postgresql, READER),
}
