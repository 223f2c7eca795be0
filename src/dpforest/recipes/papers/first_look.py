"""A first look: counts of features, released before trees grow, say how to cut and what to offer. Sees sealed counts.

Tables may carry noise; ``noise`` is the variance of a table's sum. A noisy sum of n is as precise as n**2 / (n + noise)
exact records (``worth``), what noise adds to an information on average is subtracted, and values with less than the noise
are summed in runs (``runs``). Without noise all is as printed.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpforest.errors import ParameterError
from dpforest.parts.part import Part
from dpforest.parts.proposals import Intervals, Menu, OneChildPerValue
from dpforest.parts.recipe import Recipe
from dpforest.privacy.amounts import add, divide
from dpforest.privacy.bounds import Sensitivity
from dpforest.privacy.events import Purpose
from dpforest.privacy.gate import Gate
from dpforest.privacy.sealed import Sealed
from dpforest.records.base import AllTrees, Counter
from dpforest.schema import Classes
from dpforest.schema.domain import Domain

# Standard deviations of noise that a sum must reach to stand alone.
STRENGTH = 4


def entropy(counts: np.ndarray) -> np.ndarray:
    """The entropy in bits of counts over their last axis; 0 where nothing is counted."""
    sums = counts.sum(axis=-1, keepdims=True)
    shares = counts / np.where(sums > 0, sums, 1)
    return -(shares * np.log2(np.where(shares > 0, shares, 1))).sum(axis=-1) + 0.0


def mutual_information(table: np.ndarray, noise: float = 0.0) -> float:
    """The mutual information I(X; Z) in bits of a table ``(n_values, n_classes)`` [suihkonen2023, eq. 4.23]."""
    own, classes, n = entropy(table.sum(axis=1)), entropy(table.sum(axis=0)), float(table.sum())
    by_noise = _freedom(table) * noise / n**2 if n else 0.0
    return max(float(own + classes - entropy(table.ravel())) - by_noise, 0.0)


def chance(table: np.ndarray, noise: float = 0.0) -> float:
    """The mean mutual information in bits that a feature independent of the class would show, by chance and by noise."""
    n = worth(float(table.sum()), noise)
    return _freedom(table) / n if n else math.inf


def _freedom(table: np.ndarray) -> float:
    """The degrees of freedom of a table over 2 ln 2: the bits that chance adds to an information, times the records."""
    n_values, n_classes = (int((table.sum(axis=axis) > 0).sum()) for axis in (1, 0))
    return max(n_values - 1, 0) * max(n_classes - 1, 0) / (2 * math.log(2))


def worth(n: float, noise: float) -> float:
    """The number of exact records whose count is as precise as a noisy sum of ``n``; ``n`` without noise."""
    return n * n / (n + noise) if n > 0 else 0.0


def symmetric_uncertainty(table: np.ndarray, noise: float = 0.0) -> float:
    """The uncertainty SU(X, Z) of a table ``(n_values, n_classes)`` [suihkonen2023, eq. 4.24]; 0 if neither varies."""
    both = float(entropy(table.sum(axis=1)) + entropy(table.sum(axis=0)))
    return 2 * mutual_information(table, noise) / both if both else 0.0


def normalised_interaction_gain(table: np.ndarray, noise: float = 0.0) -> float:
    """The gain NIG(X, Y, Z) of a table ``(n_values, n_other_values, n_classes)`` [suihkonen2023, eqs. 4.25 and 4.26]."""
    first, second, pairs = table.sum(axis=1), table.sum(axis=0), table.reshape(-1, table.shape[2])
    gain = mutual_information(pairs, noise) - mutual_information(first, noise) - mutual_information(second, noise)
    both = float(entropy(first.sum(axis=1)) + entropy(second.sum(axis=1)))
    return 0.5 + gain / (2 * both) if both else 0.5


def runs(sizes: np.ndarray, noise: float, least: float = 0.0) -> np.ndarray:
    """The run ``(n_values,)`` of each value: neighbours whose sizes sum to ``least`` or more and stand out of their noise.

    ``noise`` is the variance of each size. Without noise and ``least`` each value is a run.
    """
    numbers, number, held, length = np.zeros(len(sizes), dtype=np.int64), 0, 0.0, 0
    for index, size in enumerate(sizes.tolist()):
        numbers[index], held, length = number, held + size, length + 1
        if held >= max(least, STRENGTH * math.sqrt(noise * length)):
            number, held, length = number + 1, 0.0, 0
    return np.minimum(numbers, max(number - 1, 0))  # what is left over joins the last run


def sum_runs(table: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The table with the rows of each run (``numbers``) summed, and sums below 0 taken as 0."""
    sums = np.zeros((int(numbers.max(initial=-1)) + 1, *table.shape[1:]), dtype=table.dtype)
    np.add.at(sums, numbers, table)
    return np.maximum(sums, 0)


