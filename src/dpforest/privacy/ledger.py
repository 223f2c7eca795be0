"""The ledger: books of charges, each a tree of scopes. Public values only.

A book has an accountant, and so a unit; most ledgers have one book. Books add up by basic composition. A scope says how the
charges inside it add up:

    sequential   the sum, times ``copies`` (several steps on the same records)
    parallel     the largest (each child is about other records)
    bootstrap    exp(sum) - 1 (a step on a Poisson(1) bootstrap of the records)

Charges are what one record loses. ``epsilon`` and ``spent`` are about the protected unit, which has at most ``rows``
records.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpforest.errors import AccountingError, BudgetError
from dpforest.privacy.accountants import Accountant, make_accountant
from dpforest.privacy.amounts import exact, round_up

KINDS = ("sequential", "parallel", "bootstrap")


@dataclass(frozen=True)
class Charge:
    """One release: what it was for, the mechanism that ran, and what it cost in the ledger's unit."""

    label: str
    mechanism: str
    amount: float


@dataclass(frozen=True)
class Leak:
    """An exact value that was opened without a mechanism. Its cost is infinite."""

    label: str
    reason: str
    amount: float = math.inf
    mechanism: str = "none"


@dataclass
class Scope:
    """Charges and scopes that belong together."""

    label: str
    kind: str = "sequential"
    copies: int = 1
    children: "list[Charge | Leak | Scope]" = field(default_factory=list)
    # The cost once the scope is closed, and that of its first children, so that a long fit does not add up all charges at
    # each new one.
    known: "Fraction | float | None" = field(default=None, compare=False, repr=False)
    settled: "Fraction | float" = field(default=Fraction(0), compare=False, repr=False)
    n_settled: int = field(default=0, compare=False, repr=False)


@dataclass
class Book:
    """Charges in the unit of one accountant."""

    accountant: Accountant
    root: Scope = field(default_factory=lambda: Scope("fit"))

    @property
    def total(self) -> float:
        """The sum of the charges, in the accountant's unit; rounded up."""
        cost = _cost(self.root, self.accountant)
        return cost if isinstance(cost, float) else round_up(cost)


