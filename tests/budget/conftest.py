"""A new budget for each test."""

import pytest

from dpforest import Budget


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def budget(path):
    return Budget.open(path, dataset="ward-7", epsilon=3.0, delta=1e-6)
