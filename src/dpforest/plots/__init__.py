"""Pictures of fitted models and of their scores, drawn by matplotlib (extra ``plots``). Public and released values only.

Each function draws on the axes ``ax``, or on new ones, and returns them; nothing is shown or saved.
"""

from dpforest.plots.bars import importances
from dpforest.plots.budget import budget_by_level
from dpforest.plots.curves import accuracy_by_epsilon
from dpforest.plots.flow import tree
from dpforest.plots.noise import leaf_noise

__all__ = ["accuracy_by_epsilon", "budget_by_level", "importances", "leaf_noise", "tree"]
