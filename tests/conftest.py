"""What tests of several rooms are handed: one PostgreSQL server for all of them, a new budget for each."""

import os
import re

import pytest
from hypothesis import HealthCheck, settings

from dpforest import Budget

# How long examples take to draw says something of the machine, not of the code. A landing tries the same examples each
# time; new ones are for the night (HYPOTHESIS_PROFILE=night), and those that found something are written into the test.
settings.register_profile("landing", derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("night", max_examples=2000, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "landing"))

ALL_MARKED = re.compile(r"^pytestmark = .*\b(slow|site|server|night)\b", re.MULTILINE)


def pytest_ignore_collect(collection_path, config):
    """Files of which no test is in the fast lane are not even imported for it."""
    if config.option.markexpr.startswith("not slow") and collection_path.name.startswith("test_"):
        return bool(ALL_MARKED.search(collection_path.read_text("utf-8"))) or None
    return None


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
