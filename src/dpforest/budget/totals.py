"""What releases cost and add up to, and the cap on it. Sees charges only."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

from dpforest.errors import AccountingError, ParameterError
from dpforest.privacy.accountants import (
    ROUNDING,
    best_orders,
    log_delta_at,
    log_of,
    make_accountant,
    zcdp_epsilon,
    zcdp_rho,
)
from dpforest.privacy.amounts import exact, round_up
from dpforest.privacy.ledger import Ledger

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
        """The loss of everything that a ledger has charged: the sum over its books, for the unit that it protects.

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

    @cached_property
    def order(self) -> float:
        """The order of the Rényi divergence that is added up: the best for one zCDP release of the whole cap.

        0, which counts nothing, without a delta.
        """
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
        ways = [_up(sums.epsilon)]
        if self.delta and not math.isinf(sums.divergence):
            ways.append(_renyi_epsilon(_up(sums.divergence), self.order, self.delta))
        if self.delta and 0 < sums.rho < math.inf:
            ways.append(zcdp_epsilon(_up(sums.rho), self.delta))
        return min(ways + [self.epsilon] * self.admits(sums)) + 0.0  # no negative zero


def _up(value: Exact) -> float:
    return value if isinstance(value, float) else round_up(value)


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


def _renyi_epsilon(divergence: float, order: float, delta: float) -> float:
    """The epsilon that a divergence of this order has at delta, rounded up."""
    terms = (divergence, -log_of(delta) / (order - 1), math.log1p(-1 / order), -math.log(order) / (order - 1))
    return max(0.0, math.fsum(terms) + ROUNDING * math.fsum(map(abs, terms)))
