"""Pictures of fitted models and of their scores, drawn by matplotlib (extra ``plots``). Public and released values only.

Each function draws on the axes ``ax``, or on new ones, and returns them; nothing is shown or saved.
"""

from dpforest.show.plots.bars import importances
from dpforest.show.plots.budget import budget_by_level
from dpforest.show.plots.curves import accuracy_by_epsilon
from dpforest.show.plots.effects import effects
from dpforest.show.plots.evaluations import calibration, roc
from dpforest.show.plots.flow import tree
from dpforest.show.plots.noise import leaf_noise

__all__ = ["accuracy_by_epsilon", "budget_by_level", "calibration", "effects", "importances", "leaf_noise", "roc", "tree"]
