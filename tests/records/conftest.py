"""What tests of records are handed: a cluster of processes for all of them."""

import pytest


@pytest.fixture
def client():
    """A client of the cluster, whose workers are all there."""
    from tests.conformance.conformance_backends import cluster

    cluster().wait_for_workers(2, timeout=60)
    return cluster()
