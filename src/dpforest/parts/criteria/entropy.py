"""The entropy criterion on counts: information gain times size, up to a constant of the node. Sees sealed counts."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numba import njit

from dpforest.parts.criteria.base import Criterion, records_only
from dpforest.privacy.base import Bound
from dpforest.schema import Classes, Target

UNITS = 64  # score units for one record and one nat
STEPS_PER_OCTAVE = 64


@dataclass(frozen=True)
class EntropyCount(Criterion):
    """Negative entropy times size: ``sum over children of (sum(g(n_c)) - g(n))`` with g(x) = x ln x, in nats.

    Privacy:
        Claim: adding a record lowers the score by 0 to phi(n_max) nats, phi(x) = g(x+1) - g(x), and never raises it.
        Because: a record of class k in a child of size n changes the score by phi(n_k) - phi(n). The table makes
            g an integer function whose steps phi never fall (rounded down on a grid that is fine at first and then
            geometric) and stay constant from n_max on. As n_k <= n, the change is in [phi(0) - phi(n_max), 0],
            whatever the size of the table: n_max needs no promise about the data.
        Assumes: counts are exact integers below 2**40.
    """

    n_max: int = 1 << 20
    status = "proved"
    targets = (Classes,)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        return (self._g(children).sum(axis=-1) - self._g(children.sum(axis=-1))).sum(axis=-1)

    def bound(self, most: int = 1) -> Bound:
        records_only(self, most)
        _, _, steps = self._table
        return Bound(low=int(steps[0] - steps[-1]), high=0)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _convex_table(self.n_max)

    def _g(self, counts: np.ndarray) -> np.ndarray:
        result = np.empty(counts.size, dtype=np.int64)
        _look_up(np.ascontiguousarray(counts).reshape(-1), *self._table, result)
        return result.reshape(counts.shape)


@lru_cache(maxsize=16)
def _convex_table(n_max: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pieces of a convex integer function close to UNITS * x ln x: where each starts, its value there, and its slope."""
    starts = list(range(min(2 * STEPS_PER_OCTAVE, n_max) + 1))
    while starts[-1] < n_max:
        starts.append(min(n_max, starts[-1] + max(1, starts[-1] // STEPS_PER_OCTAVE)))
    middles = [(a + b - 1) / 2 for a, b in zip(starts, [*starts[1:], n_max + 1], strict=True)]
    rounded = [int(UNITS * (math.log1p(x) + (x * math.log1p(1 / x) if x else 0))) for x in middles]
    steps = np.maximum.accumulate(np.array(rounded, dtype=np.int64))
    lengths = np.diff(starts)
    values = np.concatenate([[0], np.cumsum(steps[:-1] * lengths)])
    return np.array(starts, dtype=np.int64), values.astype(np.int64), steps


@njit(cache=True, nogil=True)
def _look_up(counts, starts, values, steps, result):
    n_single = min(2 * STEPS_PER_OCTAVE, starts.size - 1)
    for item in range(counts.size):
        count = counts[item]
        index = count
        if count > n_single:  # below that every count starts a piece
            index = np.searchsorted(starts, count, side="right") - 1
        result[item] = values[index] + steps[index] * (count - starts[index])