class Ledger:
    """Every charge of one fit, checked against the budget before it is made.

    Privacy:
        Claim: what was charged covers what was released, and never passes the budget.
        Because: the gate charges before it draws; amounts are the decimals of floats, which mechanisms run at
            (``amounts.exact``), and their sums exact fractions; a charge that would
            pass the budget raises ``BudgetError`` and is not entered. Parallel scopes are opened by
            samplings and stages, which prove that their children are about different records.
            Books: whatever was released before, a book's releases are (e, d)-DP for its own e and d, so together they
            are (sum of e, sum of d)-DP; which accountant a later book has may depend on earlier releases, since
            each outcome of those leads to a book within what was left. A pure book leaves what it did not spend: its loss is
            bounded for each outcome. One with delta takes all that it may spend.
        Assumes: nothing is released but through the gate.
    """

    def __init__(self, accountant: Accountant) -> None:
        self.epsilon, self.delta, self.rows = accountant.epsilon, accountant.delta, accountant.rows
        self.books: list[Book] = []
        self.n_charges = 0  # made by this object
        self.proof = ""  # who proved that the charges cover what is released, in words
        self._open_book(Book(accountant))

    def _open_book(self, book: Book) -> None:
        self.books.append(book)
        self._open = [book.root]

    def begin(self, accountant: Accountant) -> None:
        """Charges from now on are in a new book, within what the others have left; a book without charges is dropped."""
        if len(self._open) > 1:
            raise AccountingError(f"A new book cannot begin inside the scope {self._open[-1].label!r}.")
        if accountant.rows != self.rows:
            raise AccountingError(f"A new book is about {accountant.rows} rows of a person, the ledger about {self.rows}.")
        books = [book for book in self.books if book.root.children]
        for unit, taken, asked, most in (
            ("epsilon", sum(map(_taken, books), Fraction(0)), accountant.epsilon, self.epsilon),
            ("delta", sum((exact(book.accountant.delta) for book in books), Fraction(0)), accountant.delta, self.delta),
        ):
            if taken + exact(asked) > exact(most):
                raise BudgetError.over("a new book", asked, float(exact(most) - taken), most, unit)
        self.books = books
        self._open_book(Book(accountant))

    @property
    def accountant(self) -> Accountant:
        """That of the open book."""
        return self.books[-1].accountant

    @property
    def root(self) -> Scope:
        """That of the open book."""
        return self.books[-1].root

    @property
    def open_scopes(self) -> tuple[Scope, ...]:
        """From the root of the open book to where charges are now entered."""
        return tuple(self._open)

    @property
    def unit(self) -> str:
        """``epsilon`` or ``rho``, for the open book."""
        return self.accountant.unit

    @property
    def total(self) -> float:
        """The sum of the charges of the open book, in its unit; rounded up."""
        return self.books[-1].total

    @property
    def spent(self) -> float:
        """The total loss of the protected unit as epsilon, at the ledger's delta; rounded up."""
        losses = [book.accountant.epsilon_of(book.total) for book in self.books]
        return math.inf if math.inf in losses else round_up(sum(map(exact, losses), Fraction(0)))

    @property
    def leaks(self) -> list[Leak]:
        return [entry for book in self.books for _, entry in _walk(book.root, ()) if isinstance(entry, Leak)]

    @property
    def n_entries(self) -> int:
        return sum(1 for book in self.books for _ in _walk(book.root, ()))

    def entries(self) -> list[dict[str, Any]]:
        """One row for each charge: label, mechanism, epsilon or rho of a record, scope."""
        return [
            {
                "label": entry.label,
                "mechanism": entry.mechanism,
                book.accountant.unit: entry.amount,
                "scope": " / ".join(path),
            }
            for book in self.books
            for path, entry in _walk(book.root, ())
        ]

    @contextmanager
    def scope(self, label: str, kind: str = "sequential", copies: int = 1) -> Iterator[Scope]:
        """Charges made inside belong to a new scope. They stay when the block fails."""
        if kind not in KINDS or copies < 1:
            raise AccountingError(f"A scope is one of {KINDS} with at least 1 copy, not {kind!r} with {copies}.")
        scope = Scope(label, kind, copies)
        self._open[-1].children.append(scope)
        self._open.append(scope)
        try:
            yield scope
        finally:
            self._open.pop()
            scope.known = _cost(scope, self.accountant, with_leaks=False)
            _settle(self._open[-1], self.accountant)

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Charges made inside belong to a scope of this ledger that was opened before."""
        if not any(found is scope for found in _scopes(self.root)):
            raise AccountingError(f"The scope {scope.label!r} is not in this ledger; its charges would count nowhere.")
        for found in _scopes(self.root):
            found.known, found.settled, found.n_settled = None, Fraction(0), 0
        self._open.append(scope)
        try:
            yield
        finally:
            self._open.pop()

    def charge(self, label: str, mechanism: str, amount: float) -> None:
        """Enter a charge, or raise ``BudgetError`` and enter nothing."""
        if not amount >= 0:
            raise AccountingError(f"'{label}' asks for {self.unit} = {amount!r}; an amount is at least 0.")
        children, budget = self._open[-1].children, self.accountant.budget
        children.append(Charge(label, mechanism, amount))
        try:
            fits = math.isinf(budget) or self._charged() <= exact(budget)
        except Exception:
            children.pop()
            raise
        if not fits:
            children.pop()
            left = exact(budget) - Fraction(self._charged())
            raise BudgetError.over(label, amount, float(left), budget, self.unit)
        self.n_charges += 1
        _settle(self._open[-1], self.accountant)

    def _charged(self) -> Fraction | float:
        """The sum of all charges; leaks, which have no bound, are left out."""
        return _cost(self.root, self.accountant, with_leaks=False)

    def leak(self, label: str, reason: str) -> None:
        """Enter an exact value that is opened without a mechanism: the total becomes infinite."""
        self._open[-1].children.append(Leak(label, reason))

    def __eq__(self, other: object) -> bool:
        names = ("epsilon", "delta", "rows", "books", "proof")
        return isinstance(other, Ledger) and all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ledger(spent={self.spent:.6g}, charges={len(self.entries())})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "epsilon": _number(self.epsilon),
            "delta": self.delta,
            "rows_of_unit": self.rows,
            "spent": _number(self.spent),
            "proof": self.proof,
            "books": [
                {
                    "epsilon": _number(book.accountant.epsilon),
                    "delta": book.accountant.delta,
                    "unit": book.accountant.unit,
                    "root": _scope_to_dict(book.root),
                }
                for book in self.books
            ],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "Ledger":
        rows = content.get("rows_of_unit", 1)
        ledger = cls(make_accountant(float(content["epsilon"]), content["delta"], rows))
        ledger.books, ledger.proof = [], content.get("proof", "")
        for book in content["books"]:
            accountant = make_accountant(float(book["epsilon"]), book["delta"], rows)
            ledger._open_book(Book(accountant, _scope_from_dict(book["root"])))
        if not ledger.books:
            raise ValueError("A ledger has at least one book.")
        return ledger

    @classmethod
    def from_json(cls, text: str) -> "Ledger":
        return cls.from_dict(json.loads(text))


def _taken(book: Book) -> Fraction:
    """The epsilon that later books cannot have."""
    accountant = book.accountant
    return exact(accountant.epsilon if accountant.delta else accountant.epsilon_of(book.total))


def _cost(entry: Charge | Leak | Scope, accountant: Accountant, with_leaks: bool = True) -> Fraction | float:
    """Exact cost; ``math.inf`` as soon as one part is infinite."""
    if isinstance(entry, Leak) and not with_leaks:
        return Fraction(0)
    if not isinstance(entry, Scope):
        return entry.amount if math.isinf(entry.amount) else exact(entry.amount)
    if entry.known is not None and not with_leaks:
        return entry.known
    if not entry.children:
        return Fraction(0)
    settled, n_settled = (Fraction(0), 0) if with_leaks else (entry.settled, entry.n_settled)
    costs = [settled, *(_cost(child, accountant, with_leaks) for child in entry.children[n_settled:])]
    if math.inf in costs:
        return math.inf
    if entry.kind == "parallel":
        return max(costs)
    total = sum((Fraction(cost) for cost in costs), Fraction(0))
    if entry.kind == "bootstrap":
        outside = accountant.bootstrap(round_up(total))
        if math.isinf(outside):
            return math.inf
        total = exact(outside)
    return entry.copies * total


def _settle(scope: Scope, accountant: Accountant) -> None:
    """Add up the first children of a scope whose costs can no longer change."""
    while scope.n_settled < len(scope.children):
        child = scope.children[scope.n_settled]
        if isinstance(child, Scope) and child.known is None:
            return
        costs = (scope.settled, _cost(child, accountant, with_leaks=False))
        scope.settled = (
            max(costs) if scope.kind == "parallel" or math.inf in costs else Fraction(costs[0]) + Fraction(costs[1])
        )
        scope.n_settled += 1


def _walk(scope: Scope, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Charge | Leak]]:
    path = (*path, scope.label)
    for child in scope.children:
        if isinstance(child, Scope):
            yield from _walk(child, path)
        else:
            yield path, child


def _scopes(scope: Scope) -> Iterator[Scope]:
    yield scope
    for child in scope.children:
        if isinstance(child, Scope):
            yield from _scopes(child)


def _number(value: float) -> float | str:
    """JSON has no infinity."""
    return value if math.isfinite(value) else "inf"


def _scope_to_dict(scope: Scope) -> dict[str, Any]:
    return {
        "scope": scope.label,
        "kind": scope.kind,
        "copies": scope.copies,
        "children": [_entry_to_dict(child) for child in scope.children],
    }


def _entry_to_dict(entry: Charge | Leak | Scope) -> dict[str, Any]:
    if isinstance(entry, Scope):
        return _scope_to_dict(entry)
    if isinstance(entry, Leak):
        return {"leak": entry.label, "reason": entry.reason}
    return {"charge": entry.label, "mechanism": entry.mechanism, "amount": _number(entry.amount)}


def _scope_from_dict(content: dict[str, Any]) -> Scope:
    if content["kind"] not in KINDS:
        raise ValueError(f"A scope is one of {KINDS}.")
    children = [_entry_from_dict(child) for child in content["children"]]
    return Scope(content["scope"], content["kind"], int(content["copies"]), children)


def _entry_from_dict(content: dict[str, Any]) -> Charge | Leak | Scope:
    if "scope" in content:
        return _scope_from_dict(content)
    if "leak" in content:
        return Leak(content["leak"], content["reason"])
    return Charge(content["charge"], content["mechanism"], float(content["amount"]))
