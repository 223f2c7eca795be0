"""Code from outside the library in a recipe, and the fingerprint of a recipe. Sees public values only."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from types import FunctionType, MappingProxyType, MethodType
from typing import Any

from dpforest.parts.recipe import Recipe

# Types of values that hold no code, and of containers of values.
PLAIN = (type(None), bool, int, float, complex, str, bytes)
COLLECTIONS = (tuple, list, set, frozenset)
MAPPINGS = (dict, MappingProxyType)
CONTAINERS = (*COLLECTIONS, *MAPPINGS, MethodType, partial)


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
