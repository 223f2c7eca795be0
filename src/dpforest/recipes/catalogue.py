"""Finds recipes by name."""

import importlib
import pkgutil
from functools import cache
from typing import Any

from dpforest import recipes
from dpforest.errors import ParameterError, shown
from dpforest.recipe import Recipe


@cache
def _catalogue() -> dict[str, Recipe]:
    modules = [
        importlib.import_module(f"{recipes.__name__}.{module.name}")
        for module in pkgutil.iter_modules(recipes.__path__)
        if module.name != "catalogue"
    ]
    found = [module.RECIPE for module in modules]
    return {recipe.name: recipe for recipe in sorted(found, key=lambda recipe: recipe.name)}


def list_recipes() -> list[dict[str, Any]]:
    """The catalogue: name, title, paper, tasks, whether a published variant exists, status of the claim.

    Example
    -------
    >>> [recipe["name"] for recipe in list_recipes() if recipe["name"] == "auto"]
    ['auto']
    """
    return [recipe.to_dict() for recipe in _catalogue().values()]


def get_recipe(name: str) -> Recipe:
    """The recipe of that name."""
    catalogue = _catalogue()
    if not isinstance(name, str) or name not in catalogue:
        raise ParameterError(f"There is no recipe {shown(name)}. Known: {', '.join(catalogue)}.")
    return catalogue[name]
