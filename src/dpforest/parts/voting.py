"""Votes: what the leaf of one tree adds to the prediction for a record. Sees released values only.

A vote is a table ``(n_nodes, n_values)``; a prediction is the sum of the rows of the leaves that a record reaches, turned
into shares by the link of the forest. Privacy: none is at stake anywhere in this module; its input is released.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.parts.part import Part


class Vote(Part, Protocol):
    """A rule by which the released class shares and counts of the nodes become votes."""

    link: ClassVar[str] = "shares"  # how sums of votes become shares, see ``Forest``
    draws: ClassVar[bool] = False  # whether ``predict`` draws a label by the shares

    def votes(self, forest: Forest) -> np.ndarray:
        """Votes ``(n_nodes, n_values)``: what a record that ends at a node adds to the sum over trees."""


def _winner(shares: np.ndarray) -> np.ndarray:
    """An array of the shape of ``shares`` with 1 at the largest share of each node and 0 elsewhere."""
    return np.eye(shares.shape[1])[shares.argmax(axis=1)]


@dataclass(frozen=True)
class Majority(Vote):
    """One vote of each tree, for the commonest class of the leaf."""

    def votes(self, forest: Forest) -> np.ndarray:
        return _winner(forest.shares)


@dataclass(frozen=True)
class MeanOfShares(Vote):
    """The class shares of the leaf as votes; for a bounded target the prediction is the mean of leaf means."""

    def votes(self, forest: Forest) -> np.ndarray:
        return forest.shares


@dataclass(frozen=True)
class PooledMargins(Vote):
    """The class shares of the leaf times its number of records, so that large leaves weigh more."""

    def votes(self, forest: Forest) -> np.ndarray:
        sizes = np.maximum(forest.counts.sum(axis=1, keepdims=True), 0)
        return np.maximum(sizes, 1) * forest.shares


@dataclass(frozen=True)
class ConfidenceWeighted(Vote):
    """One vote for the commonest class of the leaf, weighted by its share."""

    def votes(self, forest: Forest) -> np.ndarray:
        return _winner(forest.shares) * forest.shares


@dataclass(frozen=True)
class MostConfidentNode(Vote):
    """The shares of the node with the largest share on the way from the root to the leaf."""

    def votes(self, forest: Forest) -> np.ndarray:
        votes = forest.shares.copy()
        for level in forest.level_slices()[1:]:
            above = votes[forest.parents[level]]
            better = above.max(axis=1) > votes[level].max(axis=1)
            votes[level] = np.where(better[:, None], above, votes[level])
        return votes


@dataclass(frozen=True)
class ProbabilisticAverage(MeanOfShares):
    """The class shares of the leaf as votes; ``predict`` draws a label by them instead of taking the largest."""

    draws: ClassVar[bool] = True


@dataclass(frozen=True)
class LogShares(Vote):
    """``rate`` times the logarithm of the class shares, centred: votes of additive trees, for two classes the log-odds."""

    rate: float = 1.0
    link: ClassVar[str] = "softmax"

    def votes(self, forest: Forest) -> np.ndarray:
        return self.of_shares(forest.shares)

    def of_shares(self, shares: np.ndarray) -> np.ndarray:
        """The votes of nodes with these class shares, both ``(n_nodes, n_classes)``."""
        logs = np.log(shares)
        votes = self.rate * (logs - logs.mean(axis=1, keepdims=True))
        return np.rint(SCORE_STEPS * votes) / SCORE_STEPS
