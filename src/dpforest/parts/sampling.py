"""Samplings: which trees a record belongs to, and how the losses of trees add up. Sees public values and the ledger."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from dpforest.parts.part import Part
from dpforest.privacy.accountants import Accountant
from dpforest.privacy.amounts import divide_evenly
from dpforest.privacy.events import Purpose
from dpforest.privacy.ledger import Ledger
from dpforest.records.base import AllTrees, Assignment, OneTree, Poisson


class Sampling(Part, Protocol):
    """A rule for which trees a record belongs to, with a proof of how the losses of the trees add up."""

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
