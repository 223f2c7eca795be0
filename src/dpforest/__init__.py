"""Differentially private random forests: the public names of the library.

Names are loaded when first used, so that ``import dpforest`` and ``dpforest --help`` are quick.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpforest.budget import Budget
    from dpforest.estimators import DPForestClassifier, DPForestRegressor, load_model
    from dpforest.recipes import get_recipe, list_recipes
    from dpforest.schema import Bounded, Categorical, Classes, Date, Numeric, Schema
    from dpforest.search import DPSearchCV

__version__ = version("dpforest")

_HOMES = {
    "Budget": "budget",
    "DPForestClassifier": "estimators",
    "DPForestRegressor": "estimators",
    "load_model": "estimators",
    "DPSearchCV": "search",
    "get_recipe": "recipes",
    "list_recipes": "recipes",
    "Bounded": "schema",
    "Categorical": "schema",
    "Classes": "schema",
    "Date": "schema",
    "Numeric": "schema",
    "Schema": "schema",
}

__all__ = [
    "Bounded", "Budget", "Categorical", "Classes", "DPForestClassifier", "DPForestRegressor", "DPSearchCV", "Date",
    "Numeric", "Schema", "get_recipe", "list_recipes", "load_model",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpforest' has no attribute {name!r}")
    value = getattr(import_module(f"dpforest.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
