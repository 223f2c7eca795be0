"""Fits a subject many times on two tables that the audit made, and reads off each fit what an attacker would see of it."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from dpforest.audit.cases import Pair
from dpforest.audit.subject import Subject
from dpforest.common.work import Step
from dpforest.forest.tree import Forest
from dpforest.records.columns import read_columns
from dpforest.records.encoding import encode
from dpforest.schema import Classes

# Fits that a worker makes before it reports.
N_CHUNK = 250
# Classes that are read one by one.
MOST_CLASSES = 3
# Enough to tell shares apart, and few enough to read.
SHARE_DIGITS = 6
TREES = ("", " of the second tree")
NO_ERROR, NO_SPLIT = 0.0, -1.0
CANDIDATE = "candidate of the best run"
# What steps of progress count: fits on several pairs, of which one is then chosen, and fits on one.
PILOT, FITS = "pilot fits", "fits"


@dataclass(frozen=True)
class Observable:
    """A number read off each fit. With ``labels`` it stands for one of a few values without an order."""

    name: str
    labels: dict[float, str] | None = None

    def says(self, relation: str, value: float) -> str:
        """The condition that the column has this relation to a value, in words."""
        if np.isnan(value):
            return f"{self.name} {'does not exist' if relation == '=' else 'exists'}"
        if self.labels is None:
            return f"{self.name} {relation} {value:.12g}"
        words = f"{self.name} {self.labels.get(value, f'is no. {value:.0f}')}"
        return words if relation == "=" else f"not ({words})"


@dataclass(frozen=True)
class Observations:
    """Numbers of fits: ``without`` and ``with_record`` ``(n_fits, n_columns)`` of the smaller and the larger table."""

    columns: tuple[Observable, ...]
    without: np.ndarray
    with_record: np.ndarray

    def ordered(self, with_record: bool) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of both tables, those of the table with the record first or last."""
        return (self.with_record, self.without) if with_record else (self.without, self.with_record)

    def has_models(self) -> bool:
        """Whether any fit gave a model."""
        return bool((np.concatenate([self.without, self.with_record])[:, 0] == NO_ERROR).any())

    def part(self, start: int, stop: int) -> "Observations":
        """The numbers of some of the fits of each table."""
        return Observations(self.columns, self.without[start:stop], self.with_record[start:stop])


