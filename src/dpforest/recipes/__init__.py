"""Recipes: the catalogue, the plan of the default one, and the forms that papers print."""

from dpforest.parts.recipe import Recipe
from dpforest.recipes.catalogue import get_recipe, is_listed, list_recipes

__all__ = ["Recipe", "get_recipe", "is_listed", "list_recipes"]
