"""What a fit may ask of a table, and of its encoded records. Rows stay inside; only sealed values leave.

Who grows and releases forests knows this module of ``records`` and no other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from dpforest.common.work import Workers
from dpforest.forest.tree import Forest
from dpforest.mechanisms import Entropy
from dpforest.privacy.sealed import Sealed
from dpforest.schema import Bounded, Schema, Target
from dpforest.schema.domain import Domain

# The weight of a record about which the trees are as wrong as a guess, or worse. A weight takes one byte.
MOST_WEIGHT = 255
# 255 * classes**2 * 2**30 must fit 63 bits, see ``records.scores``.
MOST_CLASSES = 4096


@dataclass(frozen=True)
class OneTree:
    """The assignment of each record to one tree, all trees being equally likely, drawn for that record alone."""

    n_trees: int


@dataclass(frozen=True)
class AllTrees:
    """The assignment of each record to all trees, once."""

    n_trees: int


@dataclass(frozen=True)
class Poisson:
    """The assignment of each record to each tree k times, with k ~ Poisson(1) drawn for that record and tree alone."""

    n_trees: int


Assignment = OneTree | AllTrees | Poisson


class Counter(Protocol):
    """The encoded records of a fit, which can be counted.

    Statistics of a group of records are ``target.width`` integers: for classes a count of each, for a bounded target the
    sums of 1, z and z**2. A record is at one node of each of its trees, first at the root.
    """

    domain: Domain
    target: Target
    workers: Workers  # threads of the trainer, which may work on what is opened by the gate or mapped while sealed
    most_per_feature: int  # the greatest weight of a record (of one copy, in a bootstrap) in ``count_codes``
    most_per_node: int  # the same in ``count_nodes``

    @property
    def code_width(self) -> int:
        """The number of integers in a cell of ``count_codes``: ``target.width``, if records count as they do in nodes.

        After ``weigh_distances`` it is 2, after ``spread_residuals`` the number of classes and 1.
        """

    def deal(self, assignment: Assignment, entropy: Entropy) -> None:
        """Put every record at the roots of its trees, the nodes 0 .. n_trees-1, with a weight of 1 for each time."""

    def count_codes(self, first: int, wanted: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed histograms ``(n_nodes, total_codes, code_width)``: statistics by code of the nodes from ``first``.

        ``wanted`` ``(n_nodes, n_features)`` says which features a node may split on; the cells of others stay 0.
        """

    def count_nodes(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed statistics ``(n_nodes, target.width)`` of the nodes from ``first``."""

    def descend(self, first: int, features: np.ndarray, routes: np.ndarray, first_children: np.ndarray) -> None:
        """Move each record at one of the nodes from ``first`` to the child that the released split of its node gives.

        Arrays are over these nodes; a feature of -1 means that the node is not split, and its records stay.
        """

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[Counter, Counter]":
        """Two counters, by a coin for each record: of those to train on, and of the share ``share`` that is held out.

        Privacy: given the coins an added record is in one part only, and its coin does not depend on other records. So what
        is asked of the two parts composes in parallel.
        """

    def deal_by_errors(self, forest: Forest, n_trees: int, entropy: Entropy) -> None:
        """Put each record at the root of each of ``n_trees`` new trees, with a weight of 1 or 0 that is drawn for each.

        The probability of 1 is the share of the trees of ``forest`` that are wrong about the record.

        Privacy: whether a record takes part is a function of that record, of its own coins and of released trees.
        """

    def weigh_distances(self, first: int, centres: np.ndarray, reach: int) -> None:
        """Make ``count_codes`` count two classes: records with a target at most, or above, the centre of their node.

        A record then counts with a weight in 0 .. MOST_WEIGHT in proportion to its distance from the released centre, which
        is capped at ``reach`` steps. ``centres`` ``(n_nodes,)`` are of the nodes from ``first``.

        Privacy: side and weight are functions of the record, of its node and of released centres.
        """

    def start_scores(self) -> None:
        """Set the scores of every record to 0: one for each class or, for a bounded target, a single prediction."""

    def add_scores(self, values: np.ndarray) -> None:
        """Add the released ``values`` ``(n_nodes, n_scores)`` of the leaf that each record has reached to its scores."""

    def add_by_code(self, features: Sequence[int], values: Sequence[np.ndarray]) -> None:
        """Add to each record's scores the released ``values[k]`` ``(n_codes, n_scores)`` of its code of ``features[k]``.

        All of them are added before scores are kept within their range.
        """

    def divide(self, n_batches: int, entropy: Entropy) -> None:
        """Put each record into one of ``n_batches`` batches, all equally likely; see ``take_turn``.

        Privacy: the batch of a record is drawn for that record alone. So what is asked of different batches composes in
        parallel.
        """

    def take_turn(self, batch: int | None) -> None:
        """Make counts about the records of one batch, or of all records for None; deal them to a tree after that.

        Nevertheless all records descend, and their scores are added to. Weights, residuals and windows are those of the
        records in turn. Released trees are judged by all records.
        """

    def weigh_residuals(self) -> None:
        """Give each record a weight in 0 .. MOST_WEIGHT, by how wrong its scores are about its class.

        Privacy: a weight is a function of the record's class and of released votes, so an added record changes no other's.
        """

    def spread_residuals(self) -> None:
        """Make ``count_codes`` sum what ``sum_residuals`` does, ``n_classes + 1`` integers, until records are dealt again.

        Privacy: as ``weigh_residuals``. A record adds whole numbers: g in 0 .. MOST_WEIGHT for its class, others of at most
        0 that sum to -g, and a weight in g .. MOST_WEIGHT.
        """

    def sum_residuals(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed sums ``(n_nodes, n_classes + 1)`` of residuals by class and of weights (``parts.leaves.ResidualSums``)."""

    def count_leads(self, width: int, n_bins: int) -> Sealed[np.ndarray]:
        """Sealed numbers of records ``(n_bins, n_classes)`` of each class, by how far its score leads those of the others.

        Bins are ``width`` steps wide, as many for leads below 0 as for others; the first and the last have no end.
        """

    def set_residual_window(self, half_width: int) -> None:
        """Replace the target that is counted by what is left of a bounded target when its score is subtracted.

        What is left is clipped to ``half_width`` fine steps of the range on either side of 0, and put on the target grid.

        Privacy: what is counted of a record is a function of that record and of released votes.
        """

    def count_values(self, first: int, n_nodes: int) -> Sealed[np.ndarray]:
        """Sealed histograms ``(n_nodes, TARGET_STEPS + 1)`` of a bounded target: the records of a node at each step."""

    def count_errors(self, forest: Forest, ensembles: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed numbers of records ``(n_ensembles,)`` for which the majority vote of each ensemble is wrong.

        ``ensembles`` ``(n_ensembles, n_trees)`` is a mask of the trees of each ensemble.
        """


class SealedTable(Protocol):
    """A table that was checked against its schema and is not yet encoded; what it answers is sealed."""

    schema: Schema
    # Whether all that is asked of it is charged to one book of a ledger, as in a run of a private search. No secret sample
    # is drawn then, which would have a book of its own.
    in_one_book: bool

    def count(self) -> Sealed[np.ndarray]:
        """The sealed number of records, shape ``(1,)``."""

    def count_around(self, domain: Domain, centres: Mapping[int, float]) -> Sealed[np.ndarray]:
        """Sealed numbers of records ``(len(centres), N_BINS + 1)`` in each bin around the centres of some features.

        Bins are those of ``schema.grid``; the last number is of missing values. Values are clipped to the bounds.
        """

    def count_targets(self, edges: np.ndarray) -> Sealed[np.ndarray]:
        """Sealed numbers of records ``(n_edges + 1,)`` whose bounded target has 0, 1, … of the public edges at or below it.

        Edges increase. Records with a missing target are left out.
        """

    def narrowed(self, target: Bounded) -> "SealedTable":
        """The same records (also those that were drawn of each person), with the target read within another range.

        Close the table that it came from, not this one.
        """

    def sampled(self, share: Fraction, entropy: Entropy) -> "SealedTable":
        """A secret sample: each record (each person, if persons are protected) is kept with this probability.

        Close the table that it came from, not this one.

        Privacy: a record (a person) is kept with probability at most ``share``, by a coin that depends on no other and stays
        secret; all answers are about one sample (see ``privacy.amplification``).
        """

    def count_texts(self, name: str) -> Sealed[dict[str, int]]:
        """The sealed number of records of each text that occurs in a column, by the rule of ``records.categories``.

        Values that are missing or have no text are not counted.
        """

    def encode(self, domain: Domain) -> Counter:
        """A counter of its records, each value as the code that ``domain`` gives it."""

    def close(self) -> None:
        """End the connection with where the rows are, however the fit ended."""

    def hold_out(self, share: float, entropy: Entropy) -> "tuple[SealedTable, SealedTable]":
        """Two tables ``in_one_book``, of the records to train on and of those held out; see ``Counter.hold_out``.

        Close the table that they came from after them.
        """

    def hits(self, forest: Forest) -> Sealed[np.ndarray]:
        """Sealed sums ``(1, 2)`` of hits and misses of a released forest on these records; see ``tally_hits``."""
