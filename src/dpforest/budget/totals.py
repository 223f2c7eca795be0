"""What releases cost and add up to, the cap on it, and the account of what is spent and reserved. Sees charges only."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from typing import NamedTuple

from dpforest.errors import AccountingError, ParameterError
from dpforest.privacy.accountants import (
    ROUNDING,
    SMALLEST,
    best_orders,
    log_delta_at,
    log_of,
    make_accountant,
    zcdp_epsilon,
    zcdp_rho,
)
from dpforest.privacy.amounts import exact, round_down, round_up
from dpforest.privacy.ledger import Ledger

CLOSE = 1e-9
Exact = Fraction | float  # a fraction, or infinity


@dataclass(frozen=True)
class Loss:
    """What a release costs, both ways: ``epsilon`` (infinite if it is not pure) and ``rho`` of zCDP.

    ``divergence`` is its Rényi divergence of an ``order``, where that is known to be less than the others tell (of a private
    search with delta), else infinite. As everywhere in the accounting the floats stand for their decimals
    (``amounts.exact``).
    """

    epsilon: float
    rho: float
    divergence: float = math.inf
    order: float = 0.0

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and self.rho >= 0 and self.divergence >= 0):
            raise AccountingError(f"A loss is at least 0, not epsilon = {self.epsilon!r} and rho = {self.rho!r}.")

    @classmethod
    def pure(cls, epsilon: float) -> "Loss":
        """The loss of an epsilon-DP release.

        It is epsilon**2/2-zCDP [bun2016]; its Rényi divergences are at most epsilon, so it is epsilon-zCDP as well.
        """
        if math.isinf(epsilon):
            return cls(math.inf, math.inf)
        loss = exact(epsilon)
        return cls(epsilon, round_up(min(loss * loss / 2, loss)))

    @classmethod
    def of_ledger(cls, ledger: Ledger) -> "Loss":
        """The loss of all charges of a ledger: the sum over its books, for its unit of privacy.

        That of a private search follows from its parameters instead, see ``fits.loss_of_search``.
        """
        if ledger.selection is not None:
            raise AccountingError("The best of several runs is not zCDP with the rho that its ledger states at its delta.")
        total = cls(0.0, 0.0)
        for book in ledger.books:
            accountant = book.accountant
            if accountant.unit == "epsilon":
                total += cls.pure(accountant.of_unit(book.total))
            elif book.total > 0:
                total += cls(math.inf, accountant.of_unit(book.total))
        return total

    def __add__(self, other: "Loss") -> "Loss":
        return Loss(_sum(self.epsilon, other.epsilon), _sum(self.rho, other.rho))

    def within(self, other: "Loss") -> bool:
        """Whether it is no larger than another loss, neither in epsilon nor in rho, nor in its divergence."""
        known = self.divergence <= other.divergence and self.order >= other.order
        return self.epsilon <= other.epsilon and self.rho <= other.rho and known


def _sum(a: float, b: float) -> float:
    return math.inf if math.inf in (a, b) else round_up(exact(a) + exact(b))


class Sums(NamedTuple):
    """Exact sums over releases: epsilon, rho, and the Rényi divergence of the cap's order."""

    epsilon: Exact
    rho: Exact
    divergence: Exact

    def plus(self, other: "Sums") -> "Sums":
        return Sums(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: "Sums") -> "Sums":
        return Sums(*(a - b for a, b in zip(self, other, strict=True)))


NOTHING = Sums(Fraction(0), Fraction(0), Fraction(0))


