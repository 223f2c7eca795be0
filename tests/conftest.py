"""What tests of several rooms are handed: one PostgreSQL server for all of them, a new budget for each."""

import pytest

from dpforest import Budget


@pytest.fixture(scope="session")
def server():
    from tests.conformance.postgres_server import need_server, running_server

    need_server()
    with running_server() as found:
        yield found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def budget(path):
    return Budget.open(path, dataset="ward-7", epsilon=3.0, delta=1e-6)