def mdl_cuts(table: np.ndarray, variance: float = 0.0) -> list[int]:
    """The rows of a table ``(n_bins, n_classes)`` at which new intervals begin, by class entropy [suihkonen2023, eq. 4.4].

    An interval is cut where the entropy of its parts is least, and its parts again, until the gain is below the description
    length. ``variance`` is that of each cell.
    """
    numbers = runs(table.sum(axis=1), table.shape[1] * variance)
    counts, noise = sum_runs(table, numbers), table.shape[1] * variance * np.bincount(numbers)
    begins = np.searchsorted(numbers, np.arange(len(counts)))
    found, waiting = [], [(0, len(counts))]
    while waiting:
        start, stop = waiting.pop()
        index = _cut(counts[start:stop], noise[start:stop])
        if index is not None:
            found.append(int(begins[start + index]))
            waiting += [(start, start + index), (start + index, stop)]
    return sorted(found)


def _cut(counts: np.ndarray, noise: np.ndarray) -> int | None:
    """The row at which to cut an interval in two; None if the gain is below the description length."""
    whole = counts.sum(axis=0)
    if len(counts) < 2 or not whole.sum():
        return None
    left = np.cumsum(counts, axis=0)[:-1]
    right = whole - left
    parts = (left.sum(axis=1) * entropy(left) + right.sum(axis=1) * entropy(right)) / whole.sum()
    index = int(parts.argmin())
    before, gain = float(entropy(whole)), float(entropy(whole) - parts[index])
    sides = [(left[index], noise[: index + 1]), (right[index], noise[index + 1 :])]
    # The less certain of the parts says how many exact records the interval is worth.
    shares = [worth(float(side.sum()), float(own.sum())) / max(float(side.sum()), 1) for side, own in sides]
    n = min(shares) * float(whole.sum())
    if not gain > 0 or n <= 1:
        return None
    k, described = int((whole > 0).sum()), sum(int((side > 0).sum()) * float(entropy(side)) for side, _ in sides)
    # log2(3**k - 2) without a large power.
    length = math.log2(n - 1) + k * math.log2(3) + math.log2(1 - 2 * 3.0**-k) - (k * before - described)
    return index + 1 if gain >= length / n else None


# Public caps: features whose pairs are looked at, and runs of codes of each.
MOST_PAIRED, MOST_RUNS = 12, 64
# Even intervals of a feature of which noise leaves no cut.
N_EVEN = 5


