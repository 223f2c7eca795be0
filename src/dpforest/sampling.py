"""Samplings: which trees a record belongs to, and how the losses of trees add up."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import factorial
from typing import ClassVar, Protocol

import numpy as np
from numba import njit

from dpforest.mechanisms import Entropy
from dpforest.mechanisms.exact import draw_below, next_bits
from dpforest.privacy.accountants import Accountant
from dpforest.privacy.amounts import divide_evenly
from dpforest.privacy.ledger import Ledger


class Sampling(Protocol):
    """Places records at roots and says what a tree may spend."""

    kind: ClassVar[str]  # of the draw: "one" tree for each record, "all" trees, or all trees with "poisson" weights

    def share(self, accountant: Accountant, amount: float, n_trees: int) -> float:
        """What one tree may spend, in the accountant's unit, if all trees together may spend ``amount``."""

    def scopes(self, ledger: Ledger, n_trees: int) -> AbstractContextManager[None]:
        """Ledger scopes in which the charges of one tree stand for all."""

    def draw(self, n_records: int, n_trees: int, entropy: Entropy) -> tuple[np.ndarray, np.ndarray]:
        """Positions and weights, see ``records.kernels``; roots are the nodes 0 .. n_trees-1."""


NO_WEIGHTS = np.empty((0, 0), dtype=np.uint8)


@dataclass(frozen=True)
class Deal:
    """Places records at the roots of trees. A backend whose rows are elsewhere draws there, by the kind of the sampling."""

    sample: Sampling
    n_trees: int
    entropy: Entropy

    def __call__(self, n_records: int) -> tuple[np.ndarray, np.ndarray]:
        return self.sample.draw(n_records, self.n_trees, self.entropy)


@dataclass(frozen=True)
class Disjoint:
    """Each record goes to one tree, drawn for that record alone.

    Privacy:
        Claim: a forest costs what its dearest tree costs.
        Because: given the draws, an added record changes the records of one tree only, and the draw
            of a record does not depend on other records (never by position or in equal parts, which
            would move other records between trees). Parallel composition.
        Assumes: ``n_trees`` is public; draws are exact.
    """

    kind: ClassVar[str] = "one"

    def share(self, accountant: Accountant, amount: float, n_trees: int) -> float:
        return amount

    @contextmanager
    def scopes(self, ledger: Ledger, n_trees: int) -> Iterator[None]:
        with ledger.scope(f"{n_trees} disjoint trees", "parallel"), ledger.scope("each tree"):
            yield

    def draw(self, n_records: int, n_trees: int, entropy: Entropy) -> tuple[np.ndarray, np.ndarray]:
        roots = np.zeros((1, n_records), dtype=np.int32)
        if n_trees > 1:
            entropy.draw_for_records(draw_below, roots, n_trees)
        return roots, NO_WEIGHTS


@dataclass(frozen=True)
class EveryRecord:
    """Each tree sees all records.

    Privacy:
        Claim: a forest costs the sum of its trees.
        Because: sequential composition; trees of one level are asked together, which changes no law.
        Assumes: ``n_trees`` is public.
    """

    kind: ClassVar[str] = "all"

    def share(self, accountant: Accountant, amount: float, n_trees: int) -> float:
        return divide_evenly(amount, n_trees)

    @contextmanager
    def scopes(self, ledger: Ledger, n_trees: int) -> Iterator[None]:
        label = "each tree" if n_trees > 1 else "tree"
        with ledger.scope(label, "sequential", copies=n_trees):
            yield

    def draw(self, n_records: int, n_trees: int, entropy: Entropy) -> tuple[np.ndarray, np.ndarray]:
        roots = np.empty((n_trees, n_records), dtype=np.int32)
        roots[:] = np.arange(n_trees)[:, None]
        return roots, NO_WEIGHTS


@dataclass(frozen=True)
class PoissonBootstrap:
    """Each tree sees each record k times, k ~ Poisson(1) drawn for that record and tree alone.

    Privacy:
        Claim: a tree that costs e on its sample costs exp(e) - 1 on the records; trees add up.
        Because: given k, an added record is a group of k: loss k*e. Averaging over k, which is secret,
            probabilities change by at most E[exp(k e)] = exp(exp(e) - 1). The drawn k is never above
            the Poisson draw of the same word (cut at 15, table rounded up), and the bound grows with k.
        Assumes: pure epsilon; draws come from the operating system and stay secret.
    """

    kind: ClassVar[str] = "poisson"

    def share(self, accountant: Accountant, amount: float, n_trees: int) -> float:
        return accountant.inside_bootstrap(divide_evenly(amount, n_trees))

    @contextmanager
    def scopes(self, ledger: Ledger, n_trees: int) -> Iterator[None]:
        with ledger.scope("each tree", copies=n_trees), ledger.scope("Poisson bootstrap", "bootstrap"):
            yield

    def draw(self, n_records: int, n_trees: int, entropy: Entropy) -> tuple[np.ndarray, np.ndarray]:
        roots, _ = EveryRecord().draw(n_records, n_trees, entropy)
        weights = np.empty((n_trees, n_records), dtype=np.uint8)
        entropy.draw_for_records(draw_poisson, weights, POISSON_TABLE)
        return roots, weights


def _poisson_table() -> np.ndarray:
    """``table[k]`` is at least 2**64 P[Poisson(1) <= k]: a uniform word w stands for the number of entries <= w."""
    # 1/e from below and above by its alternating series; the upper one makes the table too high, so k too low.
    inverse_e = sum((Fraction((-1) ** k, factorial(k)) for k in range(31)), Fraction(0))
    below = Fraction(0)
    entries = []
    for k in range(15):
        below += inverse_e / factorial(k)
        entries.append(min(-(-(below.numerator << 64) // below.denominator), (1 << 64) - 1))
    return np.array(entries, dtype=np.uint64)


POISSON_TABLE = _poisson_table()
ALL_BITS = np.uint64((1 << 64) - 1)


@njit(cache=True, nogil=True)
def draw_poisson(words, cursor, first, table, weights):
    for item in range(first, weights.size):
        begin = cursor[0]
        word = next_bits(ALL_BITS, words, cursor)
        if cursor[1]:
            cursor[0], cursor[1] = begin, 0
            return item
        k = 0
        while k < table.size and word >= table[k]:
            k += 1
        weights[item] = k
    return weights.size
