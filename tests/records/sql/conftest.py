"""Databases that tests of SQL ask alike: DuckDB in memory, and PostgreSQL where there is a server."""

from types import SimpleNamespace

import pytest
from tests.conformance.postgres_server import KEEPER, as_root, connect, write_table


@pytest.fixture
def root(server):
    """A connection of the account that may do everything."""
    with as_root(server) as connection:
        yield connection


@pytest.fixture
def keeper(server):
    """A connection of an account that may make temporary tables."""
    connection = connect(server, KEEPER)
    yield connection
    connection.disconnect()


@pytest.fixture(params=["duckdb", pytest.param("postgresql", marks=pytest.mark.server)])
def engine(request):
    """A connection, how to run a statement there, and how to store a table by a name, which gives it as Ibis has it."""
    if request.param == "duckdb":
        duck = request.getfixturevalue("duck")
        return SimpleNamespace(name="duckdb", connection=duck, run=duck.raw_sql, stored=duck.create_table)
    connection, root = request.getfixturevalue("keeper"), request.getfixturevalue("root")
    stored = lambda name, table: connection.table(write_table(root, name, table))  # noqa: E731
    return SimpleNamespace(name="postgresql", connection=connection, run=root.execute, stored=stored)