@dataclass(frozen=True)
class FirstLook(Part):
    """A menu of cuts and features for all trees, from noisy class counts of codes.

    With ``cuts``, splits with a child for each value get one for each interval that class entropy and description length
    leave of the grid's bins [suihkonen2023, eq. 4.4], and one for missing. A feature without a cut has one value and is not
    split; if there is noise, which may have drowned the cuts, it has N_EVEN even intervals. With ``select``, features with
    more symmetric uncertainty (eq. 4.24) than chance and noise show are relevant. The heaviest of them are offered, no more
    than the menu would draw. A weight is the symmetric uncertainty. With ``pairs`` it is also the mean normalised
    interaction gain (eqs. 4.25 and 4.26) with the other features that are left, of the MOST_PAIRED most relevant ones that
    are not wide, and the lightest is removed until few enough are left.

    Privacy:
        Claim: costs at most ``share`` of the amount, and nothing if no table is needed.
        Because: an added record changes, by 1, one cell in the table of each of m features: L1 and L2**2 move by at most m.
            The tables of P pairs, in runs of codes that follow from the tables of features, move by at most P likewise;
            each kind gets half of the share. Cuts and features are functions of released tables and of the schema.
        Assumes: records count once; codes are public.
    """

    share: float = 0.1
    cuts: bool = False
    select: bool = False
    pairs: bool = False
    targets = (Classes,)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ParameterError(f"The share of the first look must lie in (0, 1), not {self.share!r}.")

    def release(self, counter: Counter, recipe: Recipe, amount: float, gate: Gate) -> tuple[Recipe, float]:
        """The recipe with a menu made of the released counts, and the rest of ``amount``."""
        domain, menu = counter.domain, recipe.propose
        wanted = domain.is_numeric & self.cuts & any(map(_by_bins, menu.kinds)) | self.select
        if not wanted.any():
            return recipe, amount
        # A sampling that the accountant has no proof for is refused before anything is charged.
        recipe.sample.amount_per_tree(gate.ledger.accountant, amount, recipe.n_trees)
        own, rest = divide(amount, [self.share, 1 - self.share])
        first, second = divide(own, [1, 1]) if self.pairs else (own, 0.0)
        tables, variance = _tables(counter, np.flatnonzero(wanted), first, gate)
        if self.cuts:
            menu = replace(menu, kinds=_with_intervals(menu, _borders(domain, tables, variance)))
        if self.select:
            weights, kept = relevance([tables[feature] for feature in range(domain.n_features)], variance)
            n_kept = menu.n_drawn(domain.n_features)
            paired = kept[~domain.is_wide[kept]][:MOST_PAIRED]
            if self.pairs and n_kept < len(paired):
                gains = _gains(counter, paired, tables, variance, second, gate)
                kept = paired[kept_by_elimination(weights[paired], gains, n_kept)]
            else:
                rest = add(rest, second)
            menu = replace(menu, n_features=None, only=tuple(sorted(kept[:n_kept].tolist())))
        return replace(recipe, propose=menu), rest


def _by_bins(kind: object) -> bool:
    """Whether a kind of split has a child for each bin of a number."""
    return isinstance(kind, OneChildPerValue) and kind.numeric


def _with_intervals(menu: Menu, borders: tuple[tuple[int, ...], ...]) -> tuple[Any, ...]:
    """The kinds of split of a menu, with children for intervals instead of bins."""
    kinds: list[Any] = []
    for kind in menu.kinds:
        kinds += [OneChildPerValue(numeric=False), Intervals(borders)] if _by_bins(kind) else [kind]
    return tuple(kinds)


def _tables(counter: Counter, features: np.ndarray, amount: float, gate: Gate) -> tuple[dict[int, np.ndarray], float]:
    """Released class counts ``(n_codes, n_classes)`` of each feature, by its index, and the variance of each count."""
    domain = counter.domain
    counter.deal(AllTrees(1), gate.entropy)
    wanted = np.isin(np.arange(domain.n_features), features)
    columns = np.flatnonzero(np.repeat(wanted, domain.n_codes))
    cells = counter.count_codes(0, wanted[None]).map(lambda counts: counts[0, columns])
    sensitivity = Sensitivity(len(features), len(features))
    released, variance = gate.add_noise(cells, sensitivity, amount, "first look")
    parts = np.split(released.astype(float), np.cumsum(domain.n_codes[features])[:-1])
    return dict(zip(features.tolist(), parts, strict=True)), variance