@dataclass(frozen=True)
class Cap:
    """The most that all releases from a data set may cost together.

    Privacy:
        Claim: releases whose sums ``admits`` accepts, also if what is released next depends on all that was released
            before, are together (``epsilon``, ``delta``)-DP.
        Because: of two rules one holds for the sums at the end. (1) The sum of epsilon is within the cap: then the
            probability of this transcript on one table is at most e**epsilon times that on its neighbour. (2) The sum of
            Rényi divergences of one order, fixed with the cap, is within ``divergence``: sums only grow, so it was at all
            times, and the transcript is one of a process that stops before the sum passes the bound. That process is a
            Rényi filter and has this divergence [feldman2021], hence is (epsilon, delta)-DP [canonne2020]. For a set S of
            transcripts, those of (1) in S have P <= e**epsilon Q, those of (2) P <= e**epsilon Q + delta; added up
            P(S) <= e**epsilon Q(S) + delta. A release that is rho-zCDP has divergence at most order * rho, one that is
            e-DP at most e, and of some it is known for this order or a higher one, which has no smaller divergence: the
            least of these counts. With the order that is best for rho-zCDP alone,
            (2) accepts all that zCDP composition accepts. There is one rule with a delta, so delta counts once.
            Losses, ``epsilon`` and ``delta`` are decimals (``amounts.exact``), added and compared as fractions; only
            ``divergence`` and ``order`` come out of arithmetic with floats, whose errors ``ROUNDING`` covers.
        Assumes: the losses of releases hold for whatever was released before them; all releases are in the sums.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        accountant = make_accountant(self.epsilon, self.delta)
        if math.isinf(accountant.epsilon):
            raise ParameterError("The cap of a budget must be a finite epsilon.")
        object.__setattr__(self, "epsilon", accountant.epsilon)
        object.__setattr__(self, "delta", accountant.delta)

    @property
    def order(self) -> float:
        """The order of the Rényi divergence that is added up: the best for one zCDP release of it all; 0 without delta."""
        return _order(self.epsilon, self.delta)

    @cached_property
    def divergence(self) -> Fraction:
        """The most that the Rényi divergences of all releases may sum to."""
        return Fraction(self.order) * exact(zcdp_rho(self.epsilon, self.delta)) if self.delta else Fraction(0)

    def sums(self, loss: Loss) -> Sums:
        """What a loss adds to each of the sums over releases."""
        amounts = (loss.epsilon, loss.rho, loss.divergence if self.order <= loss.order else math.inf)
        epsilon, rho, own = (amount if math.isinf(amount) else exact(amount) for amount in amounts)
        by_rho = rho if math.isinf(rho) else Fraction(self.order) * rho
        return Sums(epsilon, rho, min(epsilon, by_rho, own))

    def admits(self, sums: Sums) -> bool:
        return sums.epsilon <= exact(self.epsilon) or (self.delta > 0 and sums.divergence <= self.divergence)

    def stated(self, sums: Sums) -> float:
        """The sums as one epsilon at the delta of the cap, rounded up."""
        epsilon, rho, divergence = (x if isinstance(x, float) else round_up(x) for x in sums)
        ways = [epsilon]
        if self.delta and not math.isinf(divergence):
            # The epsilon that a divergence of this order has at delta, rounded up.
            parts = (-log_of(self.delta) / (self.order - 1), math.log1p(-1 / self.order))
            terms = (divergence, *parts, -math.log(self.order) / (self.order - 1))
            ways.append(max(0.0, math.fsum(terms) + ROUNDING * math.fsum(map(abs, terms))))
        if self.delta and 0 < rho < math.inf:
            ways.append(zcdp_epsilon(rho, self.delta))
        return min(ways + [self.epsilon] * self.admits(sums)) + 0.0  # no negative zero


@lru_cache
def _order(epsilon: float, delta: float) -> float:
    """The Rényi order at which the largest rho of the cap keeps its delta."""
    if not delta:
        return 0.0
    rho = zcdp_rho(epsilon, delta)
    found = [order for order in best_orders(rho, epsilon) if log_delta_at(order, rho, epsilon) <= log_of(delta)]
    if not found:
        raise AccountingError(f"No Rényi order serves epsilon = {epsilon!r}, delta = {delta!r}.")
    return found[0]


class _Worst(NamedTuple):
    """The largest sums that a reservation can end with.

    ``finite`` is over outcomes with a finite epsilon and ``any`` over all; ``drop`` is by how much outcomes with an infinite
    epsilon stay below ``any``. None stands for no such outcome.
    """

    finite: Sums | None
    any: Sums
    drop: Sums | None


NO_MORE = _Worst(NOTHING, NOTHING, None)


class Account:
    """What a data set has spent and what is reserved, and whether one more release is within its cap.

    What a verdict needs of the open reservations is kept as they come and go, so it costs the same for any number of them.
    """

    def __init__(self, cap: Cap) -> None:
        self.cap = cap
        self.settled = NOTHING
        self.open: dict[int, _Worst] = {}
        self._finite = self._any = NOTHING
        self._n_never_pure = 0  # open reservations without an outcome of finite epsilon
        # Heaps of the drops in rho and in divergence with their numbers; of those that are settled none counts.
        self._drops: tuple[list[tuple[Exact, int]], ...] = [], []

    def reserve(self, number: int, outcomes: Sequence[Loss]) -> None:
        worst = self.open[number] = self._worst_of(outcomes)
        self._finite, self._any = self._finite.plus(worst.finite or NOTHING), self._any.plus(worst.any)
        self._n_never_pure += worst.finite is None
        if worst.drop is not None:
            for heap, drop in zip(self._drops, worst.drop[1:], strict=True):
                heappush(heap, (drop, number))

    def settle(self, number: int, loss: Loss) -> None:
        worst = self.open.pop(number)
        self._finite, self._any = self._finite.minus(worst.finite or NOTHING), self._any.minus(worst.any)
        self._n_never_pure -= worst.finite is None
        self.settled = self.settled.plus(self.cap.sums(loss))

    def admits(self, outcomes: Sequence[Loss]) -> bool:
        """Whether a release may begin that ends with any one of these losses."""
        return all(map(self.cap.admits, self._ends(self._worst_of(outcomes))))

    @property
    def spent(self) -> float:
        """One epsilon for all that is settled and the worst of what is reserved."""
        return max(map(self.cap.stated, self._ends()))

    @property
    def left(self) -> float:
        """The largest epsilon that one more release without delta may have, rounded down; 0 if it is too little for any."""
        cap = exact(self.cap.epsilon)
        taken = [end.epsilon for end in self._ends() if end.epsilon <= cap]
        plain = round_down(cap - Fraction(max(taken))) if taken else 0.0
        left = max(plain if self.admits([Loss.pure(plain)]) else 0.0, self._largest(Loss.pure, self.cap.epsilon))
        return left if left >= SMALLEST["epsilon"] else 0.0

    @property
    def rho_left(self) -> float:
        """The largest rho that one more zCDP release may have, rounded down; 0 without a delta."""
        if not self.cap.delta:
            return 0.0
        return self._largest(lambda rho: Loss(math.inf, rho), zcdp_rho(self.cap.epsilon, self.cap.delta))

    def _largest(self, loss: Callable[[float], Loss], most: float) -> float:
        """The largest amount whose loss fits, rounded down to a part in a billion of ``most``."""
        if self.admits([loss(most)]):
            return most
        low, high = 0.0, most
        while high - low > CLOSE * most:
            middle = (low + high) / 2
            low, high = (middle, high) if self.admits([loss(middle)]) else (low, middle)
        return low

    def _ends(self, more: _Worst = NO_MORE) -> list[Sums]:
        """The largest possible sums of the open reservations and one more: all pure, and with one with delta.

        Sums are at most these at every end, so the cap admits every end if it admits these.
        """
        ends = []
        if more.finite is not None and not self._n_never_pure:
            ends.append(self.settled.plus(self._finite).plus(more.finite))
        # Each column by itself: the least drop of all that may turn out not to be pure.
        new = (None, None) if more.drop is None else more.drop[1:]
        kept = map(self._least, self._drops)
        drops = [[x for x in pair if x is not None] for pair in zip(kept, new, strict=True)]
        if all(drops):
            rho, divergence = map(min, drops)
            rest = self.settled.plus(self._any).plus(more.any)
            ends.append(Sums(math.inf, rest.rho - rho, rest.divergence - divergence))
        return ends

    def _least(self, heap: list[tuple[Exact, int]]) -> Exact | None:
        """The least value in a heap whose reservation is open."""
        while heap and heap[0][1] not in self.open:
            heappop(heap)
        return heap[0][0] if heap else None

    def _worst_of(self, outcomes: Sequence[Loss]) -> _Worst:
        sums = [self.cap.sums(loss) for loss in outcomes]
        finite = [item for item in sums if item.epsilon < math.inf]
        # Of the others the epsilon is known to be infinite, and is left out of the sums.
        others = [item._replace(epsilon=Fraction(0)) for item in sums if item.epsilon == math.inf]
        largest = _largest([*finite, *others])
        return _Worst(_largest(finite) if finite else None, largest, largest.minus(_largest(others)) if others else None)


def left_with_delta(accounts: Sequence[Account]) -> float:
    """The largest epsilon of one more release, pure or zCDP, at the delta of the first cap, that all admit; rounded down."""
    cap, rho = accounts[0].cap, min(account.rho_left for account in accounts)
    if rho < SMALLEST["rho"]:
        return 0.0
    return min(*(account.left for account in accounts), cap.epsilon, zcdp_epsilon(rho, cap.delta) * (1 - CLOSE))


def _largest(sums: list[Sums]) -> Sums:
    return Sums(*(max(column) for column in zip(*sums, strict=True)))
