"""A pytest plugin: a fixture that audits a recipe.

Loaded where it is asked for, by ``pytest -p dpforest.audit`` or ``pytest_plugins = ["dpforest.audit"]`` in a conftest;
imports the library only when a test uses it.
"""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def audit_recipe() -> Callable[..., Any]:
    """A function, ``audit_recipe(recipe, n_pairs=200, n_fits=0, epsilon=1.0)``, that fails the test with every finding."""
    from dpforest.audit import audit_recipe

    return audit_recipe
