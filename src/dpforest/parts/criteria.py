"""Criteria: integer scores of candidate splits, each with a proved bound. Sees sealed counts, through ``Sealed.map``."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Protocol

import numpy as np
from numba import njit

from dpforest.errors import AccountingError, ParameterError
from dpforest.parts.part import Part
from dpforest.privacy.bounds import Bound
from dpforest.schema import TARGET_STEPS, Bounded, Classes, Target

UNITS = 64  # score units for one record, for one record and one nat, or for one squared range
STEPS_PER_OCTAVE = 64  # of the table of entropies
MOST_SQUARES = 1 << 57  # times UNITS they fit 63 bits
MOST_SIZE = 1 << 31  # its square fits 63 bits
HALF_BITS = 20  # of sizes below 2**41


class Criterion(Part, Protocol):
    """A score of candidate splits by the counts of the children that they would make; larger is better.

    The bound of the score is proved beside it.
    """

    status: str  # "proved", if the bound has a proof here

    @property
    def sees(self) -> str:
        """What records count as: by their "target"; as below or above the "centre" of their node; by all "residuals"."""
        return "target"

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        """Integer scores ``(...)`` of splits whose children have the statistics ``(..., n_children, width)``."""

    def bound(self, most: int = 1) -> Bound:
        """The least and the greatest change of the score when a record is added that raises one count by 0 .. ``most``.

        A criterion that sees residuals has ``most`` of them, see ``Counter.spread_residuals``.
        """


def records_only(criterion: Criterion, most: int) -> None:
    """Raise unless records count once; for criteria whose bound is not proved for weighted records."""
    if most != 1:
        raise AccountingError(f"{type(criterion).__name__} has no bound for weighted records.")


def score_each(kernel: Callable[..., None], children: np.ndarray, *more: int) -> np.ndarray:
    """Integer scores ``(...)`` that a kernel gives the statistics ``(..., n_children, width)``."""
    scores = np.empty(children.shape[:-2], dtype=np.int64)
    kernel(np.ascontiguousarray(children).reshape(scores.size, *children.shape[-2:]), *more, scores.reshape(-1))
    return scores


@dataclass(frozen=True)
class MaxOperator(Criterion):
    """Records that are in the commonest class of their child: ``sum over children of max over classes of n_c``.

    On records weighted by the residuals of two classes it is, up to a constant of the node, the sum of the children's
    absolute gradients.

    Linear in the difference between classes, so its signal stands out of the noise earlier than Gini's, which is
    quadratic; but blind where both children keep the same majority.

    Privacy:
        Claim: adding a record of weight 0 .. most raises the score by 0 .. most.
        Because: it falls in one child, and raises one count there by its weight, so the maximum rises by 0 .. weight.
        Assumes: counts are exact integers; an added record changes no other record's weight.
    """

    status = "proved"
    targets = (Classes,)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        return score_each(_largest_classes, children)

    def bound(self, most: int = 1) -> Bound:
        return Bound(low=0, high=most)


@njit(cache=True, nogil=True)
def _largest_classes(children, scores):
    for candidate in range(scores.size):
        total = 0
        for child in range(children.shape[1]):
            largest = 0
            for c in range(children.shape[2]):
                largest = max(largest, children[candidate, child, c])
            total += largest
        scores[candidate] = total


@dataclass(frozen=True)
class GiniCount(Criterion):
    """Negative Gini impurity times size: ``-sum over children of (n - sum(n_c**2) / n)``.

    On counts, because the normalised form has no useful global bound: its denominator depends on the data.

    Privacy:
        Claim: adding a record of weight 0 .. most lowers the score by 0 to 2 most records, and never raises it.
        Because: a record of class k falls in one child. By the weight n_k of its class there, the child's impurity
            n - sum(n_c**2) / n rises at the rate (1 - s_k)**2 + sum over c != k of s_c**2, s being the classes' shares: a
            number in 0 .. 2. So a weight w raises it by 0 .. 2w. The score is an integer: each child's
            sum(n_c**2) / n is rounded down to 1/64, its size is whole, and a number that rises by at most the whole number
            128 w rises by at most as much after rounding up, and does not fall.
        Assumes: sizes of children are exact integers below 2**41; an added record changes no other record's weight.
    """

    status = "proved"
    targets = (Classes,)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        return score_each(_negative_gini, children)

    def bound(self, most: int = 1) -> Bound:
        return Bound(low=-2 * UNITS * most, high=0)


@njit(cache=True, nogil=True)
def _negative_gini(children, scores):
    for candidate in range(children.shape[0]):
        score = np.int64(0)
        for child in range(children.shape[1]):
            size, squares = np.int64(0), np.int64(0)
            for c in range(children.shape[2]):
                size += children[candidate, child, c]
                squares += children[candidate, child, c] * children[candidate, child, c]
            if size == 0:
                continue
            if size < MOST_SIZE:  # else the squares may have passed 64 bits
                if squares < MOST_SQUARES:
                    score += np.int64(np.uint64(UNITS * squares) // np.uint64(size)) - UNITS * size
                else:
                    score += UNITS * (squares // size - size) + UNITS * (squares % size) // size
            else:
                score += _divided_squares(children[candidate, child], size) - UNITS * size
        scores[candidate] = score


@njit(cache=True, nogil=True)
def _divided_squares(counts, size):
    """``UNITS * sum(counts**2) / size``, rounded down, where squares do not fit 64 bits: each is divided in two steps."""
    whole, rest = np.int64(0), np.int64(0)
    for count in counts:
        high, low = count >> HALF_BITS, count & ((1 << HALF_BITS) - 1)
        first = count * high
        second = ((first % size) << HALF_BITS) + count * low
        whole += ((first // size) << HALF_BITS) + second // size
        rest += second % size
    return UNITS * whole + UNITS * rest // size


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


@dataclass(frozen=True)
class Balance(Criterion):
    """Records outside the largest child; min(left, right) for a binary split, so the best threshold is the median.

    Same law as exp(-(epsilon/2) |left - right|), but monotone, so no factor 2 is hidden in its constant.

    Privacy:
        Claim: adding a record of weight 0 .. most raises the score by 0 .. most.
        Because: the sum of all weights rises by its weight and the size of the largest child by 0 .. weight.
        Assumes: counts are exact integers.
    """

    status = "proved"

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        # Records are counted for each class, or in the first of three sums.
        return score_each(_outside_largest, children, target.width if isinstance(target, Classes) else 1)

    def bound(self, most: int = 1) -> Bound:
        return Bound(low=0, high=most)


@njit(cache=True, nogil=True)
def _outside_largest(children, n_counts, scores):
    for candidate in range(scores.size):
        total, largest = 0, 0
        for child in range(children.shape[1]):
            size = 0
            for c in range(n_counts):
                size += children[candidate, child, c]
            total += size
            largest = max(largest, size)
        scores[candidate] = total - largest


@dataclass(frozen=True)
class WeightedMajority(Criterion):
    """``sum over children of (M / n) * M`` with M the largest class count, one reading of F_Max [suihkonen2023, eq. 4.11].

    Privacy:
        Claim: adding a record moves the score by more than -1 and at most 1 record; it is not monotone.
        Because: it falls in one child. If the maximum rises, (M+1)**2/(n+1) - M**2/n = (2M+1)/(n+1) - M**2/(n (n+1)),
            which is at most 1 because (n - M)**2 >= 0, and at least 0; if not, the change is -M**2/(n (n+1)) >= -n/(n+1).
            Each child's term is rounded down to 1/64 record, so the integer change is within -64 .. 64.
        Assumes: counts are exact integers below 2**31.
    """

    status = "proved"
    targets = (Classes,)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        divisors = np.maximum(children.sum(axis=-1), 1)
        whole, rest = np.divmod(np.square(children.max(axis=-1)), divisors)
        return (UNITS * whole + UNITS * rest // divisors).sum(axis=-1)

    def bound(self, most: int = 1) -> Bound:
        records_only(self, most)
        return Bound(low=-UNITS, high=UNITS)


@dataclass(frozen=True)
class SquaredError(Criterion):
    """Negative sum of squared distances from the mean of the child, in units of the squared range.

    Privacy:
        Claim: adding a record lowers the score by 0 to 1 squared range, and never raises it.
        Because: a record z in a child with mean m and size n adds n/(n+1) (z - m)**2 < range**2 to its sum of
            squares and changes no other child. The term of a child is rounded down twice: its (sum z)**2/n to
            whole squared steps, which keeps the order because the sum of squares is whole, then the result to
            1/64 squared range. Rounding keeps the order, and a real change below 64 units is at most 64 after it.
        Assumes: z is an integer in 0 .. TARGET_STEPS; fewer than 2**31 records.
    """

    status = "proved"
    targets = (Bounded,)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        sizes, sums, squares = children[..., 0], children[..., 1], children[..., 2]
        divisors = np.maximum(sizes, 1)
        mean, rest = np.divmod(sums, divisors)
        # (sum z)**2 / n = sum*mean + mean*rest + rest**2/n, each piece within 64 bits. Rounding rest**2/n up
        # rounds the squared error down.
        error = squares - sums * mean - mean * rest + (-(rest * rest)) // divisors
        return -(UNITS * error // TARGET_STEPS**2).sum(axis=-1)

    def bound(self, most: int = 1) -> Bound:
        records_only(self, most)
        return Bound(low=-UNITS, high=0)


@dataclass(frozen=True)
class SoftAgreement(Criterion):
    """The weight on each child's side of the centre: ``max(below_left + above_right, above_left + below_right)``.

    A record of a bounded target counts as below or above its node's released centre, weighted by its capped distance (see
    ``growing.choosing``). Linear in the difference between the children, so its signal stands out of the noise earlier
    than squared error's.

    Privacy:
        Claim: adding a record of weight 0 .. most raises the score by 0 .. most.
        Because: it falls in one child, on one side, and so adds its weight to exactly one of the two sums.
        Assumes: counts are exact integers; centres are released; an added record changes no other record's weight.
    """

    status = "proved"
    targets = (Bounded,)
    sees: ClassVar[str] = "centre"

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        below, above = children[..., 0], children[..., 1]
        return np.maximum(below[..., 0] + above[..., 1], above[..., 0] + below[..., 1])

    def bound(self, most: int = 1) -> Bound:
        return Bound(low=0, high=most)


@dataclass(frozen=True)
class ResidualGain(Criterion):
    """The preference of children for some classes: ``sum over children and classes of max(G_c, 0)``.

    G are the sums of the residuals of the child's records, see ``parts.leaves.ResidualSums``; over all classes they are 0.
    The max operator sees the own class of a record only; this also sees with which others the trees confuse it. For two
    classes the two are the same, up to a factor and a constant of the node.

    Privacy:
        Claim: adding a record of weight 0 .. most moves the score by -most .. most.
        Because: it falls in one child and adds a g in 0 .. most to the sum of its class, which raises that term by 0 .. g,
            and to the others numbers of at most 0 that sum to -g, which lower their terms by 0 .. g in all.
        Assumes: sums are exact integers; an added record changes no other record's residuals.
    """

    status = "proved"
    targets = (Classes,)
    sees: ClassVar[str] = "residuals"

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        return score_each(_positive_residuals, children)

    def bound(self, most: int = 1) -> Bound:
        return Bound(low=-most, high=most)


@njit(cache=True, nogil=True)
def _positive_residuals(children, scores):
    n_classes = children.shape[2] - 1  # the last entry is the weight
    for candidate in range(scores.size):
        total = 0
        for child in range(children.shape[1]):
            for c in range(n_classes):
                total += max(children[candidate, child, c], 0)
        scores[candidate] = total


@dataclass(frozen=True)
class Mixture(Criterion):
    """A sum of criteria, each scaled to width 1 and multiplied by a whole-number weight.

    ``Mixture(((GiniCount(), 16), (MaxOperator(), 8)))`` is Gini + lambda * max operator with lambda = 8/16: one
    choice does the work of two, and is paid once.

    Privacy:
        Claim: adding a record moves the score by an integer between the sum of the weighted lows and the sum of the
            weighted highs of its parts; the width is that of one unit times the sum of the weights.
        Because: each part moves within its own bound, and sums of intervals add their ends.
        Assumes: the bounds of the parts.
    """

    parts: tuple[tuple[Criterion, int], ...]
    status = "proved"

    def __post_init__(self) -> None:
        if not self.parts or any(not isinstance(weight, int) or weight < 1 for _, weight in self.parts):
            raise ParameterError("A mixture needs criteria with whole weights of at least 1.")
        if len({criterion.sees for criterion, _ in self.parts}) > 1:
            raise ParameterError("A mixture needs criteria that all see the same: targets, centres or residuals.")

    @property
    def sees(self) -> str:
        return self.parts[0][0].sees

    def accepts(self, target: Target) -> bool:
        return all(criterion.accepts(target) for criterion, _ in self.parts)

    def score(self, children: np.ndarray, target: Target) -> np.ndarray:
        scores, *others = (factor * criterion.score(children, target) for criterion, factor in self._scaled)
        for other in others:
            scores += other
        return scores

    def bound(self, most: int = 1) -> Bound:
        bounds = [(criterion.bound(most), factor) for criterion, factor in self._scaled]
        return Bound(sum(bound.low * factor for bound, factor in bounds), sum(b.high * f for b, f in bounds))

    @cached_property
    def _scaled(self) -> list[tuple[Criterion, int]]:
        """The criteria, each with the factor that scales it."""
        whole = math.lcm(*(criterion.bound().width for criterion, _ in self.parts))
        return [(criterion, weight * whole // criterion.bound().width) for criterion, weight in self.parts]
