"""Plots of fitted models, such as ``dpforest.plots.tree(model)``. Sees released values only."""

from dpforest.show.plots import (
    accuracy_by_epsilon,
    budget_by_level,
    calibration,
    effects,
    importances,
    leaf_noise,
    roc,
    tree,
)

__all__ = ["accuracy_by_epsilon", "budget_by_level", "calibration", "effects", "importances", "leaf_noise", "roc", "tree"]
