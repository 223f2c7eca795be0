"""Plots of fitted models, such as ``dpforest.plots.tree(model)``. Sees released values only."""

from dpforest.show.plots.effects import effects
from dpforest.show.plots.fits import budget_by_level, importances, leaf_noise
from dpforest.show.plots.scores import accuracy_by_epsilon, calibration, roc
from dpforest.show.plots.trees import tree

__all__ = ["accuracy_by_epsilon", "budget_by_level", "calibration", "effects", "importances", "leaf_noise", "roc", "tree"]
