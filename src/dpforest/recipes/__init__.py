"""The catalogue: one algorithm per module, each a value named RECIPE."""

from dpforest.recipes.catalogue import get_recipe, is_listed, list_recipes

__all__ = ["get_recipe", "is_listed", "list_recipes"]
