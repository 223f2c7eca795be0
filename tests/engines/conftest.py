"""One PostgreSQL server for all tests of engines."""

import pytest


@pytest.fixture(scope="session")
def server():
    from tests.engines.postgres_server import need_server, running_server

    need_server()
    with running_server() as found:
        yield found
