"""Residuals of additive trees, in integers: how wrong the released trees so far are about one record.

A record has a score for each class: the sum of the votes of the leaves that it reached, in whole steps. Its softmax is taken
from a table of integers, so every backend finds the same weights to the last unit.
"""

import math

import numpy as np

from dpforest.forest.tree import SCORE_STEPS
from dpforest.records.base import MOST_WEIGHT

_TOP = 1 << 30  # see ``MOST_CLASSES``


def _powers() -> np.ndarray:
    """``2**30 * exp(-lead)`` rounded down, for leads in score steps, as far as it is at least 1."""
    n_steps = math.ceil(math.log(_TOP) * SCORE_STEPS)
    table = np.array([int(_TOP * math.exp(-step / SCORE_STEPS)) for step in range(n_steps)], dtype=np.int64)
    table.setflags(write=False)
    return table


POWERS = _powers()


def _pair_weights() -> np.ndarray:
    """Weights of two classes, by how far the own class leads (first row) or lags (second row); see ``weigh_residuals``."""
    other = np.append(POWERS, 0)
    total = POWERS[0] + other
    wrong = np.stack([other, np.full(len(other), POWERS[0])])
    table = np.minimum(MOST_WEIGHT, MOST_WEIGHT * 2 * wrong // total).astype(np.uint8)
    table.setflags(write=False)
    return table


PAIR_WEIGHTS = _pair_weights()
