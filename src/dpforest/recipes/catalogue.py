"""The catalogue: finds recipes by name, and tells whether a recipe is one of them. Sees public values only."""

import importlib
import pkgutil
from dataclasses import replace
from functools import cache
from typing import Any

from dpforest.errors import ParameterError, shown
from dpforest.growing.choosing import Medians
from dpforest.parts.recipe import ByTarget, Recipe
from dpforest.recipes import papers
from dpforest.recipes.own import outside_parts


@cache
def _catalogue() -> dict[str, Recipe]:
    """All recipes by name, in order of their years; the default one is the last."""
    modules = [importlib.import_module(f"{papers.__name__}.{each.name}") for each in pkgutil.iter_modules(papers.__path__)]
    found: list[Recipe] = [module.RECIPE for module in modules if hasattr(module, "RECIPE")]
    by_year = sorted(found, key=lambda recipe: (recipe.name == "auto", recipe.name.split("-20")[-1], recipe.name))
    return {recipe.name: recipe for recipe in by_year}


def list_recipes() -> list[dict[str, Any]]:
    """An entry for each recipe: name, title, paper, tasks, whether it has a published variant, claim and parameters.

    Example
    -------
    >>> [recipe["name"] for recipe in list_recipes() if recipe["name"] == "auto"]
    ['auto']
    """
    return [recipe.to_dict() for recipe in _catalogue().values()]


def get_recipe(name: str) -> Recipe:
    """The recipe of that name; raises if there is none."""
    catalogue = _catalogue()
    if not isinstance(name, str) or name not in catalogue:
        raise ParameterError(f"There is no recipe {shown(name)}. The catalogue has {', '.join(catalogue)}.")
    return catalogue[name]


def is_of_catalogue(recipe: Recipe) -> bool:
    """Whether a recipe is the very object that ``get_recipe`` gives."""
    return _catalogue().get(recipe.name) is recipe


def is_listed(recipe: Recipe) -> bool:
    """Whether a recipe is the catalogue's of that name, apart from its settable parameters."""
    try:
        # A part from outside may say of itself that it equals any other.
        return not outside_parts(recipe) and equals_listed(recipe)
    except Exception:  # parts that cannot be looked into
        return False


def equals_listed(recipe: Recipe) -> bool:
    """Whether a recipe without parts from outside is the catalogue's of that name, as ``is_listed`` says."""
    try:
        known = _catalogue()[recipe.name]
        if set(recipe.tasks) < set(known.tasks):  # the same recipe, kept to one of its tasks
            recipe = replace(recipe, tasks=known.tasks)
        return recipe is known or recipe == known.with_parameters(_changed(recipe, known))
    except Exception:  # no such name, or parts that cannot be compared with those of the catalogue
        return False


def _changed(recipe: Recipe, known: Recipe) -> dict[str, Any]:
    """The parameters in which a recipe differs from its catalogue entry, with the recipe's values."""
    usual = known.settings()
    return {
        name: value
        for name, value in replace(recipe, parameters=known.parameters).settings().items()
        if value != usual[name]
    }


def describe_recipes() -> list[dict[str, Any]]:
    """An entry for each recipe as in ``list_recipes``, with how it splits and where its budget goes, in words."""
    return [
        recipe.to_dict() | {"tasks": ", ".join(recipe.tasks), "splits": _splits(recipe), "budget": _budget(recipe)}
        for recipe in _catalogue().values()
    ]


def _splits(recipe: Recipe) -> str:
    if recipe.planner is not None:
        return "planned"
    kinds = {type(kind).__name__ for kind in recipe.propose.kinds}
    shape = "multiway" if "OneChildPerValue" in kinds else "binary"
    if recipe.propose.random:
        return f"random, {shape}"
    part = recipe.criterion.classes if isinstance(recipe.criterion, ByTarget) else recipe.criterion
    balance = " + Balance" if isinstance(recipe.choose, Medians) else ""
    return f"{type(part).__name__}{balance}, {shape}"


def _budget(recipe: Recipe) -> str:
    trees = {
        "Disjoint": "each tree all of it",
        "EveryRecord": "shared by trees",
        "PoissonBootstrap": "ln(1 + epsilon/T) a tree",
    }
    if recipe.planner is not None:
        return "planned"
    return f"{trees[type(recipe.sample).__name__]}; {type(recipe.allocate).__name__}"
