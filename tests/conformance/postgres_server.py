"""A PostgreSQL server for tests: an account that may read, and tables for it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from benchmarks.postgres import OWNER, Server, programs, started

ROOT = OWNER
DATABASE = "ward"
READER = "reader"  # may only read
# Types of PostgreSQL for those of the tables.
TYPES = {
    pa.float64(): "double precision",
    pa.float32(): "real",
    pa.int64(): "bigint",
    pa.int32(): "integer",
    pa.int16(): "smallint",
    pa.decimal128(38, 4): "numeric(38, 4)",
    pa.decimal128(38, 0): "numeric(38, 0)",
    pa.string(): "text",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
}


@contextmanager
def running_server() -> Iterator[Server]:
    """A fresh server with its account, for as long as the block takes."""
    with started() as server:
        with psycopg.connect(server.url(ROOT, "postgres"), autocommit=True) as root:
            _make_account(root, server.password)
        with as_root(server) as root:
            root.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO reader")
        yield server


def need_server() -> None:
    """Skip loudly where there is no server to start; on CI there must be one."""
    if programs() is not None:
        return
    reason = "POSTGRESQL IS NOT TESTED: no server in /usr/lib/postgresql (Debian: apt-get install postgresql)."
    pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


def as_root(server: Server) -> psycopg.Connection:
    """A connection of the account that may do everything."""
    return psycopg.connect(server.url(ROOT, DATABASE), autocommit=True)


def connect(server: Server, **more: str):
    """A connection of Ibis, of the account that may only read."""
    import ibis

    account = {"user": READER, "password": server.password, "database": DATABASE}
    return ibis.postgres.connect(host="127.0.0.1", port=server.port, **account, **more)


def write_table(root: psycopg.Connection, name: str, table: pa.Table) -> str:
    """Make a table that the account may read, instead of any that was there; returns its name."""
    kinds = [sql.SQL("{} {}").format(sql.Identifier(f.name), sql.SQL(TYPES[f.type])) for f in table.schema]
    with root.cursor() as cursor:
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name)))
        cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(name), sql.SQL(", ").join(kinds)))
        with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(name))) as rows:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                rows.write_row(row)
    return name


def _make_account(root: psycopg.Connection, password: str) -> None:
    database, account = sql.Identifier(DATABASE), sql.Identifier(READER)
    root.execute(sql.SQL("CREATE DATABASE {}").format(database))
    root.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    root.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(account, sql.Literal(password)))
    root.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, account))
    # Dates must not depend on where a session thinks that it is.
    root.execute(sql.SQL("ALTER ROLE {} SET timezone TO 'Asia/Kathmandu'").format(account))
