"""What a backend must answer, and what it may offer beside. Rows stay inside; only sealed integers leave.

The rest of the library knows this module of ``records`` and no other.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from dpforest.errors import ParameterError
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.privacy.sealed import Sealed
from dpforest.schema import Schema, Target
from dpforest.schema.domain import Domain

# The weight of a record that the trees are as wrong about as a guess, or worse. One byte a record.
MOST_WEIGHT = 255
# 255 * classes**2 * 2**30 must fit 63 bits, see ``records.residuals``.
MOST_CLASSES = 4096


@dataclass(frozen=True)
class OneTree:
    """Each record is in one of the trees, all as likely, drawn for that record alone."""

    n_trees: int


@dataclass(frozen=True)
class AllTrees:
    """Each record is in all trees, once."""

    n_trees: int


@dataclass(frozen=True)
class Poisson:
    """Each record is in each tree k times, k ~ Poisson(1) drawn for that record and tree alone."""

    n_trees: int


Assignment = OneTree | AllTrees | Poisson


@dataclass(frozen=True)
class Rows:
    """An opened table.

    ``columns`` has floats for a numeric feature (NaN where missing) and indices in the category list for a categorical one
    (the next two places for "other" and missing). ``target`` has indices in the class list, or numbers in [0, 1] for a
    bounded target, scaled by its public bounds.
    """

    columns: tuple[np.ndarray, ...]
    target: np.ndarray
    schema: Schema

    @property
    def n_rows(self) -> int:
        return len(self.target)

    @property
    def n_classes(self) -> int:
        return self.schema.target.n_values

    def take(self, rows: np.ndarray) -> "Rows":
        """Some rows, by index or by mask."""
        return Rows(tuple(column[rows] for column in self.columns), self.target[rows], self.schema)

    def class_counts(self) -> np.ndarray:
        """Exact class counts."""
        return np.bincount(self.target, minlength=self.n_classes)


class Counter(Protocol):
    """Encoded records that can be counted: what every backend does. Implementations agree to the last unit."""

    domain: Domain
    target: Target
    most_per_feature: int  # the most that a record adds to the cells of one feature in ``count_codes``
    most_per_node: int  # and to those of ``count_nodes``

    @property
    def code_width(self) -> int:
        """Integers that describe the records of a cell in ``count_codes``."""

    def deal(self, assignment: Assignment, entropy: Entropy) -> None:
        """Place every record at the roots of its trees, the nodes 0 .. n_trees-1. ``Poisson`` is for ``Weighted`` ones."""

    def count_codes(self, first: int, wanted: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed statistics ``(n_nodes, total_codes, width)`` of the nodes from ``first``.

        ``wanted`` ``(n_nodes, n_features)`` says which features a node may split on; the cells of others stay 0.
        """

    def count_nodes(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed statistics ``(n_nodes, width)`` of the nodes from ``first``."""

    def descend(self, first: int, features: np.ndarray, routes: np.ndarray, first_children: np.ndarray) -> None:
        """Follow the released splits of the nodes from ``first``."""

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[Counter, Counter]":
        """Two parts of the records, by a coin for each: those to train on, and ``share`` of them held out.

        Privacy: given the coins an added record is in one part only, and its coin does not depend on other records. So what
        is asked of the two parts composes in parallel.
        """


@runtime_checkable
class Weighted(Protocol):
    """Records that can count with a weight of their own, drawn or by distance; ``deal`` takes ``Poisson`` too."""

    def deal_by_errors(self, forest: Forest, n_trees: int, entropy: Entropy) -> None:
        """Place records at the roots of new trees with the probability that a tree of ``forest`` gets them wrong.

        Privacy: whether a record takes part is a function of that record, of its own coins and of released trees.
        """

    def weigh_distances(self, first: int, centres: np.ndarray, reach: int) -> None:
        """Records count as below or above the released centre of their node, by their distance, capped at ``reach`` steps.

        Privacy: side and weight are functions of the record, of its node and of released centres.
        """


@runtime_checkable
class Scored(Protocol):
    """Records that can keep scores, the sums of released votes; one tree at a time."""

    def start_scores(self) -> None:
        """Every record has a score of 0 for each class (or, for a bounded target, a prediction of 0)."""

    def add_scores(self, values: np.ndarray) -> None:
        """Add the released ``values`` ``(n_nodes, n_scores)`` of the leaf that each record has reached to its scores."""

    def weigh_residuals(self) -> None:
        """From now on a record counts by how wrong its scores are: 0 .. MOST_WEIGHT.

        Privacy: a weight is a function of the record's class and of released votes, so an added record changes no other's.
        """

    def sum_residuals(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed sums ``(n_nodes, n_classes + 1)`` of residuals and of weights, see ``leaves.residual_sums``."""

    def set_residual_window(self, half_width: int) -> None:
        """See what is left of a bounded target: within ``half_width`` fine steps of the window around its scores.

        Privacy: what is seen of a record is a function of that record and of released votes.
        """


@runtime_checkable
class Windowed(Protocol):
    """Records whose bounded target can be seen within a window."""

    def set_window(self, low: int, high: int) -> None:
        """See a bounded target between two steps of its fine grid; values outside are clipped."""

    def count_values(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed numbers of records ``(n_nodes, TARGET_STEPS + 1)`` for each step of a bounded target."""


@runtime_checkable
class Judged(Protocol):
    """Records by which released trees can be judged."""

    def count_errors(self, forest: Forest, ensembles: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed number of records ``(n_ensembles,)`` that the majority of each ``(n_ensembles, n_trees)`` gets wrong."""


class Source(Protocol):
    """A table that is checked against its schema and not yet encoded."""

    schema: Schema

    @property
    def counter(self) -> type[Counter]:
        """What ``encode`` will give: its type tells beforehand what can be asked."""

    @property
    def gaps(self) -> Mapping[type, str]:
        """For each protocol that neither the source nor its counter has: why, and what to do."""

    def count(self) -> Sealed[np.ndarray]:
        """The sealed number of records, shape ``(1,)``."""

    def encode(self, domain: Domain, progress: Callable[[str], None] = lambda step: None) -> Counter:
        """Its records as codes."""

    def close(self) -> None:
        """Leave nothing behind where the rows are, however the fit ended."""


@runtime_checkable
class Openable(Protocol):
    """A source whose rows can be handed out."""

    def rows(self) -> Sealed[Rows]:
        """Its sealed rows, for printed algorithms that open them."""


# What a fit asks for by each protocol, in the words of a refusal.
ASKED: dict[type, str] = {
    Weighted: "records with weights of their own",
    Scored: "trees one after the other, with scores of records",
    Windowed: "a bounded target within a window",
    Judged: "released trees judged by held-out records",
    Openable: "the rows themselves, which printed algorithms open",
}
# All that a recipe can need of a counter.
CAPABILITIES = (Weighted, Scored, Windowed, Judged)


def check_support(source: Source, needs: Iterable[type], asker: str) -> None:
    """Raise if a source does not offer what is needed; it is closed then. Call it before anything is charged."""
    offered = (type(source), source.counter)
    lacking = [need for need in needs if not any(issubclass(kind, need) for kind in offered)]
    if lacking:
        source.close()
        asked = " and ".join(ASKED[need] for need in lacking)
        raise ParameterError(f"{asker} asks for {asked}. {' '.join(dict.fromkeys(source.gaps[need] for need in lacking))}")
