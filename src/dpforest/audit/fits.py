"""Fits a subject many times on two tables that the audit made, and reads off each fit what an attacker would see of it."""

import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from dpforest.audit.pairs import Pair
from dpforest.audit.searches import SearchSubject
from dpforest.audit.subject import Subject
from dpforest.common.progress import Step
from dpforest.errors import LeakWarning, RepeatedFitWarning, UnitWarning
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
class Column:
    """A number that is read off each fit. With ``labels`` it stands for one of a few values, which are in no order."""

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

    columns: tuple[Column, ...]
    without: np.ndarray
    with_record: np.ndarray

    def ordered(self, with_record: bool) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of both tables, those of the table with the record first or last."""
        return (self.with_record, self.without) if with_record else (self.without, self.with_record)

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
    return [_joined(subject, pair, chunks[2 * len(sizes) * k : 2 * len(sizes) * (k + 1)]) for k, pair in enumerate(pairs)]


def fit(subject: Subject, pair: Pair, table: tuple[np.ndarray, np.ndarray]) -> Any:
    """An estimator that was fitted to one table of a pair, for the claim at which the pair is used."""
    claim = subject if pair.epsilon is None else subject.claiming(pair.epsilon, subject.delta)
    with warnings.catch_warnings():
        # A printed algorithm says each time that it leaks, and a table is fitted often. Both are meant here.
        for own in (LeakWarning, RepeatedFitWarning, UnitWarning):
            warnings.simplefilter("ignore", own)
        return claim.estimator(pair.schema, pair.n_trees, pair.max_depth).fit(*table)


def succeeded(rows: np.ndarray) -> np.ndarray:
    """A mask of the fits that gave a model."""
    return rows[:, 0] == NO_ERROR


def _joined(subject: Subject, pair: Pair, chunks: list[tuple[np.ndarray, dict[str, dict[float, str]]]]) -> Observations:
    columns = tuple(
        Column(name, None if labels is None else {k: v for _, found in chunks for k, v in found[name].items()})
        for name, labels in _Reader(subject, pair).columns.items()
    )
    rows, half = [values for values, _ in chunks], len(chunks) // 2
    return Observations(columns, np.concatenate(rows[:half]), np.concatenate(rows[half:]))


def _fits(subject: Subject, pair: Pair, larger: bool, n_fits: int) -> tuple[np.ndarray, dict[str, dict[float, str]]]:
    """The numbers of some fits on one table of a pair, and the words for the values that were met."""
    reader, table = _Reader(subject, pair), pair.tables()[larger]
    rows = np.full((n_fits, len(reader.columns)), np.nan)
    for row in rows:
        try:
            fitted = fit(subject, pair, table)
        except Exception as error:  # whether a fit fails, and how, is public too
            row[0] = reader.label("fit", type(error).__name__, "fails with " + type(error).__name__)
        else:
            row[:] = reader.read(fitted)
    return rows, {name: labels for name, labels in reader.columns.items() if labels is not None}


class _Reader:
    """Reads the numbers of all columns off a released forest."""

    def __init__(self, subject: Subject, pair: Pair) -> None:
        # The record that makes the difference, as columns of one value.
        self.record = read_columns(pair.tables()[1][0][-1:], pair.schema)
        self.parts = _parts(pair)
        # Papers mean real numbers: that floats stand for them is not a flaw of what they print.
        self.sees_bits = subject.variant != "published"
        parts = list(self.parts)
        # Counts of nodes times this are those of the parts.
        self.weights = np.array(list(self.parts.values()), dtype=float).T
        # The labels of a column, by their numbers; None if it has none.
        self.columns: dict[str, dict[float, str] | None] = {"fit": {NO_ERROR: "succeeds"}, "number of nodes": None}
        for tree in TREES:
            self.columns |= {f"root{tree}": {NO_SPLIT: "is a leaf"}, f"split of the root{tree}": {NO_SPLIT: "is none"}}
            self.columns |= {f"cut of the root{tree}": None, f"records at the root{tree}": None}
            self.columns |= {f"count of {part} at the root{tree}": None for part in parts}
            self.columns |= {f"count of {part} at the record's leaf{tree}": None for part in parts}
            if self.sees_bits:
                self.columns |= {f"finest bit of the count of {part} at the record's leaf{tree}": None for part in parts}
        self.columns |= {f"count of {part} at the record's leaves, summed": None for part in parts}
        self.columns |= {f"count of {part} at the record's leaf, less that at its twin": None for part in parts}
        self.columns |= {f"predicted share of {part}": None for part in parts}
        self.is_search = isinstance(subject, SearchSubject)
        if self.is_search:
            self.columns |= {CANDIDATE: {}, "score of the best run": None}

    def label(self, column: str, value: str, words: str) -> float:
        """The number that stands for a value of a column, the same in all processes."""
        number = float(zlib.crc32(value.encode()))
        labels = self.columns[column]
        assert labels is not None
        labels[number] = words
        return number

    def read(self, fitted: Any) -> np.ndarray:
        """The numbers of all columns, of an estimator or of a search."""
        if not self.is_search:
            return self._read(fitted.forest_)
        chosen = self.label(CANDIDATE, repr(fitted.best_params_), f"is {fitted.best_params_}")
        return np.append(self._read(fitted.best_estimator_.forest_), [chosen, fitted.best_score_])

    def _read(self, forest: Forest) -> np.ndarray:
        codes = encode(self.record, forest.domain)
        leaves = forest.leaves(codes)[:, 0].tolist()
        counts = forest.counts @ self.weights
        seen: list[Any] = [[NO_ERROR, forest.n_nodes]]
        for root, tree in enumerate(TREES):
            seen.append(self._tree(forest, counts, root, leaves[root], tree) if root < forest.n_trees else self._no_tree())
        twin = _twin(forest, leaves[0])
        seen.append(counts[leaves].sum(axis=0))
        seen.append(counts[leaves[0]] - counts[twin] if twin is not None else np.full(len(self.parts), np.nan))
        seen.append(np.round(forest.predict(codes)[0] @ self.weights, SHARE_DIGITS))
        return np.concatenate(seen)

    def _tree(self, forest: Forest, counts: np.ndarray, root: int, leaf: int, tree: str) -> np.ndarray:
        split = [NO_SPLIT, NO_SPLIT, np.nan] if forest.is_leaf[root] else self._split(forest, root, tree)
        bits: Any = finest_bits(counts[leaf]) if self.sees_bits else []
        return np.concatenate([split, [counts[root].sum()], counts[root], counts[leaf], bits])

    def _no_tree(self) -> np.ndarray:
        return np.full(4 + (2 + self.sees_bits) * len(self.parts), np.nan)

    def _split(self, forest: Forest, root: int, tree: str) -> list[float]:
        """The feature, the route and, of a numeric feature, the first cut of the split at a root."""
        feature, domain = int(forest.features[root]), forest.domain
        labels = self.columns[f"root{tree}"]
        assert labels is not None
        labels[float(feature)] = f"splits on {domain.names[feature]!r}"
        route = forest.route(root)
        if domain.is_numeric[feature]:
            steps = np.flatnonzero(np.diff(route[:-1]))
            return [float(feature), NO_SPLIT, float(domain.cuts[feature][steps[0]]) if len(steps) else np.nan]
        words = f"has {domain.describe(feature, route == route[0])} in one child"
        return [float(feature), self.label(f"split of the root{tree}", f"{feature} {route.tolist()}", words), np.nan]


def _parts(pair: Pair) -> dict[str, np.ndarray]:
    """Names of the counts that are read, and which target values each sums: every class, or the record's and all others."""
    target = pair.schema.target
    if not isinstance(target, Classes):
        return dict(zip(("the low part", "the high part"), np.eye(2), strict=True))
    labels = list(target.labels)
    if len(labels) <= MOST_CLASSES:
        return {f"class {label}": row for label, row in zip(labels, np.eye(len(labels)), strict=True)}
    own = np.array([label == pair.extra[-1] for label in labels])
    return {f"class {pair.extra[-1]}": own, "other classes": ~own}


def _twin(forest: Forest, leaf: int) -> int | None:
    """The leaf with the same index among those of the second tree, if any: noise that trees share is the same in both."""
    own, others = (np.flatnonzero(forest.is_leaf & (forest.trees == tree)) for tree in (0, 1))
    index = int(np.searchsorted(own, leaf))
    return int(others[index]) if index < len(others) else None


def finest_bits(values: np.ndarray) -> np.ndarray:
    """The exponent of the lowest bit that is set in each value, 0 for whole numbers.

    Noise in floating point is finer the smaller it is, and adding it to a count rounds it to what the count leaves room
    for, so fine bits tell that the count was 0 [mironov2012].
    """
    mantissas, exponents = np.frexp(values)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(float))[1] - 1
    return np.where(whole == 0, 0, np.minimum(exponents - 53 + lowest, 0)).astype(float)
