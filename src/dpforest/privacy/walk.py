"""The walk through a ledger: the only place that says how costs compose and how a loss is shared out. Public values only."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpforest.privacy.accountants import Accountant
from dpforest.privacy.amounts import exact, round_up
from dpforest.privacy.events import Charge, Entry, Leak, Scope

Cost = Fraction | float  # exact; a float where it is infinite
# Scopes in parallel cost the same but for rounding.
SAME = 1 - Fraction(1, 10**9)


def joined(kind: str, costs: Iterable[Cost]) -> Cost:
    """What the parts of a scope cost together, seen from inside; some of them may be joined before the others."""
    costs = list(costs)
    if math.inf in costs or kind == "parallel":
        return max(costs, default=Fraction(0))
    return sum((Fraction(cost) for cost in costs), Fraction(0))


def outside(scope: Scope, inside: Cost, accountant: Accountant) -> Cost:
    """What a scope costs whose parts cost ``inside`` together."""
    if scope.kind == "bootstrap" and inside and not math.isinf(inside):
        inside = accountant.bootstrap(rounded(inside))
        inside = inside if math.isinf(inside) else exact(inside)
    return scope.copies * inside


def rounded(cost: Cost) -> float:
    """A cost as a float, rounded up."""
    return cost if isinstance(cost, float) else round_up(cost)


def charged(entry: Entry, accountant: Accountant) -> Cost:
    """The cost of an entry without leaks, which have no bound; what was settled before is not added up again."""
    if not isinstance(entry, Scope):
        return Fraction(0) if isinstance(entry, Leak) else _amount(entry)
    if entry.known is not None:
        return entry.known
    costs = (charged(child, accountant) for child in entry.children[entry.n_settled :])
    return outside(entry, joined(entry.kind, [entry.settled, *costs]), accountant)


def settle(scope: Scope, accountant: Accountant) -> None:
    """Join the costs of the first children of a scope that can no longer change."""
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
    """The scope and all inside it."""
    yield scope
    for child in scope.children:
        if isinstance(child, Scope):
            yield from scopes(child)


@dataclass
class Priced:
    """An entry with its cost and its share of the whole loss, and so all that is in it."""

    entry: Entry
    cost: Cost
    parts: "list[Priced]" = field(default_factory=list)
    share: Fraction = Fraction(0)

    @property
    def shares(self) -> Iterator[Fraction]:
        """Those of charges and leaks, in the order of ``entries``."""
        if isinstance(self.entry, Scope):
            for part in self.parts:
                yield from part.shares
        else:
            yield self.share


def priced(entry: Entry, accountant: Accountant, counted: bool = False) -> Priced:
    """An entry with all costs; with ``counted``, infinite ones are left out."""
    if not isinstance(entry, Scope):
        cost = _amount(entry)
        return Priced(entry, Fraction(0) if counted and math.isinf(cost) else cost)
    parts = [priced(child, accountant, counted) for child in entry.children]
    return Priced(entry, outside(entry, joined(entry.kind, [part.cost for part in parts]), accountant), parts)


def shared(books: Iterable[tuple[Scope, Accountant]], counted: bool = False) -> list[Priced]:
    """The books of a ledger with their shares of its loss, which add up to 1.

    With ``counted``, of parts in parallel one of the largest has the share of all, since the others add nothing to the
    loss, and infinite costs are left out; else parts in parallel have shares by their costs as others have.
    """
    books = list(books)
    roots = [priced(root, accountant, counted) for root, accountant in books]
    losses = [accountant.epsilon_of(rounded(root.cost)) for root, (_, accountant) in zip(roots, books, strict=True)]
    for root, share in zip(roots, divided(Fraction(1), losses), strict=True):
        _give(root, share, counted)
    return roots


def _give(part: Priced, share: Fraction, counted: bool) -> None:
    part.share, costs = share, [inner.cost for inner in part.parts]
    if counted and costs and isinstance(part.entry, Scope) and part.entry.kind == "parallel":
        first = next(index for index, cost in enumerate(costs) if cost >= SAME * max(costs))
        costs = [Fraction(index == first) for index in range(len(costs))]
    for inner, own in zip(part.parts, divided(share, costs), strict=True):
        _give(inner, own, counted)


def divided(share: Fraction, costs: Sequence[Cost]) -> list[Fraction]:
    """A share in proportion to costs; in equal parts where these have no end, or are 0."""
    total = joined("sequential", costs)
    if not total or math.isinf(total):
        return [share / len(costs) for _ in costs]
    return [share * Fraction(cost) / Fraction(total) for cost in costs]


def _amount(entry: Charge | Leak) -> Cost:
    return entry.amount if math.isinf(entry.amount) else exact(entry.amount)
