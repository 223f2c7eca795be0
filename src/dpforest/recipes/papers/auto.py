"""The library's own recipe, which its planner makes from public facts."""

from dpforest.recipes.planner import AUTO

RECIPE = AUTO