def observe(
    subject: Subject,
    pairs: Sequence[Pair],
    n_fits: int,
    n_jobs: int = -1,
    progress: Callable[[str], None] = lambda step: None,
) -> list[Observations]:
    """For each pair, the numbers of ``n_fits`` fits on each table, every fit with fresh coins of the operating system."""
    sizes = [N_CHUNK] * (n_fits // N_CHUNK) + [n_fits % N_CHUNK] * (n_fits % N_CHUNK > 0)
    tasks = [(subject, pair, larger, size) for pair in pairs for larger in (False, True) for size in sizes]
    name = f"{2 * n_fits * len(pairs)} fits: {pairs[0].name if len(pairs) == 1 else f'{len(pairs)} pairs'}"
    chunks = []
    for chunk in Parallel(n_jobs=n_jobs, backend="loky", return_as="generator")(delayed(_fits)(*task) for task in tasks):
        chunks.append(chunk)
        progress(Step(name, len(chunks), len(tasks), FITS if len(pairs) == 1 else PILOT))
    return [_joined(chunks[first : first + 2 * len(sizes)]) for first in range(0, len(chunks), 2 * len(sizes))]


def fit(subject: Subject, pair: Pair, table: tuple[np.ndarray, np.ndarray]) -> Any:
    """An estimator fitted to one table of a pair, for the pair's claim."""
    claim = subject if pair.epsilon is None else replace(subject, epsilon=pair.epsilon)
    return claim.fitted(pair.schema, *table, pair.n_trees, pair.max_depth)


Numbers = tuple[list[dict[str, float]], dict[str, dict[float, str]]]  # of some fits, and words for those that have no order


def _joined(chunks: Sequence[Numbers]) -> Observations:
    """The numbers of all fits of a pair, the first half of them on the smaller table."""
    names = list(dict.fromkeys(name for rows, _ in chunks for row in rows for name in row))
    labels: dict[str, dict[float, str]] = {}
    for _, met in chunks:
        for name, words in met.items():
            labels.setdefault(name, {}).update(words)
    halves = (
        np.array([[row.get(name, np.nan) for name in names] for rows, _ in half for row in rows])
        for half in (chunks[: len(chunks) // 2], chunks[len(chunks) // 2 :])
    )
    return Observations(tuple(Observable(name, labels.get(name)) for name in names), *halves)


def _fits(subject: Subject, pair: Pair, larger: bool, n_fits: int) -> Numbers:
    """The numbers of some fits on one table of a pair."""
    reader, table, rows = _Reader(subject, pair), pair.tables()[larger], []
    for _ in range(n_fits):
        try:
            rows.append(reader.read(fit(subject, pair, table)))
        except Exception as error:  # whether a fit fails, and how, is public too
            name = type(error).__name__
            rows.append({"fit": reader.label("fit", name, f"fails with {name}")})
    return rows, reader.labels


class _Reader:
    """Reads numbers off a released forest, each by the name of its column."""

    def __init__(self, subject: Subject, pair: Pair) -> None:
        # The record that makes the difference, as columns of one value.
        self.record = read_columns(pair.tables()[1][0][-1:], pair.schema)
        parts = _parts(pair)
        self.parts = list(parts)
        # Counts of nodes times this are those of the parts.
        self.weights = np.array(list(parts.values()), dtype=float).T
        # Papers mean real numbers: that floats stand for them is not a flaw of what they print.
        self.sees_bits = subject.variant != "published"
        # The words for the numbers of a column that has no order.
        self.labels = {"fit": {NO_ERROR: "succeeds"}}
        for tree in TREES:
            self.labels |= {f"root{tree}": {NO_SPLIT: "is a leaf"}, f"split of the root{tree}": {NO_SPLIT: "is none"}}

    def label(self, column: str, value: str, words: str) -> float:
        """The number that stands for a value of a column, the same in all processes."""
        number = float(zlib.crc32(value.encode()))
        self.labels.setdefault(column, {})[number] = words
        return number

    def read(self, fitted: Any) -> dict[str, float]:
        """The numbers of an estimator or of a search."""
        if not hasattr(fitted, "best_estimator_"):
            return self._read(fitted.forest_)
        chosen = self.label(CANDIDATE, repr(fitted.best_params_), f"is {fitted.best_params_}")
        return self._read(fitted.best_estimator_.forest_) | {CANDIDATE: chosen, "score of the best run": fitted.best_score_}

    def _read(self, forest: Forest) -> dict[str, float]:
        codes = encode(self.record, forest.domain)
        leaves = forest.leaves(codes)[:, 0].tolist()
        counts = forest.counts @ self.weights
        seen: dict[str, float] = {"fit": NO_ERROR, "number of nodes": forest.n_nodes}
        for root, (tree, leaf) in enumerate(zip(TREES, leaves, strict=False)):
            seen |= self._split(forest, root, tree)
            seen[f"records at the root{tree}"] = counts[root].sum()
            seen |= self._of_parts("count of {} at the root" + tree, counts[root])
            seen |= self._of_parts("count of {} at the record's leaf" + tree, counts[leaf])
            if self.sees_bits:
                finest = finest_bits(counts[leaf])
                seen |= self._of_parts("finest bit of the count of {} at the record's leaf" + tree, finest)
        seen |= self._of_parts("count of {} at the record's leaves, summed", counts[leaves].sum(axis=0))
        less = counts[leaves[0]] - _of_twin(forest, leaves[0], counts)
        seen |= self._of_parts("count of {} at the record's leaf, less that at its twin", less)
        shares = np.round(forest.predict(codes)[0] @ self.weights, SHARE_DIGITS)
        return seen | self._of_parts("predicted share of {}", shares)

    def _of_parts(self, column: str, values: np.ndarray) -> dict[str, float]:
        """A number for each part, by the name of its column."""
        return {column.format(part): value for part, value in zip(self.parts, values.tolist(), strict=True)}

    def _split(self, forest: Forest, root: int, tree: str) -> dict[str, float]:
        """The feature, the route and, of a numeric feature, the first cut of the split at a root."""
        names = f"root{tree}", f"split of the root{tree}", f"cut of the root{tree}"
        feature, route, cut = NO_SPLIT, NO_SPLIT, np.nan
        if not forest.is_leaf[root]:
            index, domain, sides = int(forest.features[root]), forest.domain, forest.route(root)
            feature = float(index)
            self.labels[names[0]][feature] = f"splits on {domain.names[index]!r}"
            if not domain.is_numeric[index]:
                words = f"has {domain.describe(index, sides == sides[0])} in one child"
                route = self.label(names[1], f"{index} {sides.tolist()}", words)
            elif len(steps := np.flatnonzero(np.diff(sides[:-1]))):
                cut = float(domain.cuts[index][steps[0]])
        return dict(zip(names, (feature, route, cut), strict=True))


def _parts(pair: Pair) -> dict[str, np.ndarray]:
    """Names of counts, and the target values summed by each: every class, or the record's and all others."""
    target = pair.schema.target
    if not isinstance(target, Classes):
        return dict(zip(("the low part", "the high part"), np.eye(2), strict=True))
    labels = list(target.labels)
    if len(labels) <= MOST_CLASSES:
        return {f"class {label}": row for label, row in zip(labels, np.eye(len(labels)), strict=True)}
    own = np.array([label == pair.extra[-1] for label in labels])
    return {f"class {pair.extra[-1]}": own, "other classes": ~own}


def _of_twin(forest: Forest, leaf: int, counts: np.ndarray) -> Any:
    """The counts of the leaf with the same index in the second tree, or NaN: noise that trees share is the same in both."""
    own, others = (np.flatnonzero(forest.is_leaf & (forest.trees == tree)) for tree in (0, 1))
    index = int(np.searchsorted(own, leaf))
    return counts[others[index]] if index < len(others) else np.nan


def finest_bits(values: np.ndarray) -> np.ndarray:
    """The exponent of the lowest bit that is set in each value, 0 for whole numbers.

    Noise in floating point is finer the smaller it is, and adding it to a count rounds it to what the count leaves room
    for, so fine bits tell that the count was 0 [mironov2012].
    """
    mantissas, exponents = np.frexp(values)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(float))[1] - 1
    return np.where(whole == 0, 0, np.minimum(exponents - 53 + lowest, 0)).astype(float)
