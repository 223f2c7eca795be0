"""The bins of predicted shares, by which records of two classes are counted. Made of a released model alone."""

import numpy as np

from dpforest.forest.tree import Forest
from dpforest.model.dependence import Dependence, Groups

# Shares of trees that vote spread over all of 0 .. 1: round numbers, finer at both ends, where ranks differ most.
FIXED = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
# Trees that add up may give all records much the same share: cuts are quantiles of what the model would predict.
QUANTILES = (0.02, 0.06, 0.15, 0.25, 0.375, 0.5, 0.625, 0.75, 0.85, 0.94, 0.98)
N_DRAWN = 4096
APART = 0.025  # of other edges from 0.5 and the threshold: a narrow bin adds noise and tells little
DECIDES = 0.5  # above it the second label is predicted


def edges_of(forest: Forest, threshold: float = DECIDES) -> np.ndarray:
    """The edges ``(n_bins - 1,)`` between bins of the second class's share; 0.5 and the threshold are among them.

    Privacy:
        Claim: the edges reveal nothing about the records that are scored.
        Because: they are a function of the released forest and of what the caller asks.
        Assumes: the model was released before.
    """
    found = np.quantile(_own_shares(forest), QUANTILES) if forest.link == "softmax" else np.array(FIXED)
    wanted = np.array([DECIDES, threshold])
    rounded = [float(f"{edge:.3g}") for edge in found if np.abs(wanted - edge).min() > APART]
    return np.unique([edge for edge in (*rounded, *wanted) if 0 < edge < 1])


def _own_shares(forest: Forest) -> np.ndarray:
    """Shares that the forest gives to records drawn from its own released sizes, each feature by itself."""
    dependence, generator = Dependence.of(forest, forest.votes), np.random.RandomState(0)
    codes = np.zeros((forest.domain.n_features, N_DRAWN), dtype=np.uint32)
    for feature in np.unique(forest.features[~forest.is_leaf]).tolist():
        groups = Groups.of(forest, feature)
        codes[feature] = groups.codes[generator.choice(len(groups), N_DRAWN, p=dependence.weights(groups))]
    return forest.predict(codes)[:, 1]
