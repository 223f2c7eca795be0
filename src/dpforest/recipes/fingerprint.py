"""The fingerprint of a recipe, which differs between recipes of the same name with other parts. Sees public values only."""

import hashlib
import inspect
import sys
from dataclasses import fields, is_dataclass
from functools import cache, partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from dpforest.parts.recipe import COLLECTIONS, MAPPINGS, PLAIN, Recipe, outside_parts
from dpforest.recipes.catalogue import get_recipe, is_of_catalogue


def fingerprint(recipe: Recipe, *estimators: type[Any]) -> str:
    """SHA-256 in hexadecimal of the parts of a recipe and of the estimators from outside the library that run it.

    Code counts by the name of its module and its own, and code from outside also by the text of its module: what was
    rewritten has another fingerprint. The text is empty if parts from outside cannot be read: that must never be the reason
    why a fit fails.
    """
    try:
        described = _of_catalogue(recipe.name) if is_of_catalogue(recipe) else _described(recipe, {})
        return _digest((described, outside_parts(*estimators)))
    except Exception:
        return ""


@cache
def _of_catalogue(name: str) -> Any:
    """The description of the catalogue's recipe of this name: it is frozen, and fitted again and again."""
    return _described(get_recipe(name), {})


def _digest(description: Any) -> str:
    return hashlib.sha256(repr(description).encode("utf-8", "replace")).hexdigest()


def _described(part: Any, known: dict[int, tuple[Any, str]]) -> Any:
    """A part as a value whose ``repr`` is the same in every process; what is ``known`` already is not looked at again."""
    if type(part) in PLAIN:
        return part
    if isinstance(part, FunctionType):
        # As for parts from outside: not what a function says of itself, which a decorator may have copied.
        return _code(str(part.__globals__.get("__name__")), part.__code__.co_qualname, part)
    if isinstance(part, type | BuiltinFunctionType):
        return _code(str(part.__module__), part.__qualname__, part)
    if isinstance(part, ModuleType):
        return ("code", part.__name__)
    if id(part) not in known:
        # Kept with the part, so that no other gets its id; while it is described, it is one around those inside.
        known[id(part)] = (part, "a part around this one")
        known[id(part)] = (part, _digest(_inside(part, known)))
    return known[id(part)][1]


def _code(module: str, name: str, part: Any) -> tuple[str, ...]:
    """The names of a class or function and, of one from outside that has a text, the hash of that of its module."""
    if not outside_parts(part) or isinstance(part, BuiltinFunctionType):
        return ("code", module, name)
    try:
        text = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):  # of a notebook, or typed at a prompt
        try:
            text = inspect.getsource(part)
        except (OSError, TypeError):
            text = ""
    return ("code", module, name, hashlib.sha256(text.encode("utf-8", "replace")).hexdigest())


def _inside(part: Any, known: dict[int, tuple[Any, str]]) -> tuple[Any, ...]:
    """A description of the values that a part is made of, with the name of its type."""
    if isinstance(part, np.ndarray | np.generic):
        return ("array", part.dtype.str, _described(part.tolist(), known))
    if type(part) in COLLECTIONS:
        items = [_described(item, known) for item in part]
        return (type(part).__name__, items if type(part) in (tuple, list) else sorted(items, key=repr))
    if type(part) in MAPPINGS:
        return ("names", sorted(((_described(key, known), _described(part[key], known)) for key in part), key=repr))
    if isinstance(part, MethodType):
        return ("method", _described(part.__func__, known), _described(part.__self__, known))
    if type(part) is partial:
        return ("partial", *(_described(item, known) for item in (part.func, part.args, part.keywords)))
    if is_dataclass(part):
        # Its fields: what it keeps beside them it may have worked out since. ``parameters`` could be set, but do not run.
        names = [item.name for item in fields(part) if type(part) is not Recipe or item.name != "parameters"]
        state: Any = {name: getattr(part, name, None) for name in names}
    else:
        state = object.__getstate__(part)
    return (_described(type(part), known), _described(state, known))
