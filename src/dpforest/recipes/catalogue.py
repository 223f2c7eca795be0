"""The catalogue: finds recipes by name, and tells them from others and from code of others. Sees public values only."""

import hashlib
import importlib
import pkgutil
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, partial
from types import FunctionType, MappingProxyType, MethodType
from typing import Any

from dpforest.errors import ParameterError, shown
from dpforest.growing.choosing import Medians
from dpforest.parts.recipe import ByTarget, Recipe
from dpforest.recipes import papers

# Types of values that hold no code, and of containers of values.
PLAIN = (type(None), bool, int, float, complex, str, bytes)
COLLECTIONS = (tuple, list, set, frozenset)
MAPPINGS = (dict, MappingProxyType)
CONTAINERS = (*COLLECTIONS, *MAPPINGS, MethodType, partial)


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


def outside_parts(*parts: Any) -> tuple[str, ...]:
    """Names of all types and functions in these parts, at any depth, that are defined outside of the library.

    It tells honest authors apart from the library; whoever wants to hide code from it can. Of a recipe only what can run
    counts, so not what its ``parameters`` could still be set to.
    """
    found: set[str] = set()
    seen, waiting = {}, list(parts)
    while waiting:
        part = waiting.pop()
        if id(part) in seen or type(part) in PLAIN or type(part).__module__ == "numpy":
            continue
        seen[id(part)] = part
        if isinstance(part, FunctionType):
            # Not what it says of itself: a decorator may have copied that from what it wraps.
            home, name = str(part.__globals__.get("__name__")), part.__code__.co_qualname
        else:
            waiting += _inside(part)
            kind = part if isinstance(part, type) else type(part)
            home, name = str(kind.__module__), kind.__qualname__
        if home.partition(".")[0] != __name__.partition(".")[0] and type(part) not in CONTAINERS:
            found.add(f"{home}.{name}")
    return tuple(sorted(found))


def _inside(part: Any) -> Iterable[Any]:
    """The values that a part is made of."""
    if type(part) in COLLECTIONS:
        return part
    if type(part) in MAPPINGS:
        return part.values()
    if isinstance(part, MethodType):
        return part.__self__, part.__func__
    if type(part) is partial:
        return part.func, part.args, part.keywords
    inside = {} if isinstance(part, type) else getattr(part, "__dict__", {})
    return [value for name, value in inside.items() if name != "parameters" or not isinstance(part, Recipe)]


def fingerprint(recipe: Recipe, *estimators: type[Any]) -> str:
    """SHA-256 in hexadecimal of a recipe's parts, as they show themselves, and of the estimators from outside that run it.

    It is empty if the parts cannot be shown: that must never be the reason why a fit fails.
    """
    try:
        shown = repr((replace(recipe, parameters={}), outside_parts(recipe, *estimators)))
    except Exception:
        return ""
    return hashlib.sha256(re.sub(" at 0x[0-9a-f]+", "", shown).encode("utf-8", "replace")).hexdigest()


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
