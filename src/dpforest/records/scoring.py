"""Hits and misses of predictions on a table. Sees rows; counts leave sealed, and true targets for public tables only.

A record adds 1 to one cell or, for a bounded target, ``TARGET_STEPS`` steps to two sums together, whatever it holds.
"""

from typing import Any

import numpy as np

from dpforest.forest.tree import Forest
from dpforest.privacy.sealed import Sealed
from dpforest.records.columns import read_classes, read_numbers
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Bounded, Classes, Target


def true_indices(y: Any, target: Classes) -> np.ndarray:
    """The index of each record's label among the classes, ``(n_records,)``; -1 for a record that is left out."""
    return read_classes(y, target)


def true_values(y: Any, target: Bounded) -> np.ndarray:
    """The target of each record, ``(n_records,)``, clipped to its range; NaN for a record that is left out."""
    return np.clip(read_numbers(y, target), *target.range)


def count_hits(y: Any, predicted: np.ndarray, target: Classes) -> Sealed[np.ndarray]:
    """Sealed hits and misses of each class ``(n_classes, 2)``; ``predicted`` are indices among the classes.

    Privacy:
        Claim: L1 and L2 sensitivity are 1.
        Because: an added record adds 1 to one cell, or nothing if its label is left out; predictions of the others come from
            a model that is released already.
        Assumes: the model was released before.
    """
    indices = true_indices(y, target)
    kept = indices >= 0
    counts = np.zeros((target.n_values, 2), dtype=np.int64)
    np.add.at(counts, (indices[kept], (indices != predicted)[kept].astype(np.int64)), 1)
    return Sealed(counts)


def sum_errors(y: Any, predicted: np.ndarray, target: Bounded) -> Sealed[np.ndarray]:
    """Sealed sums ``(1, 2)`` of steps that predictions hit and miss; each record has ``TARGET_STEPS`` over the range.

    Privacy:
        Claim: L1 sensitivity is S = ``TARGET_STEPS`` and L2**2 at most S**2.
        Because: an added record whose error is e steps adds S-e to one sum and e to the other, with e in 0 .. S.
        Assumes: the model was released before.
    """
    values = true_values(y, target)
    kept = ~np.isnan(values)
    return Sealed(_steps_missed(np.abs(values - predicted)[kept] / target.span))


def _steps_missed(shares: np.ndarray) -> np.ndarray:
    """Sums ``(1, 2)`` of steps hit and missed, from each record's error as a share of the target's range."""
    missed = np.rint(TARGET_STEPS * np.clip(shares, 0, 1)).astype(np.int64)
    return np.array([[(TARGET_STEPS - missed).sum(), missed.sum()]])


def hits_and_misses(forest: Forest, codes: np.ndarray, target_codes: np.ndarray, target: Target) -> Sealed[np.ndarray]:
    """The sums of ``tally_hits``, sealed."""
    return Sealed(tally_hits(forest, codes, target_codes, target))


def tally_hits(forest: Forest, codes: np.ndarray, target_codes: np.ndarray, target: Target) -> np.ndarray:
    """Sums ``(1, 2)`` of hits and misses of a forest on records, given as codes ``(n_features, n_records)``.

    For classes each record is a hit or a miss; for a bounded target it has ``TARGET_STEPS`` steps over the range of
    ``target``, by which its codes are, some of which are missed.

    Privacy:
        Claim: L1 sensitivity is 1 (classes) or S = ``TARGET_STEPS`` (bounded), and L2**2 at most its square.
        Because: an added record adds 1 to one sum, or S-e to one and e to the other, with e in 0 .. S.
        Assumes: the forest does not depend on these records.
    """
    shares = forest.predict(codes)
    if isinstance(forest.target, Classes) or isinstance(target, Classes):
        n_hits = int(np.count_nonzero(forest.decided(shares, codes) == target_codes))
        return np.array([[n_hits, len(target_codes) - n_hits]])
    predicted = forest.target.mean_of(shares[:, 1])
    return _steps_missed(np.abs((predicted - target.range[0]) / target.span - target_codes / FINE_STEPS))
