"""The walk through a ledger: how costs of charges compose, and which share of the loss each has. Public values only.

No other module says how costs compose.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpforest.privacy.accountants import Accountant
from dpforest.privacy.amounts import exact, round_up
from dpforest.privacy.events import Charge, Entry, Leak, Scope

Cost = Fraction | float  # an exact fraction, or the float inf
# Costs of parallel scopes count as equal down to this ratio: they are equal by plan, and differ by rounding.
SAME = 1 - Fraction(1, 10**9)
ZERO = Fraction(0)


def joined(kind: str, costs: Iterable[Cost]) -> Cost:
    """What entries of a scope of this kind cost together: the largest cost if it is parallel, else the sum.

    Costs may be joined in several steps, the result of one being a cost of the next.
    """
    if kind == "parallel":
        return max(costs, default=Fraction(0))
    total = ZERO
    for cost in costs:
        if isinstance(cost, float):
            if math.isinf(cost):  # fractions are slow to compare, and to add
                return cost
            cost = Fraction(cost)
        if cost:
            total = total + cost if total else cost
    return total


def outside(scope: Scope, inside: Cost, accountant: Accountant) -> Cost:
    """What a scope costs in all if its entries cost ``inside`` together: after the bootstrap, times its copies."""
    if scope.kind == "bootstrap" and inside and not math.isinf(inside):
        inside = accountant.bootstrap(rounded(inside))
        inside = inside if math.isinf(inside) else exact(inside)
    return inside if scope.copies == 1 else scope.copies * inside


def rounded(cost: Cost) -> float:
    """The cost as a float, rounded up."""
    return cost if isinstance(cost, float) else round_up(cost)


def charged(entry: Entry, accountant: Accountant) -> Cost:
    """The cost of an entry without leaks (which are infinite); sums kept by a scope are not repeated."""
    if not isinstance(entry, Scope):
        return Fraction(0) if isinstance(entry, Leak) else _amount(entry)
    if entry.known is not None:
        return entry.known
    costs = (charged(child, accountant) for child in entry.children[entry.n_settled :])
    return outside(entry, joined(entry.kind, [entry.settled, *costs]), accountant)


def settle(scope: Scope, accountant: Accountant) -> None:
    """Add to the kept sum of a scope the costs of those first children that can no longer change."""
    while scope.n_settled < len(scope.children):
        child = scope.children[scope.n_settled]
        if isinstance(child, Scope) and child.known is None:
            return
        scope.settled = joined(scope.kind, [scope.settled, charged(child, accountant)])
        scope.n_settled += 1


def entries(scope: Scope, above: tuple[Scope, ...] = ()) -> Iterator[tuple[tuple[Scope, ...], Charge | Leak]]:
    """Charges and leaks, each with the scopes around it, the outermost first."""
    above = (*above, scope)
    for child in scope.children:
        if isinstance(child, Scope):
            yield from entries(child, above)
        else:
            yield above, child


def scopes(scope: Scope) -> Iterator[Scope]:
    """The scope itself and all scopes inside it, each before those that it holds."""
    yield scope
    for child in scope.children:
        if isinstance(child, Scope):
            yield from scopes(child)


@dataclass
class Priced:
    """An entry with its cost and share of the whole loss; scopes include their entries likewise."""

    entry: Entry
    cost: Cost
    parts: "list[Priced]" = field(default_factory=list)
    share: Fraction = Fraction(0)

    @property
    def shares(self) -> Iterator[Fraction]:
        """The share of each charge or leak inside, in the order of ``entries``."""
        if isinstance(self.entry, Scope):
            for part in self.parts:
                yield from part.shares
        else:
            yield self.share


def priced(entry: Entry, accountant: Accountant, counted: bool = False) -> Priced:
    """The entry with its cost and its entries' costs; with ``counted``, infinite amounts count as 0."""
    if not isinstance(entry, Scope):
        cost = _amount(entry)
        return Priced(entry, Fraction(0) if counted and math.isinf(cost) else cost)
    parts = [priced(child, accountant, counted) for child in entry.children]
    return Priced(entry, outside(entry, joined(entry.kind, [part.cost for part in parts]), accountant), parts)


def shared(books: Iterable[tuple[Scope, Accountant]], counted: bool = False) -> list[Priced]:
    """The root of each book with its share of the ledger's loss, down to charges; books add up to 1.

    Entries of a scope have shares in proportion to their costs. With ``counted`` infinite amounts count as 0, and in a
    parallel scope the first of the largest entries has the whole share, since the others add nothing to the loss.
    """
    books = list(books)
    roots = [priced(root, accountant, counted) for root, accountant in books]
    losses = [accountant.epsilon_of(rounded(root.cost)) for root, (_, accountant) in zip(roots, books, strict=True)]
    for root, share in zip(roots, divided(Fraction(1), losses), strict=True):
        _give(root, share, counted)
    return roots


def _give(part: Priced, share: Fraction, counted: bool) -> None:
    """Set the share of an entry, and divide it among the entries inside."""
    part.share, costs = share, [inner.cost for inner in part.parts]
    if counted and costs and isinstance(part.entry, Scope) and part.entry.kind == "parallel":
        first = next(index for index, cost in enumerate(costs) if cost >= SAME * max(costs))
        costs = [Fraction(index == first) for index in range(len(costs))]
    for inner, own in zip(part.parts, divided(share, costs), strict=True):
        _give(inner, own, counted)


def divided(share: Fraction, costs: Sequence[Cost]) -> list[Fraction]:
    """Parts of a share in proportion to costs; equal parts where their sum is infinite or 0."""
    total = joined("sequential", costs)
    if not total or math.isinf(total):
        return [share / len(costs) for _ in costs]
    return [share * Fraction(cost) / Fraction(total) for cost in costs]


def _amount(entry: Charge | Leak) -> Cost:
    return entry.amount if math.isinf(entry.amount) else exact(entry.amount)
