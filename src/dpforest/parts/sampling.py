"""Samplings: the records of each tree, and how losses of trees add up. Sees public values and the ledger."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dpforest.errors import ParameterError, shown
from dpforest.parts.part import Part
from dpforest.parts.shape import Facts
from dpforest.privacy.accountants import Accountant
from dpforest.privacy.amounts import divide_evenly
from dpforest.privacy.amplification import SHARE_STEPS
from dpforest.privacy.events import Purpose
from dpforest.privacy.ledger import Ledger
from dpforest.records.base import AllTrees, Assignment, OneTree, Poisson

# The records that a plan can use: so many of each class (of two, if there are fewer), or in all for a number.
ROWS_OF_CLASS, ROWS_OF_NUMBER = 1_000_000, 2_000_000
# A sample is drawn if the table has so many times these rows: below, it would save little.
WORTHWHILE = 1.25


class Sampling(Part, Protocol):
    """A rule that assigns records to trees, with a proof of how the trees' losses compose."""

    def amount_per_tree(self, accountant: Accountant, amount: float, n_trees: int) -> float:
        """The amount that one tree may spend if all trees together may spend ``amount``, both in the accountant's unit."""

    def scopes(self, ledger: Ledger, n_trees: int) -> AbstractContextManager[None]:
        """A context in which charges are entered once, for one tree, and count for all trees."""

    def assignment(self, n_trees: int) -> Assignment:
        """What the backend is to draw for each record: one tree, all trees, or a number of copies in each."""


@dataclass(frozen=True)
class Disjoint(Sampling):
    """Each record goes to one tree, drawn for that record alone.

    Privacy:
        Claim: a forest costs what its dearest tree costs.
        Because: given the draws, an added record changes the records of one tree only, and the draw
            of a record does not depend on other records (never by position or in equal parts, which
            would move other records between trees). Parallel composition.
        Assumes: ``n_trees`` is public; draws are exact.
    """

    def amount_per_tree(self, accountant: Accountant, amount: float, n_trees: int) -> float:
        return amount

    @contextmanager
    def scopes(self, ledger: Ledger, n_trees: int) -> Iterator[None]:
        with ledger.scope(Purpose("disjoint trees", n_trees=n_trees), "parallel"), ledger.scope("each tree"):
            yield

    def assignment(self, n_trees: int) -> OneTree:
        return OneTree(n_trees)


@dataclass(frozen=True)
class EveryRecord(Sampling):
    """Each tree sees all records.

    Privacy:
        Claim: a forest costs the sum of its trees.
        Because: sequential composition; trees of one level are asked together, which changes no law.
        Assumes: ``n_trees`` is public.
    """

    def amount_per_tree(self, accountant: Accountant, amount: float, n_trees: int) -> float:
        return divide_evenly(amount, n_trees)

    @contextmanager
    def scopes(self, ledger: Ledger, n_trees: int) -> Iterator[None]:
        with ledger.scope("each tree" if n_trees > 1 else "tree", copies=n_trees):
            yield

    def assignment(self, n_trees: int) -> AllTrees:
        return AllTrees(n_trees)


@dataclass(frozen=True)
class PoissonBootstrap(Sampling):
    """Each tree sees each record k times, k ~ Poisson(1) drawn for that record and tree alone.

    Privacy:
        Claim: a tree that costs e on its sample costs exp(e) - 1 on the records; trees add up.
        Because: given k, an added record is a group of k: loss k*e. Averaging over k, which is secret,
            probabilities change by at most E[exp(k e)] = exp(exp(e) - 1). The drawn k is never above
            the Poisson draw of the same word (cut at 15, table rounded up), and the bound grows with k.
        Assumes: pure epsilon; draws come from the operating system and stay secret.
    """

    def amount_per_tree(self, accountant: Accountant, amount: float, n_trees: int) -> float:
        return accountant.inside_bootstrap(divide_evenly(amount, n_trees))

    @contextmanager
    def scopes(self, ledger: Ledger, n_trees: int) -> Iterator[None]:
        with ledger.scope("each tree", copies=n_trees), ledger.scope("Poisson bootstrap", "bootstrap"):
            yield

    def assignment(self, n_trees: int) -> Poisson:
        return Poisson(n_trees)


@dataclass(frozen=True)
class SecretSample(Part):
    """Poisson subsampling: each record (or protected person) takes part by a secret coin of its own.

    What is lost in records is won back in budget, so that a large table costs no more time than the sample. ``rows`` is how
    many records are wanted, or 0 for all; by default it is what the plan can use.

    Privacy:
        Claim: what is (e, d)-DP on the sample is (log(1 + q (exp(e) - 1)), q d)-DP on the table, with q the probability.
        Because: ``privacy.amplification``.
        Assumes: q is public or follows from released values; the coins are independent and stay secret, and all that is
            released after they are drawn is charged to a book of that share.
    """

    rows: float | None = None

    def __post_init__(self) -> None:
        if self.rows is None:
            return
        if isinstance(self.rows, bool) or not (self.rows == 0 or 1 <= self.rows < math.inf):
            raise ParameterError(f"sample_rows must be a number of at least 1, or 0 for all rows, not {shown(self.rows)}.")

    @property
    def is_asked(self) -> bool:
        """Whether somebody asked for a sample, and not the plan."""
        return bool(self.rows)

    @property
    def needs_rows(self) -> bool:
        return self.rows != 0

    def share(self, facts: Facts) -> Fraction:
        """The probability with which a record takes part."""
        wanted, least = self.rows, 1.0
        if wanted is None:
            wanted = ROWS_OF_NUMBER if facts.n_classes is None else ROWS_OF_CLASS * max(facts.n_classes, 2)
            least = WORTHWHILE
        if wanted == 0 or math.isinf(facts.epsilon) or facts.n_rows <= least * wanted:
            return Fraction(1)
        return Fraction(max(math.floor(SHARE_STEPS * wanted / facts.n_rows), 1), SHARE_STEPS)


ALL_ROWS = SecretSample(0)
