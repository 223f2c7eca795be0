"""Finds the printed form of a recipe by its name. Sees public values only."""

from importlib import import_module

from dpforest.errors import ParameterError
from dpforest.recipes.published.base import Published


def get_published(name: str) -> Published:
    """The printed algorithm of the recipe of that name; raises if it has none."""
    try:
        return import_module(f"dpforest.recipes.published.{name.replace('-', '_')}").PUBLISHED
    except ModuleNotFoundError:
        raise ParameterError(f"Recipe {name!r} has no published variant; use variant='private'.") from None
