"""The catalogue of recipes, and the planner of the default recipe. Sees public facts."""

from dpforest.parts.recipe import Recipe
from dpforest.recipes.catalogue import get_recipe, is_listed, list_recipes

__all__ = ["Recipe", "get_recipe", "is_listed", "list_recipes"]
