"""The library's own recipe: planned from public facts."""

from dpforest.recipes.planner import SKETCH

RECIPE = SKETCH
