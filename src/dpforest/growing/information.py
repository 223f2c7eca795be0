"""Information in tables of counts by value and class: MDL cuts, uncertainty, interaction gain. Sees released values only.

Tables are released, so they may carry noise; ``noise`` is the variance of a table's sum. A noisy sum of n is as precise as
n**2 / (n + noise) exact records (``worth``), what noise adds to an information on average is subtracted, and values with
less than the noise are summed in runs (``runs``). Without noise all is as printed.
"""

import math

import numpy as np

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
    """The row at which to cut an interval of rows in two, or None if the gain is below the description length."""
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
    k, described = int((whole > 0).sum()), 0.0
    for side, _ in sides:
        described += int((side > 0).sum()) * float(entropy(side))
    # log2(3**k - 2) without a large power.
    length = math.log2(n - 1) + k * math.log2(3) + math.log2(1 - 2 * 3.0**-k) - (k * before - described)
    return index + 1 if gain >= length / n else None