def _borders(domain: Domain, tables: dict[int, np.ndarray], variance: float) -> tuple[tuple[int, ...], ...]:
    """For each feature the bins at which its intervals after the first begin; missing values take no part."""
    borders: list[tuple[int, ...]] = [()] * domain.n_features
    for feature in np.flatnonzero(domain.is_numeric).tolist():
        bins = tables[feature][:-1]
        borders[feature] = tuple(mdl_cuts(bins, variance))
        if variance and not borders[feature]:
            even = np.unique(np.arange(1, N_EVEN) * len(bins) // N_EVEN)
            borders[feature] = tuple(even[even > 0].tolist())
    return tuple(borders)


def relevance(tables: Sequence[np.ndarray], variance: float) -> tuple[np.ndarray, np.ndarray]:
    """The symmetric uncertainty of each feature, and the relevant ones in falling order of it; all if none is relevant."""
    weights, is_relevant = np.zeros(len(tables)), np.zeros(len(tables), dtype=bool)
    for feature, table in enumerate(tables):
        noise = variance * table.size
        counts = sum_runs(table, runs(table.sum(axis=1), noise / len(table)))
        weights[feature] = symmetric_uncertainty(counts, noise)
        is_relevant[feature] = mutual_information(counts, noise) > chance(counts, noise)
    order = np.argsort(-weights, kind="stable")
    return weights, order[is_relevant[order]] if is_relevant.any() else order


def kept_by_elimination(weights: np.ndarray, gains: np.ndarray, n_kept: int) -> np.ndarray:
    """The indices of the ``n_kept`` features that are left when the lightest is removed again and again.

    What counts is a feature's own weight plus its mean gain (``gains``, 0 with itself) with the others that are left.
    """
    left = list(range(len(weights)))
    while len(left) > n_kept:
        means = gains[np.ix_(left, left)].sum(axis=1) / (len(left) - 1)
        left.pop(int(np.argmin(weights[left] + means)))
    return np.array(left)


def _gains(
    counter: Counter, features: np.ndarray, tables: dict[int, np.ndarray], variance: float, amount: float, gate: Gate
) -> np.ndarray:
    """The normalised interaction gains ``(n, n)`` of all pairs of n features with the class, 0 on the diagonal."""
    pairs = list(itertools.combinations(range(len(features)), 2))
    # A cell of a pair has the noise of a feature's as many times as there are more pairs than features, or less.
    deviation = math.sqrt(variance) * len(pairs) / len(tables)
    numbers = [_runs_of(tables[feature], variance, deviation) for feature in features]
    cells = [_pair_cells(counter, features, numbers, index, gate) for index in range(len(features) - 1)]
    sensitivity = Sensitivity(len(pairs), len(pairs))
    released, variance = gate.add_noise(Sealed.concatenate(cells), sensitivity, amount, Purpose("first look", step="pairs"))
    gains, start = np.zeros((len(features), len(features))), 0
    for one, other in pairs:
        shape = (numbers[one][-1] + 1, numbers[other][-1] + 1, counter.target.n_values)
        table = np.maximum(released[start : start + math.prod(shape)], 0.0).reshape(shape)
        gains[one, other] = gains[other, one] = normalised_interaction_gain(table, variance * table.size)
        start += table.size
    return gains


def _runs_of(table: np.ndarray, variance: float, deviation: float) -> np.ndarray:
    """The run of each code: so long that counts of pairs of features exceed the noise on average, and MOST_RUNS at most."""
    (n_codes, n_classes), sizes = table.shape, table.sum(axis=1)
    n = max(float(sizes.sum()), 0.0)
    least = math.sqrt(STRENGTH * deviation * n_classes * n)
    least = max(least, n / MOST_RUNS) if n_codes > MOST_RUNS else least
    return np.minimum(runs(sizes, n_classes * variance, least), MOST_RUNS - 1)


def _pair_cells(
    counter: Counter, features: np.ndarray, numbers: list[np.ndarray], index: int, gate: Gate
) -> Sealed[np.ndarray]:
    """Sealed class counts, in one row, of the pairs of one feature with each that comes after it.

    They are counted in the children of a node that is split by the runs of the first feature.
    """
    domain, feature, others = counter.domain, features[index], features[index + 1 :]
    counter.deal(AllTrees(1), gate.entropy)
    route = np.zeros((1, domain.route_width), dtype=np.uint16)
    route[0, : domain.n_codes[feature]] = numbers[index]
    counter.descend(0, features[index : index + 1], route, np.array([1]))
    wanted = np.tile(np.isin(np.arange(domain.n_features), others), (int(numbers[index][-1]) + 1, 1))
    spans = [(domain.offsets[other], domain.offsets[other + 1]) for other in others]
    return counter.count_codes(1, wanted).map(partial(_joined, spans, numbers[index + 1 :]))


def _joined(spans: list[tuple[int, int]], numbers: list[np.ndarray], counts: np.ndarray) -> np.ndarray:
    """The counts of all pairs in one row, summed over the runs of the other feature's codes."""
    parts = []
    for (start, stop), own in zip(spans, numbers, strict=True):
        begins = np.searchsorted(own, np.arange(own[-1] + 1))
        parts.append(np.add.reduceat(counts[:, start:stop], begins, axis=1).ravel())
    return np.concatenate(parts)
