"""What predictions are right and wrong about. Sees rows; counts leave sealed, and true targets for public tables only.

A record adds 1 to one cell or, for a bounded target, ``MASS`` to several cells together, whatever it holds.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpforest.forest.tree import Forest
from dpforest.privacy.sealed import Sealed
from dpforest.records.categories import category_codes
from dpforest.records.columns import read_classes, read_columns, read_numbers, to_numbers
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Bounded, Categorical, Classes, Schema, Target

# What a record divides among cells for its error, in small steps since squares of errors are small.
MASS = FINE_STEPS
N_MOMENTS = 3


def true_indices(y: Any, target: Classes) -> np.ndarray:
    """The index of each record's label among the classes, ``(n_records,)``; -1 for a record that is left out."""
    return read_classes(y, target)


def true_values(y: Any, target: Bounded) -> np.ndarray:
    """The target of each record, ``(n_records,)``, clipped to its range; NaN for a record that is left out."""
    return np.clip(read_numbers(y, target), *target.range)


@np.errstate(all="ignore")  # as for ``to_numbers``
def group_codes(X: Any, schema: Schema, column: int, part: Categorical | None, cuts: Sequence[float]) -> np.ndarray:
    """The subgroup of each record, ``(n_records,)``: that of its category or, without a part, by cuts at or below a number.

    Values outside the list are the last but one, missing ones the last. It follows from the record alone.
    """
    values = read_columns(X, schema)[column]
    if part is not None:
        return category_codes(values, part)
    numbers = to_numbers(values).astype(np.float64)
    return np.where(np.isnan(numbers), len(cuts) + 1, np.searchsorted(np.asarray(cuts), numbers, side="right"))


def count_outcomes(
    y: Any,
    predicted: np.ndarray,
    target: Classes,
    found: np.ndarray | None,
    others: np.ndarray | None,
    groups: np.ndarray | None,
    shape: tuple[int, int, int, int],
) -> Sealed[np.ndarray]:
    """Sealed counts of records by subgroup, whether another model is wrong, true class, and what was found.

    ``predicted`` and ``others`` are indices among the classes. ``found`` is any public function of the prediction; if it is
    None, hits and misses are counted in its place. Without ``others`` or ``groups`` that axis has one place.

    Privacy:
        Claim: L1 and L2 sensitivity are 1.
        Because: an added record adds 1 to one cell, or nothing if its label is left out; predictions of the others come from
            models that are released already.
        Assumes: the models were released before.
    """
    indices = true_indices(y, target)
    nothing = np.zeros(len(indices), dtype=np.int64)
    cell = (
        nothing if groups is None else groups,
        nothing if others is None else (indices != others).astype(np.int64),
        indices,
        (indices != predicted).astype(np.int64) if found is None else found,
    )
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, tuple(place[indices >= 0] for place in cell), 1)
    return Sealed(counts)


def sum_errors(
    y: Any,
    predicted: np.ndarray,
    target: Bounded,
    others: np.ndarray | None,
    groups: np.ndarray | None,
    shape: tuple[int, int, int, int],
) -> Sealed[np.ndarray]:
    """Sealed sums by subgroup and by moments: of the error of other predictions, of the target, and of the error.

    A number x in 0 .. 1, as a part of the range of the target, has the moments x**2, 2 x (1-x) and (1-x)**2, which sum to 1.
    A record divides ``MASS`` among the cells by the products of its moments. So sums over cells give the sums of 1, x and
    x**2, and of products. Without ``others`` or ``groups`` that axis has one place.

    Privacy:
        Claim: L1 sensitivity is M = ``MASS`` and L2**2 at most M**2.
        Because: the moments of each number are not negative and sum to 1, and so do their products. What a record adds are
            differences of rounded running sums of these, which rise from 0 to M: integers, none below 0, that sum to M.
            All of it goes to one subgroup; a record whose target is missing adds nothing.
        Assumes: the models were released before.
    """
    values = true_values(y, target)
    kept = ~np.isnan(values)
    values = values[kept]
    ranked = (values - target.range[0]) / target.span
    own, other = (None if each is None else np.abs(values - each[kept]) / target.span for each in (predicted, others))
    pieces = [np.ones((len(values), 1)) if each is None else _moments(each) for each in (other, ranked, own)]
    products = np.einsum("ri,rj,rk->rijk", *pieces).reshape(len(values), math.prod(shape[1:]))
    running = np.rint(MASS * np.minimum(np.cumsum(products, axis=1), 1)).astype(np.int64)
    running[:, -1] = MASS
    sums = np.zeros((shape[0], products.shape[1]), dtype=np.int64)
    own_group = np.zeros(len(values), dtype=np.int64) if groups is None else groups[kept]
    np.add.at(sums, own_group, np.diff(running, axis=1, prepend=0))
    return Sealed(sums.reshape(shape))


def _moments(shares: np.ndarray) -> np.ndarray:
    """The three moments of each number, ``(n_records, 3)``; numbers are cut to 0 .. 1."""
    x = np.clip(shares, 0, 1)
    return np.stack([x * x, 2 * x * (1 - x), (1 - x) ** 2], axis=1)


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
    start, width = place_within(target, forest.target)
    return _steps_missed(np.abs(start + width * shares[:, 1] - target_codes / FINE_STEPS))


def place_within(outer: Bounded, inner: Target) -> tuple[float, float]:
    """Where the range of a target starts, and how wide it is, as parts of the range of another."""
    assert isinstance(inner, Bounded)
    return (inner.range[0] - outer.range[0]) / outer.span, inner.span / outer.span
