"""What tests of records are handed: a cluster of processes for all of them, a database in memory for each."""

import ibis
import pytest
from tests.conformance.conformance_backends import cluster


@pytest.fixture
def client():
    """A client of the cluster, whose workers are all there."""
    cluster().wait_for_workers(2, timeout=60)
    return cluster()


@pytest.fixture
def duck():
    connection = ibis.duckdb.connect()
    yield connection
    connection.disconnect()
