"""What a backend must answer. Rows stay inside; only sealed integers leave."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from dpforest.domain import Domain
from dpforest.mechanisms import Entropy
from dpforest.privacy.sealed import Sealed
from dpforest.schema import Schema, Target
from dpforest.tree import Forest


class Counter(Protocol):
    """Encoded records that can be counted; implementations agree to the last unit."""

    domain: Domain
    target: Target
    code_unit: int  # the most that a record adds to the cells of one feature in ``count_codes``
    node_unit: int  # and to those of ``count_nodes``

    @property
    def code_width(self) -> int:
        """Integers that describe the records of a cell in ``count_codes``."""

    def deal(self, draw: Callable[[int], tuple[np.ndarray, np.ndarray]]) -> None:
        """Place every record at the roots of its trees."""

    def count_codes(self, first: int, wanted: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed statistics ``(n_nodes, total_codes, width)`` of the nodes from ``first``."""

    def count_nodes(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed statistics ``(n_nodes, width)`` of the nodes from ``first``."""

    def descend(self, first: int, features: np.ndarray, routes: np.ndarray, first_children: np.ndarray) -> None:
        """Follow the released splits of the nodes from ``first``."""

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[Counter, Counter]":
        """Two parts of the records, by a coin for each: those to train on, and ``share`` of them held out."""

    def count_errors(self, forest: Forest, ensembles: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed number of records ``(n_ensembles,)`` that the majority of each ``(n_ensembles, n_trees)`` gets wrong."""

    def deal_by_errors(self, forest: Forest, n_trees: int, entropy: Entropy) -> None:
        """Place records at the roots of new trees with the probability that a tree of ``forest`` gets them wrong."""

    def start_scores(self) -> None:
        """Every record has a score of 0 for each class (or, for a bounded target, a prediction of 0)."""

    def add_scores(self, values: np.ndarray) -> None:
        """Add the released ``values`` ``(n_nodes, n_scores)`` of the leaf that each record has reached to its scores."""

    def weigh_residuals(self) -> None:
        """From now on a record counts by how wrong its scores are."""

    def sum_residuals(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed sums ``(n_nodes, n_classes + 1)`` of residuals and of weights."""

    def look(self, low: int, high: int) -> None:
        """See a bounded target between two steps of its fine grid."""

    def look_at_residuals(self, half_width: int) -> None:
        """See what is left of a bounded target, around its scores."""

    def count_values(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed numbers of records ``(n_nodes, TARGET_STEPS + 1)`` for each step of a bounded target."""

    def turn_around(self, first: int, centres: np.ndarray, reach: int) -> None:
        """Records count as below or above the released centre of their node, by their distance."""


class Source(Protocol):
    """A table that is checked against its schema and not yet encoded."""

    schema: Schema

    def count(self) -> Sealed[np.ndarray]:
        """The sealed number of records, shape ``(1,)``."""

    def encode(self, domain: Domain, progress: Callable[[str], None] = lambda step: None) -> Counter:
        """Its records as codes."""

    def rows(self) -> Sealed[Any]:
        """Its sealed rows, for printed algorithms that open them; see ``published.base.Rows``."""

    def close(self) -> None:
        """Leave nothing behind where the rows are, however the fit ended."""
