"""The library's own recipe: planned from public facts."""

from dpforest.planner import SKETCH

RECIPE = SKETCH
