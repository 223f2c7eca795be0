"""The catalogue of recipes, the planner of the default one, and printed algorithms. Sees public facts; these open rows."""

from dpforest.parts.recipe import Recipe
from dpforest.recipes.catalogue import get_recipe, is_listed, list_recipes

__all__ = ["Recipe", "get_recipe", "is_listed", "list_recipes"]
