"""Attempts to break what a recipe claims: replayed fits, statistical lower bounds on epsilon, membership attacks.

Sees tables that it makes itself, and tables that are handed to it for an attack.

from dpforest.audit import audit_recipe

audit_recipe(my_recipe)  # raises with every finding
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpforest.audit.cases import RACE
    from dpforest.audit.replay import Finding, replay_many
    from dpforest.audit.runner import Audit, audit, audit_recipe
    from dpforest.audit.subject import SearchSubject, Subject

# Loaded when first used: pytest imports this package to find its plugin.
_HOMES = {
    "Audit": "runner", "Finding": "replay", "RACE": "cases", "SearchSubject": "subject",
    "Subject": "subject", "audit": "runner", "audit_recipe": "runner", "replay_many": "replay",
}  # fmt: skip

# ``pytest -p dpforest.audit`` loads this.
pytest_plugins = ["dpforest.audit.plugin"]

__all__ = [
    "RACE", "Audit", "Finding", "SearchSubject", "Subject", "audit", "audit_recipe", "replay_many",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpforest.audit' has no attribute {name!r}")
    return getattr(import_module(f"dpforest.audit.{_HOMES[name]}"), name)
