"""Tables of integers for residuals of additive trees: how wrong the trees so far are about a record. Public values only.

A record has a score for each class: the sum of the votes of the leaves that it reached, in whole steps. Its softmax is taken
from these tables, so every backend finds the same weights to the last unit.
"""

import math

import numpy as np

from dpforest.forest.tree import SCORE_STEPS
from dpforest.records.base import MOST_WEIGHT

_TOP = 1 << 30  # see ``MOST_CLASSES``


def _powers() -> np.ndarray:
    """Entry k is ``2**30 * exp(-k / SCORE_STEPS)``, rounded down: for a score that is k steps below the best, while >= 1."""
    n_steps = math.ceil(math.log(_TOP) * SCORE_STEPS)
    table = np.array([int(_TOP * math.exp(-step / SCORE_STEPS)) for step in range(n_steps)], dtype=np.int64)
    table.setflags(write=False)
    return table


POWERS = _powers()


def _pair_weights() -> np.ndarray:
    """Weights of a record of two classes, ``(2, n_leads)``, by how many steps its class leads (row 0) or lags (row 1)."""
    other = np.append(POWERS, 0)
    total = POWERS[0] + other
    wrong = np.stack([other, np.full(len(other), POWERS[0])])
    table = np.minimum(MOST_WEIGHT, MOST_WEIGHT * 2 * wrong // total).astype(np.uint8)
    table.setflags(write=False)
    return table


PAIR_WEIGHTS = _pair_weights()
